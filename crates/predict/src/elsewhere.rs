//! What was measured only at other places: its numbers are never mixed in, but it is said that there are some.

use std::collections::BTreeMap;

use nestor_results::{Elsewhere, Known, WrittenStack};
use nestor_text::units;

use crate::evidence::{Evidence, Question};
use crate::known::is_surface;
use crate::methods::measure_surface;
use crate::missing::Missing;

/// Where else there are such runs, in a sentence; `None` where there are none.
pub fn only_elsewhere(known: &Known, what: &str, is_meant: impl Fn(&Elsewhere) -> bool) -> Option<String> {
    let places = places(known, &is_meant)?;
    let here = known.place.in_words();
    let other = known.elsewhere.iter().find(|other| is_meant(other) && other.place.on != known.place.on);
    let there = other.map_or_else(String::new, |other| {
        format!("; to predict for that place, use --on {}", other.place.on.as_asked())
    });
    Some(format!("{what} was measured only on {places}, which says nothing about {here}{there}"))
}

/// Runs at the place that is asked about that do not count, because other processors made them: `this (KVM) (3 runs)`. Those at other
/// places are not expected to count.
pub fn on_other_processors(known: &Known) -> Option<String> {
    places(known, |elsewhere| elsewhere.place.on == known.place.on)
}

/// What was measured of a question's two stacks at other places only: anything, or a surface. With what would tell of this place.
pub fn missing_here(question: &Question, evidence: &Evidence, known: &Known) -> Vec<Missing> {
    let of_stack = |stack: &WrittenStack| {
        let has_surface = evidence.points.contains_key(stack);
        let has_loads = evidence.cells.iter().any(|cell| cell.stack == *stack);
        let anything = || only_elsewhere(known, stack, |other| other.stack == *stack);
        let surface = || {
            let is_meant = |other: &Elsewhere| other.stack == *stack && is_surface(&other.workload);
            only_elsewhere(known, &format!("a surface of {stack}"), is_meant)
        };
        let what = if !has_surface && !has_loads { anything() } else { surface().filter(|_| !has_surface) };
        Some(Missing { what: what?, command: Some(measure_surface(evidence, stack, None)) })
    };
    [&question.to, &question.from].into_iter().filter_map(of_stack).collect()
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
    use nestor_results::KnownPlace;
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
        let told = |stack: &'static str| only_elsewhere(&known, "it", move |other| other.stack == stack);
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
        let told = only_elsewhere(&now_virtual, "it", |other| other.stack == "jfs/hdd").unwrap();
        assert!(told.ends_with("; to predict for that place, use --on emulated:time=real"), "{told}");
        assert_eq!(places(&known, |_| true).unwrap(), "emulated:time=real (KVM) (4 runs), ssh:a (3 runs)");
    }
}
