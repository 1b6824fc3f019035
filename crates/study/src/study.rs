//! A study: which stacks under which workloads, against which baseline, how often.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::TraceMode;
use crate::record::sha256_hex;

/// A study as read from its file, with everything expanded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Short name, as in results: letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The stacks in the file's order, canonical, each once; baselines that the file did not name come last.
    pub stacks: Vec<String>,
    /// The stack that each is compared with; a baseline is its own.
    pub baselines: BTreeMap<String, String>,
    /// The workloads in the file's order, canonical, each once.
    pub workloads: Vec<String>,
    /// How many blocks, which is how many fresh stacks each cell gets.
    pub replications: u32,
    /// What decides the order of the cells.
    pub seed: u64,
    /// When to stop although not everything has run.
    pub budget: Option<Duration>,
    /// Whether the baseline runs at both ends of each block; `None` lets [`Study::plan`](crate::Study::plan) decide.
    pub sentinels: Option<bool>,
    /// How much is recorded.
    #[serde(default)]
    pub trace: TraceMode,
    /// Whether each traced cell is run untraced as well, to know what recording costs.
    #[serde(default)]
    pub trace_cost: bool,
}

impl Study {
    /// The baseline of a stack.
    pub fn baseline_of<'a>(&'a self, stack: &'a str) -> &'a str {
        self.baselines.get(stack).map_or(stack, String::as_str)
    }

    /// Whether a stack is a baseline.
    pub fn is_baseline(&self, stack: &str) -> bool {
        self.baseline_of(stack) == stack
    }

    /// What identifies results that may be put together: 16 hexadecimal digits.
    ///
    /// Covers the stacks, workloads, baselines and seed, and the `ground` they ran on (`emulated`, `this`,
    /// `ssh:HOST`). It leaves out the title, the number of replications, the budget, the sentinels and what is
    /// recorded, so that a study can be continued with more blocks or more time.
    pub fn hash(&self, ground: &str) -> String {
        let identity = (&self.stacks, &self.baselines, &self.workloads, self.seed, ground);
        let text = serde_json::to_string(&identity).expect("texts and whole numbers have a JSON form");
        sha256_hex(text.as_bytes())[..16].to_owned()
    }
}
