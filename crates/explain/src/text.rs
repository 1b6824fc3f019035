//! An explanation as text.

use std::fmt::Write;

use nestor_text::{Align, Table, units};

use crate::account::{Account, Line};
use crate::finding::{Explanation, Finding};

/// The explanation for a terminal: the answer, how sure, why, what to do.
pub fn explanation_text(explanation: &Explanation) -> String {
    let mut text = String::new();
    let e = explanation;
    let _ = writeln!(text, "{}   {}", e.stack, e.workload);
    let _ = match (&e.baseline, e.baseline_time_per_operation_ns) {
        (Some(baseline), Some(before)) => writeln!(
            text,
            "against {baseline}: {}, {} per operation instead of {}",
            change(e),
            units::duration_ns(e.time_per_operation_ns),
            units::duration_ns(before)
        ),
        _ => writeln!(
            text,
            "{} per operation, split into its parts; a baseline (--against) shows more",
            units::duration_ns(e.time_per_operation_ns)
        ),
    };
    text.push('\n');
    for finding in &e.findings {
        write_finding(&mut text, finding, e.baseline.is_some());
    }
    if e.findings.is_empty() {
        text.push_str("  no known mechanism applies\n");
    }
    text += &account_text(&e.account, e.baseline.is_some());
    if !e.doubts.is_empty() {
        text.push_str("\nless certain than it looks\n");
        e.doubts.iter().for_each(|doubt| {
            let _ = writeln!(text, "  {doubt}");
        });
    }
    text
}

/// Where every nanosecond belongs: who answers for it, and which part of the time it is.
fn account_text(account: &Account, compared: bool) -> String {
    use Align::{Left, Right};
    if account.lines.is_empty() {
        return String::new();
    }
    let of_what = if compared { "of the difference" } else { "of the time" };
    let mut holders = Table::new(&[Left, Right, Right, Left]);
    holders.row(&["each nanosecond once", "per operation", of_what, "of these parts"]);
    let percent =
        |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |s| units::signed(s * 100.0) + " %");
    for line in &account.lines {
        let name = account.holder_words(line, compared);
        holders.row(&[name, &line.effect(), &percent(account.share(line)), &line.parts_in_words()]);
    }
    let whole: Option<f64> = account.lines.iter().map(|line| account.share(line)).sum();
    holders.row(&["together", &signed_duration(account.whole_ns), &percent(whole), ""]);
    let mut parts = Table::new(&[Left, Right, Right, Right, Right, Right, Left]);
    let before = |text: &str| if compared { text.to_owned() } else { String::new() };
    let headings = [
        "part of the time",
        "here",
        &before("baseline"),
        &before("more"),
        "requests",
        &before("baseline"),
        "they belong to",
    ];
    parts.row(&headings);
    let requests = |number: Option<f64>| number.map_or_else(String::new, |number| format!("{number:.3}"));
    for row in &account.parts {
        parts.row(&[
            row.part.name(),
            &duration(row.here_ns),
            &before(&duration(row.baseline_ns)),
            &before(&signed_duration(row.here_ns - row.baseline_ns)),
            &requests(row.requests),
            &requests(row.baseline_requests),
            &row.holder.map_or_else(String::new, |holder| holder.name().to_owned()),
        ]);
    }
    let made_up_for = account.made_up_for(compared).map(|words| format!("  {words}\n")).unwrap_or_default();
    format!("\n{}{made_up_for}\n{}", holders.text(), parts.text())
}

impl Line {
    /// What it adds to an operation: `+9.10 ms`.
    pub fn effect(&self) -> String {
        signed_duration(self.effect_ns)
    }

    /// The parts that it is of, the largest first, and who executed it: `flushes +9.00 ms, the medium idle -1.20 us`.
    pub fn parts_in_words(&self) -> String {
        let parts = self.parts.iter().map(|(part, ns)| (part.name(), *ns));
        // Of the processor's time it says more who executes than that the medium is idle meanwhile.
        let executors = self.executors.iter().map(|(executor, ns)| (executor.name(), *ns));
        let mut all: Vec<(&str, i64)> =
            if self.executors.is_empty() { parts.collect() } else { executors.collect() };
        all.sort_by_key(|(_, ns)| std::cmp::Reverse(ns.unsigned_abs()));
        units::listed(all.iter().map(|(name, ns)| format!("{name} {}", signed_duration(*ns))))
    }
}

fn duration(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", units::duration_ns(ns.unsigned_abs() as f64))
}

fn signed_duration(ns: i64) -> String {
    if ns > 0 { format!("+{}", duration(ns)) } else { duration(ns) }
}

fn change(e: &Explanation) -> String {
    let runs = e.runs.len().min(e.baseline_runs.len());
    match (e.change_percent, e.change_interval_percent) {
        (Some(change), Some([low, high])) => {
            format!(
                "{} % [{}, {}], {runs} runs each",
                units::signed(change),
                units::signed(low),
                units::signed(high)
            )
        }
        (Some(change), None) => format!("{} %, too few runs for an interval", units::signed(change)),
        _ => "no throughput to compare".to_owned(),
    }
}

fn write_finding(text: &mut String, finding: &Finding, compared: bool) {
    let sign = match (compared, finding.effect_ns < 0.0) {
        (true, true) => " faster",
        (true, false) => " slower",
        (false, _) => "",
    };
    // Noise is no part of anything.
    let part = match finding.mechanism {
        crate::MechanismName::Noise => "        ".to_owned(),
        _ => format!("  {:>4.0} %{sign}  ", finding.share * 100.0),
    };
    let layer = if finding.layer.is_empty() { String::new() } else { format!("  in {}", finding.layer) };
    let _ = writeln!(text, "{part}{}{layer}", finding.mechanism.name());
    let _ = writeln!(text, "          {}", finding.words);
    for number in &finding.numbers {
        let (here, unit) = number.shown(number.here);
        let baseline = number.baseline.map(|baseline| match number.shown(baseline) {
            (shown, its) if its == unit => format!("   baseline {shown}"),
            (shown, its) => format!("   baseline {shown} {its}"),
        });
        let unit = if unit.is_empty() { unit } else { format!(" {unit}") };
        let _ =
            writeln!(text, "          {:<38} {here:>10}{unit}{}", number.what, baseline.unwrap_or_default());
    }
    for proof in &finding.proofs {
        let _ = writeln!(
            text,
            "          run {} request {} at {}: {}",
            proof.run, proof.request, proof.level, proof.words
        );
    }
    if let Some(advice) = &finding.advice {
        let _ = writeln!(text, "          to change it: {advice}");
    }
}
