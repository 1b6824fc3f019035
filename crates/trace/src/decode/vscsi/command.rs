//! Traces of commands.

use crate::decode::fio::request;
use crate::event::SECTOR_BYTES;
use crate::request::{Operation, Request};

/// The contents of a line.
pub(in crate::decode) enum CommandLine {
    /// A request that moves data.
    Request(Request),
    /// Another command.
    Unknown,
}

/// Reads `2147483692,4096,1,write,24048792,2756778716647`: serial number, bytes, entries of the scatter-gather list,
/// command, sector, microseconds. The time is that of the issue; how long the command took is not recorded.
pub(in crate::decode) fn parse_command(line: &str) -> Option<CommandLine> {
    let mut fields = line.split(',').map(str::trim);
    let [serial, bytes, entries, command, sector, time] = std::array::from_fn(|_| fields.next());
    if fields.next().is_some() {
        return None;
    }
    let number = |field: Option<&str>| field?.parse::<u64>().ok();
    number(serial)?;
    number(entries)?;
    let (bytes, sector, time_us) = (number(bytes)?, number(sector)?, number(time)?);
    let command = command?;
    let operation = if command.eq_ignore_ascii_case("read") {
        Operation::Read
    } else if command.eq_ignore_ascii_case("write") {
        Operation::Write
    } else if command.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b' ')
        && !command.is_empty()
    {
        return Some(CommandLine::Unknown);
    } else {
        return None;
    };
    let (offset, queued_ns) = (sector.checked_mul(SECTOR_BYTES)?, time_us.checked_mul(1000)?);
    Some(CommandLine::Request(request(operation, offset, bytes, queued_ns)))
}
