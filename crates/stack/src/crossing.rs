//! Where a write goes from one machine to another.

use serde::{Deserialize, Serialize};

use crate::layers::network::LinkOptions;
use crate::{Layer, LayerDefinition, Stack};

/// The position of the machine above a layer, seen from the machine below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crossing {
    /// It is the same machine.
    None,
    /// Another machine, which the one below runs: a guest in its host.
    Inside,
    /// Another machine, beside the one below: a client beside its server.
    Beside,
}

impl LayerDefinition {
    /// Whether what is above the layer is in another machine than what is below it, and where that machine is. Only this
    /// decides it.
    pub const fn crossing(&self) -> Crossing {
        match self {
            Self::FileSystem(_) | Self::ImageFormat(_) | Self::SourcedImage(_) => Crossing::None,
            Self::Loop | Self::Partition => Crossing::None,
            Self::NetworkFileSystem | Self::NetworkDisk | Self::PrivilegedDomain | Self::Medium(_) => {
                Crossing::None
            }
            Self::Hypervisor(_) => Crossing::Inside,
            Self::Link => Crossing::Beside,
        }
    }
}

impl Layer {
    /// [`LayerDefinition::crossing`] of its definition.
    pub fn crossing(&self) -> Crossing {
        self.definition().crossing()
    }
}

/// The position of a layer in its stack, from the application down; the layers of a source follow those that a write passes. Results keep it as a plain number, which may be of no layer of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LayerIndex(usize);

impl LayerIndex {
    /// The layer that the application works on.
    pub const TOP: Self = Self(0);

    /// Its index in [`Stack::layers`], or behind these in [`Stack::source`].
    pub const fn position(self) -> usize {
        self.0
    }

    /// The layer above it, which the top does not have.
    pub const fn above(self) -> Option<Self> {
        match self.0.checked_sub(1) {
            Some(above) => Some(Self(above)),
            None => None,
        }
    }

    /// The layer below it, which a medium does not have.
    pub const fn below(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl Stack {
    /// The layers that a write passes with their positions, application side first.
    pub fn indexed_layers(
        &self,
    ) -> impl DoubleEndedIterator<Item = (LayerIndex, &Layer)> + ExactSizeIterator {
        self.layers().iter().enumerate().map(|(position, layer)| (LayerIndex(position), layer))
    }

    /// The layers of the source with their positions, from its link down.
    pub fn indexed_source(
        &self,
    ) -> impl DoubleEndedIterator<Item = (LayerIndex, &Layer)> + ExactSizeIterator {
        let first = self.layers().len();
        self.source().iter().enumerate().map(move |(position, layer)| (LayerIndex(first + position), layer))
    }

    /// The layers of both lines with their positions, those of the source last.
    pub fn indexed_all(&self) -> impl DoubleEndedIterator<Item = (LayerIndex, &Layer)> + ExactSizeIterator {
        self.lines().all().iter().enumerate().map(|(position, layer)| (LayerIndex(position), layer))
    }

    /// The layer at a position.
    ///
    /// # Panics
    ///
    /// If the position is not of this stack.
    pub fn layer(&self, index: LayerIndex) -> &Layer {
        &self.lines().all()[index.0]
    }

    /// The position of the medium.
    pub fn medium_index(&self) -> LayerIndex {
        LayerIndex(self.layers().len() - 1)
    }

    /// The layers above one of them, application side first; of a layer of the source, those of the source.
    pub fn above(&self, index: LayerIndex) -> &[Layer] {
        &self.lines().all()[self.lines().line_of(index).start..index.0]
    }

    /// The layers below one of them, down to the medium of its line.
    pub fn below(&self, index: LayerIndex) -> &[Layer] {
        &self.lines().all()[index.0 + 1..self.lines().line_of(index).end]
    }

    /// The nearest link below a layer.
    pub fn link_below(&self, index: LayerIndex) -> Option<(LayerIndex, LinkOptions)> {
        let below = self.indexed_layers().skip(index.below().0);
        below.filter_map(|(at, layer)| Some((at, layer.link()?))).next()
    }

    /// The nearest loop device below a layer.
    pub fn loop_device_below(&self, index: LayerIndex) -> Option<LayerIndex> {
        let mut below = self.indexed_layers().skip(index.below().0);
        below.find(|(_, layer)| layer.is_loop_device()).map(|(at, _)| at)
    }

    /// The layers at which a write goes to another machine, application side first.
    pub fn crossings(&self) -> impl DoubleEndedIterator<Item = (LayerIndex, Crossing)> {
        self.indexed_layers()
            .map(|(index, layer)| (index, layer.crossing()))
            .filter(|(_, crossing)| *crossing != Crossing::None)
    }

    /// The hypervisor of the innermost machine: the crossing into a machine inside that is nearest to the application.
    pub fn innermost_hypervisor(&self) -> Option<LayerIndex> {
        self.crossings().find_map(|(index, crossing)| (crossing == Crossing::Inside).then_some(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossings_come_from_the_application_down_with_where_the_upper_machine_stands() {
        let stack = Stack::parse("ext2/kvm/raw/nfs/link/ext4/tcg/hdd").unwrap();
        let crossings: Vec<_> =
            stack.crossings().map(|(index, crossing)| (stack.layer(index).name(), crossing)).collect();
        assert_eq!(
            crossings,
            [("kvm", Crossing::Inside), ("link", Crossing::Beside), ("tcg", Crossing::Inside)]
        );
        let innermost = stack.innermost_hypervisor().unwrap();
        assert_eq!((stack.above(innermost).len(), stack.below(innermost).len()), (1, 6));
        assert_eq!(
            serde_json::to_string(&innermost).unwrap(),
            "1",
            "records have always kept a plain number"
        );
        assert_eq!(Stack::parse("nfs/link/ext4/hdd").unwrap().innermost_hypervisor(), None);
    }
}
