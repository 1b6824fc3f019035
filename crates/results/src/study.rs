//! A study: which stacks under which workloads, against which baseline, how often.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nestor_statistics::sequential::StopRule;
use nestor_workload::LifeCycle;
use serde::{Deserialize, Serialize};

use crate::claims::{Claim, FigureQuery, FindingQuery};
use crate::record::sha256_hex;
use crate::{TraceMode, WrittenPlace, WrittenStack, WrittenWorkload};

/// A study as read from its file, with everything expanded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Short name, as in results: letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The stacks of all parts in the file's order, canonical, each once; baselines that the file did not name come last.
    pub stacks: Vec<WrittenStack>,
    /// The stack that each is compared with; a baseline is its own.
    pub baselines: BTreeMap<WrittenStack, WrittenStack>,
    /// The workloads of all parts in the file's order, canonical, each once.
    pub workloads: Vec<WrittenWorkload>,
    /// How many blocks, which is how many fresh stacks each cell gets; of the first part, where there are several.
    pub replications: u32,
    /// What decides the order of the cells.
    pub seed: u64,
    /// When to stop although not everything has run.
    pub budget: Option<Duration>,
    /// Whether the baselines run at both ends of each block; `None` lets [`Study::plan`](crate::Study::plan) decide.
    pub sentinels: Option<bool>,
    /// The baselines that run at both ends where any do; all of them if none is named.
    #[serde(default)]
    pub sentinel_stacks: BTreeSet<WrittenStack>,
    /// How much is recorded.
    #[serde(default)]
    pub trace: TraceMode,
    /// Whether each traced cell is run untraced as well, to know what recording costs.
    #[serde(default)]
    pub trace_cost: bool,
    /// The products of stacks and workloads that make up the study; empty for one of all stacks and all workloads.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// When a comparison has enough blocks; without it every cell gets its replications.
    #[serde(default)]
    pub stop: Option<StopRule>,
    /// Up to which block comparisons were looked at before, where that was asked for (`-n 12`); the looks that were made count for
    /// the confidence of an interval also when fewer blocks are asked for later.
    #[serde(default)]
    pub looked_until: Option<u32>,
    /// A rule that is not followed; the study reports at its end what it would have saved.
    #[serde(default)]
    pub stop_not_followed: Option<StopRule>,
    /// Which of the sizes that the file offers.
    #[serde(default)]
    pub scale: Option<String>,
    /// What is asked of the results.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// What is drawn of them.
    #[serde(default)]
    pub figures: Vec<FigureQuery>,
    /// What is told of them in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<FindingQuery>,
    /// What the files hold that its workloads name, as [`Study::note_files`] found them: SHA-256 by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// What its cells record, as [`Study::note_recording`] found it; empty in studies that were begun before it was noted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recording: Vec<NotedRecording>,
    /// Runs that were saved before, with which all its stacks are compared, in place of a stack's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<SavedBaseline>,
    /// Remarks on its workloads for the user, before it runs. Not stored.
    #[serde(skip)]
    pub remarks: Vec<String>,
}

/// Runs that were saved under a name to be compared with later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedBaseline {
    /// The name.
    pub name: String,
    /// The ids of its runs, which are the same in every results file.
    pub runs: Vec<String>,
}

/// Stacks × workloads with their own number of blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The stacks, canonical.
    pub stacks: Vec<WrittenStack>,
    /// The workloads, canonical.
    pub workloads: Vec<WrittenWorkload>,
    /// How many fresh stacks each cell gets.
    pub replications: u32,
    /// How much is recorded; `None` as the study says.
    pub trace: Option<TraceMode>,
    /// Whether each traced cell is run untraced as well.
    pub trace_cost: bool,
    /// Whether its cells are compared with nothing: no baseline runs for them, and they are recorded as the part says, whatever others
    /// under the same workload record. No other part has these cells.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
    /// Whether the study goes without it where its stacks cannot run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Why the study goes without it; its results, if there are some from elsewhere, still count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

impl Study {
    /// Most instances of one image that any of its workloads has at the same time; 1 if none has several.
    pub fn most_instances(&self) -> u32 {
        self.lives().map(|life| life.count).max().unwrap_or(1)
    }

    /// Most nodes that these are on; 1 if none is on several.
    pub fn most_nodes(&self) -> u32 {
        self.lives().map(|life| life.nodes).max().unwrap_or(1)
    }

    /// The stacks of which a cell is run: those of parts that are left out are not.
    pub fn run_stacks(&self) -> impl Iterator<Item = &WrittenStack> {
        let is_run = |stack: &&WrittenStack| self.workloads.iter().any(|workload| self.runs(stack, workload));
        self.stacks.iter().filter(is_run)
    }

    /// The workloads of which a cell is run.
    pub fn run_workloads(&self) -> impl Iterator<Item = &WrittenWorkload> {
        let is_run = |workload: &&WrittenWorkload| self.stacks.iter().any(|stack| self.runs(stack, workload));
        self.workloads.iter().filter(is_run)
    }

    fn lives(&self) -> impl Iterator<Item = LifeCycle> {
        self.workloads.iter().filter_map(|workload| workload.value()?.life())
    }
}

impl Part {
    /// The cells that it has itself.
    pub fn cells(&self) -> impl Iterator<Item = (&WrittenStack, &WrittenWorkload)> {
        self.stacks.iter().flat_map(|stack| self.workloads.iter().map(move |workload| (stack, workload)))
    }

    /// Whether its cells are run.
    pub fn is_run(&self) -> bool {
        self.left_out.is_none()
    }

    /// Whether it has this cell itself; a baseline runs for others, too.
    pub fn holds(&self, stack: &WrittenStack, workload: &WrittenWorkload) -> bool {
        self.stacks.contains(stack) && self.workloads.contains(workload)
    }
}

/// What is noted of the recording of a study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NotedRecording {
    /// Of a part, where all cells of all parts are recorded alike. Studies that were begun before cells were noted have it of parts that
    /// differ, too.
    OfPart(TraceMode),
    /// Of a cell.
    OfCell {
        /// Its stack.
        stack: WrittenStack,
        /// Its workload.
        workload: WrittenWorkload,
        /// How much is recorded.
        trace: TraceMode,
        /// Whether it is compared with nothing.
        apart: bool,
    },
}

/// What applies to a cell; if several parts contain it, the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRule {
    /// How many fresh stacks.
    pub replications: u32,
    /// How much is recorded.
    pub trace: TraceMode,
    /// Whether it is run untraced as well.
    pub untraced_twin: bool,
}

impl Study {
    /// A study of stacks × workloads that compares each stack with the first, one block, everything recorded.
    pub fn new(
        name: impl Into<String>,
        title: impl Into<String>,
        stacks: Vec<WrittenStack>,
        workloads: Vec<WrittenWorkload>,
    ) -> Self {
        let baseline = stacks.first().cloned().unwrap_or_else(|| "".into());
        Self {
            name: name.into(),
            title: title.into(),
            baselines: stacks.iter().map(|stack| (stack.clone(), baseline.clone())).collect(),
            stacks,
            workloads,
            replications: 1,
            seed: 1,
            budget: None,
            sentinels: Some(false),
            sentinel_stacks: BTreeSet::new(),
            trace: TraceMode::Full,
            trace_cost: false,
            parts: Vec::new(),
            stop: None,
            looked_until: None,
            stop_not_followed: None,
            scale: None,
            claims: Vec::new(),
            figures: Vec::new(),
            findings: Vec::new(),
            files: BTreeMap::new(),
            recording: Vec::new(),
            against: None,
            remarks: Vec::new(),
        }
    }

    /// The baseline of a stack.
    pub fn baseline_of<'a>(&'a self, stack: &'a WrittenStack) -> &'a WrittenStack {
        self.baselines.get(stack).unwrap_or(stack)
    }

    /// Whether a stack is a baseline.
    pub fn is_baseline(&self, stack: &WrittenStack) -> bool {
        self.baseline_of(stack) == stack
    }

    /// The baseline that a cell is compared with; `None` of a baseline itself and of what is compared with nothing.
    pub fn compared_with(&self, stack: &str, workload: &WrittenWorkload) -> Option<&WrittenStack> {
        let (stack, baseline) = self.baselines.get_key_value(stack)?;
        (baseline != stack && !self.is_apart(stack, workload)).then_some(baseline)
    }

    /// Whether the study has this cell.
    pub fn holds(&self, stack: &WrittenStack, workload: &WrittenWorkload) -> bool {
        self.rule(stack, workload).is_some()
    }

    /// What applies to a cell; `None` if the study does not contain it. A baseline runs wherever a stack that is
    /// compared with it runs, and as often; under one workload it and all that is compared with it are recorded alike.
    pub fn rule(&self, stack: &WrittenStack, workload: &WrittenWorkload) -> Option<CellRule> {
        if self.parts.is_empty() {
            let held = self.stacks.contains(stack) && self.workloads.contains(workload);
            let untraced_twin = self.trace_cost && self.trace.records();
            return held.then_some(CellRule {
                replications: self.replications,
                trace: self.trace,
                untraced_twin,
            });
        }
        self.rule_of(|_| true, stack, workload)
    }

    /// What applies to a cell that is run: parts that are left out ask for no blocks. It is recorded as if nothing were left out.
    pub(crate) fn rule_to_run(&self, stack: &WrittenStack, workload: &WrittenWorkload) -> Option<CellRule> {
        let whole = self.rule(stack, workload)?;
        if self.parts.iter().all(Part::is_run) {
            return Some(whole);
        }
        Some(CellRule { trace: whole.trace, ..self.rule_of(Part::is_run, stack, workload)? })
    }

    /// Whether the study runs this cell: not one that only parts have that are left out.
    pub fn runs(&self, stack: &WrittenStack, workload: &WrittenWorkload) -> bool {
        self.rule_to_run(stack, workload).is_some()
    }

    fn rule_of(
        &self,
        counts: impl Fn(&Part) -> bool,
        stack: &WrittenStack,
        workload: &WrittenWorkload,
    ) -> Option<CellRule> {
        if let Some(part) = self.apart(stack, workload) {
            if !counts(part) {
                return None;
            }
            let trace = part.trace.unwrap_or(self.trace);
            let untraced_twin = (part.trace_cost || self.trace_cost) && trace.records();
            return Some(CellRule { replications: part.replications, trace, untraced_twin });
        }
        let baseline = self.baseline_of(stack);
        let mut rule: Option<CellRule> = None;
        // What is compared is recorded alike, or the cost of recording would be part of the difference.
        let mut trace = None;
        for part in self.parts.iter().filter(|p| counts(p) && !p.apart && p.workloads.contains(workload)) {
            if part.stacks.iter().any(|s| self.baseline_of(s) == baseline) {
                let here = part.trace.unwrap_or(self.trace);
                // The variants are ordered from everything to nothing.
                trace = Some(trace.map_or(here, |other: TraceMode| other.min(here)));
            }
            let itself = part.stacks.contains(stack);
            if !itself && self.compared_in(part, stack, workload).is_none() {
                continue;
            }
            let untraced_twin = (part.trace_cost || self.trace_cost) && itself;
            rule = Some(match rule {
                None => CellRule { replications: part.replications, trace: self.trace, untraced_twin },
                Some(other) => CellRule {
                    replications: other.replications.max(part.replications),
                    untraced_twin: other.untraced_twin || untraced_twin,
                    ..other
                },
            });
        }
        let trace = trace.unwrap_or(self.trace);
        rule.map(|r| CellRule { trace, untraced_twin: r.untraced_twin && trace.records(), ..r })
    }

    /// A stack of this part that the cell runs for as its baseline.
    pub(crate) fn compared_in<'a>(
        &self,
        part: &'a Part,
        stack: &WrittenStack,
        workload: &WrittenWorkload,
    ) -> Option<&'a WrittenStack> {
        let is_there = !part.apart && self.is_baseline(stack) && part.workloads.contains(workload);
        part.stacks.iter().find(|other| is_there && self.baseline_of(other) == stack)
    }

    /// Whether a cell is compared with nothing.
    pub fn is_apart(&self, stack: &WrittenStack, workload: &WrittenWorkload) -> bool {
        self.apart(stack, workload).is_some()
    }

    /// The part of a cell that is compared with nothing.
    pub fn apart(&self, stack: &WrittenStack, workload: &WrittenWorkload) -> Option<&Part> {
        self.parts.iter().find(|part| part.apart && part.holds(stack, workload))
    }

    /// What each part records, in their order: what was noted before cells were.
    pub fn recording_of_parts(&self) -> Vec<NotedRecording> {
        let modes: Vec<TraceMode> = match self.parts.as_slice() {
            [] => vec![self.trace],
            parts => parts.iter().map(|part| part.trace.unwrap_or(self.trace)).collect(),
        };
        modes.into_iter().map(NotedRecording::OfPart).collect()
    }

    /// What its parts record if that is one thing, else what each cell does: parts have the same modes also when they exchange cells.
    fn recording_of_cells(&self) -> Vec<NotedRecording> {
        let of_parts = self.recording_of_parts();
        let has_apart = self.parts.iter().any(|part| part.apart);
        if !has_apart && of_parts.iter().all(|mode| *mode == of_parts[0]) {
            return of_parts;
        }
        let of_stack = |stack| self.workloads.iter().filter_map(move |workload| self.noted(stack, workload));
        self.stacks.iter().flat_map(of_stack).collect()
    }

    fn noted(&self, stack: &WrittenStack, workload: &WrittenWorkload) -> Option<NotedRecording> {
        let trace = self.rule(stack, workload)?.trace;
        let apart = self.is_apart(stack, workload);
        Some(NotedRecording::OfCell { stack: stack.clone(), workload: workload.clone(), trace, apart })
    }

    /// Notes what the cells record, so that it is part of what identifies the results: cells that are recorded otherwise are other cells.
    pub fn note_recording(&mut self) {
        self.recording = self.recording_of_cells();
    }

    /// Whether both record the same, noted or not.
    pub fn records_as(&self, other: &Self) -> bool {
        self.recording_of_cells() == other.recording_of_cells()
    }

    /// Whether any cell is run untraced as well.
    pub fn measures_trace_cost(&self) -> bool {
        (self.trace_cost && self.trace.records()) || self.parts.iter().any(|p| p.trace_cost)
    }

    /// How many blocks there can be.
    pub fn most_blocks(&self) -> u32 {
        let replications = self.parts.iter().map(|p| p.replications).max().unwrap_or(self.replications);
        replications.max(1)
    }

    /// What identifies results that may be put together: 16 hexadecimal digits.
    ///
    /// Covers the stacks, workloads, baselines and seed, what the noted files hold, what is noted of the recording, and the `ground` they
    /// ran on (`emulated`, `this`, `ssh:HOST`). It leaves out the title, the number of replications, the budget and the sentinels,
    /// so that a study can be continued with more blocks or more time; and the claims and figures, which only ask the results.
    pub fn hash(&self, ground: &WrittenPlace) -> String {
        let identity = (&self.stacks, &self.baselines, &self.workloads, self.seed, ground);
        // Of what is not noted it is what it was before that was noted: studies that were begun then can be gone on with.
        let text = match (self.files.is_empty(), self.recording.is_empty()) {
            (true, true) => serde_json::to_string(&identity),
            (false, true) => serde_json::to_string(&(identity, &self.files)),
            (_, false) => serde_json::to_string(&(identity, &self.files, &self.recording)),
        };
        let text = text.expect("texts and whole numbers have a JSON form");
        sha256_hex(text.as_bytes())[..16].to_owned()
    }
}
