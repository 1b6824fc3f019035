//! What is going to be measured.

use super::{held_fixed, minutes};
use crate::plan::ScreeningPlan;
use nestor_text::units::plural;

/// The plan before anything is measured.
pub fn plan_text(plan: &ScreeningPlan, workload: &str) -> String {
    let mut text = format!(
        "plan: {} of {} stacks under {workload} ({} unknowns; {} in the store), then {} of the best and yours\n",
        plan.stacks.len(),
        plan.possible,
        plan.parameters,
        plural(plan.known, "run"),
        plural(plan.pairs as usize, "pair"),
    );
    for stack in &plan.stacks {
        text.push_str(&format!("  {stack}\n"));
    }
    text.push_str(&held_fixed(&plan.held_fixed));
    let time = match plan.expected_s() {
        Some(seconds) => format!("about {}", minutes(seconds)),
        None => "duration not known: nothing has been measured here yet".to_owned(),
    };
    let probes = match plan.probes {
        0 => String::new(),
        probes => format!(" (up to {probes} of them short, to trace flushes)"),
    };
    text.push_str(&format!("  {}{probes}, {time}\n", plural(plan.cells(), "cell")));
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use nestor_stack::Layer;

    use super::*;
    use crate::factors::FactorName;
    use crate::local::machine_with;
    use crate::plan::{Time, plan};
    use crate::space::Space;

    #[test]
    fn a_plan_says_what_it_leaves_as_it_is() {
        let levels = BTreeMap::from([
            (FactorName::HostFs, vec!["ext4".to_owned()]),
            (FactorName::Format, vec!["raw".to_owned()]),
            (FactorName::Cache, vec!["none".to_owned(), "writethrough".to_owned()]),
        ]);
        let space = Space::new(&levels, Layer::parse("hdd").unwrap(), &machine_with("").unwrap()).unwrap();
        let budget = Some(Duration::from_secs(3_600));
        let time = Time { budget, cell_s: Some(20.0), ..Time::default() };
        let plan = plan(&space, &"ext4/kvm/raw/ext4/hdd".into(), &[], time, 1).unwrap();
        insta::assert_snapshot!(plan_text(&plan, "fio:rand-write"), @"
        plan: 2 of 2 stacks under fio:rand-write (2 unknowns; 0 runs in the store), then 6 pairs of the best and yours
          ext4/kvm/raw/ext4/hdd
          ext4/kvm:cache=writethrough/raw/ext4/hdd
          held fixed (give the option more levels to vary it): --guest ext4, --host-fs ext4, --format raw,
          --device-model virtio-blk, --scheduler default, --host-scheduler default
          14 cells, about 5 min
        ");
    }
}
