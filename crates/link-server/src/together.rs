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

    /// A machine has come to the barrier and can send by itself at the earliest at `sends_ns`. If the other one waits there, there is a next
    /// barrier, and both continue. `arrives_ns` is when the first of the frames arrives that are under way to either: its receiver may
    /// answer it at once. When the second machine has come, all frames are known that were sent before the barrier.
    pub fn arrive(&mut self, end: End, sends_ns: u64, arrives_ns: Option<u64>) {
        self.waiting[end.index()] = Some(sends_ns);
        if let [Some(lower), Some(upper)] = self.waiting {
            let first_ns = arrives_ns.into_iter().chain([lower, upper]).fold(u64::MAX, u64::min);
            self.barrier_ns = first_ns.max(self.barrier_ns).saturating_add(self.delay_ns);
            self.waiting = [None; 2];
        }
    }

    /// A machine that waits at the barrier is about to be given something to do, so it may send at once. Whether it waits there.
    pub fn wake(&mut self, end: End) -> bool {
        let waiting = &mut self.waiting[end.index()];
        *waiting = waiting.map(|_| self.barrier_ns);
        waiting.is_some()
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
        together.arrive(End::Upper, 0, None);
        assert_eq!(together.barrier_ns(), 0);
        together.arrive(End::Lower, 900, None);
        assert_eq!(together.barrier_ns(), 100);
        assert_eq!([End::Lower, End::Upper].map(|end| together.own_ns(end, 100)), [5100, 170]);
        // Both have nothing to do for a while.
        together.arrive(End::Lower, 4000, None);
        together.arrive(End::Upper, 3000, None);
        assert_eq!(together.barrier_ns(), 3100);
    }

    #[test]
    fn a_frame_under_way_may_be_answered_when_it_arrives_whoever_comes_last() {
        for order in [End::BOTH, [End::Upper, End::Lower]] {
            let mut together = Together::new(100);
            let [first, last] = order;
            together.arrive(first, 5000, None);
            together.arrive(last, 5000, Some(62));
            assert_eq!(together.barrier_ns(), 162);
        }
    }

    #[test]
    fn who_is_given_something_to_do_at_the_barrier_may_send_at_once() {
        let mut together = Together::new(100);
        assert!(!together.wake(End::Lower), "it is not there");
        together.arrive(End::Lower, 9000, None);
        assert!(together.wake(End::Lower));
        together.arrive(End::Upper, 9000, None);
        assert_eq!(together.barrier_ns(), 100);
    }

    /// What a machine does when it comes to a barrier: how long it is quiet, and after which part of the way from the last barrier it
    /// has sent a frame, if it has.
    type Turn = (u64, Option<f64>);

    proptest! {
        #[test]
        fn no_frame_arrives_in_the_past_of_a_machine(
            delay_ns in 1u64..1000,
            turns in proptest::collection::vec(
                ((0u64..5000, proptest::option::of(0.0..1.0f64)), (0u64..5000, proptest::option::of(0.0..1.0f64))),
                1..100,
            ),
            is_upper_first in any::<bool>(),
        ) {
            let mut together = Together::new(delay_ns);
            let mut under_way: Vec<u64> = Vec::new();
            // From when on a machine may have sent.
            let mut from_ns = 0;
            for (lower, upper) in turns {
                let now_ns = together.barrier_ns();
                let turns: [Turn; 2] = [lower, upper];
                let ends = if is_upper_first { [End::Upper, End::Lower] } else { End::BOTH };
                let mut may_send_ns = u64::MAX;
                for end in ends {
                    let (quiet_ns, sent) = turns[end.index()];
                    if let Some(part) = sent {
                        let at_ns = from_ns + ((now_ns - from_ns) as f64 * part) as u64 + delay_ns;
                        prop_assert!(at_ns >= now_ns, "{} {}", at_ns, now_ns);
                        under_way.push(at_ns);
                    }
                    may_send_ns = may_send_ns.min(now_ns + quiet_ns);
                    together.arrive(end, now_ns + quiet_ns, under_way.iter().copied().min());
                }
                from_ns = under_way.iter().copied().min().unwrap_or(u64::MAX).min(may_send_ns).max(now_ns);
                under_way.retain(|at_ns| *at_ns > together.barrier_ns());
                prop_assert!(together.barrier_ns() > now_ns);
            }
        }
    }
}
