//! A stack cut into the machines its layers run in.

use crate::{Crossing, Depth, Layer, LayerIndex, MachineIndex, MachineLabel, Machines, Relation, Stack};

/// One machine of a stack and the layers in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSegment<'a> {
    /// What it is called.
    pub label: MachineLabel,
    /// The layer that is the border to this machine, if it is not the outermost. Its options say how to start it. It runs in the
    /// machine below, of a repository in the one above, and belongs to neither's `layers`.
    pub crossing: Option<LayerIndex>,
    /// The layers inside this machine, application side first; may be empty (`kvm/hdd`: the raw disk in the guest).
    pub layers: &'a [Layer],
}

impl Stack {
    /// The machines of the stack, **outermost first**, so in the order in which they are started; the repository of a source second,
    /// because the node's image comes from it. At least one.
    pub fn machines(&self) -> Machines<MachineSegment<'_>> {
        let mut machines = Machines::default();
        let crossings: Vec<(LayerIndex, Crossing)> = self.crossings().collect();
        let mut above = crossings.iter().rev().map(|(at, _)| at.below().position()).chain([0]);
        let mut end = self.layers().len();
        let mut segment = |label, crossing: Option<LayerIndex>| {
            let start = above.next().unwrap_or(0);
            let layers = &self.layers()[start..end];
            end = start.saturating_sub(1);
            MachineSegment { label, crossing, layers }
        };
        let mut below = machines.push(Relation::Outermost, segment(MachineLabel::Host, None));
        if let Some((link, _)) = self.indexed_source().next() {
            let layers = self.below(link);
            let repository = MachineSegment { label: MachineLabel::Repository, crossing: Some(link), layers };
            machines.push(Relation::Beside(MachineIndex::OUTERMOST), repository);
        }
        let (mut guests, mut clients) = (0, 0);
        for (at, crossing) in crossings.iter().rev() {
            let Some(relation) = Relation::across(*crossing, below) else { continue };
            let label = if let Relation::Beside(_) = relation {
                clients += 1;
                MachineLabel::Client(clients)
            } else {
                guests += 1;
                MachineLabel::Guest(guests)
            };
            below = machines.push(relation, segment(label, Some(*at)));
        }
        machines
    }

    /// The machine on the other side of a layer, if the layer is a border between machines.
    pub fn machine_across(&self, layer: LayerIndex) -> Option<MachineIndex> {
        self.machines()
            .indexed()
            .find_map(|(index, machine)| (machine.crossing == Some(layer)).then_some(index))
    }

    /// Whether one of its machines is a guest in a guest.
    pub fn has_guest_in_a_guest(&self) -> bool {
        let machines = self.machines();
        machines.indexed().any(|(index, _)| machines.depth(index) > Depth::GUEST)
    }

    /// The machine that has the source.
    pub fn repository(&self) -> Option<MachineIndex> {
        let (link, _) = self.indexed_source().next()?;
        self.machine_across(link)
    }

    /// The machine that a layer runs in; for a border between machines, the one below. All of a source is in the repository.
    pub fn machine_of(&self, layer: LayerIndex) -> MachineIndex {
        let medium = self.medium_index();
        if layer > medium
            && let Some(repository) = self.repository()
        {
            return repository;
        }
        let machines = self.machines();
        // Each machine has the layers below the crossings that are above it, so the last one that begins below the layer.
        let is_below = |crossing: Option<LayerIndex>| crossing.is_none_or(|at| at > layer && at <= medium);
        let found = machines.indexed().rev().find(|(_, machine)| is_below(machine.crossing));
        found.map_or(MachineIndex::OUTERMOST, |(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Depth;

    fn shown(text: &str) -> Vec<String> {
        let stack = Stack::parse(text).unwrap();
        let segment = |m: &MachineSegment<'_>| {
            let layers: Vec<_> = m.layers.iter().map(Layer::label).collect();
            format!(
                "{} <{}> {}",
                m.label,
                m.crossing.map_or("", |at| stack.layer(at).name()),
                layers.join("/")
            )
        };
        stack.machines().iter().map(segment).collect()
    }

    #[test]
    fn a_native_stack_has_only_the_host() {
        assert_eq!(shown("ext4/hdd"), ["host <> ext4/hdd"]);
    }

    #[test]
    fn machines_come_outermost_first() {
        assert_eq!(shown("ext3/kvm/raw/jfs/hdd"), ["host <> raw/jfs/hdd", "guest <kvm> ext3"]);
        assert_eq!(
            shown("ext4/kvm/qcow2/xfs/tcg/raw/xfs/hdd"),
            ["host <> raw/xfs/hdd", "guest <tcg> qcow2/xfs", "guest 2 <kvm> ext4"]
        );
    }

    #[test]
    fn a_machine_may_hold_no_layer() {
        assert_eq!(shown("kvm/kvm/hdd"), ["host <> hdd", "guest <kvm> ", "guest 2 <kvm> "]);
    }

    #[test]
    fn a_link_starts_a_client() {
        assert_eq!(
            shown("ext2/kvm/raw/nfs/link/ext4/hdd"),
            ["host <> ext4/hdd", "client <link> raw/nfs", "guest <kvm> ext2"]
        );
        assert_eq!(
            shown("nfs:vers=3/kvm/link/ext2/loop/raw/xfs/hdd"),
            ["host <> ext2/loop/raw/xfs/hdd", "client <link> ", "guest <kvm> nfs:vers=3"]
        );
        assert_eq!(
            shown("nfs/link/ext4/kvm/nbd/link/hdd"),
            ["host <> hdd", "client <link> nbd", "guest <kvm> ext4", "client 2 <link> nfs"]
        );
    }

    #[test]
    fn a_source_is_in_a_repository_beside_the_machine_with_the_medium() {
        let text = "ext3/kvm/copy:scp/ext3/hdd//link/raw/ext4/ssd";
        assert_eq!(
            shown(text),
            ["host <> copy:scp/ext3/hdd", "repository <link> raw/ext4/ssd", "guest <kvm> ext3"]
        );
        let stack = Stack::parse(text).unwrap();
        let machines = stack.machines();
        let all = stack.indexed_layers().chain(stack.indexed_source());
        let labels: Vec<String> =
            all.map(|(at, _)| machines[stack.machine_of(at)].label.to_string()).collect();
        let (guest, host, repository) = ("guest", "host", "repository");
        assert_eq!(labels, [guest, host, host, host, host, repository, repository, repository, repository]);
        let repository = stack.repository().unwrap();
        assert_eq!(machines.relation(repository), Some(Relation::Beside(MachineIndex::OUTERMOST)));
        let (link, _) = stack.indexed_source().next().unwrap();
        assert_eq!(stack.machine_across(link), Some(repository));
        assert_eq!((stack.above(link).len(), stack.below(link).len()), (0, 3));
    }

    #[test]
    fn a_layer_across_which_a_machine_stands_runs_in_the_one_below() {
        let stack = Stack::parse("ext4/kvm/raw/nfs/link/ext4/hdd").unwrap();
        let machines = stack.machines();
        let labels: Vec<String> =
            stack.indexed_layers().map(|(at, _)| machines[stack.machine_of(at)].label.to_string()).collect();
        assert_eq!(labels, ["guest", "client", "client", "client", "host", "host", "host"]);
        let relations: Vec<_> = machines.indexed().map(|(at, _)| machines.relation(at).unwrap()).collect();
        let [host, client, guest] = [0, 1, 2].map(|at| machines.indexed().nth(at).unwrap().0);
        assert_eq!(relations, [Relation::Outermost, Relation::Beside(host), Relation::Inside(client)]);
        assert_eq!((machines.depth(client), machines.depth(guest)), (Depth::ROOT, Depth::GUEST));
    }
}
