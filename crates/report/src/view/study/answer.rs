//! The answer of a study in a few sentences.

use nestor_statistics::Ratio;
use nestor_statistics::equivalence::MARGIN;

use nestor_results::{PhysicalVerdict, Told};

use super::{CellReport, StudyPhysical};
use crate::units;

/// The number of implausible cells that are listed one by one.
const LISTED_ONE_BY_ONE: usize = 3;

/// Whether the numbers of the cells are physically possible.
pub(super) fn physical(cells: &[CellReport]) -> Option<StudyPhysical> {
    let measured = cells.iter().filter_map(|c| {
        let run = c.run.as_ref().filter(|r| r.summary.measured_runs() > 0)?;
        Some((c, run.physical.as_ref()?))
    });
    let measured: Vec<_> = measured.collect();
    let with_verdict = |verdict: PhysicalVerdict| measured.iter().filter(move |(_, p)| p.verdict == verdict);
    let (yes, no, open) = (
        with_verdict(PhysicalVerdict::Yes).count(),
        with_verdict(PhysicalVerdict::No).count(),
        with_verdict(PhysicalVerdict::CannotTell).count(),
    );
    let all = units::plural(measured.len(), "cell");
    let first = |words: &str, count: usize| {
        if count == measured.len() {
            format!("{words} in all {all}")
        } else {
            format!("{words} in {count} of {all}")
        }
    };
    let mut parts: Vec<String> = Vec::new();
    for (count, words) in [(yes, "yes"), (no, "no"), (open, "cannot tell")] {
        if count > 0 {
            parts.push(if parts.is_empty() { first(words, count) } else { format!("{words} in {count}") });
        }
    }
    let mut against: Vec<String> = with_verdict(PhysicalVerdict::No)
        .take(LISTED_ONE_BY_ONE)
        .map(|(cell, p)| format!("no: {} under {}: {}", cell.stack, cell.workload, p.sentences.join("; ")))
        .collect();
    if let more @ 1.. = no.saturating_sub(LISTED_ONE_BY_ONE) {
        against.push(format!("and {more} more: see their cells"));
    }
    (!measured.is_empty()).then(|| StudyPhysical { answer: parts.join(", "), against, no })
}

/// A cell with its ratio.
type Compared<'a> = (&'a CellReport, Ratio);

pub(super) fn answer(cells: &[CellReport]) -> Vec<String> {
    let compared: Vec<Compared<'_>> =
        cells.iter().filter_map(|c| Some((c, c.comparison.as_ref()?.ratio?))).collect();
    let lives = lives(cells);
    if compared.is_empty() && lives.is_some() {
        return lives.into_iter().collect();
    }
    if compared.is_empty() {
        return vec![
            "Nothing can be compared yet: no cell has numbers for both itself and its baseline.".to_owned(),
        ];
    }
    let told = |told: Told| compared.iter().filter(|(_, ratio)| Told::of(ratio) == told).count();
    let equal_words = format!("equal within {}", units::percent(MARGIN));
    let mut parts = Vec::new();
    for (number, words) in [
        (told(Told::Slower), "slower"),
        (told(Told::Faster), "faster"),
        (told(Told::Equal), equal_words.as_str()),
        (told(Told::NotToldApart), "not told apart"),
        (told(Told::WithoutInterval), "without an interval (measured once)"),
    ] {
        if number > 0 {
            parts.push(format!("{number} {words}"));
        }
    }
    let mut sentences = vec![format!(
        "{} with a baseline: {}.",
        units::plural(compared.len(), "comparison"),
        parts.join(", ")
    )];
    // What is told apart comes first; an estimate that is not must say so.
    let told_apart: Vec<_> = compared.iter().filter(|(_, r)| r.differs() == Some(true)).collect();
    let candidates = if told_apart.is_empty() { compared.iter().collect() } else { told_apart };
    let by_ratio = |a: &&&Compared<'_>, b: &&&Compared<'_>| a.1.value.total_cmp(&b.1.value);
    if let Some(worst) = candidates.iter().min_by(by_ratio).filter(|(_, r)| r.value < 1.0) {
        sentences.push(extreme("Slowest", worst));
    }
    if let Some(best) = candidates.iter().max_by(by_ratio).filter(|(_, r)| r.value > 1.0) {
        sentences.push(extreme("Fastest", best));
    }
    sentences.extend(lives);
    sentences
}

/// How the whole lives compare in which no load ran; `None` without any.
fn lives(cells: &[CellReport]) -> Option<String> {
    let lived = |c: &&CellReport| c.run.as_ref().is_some_and(|r| r.summary.is_without_operations());
    let lived: Vec<&CellReport> = cells.iter().filter(lived).collect();
    let ratios: Vec<Ratio> = lived.iter().filter_map(|c| c.lives.as_ref()?.ratio).collect();
    let count = |is_so: &dyn Fn(&Ratio) -> bool| ratios.iter().filter(|ratio| is_so(ratio)).count();
    let parts = [
        (count(&|r| r.differs() == Some(true) && r.value > 1.0), "longer"),
        (count(&|r| r.differs() == Some(true) && r.value < 1.0), "shorter"),
        (count(&|r| r.differs() == Some(false)), "not told apart"),
        (count(&|r| r.differs().is_none()), "without an interval (measured once)"),
    ];
    let seen = parts.iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = seen.map(|(number, words)| format!("{number} {words}")).collect();
    let cells = units::plural(lived.len(), "cell");
    match (lived.is_empty(), parts.is_empty()) {
        (true, _) => None,
        (false, true) => Some(format!("No load ran in the lives of {cells}, and none is compared.")),
        (false, false) => {
            let parts = parts.join(", ");
            Some(format!("No load ran in the lives of {cells}; whole lives against a baseline: {parts}."))
        }
    }
}

fn extreme(word: &str, (cell, ratio): &Compared<'_>) -> String {
    let interval = units::change_interval(ratio).unwrap_or_else(|| "(one pair: no interval)".to_owned());
    let told = if ratio.differs() == Some(false) { ", not told apart from the baseline" } else { "" };
    let doubted = cell.comparison.as_ref().is_some_and(|c| !c.doubts.is_empty());
    let doubt = if doubted { ", doubtful: see its marks" } else { "" };
    format!(
        "{word}: {} under {}, {} {interval}{told}{doubt}.",
        cell.stack,
        cell.workload,
        units::change(ratio)
    )
}
