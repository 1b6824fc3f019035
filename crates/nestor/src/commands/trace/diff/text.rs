//! What a comparison says, for people.

use nestor_report::units::{bytes, count, digits, duration_ns, share, signed};

use crate::output::table;
use nestor_trace::diff::{ComparedLayer, ComparedTraces, Difference, Unit, Verdict};

/// The biggest differences in words, then all in a table.
pub fn compared(compared: &ComparedTraces) -> String {
    let mut text = format!("A  {}\nB  {}\n", compared.a, compared.b);
    for layer in &compared.layers {
        text += &layer_text(layer);
    }
    if !compared.remarks.is_empty() {
        text += "\n";
    }
    for remark in &compared.remarks {
        text += &format!("  {remark}\n");
    }
    text
}

fn layer_text(layer: &ComparedLayer) -> String {
    let mut text = format!("\n{}\n", layer.name);
    let told = layer.worth_words();
    if told.is_empty() {
        text += "  no difference beyond noise\n";
    }
    for difference in told {
        text += &format!("  {}\n", words(difference));
    }
    let rows: Vec<[String; 6]> = layer.differences.iter().map(row).collect();
    text + "\n" + &table(&["", "A", "B", "B / A", "95 % interval", ""], &rows)
}

/// `a request takes 2.1 ms in B, 1.0 ms in A: +110 %`
fn words(d: &Difference) -> String {
    let (a, b) = (value(d.unit, d.a), value(d.unit, d.b));
    let change = d.ratio.map_or_else(String::new, |ratio| format!(": {} %", signed((ratio - 1.0) * 100.0)));
    format!("{} {b} in B, {a} in A{change} ({})", d.meaning, d.metric)
}

fn row(d: &Difference) -> [String; 6] {
    let interval =
        d.interval.map_or_else(String::new, |i| format!("[{}, {}]", digits(i.low), digits(i.high)));
    let verdict = match d.verdict {
        Verdict::Differs => "differs",
        Verdict::WithinNoise => "within noise",
        Verdict::NoInterval => "no interval",
    };
    [
        d.metric.to_owned(),
        value(d.unit, d.a),
        value(d.unit, d.b),
        d.ratio.map_or_else(|| "-".to_owned(), digits),
        interval,
        verdict.to_owned(),
    ]
}

fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Nanoseconds => duration_ns(value),
        Unit::Bytes => bytes(value.round() as u64),
        Unit::BytesPerSecond => nestor_report::units::rate(value),
        Unit::PerSecond => nestor_report::units::iops(value),
        Unit::Share => share(value),
        Unit::Sectors => format!("{} sectors", count(value.round() as u64)),
        Unit::Number if value >= 1000.0 => count(value.round() as u64),
        Unit::Number => digits(value),
    }
}
