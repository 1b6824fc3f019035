//! The virtual times of two machines, held together.
//!
//! Each machine counts its own time. From the moment at which the link is joined, both have a common time. Whenever a machine tells its
//! time, it promises when it can send a frame at the earliest: at once if it has something to do, otherwise when its next timer is due or a
//! frame arrives. The other may run until a frame that is sent then can be there, and waits for the next promise when it has come so far. No
//! frame ever arrives in a machine's past. (The conservative synchronisation of Chandy and Misra with null messages; SimBricks, SIGCOMM
//! 2022, section 5.5, holds simulators together by the delay of their links.)
//!
//! What a machine sees (when frames arrive, and where it waits if the other one stands) follows from the virtual state of both alone:
//! promises that are more careful than they have to be cost real time and change nothing.

use nestor_link::End;

/// What is known of one machine.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// Its own time at the common time zero; `None` until it has told it.
    zero_ns: Option<u64>,
    /// The time that it told last.
    now_ns: u64,
    /// When it can send a frame at the earliest unless one arrives before.
    sends_ns: u64,
    /// It waits for the other's next promise.
    waits: bool,
}

/// The common time of both machines.
#[derive(Debug)]
pub struct Together {
    delay_ns: u64,
    /// By [`End::index`].
    told: [Told; 2],
}

impl Together {
    /// Begins at time zero, at which both machines can send. `delay_ns` is what a frame takes at least.
    pub fn new(delay_ns: u64) -> Self {
        Self { delay_ns: delay_ns.max(1), told: Default::default() }
    }

    /// The common time at a machine's own time. The first time that it tells is zero.
    pub fn common_ns(&mut self, end: End, own_ns: u64) -> u64 {
        own_ns.saturating_sub(*self.told[end.index()].zero_ns.get_or_insert(own_ns))
    }

    /// A machine's own time at the common time zero; `None` until it has told it.
    pub fn zero_ns(&self, end: End) -> Option<u64> {
        self.told[end.index()].zero_ns
    }

    /// A machine's own time at a common time.
    pub fn own_ns(&self, end: End, common_ns: u64) -> u64 {
        self.told[end.index()].zero_ns.unwrap_or(0).saturating_add(common_ns)
    }

    /// A machine has come to `now_ns`, and sends nothing before `sends_ns` unless a frame arrives there: then it promises again.
    pub fn promise(&mut self, end: End, now_ns: u64, sends_ns: u64) {
        let told = &mut self.told[end.index()];
        (told.now_ns, told.sends_ns) = (now_ns, sends_ns.max(now_ns));
    }

    /// Up to when a machine may run: a frame that the other one sends as early as it can arrives there later. `arrives_ns` is when the
    /// first of the frames arrives that are under way to the other, which may answer it at once.
    pub fn bound_ns(&self, end: End, arrives_ns: Option<u64>) -> u64 {
        let other = self.told[end.other().index()];
        let sends_ns = arrives_ns.into_iter().fold(other.sends_ns, u64::min).max(other.now_ns);
        sends_ns.saturating_add(self.delay_ns)
    }

    /// When a machine is to tell its time next at the latest, if it may run to a bound. One that has something to do tells it every
    /// delay, at the same times as the other: so both can run at once.
    pub fn tells_ns(&self, end: End, bound_ns: u64) -> u64 {
        let told = self.told[end.index()];
        let is_busy = told.sends_ns == told.now_ns;
        let next_ns = (told.now_ns / self.delay_ns).saturating_add(1).saturating_mul(self.delay_ns);
        if is_busy { bound_ns.min(next_ns) } else { bound_ns }
    }

    /// A machine waits for the other's next promise, or no longer.
    pub fn set_waits(&mut self, end: End, waits: bool) {
        self.told[end.index()].waits = waits;
    }

    /// Whether a machine waits at this bound of it.
    pub fn rests(&self, end: End, bound_ns: u64) -> bool {
        let told = self.told[end.index()];
        told.waits && told.now_ns >= bound_ns
    }

    /// Whether a machine waits at this bound of it. It is about to be given something to do there, so it may send at once.
    pub fn wake(&mut self, end: End, bound_ns: u64) -> bool {
        let rests = self.rests(end, bound_ns);
        let told = &mut self.told[end.index()];
        if rests {
            told.sends_ns = told.now_ns;
        }
        rests
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_runs_as_far_as_a_frame_takes_that_the_other_sends_when_it_can() {
        let mut together = Together::new(100);
        assert_eq!([together.common_ns(End::Lower, 5000), together.common_ns(End::Upper, 70)], [0, 0]);
        assert_eq!(End::BOTH.map(|end| together.bound_ns(end, None)), [100, 100]);
        together.promise(End::Lower, 0, 4000);
        assert_eq!(together.bound_ns(End::Upper, None), 4100);
        assert_eq!(together.bound_ns(End::Upper, Some(62)), 162, "it may answer a frame at once");
        assert_eq!(together.bound_ns(End::Lower, None), 100);
        assert_eq!(End::BOTH.map(|end| together.own_ns(end, 100)), [5100, 170]);
    }

    #[test]
    fn one_that_has_something_to_do_tells_its_time_every_delay() {
        let mut together = Together::new(100);
        together.promise(End::Lower, 130, 130);
        assert_eq!(together.tells_ns(End::Lower, 900), 200);
        assert_eq!(together.tells_ns(End::Lower, 150), 150);
        together.promise(End::Lower, 130, 500);
        assert_eq!(together.tells_ns(End::Lower, 900), 900);
    }

    #[test]
    fn who_is_given_something_to_do_where_it_waits_may_send_at_once() {
        let mut together = Together::new(100);
        together.promise(End::Upper, 30, 30);
        together.promise(End::Lower, 130, 9000);
        assert!(!together.wake(End::Lower, 130), "it does not wait");
        together.set_waits(End::Lower, true);
        assert!(!together.wake(End::Lower, 140), "it may run on");
        assert_eq!(together.bound_ns(End::Upper, None), 9100);
        assert!(together.wake(End::Lower, 130));
        assert_eq!(together.bound_ns(End::Upper, None), 230);
    }

    /// A machine that does things at times known beforehand.
    struct Simulated {
        end: End,
        now_ns: u64,
        /// When its timers are due, and whether it sends a frame then.
        timers: VecDeque<(u64, bool)>,
        /// When frames arrive here.
        arriving: VecDeque<u64>,
        /// When frames have arrived here.
        arrived: Vec<u64>,
        /// It answers that many of them.
        answers: usize,
        waits: bool,
    }

    impl Simulated {
        fn new(end: End, gaps: &[(u64, bool)], answers: usize, until_ns: u64) -> Self {
            let mut at_ns = 0;
            let timers = gaps.iter().map(|(gap, sends)| {
                at_ns += gap;
                (at_ns, *sends)
            });
            let timers = timers.take_while(|(at_ns, _)| *at_ns < until_ns).chain([(until_ns, false)]);
            let (arriving, arrived) = (VecDeque::new(), Vec::new());
            Self { end, now_ns: 0, timers: timers.collect(), arriving, arrived, answers, waits: false }
        }

        fn own_event_ns(&self) -> u64 {
            let timer = self.timers.front().map(|(at_ns, _)| *at_ns);
            timer.into_iter().chain(self.arriving.front().copied()).min().unwrap_or(u64::MAX)
        }

        /// Runs up to what comes next, and returns how many frames it sends then. Nothing if it has to wait.
        fn run(
            &mut self,
            together: &mut Together,
            other_arrives_ns: Option<u64>,
            is_careful: bool,
        ) -> Option<usize> {
            let timer_ns = self.timers.front().map_or(u64::MAX, |(at_ns, _)| *at_ns);
            together.promise(self.end, self.now_ns, if is_careful { self.now_ns } else { timer_ns });
            let bound_ns = together.bound_ns(self.end, other_arrives_ns);
            self.waits = bound_ns <= self.now_ns;
            together.set_waits(self.end, self.waits);
            if self.waits {
                return None;
            }
            self.now_ns = together.tells_ns(self.end, bound_ns).min(self.own_event_ns());
            let (mut sends, before) = (0, self.arrived.len());
            while self.arriving.pop_front_if(|at_ns| *at_ns <= self.now_ns).is_some() {
                self.arrived.push(self.now_ns);
                sends += usize::from(self.arrived.len() <= self.answers);
            }
            if self.arrived.len() > before {
                together.promise(self.end, self.now_ns, self.now_ns);
            }
            while let Some((_, sends_then)) = self.timers.pop_front_if(|(at_ns, _)| *at_ns <= self.now_ns) {
                sends += usize::from(sends_then);
            }
            Some(sends)
        }
    }

    /// When frames arrive at both machines if they run in an order. `until_ns`: how far both run.
    fn arrivals(
        delay_ns: u64,
        gaps: [&[(u64, bool)]; 2],
        order: impl Fn(usize) -> (usize, bool),
        until_ns: u64,
    ) -> [Vec<u64>; 2] {
        let mut together = Together::new(delay_ns);
        let mut machines = End::BOTH.map(|end| Simulated::new(end, gaps[end.index()], 20, until_ns));
        let mut waited = 0;
        for turn in 0.. {
            let (mut index, is_careful) = order(turn);
            if machines[index].now_ns >= until_ns {
                index = 1 - index;
            }
            if machines[index].now_ns >= until_ns {
                break;
            }
            let arrives_ns = machines[1 - index].arriving.front().copied();
            match machines[index].run(&mut together, arrives_ns, is_careful) {
                Some(sends) => {
                    waited = 0;
                    // On the wire for a nanosecond each.
                    let at_ns = machines[index].now_ns + delay_ns + 1;
                    let other = &mut machines[1 - index];
                    assert!(sends == 0 || at_ns > other.now_ns, "in its past");
                    other.arriving.extend((0..sends).map(|_| at_ns));
                }
                None => {
                    waited += 1;
                    assert!(waited < 1000, "both wait");
                }
            }
        }
        machines.map(|machine| machine.arrived.into_iter().filter(|at_ns| *at_ns < until_ns).collect())
    }

    proptest! {
        #[test]
        fn frames_arrive_at_the_same_times_whoever_runs_first_and_however_careful_promises_are(
            delay_ns in 1u64..1000,
            lower in proptest::collection::vec((1u64..3000, any::<bool>()), 1..20),
            upper in proptest::collection::vec((1u64..3000, any::<bool>()), 1..20),
            order in proptest::collection::vec((0usize..2, any::<bool>()), 10..100),
        ) {
            let gaps = [lower.as_slice(), upper.as_slice()];
            let until_ns = 20_000;
            // An order that never lets one of them run would end nowhere.
            let by_chance = |turn: usize| if turn.is_multiple_of(7) { (turn / 7 % 2, false) } else { order[turn % order.len()] };
            let in_turn = arrivals(delay_ns, gaps, |turn| (turn % 2, true), until_ns);
            prop_assert_eq!(arrivals(delay_ns, gaps, by_chance, until_ns), in_turn);
        }
    }
}
