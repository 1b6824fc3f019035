//! Answers as text.

use nestor_predict::residual::LayerResidual;
use nestor_predict::{Answer, Grounds, Load, Missing, nulls};
use nestor_report::units::{digits, listed, percent, signed};

use super::Predicted;
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
    text += &methods_line(answer, &short);
    let scale: Vec<String> = answer
        .nulls
        .iter()
        .filter_map(|(model, rate)| Some(format!("{} {}", nulls::label(*model), short((*rate)?))))
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

/// What each method says and which of them is trusted; empty if none says anything.
fn methods_line(answer: &Answer, short: &dyn Fn(f64) -> String) -> String {
    let by: Vec<String> = answer
        .methods
        .iter()
        .filter_map(|m| Some(format!("{} {}", m.method, short(m.predicted.as_ref()?.rate))))
        .collect();
    if by.is_empty() {
        return String::new();
    }
    let mut text = format!("  by         {}", by.join(" · "));
    if let Some(trusted) = answer.trusted() {
        let off = percent(trusted.deviation.unwrap_or_default());
        let why = match trusted.grounds() {
            Grounds::HiddenStacks => format!("off by {off} for hidden stacks"),
            Grounds::KnownAnswers(truths) => format!("off by {off} for {truths} known answers"),
            Grounds::Assumed => format!("assumed off by {off}: too few answers are known"),
        };
        text += &format!("     trusted: {} ({}; {why})", trusted.method, percent(trusted.weight));
    }
    text.push('\n');
    text
}

/// A command below what it supplies.
fn indented(command: Option<&str>) -> String {
    command.map_or_else(String::new, |command| format!("               {command}\n"))
}

/// Where the time went beside where it was predicted to go.
fn layers_table(layers: &[LayerResidual]) -> String {
    let ms = |value: f64| format!("{value:.3}");
    let known = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), ms);
    let row = |layer: &LayerResidual| {
        let off = layer.off_ms().map_or_else(|| "-".to_owned(), |off| format!("{off:+.3}"));
        let name = format!("  {}", layer.layer);
        [name, layer.machine.to_string(), ms(layer.found_ms), known(layer.predicted_ms), off]
    };
    let heading = ["  at the layer, without layers below", "machine", "ms found", "predicted", "off by"];
    table(&heading, &layers.iter().map(row).collect::<Vec<_>>())
}

/// The real run beside the prediction.
pub fn verified(verified: &Verified, load: &Load) -> String {
    let (unit, run) = (load.unit, &verified.verification);
    let mut text = format!(
        "  found      {} {} (runs {})",
        digits(run.found / unit.scale()),
        unit.name(),
        listed(&run.runs)
    );
    if let Some(error) = run.error {
        let within = if run.within == Some(true) { "within" } else { "outside" };
        text += &format!(": the prediction is off by {} %, {within} the interval", signed(error * 100.0));
    }
    text.push('\n');
    if let Some(place) = &verified.other_place {
        text += &format!("  it ran on {place}, but the prediction is for another place\n");
    }
    if load.is_observed() {
        text += "  this run is a synthetic load with the observed properties, not the application\n";
    }
    if let Some(residual) = run.residual_ms {
        text += &format!(
            "  a worker's request took {:.3} ms, {:.3} {} than predicted\n",
            run.found_ms,
            residual.abs(),
            if residual > 0.0 { "less" } else { "more" }
        );
    }
    if !run.layers.is_empty() {
        text += &layers_table(&run.layers);
        if let Some(stack) = &verified.spread_like {
            text += &format!("  (the predicted time is spread over the layers as on {stack})\n");
        }
    }
    if let Some(mechanism) = &verified.mechanism {
        text += &format!("  against the stack where it ran: {mechanism}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use nestor_predict::{Evidence, Shape, Verification};
    use nestor_results::Known;
    use nestor_workload::profile::{Concurrency, Rates, Requests};
    use nestor_workload::{Profile, Workload};

    use super::*;
    use nestor_predict::residual::LayerResidual;

    const LOAD: &str = "fio:rand-read";

    fn load() -> Load {
        let mut evidence = Evidence::default();
        evidence.shapes.insert(LOAD.into(), Shape { mean_bytes: 8192.0, ..Shape::default() });
        Load::measured(&Workload::parse(LOAD).unwrap(), &evidence, &Known::default()).unwrap()
    }

    /// A load that was watched at work.
    fn observed() -> Load {
        let profile = Profile {
            name: "mail".to_owned(),
            requests: Requests { mean_bytes: 8192.0, ..Requests::default() },
            concurrency: Concurrency { workers: 1, ..Concurrency::default() },
            rates: Rates { seconds: 60.0, requests_per_s: 100.0, response_ms: 5.0, ..Rates::default() },
            ..Profile::default()
        };
        let twin = profile.workload(profile.file_bytes()).unwrap();
        Load::observed(profile, twin)
    }

    fn found() -> Verified {
        let layer = |layer: &str, machine: &str, found_ms: f64, predicted_ms: f64| LayerResidual {
            layer: layer.to_owned(),
            machine: machine.into(),
            found_ms,
            predicted_ms: Some(predicted_ms),
        };
        let verification = Verification {
            found: 125.0,
            runs: vec![7, 8, 9],
            error: Some(-0.2),
            within: Some(true),
            found_ms: 8.0,
            residual_ms: Some(2.0),
            layers: vec![
                layer("above the block layer", "", 1.0, 1.5),
                layer("ext4", "guest", 3.0, 4.0),
                layer("raw + xfs", "host", 4.0, 4.5),
            ],
            is_spread: true,
        };
        Verified {
            verification,
            spread_like: Some("ext4/kvm/raw/ext4/hdd".into()),
            mechanism: Some("+20 % of the time: journal: its commits wait".to_owned()),
            other_place: None,
        }
    }

    #[test]
    fn what_was_found_stands_beside_the_prediction_layer_by_layer() {
        insta::assert_snapshot!(verified(&found(), &load()), @r"
        found      125 IOPS (runs 7, 8, 9): the prediction is off by -20.0 %, within the interval
        a worker's request took 8.000 ms, 2.000 less than predicted
          at the layer, without layers below  machine  ms found  predicted  off by
          above the block layer                        1.000     1.500      +0.500
          ext4                                guest    3.000     4.000      +1.000
          raw + xfs                           host     4.000     4.500      +0.500
        (the predicted time is spread over the layers as on ext4/kvm/raw/ext4/hdd)
        against the stack where it ran: +20 % of the time: journal: its commits wait
        ");
    }

    #[test]
    fn what_nobody_predicted_is_only_found() {
        let whole = found().verification;
        let layers = whole.layers.iter().map(|layer| LayerResidual { predicted_ms: None, ..layer.clone() });
        let layers = layers.take(2).collect();
        let unknown = Verified {
            verification: Verification { error: None, within: None, residual_ms: None, layers, ..whole },
            spread_like: None,
            mechanism: None,
            ..found()
        };
        insta::assert_snapshot!(verified(&unknown, &load()), @r"
        found      125 IOPS (runs 7, 8, 9)
          at the layer, without layers below  machine  ms found  predicted  off by
          above the block layer                        1.000     -          -
          ext4                                guest    3.000     -          -
        ");
    }

    #[test]
    fn what_ran_elsewhere_or_only_like_it_is_said() {
        let outside = Verified {
            verification: Verification {
                error: Some(0.7),
                within: Some(false),
                residual_ms: Some(-3.25),
                layers: Vec::new(),
                ..found().verification
            },
            spread_like: None,
            mechanism: None,
            other_place: Some("emulated (TCG)".to_owned()),
        };
        insta::assert_snapshot!(verified(&outside, &observed()), @r"
        found      125 IOPS (runs 7, 8, 9): the prediction is off by +70.0 %, outside the interval
        it ran on emulated (TCG), but the prediction is for another place
        this run is a synthetic load with the observed properties, not the application
        a worker's request took 8.000 ms, 3.250 more than predicted
        ");
    }
}
