//! The syncs of an application that does one operation after the other. fio's iolog says when each was submitted; its latency log leaves
//! syncs out (`add_sync_lat_sample` in fio's stat.c only counts). Where nothing else is under way, a sync is over when the next
//! operation is submitted: that is late by no more than what fio does between two operations.

use crate::request::Operation;

use super::{Known, MICROSECOND_NS, Submission};

/// The syncs among these submissions, which are in the order of their times; none if operations overlap, or if the latency log has syncs.
/// The last submission is left out: nothing says when it was over.
pub(super) fn syncs_between(submissions: &[Submission], known: &[Known]) -> Vec<Known> {
    let has_syncs = known.iter().any(|operation| operation.operation == Operation::Flush);
    if known.is_empty() || has_syncs || overlap(submissions, known) {
        return Vec::new();
    }
    let pairs = submissions.iter().zip(submissions.iter().skip(1));
    let syncs = pairs.filter(|(one, _)| one.operation == Operation::Flush);
    let known = |(sync, next): (&Submission, &Submission)| Known {
        submitted_ns: sync.submitted_ns,
        latency_ns: next.submitted_ns - sync.submitted_ns,
        ended_realtime_ns: None,
        target: sync.target,
        operation: Operation::Flush,
        offset: 0,
        bytes: 0,
    };
    syncs.map(known).collect()
}

/// Whether an operation was submitted before the one before it was over; times of submission are cut to microseconds.
fn overlap(submissions: &[Submission], known: &[Known]) -> bool {
    known.iter().any(|operation| {
        let next = submissions.partition_point(|one| one.submitted_ns <= operation.submitted_ns);
        let over_ns = operation.submitted_ns + operation.latency_ns;
        submissions
            .get(next)
            .is_some_and(|next| i128::from(next.submitted_ns) + MICROSECOND_NS < i128::from(over_ns))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submission(submitted_us: u64, operation: Operation) -> Submission {
        Submission { submitted_ns: submitted_us * 1_000, target: 3, operation }
    }

    fn known(submitted_us: u64, latency_ns: u64, operation: Operation) -> Known {
        Known {
            submitted_ns: submitted_us * 1_000,
            latency_ns,
            ended_realtime_ns: Some(1),
            target: 3,
            operation,
            offset: 0,
            bytes: 4096,
        }
    }

    use Operation::{Flush, Write};

    #[test]
    fn a_sync_is_over_when_the_next_operation_is_submitted() {
        let submissions =
            [(100, Write), (150, Flush), (900, Write), (950, Flush)].map(|(us, o)| submission(us, o));
        let written = [known(100, 40_900, Write), known(900, 50_900, Write)];
        let syncs = syncs_between(&submissions, &written);
        let found: Vec<_> =
            syncs.iter().map(|s| (s.submitted_ns, s.latency_ns, s.operation, s.target)).collect();
        // When the last one was over is not known.
        assert_eq!(found, [(150_000, 750_000, Flush, 3)]);
    }

    #[test]
    fn where_operations_overlap_nothing_says_when_a_sync_is_over() {
        let submissions = [(100, Write), (150, Flush), (900, Write)].map(|(us, o)| submission(us, o));
        assert_eq!(syncs_between(&submissions, &[known(100, 51_500, Write)]), []);
        assert_eq!(syncs_between(&submissions, &[]), []);
    }

    #[test]
    fn syncs_that_the_latency_log_has_are_not_found_twice() {
        let submissions = [(100, Write), (150, Flush), (900, Write)].map(|(us, o)| submission(us, o));
        assert_eq!(syncs_between(&submissions, &[known(100, 1_000, Write), known(150, 9_000, Flush)]), []);
    }
}
