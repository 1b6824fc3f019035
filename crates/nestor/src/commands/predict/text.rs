//! Answers as text.

use nestor_advise::Unit;
use nestor_predict::Missing;
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
    let mut text = format!("{} on {}\n", question.load, question.to);
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
            let why = match trusted.truths {
                0 => {
                    format!("off by {:.0} % by its own count", trusted.deviation.unwrap_or_default() * 100.0)
                }
                truths => format!(
                    "off by {:.0} % where {truths} answers were known",
                    trusted.deviation.unwrap_or_default() * 100.0
                ),
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
            if let Some(command) = command {
                text += &format!("               {command}\n");
            }
        }
    }
    text
}

/// The real run beside the prediction.
pub fn verified(verified: &Verified, unit: Unit) -> String {
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
    if let Some(residual) = verified.residual_ms {
        text += &format!(
            "  a worker's operation took {:.3} ms, {:.3} {} than predicted\n",
            verified.found_ms,
            residual.abs(),
            if residual > 0.0 { "less" } else { "more" }
        );
    }
    if !verified.layers.is_empty() {
        let ms = |value: f64| format!("{value:.3}");
        let rows: Vec<[String; 4]> = verified
            .layers
            .iter()
            .map(|layer| {
                let before = layer.before_ms.map_or_else(|| "-".to_owned(), ms);
                [format!("  {}", layer.layer), layer.machine.clone(), ms(layer.found_ms), before]
            })
            .collect();
        text += &table(&["  at the layer, without those below", "machine", "ms", "ms where it ran"], &rows);
    }
    if let Some(mechanism) = &verified.mechanism {
        text += &format!("  beside where it ran: {mechanism}\n");
    }
    text
}
