//! Damaged structures that are passed over: the rest of the file system is read nevertheless.

use crate::builder::LayoutBuilder;
use crate::read_at::LayoutError;

/// Counts the structures that were passed over, and keeps what was wrong with the first.
#[derive(Debug, Default)]
pub(crate) struct PassedOver {
    count: u64,
    first: Option<(u64, String)>,
}

impl PassedOver {
    /// Notes a damaged structure, and gives what was read of one that is whole.
    ///
    /// # Errors
    /// Any other error than damage.
    pub(crate) fn note<T>(&mut self, read: Result<T, LayoutError>) -> Result<Option<T>, LayoutError> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(LayoutError::Damaged { offset, reason, .. }) => {
                self.count = self.count.saturating_add(1);
                self.first.get_or_insert((offset, reason));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Remarks on them, if there were any.
    pub(crate) fn remark(self, builder: &mut LayoutBuilder) {
        if let Some((offset, reason)) = self.first {
            builder.remark(format!(
                "damaged structures were skipped: {}, the first at byte {offset}: {reason}; check the file \
                 system with its fsck",
                self.count
            ));
        }
    }
}
