//! Requests through all layers as a picture that stands alone, for a README or a slide.

use std::fmt::Write as _;

use nestor_correlate::Rank;
use nestor_text::markup_escaped;

use super::flame;
use super::waterfall::{self, WIDTH};
use crate::html::svg::{LETTER, in_lines};
use crate::html::{STYLE, with_micro_signs};
use crate::view::{RunView, TraceView, Waterfall};

const MARGIN: f64 = 20.0;
const LINE: f64 = 18.0;
const GAP: f64 = 22.0;

/// The median request of each operation of a run whose requests were joined, through all layers; the slowest operation first. `None` for any other run.
pub fn render_waterfalls_svg(run: &RunView) -> Option<String> {
    let trace = run.trace.as_ref().filter(|trace| !trace.waterfalls.is_empty())?;
    let is_median = |one: &&Waterfall| one.operation_and_rank().is_none_or(|(_, rank)| rank == Rank::Median);
    let mut shown: Vec<Waterfall> = trace.waterfalls.iter().filter(is_median).cloned().collect();
    if shown.is_empty() {
        shown.clone_from(&trace.waterfalls);
    }
    let from = waterfall::names_end(&shown);
    let parts = shown.iter().map(|shown| {
        let words = format!("{}: {}. {}", shown.name, shown.what, shown.words());
        (words, waterfall::drawn(shown, from))
    });
    let title = format!("Requests through all layers of {}", run.stack);
    Some(picture(run, trace, &title, parts))
}

/// Where the time of each class of operations went, of a run whose requests were joined. `None` for any other.
pub fn render_time_spent_svg(run: &RunView) -> Option<String> {
    let trace = run.trace.as_ref()?;
    let parts: Vec<_> = trace
        .time_spent
        .iter()
        .filter_map(|spent| Some((format!("{}.", spent.heading()), flame::drawn(spent)?)))
        .collect();
    let title = format!("Where the time of each class of operations of {} went", run.stack);
    (!parts.is_empty()).then(|| picture(run, trace, &title, parts.into_iter()))
}

/// Parts below each other: words, and what is drawn below them with its height.
fn picture(
    run: &RunView,
    trace: &TraceView,
    title: &str,
    parts: impl Iterator<Item = (String, (String, f64))>,
) -> String {
    let mut body = String::new();
    let mut y = MARGIN + 12.0;
    line(&mut body, y, "name", &format!("{} under {}", run.stack, run.workload));
    // Whatever makes the numbers less than they seem is in the picture too.
    for sentence in run.honesty.iter().take(1).cloned().chain([trace.certainty.join("; ")]) {
        for part in in_lines(&with_micro_signs(&sentence), WIDTH, LETTER, usize::MAX) {
            y += LINE;
            line(&mut body, y, "what", &part);
        }
    }
    for (words, (drawn, height)) in parts {
        y += GAP;
        for part in in_lines(&with_micro_signs(&words), WIDTH, LETTER, usize::MAX) {
            line(&mut body, y, "name", &part);
            y += LINE;
        }
        y -= LINE / 2.0;
        let _ = write!(body, "<g transform=\"translate({MARGIN} {y:.1})\">{drawn}</g>");
        y += height;
    }
    let (width, height) = (WIDTH + 2.0 * MARGIN, y + MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\"><title>{}</title><style><![CDATA[{STYLE}]]></style>\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" rx=\"8\" style=\"fill:var(--page)\"/><g class=\"trace\">\
         <svg class=\"waterfall\" style=\"width:{width:.0}px;height:{height:.0}px;min-width:0\">{body}</svg></g></svg>\n",
        markup_escaped(title),
    )
}

fn line(body: &mut String, y: f64, class: &str, text: &str) {
    let _ =
        write!(body, "<text class=\"{class}\" x=\"{MARGIN}\" y=\"{y:.1}\">{}</text>", markup_escaped(text));
}
