//! A way of an image to its node, and what it loses when the repository dies.

use std::fmt;

use nestor_stack::layers::sourced::{OverlayOptions, ServedOver};
use nestor_stack::{Layer, Stack};
use serde::Serialize;

/// A way of an image to its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Way {
    /// The layer of a stack, in canonical notation: `copy:nbd`, `overlay:over=nfs`.
    pub layer: String,
    /// What is lost when the repository dies.
    pub loss: RepositoryLoss,
}

/// What is lost when the repository dies, by what the layer promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "loses")]
pub enum RepositoryLoss {
    /// Nothing of an instance that runs; instances whose image is not copied yet do not start.
    NewInstances,
    /// What was not written on the node: each read of it, and each write of a part of a cluster, for which the rest is read.
    UnwrittenParts {
        /// What becomes of such a read.
        then: ReadsThen,
        /// Whether that ends when the rest of the image has been copied behind the guest's back.
        until_filled: bool,
    },
}

/// What becomes of a read from a repository that is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadsThen {
    /// The guest gets an error as soon as the connection is known to be lost: QEMU's client does not wait for another one
    /// (`reconnect-delay` of qemu's block driver `nbd` is 0 by default).
    Fail,
    /// The guest waits until the repository is back: the mount is `hard` (`nfs(5)`).
    Hang,
}

impl Way {
    /// The way of a stack's image; `None` for stacks without a source.
    pub fn of(stack: &Stack) -> Option<Self> {
        Self::of_layer(stack.layer(stack.sourced_image()?))
    }

    /// The way that a layer is; `None` for other layers.
    pub fn of_layer(layer: &Layer) -> Option<Self> {
        let loss = match (layer.copy(), layer.overlay()) {
            (Some(_), _) => RepositoryLoss::NewInstances,
            (None, Some(OverlayOptions { over, prefetch })) => RepositoryLoss::UnwrittenParts {
                then: match over {
                    ServedOver::Nbd => ReadsThen::Fail,
                    ServedOver::Nfs => ReadsThen::Hang,
                },
                until_filled: prefetch,
            },
            (None, None) => return None,
        };
        Some(Self { layer: layer.to_string(), loss })
    }

    /// Whether all of the image is on the node before the instance starts.
    pub fn is_copy(&self) -> bool {
        self.loss == RepositoryLoss::NewInstances
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.layer)
    }
}

impl fmt::Display for RepositoryLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::UnwrittenParts { then, until_filled } = self else {
            return f.write_str(
                "nothing of an instance that runs; one whose image is not copied yet does not start",
            );
        };
        let then = match then {
            ReadsThen::Fail => "fails",
            ReadsThen::Hang => "hangs until it is back",
        };
        write!(f, "each read of a part that the instance has not written {then}")?;
        f.write_str(if *until_filled { ", until the whole image is filled in" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(layer: &str) -> Way {
        Way::of_layer(&Layer::parse(layer).unwrap()).unwrap()
    }

    #[test]
    fn what_a_dead_repository_loses_follows_from_the_layer() {
        assert!(way("copy:http:ranges=4").is_copy());
        insta::assert_snapshot!(way("copy:scp").loss, @"nothing of an instance that runs; one whose image is not copied yet does not start");
        insta::assert_snapshot!(way("overlay").loss, @"each read of a part that the instance has not written fails");
        insta::assert_snapshot!(way("overlay:over=nfs:prefetch").loss, @"each read of a part that the instance has not written hangs until it is back, until the whole image is filled in");
        assert_eq!(Way::of_layer(&Layer::parse("raw").unwrap()), None);
        let stack = Stack::parse("ext4/kvm/overlay:over=nfs/ext4/hdd//link/raw/ext4/hdd").unwrap();
        assert_eq!(Way::of(&stack).unwrap().to_string(), "overlay:over=nfs");
    }
}
