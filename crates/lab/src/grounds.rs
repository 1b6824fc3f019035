//! Which of the machines that are connected is which of a stack.
//!
//! Of two (`--on ssh:CLIENT,ssh:SERVER`), the client is above the stack's link. The medium of most stacks is below the link, so on the server. The
//! link of a source is the repository's, and the node is above it: there, the client has the medium.

use nestor_machine::{Facts, Ground};
use nestor_stack::{Accelerator, MachineIndex, MachineLabel, Relation, Stack};

use crate::standing::Standing;
use crate::{BuildError, Lab};

impl Lab {
    /// The one beside that with the medium, if there are two.
    pub(crate) fn ground_beside(&self, stack: &Stack) -> Option<&Ground> {
        let client = self.client_ground.as_ref()?;
        Some(if is_client_outermost(stack) { &self.ground } else { client })
    }

    /// The one that boots guests. Of two, it is the node: there are none over a link.
    pub(crate) fn ground_of_guests(&self) -> &Ground {
        self.client_ground.as_ref().unwrap_or(&self.ground)
    }

    /// Takes the one with the medium as the outermost machine; those of a stack that had another one are let go.
    pub(crate) fn take_ground_of(&mut self, stack: &Stack) -> Result<(), BuildError> {
        let client = self.client_ground.as_ref().filter(|_| is_client_outermost(stack));
        let is_client = client.is_some();
        let machine = client.unwrap_or(&self.ground).machine().clone();
        if is_client != self.client_is_outermost {
            self.give_up_guests();
            self.machines.clear();
            self.client_is_outermost = is_client;
        }
        if self.machines.is_empty() {
            let host = Standing {
                facts: if is_client { machine.facts()? } else { self.ground_facts.clone() },
                machine: machine.labelled(&MachineLabel::Host.to_string()),
                accelerator: Accelerator::Hardware,
                greeted_ns: None,
                booted: None,
            };
            self.machines.push(Relation::Outermost, host);
        }
        Ok(())
    }

    /// What is known of the machine of the user's that boots the outermost guests or the emulated host.
    pub(crate) fn facts_of_host(&self) -> &Facts {
        let host = self.machines.get(MachineIndex::OUTERMOST).filter(|host| host.booted.is_none());
        host.map_or(&self.ground_facts, |host| &host.facts)
    }
}

fn is_client_outermost(stack: &Stack) -> bool {
    !stack.source().is_empty()
}
