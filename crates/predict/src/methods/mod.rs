//! The methods, each in a file of its own.

mod alike;
pub(crate) mod learnt;
mod mechanisms;
mod per_request;
mod queueing;
mod ratio;
mod transaction;

use std::fmt;

use nestor_results::WrittenStack;
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, Question};
use crate::learnt_model::Knowledge;
use crate::missing::Missing;
use crate::trust::Learner;

/// A prediction of one method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// In the unit of the question's reference.
    pub rate: f64,
    /// Deviation of its logarithm as the method itself sees it: from what it was given, not from what it leaves out.
    pub deviation: f64,
    /// How it came about, in short sentences.
    pub steps: Vec<String>,
}

/// A way to predict.
pub struct Method {
    /// Which.
    pub id: MethodId,
    /// Where it comes from.
    pub source: &'static str,
    /// A number, or what it lacks.
    pub predict: fn(&Question, &Evidence, &Knowledge) -> Result<Predicted, Missing>,
}

/// Makes [`MethodId`] and [`METHODS`] of one list, so that a method is one line there: what tells it apart, which kind of learner it is if
/// it learns from every cell, its file, its name in tables and where it comes from.
macro_rules! methods {
    ($($id:ident($learner:expr), $file:ident, $name:literal, $source:literal;)+) => {
        /// Which method. Files and JSON have its identifier in kebab case.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum MethodId {
            $(#[doc = $source] $id),+
        }

        impl MethodId {
            /// What it is among those that learn from every cell; `None` for one that does not.
            pub(crate) const fn learner(self) -> Option<Learner> {
                match self {
                    $(Self::$id => $learner),+
                }
            }
        }

        impl fmt::Display for MethodId {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $(Self::$id => $name),+
                })
            }
        }

        /// All of them.
        pub const METHODS: &[Method] =
            &[$(Method { id: MethodId::$id, source: $source, predict: $file::predict }),+];
    };
}

// The registry: METHODS and MethodId are made of these lines.
methods! {
    Ratio(None), ratio, "ratio", "surfaces of both stacks, §4 of the ESX study";
    Transaction(None), transaction, "transaction", "time of a transaction from the model load, §5 of the ESX study";
    Queueing(None), queueing, "queueing", "workers that think and wait for the disk, as a closed network";
    PerRequest(None), per_request, "per-request", "what the stack adds to each request and each byte";
    Mechanisms(Some(Learner::Mechanisms)), mechanisms, "mechanisms",
        "processor work, disk time and flushes of each layer, as workers wait for them; the rest is learnt";
    Learnt(Some(Learner::Rates)), learnt, "learnt", "every cell of the store; stacks are alike if their layers are";
    Alike(Some(Learner::Alike)), alike, "alike", "the rate on the stack with most parts in common";
}

/// The command that measures a surface of a stack.
pub fn measure_surface(evidence: &Evidence, stack: &WrittenStack, depth: Option<u32>) -> String {
    let depth = depth.map(|depth| format!(":depth={depth}")).unwrap_or_default();
    evidence.command("run", &format!("'{stack}' iometer:surface:points=25:runtime=2{depth}"))
}

/// The command that measures many cells. The stacks of the published study are on modelled disks, which are not everywhere.
pub fn measure_many(evidence: &Evidence) -> String {
    match evidence.on {
        None => "nestor replicate nested-fs --scale quick".to_owned(),
        Some(_) => evidence.command("study", "FILE"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_learner_is_one_method() {
        let learners: Vec<Learner> = METHODS.iter().filter_map(|method| method.id.learner()).collect();
        assert_eq!(learners.len(), Learner::ALL.len());
        assert_eq!(BTreeSet::from_iter(learners), BTreeSet::from(Learner::ALL));
    }
}
