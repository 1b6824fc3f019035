//! Whether a medium of the user's holds anything.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};

use rustix::fs::{Advice, SeekFrom, fadvise, seek};

use super::super::loop_device;

/// Bytes that are read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// So much of a file is looked through, holes not counted. What holds more is not called empty.
const FILE_BYTES: u64 = 4 << 30;

/// A device up to this size is read whole.
const WHOLE_DEVICE_BYTES: u64 = 1 << 30;
/// A larger one is read for this length at its beginning and at its end, where most formats keep their essential data,
const DEVICE_END_BYTES: u64 = 32 << 20;
/// and in this many blocks between them, at equal distances,
const DEVICE_SAMPLES: u64 = 1024;
/// of this size each.
const DEVICE_SAMPLE_BYTES: u64 = 64 << 10;

/// What distinguishes a medium, as it was left, from another medium and from itself after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::agent) struct Identity {
    file: (u64, u64),
    device: u64,
    /// Counted by the kernel: another disk under the same name has another number.
    disk_sequence: Option<String>,
    /// Of a regular file: its length, and when it was last written to and changed.
    state: Option<(u64, [i64; 4])>,
}

impl Identity {
    /// Of an open medium; `None` if the system does not say.
    pub(in crate::agent) fn of(medium: &File) -> Option<Self> {
        let found = medium.metadata().ok()?;
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        Some(Self {
            file: (found.dev(), found.ino()),
            device: found.rdev(),
            disk_sequence: disk_sequence(found.rdev()),
            state: found.is_file().then_some((found.len(), times)),
        })
    }
}

fn disk_sequence(device: u64) -> Option<String> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let place = format!("/sys/dev/block/{major}:{minor}");
    // A partition has that of its disk.
    ["diskseq", "../diskseq"].iter().find_map(|name| std::fs::read_to_string(format!("{place}/{name}")).ok())
}

/// What a medium holds or may hold, as the rest of a sentence that it begins, or `None` if it is known to be all zeros.
///
/// Regular files are looked through, their holes left out, and so are those that a loop device is made of. Of another
/// device that is larger than 1 GiB only the first and last 32 MiB and 1024 blocks of 64 KiB between are read, so that
/// it is never known to be all zeros.
///
/// # Errors
/// When it cannot be read.
pub(in crate::agent) fn found_in(medium: &File) -> io::Result<Option<String>> {
    let bytes = seek(medium, SeekFrom::End(0))?;
    let is_device = medium.metadata()?.file_type().is_block_device();
    let seen = if is_device { device(medium, bytes)? } else { file(medium, bytes)? };
    // What was read is of no use to what is measured.
    let _ = fadvise(medium, 0, None, Advice::DontNeed);
    Ok(match seen {
        Seen::Zeros => None,
        Seen::Byte(at) => Some(match kind(medium)? {
            Some(kind) => format!("holds data: {kind}"),
            None => format!("holds data: the first byte that is not zero is at {at}"),
        }),
        Seen::TooMuch => Some(format!(
            "holds more than {} GiB apart from holes, too much to look through",
            FILE_BYTES >> 30
        )),
        Seen::Samples => Some(format!(
            "may hold data: of its {} GiB only the first and the last {} MiB and {DEVICE_SAMPLES} blocks of {} KiB \
             between were looked at, and nothing was found there",
            bytes >> 30,
            DEVICE_END_BYTES >> 20,
            DEVICE_SAMPLE_BYTES >> 10
        )),
    })
}

/// What was seen of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// All of it reads as zeros.
    Zeros,
    /// Zeros where it was looked at, which is not everywhere.
    Samples,
    /// So much that the rest was not looked at.
    TooMuch,
    /// The place of a byte that is not zero.
    Byte(u64),
}

fn device(medium: &File, bytes: u64) -> io::Result<Seen> {
    for (from, to) in device_samples(bytes) {
        if let Some(at) = first_byte_in(medium, from, to)? {
            return Ok(Seen::Byte(at));
        }
    }
    if bytes <= WHOLE_DEVICE_BYTES {
        return Ok(Seen::Zeros);
    }
    let Some(backing) = loop_device::backing_file(medium) else { return Ok(Seen::Samples) };
    Ok(match file(&backing, bytes)? {
        Seen::TooMuch => Seen::Samples,
        seen => seen,
    })
}

fn file(file: &File, bytes: u64) -> io::Result<Seen> {
    let mut left = FILE_BYTES;
    let mut at = 0;
    while let Some((from, to)) = next_data(file, at, bytes)? {
        if let Some(at) = first_byte_in(file, from, to.min(from + left))? {
            return Ok(Seen::Byte(at));
        }
        if to - from > left {
            return Ok(Seen::TooMuch);
        }
        left -= to - from;
        at = to;
    }
    Ok(Seen::Zeros)
}

/// The next range of a file that is not a hole.
fn next_data(file: &File, at: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    use rustix::io::Errno;
    if at >= end {
        return Ok(None);
    }
    let from = match seek(file, SeekFrom::Data(at)) {
        // A file may be longer than what is made of it.
        Ok(from) if from >= end => return Ok(None),
        Ok(from) => from,
        Err(Errno::NXIO) => return Ok(None),
        // Not every file system knows of holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((at, end))),
        Err(e) => return Err(e.into()),
    };
    let to = seek(file, SeekFrom::Hole(from)).unwrap_or(end);
    Ok(Some((from, to.clamp(from, end))).filter(|(from, to)| to > from))
}

/// What is read of a device of that size.
fn device_samples(bytes: u64) -> Vec<(u64, u64)> {
    if bytes <= WHOLE_DEVICE_BYTES {
        return vec![(0, bytes)];
    }
    let last = bytes - DEVICE_END_BYTES;
    let distance = (last - DEVICE_END_BYTES) / (DEVICE_SAMPLES + 1);
    let between = (1..=DEVICE_SAMPLES).map(|sample| {
        let from = (DEVICE_END_BYTES + sample * distance) & !4095;
        (from, from + DEVICE_SAMPLE_BYTES)
    });
    std::iter::once((0, DEVICE_END_BYTES)).chain(std::iter::once((last, bytes))).chain(between).collect()
}

/// The place of the first byte of a range that is not zero.
fn first_byte_in(medium: &File, from: u64, to: u64) -> io::Result<Option<u64>> {
    let length = PIECE_BYTES.min(to.saturating_sub(from)) as usize;
    let (zeros, mut piece) = (vec![0; length], vec![0; length]);
    let mut at = from;
    while at < to {
        let wanted = (to - at).min(PIECE_BYTES) as usize;
        let got = match medium.read_at(&mut piece[..wanted], at) {
            Ok(0) => break,
            Ok(got) => got,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if piece[..got] != zeros[..got] {
            return Ok(piece[..got].iter().position(|&byte| byte != 0).map(|place| at + place as u64));
        }
        at += got as u64;
    }
    Ok(None)
}

/// What a medium is that begins as some well-known formats do, of which `wipefs` knows nothing.
fn kind(medium: &File) -> io::Result<Option<&'static str>> {
    let mut head = [0; 512];
    let length = medium.read_at(&mut head, 0)?;
    let head = &head[..length];
    let known: [(usize, &[u8], &str); 9] = [
        (0, b"QFI\xfb", "it begins like a qcow2 image"),
        (0, b"QED\0", "it begins like a QED image"),
        (0, b"KDMV", "it begins like a VMDK image"),
        (0, b"# Disk DescriptorFile", "it begins like the description of a VMDK image"),
        (0, b"vhdxfile", "it begins like a VHDX image"),
        (0x40, b"\x7f\x10\xda\xbe", "it begins like a VDI image"),
        (0, b"SQLite format 3\0", "it begins like an SQLite database"),
        (257, b"ustar", "it begins like a tar archive"),
        (0, b"\x1f\x8b", "it begins like a gzip file"),
    ];
    let fits = |at: usize, magic: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(magic));
    let is_text = || !head.is_empty() && std::str::from_utf8(head).is_ok_and(|text| !text.contains('\0'));
    let known = known.into_iter().find(|(at, magic, _)| fits(*at, magic)).map(|(_, _, name)| name);
    Ok(known.or_else(|| is_text().then_some("it begins like a text")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FallocateFlags, fallocate};

    const MIB: u64 = 1 << 20;

    fn file(bytes: u64) -> File {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    #[test]
    fn a_file_of_holes_or_of_zeros_is_empty() {
        let file = file(1 << 40);
        assert_eq!(found_in(&file).unwrap(), None);
        file.write_all_at(&[0; 8192], 5 << 30).unwrap();
        assert_eq!(found_in(&file).unwrap(), None, "zeros are no data");
        assert_eq!(found_in(&self::file(0)).unwrap(), None);
    }

    #[test]
    fn one_byte_anywhere_is_data() {
        for at in [0, 1, 4095, MIB - 1, MIB, 300 * MIB + 17, (1 << 40) - 1] {
            let file = file(1 << 40);
            // Zeros before it are looked through.
            file.write_all_at(&[0; 4096], at.saturating_sub(4096)).unwrap();
            file.write_all_at(&[1], at).unwrap();
            let found = found_in(&file).unwrap().unwrap();
            assert_eq!(found, format!("holds data: the first byte that is not zero is at {at}"));
        }
    }

    #[test]
    fn room_that_was_only_set_aside_is_no_data() {
        let file = file(0);
        if fallocate(&file, FallocateFlags::empty(), 0, 8 * MIB).is_ok() {
            assert_eq!(found_in(&file).unwrap(), None);
        }
    }

    #[test]
    fn formats_without_a_signature_are_named() {
        for (at, head, name) in [
            (0, &b"QFI\xfb\0\0\0\x03"[..], "a qcow2 image"),
            (0, b"KDMV\x01", "a VMDK image"),
            (0, b"SQLite format 3\0", "an SQLite database"),
            (257, b"ustar", "a tar archive"),
        ] {
            let file = file(MIB);
            file.write_all_at(head, at).unwrap();
            assert!(found_in(&file).unwrap().unwrap().contains(name), "{name}");
        }
        let text = file(0);
        text.write_all_at("a letter to grandmother, 3 kB of it\n".repeat(80).as_bytes(), 0).unwrap();
        assert_eq!(found_in(&text).unwrap().unwrap(), "holds data: it begins like a text");
    }

    #[test]
    fn a_device_is_sampled_at_both_ends_and_evenly_between() {
        assert_eq!(device_samples(MIB), [(0, MIB)]);
        assert_eq!(device_samples(1 << 30), [(0, 1 << 30)], "read whole");
        for bytes in [(1 << 30) + 512, 3 << 30, 500_107_862_016, 20 << 40] {
            let mut samples = device_samples(bytes);
            samples.sort_unstable();
            assert_eq!(samples.len(), 1026);
            assert_eq!((samples[0], samples[1025].1), ((0, 32 * MIB), bytes));
            assert!(samples.windows(2).all(|pair| pair[0].1 <= pair[1].0), "they do not overlap: {bytes}");
            let widest = samples.windows(2).map(|pair| pair[1].0 - pair[0].1).max().unwrap();
            assert!(widest <= bytes / 1024 + 8192, "no gap is wider than a 1024th: {widest} of {bytes}");
        }
    }

    #[test]
    fn a_file_that_was_written_to_since_is_another_one() {
        let file = file(MIB);
        let before = Identity::of(&file).unwrap();
        assert_eq!(Identity::of(&file), Some(before.clone()));
        file.set_len(2 * MIB).unwrap();
        assert_ne!(Identity::of(&file), Some(before));
    }
}
