//! Comparisons and their doubts.

use super::fixture::*;
use crate::record::{CellRecord, Mark};
use nestor_statistics::summary::CONFIDENCE;

use crate::{CellSummary, Drift, Sample, StoredRun, compare, compare_samples};

fn runs(stack: &str, throughputs_mib: &[u64]) -> Vec<StoredRun> {
    stored(throughputs_mib.iter().zip(0..).map(|(mib, block)| record(stack, block, mib * MIB)).collect())
}

fn borrowed(runs: &[StoredRun]) -> Vec<&StoredRun> {
    runs.iter().collect()
}

#[test]
fn pairs_are_made_within_blocks() {
    let (base, other) = (runs("base", &[100, 200, 400]), runs("other", &[50, 100, 200]));
    let comparison = compare(&borrowed(&base), &borrowed(&other)).unwrap();
    let ratio = comparison.ratio.unwrap();
    assert!((ratio.value - 0.5).abs() < 1e-9, "{ratio:?}");
    // Every block says the same, so the interval is narrow although the blocks differ fourfold.
    assert!(ratio.interval.unwrap().half_width() < 1e-6);
    assert!(comparison.paired && comparison.random_order && comparison.doubts.is_empty(), "{comparison:?}");
    assert_eq!(comparison.drift, Drift::NotTested);
    assert_eq!(comparison.bootstrap.unwrap().pairs, 3);
}

#[test]
fn one_fresh_stack_has_no_interval() {
    let (base, other) = (runs("base", &[100]), runs("other", &[85]));
    let comparison = compare(&borrowed(&base), &borrowed(&other)).unwrap();
    assert_eq!(comparison.ratio.unwrap().interval, None);
    assert_eq!(comparison.drift, Drift::NotTested);
    assert_eq!(comparison.candidate.bytes_per_second.unwrap().interval, None);
    assert_eq!(comparison.bootstrap, None);
}

#[test]
fn failures_are_listed_and_never_averaged_in() {
    let base = runs("base", &[100, 100]);
    let other = stored(vec![record("other", 0, 50 * MIB), failed("other", 1, "the guest died\n  at boot")]);
    let comparison = compare(&borrowed(&base), &borrowed(&other)).unwrap();
    assert_eq!(comparison.ratio.unwrap().pairs, 1);
    assert_eq!(comparison.candidate.samples.len(), 1);
    assert_eq!(comparison.candidate.failures[0].reason, "the guest died\n  at boot");
    let all_failed = stored(vec![failed("other", 0, "no")]);
    let comparison = compare(&borrowed(&base), &borrowed(&all_failed)).unwrap();
    assert_eq!((comparison.ratio, comparison.candidate.bytes_per_second), (None, None));
    assert!(compare(&borrowed(&base), &[]).is_none());
}

#[test]
fn marks_are_carried_as_doubts() {
    let busy = Mark::CpuBound { machine: "host".into(), busy: 0.93, modelled: None };
    let marked = CellRecord { marks: vec![Mark::EmulatedCpu, busy], ..record("other", 0, 50 * MIB) };
    let (base, other) = (runs("base", &[100, 100]), stored(vec![marked, record("other", 1, 50 * MIB)]));
    let comparison = compare(&borrowed(&base), &borrowed(&other)).unwrap();
    assert_eq!(
        comparison.doubts,
        ["candidate: cpu-bound in 1 of 2: the CPUs of the host were busy 93 % of the time"]
    );
    assert_eq!(comparison.candidate.marks.len(), 2);
}

#[test]
fn the_ends_of_the_blocks_show_drift() {
    let both_ends = |start: u64, end: u64| -> Vec<CellRecord> {
        let ends = |block| {
            let closing = CellRecord { repeat: 1, ..record("base", block, end * MIB) };
            [record("base", block, start * MIB), closing]
        };
        (0..3).flat_map(ends).collect()
    };
    let other = runs("other", &[50, 50, 50]);
    let slowing = stored(both_ends(100, 81));
    let comparison = compare(&borrowed(&slowing), &borrowed(&other)).unwrap();
    assert!(matches!(comparison.drift, Drift::Seen { .. }));
    assert_eq!(
        comparison.doubts,
        ["the baseline drifted by -19.0 % from the start to the end of the blocks"]
    );
    // The block's baseline is the geometric mean of its ends: 90.
    assert!((comparison.ratio.unwrap().value - 50.0 / 90.0).abs() < 1e-9);
    let calm = stored(both_ends(100, 99));
    let comparison = compare(&borrowed(&calm), &borrowed(&other)).unwrap();
    assert!(matches!(comparison.drift, Drift::None { .. }) && comparison.doubts.is_empty());
}

#[test]
fn other_software_or_ground_is_told() {
    let mut elsewhere = record("other", 0, 50 * MIB);
    elsewhere.environment.ground = "this".into();
    elsewhere.environment.packages.insert("host fio".to_owned(), "3.40-1".to_owned());
    let (base, other) = (runs("base", &[100]), stored(vec![elsewhere]));
    let comparison = compare(&borrowed(&base), &borrowed(&other)).unwrap();
    assert_eq!(
        comparison.doubts,
        [
            "ground differs: baseline emulated, candidate this",
            "version of host fio differs: baseline 3.33-3, candidate 3.40-1"
        ]
    );
}

#[test]
fn a_kernel_that_the_stack_names_is_no_other_difference() {
    let (base, mut other) = (runs("ext4/hdd", &[10, 10]), runs("ext4:kernel=next/hdd", &[10, 10]));
    for run in &mut other {
        run.record.environment.machines[0].kernel = "6.12.0".to_owned();
    }
    let doubts = |other: &[StoredRun]| compare(&borrowed(&base), &borrowed(other)).unwrap().doubts.len();
    assert_eq!(doubts(&other), 1);
    for run in &mut other {
        let said = ("host kernel".to_owned(), "next: Linux 6.12.0".to_owned());
        run.record.environment.settings.extend([said]);
    }
    assert_eq!(doubts(&other), 0);
}

#[test]
fn runs_without_a_common_block_are_not_paired() {
    let base = runs("base", &[100, 102]);
    let other = stored(vec![record("other", 7, 50 * MIB), record("other", 8, 51 * MIB)]);
    let comparison = compare(&borrowed(&base), &borrowed(&other)).unwrap();
    assert!(!comparison.paired && comparison.ratio.unwrap().interval.is_some());
    assert_eq!(
        comparison.doubts,
        ["baseline and candidate have no block in common, so their runs were not paired"]
    );
}

/// Samples of one run per block, in blocks that follow one another in the order of runs.
fn samples(first_run: i64, throughputs: &[f64]) -> Vec<Sample> {
    let sample = |(block, rate): (u32, &f64)| Sample {
        run: first_run + i64::from(block),
        block,
        repeat: 0,
        // Before the baseline in one block and after it in the next, as in a random order.
        position: 2 * block + u32::from((block % 2 == 0) == (first_run == 0)),
        bytes_per_second: *rate,
        operations_per_second: rate / 8192.0,
        violated: None,
        in_virtual_time: false,
    };
    (0..).zip(throughputs).map(sample).collect()
}

/// Throughputs around a level, block by block; the noise of both sides is its own.
fn around(levels: &[f64], noise: &[f64]) -> Vec<f64> {
    levels.iter().zip(noise.iter().cycle()).map(|(level, noise)| level * (1.0 + noise)).collect()
}

#[test]
fn nothing_is_averaged_across_a_change_point() {
    // After five blocks the machine became slower, and the candidate's advantage vanished with it.
    let baseline =
        around(&[[100.0; 5].as_slice(), &[70.0; 4]].concat(), &[0.002, -0.004, 0.003, 0.0, -0.001]);
    let candidate = around(&[[120.0; 5].as_slice(), &[70.0; 4]].concat(), &[-0.003, 0.001, 0.0, 0.004]);
    let found = compare_samples(&samples(0, &baseline), &samples(100, &candidate), CONFIDENCE);
    assert_eq!(found.only_blocks, Some((0, 4)));
    let ratio = found.ratio.unwrap();
    assert!(ratio.pairs == 5 && (ratio.value - 1.2).abs() < 0.01, "{ratio:?}");
    let Drift::Changed { after_block, step, p_value } = found.drift else { panic!("{:?}", found.drift) };
    assert!(after_block == 4 && (step - 0.7).abs() < 0.01 && p_value <= 0.05);
    let doubt = &found.doubts[0];
    assert!(doubt.starts_with("a change point after block 4: the baseline changed by -30."), "{doubt}");
    assert!(doubt.ends_with("; only blocks 0 to 4 are compared"), "{doubt}");
    // The means beside the ratio are of the same blocks.
    let cell = |stack: &str, samples| {
        CellSummary::of(
            stack.into(),
            "fio:seq-write".into(),
            samples,
            Default::default(),
            Vec::new(),
            Vec::new(),
        )
    };
    let (base, other) = (cell("base", samples(0, &baseline)), cell("other", samples(100, &candidate)));
    let comparison = crate::Comparison::between(base, other, true, Vec::new(), CONFIDENCE);
    assert_eq!((comparison.only_blocks, comparison.ratio), (found.only_blocks, found.ratio));
    assert_eq!(comparison.baseline.bytes_per_second.unwrap().samples, 5);
    assert!((comparison.candidate.bytes_per_second.unwrap().value - 120.0).abs() < 1.0);
    assert_eq!(comparison.candidate.samples.len(), 9);
}

#[test]
fn a_block_into_which_a_change_fell_is_on_no_side() {
    // Two runs of the baseline in each block; the change is between the two of block 3.
    let levels = [[100.0; 7].as_slice(), &[80.0; 5]].concat();
    let noise = [0.001, -0.002, 0.003, -0.001, 0.002];
    let baseline: Vec<Sample> = around(&levels, &noise)
        .iter()
        .zip(0_u32..)
        .map(|(rate, at)| Sample {
            run: i64::from(at),
            block: at / 2,
            repeat: at % 2,
            position: at,
            ..samples(0, &[*rate])[0].clone()
        })
        .collect();
    let candidate = samples(100, &around(&[50.0; 6], &noise));
    let found = compare_samples(&baseline, &candidate, CONFIDENCE);
    assert!(matches!(found.drift, Drift::Changed { after_block: 3, .. }), "{:?}", found.drift);
    assert_eq!((found.only_blocks, found.ratio.unwrap().pairs), (Some((0, 2)), 3));
}

#[test]
fn nothing_drifts_in_virtual_time_whatever_it_looks_like() {
    let in_virtual_time = |samples: Vec<Sample>| -> Vec<Sample> {
        samples.into_iter().map(|sample| Sample { in_virtual_time: true, ..sample }).collect()
    };
    let steps = around(&[[100.0; 6].as_slice(), &[70.0; 6]].concat(), &[0.001, -0.002]);
    let (baseline, candidate) = (samples(0, &steps), samples(100, &steps));
    assert!(compare_samples(&baseline, &candidate, CONFIDENCE).drift.is_seen());
    let found =
        compare_samples(&in_virtual_time(baseline.clone()), &in_virtual_time(candidate.clone()), CONFIDENCE);
    assert!(matches!(found.drift, Drift::Impossible) && found.doubts.is_empty(), "{:?}", found.doubts);
    assert_eq!((found.only_blocks, found.ratio.unwrap().pairs), (None, 12));
    // One side in real time is enough to ask.
    assert!(compare_samples(&baseline, &in_virtual_time(candidate), CONFIDENCE).drift.is_seen());
}

#[test]
fn a_step_too_small_to_matter_parts_nothing() {
    let baseline = around(&[[100.0; 5].as_slice(), &[99.0; 5]].concat(), &[0.0002, -0.0001]);
    let found = compare_samples(&samples(0, &baseline), &samples(100, &[50.0; 10]), CONFIDENCE);
    assert_eq!((found.only_blocks, found.ratio.unwrap().pairs), (None, 10));
    assert!(found.doubts.is_empty(), "{:?}", found.doubts);
    assert!(matches!(found.drift, Drift::None { ratio: None }));
}

#[test]
fn runs_that_violate_an_identity_count_for_nothing() {
    let reason = "hdd issued 26112 requests but 24112 completed".to_owned();
    let wrong = CellRecord {
        marks: vec![Mark::Inconsistent { reason: reason.clone() }],
        ..record("other", 1, 5_000 * MIB)
    };
    let base = runs("base", &[100, 100, 100]);
    let other = stored(vec![record("other", 0, 50 * MIB), wrong, record("other", 2, 50 * MIB)]);
    let comparison = compare(&borrowed(&base), &borrowed(&other)).unwrap();
    let ratio = comparison.ratio.unwrap();
    assert!(ratio.pairs == 2 && (ratio.value - 0.5).abs() < 1e-9, "{ratio:?}");
    let candidate = &comparison.candidate;
    assert_eq!((candidate.samples.len(), candidate.measured_runs()), (2, 3));
    assert_eq!((candidate.violations[0].run, candidate.violations[0].block), (2, 1));
    assert_eq!(candidate.bytes_per_second.unwrap().samples, 2);
    // Two runs of 50 MiB in operations of 4 KiB: the histogram has no operation of the third.
    assert_eq!(candidate.latency["write"].count, 2 * 50 * MIB / 4096);
    assert_eq!(
        comparison.doubts,
        [format!("candidate: run 2 is excluded because it violates an identity: {reason}").as_str()]
    );
    // Where nothing else is left there is no number at all.
    let only = stored(vec![CellRecord {
        marks: vec![Mark::Inconsistent { reason }],
        ..record("other", 0, 50 * MIB)
    }]);
    let comparison = compare(&borrowed(&base), &borrowed(&only)).unwrap();
    assert_eq!((comparison.ratio, comparison.candidate.bytes_per_second), (None, None));
}

#[test]
fn workloads_without_data_are_compared_by_their_operations() {
    let without_data = |samples: Vec<Sample>| -> Vec<Sample> {
        samples.into_iter().map(|s| Sample { bytes_per_second: 0.0, ..s }).collect()
    };
    let (base, other) = (samples(0, &[100.0, 110.0]), samples(100, &[150.0, 165.0]));
    let found = compare_samples(&without_data(base), &without_data(other), CONFIDENCE);
    assert!((found.ratio.unwrap().value - 1.5).abs() < 1e-9 && found.paired);
}

#[test]
fn throughput_that_goes_with_the_order_is_told() {
    // Every run is 2 % faster than the one before it, whatever its cell.
    let rising =
        |offset: u32| (0..4_u32).map(|b| 100.0 * 1.02_f64.powi((2 * b + offset) as i32)).collect::<Vec<_>>();
    let in_turn = |first_run: i64, offset: u32| -> Vec<Sample> {
        let mut samples = samples(first_run, &rising(offset));
        samples.iter_mut().for_each(|s| s.position = 2 * s.block + offset);
        samples
    };
    let found = compare_samples(&in_turn(0, 0), &in_turn(100, 1), CONFIDENCE);
    let Drift::WithOrder { effect } = found.drift else { panic!("{:?}", found.drift) };
    assert!(effect.correlation > 0.9 && effect.p_value < 0.01, "{effect:?}");
    assert!(
        found.doubts[0].starts_with("throughput followed the order of the runs: +"),
        "{:?}",
        found.doubts
    );
    // The pairs cancel it out but for the one position between them.
    assert!((found.ratio.unwrap().value - 1.02).abs() < 1e-9);
}

#[test]
fn the_latency_of_a_cell_is_that_of_what_took_the_application_most_time() {
    // Each write goes to memory, and the fsync after it waits for the disk; at the end there is one long close.
    let of = |count, ns| latency(count, ns).summary().unwrap();
    let classes = [("write", of(512, 10_000)), ("fsync", of(512, 25_000_000)), ("close", of(1, 90_000_000))];
    let latency = classes.map(|(class, summary)| (class.to_owned(), summary)).into();
    let cell =
        CellSummary::of("ext4/hdd".into(), "fio:x".into(), Vec::new(), latency, Vec::new(), Vec::new());
    let (class, summary) = cell.latency_of_longest().unwrap();
    assert_eq!((class.as_str(), summary.count), ("fsync", 512));
}
