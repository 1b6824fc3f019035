//! How to replay.

use crate::data::WriteData;
use crate::engine::EngineChoice;
use crate::speed::Speed;

/// Requests in flight at most, where nothing else is said.
pub const USUAL_DEPTH: usize = 4096;

/// How to replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayOptions {
    /// How fast.
    pub speed: Speed,
    /// Requests in flight at most. Without it [`USUAL_DEPTH`], and as fast as possible what the trace had at most.
    pub depth: Option<usize>,
    /// Whether the last stretch before each request is spun away on a processor.
    pub spin: bool,
    /// How requests are handed over.
    pub engine: EngineChoice,
    /// What is written.
    pub data: WriteData,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            speed: Speed::default(),
            depth: None,
            spin: true,
            engine: EngineChoice::default(),
            data: WriteData::default(),
        }
    }
}
