//! The progress that the user sees while an image is being built.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// What is being done. The order is that of a build.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum LabStage {
    /// Another process builds the image; this one waits for it.
    Waiting,
    /// Packages are fetched.
    Fetching,
    /// Packages are installed into a new root.
    Installing,
    /// The root is packed.
    Packing,
}

impl LabStage {
    /// A few words for a progress bar.
    pub fn label(self) -> &'static str {
        match self {
            LabStage::Waiting => "waiting for another build of the lab image",
            LabStage::Fetching => "lab image: fetching packages",
            LabStage::Installing => "lab image: installing packages",
            LabStage::Packing => "lab image: packing",
        }
    }

    /// How long the stage takes, as measured on two cores with a mirror near by; decides how the bar is divided and what
    /// is said of stages that have not begun.
    fn planned(self) -> Duration {
        Duration::from_secs(match self {
            LabStage::Waiting => 0,
            LabStage::Fetching => 5,
            LabStage::Installing => 32,
            LabStage::Packing => 5,
        })
    }
}

/// The stages of a build proper.
const STAGES: [LabStage; 3] = [LabStage::Fetching, LabStage::Installing, LabStage::Packing];

/// Below this part of a stage its own pace does not mean anything yet.
const TELLING_FRACTION: f64 = 0.05;

/// One piece of news.
#[derive(Clone, Debug)]
pub struct LabProgress {
    /// What is being done.
    pub stage: LabStage,
    /// How much of the whole is done, from 0 to 1; never falls.
    pub fraction: f64,
    /// An estimate of the time left, as soon as one is possible.
    pub remaining: Option<Duration>,
    /// The package at hand, or the process that is waited for.
    pub detail: String,
}

/// Turns what the stages know into news.
pub struct Tracker<'a> {
    report: &'a dyn Fn(LabProgress),
    stage: Cell<LabStage>,
    stage_began: Cell<Instant>,
    highest: Cell<f64>,
}

impl<'a> Tracker<'a> {
    /// Begins to tell `report`.
    pub fn new(report: &'a dyn Fn(LabProgress)) -> Self {
        Tracker {
            report,
            stage: Cell::new(LabStage::Waiting),
            stage_began: Cell::new(Instant::now()),
            highest: Cell::new(0.0),
        }
    }

    /// Tells that `within` (0 to 1) of `stage` is done.
    pub fn tell(&self, stage: LabStage, within: f64, detail: &str) {
        if stage != self.stage.get() {
            self.stage.set(stage);
            self.stage_began.set(Instant::now());
        }
        let within = within.clamp(0.0, 1.0);
        self.highest.set(self.highest.get().max(overall_fraction(stage, within)));
        (self.report)(LabProgress {
            stage,
            fraction: self.highest.get(),
            remaining: remaining(stage, within, self.stage_began.get().elapsed()),
            detail: detail.to_owned(),
        });
    }
}

fn overall_fraction(stage: LabStage, within: f64) -> f64 {
    let seconds = |stage: LabStage| stage.planned().as_secs_f64();
    let total: f64 = STAGES.into_iter().map(seconds).sum();
    let before: f64 = STAGES.into_iter().filter(|&other| other < stage).map(seconds).sum();
    (before + within * seconds(stage)) / total
}

/// The pace so far gives the remaining time of the present stage; the later ones count as planned.
fn remaining(stage: LabStage, within: f64, elapsed: Duration) -> Option<Duration> {
    if stage == LabStage::Waiting {
        return None;
    }
    let later: Duration = STAGES.into_iter().filter(|&other| other > stage).map(LabStage::planned).sum();
    let present = if within >= TELLING_FRACTION {
        elapsed.mul_f64((1.0 - within) / within)
    } else {
        stage.planned().saturating_sub(elapsed)
    };
    Some(present + later)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_fraction_runs_from_nothing_to_everything() {
        assert_eq!(overall_fraction(LabStage::Waiting, 1.0), 0.0);
        assert_eq!(overall_fraction(LabStage::Fetching, 0.0), 0.0);
        assert_eq!(overall_fraction(LabStage::Fetching, 1.0), overall_fraction(LabStage::Installing, 0.0));
        assert_eq!(overall_fraction(LabStage::Packing, 1.0), 1.0);
    }

    #[test]
    fn the_fraction_never_falls() {
        let news = RefCell::new(Vec::new());
        let report = |progress: LabProgress| news.borrow_mut().push(progress.fraction);
        let tracker = Tracker::new(&report);
        for within in [0.1, 0.9, 0.4, 7.0] {
            tracker.tell(LabStage::Installing, within, "");
        }
        let news = news.into_inner();
        assert!(news.is_sorted());
        assert_eq!(news[3], overall_fraction(LabStage::Packing, 0.0));
    }

    #[test]
    fn the_time_left_follows_the_pace_of_the_stage() {
        let minute = Duration::from_secs(60);
        assert_eq!(remaining(LabStage::Packing, 0.25, minute), Some(3 * minute));
        let packing = LabStage::Packing.planned();
        assert_eq!(remaining(LabStage::Installing, 0.5, minute), Some(minute + packing));
        assert_eq!(remaining(LabStage::Packing, 0.0, Duration::ZERO), Some(packing));
        assert_eq!(remaining(LabStage::Waiting, 0.0, minute), None);
    }
}
