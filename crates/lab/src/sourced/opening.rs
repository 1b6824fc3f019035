//! The repository is booted, the image is made there, and all machines of its link are joined.

use nestor_machine::{Facts, MachineError};
use nestor_stack::layers::network::LinkOptions;
use nestor_stack::layers::sourced::transfers::Reach;
use nestor_stack::{Bytes, LayerIndex, MachineIndex, Relation};

use super::nodes::PlannedNode;
use super::repository::Made;
use super::{ImageNode, SourceMachine, SourcedImage, TransferMachine, dealt};
use crate::held_memory::hold_memory;
use crate::progressing::{Progressing, Remote};
use crate::root_machine::RootMachine;
use crate::{BuildError, Lab};

/// The nodes of an image, and the link to them from its repository.
struct Link {
    at: LayerIndex,
    options: LinkOptions,
    repository: MachineIndex,
    nodes: Vec<PlannedNode>,
}

impl Lab {
    /// Boots the repository, makes the image there, and the layers in it that come with it; and joins it to its nodes.
    pub(crate) fn open_source(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
        nodes: Vec<PlannedNode>,
        instances: u32,
    ) -> Result<SourcedImage, BuildError> {
        let stack = progressing.stack;
        let layer = stack.layer(index);
        let refused = |why: &str| BuildError::refused(layer, why);
        let repository = stack.repository().ok_or_else(|| refused("it has no source"))?;
        let link = stack.indexed_source().find_map(|(at, layer)| Some((at, layer.link()?)));
        let (at, options) = link.ok_or_else(|| refused("its source has no link"))?;
        let opened = stack.opened_image(index);
        let format = opened.image_format().ok_or_else(|| refused("its source is not an image"))?;
        let link = Link { at, options, repository, nodes };

        let made = self.make_source(progressing, &link)?;
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        let (remotes, interface) = self.join_nodes(progressing, &link).map_err(failed)?;
        let Link { options, nodes, .. } = link;
        // In the lab, all have the same directory.
        let node = nodes.first().map_or(MachineIndex::OUTERMOST, |node| node.index);
        let like = if self.place.is_emulated() { node } else { repository };
        let repository = TransferMachine {
            index: repository,
            machine: progressing.machine(repository),
            disk: made.disk,
            own_directory: own_directory(&progressing.machines[like].facts),
        };
        let count = nodes.len();
        let nodes = nodes.into_iter().zip(remotes).enumerate().map(|(number, (node, remote))| {
            let own = own_directory(&self.standing(node.index)?.facts);
            let of_node = 0..dealt::of_node(number, count, instances);
            let targets = of_node.map(|at| target(&node.directory, format.extension, at)).collect();
            Ok(ImageNode { end: node.with_own(own), remote, targets })
        });
        Ok(SourcedImage {
            index,
            nodes: nodes.collect::<Result<_, BuildError>>()?,
            instances,
            repository: SourceMachine { end: repository, interface },
            source: made.path,
            bytes: Bytes(0),
            contents: made.contents,
            installed: Some(made.installed),
            reach: if self.place.is_emulated() { Reach::Lab } else { Reach::Users },
            link_rate: options.rate,
        })
    }

    /// The repository with the image.
    fn make_source(
        &mut self,
        progressing: &mut Progressing<'_>,
        Link { at, options, repository, nodes }: &Link,
    ) -> Result<Made, BuildError> {
        let stack = progressing.stack;
        let node = nodes.first().map_or(MachineIndex::OUTERMOST, |node| node.index);
        if self.place.is_emulated() {
            self.root_beside(progressing, RootMachine::beside(stack, *repository, node))?;
        }
        let label = stack.machines()[*repository].label;
        let relation = Relation::Beside(node);
        progressing.machines.insert(*repository, relation, self.standing(*repository)?.built(label));
        let made = self.make_image(progressing, *repository)?;
        if let Some(available) = options.available {
            hold_memory(progressing, *repository, stack.layer(*at), available)?;
        }
        Ok(made)
    }

    /// Where each node finds the repository, and what that calls its interface.
    fn join_nodes(
        &mut self,
        progressing: &mut Progressing<'_>,
        Link { at, options, repository, nodes }: &Link,
    ) -> Result<(Vec<Remote>, String), MachineError> {
        if let Some(link) = self.kernel_link(*at) {
            let (remote, interface) = link.to_server(*repository, options.mtu);
            return Ok((vec![remote], interface));
        }
        let at_repository = (*repository, progressing.machine(*repository));
        let nodes = nodes.iter().map(|node| (node.index, node.machine.clone()));
        self.connect(progressing, (*at, options), [at_repository].into_iter().chain(nodes).collect())
    }
}

/// For a transfer's own files.
fn own_directory(of: &Facts) -> String {
    format!("{}/transfer", of.work_directory)
}

/// The image of an instance, counted from 0 on its node, in a directory there.
fn target(directory: &str, extension: &str, instance: u32) -> String {
    match instance {
        0 => format!("{directory}/disk.{extension}"),
        _ => format!("{directory}/disk-{}.{extension}", instance + 1),
    }
}
