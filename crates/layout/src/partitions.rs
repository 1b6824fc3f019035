//! Partition tables, and the file systems in partitions.
//!
//! The table of DOS with its chain of logical partitions is read as the kernel does (block/partitions/msdos.c), that of GPT by the UEFI
//! specification 2.10, section 5.3. A device does not say in its bytes how long its sectors are, so that both lengths in use are tried.

use std::io;
use std::ops::Range;

use crate::fields::{Fields, read_bytes};
use crate::file_systems::has_magic;
use crate::layout::{Class, Extent, Layout};
use crate::read_at::{LayoutError, ReadAt, read_file_system};

/// Lengths of a logical sector, the usual one first.
const SECTOR_BYTES: [u64; 2] = [512, 4096];

const DOS_BYTES: usize = 512;
/// Where the four entries of a DOS table are, and how long each is.
const DOS_ENTRIES_AT: usize = 446;
const DOS_ENTRY_BYTES: usize = 16;
/// The types of partitions that hold a chain of further tables (`is_extended_partition`).
const DOS_EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
/// The type of what protects a GPT from those who know only DOS tables.
const DOS_PROTECTIVE: u8 = 0xee;
/// Tables of a chain that are read, as by the kernel (`parse_extended`): a chain may be a ring.
const MOST_LOGICAL: usize = 100;

const GPT_MAGIC: &[u8] = b"EFI PART";
const GPT_HEADER_BYTES: usize = 92;
/// Where the header's checksum is in it.
const GPT_CRC_AT: usize = 16;
/// Entries have 128 bytes, or more by powers of two; tables have 128 entries.
const GPT_ENTRY_BYTES: Range<u32> = 128..4097;
const MOST_GPT_ENTRIES: u32 = 1024;

const NAME: &str = "partition table";

/// The partitions of a device.
#[derive(Debug, PartialEq, Eq)]
struct Table {
    /// Where they are, in order and without overlap.
    partitions: Vec<Range<u64>>,
    /// Where the table itself is.
    own: Vec<Range<u64>>,
}

impl Table {
    /// Where the table itself is, in order; what lies over a partition, or over what comes before, is wrong.
    fn own_apart(&self) -> impl Iterator<Item = Range<u64>> {
        let is_apart = |own: &&Range<u64>| {
            self.partitions.iter().all(|range| own.end <= range.start || range.end <= own.start)
        };
        let mut own: Vec<Range<u64>> = self.own.iter().filter(is_apart).cloned().collect();
        own.sort_unstable_by_key(|range| range.start);
        let mut end = 0;
        own.retain(|range| {
            let is_after = range.start >= end;
            end = end.max(range.end);
            is_after
        });
        own.into_iter()
    }
}

/// The layouts of the file systems in the partitions of a device as one; `None` without a table, or with one that has no partitions.
///
/// # Errors
/// Those of the first file system that is known, where none could be read; [`LayoutError::NotKnown`] if none is known.
pub(crate) fn read(device: &dyn ReadAt) -> Result<Option<Layout>, LayoutError> {
    let mut failed = None;
    for sector_bytes in SECTOR_BYTES {
        let table = table(device, sector_bytes).filter(|table| !table.partitions.is_empty());
        let Some(table) = table else { continue };
        match layout(device, &table) {
            Ok(layout) => return Ok(Some(layout)),
            // One that can be read says more.
            Err(LayoutError::NotKnown) => failed = failed.or(Some(LayoutError::NotKnown)),
            Err(error) => {
                failed = failed.filter(|known| !matches!(known, LayoutError::NotKnown)).or(Some(error))
            }
        }
    }
    failed.map_or(Ok(None), Err)
}

/// A part of a device.
struct Part<'a> {
    device: &'a dyn ReadAt,
    range: Range<u64>,
}

impl ReadAt for Part<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = self.range.start.checked_add(offset);
        let end = start.and_then(|start| start.checked_add(buffer.len() as u64));
        match start.zip(end) {
            Some((start, end)) if end <= self.range.end => self.device.read_at(start, buffer),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.range.end - self.range.start)
    }

    fn is_frozen(&self) -> bool {
        self.device.is_frozen()
    }
}

/// Puts the layouts in the partitions together. What is in a partition without one is not known.
fn layout(device: &dyn ReadAt, table: &Table) -> Result<Layout, LayoutError> {
    let mut found: Vec<(Range<u64>, Layout)> = Vec::new();
    let mut unknown = Vec::new();
    let mut failed = None;
    let mut remarks = Vec::new();
    for range in &table.partitions {
        match read_file_system(&Part { device, range: range.clone() }) {
            Ok(layout) => {
                // Beyond the file system.
                unknown.push(range.start.saturating_add(layout.total_bytes).min(range.end)..range.end);
                found.push((range.clone(), layout));
            }
            Err(error) => {
                remarks.push(format!("the partition at byte {} is not known: {error}", range.start));
                unknown.push(range.clone());
                failed = failed.filter(|known| !matches!(known, LayoutError::NotKnown)).or(Some(error));
            }
        }
    }
    if found.is_empty() {
        return Err(failed.unwrap_or(LayoutError::NotKnown));
    }
    let is_single = found.len() == 1;
    let mut names: Vec<String> = Vec::new();
    let mut whole = Layout { remarks, ..Layout::default() };
    whole.block_bytes = found.iter().map(|(_, layout)| layout.block_bytes).min().unwrap_or_default();
    for (range, layout) in found {
        if !names.contains(&layout.file_system) {
            names.push(layout.file_system);
        }
        whole.remarks.extend(layout.remarks);
        whole
            .extents
            .extend(layout.extents.into_iter().filter_map(|extent| moved(extent, &range, is_single)));
    }
    whole.file_system = names.join(", ");
    whole.extents.extend(unknown.into_iter().filter_map(|range| of_class(&range, Class::Unknown)));
    whole.extents.extend(table.own_apart().filter_map(|range| of_class(&range, Class::OtherMetadata)));
    whole.extents.sort_unstable_by_key(|extent| extent.start);
    whole.total_bytes = table.partitions.last().map_or(0, |range| range.end);
    let end = whole.extents.last().map_or(0, Extent::end);
    whole.total_bytes = whole.total_bytes.max(end);
    Ok(whole)
}

/// An extent of a partition at its place on the device. Numbers of inodes tell files apart in one file system only.
fn moved(extent: Extent, within: &Range<u64>, keeps_inode: bool) -> Option<Extent> {
    let start = within.start.checked_add(extent.start)?;
    let bytes = within.end.checked_sub(start)?.min(extent.bytes);
    let (inode, file_offset) = if keeps_inode { (extent.inode, extent.file_offset) } else { (None, None) };
    (bytes > 0).then_some(Extent { start, bytes, inode, file_offset, ..extent })
}

fn of_class(range: &Range<u64>, class: Class) -> Option<Extent> {
    let bytes = range.end.saturating_sub(range.start);
    (bytes > 0).then_some(Extent { start: range.start, bytes, class, inode: None, file_offset: None })
}

/// The table of a device with sectors of such a length; `None` if there is none that can be read.
fn table(device: &dyn ReadAt, sector_bytes: u64) -> Option<Table> {
    let device_bytes = device.bytes().ok().filter(|bytes| *bytes >= 2 * sector_bytes)?;
    let entries = dos_entries(device, 0)?;
    let mut table = if entries.iter().any(|entry| entry.kind == DOS_PROTECTIVE) {
        // The second one is at the end of the device.
        let last = device_bytes / sector_bytes - 1;
        [1, last].into_iter().find_map(|at| gpt(device, sector_bytes, at))?
    } else {
        dos(device, sector_bytes, &entries)
    };
    for range in &mut table.partitions {
        range.end = range.end.min(device_bytes);
    }
    table.partitions.retain(|range| range.start > 0 && range.start < range.end);
    table.partitions.sort_unstable_by_key(|range| range.start);
    let mut end = 0;
    table.partitions.retain(|range| {
        let is_apart = range.start >= end;
        end = end.max(range.end);
        is_apart
    });
    (!table.partitions.is_empty()).then_some(table)
}

/// An entry of a DOS table.
struct DosEntry {
    kind: u8,
    /// In sectors; what from depends on the table.
    start: u64,
    sectors: u64,
}

impl DosEntry {
    /// Whether it holds a chain of further tables.
    fn is_extended(&self) -> bool {
        DOS_EXTENDED.contains(&self.kind)
    }
}

/// The entries of the DOS table that begins at a byte; `None` if there is none.
fn dos_entries(device: &dyn ReadAt, at: u64) -> Option<Vec<DosEntry>> {
    if !has_magic(device, at.checked_add(DOS_BYTES as u64 - 2)?, &[0x55, 0xaa]) {
        return None;
    }
    let sector = read_bytes(device, at, DOS_BYTES).ok()?;
    let sector = Fields::new(NAME, at, &sector);
    let mut entries = Vec::new();
    for number in 0..4 {
        let entry = sector.slice(DOS_ENTRIES_AT + number * DOS_ENTRY_BYTES, DOS_ENTRY_BYTES).ok()?;
        let entry_of = DosEntry {
            kind: entry.u8(4).ok()?,
            start: entry.u32_le(8).ok()?.into(),
            sectors: entry.u32_le(12).ok()?.into(),
        };
        // Anything else is the code of a boot sector.
        if entry.u8(0).ok()? & 0x7f != 0 {
            return None;
        }
        entries.push(entry_of);
    }
    entries.retain(|entry| entry.kind != 0 && entry.sectors > 0);
    Some(entries)
}

fn sectors(start: u64, count: u64, sector_bytes: u64) -> Range<u64> {
    let byte = |sector: u64| sector.saturating_mul(sector_bytes);
    byte(start)..byte(start.saturating_add(count))
}

/// The partitions of a DOS table, with those of its chains.
fn dos(device: &dyn ReadAt, sector_bytes: u64, entries: &[DosEntry]) -> Table {
    let mut table = Table { partitions: Vec::new(), own: vec![sectors(0, 1, sector_bytes)] };
    for entry in entries {
        if !entry.is_extended() {
            table.partitions.push(sectors(entry.start, entry.sectors, sector_bytes));
            continue;
        }
        let mut here = entry.start;
        for _ in 0..MOST_LOGICAL {
            let Some(logical) = dos_entries(device, here.saturating_mul(sector_bytes)) else { break };
            table.own.push(sectors(here, 1, sector_bytes));
            // Its place is told from its own table on, that of the next table from the first one of the chain on.
            let place = |of: &DosEntry| sectors(here.saturating_add(of.start), of.sectors, sector_bytes);
            table.partitions.extend(logical.iter().filter(|entry| !entry.is_extended()).map(place));
            let Some(next) = logical.iter().find(|entry| entry.is_extended()) else { break };
            here = entry.start.saturating_add(next.start);
        }
    }
    table
}

/// The checksum that a header should have: that of all its bytes, as if its own were 0.
fn gpt_header_crc(device: &dyn ReadAt, at: u64, header: &Fields<'_>, sector_bytes: u64) -> Option<u32> {
    let bytes = usize::try_from(header.u32_le(12).ok()?).ok()?;
    let bytes = Some(bytes).filter(|bytes| *bytes >= GPT_HEADER_BYTES && *bytes as u64 <= sector_bytes)?;
    let mut header = read_bytes(device, at, bytes).ok()?;
    header[GPT_CRC_AT..GPT_CRC_AT + 4].fill(0);
    Some(crc32fast::hash(&header))
}

/// The partitions of the GPT whose header is at a sector; `None` if there is none, or either checksum is not that of its bytes.
fn gpt(device: &dyn ReadAt, sector_bytes: u64, at: u64) -> Option<Table> {
    let header_at = at.checked_mul(sector_bytes)?;
    if !has_magic(device, header_at, GPT_MAGIC) {
        return None;
    }
    let header = read_bytes(device, header_at, GPT_HEADER_BYTES).ok()?;
    let header = Fields::new(NAME, header_at, &header);
    let (own, first) = (header.u64_le(24).ok()?, header.u64_le(72).ok()?);
    let (count, entry_bytes) = (header.u32_le(80).ok()?, header.u32_le(84).ok()?);
    let is_sound = own == at
        && gpt_header_crc(device, header_at, &header, sector_bytes) == Some(header.u32_le(GPT_CRC_AT).ok()?)
        && count <= MOST_GPT_ENTRIES
        && GPT_ENTRY_BYTES.contains(&entry_bytes)
        && entry_bytes.is_power_of_two();
    if !is_sound {
        return None;
    }
    let (count, entry_bytes) = (count as usize, entry_bytes as usize);
    let list_at = first.checked_mul(sector_bytes)?;
    let list = read_bytes(device, list_at, count * entry_bytes).ok()?;
    if crc32fast::hash(&list) != header.u32_le(88).ok()? {
        return None;
    }
    let list_sectors = sectors(first, (list.len() as u64).div_ceil(sector_bytes), sector_bytes);
    let list = Fields::new(NAME, list_at, &list);
    let mut table = Table {
        partitions: Vec::new(),
        own: vec![sectors(0, 1, sector_bytes), sectors(at, 1, sector_bytes), list_sectors],
    };
    for number in 0..count {
        let entry = list.slice(number * entry_bytes, entry_bytes).ok()?;
        // An entry without a type is not in use.
        if entry.array::<16>(0).ok()? == [0; 16] {
            continue;
        }
        let (first, last) = (entry.u64_le(32).ok()?, entry.u64_le(40).ok()?);
        let count = last.saturating_add(1).saturating_sub(first);
        table.partitions.push(sectors(first, count, sector_bytes));
    }
    Some(table)
}
