//! How long `nestor run` and `nestor compare` will take, said before they begin.

use anyhow::Result;
use nestor_results::{Decisions, Estimator, Store, Study, StudyEffort, WrittenStack, whole_minutes};
use nestor_stack::Stack;

use crate::arguments::LabArguments;
use crate::commands::study::time_rests_on;
use crate::session;

/// Says on standard error how long the cells of a command will take.
///
/// # Errors
/// When the results cannot be read, or nothing can be found out about this machine.
pub fn say(study: &Study, arguments: &LabArguments, store: &Store) -> Result<()> {
    if arguments.quiet {
        return Ok(());
    }
    let place = &arguments.place()?.place;
    let estimator = Estimator::of(&store.past_cells(&place.clone().into())?);
    let effort = study.effort(&estimator, false, &Decisions::default(), &|_| false);
    let side_by_side = session::likely_side_by_side(study, place, arguments)?;
    errln!("{}", words(study, &effort, side_by_side));
    Ok(())
}

fn words(study: &Study, effort: &StudyEffort, side_by_side: usize) -> String {
    let cells = effort.most.cells;
    let plural = nestor_text::units::plural(cells, "cell");
    let nested = study.stacks.iter().filter_map(WrittenStack::value).any(Stack::has_guest_in_a_guest);
    // From what other stacks take nothing follows for it.
    let mut said = if nested && effort.known_cells < cells {
        format!("{plural}; a guest in a guest takes several times as long as a guest: no time is estimated")
    } else {
        let time = whole_minutes(effort.most.wall_s(side_by_side));
        format!("about {time} for {plural}; {}", time_rests_on(effort))
    };
    if effort.known_cells == cells {
        return said;
    }
    let workloads = study.workloads.iter();
    let endless = workloads.filter(|w| w.value().is_some_and(|w| w.time_limit_s().is_none()));
    for workload in endless {
        said += &format!(
            "\n  {workload} has no limit of time and ends when its work is done: it may take many minutes"
        );
    }
    said
}

#[cfg(test)]
mod tests {
    use nestor_results::PastCell;

    use super::*;

    fn said(stack: &str, workload: &str, past: &[PastCell]) -> String {
        let study =
            Study { replications: 3, ..Study::new("one-off", "", vec![stack.into()], vec![workload.into()]) };
        let effort = study.effort(&Estimator::of(past), false, &Decisions::default(), &|_| false);
        words(&study, &effort, 1)
    }

    #[test]
    fn what_takes_long_is_said_before_it_begins() {
        let nested = "ext2/kvm/raw/ext4/kvm/raw/ext3/hdd";
        insta::assert_snapshot!(said("ext4/kvm/hdd", "fio:seq-write", &[]), @"about 2 min for 3 cells; nothing has been measured here yet: the time is a guess");
        insta::assert_snapshot!(said(nested, "postmark:xs", &[]), @r"
        3 cells; a guest in a guest takes several times as long as a guest: no time is estimated
          postmark:xs has no limit of time and ends when its work is done: it may take many minutes
        ");
        let (cell_s, load_s, measured_s) = (400.0, 300.0, 300.0);
        let past =
            PastCell { stack: nested.into(), workload: "postmark:xs".into(), cell_s, load_s, measured_s };
        insta::assert_snapshot!(said(nested, "postmark:xs", &[past]), @"about 21 min for 3 cells; 3 of 3 cells were measured here before; the time is estimated from them");
    }
}
