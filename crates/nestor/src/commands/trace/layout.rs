//! `nestor trace layout`: what the bytes of a device are for.

mod freeze;
mod frozen;
pub mod guard;
mod mounts;

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use clap::Args;
use nestor_layout::{Class, DirectDevice, Layout, ReadAt, read};
use nestor_text::units::ByteUnit;
use serde::Serialize;

use crate::interrupt::interrupted_by_signals;
use crate::output::{print_json, say, table};
use crate::whole_file;
use frozen::Frozen;

/// Arguments of `nestor trace layout`.
#[derive(Args, Debug)]
pub struct LayoutArguments {
    /// The block device, or a file with a file system in it
    #[arg(long, value_name = "DEVICE")]
    device: PathBuf,
    /// Where it is mounted: the file system is frozen while the device is read, so that the layout is consistent
    #[arg(long, value_name = "DIRECTORY")]
    mount: Option<PathBuf>,
    /// A file on it that is a virtual disk; its data is told apart from that of other files
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Write the layout here, for `nestor trace summarize` [default: print bytes by class]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON: bytes by class and remarks
    #[arg(long)]
    json: bool,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Printed<'a> {
    file_system: &'a str,
    block_bytes: u64,
    total_bytes: u64,
    extents: usize,
    classes: std::collections::BTreeMap<Class, u64>,
    images: Vec<Image>,
    remarks: &'a [String],
}

/// A file that is a virtual disk.
#[derive(Clone, Debug, Serialize)]
struct Image {
    path: PathBuf,
    inode: u64,
    bytes: u64,
    extents: usize,
}

/// Runs it.
///
/// # Errors
/// When the device cannot be read, has no file system that is known, or must not be frozen.
pub fn run(arguments: &LayoutArguments) -> Result<()> {
    let stop = interrupted_by_signals()?;
    // Before the freeze: whatever comes after must not wait for the file system.
    let inodes = image_inodes(arguments)?;
    let mut layout = read_layout(arguments, &stop)?;
    let images: Vec<Image> =
        arguments.image.iter().zip(inodes).map(|(path, inode)| image(&mut layout, path, inode)).collect();
    if let Some(empty) = images.iter().find(|image| image.bytes == 0) {
        layout.remarks.push(format!("the image file {} has no data in this layout", empty.path.display()));
    }
    if let Some(path) = &arguments.output {
        write(&layout, path)
            .with_context(|| format!("the layout could not be written to {}", path.display()))?;
    }
    let printed = Printed {
        file_system: &layout.file_system,
        block_bytes: layout.block_bytes,
        total_bytes: layout.total_bytes,
        extents: layout.extents.len(),
        classes: layout.summary(),
        images,
        remarks: &layout.remarks,
    };
    if arguments.json {
        return print_json(&printed);
    }
    if arguments.output.is_none() {
        say(&render(&printed, &layout));
    }
    Ok(())
}

/// The inodes of the image files, which have to be on the device.
fn image_inodes(arguments: &LayoutArguments) -> Result<Vec<u64>> {
    let device = std::fs::metadata(&arguments.device)
        .with_context(|| format!("the device {} cannot be used", arguments.device.display()))?;
    let mounted = match &arguments.mount {
        Some(mount) => {
            Some(mount.metadata().with_context(|| format!("{} cannot be read", mount.display()))?.dev())
        }
        None => None,
    };
    let inode = |path: &PathBuf| {
        let image =
            path.metadata().with_context(|| format!("the image file {} cannot be read", path.display()))?;
        if !image.is_file() {
            bail!(
                "{} is not a file; a virtual disk that is a device has no data in a file system",
                path.display()
            );
        }
        if image.dev() != mounted.unwrap_or(device.rdev()) {
            bail!("the image file {} is not on {}", path.display(), arguments.device.display());
        }
        if mounted.is_none() {
            // Data that is only in memory has no place yet. A freeze would have written it.
            File::open(path).and_then(|file| file.sync_all()).with_context(|| {
                format!("the cached data of the image file {} could not be written", path.display())
            })?;
        }
        Ok(image.ino())
    };
    arguments.image.iter().map(inode).collect()
}

/// Reads the layout, while the file system is frozen if it is known where it is mounted.
fn read_layout(arguments: &LayoutArguments, stop: &AtomicBool) -> Result<Layout> {
    let path = &arguments.device;
    let device =
        DirectDevice::open(path).with_context(|| format!("{} could not be opened", path.display()))?;
    let frozen = match &arguments.mount {
        Some(mount) => Some(Frozen::new(mount, path, arguments.output.as_deref())?),
        None => None,
    };
    let interruptible = Interruptible { device: &device, is_frozen: frozen.is_some(), stop };
    let result = read(&interruptible);
    let thawed = frozen.map_or(Ok(()), Frozen::thaw);
    let mut layout = result.with_context(|| format!("the layout of {} could not be read", path.display()))?;
    thawed?;
    if stop.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    if arguments.mount.is_none()
        && let Some(point) = mounts::written_to(path)
    {
        layout.remarks.push(format!(
            "{} is mounted at {} and was not frozen while its layout was read: name the mount point with \
             --mount",
            path.display(),
            point.display()
        ));
    }
    Ok(layout)
}

/// A device that cannot be read any more once a signal has come, so that a frozen file system thaws soon.
struct Interruptible<'a> {
    device: &'a DirectDevice,
    is_frozen: bool,
    stop: &'a AtomicBool,
}

impl ReadAt for Interruptible<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("interrupted"));
        }
        self.device.read_at(offset, buffer)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.device.bytes()
    }

    fn is_frozen(&self) -> bool {
        self.is_frozen
    }
}

fn image(layout: &mut Layout, path: &Path, inode: u64) -> Image {
    let bytes = layout.rename(inode, Class::ImageData);
    Image { path: path.to_owned(), inode, bytes, extents: layout.file(inode).len() }
}

fn write(layout: &Layout, path: &Path) -> io::Result<()> {
    let mut text = Vec::new();
    layout.write_to(&mut text)?;
    whole_file::write(path, &text)
}

fn render(printed: &Printed<'_>, layout: &Layout) -> String {
    let rows: Vec<[String; 3]> = printed
        .classes
        .iter()
        .map(|(class, bytes)| {
            let share = format!("{:.3} %", layout.share_of(*bytes) * 100.0);
            [class.to_string(), ByteUnit::KiB.whole(*bytes), share]
        })
        .collect();
    let mut text = format!(
        "{}, {} in blocks of {} bytes, {} extents\n\n",
        printed.file_system,
        ByteUnit::MiB.whole(printed.total_bytes),
        printed.block_bytes,
        printed.extents
    );
    text += &table(&["", "bytes", "share"], &rows);
    for image in &printed.images {
        let (path, size) = (image.path.display(), ByteUnit::KiB.whole(image.bytes));
        text += &format!("  image {path}: inode {}, {size} in {} extents\n", image.inode, image.extents);
    }
    for remark in printed.remarks {
        text += &format!("  {remark}\n");
    }
    text
}
