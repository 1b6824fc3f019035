//! What is kept of one cell: one workload, once, on one freshly built stack.

use std::iter;

use nestor_correlate::Correlation;
use nestor_kernel::ServedRequests;
use nestor_processor::ProcessorSpeed;
use nestor_stack::{LayerIndex, LayerRole, MachineName};
use nestor_text::units;
use nestor_trace::hypervisor::FormatCounts;
use nestor_trace::{LayerMetrics, LinkMetrics};
use nestor_workload::{LoadResult, SurfacePoint};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::TraceMode;
use crate::environment::Environment;
use crate::failure::CellFailure;
use crate::life::InstanceLife;
use crate::network::NetworkRecord;
use crate::path_length::PathLength;
use crate::{WrittenStack, WrittenWorkload};

/// One measurement, self-contained, so that results of several machines can be put into one store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellRecord {
    /// The stack, in its canonical notation.
    pub stack: WrittenStack,
    /// The workload, in its own notation.
    pub workload: WrittenWorkload,
    /// The study it belongs to, if any.
    pub study: Option<String>,
    /// The study's [`hash`](crate::Study::hash), by which an interrupted study finds what is already done.
    #[serde(default)]
    pub study_hash: Option<String>,
    /// Which replication (block) of the study, from 0.
    pub block: u32,
    /// Which run of this stack and workload within the block, from 0; only baselines run twice (at both ends).
    #[serde(default)]
    pub repeat: u32,
    /// Position in the order in which cells were really run, from 0.
    pub position: u32,
    /// How much was recorded.
    #[serde(default = "TraceMode::of_old_records")]
    pub trace: TraceMode,
    /// Whether it is the untraced repeat of a traced cell: it shows what recording costs, and counts for nothing else.
    #[serde(default)]
    pub untraced_twin: bool,
    /// When the cell began: RFC 3339, UTC.
    pub started_at: String,
    /// Seconds the whole cell took: building the stack, preparing the data set, measuring, taking it down.
    pub cell_s: f64,
    /// Of them, the seconds in which the load ran, in the real time of the machine that runs Nestor; `None` if it failed, and in records
    /// of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_s: Option<f64>,
    /// What happened.
    pub outcome: Outcome,
    /// Every reason to trust the numbers less.
    pub marks: Vec<Mark>,
    /// Where it ran.
    pub environment: Environment,
}

impl CellRecord {
    /// What names this record in every store: SHA-256 of its JSON form, in hexadecimal.
    ///
    /// The same measurement has the same name wherever it is copied to, so that stores merge without clashes.
    ///
    /// # Errors
    ///
    /// If a number in the record is not finite and so has no JSON form that reads back.
    pub fn content_id(&self) -> Result<String, serde_json::Error> {
        Ok(sha256_hex(serde_json::to_string(self)?.as_bytes()))
    }

    /// The numbers, if it ended with any.
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Failed(_) => None,
        }
    }

    /// The points of the surface that a stored record measured; none of one that measured nothing. A record that cannot be read is
    /// no run of its store, which has read each before.
    pub(crate) fn surface_points(stored: &str) -> Vec<SurfacePoint> {
        let record = serde_json::from_str::<Self>(stored).ok();
        let measured = record.as_ref().and_then(Self::measured);
        measured.map(|measured| SurfacePoint::of(&measured.load)).unwrap_or_default()
    }

    /// Whether a conservation check failed, so that the numbers are excluded from every statistic.
    pub fn violates_an_identity(&self) -> bool {
        self.marks.iter().any(|mark| matches!(mark, Mark::Inconsistent { .. }))
    }

    /// Why it has no numbers, if it has none.
    pub fn failure(&self) -> Option<&CellFailure> {
        match &self.outcome {
            Outcome::Measured(_) => None,
            Outcome::Failed(failure) => Some(failure),
        }
    }
}

/// SHA-256 as 64 hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// A cell ends with numbers or with the reason why it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all records are of the large kind, and few are held at once"
)]
pub enum Outcome {
    /// The numbers.
    Measured(Measured),
    /// Why it has none.
    Failed(CellFailure),
}

/// The numbers of a cell; by default none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What the workload engine reported.
    pub load: LoadResult,
    /// The layers from the application to the medium, each with its trace point's numbers.
    pub layers: Vec<LayerRecord>,
    /// Busy share (0 to 1) of the outermost host's CPUs during the measurement.
    pub host_cpu_busy: f64,
    /// Busy share (0 to 1) of each machine's CPUs, outermost first, by machine label.
    pub cpu_busy: Vec<(MachineName, f64)>,
    /// The image files, the lowest first.
    #[serde(default)]
    pub images: Vec<ImageRecord>,
    /// How the requests of each trace point came from those above; absent where not everything was recorded.
    #[serde(default)]
    pub correlation: Option<Correlation>,
    /// What could not be recorded or joined, and why.
    #[serde(default)]
    pub trace_remarks: Vec<String>,
    /// Instructions by whose they are; in virtual time only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_length: Option<PathLength>,
    /// What went over networks, from the application down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkRecord>,
    /// What the instances of a life cycle went through, in the order in which they were asked for; none of other workloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lives: Vec<InstanceLife>,
}

/// The image file of a virtual disk or a loop device, after the workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImageRecord {
    /// The layer as written in the stack.
    pub layer: String,
    /// `raw`, `qcow2`, …
    pub format: String,
    /// Its extents on the device below; one extent is a file without fragmentation.
    pub extents: u64,
    /// Bytes of these pieces.
    pub allocated_bytes: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// What the format did with its own tables while the workload ran.
    pub tables: FormatCounts,
}

/// One layer of the stack as measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// The layer as written (`ext3`, `raw`, `hdd:wd-7200-1tb`); `application` for the first.
    pub layer: String,
    /// What it is for.
    pub role: LayerRole,
    /// The machine it runs in: `guest`, `host`, or `guest 2` … for deeper nesting.
    pub machine: MachineName,
    /// Numbers of the trace point at the lower edge of the layer; absent where nothing can be recorded there.
    pub metrics: Option<LayerMetrics>,
    /// Of a link whose frames were logged, their numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<Box<LinkMetrics>>,
    /// Of a hypervisor whose back end counts them, the requests that it served of its virtual disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<ServedRequests>,
}

impl Measured {
    /// Whether all that was done are life cycles: no load ran within them, so that there is no throughput.
    pub fn has_only_lives(&self) -> bool {
        !self.lives.is_empty() && self.load.operations.is_empty()
    }

    /// The record of a layer of the stack, or, of what is above all of them, of the application.
    pub fn layer(&self, layer: Option<LayerIndex>) -> Option<&LayerRecord> {
        // The application is in front.
        self.layers.get(layer.map_or(0, |layer| layer.below().position()))
    }

    /// The records of the layers of the stack with their positions, application side first.
    pub fn indexed_layers(&self) -> impl Iterator<Item = (LayerIndex, &LayerRecord)> {
        let positions = iter::successors(Some(LayerIndex::TOP), |above| Some(above.below()));
        positions.zip(self.layers.iter().filter(|layer| !layer.is_application()))
    }
}

impl LayerRecord {
    /// A layer of which nothing else is known than the numbers of its trace point, if there is one.
    pub fn new(
        layer: impl Into<String>,
        role: impl Into<LayerRole>,
        machine: impl Into<MachineName>,
        metrics: Option<LayerMetrics>,
    ) -> Self {
        let (layer, role, machine) = (layer.into(), role.into(), machine.into());
        Self { layer, role, machine, metrics, frames: None, served: None }
    }

    /// Whether it is the application's.
    pub fn is_application(&self) -> bool {
        self.role == LayerRole::Application
    }
}

/// How [`Mark::CpuBound`] stores the modelled processor: `true` for the default one, which once was the only one; else its speed.
mod modelled_processor {
    use nestor_processor::ProcessorSpeed;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Kept {
        IsUsual(bool),
        Other(ProcessorSpeed),
    }

    pub fn serialize<S: Serializer>(speed: &Option<ProcessorSpeed>, to: S) -> Result<S::Ok, S::Error> {
        match *speed {
            None => Kept::IsUsual(false),
            Some(ProcessorSpeed::USUAL) => Kept::IsUsual(true),
            Some(speed) => Kept::Other(speed),
        }
        .serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<ProcessorSpeed>, D::Error> {
        Ok(match Kept::deserialize(from)? {
            Kept::IsUsual(false) => None,
            Kept::IsUsual(true) => Some(ProcessorSpeed::USUAL),
            Kept::Other(speed) => Some(speed),
        })
    }
}

/// A reason to trust a number less; it is printed wherever the number is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "mark")]
pub enum Mark {
    /// The host's CPU was emulated: shapes and ratios hold, absolute CPU-bound numbers do not.
    EmulatedCpu,
    /// Nothing of the stack was built: a manager started an instance, and the stack is what the user says of its cloud.
    Declared,
    /// A machine's CPUs were busy more than 70 % of the time.
    CpuBound {
        /// Which machine.
        machine: MachineName,
        /// Busy share, 0 to 1.
        busy: f64,
        /// It is the one modelled processor of virtual time, of this speed.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "modelled_processor")]
        modelled: Option<ProcessorSpeed>,
    },
    /// The data could come from a cache instead of the medium.
    Cached {
        /// Which cache and why.
        reason: String,
    },
    /// A conservation check failed.
    Inconsistent {
        /// Which identity and by how much.
        reason: String,
    },
    /// This machine was suspended while the cell was measured: rates are of a time in which nothing ran.
    Suspended {
        /// Seconds asleep, at least.
        seconds: f64,
    },
    /// The throughput had not settled when the run ended, or the run was too short to tell.
    NotSteady {
        /// What was seen.
        reason: String,
    },
    /// The trace lost events: counts are lower bounds.
    EventsDropped {
        /// Where.
        layer: String,
        /// How many.
        events: u64,
    },
    /// More than 1 % of the requests could not be joined with those above or below.
    Unmatched {
        /// Share of them, 0 to 1.
        share: f64,
    },
    /// The purpose of more than 2 % of a layer's bytes is not known.
    Unclassified {
        /// Where.
        layer: String,
        /// Share of them, 0 to 1.
        share: f64,
    },
}

impl Mark {
    /// Whether a comparison with such a cell must name this mark beside the number.
    pub fn spoils_comparison(&self) -> bool {
        match self {
            Self::CpuBound { .. }
            | Self::Cached { .. }
            | Self::Inconsistent { .. }
            | Self::Suspended { .. }
            | Self::NotSteady { .. } => true,
            // Both sides of a comparison ran on the same emulated CPU; lost events of a trace affect counts, not
            // rates.
            Self::EmulatedCpu
            | Self::Declared
            | Self::EventsDropped { .. }
            | Self::Unmatched { .. }
            | Self::Unclassified { .. } => false,
        }
    }

    /// [Names](Self::name) that are read back.
    pub(crate) const EMULATED: &str = "emulated";
    pub(crate) const DECLARED: &str = "declared";
    pub(crate) const CACHED: &str = "cached";
    pub(crate) const INCONSISTENT: &str = "inconsistent";
    pub(crate) const NOT_STEADY: &str = "not-steady";

    /// One word, as in tables and queries. Results keep it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::EmulatedCpu => Self::EMULATED,
            Self::Declared => Self::DECLARED,
            Self::CpuBound { .. } => "cpu-bound",
            Self::Cached { .. } => Self::CACHED,
            Self::Inconsistent { .. } => Self::INCONSISTENT,
            Self::Suspended { .. } => "suspended",
            Self::NotSteady { .. } => Self::NOT_STEADY,
            Self::EventsDropped { .. } => "events-dropped",
            Self::Unmatched { .. } => "unmatched",
            Self::Unclassified { .. } => "unclassified",
        }
    }

    /// One letter, for matrices; printed with a legend.
    pub fn letter(&self) -> char {
        match self {
            Self::EmulatedCpu => 'E',
            Self::Declared => 'L',
            Self::CpuBound { .. } => 'C',
            Self::Cached { .. } => 'M',
            Self::Inconsistent { .. } => 'I',
            Self::Suspended { .. } => 'Z',
            Self::NotSteady { .. } => 'S',
            Self::EventsDropped { .. } => 'D',
            Self::Unmatched { .. } => 'U',
            Self::Unclassified { .. } => 'K',
        }
    }

    /// What the mark means, for legends.
    pub fn meaning(&self) -> &'static str {
        match self {
            Self::Declared => "declared: nothing of the stack was built, it is what the user says of a cloud",
            Self::EmulatedCpu => "emulated CPU: shapes and ratios hold, absolute CPU-bound numbers do not",
            Self::CpuBound { .. } => "CPU-bound: a machine's CPUs were busy over 70 % of the time",
            Self::Cached { .. } => "from memory: some of the data never reached the medium",
            Self::Inconsistent { .. } => "inconsistent: a conservation check failed",
            Self::Suspended { .. } => "suspended: this machine was asleep during part of the measurement",
            Self::NotSteady { .. } => {
                "not steady: throughput had not settled, or the run was too short to tell"
            }
            Self::EventsDropped { .. } => "events dropped: counts of a layer are lower bounds",
            Self::Unmatched { .. } => {
                "unmatched: over 1 % of the requests could not be joined with those above or below"
            }
            Self::Unclassified { .. } => {
                "not classified: the purpose of over 2 % of a layer's bytes is not known"
            }
        }
    }

    /// What happened in this cell.
    pub fn detail(&self) -> String {
        match self {
            Self::EmulatedCpu => "the CPU was emulated".to_owned(),
            Self::Declared => {
                "a manager started the instance: the stack is what the user says of its cloud, and nothing of it was built".to_owned()
            }
            Self::CpuBound { machine, busy, modelled } => {
                let which = modelled
                    .map(|speed| format!(" (modelled: {} MIPS, one, no caches)", speed.mips()))
                    .unwrap_or_default();
                format!("the CPUs of the {machine} were busy {} of the time{which}", units::percent(*busy))
            }
            Self::Cached { reason } | Self::Inconsistent { reason } | Self::NotSteady { reason } => {
                reason.clone()
            }
            Self::Suspended { seconds } => format!("this machine was suspended for {seconds:.1} s meanwhile"),
            Self::EventsDropped { layer, events } => format!("the trace of {layer} lost {events} events"),
            Self::Unmatched { share } => {
                let share = units::share(*share);
                format!("{share} of the requests could not be joined with those above or below")
            }
            Self::Unclassified { layer, share } => {
                format!("what {} of the bytes at {layer} are for is not known", units::share(*share))
            }
        }
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
