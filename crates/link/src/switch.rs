//! A switch: each machine has a full-duplex wire to it, and what it sends goes on over the wires of those it is for.
//!
//! It passes a frame on while that still comes in (cut-through), and takes no time for that: between two machines it is the wire alone. Frames
//! of several machines to one take turns on its wire, in the order in which they reach the switch, which keeps those that wait and loses
//! none.

use std::collections::BTreeMap;

use crate::wire::Taken;
use crate::{PortIndex, Wire};

/// Machines whose addresses a switch knows at most: those behind bridges have some too. Frames to all others go everywhere.
const MOST_ADDRESSES: usize = 4096;

/// Bytes of a hardware address (IEEE 802, 8.2).
const ADDRESS_BYTES: usize = 6;

/// Of an address's first byte: it is of a group of machines (IEEE 802, 8.2.2).
const GROUP: u8 = 1;

type Address = [u8; ADDRESS_BYTES];

/// No machine has it.
const NOBODY: Address = [0; ADDRESS_BYTES];

/// When something is on a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnWire {
    /// The first bit.
    pub begins_ns: u64,
    /// The last bit, with the gap behind it. At once where frames take no time.
    pub leaves_ns: u64,
    /// What it takes there, in bytes.
    pub wire_bytes: u64,
}

/// The wire from the switch to a machine.
#[derive(Clone, Copy, Debug)]
pub struct Outlet {
    rate_bits_per_s: u64,
    delay_ns: u64,
    taken: Taken,
}

impl Outlet {
    /// One on which nothing is.
    pub fn new(wire: &Wire) -> Self {
        Self {
            rate_bits_per_s: wire.rate_bits_per_s.max(1),
            delay_ns: wire.delay_ns,
            taken: Taken::default(),
        }
    }

    /// How long the last bit is under way to the machine.
    pub const fn delay_ns(&self) -> u64 {
        self.delay_ns
    }

    /// When what comes in at the switch so has arrived at the machine. Nothing that comes in later began before it.
    pub fn pass(&mut self, comes: OnWire) -> u64 {
        let OnWire { begins_ns, leaves_ns, wire_bytes } = comes;
        if begins_ns >= self.taken.free_at_ns {
            // It has the wire as it had the one before, to the fraction of a nanosecond.
            self.taken.begin(leaves_ns);
        } else if leaves_ns > begins_ns {
            self.taken.occupy(wire_bytes, self.rate_bits_per_s);
        }
        self.taken.free_at_ns.saturating_add(self.delay_ns)
    }

    /// The same, if nothing comes before it.
    pub fn would_pass(mut self, comes: OnWire) -> u64 {
        self.pass(comes)
    }
}

/// Behind which wire each machine is, as a switch learns it from what the machines send (IEEE 802.1Q, 8.7).
#[derive(Debug, Default)]
pub struct Addresses(BTreeMap<Address, PortIndex>);

impl Addresses {
    /// Where a frame goes that comes from one of so many machines; it is learned where that is. Of two machines, the other one has it
    /// in any case.
    pub fn ways(&mut self, from: PortIndex, machines: usize, frame: &[u8]) -> Vec<PortIndex> {
        let others = || PortIndex::all(machines).filter(|to| *to != from).collect();
        let Some((to, rest)) = frame.split_first_chunk::<ADDRESS_BYTES>().filter(|_| machines > 2) else {
            return others();
        };
        if let Some(own) =
            rest.first_chunk::<ADDRESS_BYTES>().filter(|own| own[0] & GROUP == 0 && **own != NOBODY)
            && (self.0.len() < MOST_ADDRESSES || self.0.contains_key(own))
        {
            self.0.insert(*own, from);
        }
        match self.0.get(to) {
            Some(known) => Some(*known).into_iter().filter(|to| *to != from).collect(),
            None => others(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Direction, Fate, wire_bytes};

    const GBIT: Wire = Wire {
        rate_bits_per_s: 1_000_000_000,
        delay_ns: 100_000,
        queue_bytes: u64::MAX,
        loss: 0.0,
        cut: None,
    };

    /// What a machine sends at times, as it comes in at the switch, and when it would arrive over its wire alone.
    fn sent(wire: Wire, frames: &[(u64, u64)]) -> Vec<(OnWire, u64)> {
        let mut direction = Direction::new(wire, 0);
        let mut now_ns = 0;
        let of_one = |(pause_ns, bytes): &(u64, u64)| {
            now_ns += pause_ns;
            let run = direction.send(now_ns, [*bytes]).remove(0);
            match run.fate {
                Fate::Arrives { begins_ns, leaves_ns, at_ns } => {
                    (OnWire { begins_ns, leaves_ns, wire_bytes: run.wire_bytes }, at_ns)
                }
                other => panic!("{other:?}"),
            }
        };
        frames.iter().map(of_one).collect()
    }

    #[test]
    fn frames_of_two_machines_to_one_take_turns_on_its_wire() {
        let mut outlet = Outlet::new(&GBIT);
        // Each takes 12 304 ns on its own wire, and both begin at the same time.
        let [(first, alone_ns), (second, _)] = [5, 5].map(|at_ns| sent(GBIT, &[(at_ns, 1514)])[0]);
        assert_eq!(outlet.would_pass(second), alone_ns, "it would be alone");
        assert_eq!(outlet.pass(first), alone_ns);
        assert_eq!(outlet.pass(second), alone_ns + 12_304);
        // One that comes in while the second is on the wire waits for it, and one that comes later for nothing.
        let [(third, _), (fourth, alone_ns)] = [20_000, 100_000].map(|at_ns| sent(GBIT, &[(at_ns, 60)])[0]);
        assert_eq!(outlet.pass(third), 5 + 2 * 12_304 + 672 + 100_000);
        assert_eq!(outlet.pass(fourth), alone_ns);
    }

    #[test]
    fn what_takes_no_time_arrives_with_what_is_before_it() {
        let mut outlet = Outlet::new(&GBIT);
        outlet.pass(sent(GBIT, &[(0, 1514)])[0].0);
        let at_once = OnWire { begins_ns: 7, leaves_ns: 7, wire_bytes: 84 };
        assert_eq!(outlet.pass(at_once), 12_304 + 100_000);
    }

    /// A frame from one address to another.
    fn frame(to: u8, from: u8) -> Vec<u8> {
        [[to; ADDRESS_BYTES], [from; ADDRESS_BYTES]].concat()
    }

    #[test]
    fn a_frame_goes_everywhere_until_its_machine_is_known_and_then_to_that() {
        let mut addresses = Addresses::default();
        let mut ways = |from: usize, machines, frame: &[u8]| -> Vec<usize> {
            let ways = addresses.ways(PortIndex::all(9).nth(from).unwrap(), machines, frame);
            ways.into_iter().map(PortIndex::index).collect()
        };
        assert_eq!(ways(1, 4, &frame(0x02, 0x04)), [0, 2, 3]);
        assert_eq!(ways(0, 4, &frame(0x04, 0x02)), [1]);
        assert_eq!(ways(1, 4, &frame(0x02, 0x04)), [0]);
        assert_eq!(ways(1, 4, &frame(0x04, 0x06)), [0; 0], "it is behind the same wire");
        assert_eq!(ways(0, 4, &frame(0xff, 0x02)), [1, 2, 3], "a group is everywhere");
        assert_eq!(ways(2, 4, &frame(0x02, 0x04)), [0]);
        assert_eq!(ways(0, 4, &frame(0x04, 0x02)), [2], "it has moved");
        assert_eq!(ways(3, 4, &[1, 2]), [0, 1, 2], "that is no frame");
        assert_eq!(ways(1, 2, &frame(0x04, 0x06)), [0], "there is no switch");
    }

    proptest! {
        #[test]
        fn between_two_machines_a_switch_changes_nothing(
            rate_bits_per_s in 10_000u64..100_000_000_000,
            frames in proptest::collection::vec((0u64..50_000, 1u64..9000), 1..200),
        ) {
            let wire = Wire { rate_bits_per_s, ..GBIT };
            let mut outlet = Outlet::new(&wire);
            for (comes, at_ns) in sent(wire, &frames) {
                prop_assert_eq!(outlet.pass(comes), at_ns);
            }
        }

        #[test]
        fn many_to_one_share_its_rate_exactly_and_none_arrives_sooner_than_alone(
            rate_bits_per_s in 1_000_000u64..100_000_000_000,
            machines in proptest::collection::vec(proptest::collection::vec(60u64..9000, 1..50), 2..6),
        ) {
            let wire = Wire { rate_bits_per_s, ..GBIT };
            let mut outlet = Outlet::new(&wire);
            let at_once = |sizes: &Vec<u64>| sent(wire, &sizes.iter().map(|size| (0, *size)).collect::<Vec<_>>());
            let mut all: Vec<_> = machines.iter().flat_map(at_once).collect();
            all.sort_by_key(|(comes, _)| comes.begins_ns);
            let mut before_ns = 0;
            for (comes, alone_ns) in all {
                let at_ns = outlet.pass(comes);
                prop_assert!(at_ns >= alone_ns && at_ns >= before_ns);
                before_ns = at_ns;
            }
            let bits: u128 = machines.iter().flatten().map(|bytes| u128::from(wire_bytes(*bytes)) * 8).sum();
            let exact_ns = bits * 1_000_000_000 / u128::from(rate_bits_per_s) + 100_000;
            // The first frame has the wire as its machine's own; what that is short of a nanosecond, the others do not have.
            prop_assert!(u128::from(before_ns).abs_diff(exact_ns) <= 1, "{} for {}", before_ns, exact_ns);
        }
    }
}
