//! The report of a study from the file of its results.

use std::panic::resume_unwind;
use std::thread;

use nestor_results::claims::answer_all;
use nestor_results::{Store, StoreError, StudyRecord};

use super::StudyReport;

impl StudyReport {
    /// The report of a study from what is kept of it, with all that it asks its results answered.
    ///
    /// Claims ask the file by a connection of their own, which takes as long as all the rest: both go on at once.
    ///
    /// # Errors
    ///
    /// If the file of results cannot be read.
    pub fn from_store(store: &Store, record: &StudyRecord) -> Result<Self, StoreError> {
        let again = store.again()?;
        thread::scope(|scope| {
            let judging = scope.spawn(move || answer_all(&again, record));
            let report = store
                .cells(&record.hash)
                .and_then(|cells| Self::read(record, &cells, &mut |number| store.run(number)));
            let answers = judging.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            Ok(report?.with(answers))
        })
    }
}
