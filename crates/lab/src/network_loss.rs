//! What has ended on the network of a built stack, in the words of its stack.

use nestor_machine::{Loss, MachinePlace, ProgramEnd};
use nestor_stack::{LayerIndex, MachineLabel};

use crate::{BuiltStack, Lab};

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

impl Lab {
    /// What has ended, as the user knows it.
    pub fn network_loss(&self, built: &BuiltStack, loss: Loss) -> NetworkLoss {
        match loss {
            Loss::Link { server, ended } => {
                let link = self.links.iter().find(|link| link.process() == server);
                let link = link.and_then(|link| links(built).find(|index| link.is_at(*index)));
                NetworkLoss::Link { link: label(built, link), server, ended }
            }
            Loss::Machine { place, said } => machine_loss(built, place, said),
            Loss::NfsServer => nfs_server_loss(built),
        }
    }
}

fn links(built: &BuiltStack) -> impl Iterator<Item = LayerIndex> + '_ {
    let layers = built.stack.indexed_layers();
    layers.filter(|(_, layer)| layer.is_link()).map(|(index, _)| index)
}

fn label(built: &BuiltStack, layer: Option<LayerIndex>) -> String {
    layer.map_or_else(|| "link".to_owned(), |layer| built.stack.layer(layer).label())
}

fn machine_loss(built: &BuiltStack, place: MachinePlace, said: String) -> NetworkLoss {
    let (MachinePlace::Root(ended) | MachinePlace::Guest(ended)) = place;
    let is_end = |link: &LayerIndex| {
        built.stack.machine_of(*link) == ended || built.stack.machine_across(*link) == Some(ended)
    };
    let machine = built.machines.get(ended).map_or(MachineLabel::Host, |machine| machine.label);
    NetworkLoss::Machine { machine, link: label(built, links(built).find(is_end)), said }
}

fn nfs_server_loss(built: &BuiltStack) -> NetworkLoss {
    let mounted = built.file_systems.iter().find_map(|mounted| Some((mounted, mounted.exported.as_ref()?)));
    let machine = mounted.and_then(|(_, exported)| built.machines.get(exported.machine));
    NetworkLoss::NfsServer {
        layer: mounted
            .map_or_else(|| "nfs".to_owned(), |(mounted, _)| built.stack.layer(mounted.layer).label()),
        machine: machine.map_or(MachineLabel::Host, |machine| machine.label),
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
