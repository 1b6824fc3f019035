//! The medium that takes no time.

use super::{Completion, Model, ModelRequest, ServiceParts};

/// Completes every request at the moment it arrives.
#[derive(Debug, Default)]
pub struct NullModel {
    waiting: Vec<Completion>,
}

impl Model for NullModel {
    fn submit(&mut self, request: ModelRequest, now_ns: u64) {
        self.waiting.push(Completion {
            id: request.id,
            service_start_ns: now_ns,
            complete_ns: now_ns,
            parts: ServiceParts::default(),
            cache_hit: false,
        });
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.waiting.first().map(|c| c.complete_ns)
    }

    fn advance(&mut self, _now_ns: u64, completions: &mut Vec<Completion>) {
        completions.append(&mut self.waiting);
    }

    fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    fn settle(&mut self, _now_ns: u64) {}

    fn write_cache(&self) -> bool {
        false
    }

    fn set_write_cache(&mut self, _on: bool) {}

    fn reset(&mut self, _now_ns: u64) {
        self.waiting.clear();
    }
}
