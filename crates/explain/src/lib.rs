//! Why a cell is slower or faster than its baseline: mechanisms, each with its numbers and the requests that prove it.
//!
//! The time of an operation of the application is taken apart at the lowest level, which all layers share
//! ([`Part`]): data, journals, metadata, flushes, idle. The difference to a baseline has the same parts, and each
//! mechanism claims what it can prove of them, in the order of [`mechanisms::MECHANISMS`]; what no mechanism claims is
//! reported as unexplained. So no nanosecond is explained twice, and none is lost: see [`Account`]. Without a baseline the
//! whole time is taken apart.

mod account;
mod advice;
mod case;
pub mod equations;
mod evidence;
mod explain;
mod finding;
pub mod mechanisms;
mod network;
mod proof;
mod records;
mod text;

pub use account::{Account, Holder, Line, PartRow};
pub use case::{Case, Left};
pub use equations::{Equations, equations, equations_text};
pub use evidence::{ArrayEvidence, Edge, Evidence, ImageEvidence, Joined, Part, Placed, Volume};
pub use explain::{NAMED_FROM, explain};
pub use finding::{Explanation, Finding, MechanismName, Number, Proof};
pub use network::{CallEvidence, LinkFigures, NetworkEvidence};
pub use text::explanation_text;
