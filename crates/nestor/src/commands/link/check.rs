//! `nestor link check`: a link held against its model.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use nestor_link::{End, Wire};
use nestor_link_server::check::{CheckRow, CheckUnit, CheckedLink, FrameKind, Quantity, Verdict, check};
use nestor_stack::Layer;
use nestor_text::units::{self, Scale};
use serde::Serialize;

use super::{figures, wire};
use crate::output::{columns, fitted, print_json, table_within};
use crate::paths::temporary_directory;

/// The links that are checked if none is named: those that the model is to be right for.
const USUAL: [&str; 5] =
    ["link:rate=10mbit", "link:rate=100mbit", "link", "link:rate=10gbit", "link:delay=5ms:loss=1%"];

/// Arguments of `nestor link check`.
#[derive(Args, Debug)]
pub struct LinkCheckArguments {
    /// Links as they are written in a stack, such as link:rate=100mbit:delay=5ms; without any, several that are usual
    #[arg(value_name = "LINK", value_parser = parsed)]
    links: Vec<Layer>,
    /// Which frames are lost
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    seed: u64,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// A link beside its model.
#[derive(Debug, Serialize)]
struct Checked {
    link: String,
    verdict: Verdict,
    rows: Vec<CheckRow>,
}

/// Runs `nestor link check`; it fails unless each link is as it should be.
///
/// # Errors
/// What is named is no link, or it cannot be served.
pub fn run(arguments: &LinkCheckArguments) -> Result<ExitCode> {
    let usual = || USUAL.iter().map(|text| Ok(Layer::parse(text)?)).collect::<Result<Vec<_>>>();
    let links = if arguments.links.is_empty() { usual()? } else { arguments.links.clone() };
    let checked = links.iter().map(|link| checked(link, arguments.seed)).collect::<Result<Vec<_>>>()?;
    if arguments.json {
        print_json(&checked)?;
    } else {
        for (index, link) in checked.iter().enumerate() {
            if index > 0 {
                outln!();
            }
            out!("{}", text(link, columns()));
        }
    }
    let all_hold = checked.iter().all(|link| link.verdict == Verdict::Holds);
    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parsed(text: &str) -> Result<Layer, String> {
    Layer::parse(text).map_err(|error| error.to_string())
}

fn checked(layer: &Layer, seed: u64) -> Result<Checked> {
    let options = figures(&layer.to_string())?;
    let directory = temporary_directory("nestor-link-")?;
    // What is checked of a link is what it does while it is not cut.
    let wire = Wire { cut: None, ..wire(&options) };
    let rows = check(&CheckedLink { wire, mtu: options.mtu, seed }, directory.path())?;
    Ok(Checked { link: layer.to_string(), verdict: Verdict::of(&rows), rows })
}

/// A table for a terminal.
fn text(checked: &Checked, columns: Option<usize>) -> String {
    let rows: Vec<[String; 5]> = checked.rows.iter().map(line).collect();
    let mut sources: Vec<&str> = checked.rows.iter().map(|row| row.source).collect();
    sources.dedup();
    let sources: String = sources.iter().map(|source| format!("  expected: {source}\n")).collect();
    let heading = ["", "expected", "allowed", "measured", "verdict"];
    let verdict = match checked.verdict {
        Verdict::Holds => "the check passed",
        Verdict::Fails => "the check failed: at least one row is out of bounds",
        Verdict::NotMeasured => {
            "the check is incomplete: too few frames arrive for some rows, the others are within bounds"
        }
    };
    let table = table_within(columns, &heading, &rows);
    format!("{}\n{table}{}", checked.link, fitted(&format!("{sources}  {verdict}\n"), columns))
}

fn line(row: &CheckRow) -> [String; 5] {
    let to = match row.from {
        End::Lower => "to the client",
        End::Upper => "to the server",
    };
    let frames = match row.frames {
        FrameKind::Shortest => "shortest frames",
        FrameKind::Longest => "longest frames",
        FrameKind::Segments => "TCP segments",
        FrameKind::Mixed => "all kinds of frames",
    };
    let quantity = match row.quantity {
        Quantity::Rate => "rate",
        Quantity::RateBothWays => "rate, both ways at once",
        Quantity::RateOfSeveral => "rate, of three clients at once",
        Quantity::Delay => "delay",
        Quantity::Lost => "lost",
        Quantity::Queue => "queue",
        Quantity::Disordered => "not in order or not as sent",
    };
    let verdict = match row.verdict {
        Verdict::Holds => "holds",
        Verdict::Fails => "FAILS",
        Verdict::NotMeasured => "too few arrive",
    };
    let of = row.of_frames.map_or_else(String::new, |sent| format!(" of {}", units::count(sent)));
    let [expected, allowed, measured] = figures_of(row);
    [format!("{quantity}{of}, {to}, {frames}"), expected, allowed, measured, verdict.to_owned()]
}

/// What is expected, allowed and measured, in one unit.
fn figures_of(row: &CheckRow) -> [String; 3] {
    let scale = match row.unit {
        CheckUnit::BitsPerSecond => Scale::of_bit_rate(row.expected),
        CheckUnit::Nanoseconds => Scale::of_time_ns(row.expected),
        CheckUnit::Frames => return counted(row, ""),
        CheckUnit::Bytes => return counted(row, " B"),
    };
    let measured = row.measured.map_or_else(|| "-".to_owned(), |measured| scale.shown(measured));
    [scale.shown(row.expected), scale.range(row.low, row.high), measured]
}

fn counted(row: &CheckRow, unit: &str) -> [String; 3] {
    let whole = |value: f64| units::count(value.max(0.0).round() as u64);
    [
        format!("{}{unit}", whole(row.expected)),
        format!("{} to {}{unit}", whole(row.low), whole(row.high)),
        row.measured.map_or_else(|| "-".to_owned(), |measured| format!("{}{unit}", whole(measured))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(quantity: Quantity, unit: CheckUnit, [expected, low, high]: [f64; 3]) -> CheckRow {
        CheckRow {
            quantity,
            from: End::Upper,
            frames: FrameKind::Longest,
            unit,
            of_frames: None,
            expected,
            low,
            high,
            measured: Some(expected),
            verdict: Verdict::Holds,
            source: "a standard",
        }
    }

    #[test]
    fn a_link_is_shown_beside_its_model() {
        let rate = row(Quantity::RateBothWays, CheckUnit::BitsPerSecond, [1e8, 9.9e7, 1.01e8]);
        let delay = row(Quantity::Delay, CheckUnit::Nanoseconds, [5e6, 4.99e6, 5.01e6]);
        let lost = CheckRow {
            from: End::Lower,
            measured: None,
            of_frames: Some(100_000),
            verdict: Verdict::Fails,
            source: "another",
            ..row(Quantity::Lost, CheckUnit::Frames, [1000.0, 853.0, 1150.0])
        };
        let rows = vec![rate, delay, lost];
        let mut checked = Checked { link: "link".to_owned(), verdict: Verdict::of(&rows), rows };
        insta::assert_snapshot!(text(&checked, Some(80)), @r"
        link
                                                                  expected
          rate, both ways at once, to the server, longest frames  100.000 Mbit/s
              allowed: 99.000 to 101.000 Mbit/s; measured: 100.000 Mbit/s; verdict:
              holds
          delay, to the server, longest frames                    5.000 ms
              allowed: 4.990 to 5.010 ms; measured: 5.000 ms; verdict: holds
          lost of 100 000, to the client, longest frames          1 000
              allowed: 853 to 1 150; measured: -; verdict: FAILS
          expected: a standard
          expected: another
          the check failed: at least one row is out of bounds
        ");
        insta::assert_snapshot!(text(&checked, None), @r"
        link
                                                                  expected        allowed                   measured        verdict
          rate, both ways at once, to the server, longest frames  100.000 Mbit/s  99.000 to 101.000 Mbit/s  100.000 Mbit/s  holds
          delay, to the server, longest frames                    5.000 ms        4.990 to 5.010 ms         5.000 ms        holds
          lost of 100 000, to the client, longest frames          1 000           853 to 1 150              -               FAILS
          expected: a standard
          expected: another
          the check failed: at least one row is out of bounds
        ");
        checked.rows[2].verdict = Verdict::NotMeasured;
        checked.verdict = Verdict::of(&checked.rows);
        let said = text(&checked, None);
        assert!(said.contains("too few arrive") && said.contains("the check is incomplete"), "{said}");
        assert_eq!(serde_json::to_value(&checked).unwrap()["verdict"], "not-measured");
    }

    #[test]
    fn what_is_allowed_can_be_told_apart_whatever_the_link() {
        let shown = |unit, figures: [f64; 3]| figures_of(&row(Quantity::Delay, unit, figures)).join(", ");
        let rate = shown(CheckUnit::BitsPerSecond, [1e4, 9.9e3, 1.01e4]);
        assert_eq!(rate, "10.000 kbit/s, 9.900 to 10.100 kbit/s, 10.000 kbit/s");
        let long = shown(CheckUnit::Nanoseconds, [1e10, 9.999_99e9, 1.000_001e10]);
        assert_eq!(long, "10.000000 s, 9.999990 to 10.000010 s, 10.000000 s");
        let queue = shown(CheckUnit::Bytes, [262_144.0, 260_000.0, 262_144.0]);
        assert_eq!(queue, "262 144 B, 260 000 to 262 144 B, 262 144 B");
    }

    #[test]
    fn the_usual_links_are_links() {
        assert!(USUAL.iter().all(|text| Layer::parse(text).unwrap().link().is_some()));
        assert!(checked(&Layer::parse("ext4").unwrap(), 0).is_err());
        let full = checked(&Layer::parse("link:mtu=9000:queue=8k").unwrap(), 0).unwrap_err().to_string();
        assert!(full.contains("a queue of 8k has no room for a frame"), "{full}");
    }
}
