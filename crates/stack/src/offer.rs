//! What passes from a layer to the one above it.

use serde::Serialize;

use crate::{Layer, LayerDefinition, MediumKind};

/// What passes from a layer to the one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offer {
    /// A block device.
    Block,
    /// A directory on a mounted file system.
    Dir,
    /// A disk image: one or more files in a directory.
    Image,
    /// A block device of another machine.
    RemoteBlock,
    /// A directory of another machine.
    RemoteDir,
    /// A disk image of another machine.
    RemoteImage,
}

impl Offer {
    /// What a stack can end with at its top: what is in the application's machine.
    pub(crate) const AT_THE_TOP: [Self; 3] = [Self::Block, Self::Dir, Self::Image];

    /// In words, with the article: `a block device`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Block => "a block device",
            Self::Dir => "a directory",
            Self::Image => "an image",
            Self::RemoteBlock => "a block device over a link",
            Self::RemoteDir => "a directory over a link",
            Self::RemoteImage => "an image over a link",
        }
    }
}

/// What a layer makes of one thing below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerRule {
    /// What it stands on; `None` for a medium, which stands on nothing.
    pub needs: Option<Offer>,
    /// What it gives to the layer above it there.
    pub offers: Offer,
}

const fn on(needs: Offer, offers: Offer) -> LayerRule {
    LayerRule { needs: Some(needs), offers }
}

impl LayerDefinition {
    /// What the layer can stand on, and what it makes of each; at least one. Only this decides what fits together.
    pub const fn rules(&self) -> &'static [LayerRule] {
        match self {
            Self::FileSystem(_) => const { &[on(Offer::Block, Offer::Dir)] },
            Self::ImageFormat(_) => const { &[on(Offer::Dir, Offer::Image)] },
            Self::SourcedImage(_) => const { &[on(Offer::Dir, Offer::Image)] },
            Self::Loop => const { &[on(Offer::Image, Offer::Block)] },
            // A guest has a disk, or an interface on the network.
            Self::Hypervisor(_) => {
                const {
                    &[
                        on(Offer::Block, Offer::Block),
                        on(Offer::Image, Offer::Block),
                        on(Offer::RemoteBlock, Offer::RemoteBlock),
                        on(Offer::RemoteDir, Offer::RemoteDir),
                        on(Offer::RemoteImage, Offer::RemoteImage),
                    ]
                }
            }
            Self::Link => {
                const {
                    &[
                        on(Offer::Block, Offer::RemoteBlock),
                        on(Offer::Dir, Offer::RemoteDir),
                        on(Offer::Image, Offer::RemoteImage),
                    ]
                }
            }
            Self::NetworkFileSystem => const { &[on(Offer::RemoteDir, Offer::Dir)] },
            Self::NetworkDisk => {
                const { &[on(Offer::RemoteBlock, Offer::Block), on(Offer::RemoteImage, Offer::Block)] }
            }
            Self::Partition | Self::PrivilegedDomain => const { &[on(Offer::Block, Offer::Block)] },
            Self::Medium(MediumKind::Directory) => const { &[LayerRule { needs: None, offers: Offer::Dir }] },
            Self::Medium(_) => const { &[LayerRule { needs: None, offers: Offer::Block }] },
        }
    }

    /// What it needs of a source, besides what it stands on; `None` for all that have none.
    pub const fn source(&self) -> Option<Offer> {
        match self {
            Self::SourcedImage(_) => Some(Offer::RemoteImage),
            _ => None,
        }
    }

    /// What it can stand on; nothing for a medium.
    pub fn needs(&self) -> impl Iterator<Item = Offer> {
        self.rules().iter().filter_map(|rule| rule.needs)
    }

    /// What it gives to the layer above it on what is below it (`None`: nothing); `None` if it cannot stand there.
    pub fn offers(&self, below: Option<Offer>) -> Option<Offer> {
        self.rules().iter().find(|rule| rule.needs == below).map(|rule| rule.offers)
    }
}

/// What the first of some layers offers on the others. One that does not fit on what is below it counts with what it offers
/// where it fits.
pub(crate) fn offered(layers: &[Layer]) -> Option<Offer> {
    layers.iter().rev().fold(None, |below, layer| {
        let definition = layer.definition();
        definition.offers(below).or_else(|| definition.rules().first().map(|rule| rule.offers))
    })
}
