//! The arguments of `nestor lab`.

use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use nestor_stack::LabPack;

use super::plain_name;

/// `nestor lab …`
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Make the lab image, unless it is there
    Build {
        /// Print JSON: the image's files
        #[arg(long)]
        json: bool,
    },
    /// Make a lab image with more in it, for stacks that need that, unless it is there
    Pack {
        /// What it has besides
        #[arg(value_parser = lab_pack())]
        pack: LabPack,
        /// Print JSON: the image's files
        #[arg(long)]
        json: bool,
    },
    /// Add a kernel to the lab image under a name, by which file systems call it: ext4:kernel=NAME
    Kernel {
        /// Its name: letters, digits, `-`, `_`, `.`; a kernel that has it already is replaced
        #[arg(value_parser = plain_name)]
        name: String,
        /// A Debian package with a kernel (linux-image-RELEASE_….deb), or a kernel itself (bzImage)
        file: PathBuf,
        /// The modules of a kernel itself: …/lib/modules/RELEASE, as `make modules_install` makes it [default: none; all that machines
        /// need is built in]
        #[arg(long, value_name = "DIRECTORY")]
        modules: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Add a QEMU to the lab image under a name, by which virtual machines call it: kvm:qemu=NAME
    Qemu {
        /// Its name: letters, digits, `-`, `_`, `.`; a QEMU that has it already is replaced
        #[arg(value_parser = plain_name)]
        name: String,
        /// The program, qemu-system-x86_64; LD_LIBRARY_PATH names the directories of libraries that are not installed
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a file that is split into many extents
    #[command(hide = true)]
    ScatteredImage {
        /// The file; it must not exist.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
    },
    /// Show what the image contains
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

fn lab_pack() -> impl TypedValueParser<Value = LabPack> {
    PossibleValuesParser::new(LabPack::ALL.map(LabPack::name))
        .try_map(|name| LabPack::ALL.into_iter().find(|pack| pack.name() == name).ok_or("not a pack"))
}
