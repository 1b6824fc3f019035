//! The clocks of a stack's machines beside the one that they share: the emulated host's virtual time, in which its disks
//! live too.

use nestor_correlate::{SharedClock, SharedReading};
use nestor_lab::{BuiltMachine, BuiltStack};
use nestor_machine::Machine;

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
    pub(super) fn start(built: &BuiltStack) -> Self {
        if !built.time.is_virtual() {
            return Self::none();
        }
        let mut offset = Some(0);
        let mut outer: Option<&BuiltMachine> = None;
        let mut watched = Vec::new();
        for place in built.machines.iter() {
            // An unknown clock, and the clocks inside its machine, are inferred from requests, as in real time.
            if let Some(outer) = outer {
                let added = place.machine.name().and_then(|name| outer.machine.tick_offset(name).ok());
                offset = offset.zip(added).and_then(|(offset, added): (i64, i64)| offset.checked_add(added));
            }
            watched.push(offset.and_then(|offset| {
                let first = read(&place.machine, offset)?;
                Some(Watched { machine: place.machine.clone(), offset, first })
            }));
            outer = Some(place);
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
