//! Instructions of the modelled processor while the workload's I/O ran.

use nestor_processor::InstructionCounts;
use nestor_statistics::Ratio;
use nestor_statistics::summary::CONFIDENCE;
use nestor_workload::LoadResult;
use serde::{Deserialize, Serialize};

use crate::compare::{mean_of_values, ratio_by_block};
use crate::store::StoredRun;

/// Whose instructions they are. Only the mode of the processor tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Executor {
    /// Programs in the machine of the application; with guests, programs in any guest.
    Application,
    /// Kernels of guests.
    GuestKernel,
    /// Programs of the emulated host that runs guests: QEMU.
    Hypervisor,
    /// The emulated host's kernel, with its KVM.
    HostKernel,
}

impl Executor {
    /// In the order in which a write passes them.
    pub const ALL: [Self; 4] = [Self::Application, Self::GuestKernel, Self::Hypervisor, Self::HostKernel];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::GuestKernel => "guest kernel",
            Self::Hypervisor => "hypervisor",
            Self::HostKernel => "host kernel",
        }
    }

    /// How tables of results name it. The words are those of every version, whatever is shown.
    pub(crate) const fn stored(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::GuestKernel => "guest kernel",
            Self::Hypervisor => "hypervisor",
            Self::HostKernel => "host kernel",
        }
    }

    /// Reads what [`Self::stored`] writes.
    pub(crate) fn of_stored(words: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|executor| executor.stored() == words)
    }
}

/// Instructions between two moments while the workload's I/O ran. Their duration follows from the speed of the modelled
/// processor, if there was one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathLength {
    /// Of each part that the stack has, in the order in which a write passes them.
    pub instructions: Vec<(Executor, u64)>,
    /// Time between the moments, in the clock of the application's machine.
    pub window_ns: u64,
    /// Requests that the topmost block device, or calls that a client's network file system, has completed between them.
    pub requests: u64,
}

impl PathLength {
    /// From the counts; in a stack without guests, the programs of the host are the application.
    pub fn of(counted: InstructionCounts, has_guests: bool, window_ns: u64, requests: u64) -> Self {
        let InstructionCounts { host_user, host_kernel, guest_user, guest_kernel } = counted;
        let instructions = if has_guests {
            let counts = [guest_user, guest_kernel, host_user, host_kernel];
            Executor::ALL.into_iter().zip(counts).collect()
        } else {
            vec![(Executor::Application, host_user), (Executor::HostKernel, host_kernel)]
        };
        Self { instructions, window_ns, requests }
    }

    /// Instructions of each part for one operation of the application: those of a second over the operations of a second.
    ///
    /// Empty if nothing was done.
    pub fn per_operation(&self, load: &LoadResult) -> Vec<(Executor, f64)> {
        self.over(load.operations_per_second(), load.elapsed_ns)
    }

    /// Instructions of each part for one request, where `requests` were done in `elapsed_ns`.
    pub fn per_request(&self, requests: u64, elapsed_ns: u64) -> Vec<(Executor, f64)> {
        self.over(requests as f64 / (elapsed_ns.max(1) as f64 / 1e9), elapsed_ns)
    }

    /// A window that is longer than the measured time has no more operations than that has.
    fn over(&self, per_second: f64, elapsed_ns: u64) -> Vec<(Executor, f64)> {
        let divisor = per_second * self.window_ns.min(elapsed_ns) as f64 / 1e9;
        if divisor <= 0.0 {
            return Vec::new();
        }
        self.instructions.iter().map(|(part, count)| (*part, *count as f64 / divisor)).collect()
    }
}

/// Instructions of an operation in two cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathDifference {
    /// Whose; `None` of all together.
    pub executor: Option<Executor>,
    /// For one operation of the baseline, the mean over its runs; `None` where its stack has no such part.
    pub baseline: Option<f64>,
    /// For one operation of the candidate.
    pub candidate: Option<f64>,
    /// Candidate over baseline, where both are above zero, within blocks, with an interval if the runs are enough.
    pub ratio: Option<Ratio>,
}

/// Instructions of an operation of a candidate beside those of its baseline. Empty unless those of both were counted.
pub fn path_differences(baseline: &[&StoredRun], candidate: &[&StoredRun]) -> Vec<PathDifference> {
    let (baseline, candidate) = (of_runs(baseline), of_runs(candidate));
    if baseline.is_empty() || candidate.is_empty() {
        return Vec::new();
    }
    let rows = Executor::ALL.map(Some).into_iter().chain([None]);
    rows.map(|executor| {
        let (from, to) = (samples(&baseline, executor), samples(&candidate, executor));
        PathDifference {
            executor,
            baseline: mean_of_values(&from),
            candidate: mean_of_values(&to),
            ratio: ratio_by_block(&from, &to, CONFIDENCE),
        }
    })
    .filter(|row| row.baseline.is_some() || row.candidate.is_some())
    .collect()
}

/// What one operation took of each part in a run of a block.
type Parts = (u32, Vec<(Executor, f64)>);

/// What one operation took in each run whose numbers count.
fn of_runs(runs: &[&StoredRun]) -> Vec<Parts> {
    let honest = runs.iter().filter(|run| !run.record.untraced_twin && !run.record.violates_an_identity());
    let each = honest.filter_map(|run| {
        let measured = run.record.measured()?;
        Some((run.record.block, measured.path_length.as_ref()?.per_operation(&measured.load)))
    });
    each.filter(|(_, parts)| !parts.is_empty()).collect()
}

/// All instructions of one operation, in each run whose numbers count, with its block.
pub(crate) fn for_an_operation(runs: &[&StoredRun]) -> Vec<(u32, f64)> {
    samples(&of_runs(runs), None)
}

fn samples(runs: &[Parts], executor: Option<Executor>) -> Vec<(u32, f64)> {
    let instructions_of = |(block, parts): &Parts| match executor {
        None => Some((*block, sum_of_parts(parts))),
        Some(wanted) => {
            parts.iter().find(|(executor, _)| *executor == wanted).map(|(_, count)| (*block, *count))
        }
    };
    runs.iter().filter_map(instructions_of).collect()
}

/// All of them together.
pub fn sum_of_parts(parts: &[(Executor, f64)]) -> f64 {
    parts.iter().map(|(_, instructions)| instructions).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTED: InstructionCounts =
        InstructionCounts { host_user: 1_000, host_kernel: 2_000, guest_user: 3_000, guest_kernel: 4_000 };

    #[test]
    fn without_guests_the_hosts_programs_are_the_application() {
        let none = InstructionCounts { guest_user: 0, guest_kernel: 0, ..COUNTED };
        let bare = PathLength::of(none, false, 1, 0);
        assert_eq!(bare.instructions, [(Executor::Application, 1_000), (Executor::HostKernel, 2_000)]);
        let nested = PathLength::of(COUNTED, true, 1, 0);
        assert_eq!(nested.instructions[2], (Executor::Hypervisor, 1_000));
        assert_eq!(nested.instructions[0], (Executor::Application, 3_000));
    }

    #[test]
    fn instructions_of_a_request_are_of_the_requests_in_the_window() {
        let path = PathLength::of(COUNTED, true, 500_000_000, 0);
        // 20 in a second are 10 in the window.
        let each = path.per_request(40, 2_000_000_000);
        assert_eq!(each[1], (Executor::GuestKernel, 400.0));
        assert_eq!(sum_of_parts(&each), 1_000.0);
        assert_eq!(path.per_request(0, 1), [], "nothing was done");
        // All of them were done in a part of the window.
        assert_eq!(path.per_request(10, 250_000_000)[1], (Executor::GuestKernel, 400.0));
    }

    #[test]
    fn a_stored_one_reads_back() {
        let path = PathLength::of(COUNTED, true, 7, 3);
        let text = serde_json::to_string(&path).unwrap();
        assert!(text.contains(r#"["guest-kernel",4000]"#), "{text}");
        assert_eq!(serde_json::from_str::<PathLength>(&text).unwrap(), path);
    }
}
