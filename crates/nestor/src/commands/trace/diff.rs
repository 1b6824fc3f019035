//! `nestor trace diff`: two traces beside each other.

#[cfg(test)]
mod tests;
mod text;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use nestor_trace::event::Device;
use nestor_trace::{Analysis, AnalyzeOptions, AnalyzedLayer};
use serde::Serialize;

use super::analyze::{device, read};
use crate::output::print_json;
use nestor_trace::diff::{Difference, differences};

/// Arguments of `nestor trace diff`.
#[derive(Args, Debug)]
pub struct DiffArguments {
    /// A trace (a file, a directory, or a name as `blkparse -i` takes it): what to compare with
    a: PathBuf,
    /// The other one
    b: PathBuf,
    /// Only this device, as MAJOR:MINOR
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    device: Option<Device>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Two traces beside each other.
#[derive(Debug, Serialize)]
struct Compared {
    /// What is compared with.
    a: String,
    /// What is compared.
    b: String,
    /// The devices of both.
    layers: Vec<ComparedLayer>,
    /// Devices that are in one of them only, and what the traces have to say of themselves.
    remarks: Vec<String>,
}

/// One device in both traces.
#[derive(Debug, Serialize)]
struct ComparedLayer {
    /// Its name in the first, and in the second if that is another.
    name: String,
    /// The most important first.
    differences: Vec<Difference>,
}

/// Runs it.
///
/// # Errors
/// When a trace cannot be read, or the two have no device in common.
pub fn run(arguments: &DiffArguments) -> Result<()> {
    let options = AnalyzeOptions { device: arguments.device, ..AnalyzeOptions::default() };
    let a = read(std::slice::from_ref(&arguments.a), &options)?;
    let b = read(std::slice::from_ref(&arguments.b), &options)?;
    let compared = compare(&a, &b)?;
    if arguments.json {
        return print_json(&compared);
    }
    out!("{}", text::compared(&compared));
    Ok(())
}

fn compare(a: &[Analysis], b: &[Analysis]) -> Result<Compared> {
    let names = |analyses: &[Analysis]| {
        analyses.iter().map(|analysis| analysis.trace.clone()).collect::<Vec<_>>().join("; ")
    };
    let layers_of = |analyses: &'_ [Analysis]| -> Vec<AnalyzedLayer> {
        analyses.iter().flat_map(|analysis| analysis.layers.clone()).collect()
    };
    let (first, second) = (layers_of(a), layers_of(b));
    let mut remarks = Vec::new();
    for (which, analyses) in [("A", a), ("B", b)] {
        let said = analyses.iter().flat_map(|analysis| &analysis.remarks);
        remarks.extend(said.map(|remark| format!("{which}: {remark}")));
        let layers = analyses.iter().flat_map(|analysis| &analysis.layers);
        let of_layers = layers.flat_map(|l| l.metrics.remarks.iter().map(move |remark| (&l.name, remark)));
        remarks.extend(of_layers.map(|(name, remark)| format!("{which}, {name}: {remark}")));
    }
    let mut layers = Vec::new();
    if let ([one], [other]) = (first.as_slice(), second.as_slice()) {
        // One device each: they are meant, whatever their numbers were.
        let name =
            if one.name == other.name { one.name.clone() } else { format!("{} | {}", one.name, other.name) };
        layers.push(ComparedLayer { name, differences: differences(&one.metrics, &other.metrics) });
    } else {
        for one in &first {
            match second.iter().find(|other| other.name == one.name) {
                Some(other) => layers.push(ComparedLayer {
                    name: one.name.clone(),
                    differences: differences(&one.metrics, &other.metrics),
                }),
                None => remarks.push(format!("{} is only in A", one.name)),
            }
        }
        let only = second.iter().filter(|other| first.iter().all(|one| one.name != other.name));
        remarks.extend(only.map(|other| format!("{} is only in B", other.name)));
    }
    if layers.is_empty() {
        bail!(
            "the two traces have no device in common; traces with several devices must have the same \
               device numbers"
        );
    }
    Ok(Compared { a: names(a), b: names(b), layers, remarks })
}
