//! Numbers out of structures on a disk, with every access checked.

use crate::read_at::{LayoutError, ReadAt};

/// A structure that was read from a device: its bytes, and what to say when it is too short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    file_system: &'static str,
    device_offset: u64,
    bytes: &'a [u8],
}

macro_rules! number {
    ($name:ident, $type:ty, $convert:ident, $of:literal) => {
        #[doc = concat!("The ", $of, " number at `at`.")]
        #[allow(dead_code, reason = "a set of accessors; file systems use what they need")]
        pub(crate) fn $name(&self, at: usize) -> Result<$type, LayoutError> {
            Ok(<$type>::$convert(self.array(at)?))
        }
    };
}

#[allow(dead_code, reason = "a set of accessors; file systems use what they need")]
impl<'a> Fields<'a> {
    /// `bytes`, which were read at `device_offset`.
    pub(crate) fn new(file_system: &'static str, device_offset: u64, bytes: &'a [u8]) -> Self {
        Self { file_system, device_offset, bytes }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Where it lies on the device.
    pub(crate) fn device_offset(&self) -> u64 {
        self.device_offset
    }

    /// A part of it.
    pub(crate) fn slice(&self, at: usize, length: usize) -> Result<Fields<'a>, LayoutError> {
        let bytes = at.checked_add(length).and_then(|end| self.bytes.get(at..end));
        let bytes = bytes.ok_or_else(|| self.damaged(at, "a structure goes beyond its block"))?;
        Ok(Self { bytes, device_offset: self.device_offset + at as u64, ..*self })
    }

    /// The error that what stands at `at` does not fit.
    pub(crate) fn damaged(&self, at: usize, reason: impl Into<String>) -> LayoutError {
        LayoutError::Damaged {
            file_system: self.file_system,
            offset: self.device_offset.saturating_add(at as u64),
            reason: reason.into(),
        }
    }

    /// The byte at `at`.
    pub(crate) fn u8(&self, at: usize) -> Result<u8, LayoutError> {
        Ok(self.array::<1>(at)?[0])
    }

    /// `N` bytes at `at`.
    pub(crate) fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], LayoutError> {
        let part = self.slice(at, N)?.bytes;
        Ok(part.try_into().expect("the slice has the length that was asked for"))
    }

    number!(u16_le, u16, from_le_bytes, "little-endian 16-bit");
    number!(u32_le, u32, from_le_bytes, "little-endian 32-bit");
    number!(u64_le, u64, from_le_bytes, "little-endian 64-bit");
    number!(u16_be, u16, from_be_bytes, "big-endian 16-bit");
    number!(u32_be, u32, from_be_bytes, "big-endian 32-bit");
    number!(u64_be, u64, from_be_bytes, "big-endian 64-bit");
}

/// Reads `length` bytes at `offset`, at most 64 MiB: no structure of any of the file systems is larger, and a damaged
/// length must not take the machine's memory.
///
/// # Errors
/// When the device cannot be read there, or the length is larger.
pub(crate) fn read_bytes(device: &dyn ReadAt, offset: u64, length: usize) -> Result<Vec<u8>, LayoutError> {
    if length > 64 << 20 {
        let source = std::io::Error::other(format!("a structure of {length} bytes is too large to be valid"));
        return Err(LayoutError::Io { offset, source });
    }
    let mut bytes = vec![0; length];
    device.read_at(offset, &mut bytes).map_err(|source| LayoutError::Io { offset, source })?;
    Ok(bytes)
}
