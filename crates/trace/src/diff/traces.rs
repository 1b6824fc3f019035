//! Two traces beside each other, device by device.

use serde::Serialize;

use super::{Difference, Statistic, Verdict, differences};
use crate::{Analysis, AnalyzedLayer};

/// Differences that are told in words.
const MOST_WORDS: usize = 4;
/// Smaller ones are not worth words: 2 % where there is an interval, 7 % where there is none.
const SMALLEST_WORTH_WORDS: f64 = 0.02;

/// Two traces beside each other.
#[derive(Debug, Serialize)]
pub struct ComparedTraces {
    /// What is compared with.
    pub a: String,
    /// What is compared.
    pub b: String,
    /// The devices of both.
    pub layers: Vec<ComparedLayer>,
    /// Devices that are in one of them only, and what the traces have to say of themselves.
    pub remarks: Vec<String>,
}

/// One device in both traces.
#[derive(Debug, Serialize)]
pub struct ComparedLayer {
    /// Its name in the first, and in the second if that is another.
    pub name: String,
    /// The most important first.
    pub differences: Vec<Difference>,
}

impl ComparedTraces {
    /// Compares each device of the one with the same device of the other, and the devices where each has only one. Without a
    /// device in common it has no layers.
    pub fn of(a: &[Analysis], b: &[Analysis]) -> Self {
        let names =
            |analyses: &[Analysis]| analyses.iter().map(|a| a.trace.as_str()).collect::<Vec<_>>().join("; ");
        let mut compared = Self {
            a: names(a),
            b: names(b),
            layers: Vec::new(),
            remarks: [("A", a), ("B", b)].into_iter().flat_map(|(which, all)| said(which, all)).collect(),
        };
        let [first, second] = [a, b].map(|analyses| analyses.iter().flat_map(|analysis| &analysis.layers));
        let (first, second): (Vec<_>, Vec<_>) = (first.collect(), second.collect());
        if let ([one], [other]) = (first.as_slice(), second.as_slice()) {
            // One device each: they are meant, whatever their numbers were.
            compared.layers.push(ComparedLayer::of(one, other));
            return compared;
        }
        for one in &first {
            match second.iter().find(|other| other.device == one.device) {
                Some(other) => compared.layers.push(ComparedLayer::of(one, other)),
                None => compared.remarks.push(format!("{} is only in A", one.device)),
            }
        }
        let only = second.iter().filter(|other| first.iter().all(|one| one.device != other.device));
        compared.remarks.extend(only.map(|other| format!("{} is only in B", other.device)));
        compared
    }
}

impl ComparedLayer {
    fn of(one: &AnalyzedLayer, other: &AnalyzedLayer) -> Self {
        let name = if one.device == other.device {
            one.device.to_string()
        } else {
            format!("{} | {}", one.device, other.device)
        };
        Self { name, differences: differences(&one.metrics, &other.metrics) }
    }

    /// The most important, of each interval only one: the mean where that differs too.
    pub fn worth_words(&self) -> Vec<&Difference> {
        let all = &self.differences;
        let matters =
            |d: &&Difference| d.verdict != Verdict::WithinNoise && d.importance > SMALLEST_WORTH_WORDS;
        let mut told: Vec<&Difference> = Vec::new();
        for difference in all.iter().filter(matters) {
            if told.iter().any(|t| is_said_by(difference, t)) {
                continue;
            }
            let times = difference.times.map(|(_, times)| (Statistic::Mean, times));
            let mean = all.iter().filter(matters).find(|d| times.is_some() && d.times == times);
            told.push(mean.unwrap_or(difference));
            if told.len() == MOST_WORDS {
                break;
            }
        }
        told
    }
}

/// Whether one that is told leaves nothing to say of the other: of reads and writes only what the whole does not say already.
fn is_said_by(difference: &Difference, told: &Difference) -> bool {
    let Some(((_, times), (_, whole))) = difference.times.zip(told.times) else { return false };
    times == whole || (times.is_part_of(whole) && close(told, difference))
}

/// Whether two ratios are about the same.
fn close(a: &Difference, b: &Difference) -> bool {
    a.ratio.zip(b.ratio).is_some_and(|(x, y)| (x / y).ln().abs() < 0.1)
}

/// What the analyses of one trace say of it and of its devices.
fn said(which: &str, analyses: &[Analysis]) -> Vec<String> {
    let of_trace = analyses.iter().flat_map(|analysis| &analysis.remarks);
    let of_trace = of_trace.map(|remark| format!("{which}: {remark}"));
    let layers = analyses.iter().flat_map(|analysis| &analysis.layers);
    let of_layers = layers.flat_map(|layer| {
        layer.metrics.remarks.iter().map(move |remark| format!("{which}, {}: {remark}", layer.device))
    });
    of_trace.chain(of_layers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::TracedDevice;
    use crate::event::Device;
    use crate::layer::LayerAccumulator;
    use crate::metrics::TracePoint;

    fn trace(devices: &[TracedDevice]) -> Analysis {
        let layers = devices.iter().map(|device| AnalyzedLayer {
            device: device.clone(),
            metrics: LayerAccumulator::new(TracePoint::Blktrace, None).finish(0),
        });
        Analysis { trace: "t".to_owned(), layers: layers.collect(), ..Analysis::default() }
    }

    fn numbered(minor: u32) -> TracedDevice {
        TracedDevice::Number(Device { major: 8, minor })
    }

    #[test]
    fn several_devices_are_compared_by_number() {
        let both = ComparedTraces::of(
            &[trace(&[numbered(0), numbered(16)])],
            &[trace(&[numbered(16), numbered(32)])],
        );
        assert_eq!(both.layers.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["8:16"]);
        assert_eq!(both.remarks, ["8:0 is only in A", "8:32 is only in B"]);
        let none = ComparedTraces::of(&[trace(&[numbered(0), numbered(16)])], &[trace(&[numbered(32)])]);
        assert!(none.layers.is_empty());
    }

    #[test]
    fn a_disk_that_has_the_name_of_a_number_is_not_the_device_of_that_number() {
        let named = TracedDevice::Named("8:0".to_owned());
        let both = ComparedTraces::of(
            &[trace(&[named.clone(), numbered(16)])],
            &[trace(&[numbered(0), numbered(16), numbered(32)])],
        );
        assert_eq!(both.layers.len(), 1);
        assert_eq!(named.to_string(), numbered(0).to_string());
    }
}
