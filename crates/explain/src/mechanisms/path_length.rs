//! The processor executes more, or fewer, instructions for an operation, and the medium waits meanwhile.

use nestor_results::Executor;

use super::Mechanism;
use crate::advice::Proposal;
use crate::case::{Case, Left, finding};
use crate::evidence::{Evidence, Part};
use crate::finding::{Finding, MechanismName};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::PathLength,
    summary: "an operation takes more or fewer instructions on its way through programs and kernels",
    acts_in: |_| true,
    find,
};

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    if !case.here.is_counted() || case.baseline.is_some_and(|baseline| !baseline.is_counted()) {
        return None;
    }
    let more = case.more(Evidence::instructions_per_operation);
    // What is executed while the medium works takes no time of its own.
    let effect = left.claim(Part::Idle, case.more(Evidence::execution_ns_per_operation));
    if effect == 0.0 {
        return None;
    }
    let more_of = |executor: Executor| case.more(|e| e.instructions_of(executor));
    let most =
        Executor::ALL.into_iter().max_by(|a, b| (more_of(*a) * more).total_cmp(&(more_of(*b) * more)))?;
    let than = if case.baseline.is_some() {
        if more < 0.0 {
            " fewer instructions than in the baseline"
        } else {
            " more instructions than in the baseline"
        }
    } else {
        " instructions"
    };
    let words = format!(
        "an operation takes {:.0} thousand{than}, {:.0} thousand of them in the {} (one modelled processor \
         of {} MIPS, without caches)",
        more.abs() / 1e3,
        more_of(most).abs() / 1e3,
        most.name(),
        case.here.processor.mips()
    );
    let mut found = finding(MechanismName::PathLength, most.name(), effect, words);
    let numbers = Executor::ALL.map(|executor| {
        let what = format!("instructions of the {}", executor.name());
        case.number(&what, "per operation", |e| e.instructions_of(executor))
    });
    found.numbers =
        numbers.into_iter().filter(|n| n.here > 0.0 || n.baseline.is_some_and(|b| b > 0.0)).collect();
    found
        .numbers
        .push(case.number("idle time of the medium", "us per operation", |e| e.part_ns(Part::Idle) / 1e3));
    found.advice = case.advice(&[
        Proposal::general("fewer and larger requests"),
        Proposal::in_stacks("fewer layers", |stack| stack.layers().len() > 1),
        Proposal::general("a faster processor, on which the same instructions take less time"),
    ]);
    Some(found)
}
