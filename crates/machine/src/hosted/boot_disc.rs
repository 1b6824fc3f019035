//! The disc that a machine boots from: kernel, initramfs and command line behind the boot loader ISOLINUX, for no hosted hypervisor takes them as
//! they are.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::tool::Tool;
use crate::refusal::{Cause, Refusal};

/// Makes discs.
pub const XORRISO: &str = "xorriso";

/// The parts of the boot loader, and the Debian packages that have them.
pub const LOADER: [(&str, &str); 2] = [
    ("/usr/lib/ISOLINUX/isolinux.bin", "isolinux"),
    ("/usr/lib/syslinux/modules/bios/ldlinux.c32", "syslinux-common"),
];

/// The longest command line that ISOLINUX hands on (`MAX_CMDLINE_LEN` in core/ of syslinux is 2048 with the final zero).
const LONGEST_COMMAND_LINE: usize = 2047;

/// What a disc is made of.
pub struct Contents<'a> {
    /// The kernel.
    pub kernel: &'a Path,
    /// Its initramfs.
    pub initramfs: &'a Path,
    /// Its command line.
    pub command_line: &'a str,
}

/// Makes the disc `out`; `directory` is made for what is on it.
///
/// # Errors
/// A part of the boot loader or the program that makes discs is not installed, or there is no room.
pub fn make(contents: &Contents<'_>, directory: &Path, out: &Path, tool: &Tool<'_>) -> Result<(), Refusal> {
    if contents.command_line.len() > LONGEST_COMMAND_LINE {
        let message = format!("the kernel's command line is longer than {LONGEST_COMMAND_LINE} bytes");
        return Err(Refusal::new(Cause::NotSupported, message));
    }
    require_loader()?;
    let failed = |e: io::Error| {
        Refusal::of_io(
            &format!("the files of the boot disc could not be put into {}", directory.display()),
            &e,
        )
    };
    fs::create_dir(directory).map_err(failed)?;
    let initramfs = directory.join("initrd");
    compress(contents.initramfs, &initramfs).map_err(failed)?;
    for (path, name) in files(contents) {
        symlink(path, directory.join(name)).map_err(failed)?;
    }
    fs::write(directory.join("isolinux.cfg"), settings(contents.command_line)).map_err(failed)?;
    tool.other(&arguments(directory, out))
}

/// Whether all of the boot loader is there.
///
/// # Errors
/// What is missing, with its package.
pub fn require_loader() -> Result<(), Refusal> {
    let Some((path, package)) = LOADER.into_iter().find(|(path, _)| !Path::new(path).is_file()) else {
        return Ok(());
    };
    let cause = Cause::NotInstalled { program: package.to_owned() };
    Err(Refusal::new(cause, format!("{path} is not installed on this machine: apt-get install {package}")))
}

/// A BIOS reads a disc slowly, in small pieces, and the kernel unpacks what is compressed.
fn compress(file: &Path, out: &Path) -> io::Result<()> {
    let mut encoder = GzEncoder::new(File::create(out)?, Compression::fast());
    io::copy(&mut File::open(file)?, &mut encoder)?;
    encoder.finish().map(drop)
}

/// Files and their names on the disc, short as those of ISO 9660.
fn files(contents: &Contents<'_>) -> [(PathBuf, &'static str); 3] {
    [
        (PathBuf::from(LOADER[0].0), "isolinux.bin"),
        (PathBuf::from(LOADER[1].0), "ldlinux.c32"),
        (contents.kernel.to_owned(), "vmlinuz"),
    ]
}

/// It asks nothing, waits for nothing, and writes to no serial port.
fn settings(command_line: &str) -> String {
    format!(
        "DEFAULT lab\nPROMPT 0\nTIMEOUT 0\nLABEL lab\n  KERNEL vmlinuz\n  INITRD initrd\n  APPEND {command_line}\n"
    )
}

/// As ISOLINUX's documentation has them; `-f` puts files on the disc in place of the links to them.
fn arguments(directory: &Path, out: &Path) -> Vec<String> {
    let words = [XORRISO, "-as", "mkisofs", "-quiet", "-f", "-o"].map(str::to_owned).into_iter();
    let boot =
        ["-b", "isolinux.bin", "-c", "boot.cat", "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table"];
    words
        .chain([out.display().to_string()])
        .chain(boot.map(str::to_owned))
        .chain([directory.display().to_string()])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::process::Spawner;

    /// Needs xorriso and ISOLINUX.
    #[test]
    fn the_disc_has_what_the_boot_loader_asks_for() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let has_xorriso = std::process::Command::new(XORRISO).arg("-version").output().is_ok();
        if require_loader().is_err() || !has_xorriso {
            nestor_terminal::errln!("not tried: xorriso or isolinux is not installed");
            return;
        }
        fs::write(at("kernel"), "the kernel").unwrap();
        fs::write(at("archive"), "the initramfs").unwrap();
        let (kernel, initramfs) = (at("kernel"), at("archive"));
        let contents = Contents { kernel: &kernel, initramfs: &initramfs, command_line: "quiet a=b" };
        let spawner = Spawner::new();
        let tool = Tool::for_tests("none", directory.path(), &spawner);
        make(&contents, &at("disc"), &at("boot.iso"), &tool).unwrap();
        let disc = fs::read(at("boot.iso")).unwrap();
        for text in ["the kernel", "APPEND quiet a=b", "vmlinuz.;1", "initrd.;1", "EL TORITO SPECIFICATION"] {
            assert!(disc.windows(text.len()).any(|part| part == text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_command_line_that_would_be_cut_short_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let spawner = Spawner::new();
        let tool = Tool::for_tests("none", directory.path(), &spawner);
        let none = Path::new("/none");
        let contents = Contents { kernel: none, initramfs: none, command_line: &"x".repeat(2048) };
        let refused = make(&contents, &directory.path().join("disc"), none, &tool).unwrap_err();
        assert!(refused.message.contains("2047"), "{refused}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
