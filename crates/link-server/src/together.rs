//! The virtual times of two machines, held together.
//!
//! Each machine counts its own time. From the moment at which the link is joined, both have a common time, in which each runs up to
//! the same *barrier* and waits there for the other. The next barrier is as far away as a frame takes to the other end at least, from the
//! moment at which either machine can send one: at once if it has something to do, otherwise when its next timer is due or a frame
//! arrives. So no frame ever arrives in a machine's past, and where barriers are follows from the virtual state of both machines alone. (The
//! conservative synchronisation of Chandy and Misra, with a barrier instead of null messages; SimBricks, SIGCOMM 2022, section 5.5,
//! holds simulators together by the delay of their links.)

use nestor_link::End;

/// The common time of both machines.
#[derive(Debug)]
pub struct Together {
    delay_ns: u64,
    /// What each machine's own time was at the common time zero, by [`End::index`]; `None` until it has told it.
    zero_ns: [Option<u64>; 2],
    barrier_ns: u64,
    /// For a machine that waits at the barrier: when it can send a frame at the earliest.
    waiting: [Option<u64>; 2],
}

impl Together {
    /// Begins with a barrier at time zero. `delay_ns` is what a frame takes at least.
    pub fn new(delay_ns: u64) -> Self {
        Self { delay_ns: delay_ns.max(1), zero_ns: [None; 2], barrier_ns: 0, waiting: [None; 2] }
    }

    /// The common time at a machine's own time. The first time that it tells is zero.
    pub fn common_ns(&mut self, end: End, own_ns: u64) -> u64 {
        own_ns.saturating_sub(*self.zero_ns[end.index()].get_or_insert(own_ns))
    }

    /// A machine's own time at a common time.
    pub fn own_ns(&self, end: End, common_ns: u64) -> u64 {
        self.zero_ns[end.index()].unwrap_or(0).saturating_add(common_ns)
    }

    /// Up to when a machine may run without the other.
    pub fn barrier_ns(&self) -> u64 {
        self.barrier_ns
    }

    /// Whether a machine waits at the barrier for the other.
    pub fn waits(&self, end: End) -> bool {
        self.waiting[end.index()].is_some()
    }

    /// A machine has come to the barrier and can send at the earliest at `sends_ns`. If the other one waits there, there is a next barrier,
    /// and both continue.
    pub fn arrive(&mut self, end: End, sends_ns: u64) {
        self.waiting[end.index()] = Some(sends_ns);
        if let [Some(lower), Some(upper)] = self.waiting {
            self.barrier_ns = lower.min(upper).max(self.barrier_ns).saturating_add(self.delay_ns);
            self.waiting = [None; 2];
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_wait_at_a_barrier_and_the_next_is_a_delay_after_who_can_send_first() {
        let mut together = Together::new(100);
        assert_eq!([together.common_ns(End::Lower, 5000), together.common_ns(End::Upper, 70)], [0, 0]);
        together.arrive(End::Upper, 0);
        assert!(together.waits(End::Upper) && !together.waits(End::Lower));
        together.arrive(End::Lower, 900);
        assert_eq!(together.barrier_ns(), 100);
        assert_eq!([End::Lower, End::Upper].map(|end| together.own_ns(end, 100)), [5100, 170]);
        // Both have nothing to do for a while.
        together.arrive(End::Lower, 4000);
        together.arrive(End::Upper, 3000);
        assert_eq!(together.barrier_ns(), 3100);
    }

    proptest! {
        #[test]
        fn no_frame_arrives_in_the_past_of_a_machine(
            delay_ns in 1u64..1000,
            quiet in proptest::collection::vec((0u64..5000, 0u64..5000), 1..100),
        ) {
            let mut together = Together::new(delay_ns);
            for (lower, upper) in quiet {
                let now = together.barrier_ns();
                together.arrive(End::Lower, now + lower);
                together.arrive(End::Upper, now + upper);
                // Whatever is sent from now on arrives at the earliest when both have come to the next barrier.
                prop_assert!(now + lower.min(upper) + delay_ns >= together.barrier_ns());
                prop_assert!(together.barrier_ns() > now);
            }
        }
    }
}
