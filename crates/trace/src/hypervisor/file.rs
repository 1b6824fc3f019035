//! Requests of the hypervisor on the image file.

use std::collections::{BTreeMap, HashMap};

use super::disk::Changes;
use super::pieces::{Begun, Collected};
use crate::decode::qemu::QemuEvent;
use crate::error::TraceError;
use crate::request::Operation;

/// `QEMU_AIO_FLUSH` (QEMU 7.2, `include/block/raw-aio.h`): what a ring is asked for.
const RING_FLUSH: u64 = 0x8;

/// `BDRV_REQ_ZERO_WRITE` (QEMU 7.2, `include/block/block-common.h`): zeroes without data.
const ZERO_WRITE: u64 = 0x2;

/// A request of the guest in flight, and its requests to the image file.
#[derive(Clone, Debug)]
struct Parent {
    begun: Begun,
    /// Bytes that the image format was asked for; with more requests of the guest made into one, more than its own.
    asked: u64,
    /// Bytes of data already asked for below.
    covered: u64,
    children: Vec<Begun>,
}

impl Parent {
    fn lacks(&self, child: &Begun) -> bool {
        self.begun.operation == child.operation && self.asked - self.covered.min(self.asked) >= child.bytes
    }
}

/// Follows the requests on one node of QEMU's block layer.
pub(super) struct FileRequests {
    node: Option<u64>,
    /// In the order in which they began, by a running number.
    parents: BTreeMap<u64, Parent>,
    by_key: HashMap<u64, u64>,
    /// The one that the image format was handed last: what it asks of its file at once is for that one.
    current: Option<u64>,
    next: u64,
    /// Asked of the file and not yet handed to a thread or a ring, with what waits for it.
    asked: Option<(Begun, Option<u64>)>,
    /// The event before was a request on a node that is neither the file nor the format: what is handed over next
    /// belongs to it.
    of_another_node: bool,
    /// Handed over, by what the events call it.
    carried: HashMap<u64, Begun>,
}

/// The most requests in flight; more are a sign of lost events.
const MOST_CARRIED: usize = 65_536;

impl FileRequests {
    pub fn new(node: Option<u64>) -> Self {
        Self {
            node,
            parents: BTreeMap::new(),
            by_key: HashMap::new(),
            current: None,
            next: 0,
            asked: None,
            of_another_node: false,
            carried: HashMap::new(),
        }
    }

    /// Takes an event, and what it meant for the requests of the virtual disk.
    pub fn look_at(
        &mut self,
        event: &QemuEvent,
        changes: Changes,
        to: &mut Collected,
    ) -> Result<(), TraceError> {
        if !matches!(&*event.name, "thread_pool_submit" | "luring_co_submit") {
            self.settle(to)?;
            self.of_another_node = false;
        }
        if let Some((key, begun)) = changes.begun {
            let parent = Parent { begun, asked: begun.bytes, covered: 0, children: Vec::new() };
            self.parents.insert(self.next, parent);
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
            _ => return self.carry(event, to),
        };
        let number = |name: &str| event.number(name).unwrap_or(0);
        if self.node.is_none() {
            return Ok(());
        }
        if event.number("bs") != self.node {
            self.of_another_node = !self.hand_over(writes, number("offset"), number("bytes"));
            return Ok(());
        }
        let operation = match (writes, number("flags") & ZERO_WRITE != 0) {
            (false, _) => Operation::Read,
            (true, false) => Operation::Write,
            (true, true) => Operation::Discard,
        };
        let (offset, bytes) = (number("offset"), number("bytes"));
        let child = Begun { queued_ns: event.time_ns, operation, offset, bytes, pid: event.pid };
        to.begin(&child);
        self.asked = Some((child, self.parent_of(&child)));
        Ok(())
    }

    /// Nothing tells when the request that was asked for last will be over: it is when what waits for it is, which is
    /// the latest it can be.
    pub fn settle(&mut self, to: &mut Collected) -> Result<(), TraceError> {
        let Some((child, parent)) = self.asked.take() else { return Ok(()) };
        match parent.and_then(|number| self.parents.get_mut(&number)) {
            Some(parent) => parent.children.push(child),
            // No request waits for it (for example a table that is written back), so only its beginning is known.
            None => to.complete(&child, child.queued_ns)?,
        }
        Ok(())
    }

    /// A thread or a ring takes the request that was asked for last, in the same breath, and later is done with it.
    fn carry(&mut self, event: &QemuEvent, to: &mut Collected) -> Result<(), TraceError> {
        let (begins, name) = match &*event.name {
            "thread_pool_submit" => (true, "req"),
            "luring_co_submit" => (true, "luringcb"),
            "thread_pool_complete" => (false, "req"),
            "luring_process_completion" => (false, "luringcb"),
            _ => return Ok(()),
        };
        let Some(key) = event.number(name) else { return Ok(()) };
        if !begins {
            return match self.carried.remove(&key) {
                Some(child) => to.complete(&child, event.time_ns.max(child.queued_ns)),
                None => Ok(()),
            };
        }
        let child = match self.asked.take() {
            Some((child, _)) => Some(child),
            None => self.flush(event).inspect(|flush| to.begin(flush)),
        };
        self.of_another_node = false;
        if let Some(child) = child.filter(|_| self.carried.len() < MOST_CARRIED) {
            self.carried.insert(key, child);
        }
        Ok(())
    }

    /// A flush of the file, which no event of QEMU's block layer tells: a ring is told what it is asked for, and a thread
    /// that is handed something while no node was asked for anything flushes (`raw_co_flush_to_disk` in QEMU's
    /// `block/file-posix.c`). Formats that make their file longer first (vhdx) use the same threads for that, seldom.
    fn flush(&self, event: &QemuEvent) -> Option<Begun> {
        let flushes = match &*event.name {
            "luring_co_submit" => event.number("bs") == self.node && event.number("type") == Some(RING_FLUSH),
            _ => !self.of_another_node,
        };
        (flushes && self.node.is_some()).then_some(Begun {
            queued_ns: event.time_ns,
            operation: Operation::Flush,
            offset: 0,
            bytes: 0,
            pid: event.pid,
        })
    }

    /// A request on a node above the file: the image format was handed a request of the guest, or several as one. False
    /// if it is none of the guest's on this disk.
    fn hand_over(&mut self, writes: bool, offset: u64, bytes: u64) -> bool {
        let operation = if writes { Operation::Write } else { Operation::Read };
        let is_it = |p: &Parent| p.begun.operation == operation && p.begun.offset == offset && p.covered == 0;
        // The youngest: what began before it was handed over before.
        let found = self.parents.iter_mut().rev().find(|(_, parent)| is_it(parent));
        let Some((number, parent)) = found else { return false };
        parent.asked = parent.asked.max(bytes);
        self.current = Some(*number);
        true
    }

    /// The request of the guest that waits for one on the file: the one that was handed over last if it has not asked
    /// for all of its data yet; else the format had to wait for something in between, and it is the oldest one that
    /// lacks data; for anything else, such as tables, the one that was handed over last.
    fn parent_of(&mut self, child: &Begun) -> Option<u64> {
        let lacks = |number: &u64| self.parents.get(number).is_some_and(|p| p.lacks(child));
        let oldest = || self.parents.iter().find(|(_, p)| p.lacks(child)).map(|(number, _)| *number);
        let data = self.current.filter(lacks).or_else(oldest).filter(|_| child.bytes > 0);
        let last = self.current.filter(|number| self.parents.contains_key(number));
        let number = data.or(last).or_else(|| self.parents.keys().next().copied())?;
        if data.is_some() {
            self.parents.get_mut(&number)?.covered += child.bytes;
        }
        Some(number)
    }
}
