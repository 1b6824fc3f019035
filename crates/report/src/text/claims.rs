//! The scoreboard: what a published study says, beside what was found here.

use nestor_results::{ClaimPart, ClaimResult, Coverage, Tally, Verdict};
use nestor_text::visible_in_columns as visible;
use unicode_width::UnicodeWidthStr;

use super::Lines;
use crate::Style;

/// Each claim with the paper's value, what was found here and the verdict; below it how that came about. At the end, how
/// many there are of each verdict.
pub fn scoreboard_text(results: &[ClaimResult], style: Style) -> String {
    let mut lines = Lines::default();
    let ids = results.iter().map(|r| r.claim.id.width()).max().unwrap_or_default();
    for result in results {
        lines.extend(claim_lines(result, ids, style));
    }
    lines.gap();
    lines.extend(style.wrapped("", 2, &Tally::of(results).in_words()).iter().map(|line| style.strong(line)));
    lines.finish()
}

fn claim_lines(result: &ClaimResult, ids: usize, style: Style) -> Vec<String> {
    let indent = 2 + ids + 2;
    let margin = " ".repeat(indent);
    let claim = &result.claim;
    let mut lines = style.wrapped(&format!("  {:<ids$}  ", visible(&claim.id)), indent, &claim.title);
    lines.extend(answer_lines(result, indent, style));
    let mut below = |text: &str, paint: fn(Style, &str) -> String| {
        let wrapped = style.wrapped(&margin, indent, text);
        lines.extend(wrapped.iter().map(|line| paint(style, line)));
    };
    let doubts = result.doubts.iter().map(String::as_str);
    let reason = (result.verdict != Verdict::NotTestable).then_some(result.reason.as_str());
    let coverage = result.coverage.as_ref().and_then(Coverage::in_words);
    let how: Vec<&str> =
        reason.into_iter().chain(coverage.as_deref()).chain(doubts).filter(|s| !s.is_empty()).collect();
    below(&how.join("; "), if result.doubts.is_empty() { Style::faint } else { Style::caution });
    for (name, effect, verdict) in &result.other {
        let found = effect.as_ref().map(|e| format!("{}, ", result.unit.in_words(e))).unwrap_or_default();
        below(&format!("{name}: {found}{}", verdict.words()), Style::faint);
    }
    for (i, sentence) in result.why.iter().enumerate() {
        below(&if i == 0 { format!("why: {sentence}") } else { sentence.clone() }, |_, line| line.to_owned());
    }
    if let Some(note) = &claim.note {
        below(&format!("note: {note}"), Style::faint);
    }
    lines
}

/// `paper +34 %   here +21.0 % [+14.0, +29.0]   reproduced`, in as many lines as it takes.
fn answer_lines(result: &ClaimResult, indent: usize, style: Style) -> Vec<String> {
    let margin = " ".repeat(indent);
    let paper = match result.claim.paper.as_str() {
        "" => String::new(),
        paper => format!("paper {}", visible(paper)),
    };
    let here = found_words(result).map(|found| format!("here {found}")).unwrap_or_default();
    let mut verdict = result.verdict.words().to_owned();
    if result.verdict == Verdict::NotTestable && !result.reason.is_empty() {
        verdict = format!("{verdict}: {}", visible(&result.reason));
    }
    let paint = |line: &str| match result.verdict {
        Verdict::Reproduced => style.strong(line),
        Verdict::Contradicted => style.wrong(line),
        Verdict::Smaller | Verdict::Larger | Verdict::Undecided | Verdict::Deviates => line.to_owned(),
        Verdict::NotTestable => style.faint(line),
    };
    let parts: Vec<&str> =
        [paper.as_str(), here.as_str(), verdict.as_str()].into_iter().filter(|p| !p.is_empty()).collect();
    let one_line = format!("{margin}{}", columns(&paper, &here, &verdict));
    if one_line.width() <= style.width {
        return vec![paint(&one_line)];
    }
    let wrapped = parts.iter().flat_map(|part| style.wrapped(&margin, indent, part));
    wrapped.map(|line| paint(&line)).collect()
}

/// Columns for values as long as they mostly are; longer ones push the rest to the right.
fn columns(paper: &str, here: &str, verdict: &str) -> String {
    let padded =
        |text: &str, width: usize| format!("{text}{}   ", " ".repeat(width.saturating_sub(text.width())));
    match (paper.is_empty(), here.is_empty()) {
        (true, true) => verdict.to_owned(),
        (false, true) => format!("{}{verdict}", padded(paper, 0)),
        _ => format!("{}{}{verdict}", padded(paper, 13), padded(here, 27)),
    }
}

/// `+21.0 % [+14.0, +29.0]`; of several parts, with the name of the one that decides: `on JFS: +21.0 % [+14.0, +29.0]`.
pub(super) fn found_words(result: &ClaimResult) -> Option<String> {
    let effect = result.unit.in_words(result.effect.as_ref()?);
    Some(match deciding_part(result) {
        Some(part) => format!("{}: {effect}", visible(&part.name)),
        None => effect,
    })
}

/// The part of a claim whose effect is that of the claim; `None` of a claim without parts.
pub(super) fn deciding_part(result: &ClaimResult) -> Option<&ClaimPart> {
    result.parts.iter().find(|part| part.effect.is_some() && part.effect == result.effect)
}
