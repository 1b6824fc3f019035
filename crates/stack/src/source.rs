//! The source of a stack: the machine that has an image, and the link over which it comes.

use std::borrow::Cow;

use crate::check::{Wanted, check_types, refused};
use crate::error::{Candidate, replaced};
use crate::layers::hypervisors::devices::Attach;
use crate::layers::images::qcow2;
use crate::layers::sourced::{PREFETCH, ServedOver};
use crate::lines::Lines;
use crate::parse::SOURCE;
use crate::{
    Conflict, Crossing, HOST_MEMORY_OPTION, Layer, LayerDefinition, LayerIndex, LayerSpec, Place,
    Propagation, Stack, StackError, StackErrorKind,
};

/// A source as it is suggested.
const USUAL_SOURCE: &str = "link/raw/ext4/hdd";

/// A layer with a source as it is suggested.
const USUAL_SOURCED: &str = "copy:scp";

/// Whether a layer wants a source.
pub(crate) fn is_wanted_by(layer: &Layer) -> bool {
    layer.definition().source().is_some()
}

/// Checks that one layer wants the source if there is one, and that it fits.
pub(crate) fn check_source(text: &str, lines: &Lines) -> Result<(), StackError> {
    let (main, source) = (lines.main(), lines.source());
    let mut wanting = main.iter().chain(source).filter(|layer| is_wanted_by(layer));
    let (first, second) = (wanting.next(), wanting.next());
    if let (Some(first), Some(second)) = (first, second) {
        return Err(wanted_twice(text, first, second));
    }
    match (first, source.first()) {
        (None, None) => Ok(()),
        (Some(layer), None) => Err(missing(text, layer, main)),
        (None, Some(link)) => Err(unwanted(text, link, main)),
        (Some(layer), Some(_)) => {
            let by = layer.definition().source().map(|offer| Wanted::ByLayer(layer, offer));
            by.map_or(Ok(()), |by| check_types(text, source, &by))?;
            check_machines(main, source)
                .and_then(|()| check_prefetch(main))
                .map_err(|(layer, conflict)| refused(text, layer, conflict))
        }
    }
}

fn missing(text: &str, layer: &Layer, main: &[Layer]) -> StackError {
    let message = format!("{} needs a source: the image that it is made of, and where that is", layer.name());
    let error = StackError::new(StackErrorKind::Source, text, layer.span.clone(), message);
    let end = main.last().map_or(text.len(), |last| last.span.end);
    error.suggest("write it after the medium", replaced(text, end..end, &format!("{SOURCE}{USUAL_SOURCE}")))
}

fn unwanted(text: &str, link: &Layer, main: &[Layer]) -> StackError {
    let span = link.span.start..text.len();
    let message = "no layer of this stack has a source: copy and overlay have one";
    let error = StackError::new(StackErrorKind::Source, text, span, message);
    let image = main.iter().find(|layer| layer.image_format().is_some());
    let with_source = image.map(|image| Candidate {
        words: format!("use {USUAL_SOURCED} in the place of {}", image.name()),
        text: replaced(text, image.span.clone(), USUAL_SOURCED),
    });
    let without = Candidate {
        words: "end the stack at its medium".to_owned(),
        text: text[..link.span.start - SOURCE.len()].to_owned(),
    };
    error.suggest_first_of(with_source.into_iter().chain([without]).collect())
}

fn wanted_twice(text: &str, first: &Layer, second: &Layer) -> StackError {
    let message = format!("a stack has one source, and that is of {}", first.name());
    let error = StackError::new(StackErrorKind::Source, text, second.span.clone(), message);
    error.suggest("use an image without a source here", replaced(text, second.span.clone(), "raw"))
}

/// The node is the machine with the medium, and the repository is one machine beside it.
fn check_machines<'a>(main: &'a [Layer], source: &'a [Layer]) -> Result<(), (&'a Layer, Conflict)> {
    let refuse = |layer, option, message: String, help: &str| {
        Err((layer, Conflict { option, message, help: help.to_owned() }))
    };
    let crosses = |layer: &Layer| layer.crossing() != Crossing::None;
    let at = main.iter().position(is_wanted_by).unwrap_or_default();
    if main[at..].iter().any(crosses) {
        let message = format!(
            "{} is in a guest or a client, and only the machine with the medium has a source",
            main[at].name()
        );
        return refuse(
            &main[at],
            None,
            message,
            "put it into the machine with the medium, as in ext4/kvm/copy:scp/ext4/hdd",
        );
    }
    if let Some(link) = main.iter().find(|layer| layer.crossing() == Crossing::Beside) {
        let message = format!("{} joins a third machine to the two of a stack with a source", link.name());
        return refuse(link, None, message, "use an image without a source, as in nbd/link/raw/ext4/hdd");
    }
    if let Some(layer) = source.iter().skip(1).find(|layer| crosses(layer)) {
        let message = format!("{} is in the source, and the repository is one machine", layer.name());
        return refuse(
            layer,
            None,
            message,
            "put the image on a file system of the repository, as in //link/raw/ext4/hdd",
        );
    }
    match source.last().filter(|medium| medium.is_set(HOST_MEMORY_OPTION)) {
        Some(medium) => refuse(
            medium,
            Some(HOST_MEMORY_OPTION),
            format!("{HOST_MEMORY_OPTION} is of the machine with the medium, and this is the repository"),
            "write it at the link of the source: link:memory=…",
        ),
        None => Ok(()),
    }
}

/// An overlay is filled from the moment its disk is plugged in, and some disks are there from the start.
fn check_prefetch(main: &[Layer]) -> Result<(), (&Layer, Conflict)> {
    let at = main.iter().position(|layer| layer.overlay().is_some_and(|overlay| overlay.prefetch));
    let above = at.and_then(|at| Some((&main[at], main[..at].iter().rev().find_map(Layer::hypervisor)?)));
    match above {
        Some((layer, hypervisor)) if hypervisor.disk.attach() == Attach::AtStart => {
            let conflict = Conflict {
                option: Some(PREFETCH),
                message:
                    "prefetch begins when a disk is plugged in, and this machine has its disk from the start"
                        .to_owned(),
                help: "omit it, or use another disk for the machine, as disk=virtio-blk".to_owned(),
            };
            Err((layer, conflict))
        }
        _ => Ok(()),
    }
}

/// The image of a source: the topmost layer of the repository.
fn image_of_source(source: &[Layer]) -> Option<&Layer> {
    source.iter().find(|layer| layer.image_format().is_some())
}

/// What a layer is to the one above it: a copy has the format of what it is a copy of, and an overlay is a qcow2. Other layers are what
/// they are.
pub(crate) fn image_of<'a>(layer: &'a Layer, source: &'a [Layer]) -> Cow<'a, Layer> {
    match layer.definition() {
        LayerDefinition::SourcedImage(Propagation::Copy) => {
            Cow::Borrowed(image_of_source(source).unwrap_or(layer))
        }
        LayerDefinition::SourcedImage(Propagation::Overlay) => Cow::Owned(Layer::plain(&qcow2::LAYER)),
        _ => Cow::Borrowed(layer),
    }
}

impl LayerSpec {
    /// How an image comes from its source; `None` for all other layers.
    pub const fn propagation(&self) -> Option<Propagation> {
        match self.definition {
            LayerDefinition::SourcedImage(propagation) => Some(propagation),
            _ => None,
        }
    }
}

impl Stack {
    /// The layer whose source the stack has.
    pub fn sourced_image(&self) -> Option<LayerIndex> {
        self.indexed_layers().find(|(_, layer)| is_wanted_by(layer)).map(|(at, _)| at)
    }

    /// The layer that reads from the repository what was not written yet; all below it is asked for the rest only.
    pub fn reads_leave_at(&self) -> Option<LayerIndex> {
        self.sourced_image().filter(|at| self.layer(*at).overlay().is_some())
    }

    /// The layers whose data are in the image that comes from the source, from the top down: those above it, up to a second virtual machine,
    /// and without the first one or the loop device that has the image.
    pub fn layers_in_image(&self) -> impl Iterator<Item = (LayerIndex, &Layer)> {
        let image = self.sourced_image();
        let above = move |at: LayerIndex| image.is_some_and(|image| at < image);
        let crosses = |layer: &Layer| layer.crossing() != Crossing::None;
        let crossings = self.indexed_layers().filter(|(at, layer)| above(*at) && crosses(layer)).count();
        let mut outer = crossings.saturating_sub(1);
        self.indexed_layers().take_while(move |(at, _)| above(*at)).filter(move |(at, layer)| {
            let is_crossing = crosses(layer);
            let is_inner = outer > 0;
            outer -= usize::from(is_crossing && is_inner);
            let makes_it_a_device =
                Some(at.below()) == image && matches!(layer.definition(), LayerDefinition::Loop);
            !is_crossing && !is_inner && !makes_it_a_device
        })
    }

    /// For those who go through the life of instances of one image at the same time: it comes from a source, and one virtual machine has it.
    ///
    /// # Errors
    ///
    /// What the stack lacks or has too many of, and what several instances cannot have.
    pub fn require_instances(&self, instances: u32, nodes: u32) -> Result<(), StackError> {
        self.require_instance()?;
        if nodes > 1 {
            self.require_several_nodes()?;
        }
        // A manager's are on nodes of its own.
        if instances > 1 && self.managed().is_none() {
            self.require_many_at_once(instances > nodes)
        } else {
            Ok(())
        }
    }

    /// For instances on several nodes at some place.
    ///
    /// # Errors
    ///
    /// There is one node, or a manager chooses them.
    pub fn require_nodes_at(&self, nodes: u32, place: &Place) -> Result<(), StackError> {
        if nodes == 1 || place.is_emulated() {
            return Ok(());
        }
        let message = format!("`--on {place}` has no {nodes} nodes for its instances");
        Err(StackError::at_layer(self, self.medium_index(), message, "use --on emulated, or omit nodes"))
    }

    /// For instances on several nodes.
    fn require_several_nodes(&self) -> Result<(), StackError> {
        let over_nfs = |at: &LayerIndex| {
            self.layer(*at).overlay().is_some_and(|options| options.over == ServedOver::Nfs)
        };
        let Some(at) = self.sourced_image().filter(over_nfs) else { return Ok(()) };
        let message = "the directory of the image is exported to one node, and there are several";
        Err(StackError::at_layer(self, at, message, "use overlay:over=nbd, or omit nodes"))
    }

    /// For several instances, some of which are on one node if they `share` it.
    fn require_many_at_once(&self, share: bool) -> Result<(), StackError> {
        let copied = self.sourced_image().and_then(|at| Some((at, self.layer(at).copy()?.transfer)));
        if let Some((image, transfer)) = copied.filter(|(_, transfer)| share && !transfer.many_at_once) {
            let message =
                format!("one node cannot receive by {} for several instances at once", transfer.name);
            return Err(StackError::at_layer(
                self,
                image,
                message,
                "use another protocol, as in copy:nbd, or as many nodes as instances, as in count=4:nodes=4",
            ));
        }
        let from_start = |layer: &Layer| {
            layer.hypervisor().is_some_and(|options| options.disk.attach() == Attach::AtStart)
        };
        let Some((at, _)) = self.indexed_layers().find(|(_, layer)| from_start(layer)) else { return Ok(()) };
        let message = "several instances boot at once and then get their disks, and this one has its disk from the start";
        Err(StackError::at_layer(self, at, message, "use another disk, as in disk=virtio-blk, or omit count"))
    }

    fn require_instance(&self) -> Result<(), StackError> {
        let Some(image) = self.sourced_image() else {
            let medium = self.medium_index();
            let message =
                "the life of an instance begins with its image at a repository, and this stack has no source";
            let help = format!(
                "put {USUAL_SOURCED} in the place of the image, and the source behind the stack: {SOURCE}{USUAL_SOURCE}"
            );
            return Err(StackError::at_layer(self, medium, message, help));
        };
        let above =
            self.indexed_layers().filter(|(at, layer)| *at < image && layer.crossing() != Crossing::None);
        let machines: Vec<LayerIndex> = above.map(|(at, _)| at).collect();
        match machines[..] {
            [_] => Ok(()),
            [] => {
                let message = "an instance is a virtual machine, and none has this image";
                Err(StackError::at_layer(self, image, message, "put kvm above it"))
            }
            [inner, ..] => {
                let message =
                    "it is in the virtual machine that has the image, and an instance is one machine";
                Err(StackError::at_layer(self, inner, message, "leave it out, with the image below it"))
            }
        }
    }

    /// An image as whoever opens it sees it: [`Stack::layer`], but for a copy the layer of its source, whose format it has, and for an
    /// overlay a qcow2.
    pub fn opened_image(&self, at: LayerIndex) -> Cow<'_, Layer> {
        image_of(self.layer(at), self.source())
    }
}
