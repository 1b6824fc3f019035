//! The order of cells.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{CellKey, Study, TraceMode, budget_ended, duration_words};

fn study(replications: u32) -> Study {
    let stacks = ["base", "a", "b", "c"].map(Into::into);
    let workloads = vec!["read".into(), "write".into()];
    Study {
        replications,
        sentinels: None,
        trace: TraceMode::Layers,
        ..Study::new("made-up", "Made up", stacks.to_vec(), workloads)
    }
}

#[test]
fn every_block_holds_every_cell_once() {
    let plan = Study { sentinels: Some(false), ..study(3) }.plan(None);
    assert_eq!(plan.cells.len(), 3 * 4 * 2);
    for (block, cells) in plan.cells.chunks(8).enumerate() {
        let names: BTreeSet<_> = cells.iter().map(|c| (&c.key.stack, &c.key.workload)).collect();
        assert_eq!(names.len(), 8);
        assert!(cells.iter().all(|c| c.key.block == block as u32 && c.key.repeat == 0));
    }
    let orders: BTreeSet<Vec<_>> =
        plan.cells.chunks(8).map(|b| b.iter().map(|c| (&c.key.stack, &c.key.workload)).collect()).collect();
    assert_eq!(orders.len(), 3, "each block has its own order");
    assert!(plan.cells.iter().zip(0..).all(|(c, i)| c.position == i));
}

#[test]
fn sentinels_stand_at_both_ends() {
    let plan = Study { sentinels: Some(true), ..study(2) }.plan(None);
    assert_eq!(plan.cells.len(), 2 * 5 * 2);
    for block in plan.cells.chunks(10) {
        let is_base = |i: usize| block[i].key.stack == "base";
        assert!([0, 1, 8, 9].into_iter().all(is_base) && !(2..8).any(is_base));
        assert!(block[8..].iter().all(|c| c.key.repeat == 1));
    }
}

#[test]
fn sentinels_run_when_there_is_time() {
    let decided = |study: Study, seconds: Option<u64>| study.plan(seconds.map(Duration::from_secs)).sentinels;
    let limited = || Study { budget: Some(Duration::from_secs(200)), ..study(2) };
    assert!(!decided(study(1), Some(1)), "one replication needs no more");
    assert!(decided(study(2), None), "no budget to break");
    assert!(!decided(limited(), None), "nobody knows how long a cell takes");
    assert!(decided(limited(), Some(10)), "20 cells of 10 s fit 200 s");
    assert!(!decided(limited(), Some(11)));
    let alone = Study { stacks: vec!["base".into()], sentinels: Some(true), ..study(2) };
    assert!(!decided(alone, None), "there is nothing between the ends");
}

#[test]
fn an_order_stays_the_same_from_version_to_version() {
    let plan = Study { sentinels: Some(false), ..study(1) }.plan(None);
    let order: Vec<String> =
        plan.cells.iter().map(|c| format!("{}:{}", c.key.stack, c.key.workload)).collect();
    insta::assert_snapshot!(
        order.join(" "),
        @"base:write a:read c:read b:write b:read base:read a:write c:write"
    );
}

#[test]
fn more_blocks_leave_the_first_ones_as_they_were() {
    let few = Study { sentinels: Some(false), ..study(2) }.plan(None);
    let many = Study { sentinels: Some(false), ..study(5) }.plan(None);
    assert_eq!(few.cells, many.cells[..few.cells.len()]);
}

#[test]
fn each_traced_cell_has_an_untraced_repeat_in_its_block() {
    let study = Study { trace_cost: true, sentinels: Some(true), ..study(2) };
    let plan = study.plan(None);
    assert_eq!(plan.cells.len(), 2 * (5 + 4) * 2);
    for block in plan.cells.chunks(18) {
        let twins: Vec<_> = block.iter().filter(|c| c.key.untraced_twin).collect();
        assert_eq!(twins.len(), 8);
        assert!(twins.iter().all(|c| c.key.repeat == 0), "a closing run has none");
    }
    let fits = Study { budget: Some(Duration::from_secs(36)), sentinels: None, ..study.clone() };
    assert!(fits.plan(Some(Duration::from_secs(1))).sentinels, "36 cells of 1 s fit 36 s");
    let untraced = Study { trace: TraceMode::None, ..study }.plan(None);
    assert!(untraced.cells.iter().all(|c| !c.key.untraced_twin), "what is not traced has no untraced repeat");
}

#[test]
fn times_in_words() {
    let words = |s| duration_words(Duration::from_secs(s));
    assert_eq!([words(0), words(45), words(300), words(5_425)], ["0 s", "45 s", "5 min", "1 h 30 min 25 s"]);
    assert_eq!(budget_ended(Duration::from_secs(300)), "budget of 5 min ended");
}

#[test]
fn repeats_have_seeds_of_their_own_and_stacks_of_a_block_the_same() {
    let key = |stack: &str, block, repeat, untraced_twin| CellKey {
        stack: stack.into(),
        workload: "fio:seq-write".into(),
        block,
        repeat,
        untraced_twin,
    };
    let seeds: BTreeSet<u64> = (0..5)
        .flat_map(|study| (0..1000).flat_map(move |block| [0, 1].map(|repeat| (study, block, repeat))))
        .map(|(study, block, repeat)| key("ext4/hdd", block, repeat, false).seed(study))
        .collect();
    assert_eq!(seeds.len(), 10_000);
    assert_eq!(key("ext4/hdd", 2, 0, false).seed(1), 1_000_005);
    assert_eq!(key("ext4/hdd", 2, 0, false).seed(1), key("xfs/hdd", 2, 0, true).seed(1));
}
