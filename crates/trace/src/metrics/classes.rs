//! What the requests of a layer were for.

use nestor_layout::Class;
use serde::{Deserialize, Serialize};

use super::LayerMetrics;

/// The requests that were sent downwards for one purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassMetrics {
    /// Requests of which most bytes were for it.
    pub requests: u64,
    /// Bytes read for it, also by requests that were mostly for something else.
    pub read_bytes: u64,
    /// Bytes written for it.
    pub write_bytes: u64,
    /// Of [`Class::FileData`] only: bytes read and written, in the counts above, that were at places where nothing was
    /// when the layout was read; data of files deleted since, most likely.
    #[serde(default)]
    pub deleted_bytes: u64,
}

impl ClassMetrics {
    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.read_bytes.saturating_add(self.write_bytes)
    }
}

impl LayerMetrics {
    /// Bytes read and written of unknown purpose; `None` if nothing was attributed.
    pub fn unclassified_bytes(&self) -> Option<u64> {
        (!self.classes.is_empty()).then(|| self.classes.get(&Class::Unknown).map_or(0, ClassMetrics::bytes))
    }
}
