//! Which of QEMU's devices and block nodes are those of the recorded disk: its events name them by their addresses,
//! and a lab machine has a second disk with its programs.

use std::collections::HashMap;

use crate::decode::qemu::QemuEvent;
use crate::event::SECTOR_BYTES;
use crate::recording::{HypervisorSource, Interface};

/// Offsets of requests of the guest that are remembered to be found again on their way down.
const REMEMBERED: usize = 1024;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The device, where events name it.
    pub device: Option<u64>,
    /// The block node of the image file.
    pub file_node: Option<u64>,
    pub remarks: Vec<String>,
}

/// Counts, over the whole log, which device and which node the requests belong to.
pub(super) struct Choice {
    interface: Interface,
    known: Option<u64>,
    has_format: bool,
    device_bytes: HashMap<u64, u64>,
    /// Of each node: requests at the offset of a request of a guest's, and all of them.
    nodes: HashMap<u64, (u64, u64)>,
    /// Offsets of the latest requests of the guest on any disk, as a ring.
    offsets: Vec<u64>,
    next: usize,
}

impl Choice {
    pub fn new(source: &HypervisorSource) -> Self {
        Self {
            interface: source.interface,
            known: source.device_address,
            has_format: source.format.is_some(),
            device_bytes: HashMap::new(),
            nodes: HashMap::new(),
            offsets: Vec::with_capacity(REMEMBERED),
            next: 0,
        }
    }

    pub fn look_at(&mut self, event: &QemuEvent) {
        match &*event.name {
            "virtio_blk_handle_read" | "virtio_blk_handle_write" => {
                let bytes = event.number("nsectors").unwrap_or(0).saturating_mul(SECTOR_BYTES);
                let device = event.number("vdev").unwrap_or(0);
                *self.device_bytes.entry(device).or_default() += bytes;
                self.remember(event.number("sector").unwrap_or(0).saturating_mul(SECTOR_BYTES));
            }
            "scsi_req_parsed_lba" | "pci_nvme_read" | "pci_nvme_write" => {
                self.remember(event.number("lba").unwrap_or(0).saturating_mul(SECTOR_BYTES));
            }
            "dma_blk_io" => self.remember(event.number("offset").unwrap_or(0)),
            "bdrv_co_preadv_part" | "bdrv_co_pwritev_part" if self.has_format => {
                let (Some(node), Some(offset)) = (event.number("bs"), event.number("offset")) else { return };
                let found = self.offsets.contains(&offset);
                let (hits, all) = self.nodes.entry(node).or_default();
                *hits += u64::from(found);
                *all += 1;
            }
            _ => {}
        }
    }

    fn remember(&mut self, offset: u64) {
        // Only needed to distinguish block nodes.
        if !self.has_format {
            return;
        }
        if self.offsets.len() < REMEMBERED {
            self.offsets.push(offset);
        } else {
            self.offsets[self.next] = offset;
            self.next = (self.next + 1) % REMEMBERED;
        }
    }

    pub fn end(self) -> Chosen {
        let mut remarks = Vec::new();
        let busiest = self.device_bytes.iter().max_by_key(|(address, bytes)| (**bytes, **address));
        let device = self.known.or_else(|| busiest.map(|(address, _)| *address));
        if self.interface == Interface::VirtioBlk && self.known.is_none() && self.device_bytes.len() > 1 {
            remarks.push(format!(
                "the hypervisor served {} disks; the busiest one was taken as the recorded one",
                self.device_bytes.len()
            ));
        }
        // A node above the image file sees the guest's own offsets; in the file they are elsewhere, or it would be raw.
        let below = self.nodes.iter().filter(|(_, (hits, all))| hits * 2 < *all);
        let file_node =
            below.max_by_key(|(address, (_, all))| (*all, **address)).map(|(address, _)| *address);
        if self.has_format && file_node.is_none() && !self.nodes.is_empty() {
            remarks.push("the requests to the image file could not be determined".to_owned());
        }
        Chosen { device, file_node, remarks }
    }
}
