//! Answers as text.

use nestor_predict::Missing;
use nestor_predict::calibration::FEWEST_TRUTHS;
use nestor_report::units::digits;

use super::Predicted;
use super::question::Load;
use super::verify::Verified;
use crate::output::table;

/// An answer: the number first, then what it is made of, what it has to be better than, and what is missing.
pub fn answer(predicted: &Predicted, load: &Load) -> String {
    let (question, answer, unit) = (&predicted.question, &predicted.answer, load.unit);
    let number = |rate: f64| format!("{} {}", digits(rate / unit.scale()), unit.name());
    let short = |rate: f64| digits(rate / unit.scale());
    let place = predicted.place.in_words();
    let mut text = format!("{} on {}, on {place}\n", question.load, question.to);
    let interval = answer.interval.map(|i| format!("90 % interval [{}, {}]", short(i.low), short(i.high)));
    let measured = format!("{} measured {}", question.from, short(question.reference.rate));
    match (answer.rate, &answer.unknown) {
        (Some(rate), _) => {
            text += &format!("  {}   {}     {measured}\n", number(rate), interval.unwrap_or_default());
        }
        (None, why) => {
            text += &format!("  I don't know: {}     {measured}\n", why.clone().unwrap_or_default());
        }
    }
    let by: Vec<String> = answer
        .methods
        .iter()
        .filter_map(|m| Some(format!("{} {}", m.method, short(m.predicted.as_ref()?.rate))))
        .collect();
    if !by.is_empty() {
        text += &format!("  by         {}", by.join(" · "));
        if let Some(trusted) =
            answer.methods.iter().filter(|m| m.weight > 0.0).max_by(|a, b| a.weight.total_cmp(&b.weight))
        {
            let off = trusted.deviation.unwrap_or_default() * 100.0;
            let why = match trusted.truths {
                _ if trusted.method == "learnt" => format!("off by {off:.0} % as hidden stacks tell"),
                truths if truths >= FEWEST_TRUTHS => {
                    format!("off by {off:.0} % where {truths} answers were known")
                }
                _ => format!("taken for off by {off:.0} %: it was held against too few answers"),
            };
            text += &format!("     trusted: {} ({:.0} %; {why})", trusted.method, trusted.weight * 100.0);
        }
        text.push('\n');
    }
    let scale: Vec<String> = answer
        .nulls
        .iter()
        .filter_map(|(name, rate)| Some(format!("{} {}", name, short((*rate)?))))
        .collect();
    text += &format!("  for scale  {}\n", scale.join(" · "));
    for method in &answer.methods {
        for step in method.predicted.iter().flat_map(|p| &p.steps) {
            text += &format!("  {:<11}  {step}\n", method.method);
        }
    }
    for method in &answer.methods {
        if let Some(Missing { what, command }) = &method.missing {
            text += &format!("  {} lacks {what}\n", method.method);
            text += &indented(command.as_deref());
        }
    }
    for Missing { what, command } in &predicted.elsewhere {
        text += &format!("  {what}\n");
        text += &indented(command.as_deref());
    }
    text
}

/// A command below what it supplies.
fn indented(command: Option<&str>) -> String {
    command.map_or_else(String::new, |command| format!("               {command}\n"))
}

/// The real run beside the prediction.
pub fn verified(verified: &Verified, load: &Load) -> String {
    let unit = load.unit;
    let runs: Vec<String> = verified.runs.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "  found      {} {} (runs {})",
        digits(verified.found / unit.scale()),
        unit.name(),
        runs.join(", ")
    );
    if let Some(error) = verified.error {
        let within = if verified.within == Some(true) { "within" } else { "outside" };
        text += &format!(": the prediction is off by {:+.1} %, {within} the interval", error * 100.0);
    }
    text.push('\n');
    if let Some(place) = &verified.other_place {
        text += &format!("  it ran on {place}, which is not what was predicted for\n");
    }
    if load.is_observed() {
        text += "  what ran is a load like the one that was observed, not the application\n";
    }
    if let Some(residual) = verified.residual_ms {
        text += &format!(
            "  a worker's request took {:.3} ms, {:.3} {} than predicted\n",
            verified.found_ms,
            residual.abs(),
            if residual > 0.0 { "less" } else { "more" }
        );
    }
    if !verified.layers.is_empty() {
        let ms = |value: f64| format!("{value:.3}");
        let known = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), ms);
        let rows: Vec<[String; 5]> = verified
            .layers
            .iter()
            .map(|layer| {
                let off = layer.predicted_ms.map(|predicted| predicted - layer.found_ms);
                let off = off.map_or_else(|| "-".to_owned(), |off| format!("{off:+.3}"));
                let name = format!("  {}", layer.layer);
                [name, layer.machine.clone(), ms(layer.found_ms), known(layer.predicted_ms), off]
            })
            .collect();
        text += &table(
            &["  at the layer, without those below", "machine", "ms found", "predicted", "off by"],
            &rows,
        );
        if let Some(stack) = &verified.spread_like {
            text += &format!("  (the predicted time spread over the layers as it was on {stack})\n");
        }
    }
    if let Some(mechanism) = &verified.mechanism {
        text += &format!("  beside where it ran: {mechanism}\n");
    }
    text
}
