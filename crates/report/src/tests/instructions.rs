//! Instructions of the modelled processor in what is printed.

use super::fixture::*;
use super::text::cell;
use crate::{CompareView, RunView, Style, compare_text, run_text};
use nestor_results::{Executor, Outcome, PathLength, StoredRun};
use nestor_stack::Accelerator;
use nestor_workload::{OperationClass, OperationResult};

/// Runs in virtual time, of which an operation takes so many instructions of the hypervisor and ten times as many of the host.
pub fn counted(stack: usize, each: u64) -> Vec<StoredRun> {
    counted_on("emulated:time=virtual", stack, each)
}

fn counted_on(ground: &str, stack: usize, each: u64) -> Vec<StoredRun> {
    let mut records = runs(stack, 1, 3);
    for (record, more) in records.iter_mut().zip([0, 100, 200]) {
        record.environment.ground = ground.into();
        let Outcome::Measured(measured) = &mut record.outcome else { continue };
        let operations = measured.load.operations.values().map(|o| o.operations).sum::<u64>();
        let count = (each + more) * operations / 2;
        measured.path_length = Some(PathLength {
            instructions: vec![(Executor::Hypervisor, count), (Executor::HostKernel, 10 * count)],
            window_ns: measured.load.elapsed_ns / 2,
            requests: 5,
        });
    }
    stored(records)
}

#[test]
fn instructions_of_an_operation_are_shown_and_compared() {
    let (base, other) = (counted(0, 1_000), counted(2, 4_000));
    let view = RunView::of(&borrowed(&other)).unwrap();
    let text = run_text(&view, Style::plain());
    let from = text.find("  instructions").unwrap();
    insta::assert_snapshot!(text[from..].lines().take(5).collect::<Vec<_>>().join("\n"), @r"
      instructions  per operation  per request of hdd
      hypervisor            4 000              29 335
      host kernel          40 000             293 346
      total                44 000
      one takes 1 ns on the modelled processor; counted for 5.0 s while I/O ran
    ");
    let compared = CompareView::of(&borrowed(&base), &borrowed(&other)).unwrap();
    let text = compare_text(&compared, Style::plain());
    let from = text.find("  instructions per operation").unwrap();
    insta::assert_snapshot!(text[from..].lines().take(4).collect::<Vec<_>>().join("\n"), @r"
      instructions per operation  baseline  candidate     more
      hypervisor                     1 100      4 100   +3 000  +274 %  [+216, +341]
      host kernel                   11 000     41 000  +30 000  +274 %  [+216, +341]
      total                         12 100     45 100  +33 000  +274 %  [+216, +341]
    ");
    let uncounted = CompareView::of(&borrowed(&cell(0, 1, 3)), &borrowed(&other)).unwrap();
    assert_eq!(uncounted.path, [], "those of one side say nothing of the other");
}

#[test]
fn processor_time_that_a_program_says_is_shown_of_each_of_its_tests() {
    let mut records = runs(0, 1, 1);
    let Outcome::Measured(measured) = &mut records[0].outcome else { panic!("measured") };
    let alone = OperationResult {
        operations: 2048,
        bytes: 16 << 20,
        elapsed_ns: Some(200_000_000),
        cpu_percent: Some(25.0),
        ..OperationResult::default()
    };
    measured.load.operations.insert(OperationClass("put-block".to_owned()), alone);
    let text = run_text(&RunView::of(&borrowed(&stored(records))).unwrap(), Style::plain());
    let from = text.find("  test ").unwrap();
    insta::assert_snapshot!(text[from..].lines().take(3).collect::<Vec<_>>().join("\n"), @"
    test       operations  a second      moves  processor  per operation
    put-block       2 048    10 200  83.9 MB/s       25 %        24.4 us
    processor time as the program says it: that of its own machine's kernel
    ");
    let silent = run_text(&RunView::of(&borrowed(&counted(0, 1_000))).unwrap(), Style::plain());
    assert!(!silent.contains("processor time as the program says it"), "{silent}");
}

#[test]
fn what_is_said_of_the_modelled_processor_is_its_own_speed() {
    for (ground, processor, each) in [
        ("emulated:time=virtual", "one modelled processor of 1000 MIPS", "one takes 1 ns on"),
        ("emulated:time=virtual:cpu=4000mips", "one modelled processor of 4000 MIPS", "4 take 1 ns on"),
    ] {
        let runs = counted_on(ground, 0, 1_000);
        let text = run_text(&RunView::of(&borrowed(&runs)).unwrap(), Style::plain());
        let said = format!("on an emulated host in virtual time: {processor}");
        assert!(text.contains(&said) && text.contains(each), "{text}");
    }
}

#[test]
fn a_repository_is_emulated_as_its_node_is_and_numbers_repeat() {
    let mut runs = counted_on("emulated:time=virtual", 0, 1_000);
    // Its lines are broken.
    let said = |runs: &[StoredRun]| {
        let text = run_text(&RunView::of(&borrowed(runs)).unwrap(), Style::plain());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let repeats = "numbers repeat to the last bit";
    for guest in runs.iter_mut().flat_map(|run| run.record.environment.machines.iter_mut().skip(1)) {
        guest.accelerator = Accelerator::Kvm;
    }
    assert!(said(&runs).contains(repeats));
    for environment in runs.iter_mut().map(|run| &mut run.record.environment) {
        let mut beside = environment.machines[0].clone();
        assert!(beside.accelerator.is_emulation());
        beside.label = "repository".into();
        environment.machines.insert(1, beside);
    }
    assert!(said(&runs).contains(repeats));
}
