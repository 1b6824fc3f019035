//! Which stack to take for a workload, how sure that is, and what it costs: pure, from what others measured ([`evidence`]).
//!
//! A [`Space`] is what may be chosen: levels of a few factors. A short design (`nestor_statistics::design`) says which of its
//! stacks to measure, [`rank`] puts measured and predicted ones in order, and a [`Price`] says, from traced flushes, what a
//! power cut loses. [`paste`] writes a stack as others' tools want it, [`settle`] holds what practitioners do not agree on
//! against measurements, [`propagate`] says which way an image should come to its node.

pub mod advice;
pub mod evidence;
mod factors;
mod levels;
mod local;
pub mod nas;
mod numbers;
mod observation;
pub mod paste;
mod plan;
mod price;
pub mod propagate;
mod ranking;
pub mod settle;
mod space;
pub mod text;

pub use advice::{Advice, Confirmation, Recommendation, candidate};
pub use factors::{Factor, FactorName, HeldFixed};
pub use levels::read_levels;
pub use local::{DEVICE_FORMAT, cache_mode, machine_with};
pub use observation::Observation;
pub use plan::{NoPlan, ScreeningPlan, Time, plan};
pub use price::{FLUSH_PROBE, FlushTrace, Flusher, Price, PriceKind, Promise, Reach, best_trace, price};
pub use ranking::{Estimate, FactorEffect, FitSummary, Ranked, Ranking, rank};
pub use space::{Space, SpaceError};
