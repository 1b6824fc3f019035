//! The lab image.

mod cpio;
mod initramfs;
mod modules;
mod recipe;
mod sources;

pub use cpio::CpioWriter;
pub use initramfs::initramfs;
