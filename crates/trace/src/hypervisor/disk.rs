//! Requests of the guest on its virtual disk.

use std::collections::HashMap;

use super::pieces::{Begun, Collected};
use crate::decode::qemu::QemuEvent;
use crate::error::TraceError;
use crate::event::SECTOR_BYTES;
use crate::recording::Interface;
use crate::request::Operation;

/// What an event did to the requests of the virtual disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// A request ended; its key.
    pub ended: Option<u64>,
    /// A request began; its key and what it is.
    pub begun: Option<(u64, Begun)>,
}

/// Requests in flight, by their name in the events: an address, a SCSI tag, an NVMe queue and command number.
pub(super) struct DiskRequests {
    interface: Interface,
    device: Option<u64>,
    under_way: HashMap<u64, Begun>,
    /// SCSI: what a command moves, until its address is known. NVMe: the queue of the command that was fetched last.
    half: HashMap<u64, u64>,
}

/// How many commands may wait for their second line; more are dropped, because an event of theirs was lost.
const MOST_HALVES: usize = 4096;

impl DiskRequests {
    pub fn new(interface: Interface, device: Option<u64>) -> Self {
        Self { interface, device, under_way: HashMap::new(), half: HashMap::new() }
    }

    pub fn look_at(&mut self, event: &QemuEvent, to: &mut Collected) -> Result<Changes, TraceError> {
        match self.interface {
            Interface::VirtioBlk => self.virtio_blk(event, to),
            Interface::Scsi => self.scsi(event, to),
            Interface::Ata => self.ata(event, to),
            Interface::Nvme => self.nvme(event, to),
        }
    }

    fn begin(&mut self, key: u64, begun: Begun, to: &mut Collected) -> Changes {
        to.begin(&begun);
        self.under_way.insert(key, begun);
        Changes { begun: Some((key, begun)), ended: None }
    }

    fn end(&mut self, key: u64, time_ns: u64, to: &mut Collected) -> Result<Changes, TraceError> {
        let Some(begun) = self.under_way.remove(&key) else { return Ok(Changes::default()) };
        to.complete(&begun, time_ns)?;
        Ok(Changes { ended: Some(key), begun: None })
    }

    /// A flush of which only one moment is known.
    fn flush(event: &QemuEvent, to: &mut Collected) -> Result<Changes, TraceError> {
        let begun = begun(event, Operation::Flush, 0, 0);
        to.begin(&begun);
        to.complete(&begun, event.time_ns)?;
        Ok(Changes::default())
    }

    fn virtio_blk(&mut self, event: &QemuEvent, to: &mut Collected) -> Result<Changes, TraceError> {
        if event.number("vdev").is_none() || event.number("vdev") != self.device {
            return Ok(Changes::default());
        }
        let key = event.number("req").unwrap_or(0);
        let operation = match &*event.name {
            "virtio_blk_handle_read" => Operation::Read,
            "virtio_blk_handle_write" => Operation::Write,
            // No event reports a flush before it is done.
            "virtio_blk_req_complete" if !self.under_way.contains_key(&key) => return Self::flush(event, to),
            "virtio_blk_req_complete" => return self.end(key, event.time_ns, to),
            _ => return Ok(Changes::default()),
        };
        let sectors = |name| event.number(name).unwrap_or(0).saturating_mul(SECTOR_BYTES);
        Ok(self.begin(key, begun(event, operation, sectors("sector"), sectors("nsectors")), to))
    }

    /// A command has two lines: what it moves, and (if it has one) its address.
    fn scsi(&mut self, event: &QemuEvent, to: &mut Collected) -> Result<Changes, TraceError> {
        let field = |name: &str| event.signed(name).unwrap_or(0) as u64;
        // Tags are 32 bits; target and LUN are small.
        let key = (field("target") << 48) ^ (field("lun") << 32) ^ (field("tag") & 0xffff_ffff);
        match &*event.name {
            "scsi_req_parsed" => {
                let command = field("command");
                if scsi_operation(command) == Some(Operation::Flush) {
                    return Ok(self.begin(key, begun(event, Operation::Flush, 0, 0), to));
                }
                self.keep_half(key, field("length"));
                Ok(Changes::default())
            }
            "scsi_req_parsed_lba" => {
                let moved = self.half.remove(&key);
                let operation = scsi_operation(field("command")).filter(|o| *o != Operation::Flush);
                let (Some(bytes), Some(operation)) = (moved, operation) else {
                    return Ok(Changes::default());
                };
                let offset = field("lba").saturating_mul(SECTOR_BYTES);
                Ok(self.begin(key, begun(event, operation, offset, bytes), to))
            }
            "scsi_req_dequeue" => {
                self.half.remove(&key);
                self.end(key, event.time_ns, to)
            }
            _ => Ok(Changes::default()),
        }
    }

    /// The controller's own request has an offset; how long it is shows in the requests of the block layer that
    /// follow it without a gap.
    fn ata(&mut self, event: &QemuEvent, to: &mut Collected) -> Result<Changes, TraceError> {
        match &*event.name {
            // FLUSH CACHE and FLUSH CACHE EXT (ATA/ATAPI-8 ACS, §7.15 and §7.16).
            "ide_exec_cmd" if matches!(event.number("cmd"), Some(0xe7 | 0xea)) => Self::flush(event, to),
            "dma_blk_io" => {
                let operation =
                    if event.number("to_dev") == Some(1) { Operation::Write } else { Operation::Read };
                let key = event.number("dbs").unwrap_or(0);
                self.half.insert(key, 0);
                let begun = begun(event, operation, event.number("offset").unwrap_or(0), 0);
                self.under_way.insert(key, begun);
                Ok(Changes::default())
            }
            "blk_co_preadv" | "blk_co_pwritev" => {
                let (offset, bytes) = (event.number("offset"), event.number("bytes"));
                let next = self.under_way.iter_mut().find(|(_, r)| Some(r.offset + r.bytes) == offset);
                let Some((key, request)) = next else { return Ok(Changes::default()) };
                request.bytes += bytes.unwrap_or(0);
                let (key, request) = (*key, *request);
                // Only the first part is known when it begins; disks' requests are hardly ever cut.
                if self.half.remove(&key).is_some() {
                    to.begin(&request);
                    return Ok(Changes { begun: Some((key, request)), ended: None });
                }
                Ok(Changes::default())
            }
            "dma_complete" => self.end(event.number("dbs").unwrap_or(0), event.time_ns, to),
            _ => Ok(Changes::default()),
        }
    }

    /// A command is fetched from a queue, then read or written; only the first line names the queue.
    fn nvme(&mut self, event: &QemuEvent, to: &mut Collected) -> Result<Changes, TraceError> {
        let command = event.number("cid").unwrap_or(0);
        let key_of = |queue: u64| (queue << 16) | command;
        match &*event.name {
            "pci_nvme_io_cmd" => {
                let queue = event.number("sqid").unwrap_or(0);
                self.keep_half(command, queue);
                // Opcode 0 is Flush (NVM Express base specification 1.4, figure 346).
                if event.number("opc") == Some(0) {
                    return Ok(self.begin(key_of(queue), begun(event, Operation::Flush, 0, 0), to));
                }
                Ok(Changes::default())
            }
            "pci_nvme_read" | "pci_nvme_write" => {
                let queue = self.half.remove(&command).unwrap_or(1);
                let operation =
                    if &*event.name == "pci_nvme_read" { Operation::Read } else { Operation::Write };
                let offset = event.number("lba").unwrap_or(0).saturating_mul(SECTOR_BYTES);
                let bytes = event.number("count").unwrap_or(0);
                Ok(self.begin(key_of(queue), begun(event, operation, offset, bytes), to))
            }
            // QEMU's driver pairs give submission and completion queues the same numbers.
            "pci_nvme_enqueue_req_completion" => {
                self.end(key_of(event.number("cqid").unwrap_or(1)), event.time_ns, to)
            }
            _ => Ok(Changes::default()),
        }
    }

    fn keep_half(&mut self, key: u64, value: u64) {
        if self.half.len() >= MOST_HALVES {
            self.half.clear();
        }
        self.half.insert(key, value);
    }
}

fn begun(event: &QemuEvent, operation: Operation, offset: u64, bytes: u64) -> Begun {
    Begun { queued_ns: event.time_ns, operation, offset, bytes, pid: event.pid }
}

/// What a SCSI command does with data (SBC-3, §5); `None` for commands that move no data of the disk.
fn scsi_operation(command: u64) -> Option<Operation> {
    Some(match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Operation::Read,
        // WRITE and WRITE AND VERIFY.
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Operation::Write,
        // SYNCHRONIZE CACHE.
        0x35 | 0x91 => Operation::Flush,
        // UNMAP and WRITE SAME.
        0x42 | 0x41 | 0x93 => Operation::Discard,
        _ => return None,
    })
}
