//! Which way an image should come to its node: copied by which protocol, or left at the repository as an overlay.
//!
//! All numbers are of lives of instances that were measured over a link of the rate that is asked for. The time of a transfer is a straight
//! line over the image's size, and what comes after it one over the bytes that the instance reads. What many instances at once take is
//! bounded by what one of them asks of each resource ([`AtOnce`]).

mod answer;
mod at_once;
mod cross_over;
mod lines;
mod missing;
mod observed;
#[cfg(test)]
pub(crate) mod tests;
mod way;

pub use answer::{Choice, Compared, PropagationAdvice, Question, WayAnswer, propagation_advice};
pub use at_once::{AtOnce, Bottleneck, Estimate};
pub use cross_over::{CrossOver, Earlier};
pub use lines::MeasuredRange;
pub use missing::{Lack, Missing, NoPropagation};
pub use observed::{ObservedLife, Reads, Setup, Taken, observed_life};
pub use way::{ReadsThen, RepositoryLoss, Way};
