//! What `nestor compare` prints.

use nestor_explain::{Explanation, MechanismName};
use nestor_results::{
    CellSummary, Comparison, Doubt, Drift, Executor, PathDifference, Quantity, StructuralDifference,
};
use nestor_statistics::{Ratio, equal_within_percent};
use nestor_text::{Align, Table};

use super::life::lives_compared;
use super::run::physical_lines;
use super::{Lines, header, honesty_lines, message_lines, with_command};
use crate::style::Style;
use crate::units;
use crate::view::{CompareView, LayerRow};

/// Two stacks under one workload: the answer, how sure, what differs below.
pub fn compare_text(view: &CompareView, style: Style) -> String {
    let mut lines = Lines::default();
    let comparison = &view.comparison;
    lines.extend(header(style, "", &view.baseline.workload, &view.baseline.workload_words));
    for (question, side, run) in [(true, "baseline ", &view.baseline), (false, "candidate ", &view.candidate)]
    {
        let answer = run.physical.iter();
        lines.extend(answer.flat_map(|physical| physical_lines(style, question, side, physical)));
    }
    let mut honesty = view.baseline.honesty.clone();
    honesty.extend(view.candidate.honesty.iter().filter(|h| !view.baseline.honesty.contains(h)).cloned());
    lines.extend(honesty_lines(style, &honesty));
    lines.gap();
    match &view.lives {
        Some(lives) if lives.are_all => {
            lines.extend(lives_compared(lives, comparison.random_order, style));
        }
        lives => {
            lines.extend(answer(comparison, style));
            if let Some(lives) = lives {
                lines.gap();
                lines.extend(lives_compared(lives, comparison.random_order, style));
            }
        }
    }
    lines.extend(doubt_lines(&comparison.doubts, style));
    for cell in [&comparison.baseline, &comparison.candidate] {
        lines.extend(failure_lines(cell, style));
    }
    let apart = told_apart(&view.structure, style);
    if !apart.is_empty() {
        lines.gap();
        lines.extend(apart);
    }
    if let Some(explanation) = &view.candidate.explanation {
        lines.gap();
        lines.extend(why_lines(explanation, style));
    }
    let below = differences_below(&view.baseline.layers, &view.candidate.layers, style);
    if !below.is_empty() {
        lines.gap();
        lines.extend(below);
    }
    let path = path_differences(&view.path, style);
    if !path.is_empty() {
        lines.gap();
        lines.extend(path);
    }
    lines.gap();
    lines.extend(with_command(style, &format!("runs {}", runs(comparison)), "nestor report RUN"));
    lines.finish()
}

/// One mechanism a line, with its part of the difference.
fn why_lines(explanation: &Explanation, style: Style) -> Vec<String> {
    let part = |share: f64, sign: &str| format!("{sign}{}", units::percent(share));
    let mut lines = Vec::new();
    let mut say = |part: &str, words: &str| {
        let title = if lines.is_empty() { "why" } else { "" };
        // The words of the first column are blanks to the folding, so that lines below stand under the words.
        lines.extend(style.wrapped(&format!("  {title:<4} {part:>6}  "), 15, words));
    };
    for finding in &explanation.findings {
        let sign = if finding.effect_ns < 0.0 { "-" } else { "+" };
        say(&part(finding.share, sign), &format!("{}: {}", finding.mechanism.name(), finding.words));
    }
    if explanation.unexplained_share >= 0.01 && explanation.first() != Some(MechanismName::Noise) {
        say(&part(explanation.unexplained_share, ""), "of the change in time is not explained");
    }
    lines
}

fn answer(comparison: &Comparison, style: Style) -> Vec<String> {
    use Align::{Left, Right};
    let mut table = Table::new(&[Left, Right, Left, Right, Left, Left]);
    let change = comparison.ratio.as_ref();
    let (how_sure, long) = (how_sure(comparison), "");
    for (cell, is_candidate) in [(&comparison.baseline, false), (&comparison.candidate, true)] {
        let (rate, unit) = (cell.throughput(), cell.rate_unit());
        let shown = change.filter(|_| is_candidate);
        table.row(&[
            cell.stack.as_str(),
            &rate.map_or_else(|| without_number(cell).to_owned(), |r| unit.words(r.value)),
            &rate.and_then(|r| units::spread(&r, &cell.rates(), unit)).unwrap_or_else(|| "-".to_owned()),
            &shown.map(units::change).unwrap_or_default(),
            &shown.and_then(units::change_interval).unwrap_or_default(),
            if is_candidate { long } else { "" },
        ]);
    }
    if table.width() > style.width {
        return stacked_answer(comparison, style, &how_sure);
    }
    let mut lines = table.lines();
    if let Some(last) = lines.last_mut() {
        *last = style.strong(last);
        let joined = format!("{last}   {how_sure}");
        if unicode_width::UnicodeWidthStr::width(joined.as_str()) <= style.width {
            *last = joined;
            return lines;
        }
    }
    lines.extend(style.wrapped("  ", 4, &how_sure));
    lines
}

/// The same in lines of their own, where stacks are long and the terminal is narrow.
fn stacked_answer(comparison: &Comparison, style: Style, how_sure: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for cell in [&comparison.baseline, &comparison.candidate] {
        lines.push(format!("  {}", nestor_text::visible_in_columns(&cell.stack)));
        let unit = cell.rate_unit();
        lines.push(match cell.throughput() {
            Some(mean) => {
                let spread = units::spread(&mean, &cell.rates(), unit);
                let spread = spread.unwrap_or_else(|| "no interval".to_owned());
                format!("    {}  {spread}", unit.words(mean.value))
            }
            None => format!("    {}", without_number(cell)),
        });
    }
    if let Some(ratio) = &comparison.ratio {
        let change =
            [vec![units::change(ratio)], units::change_interval(ratio).into_iter().collect()].concat();
        lines.extend(style.joined(&change).iter().map(|line| style.strong(line)));
    }
    lines.extend(style.wrapped("  ", 4, how_sure));
    lines
}

/// Why a cell has no number.
fn without_number(cell: &CellSummary) -> &'static str {
    if cell.violations.is_empty() { "failed" } else { "left out" }
}

/// `6 pairs, order random, no drift`.
pub(super) fn how_sure(comparison: &Comparison) -> String {
    let Some(ratio) = &comparison.ratio else {
        return "nothing to compare: one side has no numbers".to_owned();
    };
    certainty(ratio, comparison.paired, comparison.random_order, Some(&comparison.drift))
}

/// The same of any ratio; without `drift` nothing is said of it.
pub(crate) fn certainty(ratio: &Ratio, paired: bool, random_order: bool, drift: Option<&Drift>) -> String {
    let mut parts = vec![match (paired, ratio.pairs) {
        (true, 1) => "1 pair: no interval".to_owned(),
        (true, n) => format!("{n} pairs"),
        (false, n) => format!("not paired, at least {}", units::plural(n, "run")),
    }];
    parts.push(if random_order { "order random" } else { "order not random" }.to_owned());
    parts.extend(drift.map(drift_words));
    match (ratio.differs(), equal_within_percent(ratio)) {
        (_, Some(percent)) => parts.push(format!("equal within {percent:.0} %")),
        (Some(false), None) => parts.push("not told apart".to_owned()),
        _ => {}
    }
    parts.join(", ")
}

/// `no drift`.
pub(crate) fn drift_words(drift: &Drift) -> String {
    let percent = |ratio: f64| format!("{} %", units::signed((ratio - 1.0) * 100.0));
    match drift {
        Drift::NotTested => "drift not tested".to_owned(),
        Drift::Impossible => "no drift in virtual time".to_owned(),
        Drift::None { .. } => "no drift".to_owned(),
        Drift::Seen { ratio } => format!("baseline drifted {}", units::change(ratio)),
        Drift::Changed { after_block, step, .. } => {
            format!("baseline changed {} after block {after_block}", percent(*step))
        }
        Drift::WithOrder { effect } => {
            format!("{} with the order of the runs", percent(effect.last_over_first))
        }
    }
}

fn doubt_lines(doubts: &[Doubt], style: Style) -> Vec<String> {
    if doubts.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![style.caution("  less certain than it looks:")];
    lines.extend(doubts.iter().flat_map(|d| style.wrapped("    ", 6, &d.words)).map(|l| style.caution(&l)));
    lines
}

fn failure_lines(cell: &CellSummary, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for failure in &cell.failures {
        lines.push(
            style.wrong(&format!("  failed, excluded from the mean: {} (run {})", cell.stack, failure.run)),
        );
        lines.extend(message_lines(4, &failure.reason));
    }
    lines
}

/// What the medium and each file system above it saw, baseline beside candidate.
fn differences_below(baseline: &[LayerRow], candidate: &[LayerRow], style: Style) -> Vec<String> {
    use Align::{Left, Right};
    let (Some(from), Some(to)) = (medium(baseline), medium(candidate)) else { return Vec::new() };
    let mut table = Table::new(&[Left, Right, Right]);
    table.row(&["at the medium", "baseline", "candidate"]);
    let mut row = |name: &str, value: &dyn Fn(&LayerRow) -> Option<String>| {
        if let (Some(from), Some(to)) = (value(from), value(to)) {
            table.row(&[name, &from, &to]);
        }
    };
    let median =
        |l: Option<nestor_statistics::LatencySummary>| l.map(|l| units::duration_ns(l.p50_ns as f64));
    row("bytes per byte of the application", &|l| l.times_application.map(|t| format!("{t:.2}")));
    row("requests", &|l| l.requests.map(units::count));
    row("bytes per request", &|l| {
        let (bytes, requests) = (l.bytes?, l.requests.filter(|r| *r > 0)?);
        Some(units::bytes(bytes / requests))
    });
    row("sequential", &|l| l.sequential_share.map(units::percent));
    row("flushes", &|l| Some(units::count(l.flushes)));
    row("queue, median", &|l| median(l.queue));
    row("service, median", &|l| median(l.service));
    row("service: seek", &|l| l.service_shares.map(|s| units::percent(s.seek)));
    row("service: rotation", &|l| l.service_shares.map(|s| units::percent(s.rotation)));
    row("service: transfer", &|l| l.service_shares.map(|s| units::percent(s.transfer)));
    style.table(&table)
}

/// What an operation becomes below the application, where that is told apart; the largest difference first.
fn told_apart(structure: &[StructuralDifference], style: Style) -> Vec<String> {
    use Align::{Left, Right};
    let mut apart: Vec<&StructuralDifference> = structure.iter().filter(|row| row.is_told_apart).collect();
    if apart.is_empty() {
        return Vec::new();
    }
    let factor = |row: &StructuralDifference| row.ratio.map_or(f64::INFINITY, |ratio| ratio.value.ln().abs());
    apart.sort_by(|a, b| factor(b).total_cmp(&factor(a)));
    let mut table = Table::new(&[Left, Right, Right, Right, Left]);
    table.row(&["told apart, per 1000 operations", "baseline", "candidate", "", ""]);
    for row in apart {
        let level = row.level.as_ref().map(|level| format!(", {level}")).unwrap_or_default();
        let count = |for_one: f64| match (row.quantity, for_one * 1000.0) {
            (Quantity::Bytes, bytes) => units::bytes(bytes.round() as u64),
            (_, number) if number >= 1000.0 => units::count(number.round() as u64),
            (_, number) => units::digits(number),
        };
        table.row(&[
            &format!("{}{level}", row.quantity.name()),
            &count(row.baseline),
            &count(row.candidate),
            &row.ratio.as_ref().map(units::change).unwrap_or_default(),
            &row.ratio.as_ref().and_then(units::change_interval).unwrap_or_default(),
        ]);
    }
    style.table(&table)
}

/// Instructions of an operation, by whose they are.
fn path_differences(path: &[PathDifference], style: Style) -> Vec<String> {
    use Align::{Left, Right};
    if path.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&[Left, Right, Right, Right, Right, Left]);
    table.row(&["instructions per operation", "baseline", "candidate", "more", "", ""]);
    let or_dash =
        |count: Option<f64>| count.map_or_else(|| "-".to_owned(), |count| units::count(count.round() as u64));
    for row in path {
        let more = row.candidate.unwrap_or(0.0) - row.baseline.unwrap_or(0.0);
        let sign = if more < 0.0 { "-" } else { "+" };
        table.row(&[
            row.executor.map_or("total", Executor::name),
            &or_dash(row.baseline),
            &or_dash(row.candidate),
            &format!("{sign}{}", units::count(more.abs().round() as u64)),
            &row.ratio.as_ref().map(units::change).unwrap_or_default(),
            &row.ratio.as_ref().and_then(units::change_interval).unwrap_or_default(),
        ]);
    }
    style.table(&table)
}

fn medium(layers: &[LayerRow]) -> Option<&LayerRow> {
    layers.iter().skip(1).rfind(|l| l.trace_point.is_some())
}

fn runs(comparison: &Comparison) -> String {
    let numbers = |cell: &CellSummary| {
        let numbers = cell.samples.iter().map(|s| s.run).chain(cell.failures.iter().map(|f| f.run));
        let numbers = numbers.chain(cell.violations.iter().map(|v| v.run));
        units::listed(numbers)
    };
    format!("{} against {}", numbers(&comparison.candidate), numbers(&comparison.baseline))
}
