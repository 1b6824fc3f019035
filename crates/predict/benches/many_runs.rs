//! Time to learn from a store of 100 000 cells, and to answer a question from it: it fails beyond 30 s, or beyond one.
//!
//! The cells are made up: guests, hosts, cache modes and devices under loads, whose effects multiply.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use nestor_predict::calibration::tracks;
use nestor_predict::{Evidence, Knowledge, MeasuredLoad, Question, Reference, Shape, answer};
use nestor_results::{KnownStack, StackPart, WrittenStack};
use nestor_statistics::prediction::TargetMachine;

const LOADS: u32 = 40;
const STACKS: u32 = 2500;
const MOST_FITTING: Duration = Duration::from_secs(30);
const MOST_PREDICTION: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let evidence = evidence();
    println!("{} cells", evidence.cells.len());
    let begun = Instant::now();
    let knowledge = Knowledge::fit(&evidence);
    let fitting = begun.elapsed();
    println!("fitting            {:.2} s", fitting.as_secs_f64());
    let [from, to] = ["stack 17", "stack 1234"].map(WrittenStack::from);
    let load = "load 7".into();
    let begun = Instant::now();
    let known = evidence.without(|cell| cell.stack == to && cell.load == load);
    let here = known.cell(&from, &load).expect("every load was measured on every stack");
    let question = Question {
        load: load.clone(),
        shape: known.shapes[&load].clone(),
        model: None,
        model_workers: 0,
        from: from.clone(),
        reference: Reference::of(here),
        to: to.clone(),
        processors: 0,
        machine: TargetMachine::SAME,
    };
    let found = answer(&question, &known, &knowledge, &tracks(&known));
    let prediction = begun.elapsed();
    println!("a prediction       {:.2} s", prediction.as_secs_f64());
    let truth = evidence.cell(&to, &load).expect("every load was measured on every stack").rate;
    println!("off by             {:+.1} %", (found.rate.expect("a number") / truth - 1.0) * 100.0);
    if fitting > MOST_FITTING || prediction > MOST_PREDICTION {
        eprintln!(
            "beyond {} s for fitting or {} s for a prediction",
            MOST_FITTING.as_secs(),
            MOST_PREDICTION.as_secs()
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A number from -0.5 to 0.5 that looks like chance.
fn noise(a: u32, b: u32) -> f64 {
    let mixed = (a.wrapping_mul(2_654_435_761) ^ b.wrapping_mul(40_503)).wrapping_mul(2_246_822_519);
    f64::from(mixed >> 8) / f64::from(1_u32 << 24) - 0.5
}

fn evidence() -> Evidence {
    let mut evidence = Evidence::default();
    let share = |load: u32, of: u32| f64::from(load % of) / f64::from(of - 1);
    for load in 0..LOADS {
        let shape = Shape {
            read_share: share(load, 5),
            random_share: share(load / 5, 2),
            mean_bytes: 4096.0 * f64::from(1 + load / 10),
            outstanding: 8.0,
            ..Shape::default()
        };
        evidence.shapes.insert(format!("load {load}").into(), shape);
    }
    for stack in 0..STACKS {
        let kinds = [stack % 6, stack / 6 % 7, stack / 42 % 5, stack / 210 % 4, stack / 840];
        let of = [
            StackPart::GuestFileSystem,
            StackPart::HostFileSystem,
            StackPart::Cache,
            StackPart::Device,
            StackPart::GuestMemory,
        ];
        let parts = of.into_iter().zip(kinds).map(|(part, kind)| (part, kind.to_string()));
        let name = WrittenStack::from(format!("stack {stack}"));
        evidence.stacks.insert(name.clone(), KnownStack::from_iter(parts));
        for load in 0..LOADS {
            let of_parts = (0..5).zip(kinds).map(|(part, kind)| noise(part * 100 + kind, 1 + load % 5) * 0.6);
            let rate = 1e6 * (noise(load, 77) * 4.0 + of_parts.sum::<f64>() + 0.1 * noise(stack, load)).exp();
            evidence.cells.push(MeasuredLoad {
                stack: name.clone(),
                load: format!("load {load}").into(),
                rate,
                operations_per_s: rate / 4096.0,
                response_s: None,
                requests_per_s: rate / 4096.0,
                request_s: None,
                shape: None,
                runs: vec![1],
                ..MeasuredLoad::default()
            });
        }
    }
    evidence
}
