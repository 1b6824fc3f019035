//! When the phases of a life began: between which two looks, and what the manager recorded of that.

use crate::{InstanceId, Phase, Recorded, Sight, Token};

/// The unit in which managers record times.
const SECOND_NS: u64 = 1_000_000_000;

/// When a phase began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Which.
    pub phase: Phase,
    /// When, since the instances were asked for.
    pub ns: u64,
    /// By how much that may be wrong.
    pub uncertain_ns: u64,
    /// When by the manager's own records: seconds since 1970 of its clock.
    pub recorded_s: Option<u64>,
    /// What the manager called the states that belong to it, in the order in which they were seen; none of a phase that began and ended
    /// between two looks.
    pub names: Vec<String>,
}

/// A life that was gone through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The instance.
    pub id: InstanceId,
    /// What it was asked for with.
    pub token: Token,
    /// In order; the last is [`Phase::Done`].
    pub begins: Vec<Begin>,
    /// What else the manager said of it.
    pub details: Vec<(&'static str, String)>,
}

/// What a look has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    To(Phase),
    Back { from: Phase, to: Phase },
}

/// A phase that was seen, with the times between which it began.
#[derive(Clone, Debug)]
struct Seen {
    phase: Phase,
    earliest_ns: u64,
    latest_ns: u64,
    names: Vec<String>,
}

/// What was seen of a life until now.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// When the first of all instances was asked for.
    zero_ns: u64,
    /// When this one was.
    asked_ns: u64,
    /// How long the request itself took; at some time within, the manager wrote down that there was one.
    ask_took_ns: u64,
    seen: Vec<Seen>,
    /// Before the request that was answered last was sent.
    last_look_ns: u64,
    is_seen: bool,
    recorded: Recorded,
    details: Vec<(&'static str, String)>,
}

impl Course {
    /// Of an instance that is not asked for yet.
    pub(super) fn begin() -> Self {
        let pending = Seen { phase: Phase::Pending, earliest_ns: 0, latest_ns: 0, names: Vec::new() };
        Self {
            zero_ns: 0,
            asked_ns: 0,
            ask_took_ns: 0,
            seen: vec![pending],
            last_look_ns: 0,
            is_seen: false,
            recorded: Recorded::default(),
            details: Vec::new(),
        }
    }

    /// It is asked for now; the first of all was at another time.
    pub(super) fn ask(&mut self, zero_ns: u64, now_ns: u64) {
        (self.zero_ns, self.asked_ns, self.last_look_ns) = (zero_ns, now_ns, now_ns);
        for pending in &mut self.seen {
            (pending.earliest_ns, pending.latest_ns) = (zero_ns, zero_ns);
        }
    }

    pub(super) fn is_asked(&mut self, now_ns: u64) {
        self.ask_took_ns = now_ns.saturating_sub(self.asked_ns);
    }

    /// The phase that it is in.
    pub(super) fn phase(&self) -> Phase {
        self.seen.last().map_or(Phase::Pending, |seen| seen.phase)
    }

    /// Whether the manager has ever said anything of it.
    pub(super) fn is_seen(&self) -> bool {
        self.is_seen
    }

    /// The end is asked for now, and nothing of it can have happened before.
    pub(super) fn end_is_asked(&mut self, now_ns: u64) {
        let names = Vec::new();
        self.seen.push(Seen { phase: Phase::Shutdown, earliest_ns: now_ns, latest_ns: now_ns, names });
        self.last_look_ns = now_ns;
    }

    /// Takes what a manager said, in answer to a request that was sent at one time and answered at another.
    pub(super) fn see(&mut self, phase: Phase, sight: Sight, before_ns: u64, now_ns: u64) -> Change {
        let from = self.phase();
        // One that was told to end may be said to run for a while.
        let is_late = phase < from && from == Phase::Shutdown;
        if phase < from && !is_late {
            return Change::Back { from, to: phase };
        }
        (self.is_seen, self.recorded, self.details) = (true, sight.recorded, sight.details);
        let since_ns = std::mem::replace(&mut self.last_look_ns, before_ns);
        if is_late {
            return Change::None;
        }
        if phase > from {
            // It may have begun after the last look had been answered by the manager, which was after it was sent.
            self.seen.push(Seen { phase, earliest_ns: since_ns, latest_ns: now_ns, names: vec![sight.name] });
            return Change::To(phase);
        }
        if let Some(seen) = self.seen.last_mut().filter(|seen| !seen.names.contains(&sight.name)) {
            seen.names.push(sight.name);
        }
        Change::None
    }

    /// When each phase began. One that was not seen, because it began and ended between two looks, is there if the manager recorded it.
    pub(super) fn finish(self, id: InstanceId, token: Token) -> Followed {
        let mut begins: Vec<Begin> = Vec::new();
        let mut before = Phase::Pending;
        for seen in &self.seen {
            let between = Phase::ALL.into_iter().filter(|phase| before < *phase && *phase < seen.phase);
            for phase in between.filter(|phase| self.recorded.begin_s(*phase).is_some()) {
                let window = Seen { phase, names: Vec::new(), ..seen.clone() };
                self.put(&mut begins, &window);
            }
            self.put(&mut begins, seen);
            before = seen.phase;
        }
        Followed { id, token, begins, details: self.details }
    }

    fn put(&self, begins: &mut Vec<Begin>, seen: &Seen) {
        let recorded_s = self.recorded.begin_s(seen.phase);
        let window_ns = seen.latest_ns - seen.earliest_ns;
        let by_record = recorded_s.and_then(|at_s| self.by_manager(at_s));
        // Both its seconds and the moment within the request are unknown.
        let off_ns = SECOND_NS.saturating_add(self.ask_took_ns);
        let is_known_by_looking = !seen.names.is_empty() || seen.phase == Phase::Pending;
        let (at_ns, uncertain_ns) = match by_record {
            Some(at_ns) if window_ns > off_ns || !is_known_by_looking => {
                (at_ns.clamp(seen.earliest_ns, seen.latest_ns), window_ns.min(off_ns))
            }
            _ => (seen.latest_ns, window_ns),
        };
        let ns = at_ns.saturating_sub(self.zero_ns).max(begins.last().map_or(0, |last| last.ns));
        begins.push(Begin { phase: seen.phase, ns, uncertain_ns, recorded_s, names: seen.names.clone() });
    }

    /// A time of the manager's clock on this one: both know when the instance was asked for.
    fn by_manager(&self, at_s: u64) -> Option<u64> {
        let since_s = at_s.checked_sub(self.recorded.begin_s(Phase::Pending)?)?;
        self.asked_ns.checked_add(since_s.checked_mul(SECOND_NS)?)
    }
}
