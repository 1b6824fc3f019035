//! The layers that are looked at, from the hypervisor down to the disks.

use std::fmt;

use nestor_trace::event::Device;
use serde::Serialize;

/// What a layer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// A process that runs a virtual machine: what it asks of its images, from the call to its return.
    Hypervisor,
    /// A file system of this machine: what it hands to the device below, from the moment that it does.
    FileSystem,
    /// A block device: what is with its driver.
    Device(BlockLayer),
}

/// How a block device is traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockLayer {
    /// Its number.
    pub device: Device,
    /// Partitions whose events count as the device's.
    pub partitions: Vec<Device>,
    /// Whether it has requests of its own. Others hand bios on, and have them from the moment that they get them.
    pub has_requests: bool,
}

impl LayerKind {
    /// As in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Hypervisor => "hypervisor",
            Self::FileSystem => "file-system",
            Self::Device(_) => "device",
        }
    }
}

/// A layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// How it is shown: `qemu mail`, `ext4 /srv`, `dm-0`.
    pub name: String,
    /// What it is.
    pub kind: LayerKind,
    /// How far down; devices side by side have the same.
    pub level: usize,
}

/// All of them: levels ascend, a file system is directly above the devices that it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layers(Vec<Layer>);

impl Layers {
    /// No layer yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds layers side by side, below all others.
    pub fn add(&mut self, side_by_side: impl IntoIterator<Item = (String, LayerKind)>) {
        let level = self.0.last().map_or(0, |layer| layer.level + 1);
        self.0.extend(side_by_side.into_iter().map(|(name, kind)| Layer { name, kind, level }));
    }

    /// From the top down.
    pub fn all(&self) -> &[Layer] {
        &self.0
    }

    /// Every device and partition whose events are needed.
    pub fn devices(&self) -> Vec<Device> {
        let blocks = self.0.iter().filter_map(|layer| match &layer.kind {
            LayerKind::Device(block) => Some(block),
            _ => None,
        });
        blocks
            .flat_map(|block| std::iter::once(block.device).chain(block.partitions.iter().copied()))
            .collect()
    }

    /// The file system that hands its requests to the devices of a level.
    pub(crate) fn file_system_above(&self, level: usize) -> Option<usize> {
        let is_it = |layer: &Layer| layer.level + 1 == level && layer.kind == LayerKind::FileSystem;
        self.0.iter().position(is_it)
    }
}

impl fmt::Display for Layers {
    /// From the top down: `qemu mail > ext4 /srv > sda`; devices side by side with a plus sign.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before: Option<usize> = None;
        for layer in &self.0 {
            match before {
                None => {}
                Some(level) if level == layer.level => f.write_str(" + ")?,
                Some(_) => f.write_str(" > ")?,
            }
            f.write_str(&layer.name)?;
            before = Some(layer.level);
        }
        Ok(())
    }
}

impl Serialize for LayerKind {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.word())
    }
}
