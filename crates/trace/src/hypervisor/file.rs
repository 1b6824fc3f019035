//! Requests of the hypervisor on the image file.

use std::collections::BTreeMap;

use super::disk::Changes;
use super::pieces::{Begun, Collected};
use crate::decode::qemu::QemuEvent;
use crate::error::TraceError;
use crate::request::Operation;

/// `BDRV_REQ_ZERO_WRITE` (QEMU 7.2, `include/block/block-common.h`): zeroes without data.
const ZERO_WRITE: u64 = 0x2;

/// A request of the guest that is under way, and what was asked of the image file for it.
#[derive(Clone, Debug)]
struct Parent {
    begun: Begun,
    /// Bytes of data already asked for below.
    covered: u64,
    children: Vec<Begun>,
}

/// Follows the requests on one node of QEMU's block layer.
pub(super) struct FileRequests {
    node: Option<u64>,
    /// In the order in which they began, by a running number.
    parents: BTreeMap<u64, Parent>,
    by_key: std::collections::HashMap<u64, u64>,
    next: u64,
}

impl FileRequests {
    pub fn new(node: Option<u64>) -> Self {
        Self { node, parents: BTreeMap::new(), by_key: std::collections::HashMap::new(), next: 0 }
    }

    /// Takes an event, and what it meant for the requests of the virtual disk.
    pub fn look_at(
        &mut self,
        event: &QemuEvent,
        changes: Changes,
        to: &mut Collected,
    ) -> Result<(), TraceError> {
        if let Some((key, begun)) = changes.begun {
            self.parents.insert(self.next, Parent { begun, covered: 0, children: Vec::new() });
            self.by_key.insert(key, self.next);
            self.next += 1;
        }
        if let Some(number) = changes.ended.and_then(|key| self.by_key.remove(&key)) {
            let children = self.parents.remove(&number).map(|p| p.children).unwrap_or_default();
            for child in children {
                to.complete(&child, event.time_ns.max(child.queued_ns))?;
            }
        }
        let writes = match &*event.name {
            "bdrv_co_preadv_part" => false,
            "bdrv_co_pwritev_part" => true,
            _ => return Ok(()),
        };
        if self.node.is_none() || event.number("bs") != self.node {
            return Ok(());
        }
        let operation = match (writes, event.number("flags").unwrap_or(0) & ZERO_WRITE != 0) {
            (false, _) => Operation::Read,
            (true, false) => Operation::Write,
            (true, true) => Operation::Discard,
        };
        let child = Begun {
            queued_ns: event.time_ns,
            operation,
            offset: event.number("offset").unwrap_or(0),
            bytes: event.number("bytes").unwrap_or(0),
            pid: event.pid,
        };
        to.begin(&child);
        match self.parent_of(&child) {
            Some(parent) => parent.children.push(child),
            // Nobody waits for it, such as a table that is written back; all that is known is that it began.
            None => to.complete(&child, child.queued_ns)?,
        }
        Ok(())
    }

    /// The request of the guest that waits for one on the file: the oldest that moves data the same way and has not
    /// yet asked for all of it; for anything else, the oldest at all.
    fn parent_of(&mut self, child: &Begun) -> Option<&mut Parent> {
        let fits = |p: &Parent| {
            p.begun.operation == child.operation && p.begun.bytes - p.covered.min(p.begun.bytes) >= child.bytes
        };
        let data = self.parents.iter().find(|(_, p)| child.bytes > 0 && fits(p)).map(|(number, _)| *number);
        let number = data.or_else(|| self.parents.keys().next().copied())?;
        let parent = self.parents.get_mut(&number)?;
        if data.is_some() {
            parent.covered += child.bytes;
        }
        Some(parent)
    }
}
