//! What requests are counted and written with.

use std::path::Path;

use nestor_layout::Class;

use crate::error::TraceError;
use crate::event::{Action, BlockEvent, Device, Direction, Flags, SECTOR_BYTES};
use crate::layer::LayerAccumulator;
use crate::metrics::{LayerMetrics, TracePoint};
use crate::request::{Operation, Request};
use crate::request_file::{RequestHeader, RequestWriter};

/// A request that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub queued_ns: u64,
    pub operation: Operation,
    pub offset: u64,
    pub bytes: u64,
    pub pid: u32,
}

/// The requests of one level: counted as a layer, and written to a file if there is one.
///
/// Layers are counted by events of the block layer, so a request is given to the same counting as a queue event and an
/// issue in one moment, and a completion: a hypervisor does not show what it does in between.
pub(super) struct Collected {
    layer: LayerAccumulator,
    writer: Option<RequestWriter>,
    next_id: u64,
}

impl Collected {
    pub fn new(path: Option<&Path>, header: RequestHeader) -> Result<Self, TraceError> {
        let writer = path.map(|path| RequestWriter::create(path, header)).transpose()?;
        Ok(Self { layer: LayerAccumulator::new(TracePoint::Hypervisor, None), writer, next_id: 0 })
    }

    pub fn begin(&mut self, begun: &Begun) {
        for action in [Action::Queue, Action::GetRequest, Action::Issue] {
            self.layer.push(&block_event(begun, action, begun.queued_ns));
        }
    }

    pub fn complete(&mut self, begun: &Begun, completed_ns: u64) -> Result<(), TraceError> {
        self.layer.push(&block_event(begun, Action::Complete, completed_ns));
        let request = Request {
            id: self.next_id,
            operation: begun.operation,
            flags: flags(begun.operation),
            class: if begun.operation == Operation::Flush { Class::Flush } else { Class::Unknown },
            offset: begun.offset,
            bytes: begun.bytes,
            queued_ns: begun.queued_ns,
            issued_ns: begun.queued_ns,
            completed_ns,
            bios: 1,
            pid: begun.pid,
        };
        self.next_id += 1;
        self.writer.as_mut().map_or(Ok(()), |writer| writer.push(&request))
    }

    pub fn finish(self, dropped_events: u64) -> Result<LayerMetrics, TraceError> {
        if let Some(writer) = self.writer {
            writer.finish()?;
        }
        let idle = self.layer.events() == 0;
        let mut metrics = self.layer.finish(dropped_events);
        if idle {
            metrics.remarks.push("no request reached this layer while it was recorded".to_owned());
        }
        Ok(metrics)
    }
}

fn flags(operation: Operation) -> Flags {
    Flags::default().with(Flags::FLUSH, operation == Operation::Flush)
}

fn block_event(begun: &Begun, action: Action, time_ns: u64) -> BlockEvent {
    BlockEvent {
        time_ns,
        sequence: 0,
        cpu: 0,
        pid: begun.pid,
        device: Device::default(),
        action,
        direction: match begun.operation {
            Operation::Read => Direction::Read,
            Operation::Write => Direction::Write,
            Operation::Discard => Direction::Discard,
            Operation::Flush => Direction::None,
        },
        flags: flags(begun.operation),
        sector: begun.offset / SECTOR_BYTES,
        bytes: begun.bytes,
        error: 0,
    }
}
