//! A campaign at the manager of a cloud: nothing is built there, so that no lab is opened.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, anyhow};
use nestor_measure::campaign::{CampaignEnd, CampaignOptions, run_campaign};
use nestor_measure::{Bench, ManagerBench};
use nestor_results::{Store, Study};
use nestor_stack::Place;
use nestor_stop::StopHandle;

use crate::progress::Progress;
use crate::signals::EndOnSignals;

/// Runs a campaign there; how it ended, and whether the user interrupted it.
///
/// # Errors
/// When results cannot be kept.
pub fn run(
    study: &Study,
    place: &Place,
    options: &CampaignOptions,
    quiet: bool,
    store: &mut Store,
) -> Result<(CampaignEnd, bool)> {
    let stop = StopHandle::new().context("signals could not be caught")?;
    let bench = ManagerBench::at(place, stop.clone());
    let mut bench = bench.ok_or_else(|| anyhow!("`--on {place}` is no manager"))?;
    let left = bench.left_behind();
    let progress = Progress::new(study.stacks.len() as u64).quiet(quiet);
    let signals = EndOnSignals::telling(vec![Box::new(move |_: &str| stop.stop())])?;
    let benches: Vec<&mut (dyn Bench + Send)> = vec![&mut bench];
    let end = run_campaign(benches, study, store, options, signals.interrupted(), &progress);
    progress.finish();
    let interrupted = signals.interrupted().load(Ordering::Relaxed);
    if interrupted {
        // Its cell is not kept, and what it left would not be said.
        left.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|said| errln!("{said}"));
    }
    Ok((end?, interrupted))
}
