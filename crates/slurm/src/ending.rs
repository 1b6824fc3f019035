//! What becomes of the cells of a task that has ended without all of its results.

use crate::task::TaskStatus;

/// What is to be done about the cells without a result of a task that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its results are on their way: the shared directory shows them later than Slurm says that the task has ended.
    NotSeenYet,
    /// The node cannot run cells: they run elsewhere.
    Refused(String),
    /// The task was lost: the cells run again. Those at these places among the task's cells were under way.
    Lost {
        /// Whom each loss counts against.
        under_way: Vec<usize>,
        /// Whether the task never said anything.
        silent: bool,
    },
    /// Somebody has ended the job.
    Cancelled,
}

/// Decides it from Slurm's state of the task (`None` where Slurm has forgotten it), what the task has said, which of its cells have no
/// result, whether the controller has withdrawn waiting tasks, and whether it has waited long enough for the shared directory.
pub(crate) fn ending(
    state: Option<&str>,
    status: Option<&TaskStatus>,
    open: &[usize],
    withdrawn: bool,
    waited: bool,
) -> Ending {
    if let Some(refusal) = status.and_then(|status| status.refusal.clone()) {
        return Ending::Refused(refusal);
    }
    let in_order = matches!(state, None | Some("COMPLETED" | "COMPLETING"));
    if !waited && (in_order || status.is_some_and(|status| status.ended)) {
        return Ending::NotSeenYet;
    }
    let no_loss = Ending::Lost { under_way: Vec::new(), silent: false };
    match (state, status) {
        // Somebody else's work came first: that says nothing of the cell.
        (Some("PREEMPTED"), _) => no_loss,
        (Some("CANCELLED"), None) if withdrawn => no_loss,
        (Some("CANCELLED"), _) => Ending::Cancelled,
        (_, None) => Ending::Lost { under_way: open.to_vec(), silent: true },
        (_, Some(status)) => {
            let under_way = status.under_way.filter(|cell| open.contains(cell)).or(open.first().copied());
            Ending::Lost { under_way: under_way.into_iter().collect(), silent: false }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(under_way: usize) -> TaskStatus {
        TaskStatus { node: "n1".to_owned(), under_way: Some(under_way), ..TaskStatus::default() }
    }

    fn lost(under_way: &[usize], silent: bool) -> Ending {
        Ending::Lost { under_way: under_way.to_vec(), silent }
    }

    #[test]
    fn a_loss_counts_against_the_cell_under_way() {
        for state in ["NODE_FAIL", "TIMEOUT", "OUT_OF_MEMORY", "FAILED", "BOOT_FAIL", "DEADLINE"] {
            let ending = ending(Some(state), Some(&running(1)), &[1, 2, 3], false, false);
            assert_eq!(ending, lost(&[1], false), "{state}");
        }
        let between = TaskStatus { under_way: None, ..running(0) };
        assert_eq!(ending(Some("NODE_FAIL"), Some(&between), &[2, 3], false, false), lost(&[2], false));
        assert_eq!(ending(Some("PREEMPTED"), Some(&running(1)), &[1], false, false), lost(&[], false));
        assert_eq!(ending(Some("FAILED"), None, &[0, 1], false, false), lost(&[0, 1], true));
    }

    #[test]
    fn what_ended_in_order_may_not_be_seen_yet() {
        let ended = TaskStatus { under_way: None, ended: true, ..running(0) };
        for (state, status) in
            [(Some("COMPLETED"), Some(&running(0))), (None, None), (Some("FAILED"), Some(&ended))]
        {
            assert_eq!(ending(state, status, &[0], false, false), Ending::NotSeenYet);
            assert!(matches!(ending(state, status, &[0], false, true), Ending::Lost { .. }));
        }
    }

    #[test]
    fn who_ends_the_job_means_it() {
        assert_eq!(ending(Some("CANCELLED"), Some(&running(0)), &[0], false, false), Ending::Cancelled);
        assert_eq!(ending(Some("CANCELLED"), None, &[0], false, false), Ending::Cancelled);
        let withdrawn = ending(Some("CANCELLED"), None, &[0], true, false);
        assert_eq!(withdrawn, lost(&[], false), "the controller itself took it back");
    }

    #[test]
    fn a_node_that_cannot_run_cells_says_so() {
        let refusing = TaskStatus { refusal: Some("no lab image".to_owned()), ended: true, ..running(0) };
        let ending = ending(Some("FAILED"), Some(&refusing), &[0], false, false);
        assert_eq!(ending, Ending::Refused("no lab image".to_owned()));
    }
}
