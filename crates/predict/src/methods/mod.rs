//! The methods, each in a file of its own.

mod alike;
pub(crate) mod learnt;
mod mechanisms;
mod per_request;
mod queueing;
mod ratio;
mod transaction;

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
    /// Its name in tables.
    pub name: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// A number, or what it lacks.
    pub predict: fn(&Question, &Evidence, &Knowledge) -> Result<Predicted, Missing>,
}

/// All of them.
pub const METHODS: &[Method] = &[
    Method {
        name: "ratio", source: "surfaces of both stacks, §4 of the ESX study", predict: ratio::predict
    },
    Method {
        name: "transaction",
        source: "time of a transaction from the model load, §5 of the ESX study",
        predict: transaction::predict,
    },
    Method {
        name: "queueing",
        source: "workers that think and wait for the disk, as a closed network",
        predict: queueing::predict,
    },
    Method {
        name: "per-request",
        source: "what the stack adds to each request and each byte",
        predict: per_request::predict,
    },
    Method {
        name: Learner::Mechanisms.name(),
        source: "processor work, disk time and flushes of each layer, as workers wait for them; the rest is learnt",
        predict: mechanisms::predict,
    },
    Method {
        name: Learner::Rates.name(),
        source: "every cell of the store; stacks are alike if their layers are",
        predict: learnt::predict,
    },
    Method {
        name: "alike",
        source: "the rate on the stack with most parts in common",
        predict: alike::predict,
    },
];

/// The command that measures a surface of a stack.
pub fn measure_surface(evidence: &Evidence, stack: &str, depth: Option<u32>) -> String {
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
