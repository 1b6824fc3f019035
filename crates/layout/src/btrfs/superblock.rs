//! `struct btrfs_super_block` of `fs/btrfs/fs.h`.

use super::NAME;
use super::tree::Root;
use crate::fields::{Fields, read_bytes};
use crate::read_at::{LayoutError, ReadAt};

/// `BTRFS_SUPER_INFO_OFFSET`.
pub(super) const PRIMARY: u64 = 64 << 10;

/// `BTRFS_SUPER_INFO_SIZE`.
pub(super) const BYTES: u64 = 4096;

/// `btrfs_sb_offset`: the superblock and its copies.
const MIRRORS: [u64; 3] = [PRIMARY, 64 << 20, 256 << 30];

/// `BTRFS_MAGIC`.
pub(super) const MAGIC: &[u8] = b"_BHRfS_M";
pub(super) const MAGIC_AT: usize = 0x40;

/// `BTRFS_SYSTEM_CHUNK_ARRAY_SIZE` and where it begins.
const SYSTEM_CHUNKS_AT: usize = 0x32b;
const SYSTEM_CHUNKS_MAX: usize = 2048;

/// `BTRFS_FEATURE_INCOMPAT_…` that change nothing in how a layout is read: mixed backrefs, default subvolume, mixed
/// groups, LZO, ZSTD, big metadata, extended references, RAID56, skinny metadata, no holes, metadata UUID, RAID1C34,
/// simple quotas.
const UNDERSTOOD: u64 = 0xfff | 1 << 16;

/// Features that do, by their bit.
const NOT_UNDERSTOOD: [(u32, &str); 3] =
    [(12, "zones (zoned)"), (13, "the second form of the extent tree"), (14, "the RAID stripe tree")];

/// What is needed of the superblock.
#[derive(Clone, Debug)]
pub(super) struct Superblock {
    file_system_id: [u8; 16],
    generation: u64,
    /// `sectorsize`: the allocation block of data.
    pub(super) sector_bytes: u64,
    /// `nodesize`.
    pub(super) node_bytes: u64,
    /// Bytes of this device that the file system uses.
    pub(super) device_bytes: u64,
    /// Which of the file system's devices this is.
    pub(super) device_id: u64,
    /// How many there are.
    pub(super) devices: u64,
    /// The tree of roots.
    pub(super) roots: Root,
    /// The tree of chunks.
    pub(super) chunks: Root,
    /// The tree of the roots of log trees, if something was logged since the last commit.
    pub(super) logs: Option<Root>,
    /// `sys_chunk_array`: the chunks that the tree of chunks lies in.
    pub(super) system_chunks: Vec<u8>,
}

/// Where superblocks are on a device of that size.
pub(super) fn places(device_bytes: u64) -> impl Iterator<Item = u64> {
    MIRRORS.into_iter().filter(move |place| place + BYTES <= device_bytes)
}

impl Superblock {
    /// The newest valid one. The first counts if it is valid; a copy only if it is of the same file system, for mkfs
    /// on a smaller device leaves those behind it as they were.
    pub(super) fn newest(device: &dyn ReadAt) -> Result<Self, LayoutError> {
        let size = device.bytes().map_err(|source| LayoutError::Io { offset: 0, source })?;
        let primary = Self::read(device, PRIMARY);
        let copies = places(size).skip(1).filter_map(|place| Self::read(device, place).ok());
        let first = match &primary {
            Ok(first) => first,
            Err(LayoutError::Unsupported { .. }) => return primary,
            Err(_) => return copies.max_by_key(|copy| copy.generation).map_or(primary, Ok),
        };
        let same = copies.filter(|copy| copy.file_system_id == first.file_system_id);
        let newest =
            same.filter(|copy| copy.generation > first.generation).max_by_key(|copy| copy.generation);
        newest.map_or(primary, Ok)
    }

    fn read(device: &dyn ReadAt, place: u64) -> Result<Self, LayoutError> {
        let bytes = read_bytes(device, place, BYTES as usize)?;
        let fields = Fields::new(NAME, place, &bytes);
        if fields.slice(MAGIC_AT, MAGIC.len())?.bytes() != MAGIC {
            return Err(fields.damaged(MAGIC_AT, "the superblock is missing"));
        }
        // The other three checksums that may be in use are not worth a library for one block; the kernel knows them.
        const CRC32C: u16 = 0;
        if fields.u16_le(0xc4)? == CRC32C && fields.u32_le(0)? != crc32c(&bytes[32..]) {
            return Err(fields.damaged(0, "the superblock's checksum does not match"));
        }
        if fields.u64_le(0x30)? != place {
            return Err(fields.damaged(0x30, "the superblock gives another address"));
        }
        Self::parse(&fields)
    }

    fn parse(fields: &Fields<'_>) -> Result<Self, LayoutError> {
        refuse_features(fields.u64_le(0xbc)?)?;
        let size = |at, smallest| {
            let bytes = u64::from(fields.u32_le(at)?);
            // Bounds of `btrfs_validate_super`.
            let fits = bytes.is_power_of_two() && (smallest..=65536).contains(&bytes);
            if fits {
                Ok(bytes)
            } else {
                Err(fields.damaged(at, format!("{bytes} is not a valid block size")))
            }
        };
        let root = |at, level_at, generation| -> Result<Root, LayoutError> {
            Ok(Root { address: fields.u64_le(at)?, level: fields.u8(level_at)?, generation })
        };
        let generation = fields.u64_le(0x48)?;
        let logs = root(0x60, 0xc8, generation.wrapping_add(1))?;
        let used = (fields.u32_le(0xa0)? as usize).min(SYSTEM_CHUNKS_MAX);
        Ok(Self {
            file_system_id: fields.array(0x20)?,
            generation,
            sector_bytes: size(0x90, 2048)?,
            node_bytes: size(0x94, 2048)?,
            device_id: fields.u64_le(0xc9)?,
            device_bytes: fields.u64_le(0xc9 + 8)?,
            devices: fields.u64_le(0x88)?,
            roots: root(0x50, 0xc6, generation)?,
            chunks: root(0x58, 0xc7, fields.u64_le(0xa4)?)?,
            logs: Some(logs).filter(|root| root.address != 0),
            system_chunks: fields.slice(SYSTEM_CHUNKS_AT, used)?.bytes().to_vec(),
        })
    }
}

fn refuse_features(incompatible: u64) -> Result<(), LayoutError> {
    let unsupported = |feature: String| LayoutError::Unsupported { file_system: NAME, feature };
    for (bit, name) in NOT_UNDERSTOOD {
        if incompatible & 1 << bit != 0 {
            return Err(unsupported(name.to_owned()));
        }
    }
    let unknown = incompatible & !UNDERSTOOD;
    if unknown != 0 {
        return Err(unsupported(format!(
            "a feature that this version does not know (incompatible feature bits {unknown:#x})"
        )));
    }
    Ok(())
}

/// CRC-32C (Castagnoli): the reflected polynomial of RFC 3720, appendix B.4.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let byte = |crc: u32, byte: &u8| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 },
        )
    };
    !bytes.iter().fold(!0, byte)
}
