//! An explanation as text.

use std::fmt::Write;

use crate::finding::{Explanation, Finding};

/// The explanation for a terminal: the answer, how sure, why, what to do.
pub fn explanation_text(explanation: &Explanation) -> String {
    let mut text = String::new();
    let e = explanation;
    let _ = writeln!(text, "{}   {}", e.stack, e.workload);
    let per_operation =
        |ns: f64| if ns >= 1e6 { format!("{:.2} ms", ns / 1e6) } else { format!("{:.1} us", ns / 1e3) };
    let _ = match (&e.baseline, e.baseline_time_per_operation_ns) {
        (Some(baseline), Some(before)) => writeln!(
            text,
            "against {baseline}: {}, {} per operation instead of {}",
            change(e),
            per_operation(e.time_per_operation_ns),
            per_operation(before)
        ),
        _ => writeln!(
            text,
            "{} per operation, split into its parts; a baseline (--against) shows more",
            per_operation(e.time_per_operation_ns)
        ),
    };
    text.push('\n');
    for finding in &e.findings {
        write_finding(&mut text, finding, e.baseline.is_some());
    }
    if e.findings.is_empty() {
        text.push_str("  no known mechanism applies\n");
    }
    if e.unexplained_share >= 0.01 && e.findings.iter().all(|f| f.mechanism != crate::MechanismName::Noise) {
        let _ = writeln!(text, "  {:>4.0} %  not explained", e.unexplained_share * 100.0);
    }
    if !e.doubts.is_empty() {
        text.push_str("\nless certain than it looks\n");
        e.doubts.iter().for_each(|doubt| {
            let _ = writeln!(text, "  {doubt}");
        });
    }
    text
}

fn change(e: &Explanation) -> String {
    let runs = e.runs.len().min(e.baseline_runs.len());
    match (e.change_percent, e.change_interval_percent) {
        (Some(change), Some([low, high])) => {
            format!("{change:+.1} % [{low:+.1}, {high:+.1}], {runs} runs each")
        }
        (Some(change), None) => format!("{change:+.1} %, too few runs for an interval"),
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
        let baseline = number.baseline.map_or_else(String::new, |b| format!("   baseline {}", quantity(b)));
        let unit = if number.unit.is_empty() { String::new() } else { format!(" {}", number.unit) };
        let _ = writeln!(text, "          {:<38} {:>10}{unit}{baseline}", number.what, quantity(number.here));
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

fn quantity(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
