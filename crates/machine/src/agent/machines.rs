//! The machines that the agent runs: booting them, asking them, stopping them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nestor_stack::Accelerator;
use nestor_stop::lock;

use super::ledger::{Resource, process_start_ticks};
use super::linked::Linked;
use super::requests::Obeyed;
use super::{Agent, Booted};
use crate::apart::ApartMachine;
use crate::connection::NoAnswer;
use crate::hypervisor::{Accelerators, OnStart, RunningMachine, Started, hypervisor};
use crate::message::{Answer, Request};
use crate::place::MachinePlace;
use crate::refusal::{Cause, Refusal};
use crate::spec::{DiskAttachment, HardwareTrial, InterfaceAttachment, MachineSpec};

/// The ledger's number of a machine that ends with what is noted already.
const NO_ENTRY: u64 = 0;

/// How long machines that have answered every request may take until all stand.
const JOIN_LIMIT: Duration = Duration::from_secs(10);

impl Agent {
    /// Boots a machine, which the ledger names from then on.
    pub(super) fn start_machine(&self, spec: &MachineSpec) -> Obeyed {
        let started = Instant::now();
        let (accelerator, booted) = match (spec.accelerator, spec.hardware_trial) {
            (Some(Accelerator::Hardware), _) => {
                let message = "a machine cannot boot with `hardware` as its accelerator";
                return Err(Refusal::new(Cause::NotSupported, message));
            }
            (Some(decided), _) => (decided, self.boot(spec, decided)),
            (None, HardwareTrial::Probe) => {
                let found = self.find_accelerator(spec);
                (found, self.boot(spec, found))
            }
            (None, HardwareTrial::Itself) => {
                let Accelerators { hardware, fallback } = hypervisor(spec.hypervisor).accelerators();
                let trial = MachineSpec { boot_timeout_ms: spec.probe_timeout_ms, ..spec.clone() };
                match self.boot(&trial, hardware) {
                    Ok(booted) => (hardware, Ok(booted)),
                    Err(_) => (fallback, self.boot(spec, fallback)),
                }
            }
        };
        let booted = booted.map_err(|e| {
            let failed = e.within(&format!("the machine `{}` did not start", spec.place));
            match failed.cause {
                Cause::Other => Refusal { cause: Cause::NotStarted, ..failed },
                _ => failed,
            }
        })?;
        lock(&self.machines).insert(spec.place, booted);
        Ok(Answer::Booted {
            accelerator,
            boot_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Boots it with an accelerator.
    fn boot(&self, spec: &MachineSpec, accelerator: Accelerator) -> Result<Booted, Refusal> {
        let directory = self.work_directory.join(spec.place.to_string());
        let hypervisor = hypervisor(spec.hypervisor);
        let what = format!("{} of the machine `{}`", hypervisor.program(), spec.place);
        self.started(what, |on_start| hypervisor.boot(spec, accelerator, directory, &self.spawner, on_start))
    }

    /// A machine that `start` starts, which says the number of its process; that is noted until the machine is ended.
    fn started(
        &self,
        what: String,
        start: impl FnOnce(&mut OnStart<'_>) -> Result<Arc<dyn RunningMachine>, Refusal>,
    ) -> Result<Booted, Refusal> {
        let (mut entry, mut groups, mut made) = (NO_ENTRY, Vec::new(), None);
        let started = start(&mut |started| {
            let (pid, resource) = match started {
                Started::Outliving(machine) => {
                    entry = self.enter(machine.clone().into())?;
                    lock(&self.coming).push((entry, machine.clone()));
                    made = Some(machine);
                    return Ok(());
                }
                Started::Tool(pid) => (pid, None),
                Started::Process(pid) => {
                    let start_ticks = process_start_ticks(pid).unwrap_or_default();
                    (pid, Some(Resource::Process { pid, start_ticks, what: what.clone() }))
                }
            };
            // Until the machine is up, take-down ends it as it ends programs.
            groups.push(pid);
            lock(&self.running).push(pid);
            if let Some(resource) = resource {
                entry = self.enter(resource)?;
            }
            Ok(())
        });
        lock(&self.running).retain(|group| !groups.contains(group));
        lock(&self.coming).retain(|(coming, _)| *coming != entry);
        match started {
            Ok(machine) => Ok(Booted { entry, machine }),
            Err(e) => {
                // What it left running, take-down ends.
                if made.is_none_or(|machine| !machine.may_be_there(&self.spawner)) {
                    lock(&self.ledger).strike(entry);
                }
                Err(e)
            }
        }
    }

    /// What a hypervisor has to run its machines with here: tried once.
    fn find_accelerator(&self, spec: &MachineSpec) -> Accelerator {
        *lock(&self.accelerators).entry((spec.hypervisor, spec.qemu.clone())).or_insert_with(|| {
            let directory = self.work_directory.join("probe");
            let hypervisor = hypervisor(spec.hypervisor);
            let Accelerators { hardware, fallback } = hypervisor.accelerators();
            if hypervisor.hardware_works(spec, directory, &self.spawner) { hardware } else { fallback }
        })
    }

    /// Starts an agent on this kernel with a network and mounts of its own.
    pub(super) fn start_apart(&self, place: MachinePlace) -> Obeyed {
        let booted = self.started(format!("the agent of the machine `{place}`"), |on_start| {
            Ok(Arc::new(ApartMachine::start(&self.spawner, &self.work_directory, on_start)?))
        })?;
        lock(&self.machines).insert(place, booted);
        Ok(Answer::Done)
    }

    /// Has a machine that was started here power itself off, and waits for that.
    pub(super) fn shut_down_machine(&self, place: MachinePlace, limit: Duration) -> Obeyed {
        let machine = self.machine(place)?;
        let answer = machine.request(Request::PowerOff, limit);
        // Also where the machine did not end: it is given up.
        self.stop_machine(place)?;
        let refuse = |why: String| {
            Err(Refusal::new(
                Cause::TimedOut,
                format!("the machine `{place}` did not power itself off: {why}"),
            ))
        };
        match answer {
            Err(NoAnswer::Gone(_)) => Ok(Answer::Done),
            Err(NoAnswer::TimedOut(limit)) => refuse(format!("it runs after {} s", limit.as_secs())),
            Err(NoAnswer::GivenUp(loss)) => Err(Refusal::given_up(loss)),
            Ok(Answer::Failed(refusal)) => refuse(refusal.message),
            Ok(_) => refuse("its agent answered".to_owned()),
        }
    }

    /// Stops a machine that was started here, at once.
    pub(super) fn stop_machine(&self, place: MachinePlace) -> Obeyed {
        let Booted { entry, machine } = lock(&self.machines).remove(&place).ok_or_else(|| {
            Refusal::new(Cause::MachineLost, format!("the machine `{place}` is not running"))
        })?;
        machine.stop();
        self.strike_ended(entry, &*machine);
        Ok(Answer::Done)
    }

    /// Strikes a machine that was stopped out of the ledger. One that another program runs may not have ended.
    pub(super) fn strike_ended(&self, entry: u64, machine: &dyn RunningMachine) {
        if entry != NO_ENTRY && machine.has_ended() {
            lock(&self.ledger).strike(entry);
        }
    }

    /// A machine that runs here.
    pub(super) fn machine(&self, place: MachinePlace) -> Result<Arc<dyn RunningMachine>, Refusal> {
        lock(&self.machines).get(&place).map(|booted| Arc::clone(&booted.machine)).ok_or_else(|| {
            Refusal::new(Cause::MachineLost, format!("the machine `{place}` is not running here (any more)"))
        })
    }

    pub(super) fn take_instructions(&self, place: MachinePlace) -> Obeyed {
        Ok(Answer::Instructions(self.machine(place)?.take_instructions()))
    }

    /// Does something with a disk of a machine, and names both if that fails.
    pub(super) fn with_disk(
        &self,
        place: MachinePlace,
        disk: &DiskAttachment,
        act: impl Fn(&dyn RunningMachine) -> Result<(), Refusal>,
    ) -> Obeyed {
        let machine = self.machine(place)?;
        act(&*machine)
            .map(|()| Answer::Done)
            .map_err(|e| e.within(&format!("the disk {} of the machine `{place}`", disk.serial)))
    }

    /// Writes the state of a machine into a file.
    pub(super) fn keep_machine(&self, place: MachinePlace, path: &str, limit: Duration) -> Obeyed {
        self.machine(place)?.keep_state(Path::new(path), limit).map(|()| Answer::Done)
    }

    /// Plugs a network interface into a machine.
    pub(super) fn attach_interface(&self, place: MachinePlace, interface: &InterfaceAttachment) -> Obeyed {
        self.with_interface(place, interface, |machine| machine.attach_interface(interface))
    }

    /// Unplugs it.
    pub(super) fn detach_interface(&self, place: MachinePlace, interface: &InterfaceAttachment) -> Obeyed {
        self.with_interface(place, interface, |machine| machine.detach_interface(interface))
    }

    /// Does something with a network interface of a machine, and names both if that fails.
    fn with_interface(
        &self,
        place: MachinePlace,
        interface: &InterfaceAttachment,
        act: impl Fn(&dyn RunningMachine) -> Result<(), Refusal>,
    ) -> Obeyed {
        let machine = self.machine(place)?;
        act(&*machine).map(|()| Answer::Done).map_err(|e| {
            e.within(&format!("the network interface {} of the machine `{place}`", interface.name))
        })
    }

    /// From now on machines that a link joins belong together, in virtual time with one time. The first is at the lower end.
    pub(super) fn join_machines(&self, places: &[MachinePlace], server: u32, control: &str) -> Obeyed {
        let machines = places.iter().map(|place| Ok((*place, self.machine(*place)?)));
        let machines = machines.collect::<Result<Vec<_>, Refusal>>()?;
        let named = || {
            let names: Vec<String> = places.iter().map(|place| format!("`{place}`")).collect();
            names.join(", ")
        };
        let keepers: Vec<_> = machines.iter().filter_map(|(_, machine)| machine.time_keeper()).collect();
        if !keepers.is_empty() && keepers.len() < machines.len() {
            let message = format!("only {} of the machines {} run in virtual time", keepers.len(), named());
            return Err(Refusal::new(Cause::NotSupported, message));
        }
        if let [first, others @ ..] = &keepers[..] {
            let joined = first.join(others, Path::new(control), Instant::now() + JOIN_LIMIT);
            let failed = |e| Refusal::of_io(&format!("the machines {} could not be joined", named()), &e);
            joined.map_err(failed)?;
        }
        Linked::new(&machines, server, Arc::clone(&self.processes)).watch();
        Ok(Answer::Done)
    }

    /// Hands a request on to the agent of a machine that runs here.
    pub(super) fn forward(&self, place: MachinePlace, timeout_ms: u64, request: Request) -> Obeyed {
        let machine = self.machine(place)?;
        machine.request(request, Duration::from_millis(timeout_ms)).map_err(|e| match e {
            NoAnswer::GivenUp(loss) => Refusal::given_up(loss),
            NoAnswer::Gone(reason) => Refusal::new(
                Cause::MachineLost,
                format!("the machine `{place}` is lost: {reason}{}", machine.last_words()),
            ),
            NoAnswer::TimedOut(limit) => Refusal::new(
                Cause::MachineSilent,
                format!(
                    "the machine `{place}` did not answer within {} s: it hangs or is overloaded{}",
                    limit.as_secs(),
                    machine.last_words()
                ),
            ),
        })
    }
}
