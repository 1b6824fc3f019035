//! The hypervisor's processor sets the pace.

use nestor_results::checks::CPU_BOUND_ABOVE;
use nestor_text::units;

use super::Mechanism;
use crate::advice::{Proposal, is_of_busiest_machine};
use crate::case::{Case, Left, finding};
use crate::evidence::Part;
use crate::finding::{Finding, MechanismName};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::CpuBound,
    summary: "a machine's processors are busy while the medium is idle",
    acts_in: |_| true,
    find,
};

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let (machine, busy) = case.here.busiest_machine()?;
    let idle = left.part(Part::Idle);
    if *busy < CPU_BOUND_ABOVE || idle <= 0.0 {
        return None;
    }
    let effect = left.claim_all(Part::Idle);
    let words = format!(
        "the processors of the {machine} are busy {} of the time and the medium only {}",
        units::percent(*busy),
        units::percent(1.0 - case.here.part_ns(Part::Idle) / case.here.time_per_operation_ns().max(1.0))
    );
    let mut found = finding(MechanismName::CpuBound, &machine.to_string(), effect, words);
    found.numbers = vec![
        case.number("busiest processors", "%", |e| e.busiest_machine().map_or(0.0, |(_, busy)| busy * 100.0)),
        case.number("idle time of the medium", "us per operation", |e| e.part_ns(Part::Idle) / 1e3),
    ];
    found.advice = case.advice(&[
        Proposal::of_guest("an iothread (iothread=on)", "iothread", "on"),
        Proposal::more("more processors (cpus=)", is_of_busiest_machine, "cpus"),
        Proposal::general("fewer and larger requests; an emulated processor says nothing about a real one"),
    ]);
    Some(found)
}
