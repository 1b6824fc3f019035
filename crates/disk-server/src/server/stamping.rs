//! Finding stamps in the data of a request.

use vm_memory::{Bytes, GuestAddress};

use super::request::{Command, Segment};
use nestor_disk::log::{STAMP_BYTES, StampRun, StampWriter, stamp_of};
use nestor_disk::model::SECTOR_BYTES;
use nestor_serving::GuestMemory;

/// Notes the stamps in the data of a request that was carried out.
pub fn note(
    stamps: &mut StampWriter,
    sequence: u64,
    command: &Command,
    data: &[Segment],
    memory: &GuestMemory,
) {
    let (sector, sectors, read) = match *command {
        Command::Read { sector, sectors } => (sector, sectors, true),
        Command::Write { sector, sectors } => (sector, sectors, false),
        _ => return,
    };
    let mut run: Option<StampRun> = None;
    for index in 0..sectors {
        let found =
            start_of(u64::from(index) * SECTOR_BYTES, data, memory).and_then(|start| stamp_of(&start));
        run = match (run, found) {
            (Some(run), Some(stamp)) if run.stamp == stamp => {
                Some(StampRun { sectors: run.sectors + 1, ..run })
            }
            (before, found) => {
                before.iter().for_each(|run| stamps.push(run));
                let first = sector + u64::from(index);
                found.map(|stamp| StampRun { sequence, sector: first, sectors: 1, stamp, read })
            }
        };
    }
    run.iter().for_each(|run| stamps.push(run));
}

/// The first bytes at a position of the data, which is in several pieces of memory.
fn start_of(position: u64, data: &[Segment], memory: &GuestMemory) -> Option<[u8; STAMP_BYTES]> {
    let mut start = [0; STAMP_BYTES];
    let mut filled = 0;
    let mut passed = 0;
    for segment in data {
        let length = u64::from(segment.bytes);
        let wanted = position + filled as u64;
        if wanted < passed + length {
            let within = wanted - passed;
            let part = ((length - within) as usize).min(STAMP_BYTES - filled);
            let address = GuestAddress(segment.address.0.checked_add(within)?);
            memory.read_slice(&mut start[filled..filled + part], address).ok()?;
            filled += part;
            if filled == STAMP_BYTES {
                return Some(start);
            }
        }
        passed += length;
    }
    None
}
