//! The place that is predicted for, and what is known of others: numbers of another place are never mixed in, but it is said that
//! there are some.

use std::collections::BTreeMap;

use anyhow::Result;
use nestor_results::{Elsewhere, Known, KnownPlace, Store};
use nestor_stack::PlaceWish;
use nestor_text::units;

use crate::arguments::LabArguments;

/// What was measured at the place that `--on` names, with a note where there is more that does not count.
///
/// # Errors
/// When the store cannot be read.
pub fn known(store: &Store, lab: &LabArguments) -> Result<Known> {
    let known = store.known(&lab.place_of_results(store)?.to_string())?;
    let (unsettled, cells) = (known.unsettled_cells, known.cells.len());
    if unsettled > 0 {
        errln!(
            "note: {unsettled} of {cells} cells have no run with settled throughput; longer runs settle \
             (runtime=)"
        );
    }
    // Runs at other places are not expected to count; runs at this one with other processors are.
    let other_processors = |elsewhere: &Elsewhere| elsewhere.place.on == known.place.on;
    if let Some(places) = places(&known, other_processors) {
        errln!("note: the runs on {places} do not count: the newest run is from {}", known.place.in_words());
    }
    Ok(known)
}

/// `--on` for commands that measure more; `None` where it may be left out. A place that this version does not know is always named.
///
/// # Errors
/// When nothing can be found out about this machine.
pub fn named(place: &KnownPlace, lab: &LabArguments) -> Result<Option<String>> {
    let is_usual = lab.on == PlaceWish::default() && place.on.value() == Some(&lab.usual_place()?);
    Ok((!is_usual).then(|| place.on.as_asked()))
}

/// Where else there are such runs, in a sentence; `None` where there are none.
pub fn elsewhere(known: &Known, what: &str, is_meant: impl Fn(&Elsewhere) -> bool) -> Option<String> {
    let places = places(known, &is_meant)?;
    let here = known.place.in_words();
    let other = known.elsewhere.iter().find(|other| is_meant(other) && other.place.on != known.place.on);
    let there = other.map_or_else(String::new, |other| {
        format!("; to predict for that place, use --on {}", other.place.on.as_asked())
    });
    Some(format!("{what} was measured only on {places}, which says nothing about {here}{there}"))
}

/// `ssh:a (3 runs), this (1 run)`.
fn places(known: &Known, is_meant: impl Fn(&Elsewhere) -> bool) -> Option<String> {
    let mut runs: BTreeMap<String, u32> = BTreeMap::new();
    for elsewhere in known.elsewhere.iter().filter(|elsewhere| is_meant(elsewhere)) {
        *runs.entry(elsewhere.place.in_words()).or_default() += elsewhere.runs;
    }
    let count = |runs: u32| units::plural(runs as usize, "run");
    let each: Vec<String> =
        runs.into_iter().map(|(place, runs)| format!("{place} ({})", count(runs))).collect();
    (!each.is_empty()).then(|| each.join(", "))
}

#[cfg(test)]
mod tests {
    use nestor_stack::{Accelerator, HostTime, Place};

    use super::*;

    fn place(on: &str, processors: Accelerator) -> KnownPlace {
        KnownPlace { on: on.into(), processors: Some(processors), guests: None }
    }

    #[test]
    fn other_places_are_named_with_what_predicts_for_them() {
        let at = |place: KnownPlace, stack: &str, runs: u32| Elsewhere {
            place,
            stack: stack.into(),
            workload: "fio:rand-read".into(),
            runs,
        };
        let known = Known {
            place: place("emulated", Accelerator::Tcg),
            elsewhere: vec![
                at(place("ssh:a", Accelerator::Hardware), "ext4/hdd", 1),
                at(place("ssh:a", Accelerator::Hardware), "xfs/hdd", 2),
                at(place("emulated", Accelerator::Kvm), "jfs/hdd", 4),
            ],
            ..Known::default()
        };
        let told = |stack: &'static str| elsewhere(&known, "it", move |other| other.stack == stack);
        assert_eq!(
            told("xfs/hdd").unwrap(),
            "it was measured only on ssh:a (2 runs), which says nothing about emulated:time=real (TCG); to predict for that place, use --on ssh:a"
        );
        // No option chooses among processors.
        assert_eq!(
            told("jfs/hdd").unwrap(),
            "it was measured only on emulated:time=real (KVM) (4 runs), which says nothing about emulated:time=real (TCG)"
        );
        assert_eq!(told("btrfs/hdd"), None);
        let virtual_time = Place::Emulated(HostTime::VIRTUAL).to_string();
        let now_virtual = Known { place: place(&virtual_time, Accelerator::Tcg), ..known.clone() };
        let told = elsewhere(&now_virtual, "it", |other| other.stack == "jfs/hdd").unwrap();
        assert!(told.ends_with("; to predict for that place, use --on emulated:time=real"), "{told}");
        assert_eq!(places(&known, |_| true).unwrap(), "emulated:time=real (KVM) (4 runs), ssh:a (3 runs)");
    }
}
