//! What has ended on the network of a built stack, in the words of its stack.

use nestor_machine::{Loss, MachinePlace, ProgramEnd};
use nestor_stack::{LayerIndex, MachineIndex, MachineLabel, Machines, Stack};

use crate::built::{NetworkDisk, ServingProgram};
use crate::{BuiltFileSystem, BuiltMachine, BuiltStack, Lab};

/// What has ended on the network of a built stack while that was in use. Nothing can be asked of the machines on it any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkLoss {
    /// The wire of a modelled link.
    #[error(
        "the link `{link}` was cut: its server on this machine (`nestor link serve`, process {server}) {ended}; run it again, and if \
         nobody ended that process, look for what did (`dmesg`: this machine may be out of memory)"
    )]
    Link {
        /// The layer in its canonical notation.
        link: String,
        /// The process.
        server: u32,
        /// How it ended.
        ended: ProgramEnd,
    },
    /// A machine at an end of a link.
    #[error("the {machine}, which is at an end of the link `{link}`, has ended{said}; run it again")]
    Machine {
        /// The machine.
        machine: MachineLabel,
        /// The layer in its canonical notation.
        link: String,
        /// How it ended, and what it said last.
        said: String,
    },
    /// The kernel's NFS server.
    #[error(
        "the NFS server of `{layer}` on the {machine} has ended: none of its threads is left; run it again, and leave the server alone \
         meanwhile"
    )]
    NfsServer {
        /// The layer in its canonical notation.
        layer: String,
        /// The machine that it ran on.
        machine: MachineLabel,
    },
}

/// What is known of the network of a stack, complete or not.
#[derive(Clone, Copy)]
pub struct Network<'a> {
    /// The stack.
    pub stack: &'a Stack,
    /// Those of its machines that stand.
    pub machines: &'a Machines<BuiltMachine>,
    /// Those of its file systems that are mounted.
    pub file_systems: &'a [BuiltFileSystem],
    /// Those of its network disks that are served.
    pub network_disks: &'a [NetworkDisk],
    /// What serves the image that stays at the repository.
    pub(crate) image_server: Option<&'a ServingProgram>,
}

impl BuiltStack {
    /// What is known of its network.
    pub fn network(&self) -> Network<'_> {
        Network {
            stack: &self.stack,
            machines: &self.machines,
            file_systems: &self.file_systems,
            network_disks: &self.network_disks,
            image_server: self.image_server.as_ref(),
        }
    }
}

impl Lab {
    /// What has ended, as the user knows it.
    pub fn network_loss(&self, of: Network<'_>, loss: Loss) -> NetworkLoss {
        match loss {
            Loss::Link { server, ended } => {
                let link = self.links.iter().find(|link| link.process() == server);
                let link = link.and_then(|link| of.links().find(|index| link.is_at(*index)));
                NetworkLoss::Link { link: of.label(link), server, ended }
            }
            Loss::Machine { place, said } => {
                let (MachinePlace::Root(ended) | MachinePlace::Guest(ended)) = place;
                let other = self.other_hosts.iter().find(|(index, _)| *index == ended);
                of.machine_loss(ended, other.map(|(_, label)| *label), said)
            }
            Loss::NfsServer => of.nfs_server_loss(),
        }
    }
}

impl Network<'_> {
    fn links(&self) -> impl Iterator<Item = LayerIndex> + '_ {
        self.stack.indexed_all().filter(|(_, layer)| layer.is_link()).map(|(index, _)| index)
    }

    fn label(&self, layer: Option<LayerIndex>) -> String {
        layer.map_or_else(|| "link".to_owned(), |layer| self.stack.layer(layer).label())
    }

    fn is_of_source(&self, link: LayerIndex) -> bool {
        link > self.stack.medium_index()
    }

    /// Whether a machine is at an end of a link. The link of a source joins the repository to the machine with the medium.
    fn is_end(&self, link: LayerIndex, machine: MachineIndex) -> bool {
        let is_of_source = self.is_of_source(link);
        self.stack.machine_of(link) == machine
            || self.stack.machine_across(link) == Some(machine)
            || (is_of_source && machine == MachineIndex::OUTERMOST)
    }

    /// `other`: what it is called, if it is a node beside the first.
    fn machine_loss(&self, ended: MachineIndex, other: Option<MachineLabel>, said: String) -> NetworkLoss {
        let of_stack = || self.machines.get(ended).map_or(MachineLabel::Host, |machine| machine.label);
        let machine = other.unwrap_or_else(of_stack);
        let is_its = |link: LayerIndex| {
            if other.is_some() { self.is_of_source(link) } else { self.is_end(link, ended) }
        };
        let link = self.links().find(|link| is_its(*link));
        NetworkLoss::Machine { machine, link: self.label(link), said }
    }

    fn nfs_server_loss(&self) -> NetworkLoss {
        let mut mounted = self.file_systems.iter();
        let mounted = mounted.find_map(|mounted| Some((mounted, mounted.exported.as_ref()?)));
        let machine = mounted.and_then(|(_, exported)| self.machines.get(exported.machine));
        NetworkLoss::NfsServer {
            layer: mounted
                .map_or_else(|| "nfs".to_owned(), |(mounted, _)| self.stack.layer(mounted.layer).label()),
            machine: machine.map_or(MachineLabel::Host, |machine| machine.label),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_is_named_with_its_layer_and_what_to_do() {
        let link = "link:rate=100mbit".to_owned();
        let cut = NetworkLoss::Link { link: link.clone(), server: 77, ended: ProgramEnd::Signal(9) };
        assert_eq!(
            cut.to_string(),
            "the link `link:rate=100mbit` was cut: its server on this machine (`nestor link serve`, process 77) was ended by signal 9; \
             run it again, and if nobody ended that process, look for what did (`dmesg`: this machine may be out of memory)"
        );
        let said = "; its QEMU was killed".to_owned();
        let ended = NetworkLoss::Machine { machine: MachineLabel::Client(1), link, said };
        assert_eq!(
            ended.to_string(),
            "the client, which is at an end of the link `link:rate=100mbit`, has ended; its QEMU was killed; run it again"
        );
    }
}
