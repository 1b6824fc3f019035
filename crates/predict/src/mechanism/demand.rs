//! What one operation asks of a stack, layer by layer, and the terms it is made of.

use nestor_stack::{Layer, Stack};
use serde::{Deserialize, Serialize};

/// Fewer requests for an operation take no time that matters.
const NEXT_TO_NONE: f64 = 1e-4;
/// Fewer flushes for an operation are none: each takes some ten milliseconds of a disk.
const NEXT_TO_NO_FLUSH: f64 = 2e-3;

/// What an operation asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Demand {
    /// Seconds of the processor for the application.
    pub application_s: f64,
    /// Seconds for the kernel of the application's machine.
    pub kernel_s: f64,
    /// Seconds for the virtual machines and for the kernel below; `None` without a virtual machine.
    pub below_s: Option<Below>,
    /// Requests with data at the uppermost block layer.
    pub top_requests: f64,
    /// Those of them that write.
    pub top_writes: f64,
    /// Flushes at the uppermost block layer.
    pub top_flushes: f64,
    /// Requests with data at the disk.
    pub disk_requests: f64,
    /// Flushes at the disk.
    pub disk_flushes: f64,
    /// Seconds in which the disk serves requests with data.
    pub data_s: f64,
    /// Seconds in which it serves flushes.
    pub flush_s: f64,
}

/// What virtual machines add to the processor's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Below {
    /// Seconds for the programs that run them.
    pub hypervisor_s: f64,
    /// Seconds for the outermost kernel.
    pub host_kernel_s: f64,
}

/// A factor of a demand that is fitted by itself, because one kind of layer decides it. The logarithm of a demand's part is the sum of
/// those of its terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Term {
    /// Seconds of the application for an operation.
    Application,
    /// Seconds of its machine's kernel for an operation.
    Kernel,
    /// Seconds of the hypervisor for a request of that kernel.
    Hypervisor,
    /// Seconds of the host's kernel for a request of the guest.
    HostKernel,
    /// Requests of the uppermost file system for an operation.
    Requests,
    /// Requests at the disk for each of these: what image and host file system make of one.
    Amplification,
    /// Seconds of the disk for a request with data.
    DiskTime,
    /// Writes among the requests of the uppermost file system, as a share.
    Writes,
    /// Flushes of the uppermost file system for an operation.
    Flushes,
    /// Flushes at the disk for each thing that the virtual machine has to make durable: a flush, or with a cache that is written through
    /// each write.
    FlushAmplification,
    /// Seconds of the disk for a flush.
    FlushTime,
}

impl Term {
    /// From the application down.
    pub const ALL: [Self; 11] = [
        Self::Application,
        Self::Kernel,
        Self::Hypervisor,
        Self::HostKernel,
        Self::Requests,
        Self::Amplification,
        Self::DiskTime,
        Self::Writes,
        Self::Flushes,
        Self::FlushAmplification,
        Self::FlushTime,
    ];

    /// The layer and what is counted there.
    pub fn name(self) -> &'static str {
        match self {
            Self::Application => "application: instructions of an operation",
            Self::Kernel => "its kernel: instructions of an operation",
            Self::Hypervisor => "hypervisor: instructions of a request",
            Self::HostKernel => "host kernel: instructions of a request",
            Self::Requests => "upper file system: requests of an operation",
            Self::Amplification => "image and host file system: disk requests of a request",
            Self::DiskTime => "disk: time of a request",
            Self::Writes => "upper file system: share of writes",
            Self::Flushes => "upper file system: flushes of an operation",
            Self::FlushAmplification => "cache mode, image and host file system: disk flushes of a flush",
            Self::FlushTime => "disk: time of a flush",
        }
    }

    /// Whether it is for an operation, of which each load has another kind; otherwise for a request, which are more alike.
    pub fn is_of_an_operation(self) -> bool {
        matches!(self, Self::Application | Self::Kernel | Self::Requests | Self::Writes | Self::Flushes)
    }

    /// Its value where the mechanism leaves no other; such a one is not fitted.
    pub fn given(self, machine: Machine) -> Option<f64> {
        // Requests with data are merged even there.
        match self {
            Self::FlushAmplification if machine.is_on_medium => Some(1.0),
            // A kernel sends no flushes to a disk that has no cache to flush.
            Self::Flushes if machine.writes_through => Some(0.0),
            _ => None,
        }
    }

    /// Its value in a demand, above zero; `None` where the demand has none of it.
    pub fn of(self, demand: &Demand, machine: Machine) -> Option<f64> {
        let requests = demand.top_requests.max(NEXT_TO_NONE);
        let value = match self {
            Self::Application => demand.application_s,
            Self::Kernel => demand.kernel_s,
            Self::Hypervisor => demand.below_s?.hypervisor_s / requests,
            Self::HostKernel => demand.below_s?.host_kernel_s / requests,
            Self::Requests => requests,
            Self::Amplification => demand.disk_requests.max(NEXT_TO_NONE) / requests,
            Self::DiskTime => over(demand.data_s, demand.disk_requests)?,
            Self::Writes => demand.top_writes.max(NEXT_TO_NONE) / requests,
            Self::Flushes => demand.top_flushes.max(NEXT_TO_NO_FLUSH),
            Self::FlushAmplification => {
                let durable = demand.durable(machine);
                let flushes = demand.disk_flushes.max(durable * NEXT_TO_NO_FLUSH);
                if durable > NEXT_TO_NO_FLUSH { flushes / durable } else { return None }
            }
            Self::FlushTime => over(demand.flush_s, demand.disk_flushes)?,
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

/// What runs the application, as far as it decides which terms there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Whether it is virtual.
    pub is_virtual: bool,
    /// Whether each of its writes is followed by a flush of the image: `cache=writethrough` and `cache=directsync`.
    pub writes_through: bool,
    /// Whether its disk is the medium itself: nothing below makes more or fewer of its flushes.
    pub is_on_medium: bool,
}

impl Machine {
    /// That of a stack.
    pub fn of(stack: &Stack) -> Self {
        let anatomy = stack.anatomy();
        let options = anatomy.virtual_machine.and_then(Layer::hypervisor);
        Self {
            is_virtual: anatomy.virtual_machine.is_some(),
            writes_through: options.is_some_and(|options| !options.disk.cache().write_cache()),
            is_on_medium: anatomy.image().is_none() && anatomy.host_file_system().is_none(),
        }
    }
}

/// A part that is next to nothing tells no quotient.
fn over(part_s: f64, count: f64) -> Option<f64> {
    (count > NEXT_TO_NONE).then(|| part_s / count)
}

impl Demand {
    /// What has to be made durable for an operation: flushes, or where the virtual disk has no cache to flush, each write.
    fn durable(&self, machine: Machine) -> f64 {
        if machine.writes_through { self.top_writes } else { self.top_flushes }
    }

    /// The demand of which a term has the value that `value` says; 0 for what is not known.
    pub fn of_terms(machine: Machine, value: impl Fn(Term) -> Option<f64>) -> Self {
        let known = |term: Term| term.given(machine).or_else(|| value(term)).unwrap_or_default();
        let top_requests = known(Term::Requests);
        let disk_requests = top_requests * known(Term::Amplification);
        let below_s = machine.is_virtual.then(|| Below {
            hypervisor_s: top_requests * known(Term::Hypervisor),
            host_kernel_s: top_requests * known(Term::HostKernel),
        });
        // What is next to none is none.
        let counted = |count: f64, none: f64| if count > 2.0 * none { count } else { 0.0 };
        let without_disk = Self {
            application_s: known(Term::Application),
            kernel_s: known(Term::Kernel),
            below_s,
            top_requests,
            top_writes: top_requests * counted(known(Term::Writes), NEXT_TO_NONE),
            top_flushes: counted(known(Term::Flushes), NEXT_TO_NO_FLUSH),
            ..Self::default()
        };
        let disk_flushes =
            without_disk.durable(machine) * counted(known(Term::FlushAmplification), NEXT_TO_NO_FLUSH);
        Self {
            disk_requests,
            disk_flushes,
            data_s: disk_requests * known(Term::DiskTime),
            flush_s: disk_flushes * known(Term::FlushTime),
            ..without_disk
        }
    }

    /// Seconds of the processor.
    pub fn processor_s(&self) -> f64 {
        let below = self.below_s.unwrap_or_default();
        self.application_s + self.kernel_s + below.hypervisor_s + below.host_kernel_s
    }

    /// Seconds of the disk.
    pub fn disk_s(&self) -> f64 {
        self.data_s + self.flush_s
    }

    /// The share of a term in the time of the station that it is part of: of the processor's and of the disk's.
    pub(super) fn shares(&self, term: Term, machine: Machine) -> (f64, f64) {
        let (processor, disk) = (self.processor_s().max(1e-12), self.disk_s().max(1e-12));
        let below = self.below_s.unwrap_or_default();
        // Of what has to be durable.
        let of_flushes = if machine.writes_through { 0.0 } else { 1.0 };
        match term {
            Term::Application => (self.application_s / processor, 0.0),
            Term::Kernel => (self.kernel_s / processor, 0.0),
            Term::Hypervisor => (below.hypervisor_s / processor, 0.0),
            Term::HostKernel => (below.host_kernel_s / processor, 0.0),
            Term::Requests => {
                let of_writes = (1.0 - of_flushes) * self.flush_s;
                ((below.hypervisor_s + below.host_kernel_s) / processor, (self.data_s + of_writes) / disk)
            }
            Term::Amplification | Term::DiskTime => (0.0, self.data_s / disk),
            Term::Writes => (0.0, (1.0 - of_flushes) * self.flush_s / disk),
            Term::Flushes => (0.0, of_flushes * self.flush_s / disk),
            Term::FlushAmplification | Term::FlushTime => (0.0, self.flush_s / disk),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stack_runs_on() {
        let of = |stack: &str| {
            let machine = Machine::of(&Stack::parse(stack).unwrap());
            (machine.is_virtual, machine.writes_through, machine.is_on_medium)
        };
        assert_eq!(of("ext4/hdd"), (false, false, true));
        assert_eq!(of("ext4/kvm/hdd"), (true, false, true));
        assert_eq!(of("ext4/kvm:cache=directsync/raw/jfs/hdd"), (true, true, false));
        assert_eq!(of("ext4/tcg:cache=writeback/qcow2/xfs/hdd"), (true, false, false));
        assert_eq!(of("ext4/kvm:cache=writethrough/hdd"), (true, true, true));
    }

    const GUEST: Machine = Machine { is_virtual: true, writes_through: false, is_on_medium: false };

    fn demand() -> Demand {
        Demand {
            application_s: 1e-5,
            kernel_s: 2e-5,
            below_s: Some(Below { hypervisor_s: 3e-5, host_kernel_s: 4e-5 }),
            top_requests: 1.5,
            top_writes: 1.2,
            top_flushes: 1.0,
            disk_requests: 2.5,
            disk_flushes: 2.0,
            data_s: 6e-4,
            flush_s: 0.016,
        }
    }

    #[test]
    fn a_demand_is_made_of_its_terms() {
        let demand = demand();
        let of = |term: Term| term.of(&demand, GUEST).unwrap();
        assert!((of(Term::Hypervisor) - 2e-5).abs() < 1e-12);
        assert!((of(Term::Amplification) - 2.5 / 1.5).abs() < 1e-12);
        assert!((of(Term::FlushAmplification) - 2.0).abs() < 1e-12);
        assert!((of(Term::FlushTime) - 0.008).abs() < 1e-12);
        let again = Demand::of_terms(GUEST, |term| term.of(&demand, GUEST));
        let same = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        assert!(same(again.processor_s(), 1e-4) && same(again.disk_s(), 0.0166), "{again:?}");
        assert!(same(again.disk_requests, 2.5) && same(again.disk_flushes, 2.0));
    }

    /// The same guest with a cache that is written through: each of its 1.2 writes is flushed as its 1 flush was.
    #[test]
    fn a_cache_that_is_written_through_makes_each_write_a_flush() {
        let demand = demand();
        let through = Machine { writes_through: true, ..GUEST };
        let told = Demand::of_terms(through, |term| term.of(&demand, GUEST));
        assert!((told.disk_flushes - 2.4).abs() < 1e-9 && (told.flush_s - 0.0192).abs() < 1e-9, "{told:?}");
    }

    #[test]
    fn on_the_medium_itself_flushes_are_those_of_the_machine() {
        let demand = demand();
        let raw = Machine { is_on_medium: true, ..GUEST };
        let told = Demand::of_terms(raw, |term| term.of(&demand, GUEST));
        assert_eq!((told.disk_requests, told.disk_flushes), (2.5, 1.0));
    }

    /// Shares beside difference quotients of both stations' times.
    #[test]
    fn shares_of_terms_are_their_weight_in_the_time_of_each_station() {
        let demand = demand();
        for machine in [GUEST, Machine { writes_through: true, ..GUEST }] {
            for term in Term::ALL {
                let with = |times: f64| {
                    let value = |other: Term| {
                        other
                            .of(&demand, machine)
                            .map(|value| if other == term { value * times } else { value })
                    };
                    Demand::of_terms(machine, value)
                };
                let (one, more) = (with(1.0), with(1.0 + 1e-6));
                let quotient = |time: fn(&Demand) -> f64| (time(&more) / time(&one)).ln() / 1e-6;
                let (processor, disk) = one.shares(term, machine);
                assert!((processor - quotient(Demand::processor_s)).abs() < 1e-4, "{term:?} {machine:?}");
                assert!((disk - quotient(Demand::disk_s)).abs() < 1e-4, "{term:?} {machine:?}");
            }
        }
    }

    #[test]
    fn what_never_reaches_the_disk_takes_no_time_there() {
        let native = Machine::default();
        let demand = Demand { kernel_s: 1e-5, top_requests: 1.0, ..Demand::default() };
        assert_eq!(Term::DiskTime.of(&demand, native), None);
        assert_eq!(Term::FlushAmplification.of(&demand, native), None, "there is no flush");
        assert_eq!(Term::Hypervisor.of(&demand, native), None, "there is no virtual machine");
        let again = Demand::of_terms(native, |term| term.of(&demand, native).or(Some(0.01)));
        assert!(again.disk_s() < 2e-6, "{again:?}");
        assert_eq!((again.disk_flushes, again.below_s), (0.0, None));
    }
}
