//! A virtio-blk request as it is in the guest's memory (virtio 1.2, 5.2.6).
//!
//! Nothing in it can be trusted. The layout of the pieces is free (virtio 1.2, 2.7.4): what the driver wrote is one
//! stream of bytes, a header of 16 and then data; what it expects is another, data and then one byte of status.

use virtio_bindings::bindings::virtio_blk::{
    VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
    VIRTIO_BLK_T_WRITE_ZEROES, VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP,
};
use vm_memory::{Bytes, GuestAddress};

use nestor_disk::model::SECTOR_BYTES;
pub use nestor_serving::GuestMemory;

const HEADER_BYTES: u32 = 16;
const RANGE_BYTES: u32 = 16;
/// Length of a disk's name in answer to `VIRTIO_BLK_T_GET_ID`.
pub const ID_BYTES: u32 = 20;

/// A piece of the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub address: GuestAddress,
    /// How long it is.
    pub bytes: u32,
}

/// One descriptor of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The memory it names.
    pub segment: Segment,
    /// The device may write to it (and not read).
    pub device_writes: bool,
}

/// What a well-formed request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Fill the data segments from `sector`.
    Read {
        /// First sector.
        sector: u64,
        /// Number of sectors, which is the length of the data segments.
        sectors: u32,
    },
    /// Store the data segments at `sector`.
    Write {
        /// First sector.
        sector: u64,
        /// Number of sectors, which is the length of the data segments.
        sectors: u32,
    },
    /// Everything written before onto the medium.
    Flush,
    /// Fill the data segments with the disk's name.
    GetId,
    /// Give back the room of a range.
    Discard {
        /// First sector.
        sector: u64,
        /// Number of sectors.
        sectors: u32,
    },
    /// Zero a range.
    WriteZeroes {
        /// First sector.
        sector: u64,
        /// Number of sectors.
        sectors: u32,
        /// Its room may be given back.
        unmap: bool,
    },
}

/// Why a request is answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not understood: `VIRTIO_BLK_S_UNSUPP`.
    Unsupported,
    /// Malformed or out of range: `VIRTIO_BLK_S_IOERR`.
    Invalid,
}

/// A request taken apart. Its buffers are reused from one request to the next.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// Where the data is or goes.
    pub data: Vec<Segment>,
    /// Where the status byte goes; a chain without room for one gets none.
    pub status: Option<GuestAddress>,
    readable: Vec<Segment>,
}

impl Parsed {
    /// Takes a chain of descriptors apart, for a disk of `disk_sectors`.
    ///
    /// # Errors
    /// How to refuse the request; [`Self::status`] is set if the chain has room for a status byte.
    pub fn parse(
        &mut self,
        pieces: impl Iterator<Item = Piece>,
        memory: &GuestMemory,
        disk_sectors: u64,
    ) -> Result<Command, Refusal> {
        self.collect(pieces)?;
        let header: [u8; HEADER_BYTES as usize] = self.read_front(memory)?;
        let kind = u32::from_le_bytes(header[0..4].try_into().expect("four bytes"));
        let sector = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
        match kind {
            VIRTIO_BLK_T_IN if self.readable.is_empty() => {
                let sectors = whole_sectors(&self.data)?;
                check_range(sector, sectors, disk_sectors)?;
                Ok(Command::Read { sector, sectors })
            }
            VIRTIO_BLK_T_OUT if self.data.is_empty() => {
                std::mem::swap(&mut self.data, &mut self.readable);
                let sectors = whole_sectors(&self.data)?;
                check_range(sector, sectors, disk_sectors)?;
                Ok(Command::Write { sector, sectors })
            }
            // The sector of a flush is reserved and data is not expected; neither does harm.
            VIRTIO_BLK_T_FLUSH => Ok(Command::Flush),
            VIRTIO_BLK_T_GET_ID if self.readable.is_empty() => Ok(Command::GetId),
            VIRTIO_BLK_T_DISCARD | VIRTIO_BLK_T_WRITE_ZEROES => self.parse_range(kind, memory, disk_sectors),
            VIRTIO_BLK_T_IN | VIRTIO_BLK_T_OUT | VIRTIO_BLK_T_GET_ID => Err(Refusal::Invalid),
            _ => Err(Refusal::Unsupported),
        }
    }

    /// Sorts the descriptors into what the device reads and what it writes, and finds the status byte.
    fn collect(&mut self, pieces: impl Iterator<Item = Piece>) -> Result<(), Refusal> {
        self.data.clear();
        self.readable.clear();
        self.status = None;
        let mut in_order = true;
        for Piece { segment, device_writes } in pieces {
            // Also against chains whose lengths together overflow: an empty piece says nothing.
            if segment.bytes == 0 {
                continue;
            }
            if device_writes {
                self.data.push(segment);
            } else {
                in_order &= self.data.is_empty();
                self.readable.push(segment);
            }
        }
        let last = self.data.last_mut().ok_or(Refusal::Invalid)?;
        last.bytes -= 1;
        self.status = last.address.0.checked_add(u64::from(last.bytes)).map(GuestAddress);
        if last.bytes == 0 {
            self.data.pop();
        }
        if in_order { Ok(()) } else { Err(Refusal::Invalid) }
    }

    /// Takes the first `N` bytes that the driver wrote.
    fn read_front<const N: usize>(&mut self, memory: &GuestMemory) -> Result<[u8; N], Refusal> {
        let mut bytes = [0; N];
        let mut filled = 0;
        let mut used = 0;
        for segment in &mut self.readable {
            let part = (segment.bytes as usize).min(N - filled);
            memory
                .read_slice(&mut bytes[filled..filled + part], segment.address)
                .map_err(|_| Refusal::Invalid)?;
            filled += part;
            segment.bytes -= part as u32;
            if segment.bytes > 0 {
                segment.address =
                    GuestAddress(segment.address.0.checked_add(part as u64).ok_or(Refusal::Invalid)?);
                break;
            }
            used += 1;
            if filled == N {
                break;
            }
        }
        self.readable.drain(..used);
        if filled == N { Ok(bytes) } else { Err(Refusal::Invalid) }
    }

    /// Discard and write-zeroes carry their range as data (virtio 1.2, 5.2.6.1); we announce one range a request.
    fn parse_range(
        &mut self,
        kind: u32,
        memory: &GuestMemory,
        disk_sectors: u64,
    ) -> Result<Command, Refusal> {
        let range: [u8; RANGE_BYTES as usize] = self.read_front(memory)?;
        if !self.readable.is_empty() {
            return Err(Refusal::Invalid);
        }
        let sector = u64::from_le_bytes(range[0..8].try_into().expect("eight bytes"));
        let sectors = u32::from_le_bytes(range[8..12].try_into().expect("four bytes"));
        let flags = u32::from_le_bytes(range[12..16].try_into().expect("four bytes"));
        let unmap = flags & VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP != 0;
        if flags & !VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP != 0 || (kind == VIRTIO_BLK_T_DISCARD && unmap) {
            return Err(Refusal::Unsupported);
        }
        check_range(sector, sectors, disk_sectors)?;
        Ok(match kind {
            VIRTIO_BLK_T_DISCARD => Command::Discard { sector, sectors },
            _ => Command::WriteZeroes { sector, sectors, unmap },
        })
    }
}

/// The pieces of a chain.
pub fn pieces<'a>(
    chain: virtio_queue::DescriptorChain<&'a GuestMemory>,
) -> impl Iterator<Item = Piece> + use<'a> {
    chain.map(|descriptor| Piece {
        segment: Segment { address: descriptor.addr(), bytes: descriptor.len() },
        device_writes: descriptor.is_write_only(),
    })
}

/// The length of the segments in sectors, if it is a whole number of them.
fn whole_sectors(segments: &[Segment]) -> Result<u32, Refusal> {
    let bytes: u64 = segments.iter().map(|s| u64::from(s.bytes)).sum();
    if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) {
        return Err(Refusal::Invalid);
    }
    u32::try_from(bytes / SECTOR_BYTES).map_err(|_| Refusal::Invalid)
}

fn check_range(sector: u64, sectors: u32, disk_sectors: u64) -> Result<(), Refusal> {
    match sector.checked_add(u64::from(sectors)) {
        Some(end) if end <= disk_sectors => Ok(()),
        _ => Err(Refusal::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MEMORY_BYTES: u64 = 1 << 16;
    const DISK_SECTORS: u64 = 1000;

    fn memory() -> GuestMemory {
        GuestMemory::from_ranges(&[(GuestAddress(0), MEMORY_BYTES as usize)]).unwrap()
    }

    fn piece(address: u64, bytes: u32, device_writes: bool) -> Piece {
        Piece { segment: Segment { address: GuestAddress(address), bytes }, device_writes }
    }

    fn parse(header: [u8; 16], chain: &[Piece]) -> (Result<Command, Refusal>, Parsed) {
        let memory = memory();
        memory.write_slice(&header, GuestAddress(0)).unwrap();
        let mut parsed = Parsed::default();
        let result = parsed.parse(chain.iter().copied(), &memory, DISK_SECTORS);
        (result, parsed)
    }

    fn header(kind: u32, sector: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[8..].copy_from_slice(&sector.to_le_bytes());
        bytes
    }

    #[test]
    fn the_layout_of_the_pieces_is_free() {
        // Header in two pieces, data of a write behind the header in one piece, status behind the data in one piece.
        let chain = [piece(0, 5, false), piece(5, 11, false), piece(4096, 512, true), piece(9000, 513, true)];
        let (command, parsed) = parse(header(VIRTIO_BLK_T_IN, 3), &chain);
        assert_eq!(command, Ok(Command::Read { sector: 3, sectors: 2 }));
        assert_eq!(parsed.status, Some(GuestAddress(9512)));
        assert_eq!(parsed.data.iter().map(|s| s.bytes).collect::<Vec<_>>(), [512, 512]);

        let (command, parsed) =
            parse(header(VIRTIO_BLK_T_OUT, 7), &[piece(0, 528, false), piece(600, 1, true)]);
        assert_eq!(command, Ok(Command::Write { sector: 7, sectors: 1 }));
        assert_eq!(parsed.data, [Segment { address: GuestAddress(16), bytes: 512 }]);
    }

    #[test]
    fn malformed_requests_are_refused_with_a_status_if_there_is_room_for_one() {
        let status = piece(600, 1, true);
        for (kind, chain, refusal) in [
            (VIRTIO_BLK_T_IN, vec![piece(0, 16, false)], Refusal::Invalid),
            (VIRTIO_BLK_T_IN, vec![piece(0, 16, false), status], Refusal::Invalid),
            (VIRTIO_BLK_T_IN, vec![status, piece(0, 16, false)], Refusal::Invalid),
            (VIRTIO_BLK_T_IN, vec![piece(0, 15, false), status], Refusal::Invalid),
            (VIRTIO_BLK_T_OUT, vec![piece(0, 16, false), piece(64, 512, true), status], Refusal::Invalid),
            (VIRTIO_BLK_T_DISCARD, vec![piece(0, 31, false), status], Refusal::Invalid),
            (77, vec![piece(0, 16, false), status], Refusal::Unsupported),
        ] {
            let (command, parsed) = parse(header(kind, 0), &chain);
            assert_eq!(command, Err(refusal), "{kind}: {chain:?}");
            assert_eq!(parsed.status.is_some(), chain.iter().any(|p| p.device_writes));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_chain_panics_and_what_is_accepted_lies_on_the_disk(
            kind in prop_oneof![0u32..16, any::<u32>()],
            sector in prop_oneof![0u64..1100, any::<u64>()],
            chain in prop::collection::vec(
                (
                    prop_oneof![0u64..MEMORY_BYTES, any::<u64>()],
                    prop_oneof![0u32..2048, any::<u32>()],
                    any::<bool>(),
                ),
                0..8,
            ),
            well_formed in any::<bool>(),
        ) {
            let mut pieces: Vec<Piece> = chain.iter().map(|(a, b, w)| piece(*a, *b, *w)).collect();
            if well_formed {
                pieces.insert(0, piece(0, 16, false));
                pieces.sort_by_key(|p| p.device_writes);
                pieces.push(piece(MEMORY_BYTES - 1, 1, true));
            }
            let (command, parsed) = parse(header(kind, sector), &pieces);
            let data_bytes: u64 = parsed.data.iter().map(|s| u64::from(s.bytes)).sum();
            match command {
                Ok(Command::Read { sector, sectors } | Command::Write { sector, sectors }) => {
                    prop_assert_eq!(u64::from(sectors) * SECTOR_BYTES, data_bytes);
                    prop_assert!(sectors > 0 && sector + u64::from(sectors) <= DISK_SECTORS);
                    prop_assert!(parsed.status.is_some());
                }
                Ok(Command::Discard { sector, sectors } | Command::WriteZeroes { sector, sectors, .. }) => {
                    prop_assert!(sector + u64::from(sectors) <= DISK_SECTORS);
                }
                Ok(Command::Flush | Command::GetId) | Err(_) => {}
            }
        }
    }
}
