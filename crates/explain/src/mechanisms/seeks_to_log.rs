//! The way between data and log.

use super::Mechanism;
use crate::advice::{Proposal, has_arm, has_file_system};
use crate::case::{Case, Left, finding};
use crate::evidence::{Evidence, Part};
use crate::finding::{Finding, MechanismName};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::SeeksToLog,
    summary: "the arm travels far between data and a journal",
    acts_in: |stack| has_arm(stack) && has_file_system(stack),
    find,
};

/// How much longer the way must be than in the baseline.
const LONGER: f64 = 1.5;
/// Ways for each operation from which on they matter.
const WAYS_PER_OPERATION: f64 = 0.02;

#[derive(Default)]
struct Ways {
    jumps: f64,
    bytes: f64,
    busy_ns: f64,
    between_journal: bool,
}

/// The ways between data and a journal, either direction.
fn ways(e: &Evidence) -> Ways {
    let mut ways = Ways::default();
    for transition in &e.blame.transitions {
        let ends = [e.part_of(&transition.from), e.part_of(&transition.to)];
        let journal = ends.iter().any(|part| matches!(part, Part::TopJournal | Part::HostJournal));
        if journal && ends.contains(&Part::Data) {
            ways.jumps += transition.jumps as f64;
            ways.bytes += transition.jump_bytes as f64;
            ways.busy_ns += transition.busy_ns as f64;
            ways.between_journal = true;
        }
    }
    ways
}

fn distance(e: &Evidence) -> f64 {
    let ways = ways(e);
    ways.bytes / ways.jumps.max(1.0)
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let here = ways(case.here);
    let count = case.here.per_operation(here.jumps);
    if !here.between_journal || count < WAYS_PER_OPERATION {
        return None;
    }
    let time_of_one = |ways: &Ways| ways.busy_ns / ways.jumps.max(1.0);
    let wanted = match case.baseline.map(|b| (distance(b), ways(b))) {
        // The longer way, not that there are more of them: that is amplification.
        Some((way, ways)) if ways.jumps > 0.0 && distance(case.here) > LONGER * way => {
            count * (time_of_one(&here) - time_of_one(&ways))
        }
        Some(_) => return None,
        None => case.here.per_operation(here.busy_ns),
    };
    let journal = left.claim(Part::TopJournal, wanted) + left.claim(Part::HostJournal, wanted);
    let effect = journal + left.claim(Part::Data, wanted - journal);
    let words = format!(
        "the arm moves between data and log {count:.2} times per operation, {:.1} GiB each time",
        distance(case.here) / (1_u64 << 30) as f64
    );
    let layer = case.here.lowest().map_or_else(String::new, |edge| edge.layer.clone());
    let mut found = finding(MechanismName::SeeksToLog, &layer, effect, words);
    found.numbers = vec![
        case.number("seeks between data and log", "per operation", |e| e.per_operation(ways(e).jumps)),
        case.number("length of such a seek", "MiB", |e| distance(e) / (1 << 20) as f64),
        case.number("time after such a seek", "us", |e| time_of_one(&ways(e)) / 1e3),
    ];
    found.advice = case.advice(&[
        Proposal::general("the log closer to the data (a smaller disk or partition)"),
        Proposal::general("the log on a device of its own"),
    ]);
    Some(found)
}
