//! Machines that a link joins belong together: without the link's server, or one of the others, none of them goes on.

use std::collections::HashMap;
use std::process::Child;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use nestor_stop::lock;

use crate::hypervisor::RunningMachine;
use crate::loss::Loss;
use crate::place::MachinePlace;
use crate::refusal::ProgramEnd;

/// Started programs by their process, each with its entry in the ledger.
pub(super) type Programs = Mutex<HashMap<u32, (u64, Child)>>;

/// How often it is looked whether all of them are there.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Machines and the server of the link between them.
pub(super) struct Linked {
    machines: Vec<(MachinePlace, Weak<dyn RunningMachine>)>,
    server: u32,
    programs: Arc<Programs>,
}

/// What has become of them.
enum Found {
    All,
    /// One was stopped as it should be.
    Stopped,
    /// What the others cannot go on without.
    Lost(Loss),
}

impl Linked {
    pub(super) fn new(
        machines: &[(MachinePlace, Arc<dyn RunningMachine>)],
        server: u32,
        programs: Arc<Programs>,
    ) -> Self {
        let machines = machines.iter().map(|(place, machine)| (*place, Arc::downgrade(machine))).collect();
        Self { machines, server, programs }
    }

    /// Ends the requests to the machines as soon as one of them or the server has ended by itself.
    pub(super) fn watch(self) {
        std::thread::spawn(move || {
            while !self.is_over() {
                std::thread::sleep(LOOK_EVERY);
            }
        });
    }

    /// Whether there is nothing more to watch.
    fn is_over(&self) -> bool {
        match self.look() {
            Found::All => return false,
            Found::Stopped => {}
            Found::Lost(loss) => {
                let machines = self.machines.iter().filter_map(|(_, machine)| machine.upgrade());
                machines
                    .filter(|machine| !machine.has_ended())
                    .for_each(|machine| machine.give_up(loss.clone()));
            }
        }
        true
    }

    fn look(&self) -> Found {
        for (place, machine) in &self.machines {
            match machine.upgrade() {
                None => return Found::Stopped,
                Some(machine) if machine.has_ended() => {
                    return Found::Lost(Loss::Machine { place: *place, said: machine.last_words() });
                }
                Some(machine) => {
                    if let Some(loss) = machine.loss() {
                        return Found::Lost(loss);
                    }
                }
            }
        }
        match lock(&self.programs).get_mut(&self.server) {
            None => Found::Stopped,
            Some((_, server)) => match server.try_wait().ok().flatten() {
                Some(status) => {
                    Found::Lost(Loss::Link { server: self.server, ended: ProgramEnd::of(status) })
                }
                None => Found::All,
            },
        }
    }
}

#[cfg(test)]
mod tests;
