//! From the file system's addresses to places on this device.

use std::collections::BTreeMap;

use super::NAME;
use super::superblock::{PRIMARY, Superblock};
use crate::fields::Fields;
use crate::read_at::LayoutError;

/// `BTRFS_STRIPE_LEN`: the kernel accepts no other.
const STRIPE: u64 = 64 << 10;

/// `BTRFS_CHUNK_ITEM_KEY`.
pub(super) const CHUNK_ITEM: u8 = 228;

/// Bytes of a `struct btrfs_disk_key`, of `struct btrfs_chunk` without its stripes, and of a `struct btrfs_stripe`.
const KEY_BYTES: usize = 17;
const CHUNK_BYTES: usize = 48;
const STRIPE_BYTES: usize = 32;

/// `BTRFS_BLOCK_GROUP_…`: how data is spread.
const RAID0: u64 = 1 << 3;
const RAID1: u64 = 1 << 4;
const DUP: u64 = 1 << 5;
const RAID10: u64 = 1 << 6;
const RAID5: u64 = 1 << 7;
const RAID6: u64 = 1 << 8;
const RAID1C3: u64 = 1 << 9;
const RAID1C4: u64 = 1 << 10;

/// How a chunk is spread over its stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    /// Each stripe has all of it (single, DUP, RAID1).
    Copies,
    /// In turns, each time on so many stripes (RAID0: 1, RAID10: 2).
    Striped { copies: u64 },
    /// In turns with parity that moves on row by row (RAID5: 1, RAID6: 2).
    Parity { parity: u64 },
}

#[derive(Clone, Debug)]
struct Chunk {
    bytes: u64,
    spread: Spread,
    stripes: u64,
    /// The stripes on this device: their number and where they begin.
    here: Vec<(u64, u64)>,
}

/// A part of a range, on this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Where it is on the device.
    pub(super) start: u64,
    /// Its length.
    pub(super) bytes: u64,
    /// How far into the range it is.
    pub(super) skipped: u64,
}

/// All chunks.
#[derive(Debug)]
pub(super) struct Chunks {
    device_id: u64,
    device_bytes: u64,
    chunks: BTreeMap<u64, Chunk>,
    /// Chunks with parity are not fully known: which stripes hold parity is, but not for what.
    pub(super) parity: bool,
    /// How many pieces may still be made of ranges over several devices: a damaged file system must not take forever.
    budget: u64,
}

impl Chunks {
    pub(super) fn new(device_id: u64, device_bytes: u64) -> Self {
        Self { device_id, device_bytes, chunks: BTreeMap::new(), parity: false, budget: 1 << 26 }
    }

    /// The chunks of the superblock: keys, each with its chunk item.
    pub(super) fn add_system_chunks(&mut self, array: &Fields<'_>) -> Result<(), LayoutError> {
        let mut at = 0;
        while at < array.bytes().len() {
            let kind = array.u8(at + 8)?;
            let address = array.u64_le(at + 9)?;
            let stripes = usize::from(array.u16_le(at + KEY_BYTES + 44)?);
            let length = CHUNK_BYTES + stripes * STRIPE_BYTES;
            if kind != CHUNK_ITEM {
                return Err(array.damaged(at, "the superblock lists an item that is not a chunk"));
            }
            self.add(address, &array.slice(at + KEY_BYTES, length)?)?;
            at += KEY_BYTES + length;
        }
        Ok(())
    }

    /// A chunk item; its key says which address it begins at. One that is known already is left alone.
    pub(super) fn add(&mut self, address: u64, item: &Fields<'_>) -> Result<(), LayoutError> {
        let chunk = self.parse(item)?;
        let end = address.checked_add(chunk.bytes).ok_or_else(|| item.damaged(0, "a chunk has no end"))?;
        let before = self.chunks.range(..end).next_back();
        match before {
            Some((&start, _)) if start == address => return Ok(()),
            Some((start, other)) if start + other.bytes > address => {
                return Err(item.damaged(0, "two chunks have the same addresses"));
            }
            _ => {}
        }
        self.parity |= matches!(chunk.spread, Spread::Parity { .. });
        self.chunks.insert(address, chunk);
        Ok(())
    }

    /// With the checks of `btrfs_check_chunk_valid` that matter here.
    fn parse(&self, item: &Fields<'_>) -> Result<Chunk, LayoutError> {
        let bytes = item.u64_le(0)?;
        let kind = item.u64_le(24)?;
        let stripes = u64::from(item.u16_le(44)?);
        let (spread, fits) = match kind & (RAID0 | RAID1 | DUP | RAID10 | RAID5 | RAID6 | RAID1C3 | RAID1C4) {
            0 => (Spread::Copies, stripes == 1),
            DUP | RAID1 => (Spread::Copies, stripes == 2),
            RAID1C3 => (Spread::Copies, stripes == 3),
            RAID1C4 => (Spread::Copies, stripes == 4),
            RAID0 => (Spread::Striped { copies: 1 }, stripes >= 1),
            RAID10 => {
                (Spread::Striped { copies: 2 }, stripes >= 2 && stripes % 2 == 0 && item.u16_le(46)? == 2)
            }
            RAID5 => (Spread::Parity { parity: 1 }, stripes >= 2),
            RAID6 => (Spread::Parity { parity: 2 }, stripes >= 3),
            _ => (Spread::Copies, false),
        };
        if !fits {
            return Err(item.damaged(24, format!("a chunk of kind {kind:#x} has {stripes} stripes")));
        }
        if bytes == 0 || item.u64_le(16)? != STRIPE {
            return Err(item.damaged(0, format!("a chunk of {bytes} bytes, or with invalid stripes")));
        }
        let mut here = Vec::new();
        for number in 0..stripes {
            let at = CHUNK_BYTES + number as usize * STRIPE_BYTES;
            if item.u64_le(at)? == self.device_id {
                here.push((number, item.u64_le(at + 8)?));
            }
        }
        let chunk = Chunk { bytes, spread, stripes, here };
        let length = chunk.stripe_bytes();
        if chunk
            .here
            .iter()
            .any(|(_, start)| start.checked_add(length).is_none_or(|end| end > self.device_bytes))
        {
            return Err(item.damaged(CHUNK_BYTES, "a chunk goes beyond the device"));
        }
        Ok(chunk)
    }

    /// Where a range is on this device, every copy of it; nothing for what is in no chunk or on other devices.
    pub(super) fn places(&mut self, address: u64, bytes: u64) -> Vec<Place> {
        let mut places = Vec::new();
        let end = address.saturating_add(bytes);
        let first = self.chunks.range(..=address).next_back().map_or(address, |(&start, _)| start);
        for (&start, chunk) in self.chunks.range(first..end) {
            let (from, until) = (start.max(address), (start + chunk.bytes).min(end));
            if from < until {
                chunk.places(from - start, until - start, &mut self.budget, |offset, place, bytes| {
                    places.push(Place { start: place, bytes, skipped: start + offset - address });
                });
            }
        }
        places
    }

    /// Whether ranges had to be left out because there were too many pieces.
    pub(super) fn exhausted(&self) -> bool {
        self.budget == 0
    }

    /// Whether an address is in a chunk, be it on this device or not.
    pub(super) fn contains(&self, address: u64) -> bool {
        let before = self.chunks.range(..=address).next_back();
        before.is_some_and(|(start, chunk)| address - start < chunk.bytes)
    }
}

impl Chunk {
    /// Stripes that hold data at any one place.
    fn data_stripes(&self) -> u64 {
        match self.spread {
            Spread::Copies => 1,
            Spread::Striped { copies } => self.stripes / copies,
            Spread::Parity { parity } => self.stripes - parity,
        }
    }

    /// Bytes on each device (`btrfs_calc_stripe_length`).
    fn stripe_bytes(&self) -> u64 {
        self.bytes / self.data_stripes()
    }

    /// Gives the pieces of a range of the chunk: where each is in the chunk and on the device, and its length. As
    /// `btrfs_map_block` and its `map_blocks_…` do.
    fn places(&self, from: u64, until: u64, budget: &mut u64, mut give: impl FnMut(u64, u64, u64)) {
        if self.spread == Spread::Copies {
            self.here.iter().for_each(|(_, start)| give(from, start + from, until - from));
            return;
        }
        if self.here.is_empty() {
            return;
        }
        let mut offset = from;
        while offset < until && *budget > 0 {
            *budget -= 1;
            let length = (STRIPE - offset % STRIPE).min(until - offset);
            let (unit, data) = (offset / STRIPE, self.data_stripes());
            let (row, column) = (unit / data, unit % data);
            let holders = match self.spread {
                Spread::Copies => 0..0,
                Spread::Striped { copies } => column * copies..(column + 1) * copies,
                Spread::Parity { .. } => {
                    let stripe = (row + column) % self.stripes;
                    stripe..stripe + 1
                }
            };
            for (_, start) in self.here.iter().filter(|(number, _)| holders.contains(number)) {
                give(offset, start + row * STRIPE + offset % STRIPE, length);
            }
            offset += length;
        }
    }
}

/// The system chunks of a superblock.
pub(super) fn of_superblock(superblock: &Superblock) -> Result<Chunks, LayoutError> {
    let mut chunks = Chunks::new(superblock.device_id, superblock.device_bytes);
    let array = Fields::new(NAME, PRIMARY, &superblock.system_chunks);
    chunks.add_system_chunks(&array)?;
    Ok(chunks)
}
