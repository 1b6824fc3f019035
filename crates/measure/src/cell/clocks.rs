//! The clocks of a stack's machines beside the one that they share: the emulated host's virtual time, in which its disks
//! live too.

use std::collections::BTreeMap;

use nestor_correlate::{SharedClock, SharedReading};
use nestor_lab::{BuiltStack, Lab};
use nestor_machine::Machine;
use nestor_stack::{MachineIndex, Relation};

/// Readings at the beginning, outermost first.
pub(super) struct ClockWatch(Vec<Option<Watched>>);

/// One machine's.
struct Watched {
    machine: Machine,
    /// Its counter less virtual time.
    offset: i64,
    first: SharedReading,
}

impl ClockWatch {
    /// Of nothing.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// Reads all clocks. There is no shared one in real time.
    pub(super) fn start(lab: &Lab, built: &BuiltStack) -> Self {
        if !built.time.is_virtual() {
            return Self::none();
        }
        let mut offsets: BTreeMap<MachineIndex, Option<i64>> = BTreeMap::new();
        let mut watched = Vec::new();
        let machines = built.stack.machines();
        for (index, place) in built.machines.indexed() {
            // An unknown clock, and the clocks inside its machine, are inferred from requests, as in real time.
            let offset = match built.machines.relation(index) {
                Some(Relation::Outermost) => Some(0),
                Some(Relation::Inside(outer)) => {
                    let added = || built.machines[outer].machine.tick_offset(place.machine.place()?).ok();
                    let outer = offsets.get(&outer).copied().flatten();
                    outer.and_then(|offset| offset.checked_add(added()?))
                }
                // Its counter has begun by itself; the link holds both together.
                Some(Relation::Beside(server)) => {
                    let link = machines[index].crossing;
                    let ahead_ns = link.and_then(|link| lab.link_statistics(link).ok()?.upper_ahead_ns());
                    let server = offsets.get(&server).copied().flatten();
                    server.and_then(|offset| offset.checked_add(ahead_ns?))
                }
                None => None,
            };
            offsets.insert(index, offset);
            watched.push(offset.and_then(|offset| {
                let first = read(&place.machine, offset)?;
                Some(Watched { machine: place.machine.clone(), offset, first })
            }));
        }
        Self(watched)
    }

    /// Reads them again.
    pub(super) fn finish(self) -> Vec<Option<SharedClock>> {
        let clock = |watched: Option<Watched>| {
            let Watched { machine, offset, first } = watched?;
            Some(SharedClock { first, last: read(&machine, offset)? })
        };
        self.0.into_iter().map(clock).collect()
    }
}

fn read(machine: &Machine, offset: i64) -> Option<SharedReading> {
    let reading = machine.read_ticks().ok()??;
    // The counter of an emulated host counts nanoseconds.
    let shared_ns = reading.ticks.checked_add_signed(offset.checked_neg()?)?;
    Some(SharedReading { own_ns: reading.monotonic_ns, shared_ns, bound_ns: reading.bound_ticks })
}
