//! The table fits the grammars, and verdicts follow from numbers.

use std::collections::BTreeSet;

use nestor_results::WrittenStack;
use nestor_workload::Workload;

use super::*;
use crate::observation::Observation;
use crate::price::{FLUSH_PROBE, FlushTrace};

fn medium() -> Layer {
    Layer::parse("hdd").unwrap()
}

#[test]
fn every_dispute_can_be_run_and_every_claim_is_about_its_stacks() {
    let ids: Vec<&str> = disputes().map(|dispute| dispute.id).collect();
    let numbered =
        |letter: &str, count: usize| (1..=count).map(|n| format!("{letter}{n}")).collect::<Vec<_>>();
    assert_eq!(ids, [numbered("K", 12), numbered("A", 5)].concat());
    for dispute in disputes() {
        let stacks = dispute.stacks_on(&medium()).unwrap_or_else(|e| panic!("{}: {e}", dispute.id));
        for (stack, labelled) in stacks.iter().zip(dispute.stacks) {
            assert_eq!(stack.to_string(), labelled.stack, "{}", dispute.id);
            stack.require_buildable().unwrap();
        }
        for workload in dispute.workloads {
            let parsed = Workload::parse(workload).unwrap_or_else(|e| panic!("{}: {e}", dispute.id));
            assert_eq!(parsed.to_string(), *workload, "{}", dispute.id);
        }
        let labels: BTreeSet<&str> = dispute.stacks.iter().map(|labelled| labelled.label).collect();
        assert_eq!(labels.len(), dispute.stacks.len(), "{}", dispute.id);
        for claim in dispute.sides.iter().flat_map(|side| side.claims) {
            assert!(
                claim.what.stacks().iter().all(|stack| dispute.stacks.contains(stack)),
                "{}: {claim:?}",
                dispute.id
            );
            assert!(claim.on.is_none_or(|on| dispute.workloads.contains(&on)), "{}: {claim:?}", dispute.id);
            let by_flushes = !claim.what.is_speed() && !matches!(claim.what, What::CannotRun(_));
            assert!(!by_flushes || dispute.decides != Decides::Speed, "{}", dispute.id);
        }
        let open = dispute.sides.iter().all(|side| side.claims.is_empty());
        assert_eq!(open, dispute.cannot.is_some(), "{}", dispute.id);
    }
    assert_eq!(dispute("k4").map(|dispute| dispute.id), Some("K4"));
    assert!(dispute("K13").is_none());
}

#[test]
fn the_probe_is_written_as_it_is_kept() {
    assert_eq!(Workload::parse(FLUSH_PROBE).unwrap().to_string(), FLUSH_PROBE);
}

/// Runs of three blocks with these rates, by label.
fn evidence(dispute: &Dispute, workload: &str, rates: &[(&str, [f64; 3])]) -> Evidence {
    let mut evidence = Evidence {
        stacks: dispute
            .stacks
            .iter()
            .copied()
            .zip(dispute.stacks_on(&medium()).unwrap().into_iter().map(Into::into))
            .collect(),
        ..Evidence::default()
    };
    for (label, rates) in rates {
        let seen = rates.iter().zip(0..).map(|(rate, block)| Observation {
            stack: stack_of(&evidence, label),
            run: block,
            block: block.to_string(),
            rate: *rate,
            trusted: true,
        });
        let seen: Vec<_> = seen.collect();
        evidence.observations.entry(workload.into()).or_default().extend(seen);
    }
    evidence
}

/// The stack that is shown under a label.
fn stack_of(evidence: &Evidence, label: &str) -> WrittenStack {
    evidence.stacks.iter().find(|(labelled, _)| labelled.label == label).unwrap().1.clone()
}

fn outcomes(settlement: &Settlement) -> Vec<Outcome> {
    settlement.sides.iter().map(|side| side.outcome).collect()
}

#[test]
fn speed_is_settled_by_intervals() {
    let k10 = dispute("K10").unwrap();
    let judged = |cow: [f64; 3], nocow: [f64; 3]| {
        let mut both = evidence(k10, "fio:rand-write", &[("btrfs", cow), ("btrfs nocow", nocow)]);
        let reads = evidence(k10, "fio:seq-read", &[("btrfs", cow), ("btrfs nocow", nocow)]);
        both.observations.extend(reads.observations);
        outcomes(&judge(k10, &both))
    };
    use Outcome::{DoesNotHold, Holds, NotTested, NotTold};
    assert_eq!(judged([50.0, 51.0, 52.0], [75.0, 76.0, 78.0]), [Holds, DoesNotHold]);
    assert_eq!(judged([50.0, 51.0, 52.0], [50.1, 51.0, 51.9]), [NotTold, Holds]);
    assert_eq!(judged([50.0, 51.0, 52.0], [30.0, 90.0, 55.0]), [NotTold, NotTold]);
    assert_eq!(outcomes(&judge(k10, &Evidence::default())), [NotTested, NotTested]);
}

#[test]
fn a_side_is_as_right_as_the_least_of_its_claims() {
    let k6 = dispute("K6").unwrap();
    let mut seen = evidence(
        k6,
        "fio:rand-read",
        &[("threads", [50.0, 51.0, 52.0]), ("native", [80.0, 81.0, 82.0]), ("io_uring", [80.0, 81.0, 82.0])],
    );
    let full = FailedRun { says_not_possible: false, message: "no space\nmore".to_owned() };
    seen.failures.insert((stack_of(&seen, "native"), "fio:rand-write".into()), full);
    let settlement = judge(k6, &seen);
    use Outcome::{DoesNotHold, NotTested};
    assert_eq!(outcomes(&settlement), [NotTested, NotTested, DoesNotHold]);
    let failed = settlement.sides[0].claims.iter().find(|claim| claim.workload == "fio:rand-write").unwrap();
    assert_eq!(failed.seen, "native failed: no space");
    assert_eq!(settlement.runs, [0, 1, 2]);
}

fn flush_trace(stack: &WrittenStack, guest_sent: u64, medium_flushes: u64) -> FlushTrace {
    FlushTrace {
        flusher: crate::price::Flusher::Guest,
        run: 3,
        stack: stack.clone(),
        workload: FLUSH_PROBE.into(),
        guest_asked: 64,
        guest_sent,
        guest_writes: 512,
        guest_write_bytes: 4 << 20,
        medium: "hdd".to_owned(),
        medium_flushes,
        medium_write_bytes: 4 << 20,
    }
}

pub(crate) fn cache_modes_as_qemu_says() -> Settlement {
    let k4 = dispute("K4").unwrap();
    let mut seen = evidence(k4, FLUSH_PROBE, &[]);
    let stack_of = |label: &str| stack_of(&seen, label);
    seen.traces = vec![
        flush_trace(&stack_of("none"), 64, 66),
        flush_trace(&stack_of("writeback"), 64, 65),
        flush_trace(&stack_of("writethrough"), 0, 514),
        flush_trace(&stack_of("directsync"), 0, 512),
        flush_trace(&stack_of("unsafe"), 64, 0),
    ];
    judge(k4, &seen)
}

#[test]
fn what_cache_modes_mean_is_seen() {
    let settlement = cache_modes_as_qemu_says();
    assert_eq!(outcomes(&settlement), [Outcome::Holds, Outcome::DoesNotHold]);
    assert_eq!(settlement.semantics.len(), 5);
}

#[test]
fn a_file_system_that_swallows_flushes_is_found() {
    let k3 = dispute("K3").unwrap();
    let mut seen = evidence(k3, FLUSH_PROBE, &[]);
    let stack_of = |label: &str| stack_of(&seen, label);
    seen.traces = vec![
        flush_trace(&stack_of("none on ext4"), 64, 66),
        flush_trace(&stack_of("none on xfs"), 64, 66),
        flush_trace(&stack_of("none on jfs"), 64, 0),
        flush_trace(&stack_of("writethrough"), 0, 520),
    ];
    assert_eq!(outcomes(&judge(k3, &seen)), [Outcome::DoesNotHold, Outcome::DoesNotHold]);
}

#[test]
fn a_stack_that_failed_cannot_be_run() {
    let k8 = dispute("K8").unwrap();
    let mut seen = evidence(k8, "fio:rand-write", &[]);
    let key = (stack_of(&seen, "ext4 data=journal"), "fio:rand-write".into());
    let mut after = |says_not_possible: bool| {
        let failed = FailedRun { says_not_possible, message: "mounting /dev/vdb failed".to_owned() };
        seen.failures.insert(key.clone(), failed);
        judge(k8, &seen).sides[2].outcome
    };
    assert_eq!(after(true), Outcome::Holds);
    assert_eq!(after(false), Outcome::NotTested);
    let ran = evidence(k8, "fio:rand-write", &[("ext4 data=journal", [1.0, 1.0, 1.0])]);
    assert_eq!(judge(k8, &ran).sides[2].outcome, Outcome::DoesNotHold);
}
