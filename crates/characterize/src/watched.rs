//! A system that was watched at work: what is to be said of that beside its requests.

use nestor_workload::Profile;
use nestor_workload::profile::Processor;

use crate::devices::Observed;
use crate::error::CharacterizeError;

/// Watching that takes a larger share of a processor is told at once.
const MOST_COST: f64 = 0.01;

/// What was seen besides the requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    /// How long.
    pub seconds: f64,
    /// Whether everybody's requests count.
    pub everybody: bool,
    /// What was used of the processors.
    pub processor: Processor,
    /// Events that the kernel could not keep.
    pub dropped_events: u64,
    /// Seconds before the end of the time at which all processes that were watched had ended.
    pub ended_s: Option<f64>,
    /// Whether the recording took as much memory as it may before the time was over.
    pub full: bool,
    /// Processor seconds that watching took.
    pub own_s: f64,
}

impl Watched {
    /// The profile of what was observed meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Observed::profile`].
    pub fn profile(&self, observed: Observed) -> Result<Profile, CharacterizeError> {
        let others = observed.others;
        let longer = if others > 0 {
            format!(
                "{others} requests came from other threads (the kernel writes back for all processes); \
                 without --pid and --cgroup, all requests count"
            )
        } else {
            "watch longer (--for 5m), or while the application is working".to_owned()
        };
        let mut profile = observed.profile(Some(self.seconds), &longer)?;
        profile.processor = Some(self.processor);
        profile.remarks.extend(self.remarks(others));
        Ok(profile)
    }

    /// What the recording lacks.
    fn remarks(&self, others: u64) -> impl Iterator<Item = String> + use<> {
        let dropped = self.dropped_events;
        [
            (dropped > 0).then(|| format!("the kernel dropped {dropped} events")),
            (others > 0).then(|| {
                format!(
                    "{others} requests of other threads are left out; these include what the kernel writes \
                     back later for the application"
                )
            }),
            self.everybody.then(|| "the processor's shares are those of the whole machine".to_owned()),
            self.ended_s.map(|ended_s| {
                format!(
                    "the processes ended {ended_s:.0} s early: rates are those of the time before their end"
                )
            }),
            self.full.then(|| format!("the memory for the recording was full after {:.0} s", self.seconds)),
        ]
        .into_iter()
        .flatten()
    }

    /// What watching took, and reading the recording afterwards so many processor seconds.
    pub fn cost(&self, reading_s: f64) -> String {
        format!(
            "watching took {:.2} % of one processor; reading the recording afterwards took {reading_s:.1} s \
             of one processor",
            self.own_share() * 100.0
        )
    }

    /// Whether watching took so much that the load was not alone.
    pub fn is_costly(&self) -> bool {
        self.own_share() > MOST_COST
    }

    fn own_share(&self) -> f64 {
        self.own_s / self.seconds.max(1e-9)
    }
}
