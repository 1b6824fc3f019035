//! Adding up.

use std::collections::BTreeMap;

use nestor_layout::Class;

use super::{Attributed, CLASSES};
use crate::metrics::ClassMetrics;
use crate::request::Operation;

/// Counts attributed requests by class, without a look-up for each.
#[derive(Clone, Debug, Default)]
pub struct ClassTally {
    classes: [ClassMetrics; CLASSES],
}

impl ClassTally {
    /// Counts a request. Bytes of discards are not counted, because they move no data.
    pub fn count(&mut self, operation: Operation, attributed: &Attributed) {
        self.classes[attributed.class as usize].requests += 1;
        if operation == Operation::Discard {
            return;
        }
        for (class, bytes) in attributed.parts() {
            let metrics = &mut self.classes[class as usize];
            match operation {
                Operation::Read => metrics.read_bytes += bytes,
                _ => metrics.write_bytes += bytes,
            }
        }
        self.classes[Class::FileData as usize].deleted_bytes += attributed.deleted_bytes;
    }

    /// The classes of which there was something.
    pub fn finish(&self) -> BTreeMap<Class, ClassMetrics> {
        let all = Class::ALL.into_iter().zip(self.classes);
        all.filter(|(_, metrics)| *metrics != ClassMetrics::default()).collect()
    }
}
