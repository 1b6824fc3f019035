//! What is known of a cell, in the form that mechanisms ask for: sums over its runs.

use std::collections::BTreeMap;

use nestor_correlate::{Blame, Cause, Level, LevelKind, Origin, SampledTree, Spent};
use nestor_layout::Class;
use nestor_processor::ProcessorSpeed;
use nestor_results::{Executor, WrittenPlace, WrittenStack, WrittenWorkload};
use nestor_stack::{LayerRole, MachineName};
use nestor_statistics::LatencyHistogram;
use nestor_trace::LayerMetrics;
use serde::{Deserialize, Serialize};

use crate::advice::has_tables;
use crate::network::NetworkEvidence;

/// Operations and bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Volume {
    /// Operations or requests.
    pub count: f64,
    /// Their bytes.
    pub bytes: f64,
}

/// What an array asked its disks for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ArrayEvidence {
    /// Requests to the array.
    pub requests: f64,
    /// Requests to its disks.
    pub operations: f64,
    /// Of these, reads of old data or parity that writes needed.
    pub parity_reads: f64,
    /// From the arrival of those writes until all that they needed was read, summed up, ns.
    pub parity_wait_ns: f64,
}

/// What was seen at the lower edge of one layer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edge {
    /// The layer as written.
    pub layer: String,
    /// What it is for.
    pub role: LayerRole,
    /// The machine it runs in.
    pub machine: MachineName,
    /// Reads sent downwards.
    pub reads: Volume,
    /// Writes sent downwards.
    pub writes: Volume,
    /// Requests that the layer above made, reads and writes.
    pub queued: f64,
    /// Of those, merged into another.
    pub merged: f64,
    /// Flushes sent downwards.
    pub flushes: f64,
    /// Flushes that the layer above asked for.
    pub flushes_queued: f64,
    /// Sum of the times before requests were sent downwards, ns.
    pub waited_ns: f64,
    /// Sum of the times that they were below, ns.
    pub served_ns: f64,
    /// Length of the trace, ns.
    pub span_ns: f64,
    /// Of an array: what its disks did.
    pub array: ArrayEvidence,
}

/// How the requests of one level came from those above.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Joined {
    /// Kind of the level: `guest block`, `hypervisor`, `host block`, `medium`.
    pub kind: LevelKind,
    /// The layer.
    pub layer: String,
    /// Requests by origin.
    pub origins: BTreeMap<Origin, f64>,
    /// Requests of the level above that were answered without one here.
    pub absorbed: f64,
}

/// The requests of one level and where they begin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placed {
    /// Kind of the level.
    pub kind: LevelKind,
    /// The layer.
    pub layer: String,
    /// Its requests.
    pub requests: f64,
    /// Those of whole blocks that begin within one.
    pub misaligned: f64,
}

impl Placed {
    /// The misaligned ones as a share of all, 0 to 1.
    pub fn share(&self) -> f64 {
        self.misaligned / self.requests.max(1.0)
    }
}

/// The image files of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImageEvidence {
    /// Pieces of the image file on its file system, all runs together.
    pub extents: f64,
    /// Bytes that are allocated.
    pub allocated_bytes: f64,
    /// Tables of the image format that were read from, or written to, the image file.
    pub table_reads: f64,
    /// Clusters and tables that were allocated.
    pub allocations: f64,
}

/// Sums over the runs of one cell.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The stack.
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// Where it ran.
    pub ground: WrittenPlace,
    /// Numbers of the runs.
    pub runs: Vec<i64>,
    /// Operations per second of each run, with its block.
    pub rates: Vec<(u32, f64)>,
    /// Measured time, ns.
    pub elapsed_ns: f64,
    /// Reads of the application.
    pub reads: Volume,
    /// Writes of the application.
    pub writes: Volume,
    /// Its other operations: creations, flushes, and those of which it is not known which way they move data.
    pub others: Volume,
    /// Sum of the latencies of its operations, ns.
    pub latency_ns: f64,
    /// The edges, topmost first, without the application's.
    pub edges: Vec<Edge>,
    /// The joins, topmost first.
    pub joins: Vec<Joined>,
    /// The levels that were joined, topmost first.
    pub levels: Vec<Placed>,
    /// Where the time of the lowest level went.
    pub blame: Blame,
    /// The image files.
    pub image: Option<ImageEvidence>,
    /// What went over networks, topmost first.
    pub networks: Vec<NetworkEvidence>,
    /// Busy share of the processors of each machine, outermost first, mean over the runs.
    pub cpu_busy: Vec<(MachineName, f64)>,
    /// Instructions of each part of the stack for all operations, where they were counted.
    pub instructions: BTreeMap<Executor, f64>,
    /// Of the processor that executed them.
    pub processor: ProcessorSpeed,
    /// Operations of the runs in which they were counted.
    pub counted_operations: f64,
    /// Requests that were followed from top to bottom, with their runs and their levels.
    pub trees: Vec<(i64, Vec<Level>, SampledTree)>,
    /// What the runs' own marks and remarks say.
    pub doubts: Vec<String>,
}

/// Which part of the time: every moment is in one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Contents of files, asked for by the application.
    Data,
    /// Reads of data while the application itself does not read: the rest of blocks that are written in part.
    DataReadForWrite,
    /// Journal of the topmost file system.
    TopJournal,
    /// Its other metadata.
    TopMetadata,
    /// Journal of a file system below.
    HostJournal,
    /// Its other metadata.
    HostMetadata,
    /// Parts of the image file that no guest request asked for: the image format's tables.
    ImageFormat,
    /// Flushes.
    Flush,
    /// Nothing was under way at the lowest level.
    Idle,
    /// Less than nothing: the lowest level worked for longer than the application was measured, on what was written back
    /// afterwards or on several runs of it at once.
    Outside,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 10] = [
        Self::Data,
        Self::DataReadForWrite,
        Self::TopJournal,
        Self::TopMetadata,
        Self::HostJournal,
        Self::HostMetadata,
        Self::ImageFormat,
        Self::Flush,
        Self::Idle,
        Self::Outside,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::DataReadForWrite => "data read to be written",
            Self::TopJournal => "journal of the topmost file system",
            Self::TopMetadata => "metadata of the topmost file system",
            Self::HostJournal => "journal of a file system below",
            Self::HostMetadata => "metadata of a file system below",
            Self::ImageFormat => "tables of the image format",
            Self::Flush => "flushes",
            Self::Idle => "the medium idle",
            Self::Outside => "the medium busy after the measured time",
        }
    }

    /// The part that a cause belongs to. Of an image without tables of its own (`has_tables`), what no request above was found for is data
    /// all the same: read ahead, or written late.
    fn of(cause: &Cause, has_tables: bool) -> Self {
        let (top, bottom) = (cause.top(), cause.bottom());
        if bottom == Some(Class::Flush) {
            return Self::Flush;
        }
        if cause.is_own() {
            // The highest level that knows of it made it.
            return match cause.0.iter().copied().flatten().next() {
                Some(Class::Journal) => Self::HostJournal,
                Some(class) if class.is_metadata() => Self::HostMetadata,
                // Written in the image file without a request above.
                Some(class) if class.is_data() && has_tables => Self::ImageFormat,
                _ => Self::Data,
            };
        }
        match top {
            Some(Class::Journal) => Self::TopJournal,
            Some(class) if class.is_metadata() => Self::TopMetadata,
            _ => Self::Data,
        }
    }
}

impl Evidence {
    /// Operations of the application.
    pub fn operations(&self) -> f64 {
        self.reads.count + self.writes.count + self.others.count
    }

    /// A sum over the runs as a share of each operation of the application.
    pub fn per_operation(&self, sum: f64) -> f64 {
        sum / self.operations().max(1.0)
    }

    /// Flushes for each operation that the topmost layer asks for.
    pub fn flushes_at_top(&self) -> f64 {
        self.per_operation(self.edges.first().map_or(0.0, |edge| edge.flushes_queued.max(edge.flushes)))
    }

    /// Flushes for each operation that reach the medium.
    pub fn flushes_at_medium(&self) -> f64 {
        self.per_operation(self.lowest().map_or(0.0, |edge| edge.flushes))
    }

    /// Wall-clock time for each operation, ns.
    pub fn time_per_operation_ns(&self) -> f64 {
        self.per_operation(self.elapsed_ns)
    }

    /// Operations of the application under way at once, on average (Little's law).
    pub fn concurrency(&self) -> f64 {
        self.latency_ns / self.elapsed_ns.max(1.0)
    }

    /// Whether the application only writes.
    pub fn only_writes(&self) -> bool {
        self.reads.count == 0.0 && self.writes.count > 0.0
    }

    /// Whether the instructions of all operations were counted.
    pub fn is_counted(&self) -> bool {
        self.counted_operations > 0.0 && self.counted_operations == self.operations()
    }

    /// Instructions of one part for each operation.
    pub fn instructions_of(&self, executor: Executor) -> f64 {
        self.per_operation(self.instructions.get(&executor).copied().unwrap_or(0.0))
    }

    /// Time that they take the modelled processor for each operation, ns.
    pub fn execution_ns_per_operation(&self) -> f64 {
        self.processor.ns_of(self.instructions_per_operation())
    }

    /// Instructions of all parts for each operation.
    pub fn instructions_per_operation(&self) -> f64 {
        self.per_operation(self.instructions.values().sum())
    }

    /// The lowest edge with numbers.
    pub fn lowest(&self) -> Option<&Edge> {
        self.edges.last()
    }

    /// A sum over the networks for each operation.
    pub fn over_networks(&self, quantity: impl Fn(&NetworkEvidence) -> f64) -> f64 {
        self.per_operation(self.networks.iter().map(quantity).sum())
    }

    /// The part of the time that a cause belongs to.
    pub fn part_of(&self, cause: &Cause) -> Part {
        Part::of(cause, self.has_tables())
    }

    /// Whether an image of the stack has tables of its own; of a stack that is not known, whether any were used.
    fn has_tables(&self) -> bool {
        let were_used = || self.image.is_some_and(|image| image.table_reads + image.allocations > 0.0);
        self.stack.value().map_or_else(were_used, has_tables)
    }

    /// What the lowest level spent on a part of the time.
    pub fn spent_on(&self, part: Part) -> Spent {
        let has_tables = self.has_tables();
        self.spent(|cause| Part::of(cause, has_tables) == part)
    }

    /// What the lowest level spent on the causes for which `holds` says so.
    pub fn spent(&self, holds: impl Fn(&Cause) -> bool) -> Spent {
        let mut sum = Spent::default();
        for (_, spent) in self.blame.causes.iter().filter(|(cause, _)| holds(cause)) {
            add_spent(&mut sum, spent);
        }
        sum
    }

    /// Time for each operation that the lowest level spent on a part, ns.
    pub fn part_ns(&self, part: Part) -> f64 {
        let busy_ns = match part {
            Part::Idle => (self.elapsed_ns - self.busy_ns()).max(0.0),
            Part::Outside => (self.elapsed_ns - self.busy_ns()).min(0.0),
            Part::DataReadForWrite => self.reads_for_writes().read_busy_ns as f64,
            Part::Data => {
                let data = self.spent_on(Part::Data).busy_ns as f64;
                data - self.part_ns(Part::DataReadForWrite) * self.operations().max(1.0)
            }
            part => self.spent_on(part).busy_ns as f64,
        };
        self.per_operation(busy_ns)
    }

    /// The machine with the busiest processors, and their busy share.
    pub fn busiest_machine(&self) -> Option<&(MachineName, f64)> {
        self.cpu_busy.iter().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Time in which the lowest level was at work, over all its causes.
    fn busy_ns(&self) -> f64 {
        self.blame.causes.values().map(|spent| spent.busy_ns as f64).sum()
    }

    /// Reads of data under an application that only writes.
    pub fn reads_for_writes(&self) -> Spent {
        if !self.only_writes() {
            return Spent::default();
        }
        self.spent_on(Part::Data)
    }
}

impl Edge {
    /// Requests sent downwards, reads and writes.
    pub fn issued(&self) -> f64 {
        self.reads.count + self.writes.count
    }

    /// Mean bytes of a request; 0 without requests.
    pub fn mean_bytes(&self) -> f64 {
        (self.reads.bytes + self.writes.bytes) / self.issued().max(1.0)
    }

    /// Requests below this edge at once, on average.
    pub fn depth(&self) -> f64 {
        self.served_ns / self.span_ns.max(1.0)
    }

    /// Adds the numbers of one run.
    pub fn add(&mut self, metrics: &LayerMetrics) {
        for (volume, direction) in [(&mut self.reads, &metrics.read), (&mut self.writes, &metrics.write)] {
            volume.count += direction.issued as f64;
            volume.bytes += direction.issued_bytes as f64;
            self.queued += direction.queued as f64;
            self.merged += (direction.back_merges + direction.front_merges) as f64;
        }
        self.flushes += metrics.flushes as f64;
        self.flushes_queued += metrics.flushes_queued as f64;
        self.waited_ns += sum_ns(if metrics.q2d.is_some() { &metrics.q2d } else { &metrics.i2d });
        self.served_ns += sum_ns(&metrics.d2c);
        self.span_ns += metrics.span_s * 1e9;
        if let Some(members) = &metrics.members {
            self.array.requests += members.requests as f64;
            self.array.operations += members.operations as f64;
            self.array.parity_reads += members.parity_reads as f64;
            self.array.parity_wait_ns += members.parity_wait_ns as f64;
        }
    }
}

/// All times of a histogram together, ns.
pub(crate) fn sum_ns(histogram: &Option<LatencyHistogram>) -> f64 {
    histogram.as_ref().and_then(LatencyHistogram::summary).map_or(0.0, |s| s.mean_ns * s.count as f64)
}

/// Adds what one cause took to a sum.
pub fn add_spent(sum: &mut Spent, spent: &Spent) {
    sum.requests += spent.requests;
    sum.reads += spent.reads;
    sum.bytes += spent.bytes;
    sum.busy_ns += spent.busy_ns;
    sum.read_busy_ns += spent.read_busy_ns;
    sum.jumps += spent.jumps;
    sum.jump_bytes = sum.jump_bytes.saturating_add(spent.jump_bytes);
    sum.jump_busy_ns += spent.jump_busy_ns;
    sum.scattered += spent.scattered;
    sum.scattered_busy_ns += spent.scattered_busy_ns;
}
