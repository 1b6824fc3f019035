//! What ext2, ext3 and ext4 have in common: mke2fs and the kernel's ext4 driver.
//!
//! # No deferred and no superfluous writes
//!
//! mke2fs of ext4 leaves inode tables unwritten, and a kernel thread zeroes them after the mount: I/O that no workload
//! asked for. mke2fs of ext2 and ext3 writes them at once, 256 MiB on 16 GiB. Both are avoided without a change of
//! layout: on a disk that reads as zeros, `assume_storage_prezeroed` (e2fsprogs 1.47.0) marks inode tables as zeroed
//! without writing them; on any other disk ext4 is mounted with `noinit_itable`, which stops that thread.
//! Discarding the device at mkfs stays on, as is mke2fs's default.

use super::{argv, written_mount_options};
use crate::{Bytes, Layer, MkfsTarget, OptionKind, OptionSpec, SizeRule};

/// Kernel modules: Debian's kernels serve ext2 and ext3 with the ext4 driver, which needs crc32c from the crypto API.
pub(super) const KERNEL_MODULES: &[&str] = &["crc32c_generic", "ext4"];

/// Debian packages.
pub(super) const PACKAGES: &[&str] = &["e2fsprogs"];

/// Found by trying mke2fs 1.47.0 on files of whole MiB.
pub(super) const MINIMUM_SIZE: Bytes = Bytes::mib(1);

/// Block size.
pub(super) const BLOCK: OptionSpec = OptionSpec {
    name: "block",
    summary: "block size (unset: mke2fs's choice, 4k from 512M on)",
    kind: OptionKind::Choice(&["1k", "2k", "4k"]),
    default: None,
};

/// Bytes per inode.
pub(super) const INODE_RATIO: OptionSpec = OptionSpec {
    name: "inode-ratio",
    summary: "bytes of the file system per inode (unset: mke2fs's choice, 16k from 512M on)",
    kind: OptionKind::Size { min: Bytes::kib(1), max: Bytes::mib(64), rule: SizeRule::MultipleOf(1) },
    default: None,
};

/// The mke2fs command for one of the three types, with features turned on or off.
pub(super) fn mke2fs(
    fs_type: &str,
    features: &[&str],
    layer: &Layer,
    target: &MkfsTarget<'_>,
) -> Vec<String> {
    let mut command = argv(["mke2fs", "-q", "-F", "-t", fs_type]);
    let mut push = |flag: &str, value: String| command.extend([flag.to_owned(), value]);
    if let Some(block) = layer.size("block") {
        push("-b", block.get().to_string());
    }
    if let Some(ratio) = layer.size("inode-ratio") {
        push("-i", ratio.get().to_string());
    }
    if !features.is_empty() {
        push("-O", features.join(","));
    }
    let mut extended: Vec<String> =
        target.zeroed.then(|| "assume_storage_prezeroed=1".to_owned()).into_iter().collect();
    if let Some(drawn) = target.drawn {
        push("-U", drawn.uuid.to_string());
        extended.push(format!("hash_seed={}", drawn.hash_seed));
    }
    if !extended.is_empty() {
        push("-E", extended.join(","));
    }
    command.push(target.device.to_owned());
    command
}

/// The mount option for the option `journal`, then `own`, then what is written in `mount`.
pub(super) fn mount_options(layer: &Layer, own: &[&str]) -> Vec<String> {
    let data = match layer.option("journal") {
        Some("writeback") => Some("data=writeback"),
        Some("data") => Some("data=journal"),
        _ => None,
    };
    let mut options = argv(data.into_iter().chain(own.iter().copied()));
    options.extend(written_mount_options(layer));
    options
}
