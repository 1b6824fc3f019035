//! The virtual times of machines, held together.
//!
//! Each machine counts its own time. From the moment at which the link is joined, all have a common time. Whenever a machine tells its
//! time, it promises when it can send a frame at the earliest: at once if it has something to do, otherwise when its next timer is due or a
//! frame arrives. Each of the others may run until a frame that is sent then can be there, and waits for the next promise when it has come so far. No
//! frame ever arrives in a machine's past. (The conservative synchronisation of Chandy and Misra with null messages; SimBricks, SIGCOMM
//! 2022, section 5.5, holds simulators together by the delay of their links.)
//!
//! What a machine sees (when frames arrive, and where it waits if another one stands) follows from the virtual state of all alone:
//! promises that are more careful than they have to be cost real time and change nothing.

use nestor_link::PortIndex;

/// What is known of one machine.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// Its own time at the common time zero; `None` until it has told it.
    zero_ns: Option<u64>,
    /// The time that it told last.
    now_ns: u64,
    /// When it can send a frame at the earliest unless one arrives before.
    sends_ns: u64,
    /// It waits for the next promise of another.
    waits: bool,
}

/// The common time of all machines.
#[derive(Debug)]
pub struct Together {
    delay_ns: u64,
    /// By [`PortIndex::index`].
    told: Vec<Told>,
}

impl Together {
    /// Begins at time zero, at which all of so many machines can send. `delay_ns` is what a frame takes at least.
    pub fn new(delay_ns: u64, machines: usize) -> Self {
        Self { delay_ns: delay_ns.max(1), told: vec![Told::default(); machines] }
    }

    /// The common time at a machine's own time. The first time that it tells is zero.
    pub fn common_ns(&mut self, machine: PortIndex, own_ns: u64) -> u64 {
        own_ns.saturating_sub(*self.told[machine.index()].zero_ns.get_or_insert(own_ns))
    }

    /// A machine's own time at the common time zero; `None` until it has told it.
    pub fn zero_ns(&self, machine: PortIndex) -> Option<u64> {
        self.told[machine.index()].zero_ns
    }

    /// A machine's own time at a common time.
    pub fn own_ns(&self, machine: PortIndex, common_ns: u64) -> u64 {
        self.told[machine.index()].zero_ns.unwrap_or(0).saturating_add(common_ns)
    }

    /// A machine has come to `now_ns`, and sends nothing before `sends_ns` unless a frame arrives there: then it promises again.
    pub fn promise(&mut self, machine: PortIndex, now_ns: u64, sends_ns: u64) {
        let told = &mut self.told[machine.index()];
        (told.now_ns, told.sends_ns) = (now_ns, sends_ns.max(now_ns));
    }

    /// Up to when a machine may run: a frame that another one sends as early as it can arrives there later. `arrives_ns`, by
    /// [`PortIndex::index`], is when the first of the frames arrives that are under way to each, which may answer it at once.
    pub fn bound_ns(&self, machine: PortIndex, arrives_ns: &[Option<u64>]) -> u64 {
        let others =
            self.told.iter().zip(arrives_ns).enumerate().filter(|(other, _)| *other != machine.index());
        let sends_ns = others.map(|(_, (told, arrives_ns))| {
            arrives_ns.map_or(told.sends_ns, |at_ns| at_ns.min(told.sends_ns)).max(told.now_ns)
        });
        sends_ns.min().unwrap_or(u64::MAX).saturating_add(self.delay_ns)
    }

    /// When a machine is to tell its time next at the latest, if it may run to a bound. One that has something to do tells it every
    /// delay, at the same times as the others: so all can run at once.
    pub fn tells_ns(&self, machine: PortIndex, bound_ns: u64) -> u64 {
        let told = self.told[machine.index()];
        let is_busy = told.sends_ns == told.now_ns;
        let next_ns = (told.now_ns / self.delay_ns).saturating_add(1).saturating_mul(self.delay_ns);
        if is_busy { bound_ns.min(next_ns) } else { bound_ns }
    }

    /// A machine waits for the next promise of another, or no longer.
    pub fn set_waits(&mut self, machine: PortIndex, waits: bool) {
        self.told[machine.index()].waits = waits;
    }

    /// Whether a machine waits at this bound of it.
    pub fn rests(&self, machine: PortIndex, bound_ns: u64) -> bool {
        let told = self.told[machine.index()];
        told.waits && told.now_ns >= bound_ns
    }

    /// A machine that waits is about to be given something to do there, so it may send at once.
    pub fn wake(&mut self, machine: PortIndex) {
        let told = &mut self.told[machine.index()];
        told.sends_ns = told.now_ns;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use nestor_link::End;
    use proptest::prelude::*;

    use super::*;

    fn at(machine: usize) -> PortIndex {
        PortIndex::all(machine + 1).last().unwrap()
    }

    #[test]
    fn each_runs_as_far_as_a_frame_takes_that_the_other_sends_when_it_can() {
        let [lower, upper] = End::BOTH.map(PortIndex::from);
        let mut together = Together::new(100, 2);
        assert_eq!([together.common_ns(lower, 5000), together.common_ns(upper, 70)], [0, 0]);
        assert_eq!([lower, upper].map(|at| together.bound_ns(at, &[None; 2])), [100, 100]);
        together.promise(lower, 0, 4000);
        assert_eq!(together.bound_ns(upper, &[None; 2]), 4100);
        assert_eq!(together.bound_ns(upper, &[Some(62), None]), 162, "it may answer a frame at once");
        assert_eq!(together.bound_ns(upper, &[None, Some(62)]), 4100, "that frame is its own");
        assert_eq!(together.bound_ns(lower, &[None; 2]), 100);
        assert_eq!([lower, upper].map(|at| together.own_ns(at, 100)), [5100, 170]);
    }

    #[test]
    fn of_many_the_one_that_can_send_first_holds_all_others() {
        let mut together = Together::new(100, 4);
        for (machine, sends_ns) in [(0, 900), (1, 30), (2, 500), (3, 7000)] {
            together.promise(at(machine), 20, sends_ns);
        }
        let bounds =
            |together: &Together| [0, 1, 2, 3].map(|machine| together.bound_ns(at(machine), &[None; 4]));
        assert_eq!(bounds(&together), [130, 600, 130, 130]);
        together.promise(at(1), 600, 8000);
        assert_eq!(bounds(&together), [600, 600, 1000, 600]);
        together.set_waits(at(0), true);
        together.promise(at(0), 600, 900);
        assert!(together.rests(at(0), 600) && !together.rests(at(1), 600), "the other one does not wait");
    }

    #[test]
    fn one_that_has_something_to_do_tells_its_time_every_delay() {
        let [lower, _] = End::BOTH.map(PortIndex::from);
        let mut together = Together::new(100, 2);
        together.promise(lower, 130, 130);
        assert_eq!(together.tells_ns(lower, 900), 200);
        assert_eq!(together.tells_ns(lower, 150), 150);
        together.promise(lower, 130, 500);
        assert_eq!(together.tells_ns(lower, 900), 900);
    }

    #[test]
    fn who_is_given_something_to_do_where_it_waits_may_send_at_once() {
        let [lower, upper] = End::BOTH.map(PortIndex::from);
        let mut together = Together::new(100, 2);
        together.promise(upper, 30, 30);
        together.promise(lower, 130, 9000);
        assert!(!together.rests(lower, 130), "it does not wait");
        together.set_waits(lower, true);
        assert!(!together.rests(lower, 140), "it may run on");
        assert!(together.rests(lower, 130));
        assert_eq!(together.bound_ns(upper, &[None; 2]), 9100);
        together.wake(lower);
        assert_eq!(together.bound_ns(upper, &[None; 2]), 230);
    }

    /// A machine that does things at times known beforehand.
    struct Simulated {
        at: PortIndex,
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
        fn new(at: PortIndex, gaps: &[(u64, bool)], answers: usize, until_ns: u64) -> Self {
            let mut at_ns = 0;
            let timers = gaps.iter().map(|(gap, sends)| {
                at_ns += gap;
                (at_ns, *sends)
            });
            let timers = timers.take_while(|(at_ns, _)| *at_ns < until_ns).chain([(until_ns, false)]);
            let (arriving, arrived) = (VecDeque::new(), Vec::new());
            Self { at, now_ns: 0, timers: timers.collect(), arriving, arrived, answers, waits: false }
        }

        fn own_event_ns(&self) -> u64 {
            let timer = self.timers.front().map(|(at_ns, _)| *at_ns);
            timer.into_iter().chain(self.arriving.front().copied()).min().unwrap_or(u64::MAX)
        }

        /// Runs up to what comes next, and returns how many frames it sends then. Nothing if it has to wait.
        fn run(
            &mut self,
            together: &mut Together,
            arrives_ns: &[Option<u64>],
            is_careful: bool,
        ) -> Option<usize> {
            let timer_ns = self.timers.front().map_or(u64::MAX, |(at_ns, _)| *at_ns);
            together.promise(self.at, self.now_ns, if is_careful { self.now_ns } else { timer_ns });
            let bound_ns = together.bound_ns(self.at, arrives_ns);
            self.waits = bound_ns <= self.now_ns;
            together.set_waits(self.at, self.waits);
            if self.waits {
                return None;
            }
            self.now_ns = together.tells_ns(self.at, bound_ns).min(self.own_event_ns());
            let (mut sends, before) = (0, self.arrived.len());
            while self.arriving.pop_front_if(|at_ns| *at_ns <= self.now_ns).is_some() {
                self.arrived.push(self.now_ns);
                sends += usize::from(self.arrived.len() <= self.answers);
            }
            if self.arrived.len() > before {
                together.promise(self.at, self.now_ns, self.now_ns);
            }
            while let Some((_, sends_then)) = self.timers.pop_front_if(|(at_ns, _)| *at_ns <= self.now_ns) {
                sends += usize::from(sends_then);
            }
            Some(sends)
        }
    }

    /// When frames arrive at machines if they run in an order: what each sends goes to the others in turn. `until_ns`: how far all run.
    fn arrivals(
        delay_ns: u64,
        gaps: &[Vec<(u64, bool)>],
        order: impl Fn(usize) -> (usize, bool),
        until_ns: u64,
    ) -> Vec<Vec<u64>> {
        let count = gaps.len();
        let mut together = Together::new(delay_ns, count);
        let mut machines: Vec<Simulated> = gaps
            .iter()
            .enumerate()
            .map(|(index, gaps)| Simulated::new(at(index), gaps, 20, until_ns))
            .collect();
        let (mut waited, mut sent) = (0, vec![0; count]);
        for turn in 0.. {
            let (first, is_careful) = order(turn);
            let mut in_turn = (0..count).map(|after| (first + after) % count);
            let Some(index) = in_turn.find(|index| machines[*index].now_ns < until_ns) else { break };
            let arrives_ns: Vec<_> =
                machines.iter().map(|machine| machine.arriving.front().copied()).collect();
            match machines[index].run(&mut together, &arrives_ns, is_careful) {
                Some(sends) => {
                    waited = 0;
                    // On the wire for a nanosecond each.
                    let at_ns = machines[index].now_ns + delay_ns + 1;
                    for _ in 0..sends {
                        let other = &mut machines[(index + 1 + sent[index] % (count - 1)) % count];
                        sent[index] += 1;
                        assert!(at_ns > other.now_ns, "in its past");
                        let place = other.arriving.partition_point(|before_ns| *before_ns <= at_ns);
                        other.arriving.insert(place, at_ns);
                    }
                }
                None => {
                    waited += 1;
                    assert!(waited < 1000, "all wait");
                }
            }
        }
        let before =
            |machine: Simulated| machine.arrived.into_iter().filter(|at_ns| *at_ns < until_ns).collect();
        machines.into_iter().map(before).collect()
    }

    proptest! {
        #[test]
        fn frames_arrive_at_the_same_times_whoever_runs_first_and_however_careful_promises_are(
            delay_ns in 1u64..1000,
            gaps in proptest::collection::vec(proptest::collection::vec((1u64..3000, any::<bool>()), 1..20), 2..5),
            order in proptest::collection::vec((0usize..4, any::<bool>()), 10..100),
        ) {
            let (until_ns, count) = (20_000, gaps.len());
            // An order that never lets one of them run would end nowhere.
            let by_chance = |turn: usize| {
                if turn.is_multiple_of(7) { (turn / 7 % count, false) } else { order[turn % order.len()] }
            };
            let in_turn = arrivals(delay_ns, &gaps, |turn| (turn % count, true), until_ns);
            prop_assert_eq!(arrivals(delay_ns, &gaps, by_chance, until_ns), in_turn);
        }
    }
}
