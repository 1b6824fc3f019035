//! Studies: many cells in a random order, their results in one file, and comparisons with every caveat.

pub mod checks;
pub mod claims;
pub mod compare;
mod complaint;
mod dependencies;
mod environment;
mod estimate;
mod failure;
mod file;
mod flow;
pub mod gate;
mod life;
mod managed;
mod medium_profile;
mod named_files;
mod named_workload;
mod network;
mod numbers;
pub mod path_length;
pub mod physical;
mod plan;
pub mod record;
mod room;
mod run_levels;
mod sameness;
mod stopping;
pub mod store;
mod structure;
mod study;
mod trace_cost;
mod trace_mode;
mod written;

pub use claims::{
    Better, Claim, ClaimKind, ClaimPart, ClaimResult, Coverage, Covered, EffectUnit, Expected, Figure,
    FigureKind, FigureQuery, FigureRow, FigureX, SeriesLine, Tally, Verdict,
};
pub use compare::{
    BlockPair, CellSummary, Comparison, CountedMark, Doubt, Drift, Failure, LifeSample, LivesCompared,
    LivesSummary, Sample, SamplesCompared, StateSeconds, Told, Violation, compare, compare_samples,
    median_life, ratio_by_block, summarise,
};
pub use complaint::{Complaint, Complaints};
pub use dependencies::LaboratoryDigest;
pub use environment::{Environment, MachineRecord};
pub use estimate::{Effort, Estimator, PastCell, StudyEffort};
pub use failure::{CellFailure, FailureCause};
pub use file::StudyFileError;
pub use flow::LayerFlow;
pub use gate::{GateAnswer, GateMetric, GateRule};
pub use life::{BusiestResource, DiskUse, InstanceLife, LifeState, Resource, StateRecord};
pub use managed::{ManagedLife, ManagedState};
pub use medium_profile::{check_profiles, medium_profile};
pub use named_files::NamedFileError;
pub use named_workload::{NamedWorkload, WorkloadNameError, profile_named, read_profile, written_workloads};
pub use network::{NetworkRecord, rpc_version};
pub use numbers::{CellNumbers, RunNumbers, of_median_rate};
pub use path_length::{Executor, PathDifference, PathLength, path_differences, sum_of_parts};
pub use physical::{Physical, PhysicalVerdict};
pub use plan::{CellKey, NotRun, Plan, PlannedCell, budget_ended, duration_words, whole_minutes};
pub use record::{CellRecord, ImageRecord, LayerRecord, Mark, Measured, Outcome};
pub use room::{NoRoom, require_room};
pub use run_levels::RunLevels;
pub use sameness::{Fingerprint, Fingerprinting};
pub use stopping::{CellSample, Decisions, Saving};
pub use store::{
    Elsewhere, Known, KnownCell, KnownDemand, KnownLoad, KnownPlace, KnownStack, MergeReport, RunFilter,
    RunListing, SessionRecord, StackPart, Store, StoreError, StoredRun, StudyRecord, UnlikeRun, stack_parts,
};
pub use structure::{Quantity, StructuralDifference, structural_differences};
pub use study::{CellRule, NotedRecording, Part, SavedBaseline, Study};
pub use trace_cost::{TraceCost, trace_costs};
pub use trace_mode::TraceMode;
pub use written::{Written, WrittenPlace, WrittenStack, WrittenWorkload, written_stacks};

#[cfg(test)]
mod tests;
