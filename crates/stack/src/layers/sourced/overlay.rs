//! `overlay`: an image whose unwritten parts stay at the repository and are read from there when they are needed.

use crate::spec::no_conflicts;
use crate::{Layer, LayerDefinition, LayerSpec, OptionKind, OptionSpec, Propagation};

/// How the image at the repository is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedOver {
    /// By the protocol of the network block device, from qemu-nbd.
    Nbd,
    /// As a file on a network file system.
    Nfs,
}

impl ServedOver {
    const ALL: [Self; 2] = [Self::Nbd, Self::Nfs];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nbd => "nbd",
            Self::Nfs => "nfs",
        }
    }
}

pub(crate) const OVER: &str = "over";
pub(crate) const PREFETCH: &str = "prefetch";

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "overlay",
    summary: "qcow2 image on top of its source, which stays where it is and is read over the link when it is needed",
    options: &[
        OptionSpec {
            name: OVER,
            summary: "how the source is read",
            kind: OptionKind::Choice(&[ServedOver::Nbd.name(), ServedOver::Nfs.name()]),
            default: Some(ServedOver::Nbd.name()),
        },
        OptionSpec {
            name: PREFETCH,
            summary: "whether the rest of the source is copied while the guest runs",
            kind: OptionKind::Flag,
            default: Some("off"),
        },
    ],
    definition: LayerDefinition::SourcedImage(Propagation::Overlay),
    packages: &["qemu-utils"],
    check: no_conflicts,
    not_buildable: None,
};

/// The options of `overlay`, typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverlayOptions {
    /// How the source is read.
    pub over: ServedOver,
    /// Whether the rest of the source is copied while the guest runs.
    pub prefetch: bool,
}

impl Layer {
    /// The options of `overlay`; `None` for other layers.
    pub fn overlay(&self) -> Option<OverlayOptions> {
        let LayerDefinition::SourcedImage(Propagation::Overlay) = self.definition() else { return None };
        let over = ServedOver::ALL.into_iter().find(|over| self.option(OVER) == Some(over.name()))?;
        Some(OverlayOptions { over, prefetch: self.is_on(PREFETCH) })
    }
}
