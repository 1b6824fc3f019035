//! Claims: what a published study says, tested with queries on the results here.
//!
//! A study file has its claims and figures as queries ([`parse`]); [`judge`] and [`figures`] run them on the counted runs of one
//! study ([`evidence`]) and turn what they find into verdicts ([`verdict`]) and values.

mod changes;
mod check;
mod claim;
mod coverage;
pub(crate) mod draw;
mod effect_unit;
mod evidence;
mod figure;
mod finding;
mod functions;
mod judge;
mod kept;
mod limits;
mod missing;
mod parse;
mod query;
mod ratio;
mod run_facts;
mod searches;
mod size;
mod surfaces;
mod tally;
mod verdict;
mod why;

pub(crate) use check::check_queries;
pub use claim::{Claim, ClaimKind, ClaimPart, ClaimResult, Expected, Verdict};
pub use coverage::{Coverage, Covered};
pub use draw::figures;
pub use effect_unit::EffectUnit;
#[cfg(test)]
pub(crate) use evidence::{Evidence, TABLES};
pub use figure::{Better, Figure, FigureKind, FigureQuery, FigureRow, FigureX, SeriesLine};
pub use finding::{Finding, FindingQuery};
pub use judge::{Answers, answer_all, judge};
pub(crate) use parse::{parse_claims, parse_figures, parse_findings};
pub use tally::{Checked, Tally};
