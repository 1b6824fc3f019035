//! What a gate can judge, each one number of a run.

use std::fmt;
use std::str::FromStr;

use nestor_statistics::LatencySummary;
use nestor_workload::OperationClass;

use crate::path_length::sum_of_parts;
use crate::record::Measured;

/// One number of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateMetric {
    /// Bytes per second; operations per second of a workload that moves no data.
    Throughput,
    /// A figure of the latency of operations.
    Latency {
        /// Which one.
        figure: LatencyFigure,
        /// Of these operations; `None`: of the only ones that the workload does, because different ones are never averaged together.
        class: Option<String>,
    },
    /// Instructions of the modelled processor for one operation, of all parts together; only in virtual time.
    Instructions,
}

/// What is taken of a run's latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyFigure {
    /// The arithmetic mean.
    Mean,
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 99th percentile.
    P99,
    /// The longest.
    Max,
}

impl LatencyFigure {
    const ALL: [Self; 5] = [Self::Mean, Self::P50, Self::P90, Self::P99, Self::Max];

    const fn name(self) -> &'static str {
        match self {
            Self::Mean => "latency",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::Max => "max",
        }
    }

    fn of(self, summary: &LatencySummary) -> f64 {
        match self {
            Self::Mean => summary.mean_ns,
            Self::P50 => summary.p50_ns as f64,
            Self::P90 => summary.p90_ns as f64,
            Self::P99 => summary.p99_ns as f64,
            Self::Max => summary.max_ns as f64,
        }
    }
}

impl GateMetric {
    /// All of them, for messages.
    pub const NOTATION: &'static str = "throughput, latency, p50, p90, p99 and max (with the class of operations if there are \
        several: p99:fsync), and instructions (of one operation, in virtual time)";

    /// Its value in a run, above zero; `None` if the run has none.
    pub fn of(&self, measured: &Measured) -> Option<f64> {
        let load = &measured.load;
        let value = match self {
            Self::Throughput => {
                let bytes_per_second = load.bytes_per_second();
                if bytes_per_second > 0.0 { bytes_per_second } else { load.operations_per_second() }
            }
            Self::Latency { figure, class } => {
                let result = match class {
                    Some(class) => load.operations.get(&OperationClass(class.clone()))?,
                    None if load.operations.len() == 1 => load.operations.values().next()?,
                    None => return None,
                };
                figure.of(&result.latency.summary()?)
            }
            Self::Instructions => sum_of_parts(&measured.path_length.as_ref()?.per_operation(load)),
        };
        (value > 0.0 && value.is_finite()).then_some(value)
    }

    /// Those that a run has, but for other figures of the same latencies.
    pub(super) fn all_of(measured: &Measured) -> Vec<Self> {
        let latency = |class| Self::Latency { figure: LatencyFigure::Mean, class };
        let classes = measured.load.operations.keys().map(|class| latency(Some(class.0.clone())));
        let all = [Self::Throughput, latency(None)].into_iter().chain(classes).chain([Self::Instructions]);
        all.filter(|metric| metric.of(measured).is_some()).collect()
    }
}

impl FromStr for GateMetric {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, class) = match text.split_once(':') {
            None => (text, None),
            Some((name, class)) => (name, Some(class)),
        };
        let is_class = |class: &str| {
            !class.is_empty() && class.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        match (LatencyFigure::ALL.into_iter().find(|figure| figure.name() == name), class) {
            (Some(figure), class) if class.is_none_or(is_class) => {
                Ok(Self::Latency { figure, class: class.map(str::to_owned) })
            }
            (None, None) if name == "throughput" => Ok(Self::Throughput),
            (None, None) if name == "instructions" => Ok(Self::Instructions),
            _ => Err(()),
        }
    }
}

impl fmt::Display for GateMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throughput => f.write_str("throughput"),
            Self::Latency { figure, class: None } => f.write_str(figure.name()),
            Self::Latency { figure, class: Some(class) } => write!(f, "{}:{class}", figure.name()),
            Self::Instructions => f.write_str("instructions"),
        }
    }
}
