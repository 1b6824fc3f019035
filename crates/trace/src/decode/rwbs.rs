//! What the kernel's text and blkparse's write alike: letters for operations, seconds with a fraction.

use crate::event::{Direction, Flags};

/// Takes apart what `blk_fill_rwbs` (`kernel/trace/blktrace.c`) prints: `F` for a flush before, the operation,
/// then `F` for FUA, `A`, `S`, `M`.
pub(super) fn meaning(rwbs: &str, bytes: u64) -> (Direction, Flags) {
    let letters = rwbs.as_bytes();
    let preflush = letters.len() > 1 && letters[0] == b'F' && b"WDRFNZ".contains(&letters[1]);
    let letters = &letters[usize::from(preflush)..];
    let (operation, modifiers) = letters.split_first().map_or((b'N', &[][..]), |(o, m)| (*o, m));
    let direction = match operation {
        b'R' => Direction::Read,
        b'D' => Direction::Discard,
        b'W' if modifiers.first() == Some(&b'Z') => Direction::Discard,
        b'W' | b'Z' if bytes > 0 || !preflush => Direction::Write,
        // Operations without a letter of their own; those with sectors are zeroes written without data.
        b'N' if bytes > 0 => Direction::Discard,
        _ => Direction::None,
    };
    let has = |letter: u8| modifiers.contains(&letter);
    let flags = Flags::default()
        .with(Flags::FLUSH, preflush || operation == b'F')
        .with(Flags::FUA, has(b'F'))
        .with(Flags::SYNC, has(b'S'))
        .with(Flags::META, has(b'M'))
        .with(Flags::AHEAD, has(b'A'));
    (direction, flags)
}

/// Reads `SECONDS.FRACTION`, up to nanoseconds.
pub(super) fn time_ns(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = fraction.len();
    if digits == 0 || digits > 9 {
        return None;
    }
    let fraction_ns = fraction.parse::<u64>().ok()? * 10_u64.pow(9 - digits as u32);
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}
