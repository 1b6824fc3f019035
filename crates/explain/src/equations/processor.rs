//! What the processor executed, beside the times of requests.
//!
//! Instructions are counted by who executes them ([`Executor`]), not by request: a guest's kernel also copies to its page cache. So of a
//! side's time, at most what its executors executed was work, and at least the rest was waiting.

use std::collections::BTreeSet;

use nestor_results::Executor;
use nestor_stack::{Layer, MachineLabel, MachineName};
use serde::Serialize;

use super::Runs;
use super::answer::{NotKnown, Why};
use super::request::{RequestTime, Side};

/// What the modelled processor executed while the workload ran, of all runs together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessorTime {
    /// Time that was measured, ns.
    pub elapsed_ns: f64,
    /// Time that all instructions took, ns.
    pub executed_ns: f64,
    /// By who executed, from the application down.
    pub parts: Vec<Executed>,
}

/// What executes on one side of requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Executed {
    /// The sides: none of the application, which is above all requests; two of a paravirtualised domain, whose instructions are counted with
    /// those of dom0.
    pub sides: Vec<Side>,
    /// Who.
    pub executors: Vec<Executor>,
    /// Their instructions, all of them, whatever for.
    pub instructions: f64,
    /// The time that these take the modelled processor, ns.
    pub executed_ns: f64,
    /// Time of all requests on these sides together, ns; more than the measured time where many are under way at once.
    pub requests_ns: Option<u64>,
    /// The most of it in which instructions can have been executed for them, ns.
    pub executed_at_most_ns: Option<f64>,
    /// The rest: requests waited at least so long, ns.
    pub waited_at_least_ns: Option<f64>,
}

impl Executed {
    /// Whether these are the instructions of a domain and of dom0, which run in one mode of the processor.
    pub fn is_domain_with_dom0(&self) -> bool {
        self.sides.len() > 1
    }
}

impl ProcessorTime {
    /// Whether a domain and dom0 are counted together.
    pub fn is_domain_with_dom0(&self) -> bool {
        self.parts.iter().any(Executed::is_domain_with_dom0)
    }

    pub(super) fn of(runs: &Runs<'_>, requests: Option<&RequestTime>) -> Result<Self, NotKnown> {
        let evidence = &runs.evidence;
        if !evidence.is_counted() {
            return Err(NotKnown {
                why: Why::NotCounted,
                words: "the instructions of the run were not counted: they are in virtual time only, and of a run whose I/O takes \
                        longer than about a tenth of a second"
                    .to_owned(),
                mend: runs.measure_at("emulated:time=virtual", ""),
            });
        }
        runs.counted_apart()?;
        let counted = Counted::of(runs);
        let parts = counted.parts().iter().map(|(sides, who)| runs.executed(sides, who, requests)).collect();
        let executed_ns = evidence.processor.ns_of(evidence.instructions.values().sum());
        Ok(Self { elapsed_ns: evidence.elapsed_ns, executed_ns, parts })
    }
}

/// What the counts tell apart.
enum Counted {
    /// A guest, by the processor's mode for guests, and what is around it.
    GuestAndHost,
    /// A paravirtualised domain of Xen is among the machine around it: both run without that mode.
    DomainWithDom0,
    /// There is one machine.
    OneMachine,
}

impl Counted {
    fn of(runs: &Runs<'_>) -> Self {
        let stack = runs.evidence.stack.value();
        let without_mode = |layer: &Layer| layer.is_hypervisor() && !layer.uses_guest_mode();
        match () {
            () if runs.evidence.instructions.contains_key(&Executor::GuestKernel) => Self::GuestAndHost,
            () if stack.is_some_and(|stack| stack.layers().iter().any(without_mode)) => Self::DomainWithDom0,
            () => Self::OneMachine,
        }
    }

    /// The sides that are told apart, each with who executes there. A disk has a processor of its own.
    const fn parts(&self) -> &'static [(&'static [Side], &'static [Executor])] {
        const ABOVE: (&[Side], &[Executor]) = (&[], &[Executor::Application]);
        const DISK: (&[Side], &[Executor]) = (&[Side::Disk], &[]);
        match self {
            Self::GuestAndHost => &[
                ABOVE,
                (&[Side::FrontEnd], &[Executor::GuestKernel]),
                (&[Side::BackEnd], &[Executor::Hypervisor, Executor::HostKernel]),
                DISK,
            ],
            Self::DomainWithDom0 => {
                &[ABOVE, (&[Side::FrontEnd, Side::BackEnd], &[Executor::HostKernel]), DISK]
            }
            Self::OneMachine => &[ABOVE, (&[Side::FrontEnd], &[Executor::HostKernel]), DISK],
        }
    }
}

impl Runs<'_> {
    /// Whether each count is of one machine: only the mode of the processor tells them apart.
    fn counted_apart(&self) -> Result<(), NotKnown> {
        let levels = self.measured.iter().filter_map(|(_, measured)| measured.correlation.as_ref());
        let machines: BTreeSet<&MachineName> =
            levels.flat_map(|correlation| &correlation.levels).map(|level| &level.machine).collect();
        let inner = |machine: &&&MachineName| {
            matches!(machine, MachineName::Of(MachineLabel::Guest(_) | MachineLabel::Client(_)))
        };
        let several = machines.iter().filter(inner).count() > 1 || machines.iter().any(|one| one.is_client());
        if !several {
            return Ok(());
        }
        Err(NotKnown {
            why: Why::CountedTogether,
            words: "the instructions of several machines are counted together, so they are not told by front end and back end"
                .to_owned(),
            mend: "a stack of one guest in one host tells them apart".to_owned(),
        })
    }

    fn executed(
        &self,
        sides: &'static [Side],
        executors: &'static [Executor],
        requests: Option<&RequestTime>,
    ) -> Executed {
        let counted = |executor: &Executor| self.evidence.instructions.get(executor).copied().unwrap_or(0.0);
        let instructions: f64 = executors.iter().map(counted).sum();
        let executed_ns = self.evidence.processor.ns_of(instructions);
        let together = |of: &RequestTime| sides.iter().map(|side| of.together_ns(*side)).sum::<u64>();
        let requests_ns = requests.filter(|_| !sides.is_empty()).map(together);
        let at_most = requests_ns.map(|ns| executed_ns.min(ns as f64));
        Executed {
            sides: sides.to_vec(),
            executors: executors.to_vec(),
            instructions,
            executed_ns,
            requests_ns,
            executed_at_most_ns: at_most,
            waited_at_least_ns: requests_ns.zip(at_most).map(|(ns, at_most)| ns as f64 - at_most),
        }
    }
}
