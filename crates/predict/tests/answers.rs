//! The methods and the answer on made-up stacks whose truth is known.

use std::collections::BTreeMap;

use nestor_predict::calibration::{Tracks, tracks};
use nestor_predict::evidence::Points;
use nestor_predict::{
    Evidence, Held, Knowledge, METHODS, MeasuredLoad, MethodId, Predicted, Question, Reference, Shape,
    answer, validate,
};
use nestor_results::{KnownStack, StackPart, WrittenStack, WrittenWorkload};
use nestor_statistics::prediction::{NullModel, TargetMachine};
use nestor_statistics::surface::{GridPoint, STUDY_BYTES};

const NATIVE: &str = "ext4/hdd";
const GUEST: &str = "ext4/kvm/hdd";

/// Seconds from one request's end to the next: a disk that seeks, a queue that shortens seeks, and a virtual machine that
/// adds 0.2 ms and 1 ns for each byte to each request.
fn pass_s(stack: &str, bytes: f64, random: f64, depth: f64) -> f64 {
    let shorter = 0.9_f64.powf(depth.min(32.0).log2());
    let disk = (1.0 - random) * bytes / 50e6 + random * (9e-3 * shorter + bytes / 50e6);
    disk + if stack == GUEST { 2e-4 + 1e-9 * bytes } else { 0.0 }
}

fn points(stack: &str) -> Points {
    let mut rates = Vec::new();
    for depth in [1_u32, 8, 64] {
        for bytes in STUDY_BYTES {
            for random_percent in [0_u8, 50, 100] {
                for read_percent in [0_u8, 100] {
                    let point = GridPoint { bytes, read_percent, random_percent, depth };
                    let share = f64::from(random_percent) / 100.0;
                    rates.push((point, 1.0 / pass_s(stack, f64::from(bytes), share, f64::from(depth))));
                }
            }
        }
    }
    Points { rates, runs: vec![1] }
}

/// Workers that do not think, with random reads.
fn shape(bytes: f64, depth: u32) -> Shape {
    Shape {
        read_share: 1.0,
        random_share: 1.0,
        mean_bytes: bytes,
        workers: depth,
        outstanding: f64::from(depth),
        ..Shape::default()
    }
}

fn cell(stack: &str, load: &str, bytes: f64, depth: u32) -> MeasuredLoad {
    let pass = pass_s(stack, bytes, 1.0, f64::from(depth));
    MeasuredLoad {
        stack: stack.into(),
        load: load.into(),
        rate: bytes / pass,
        operations_per_s: 1.0 / pass,
        response_s: Some(pass * f64::from(depth)),
        requests_per_s: 1.0 / pass,
        request_s: Some(pass * f64::from(depth)),
        shape: Some(shape(bytes, depth)),
        runs: vec![1],
        ..MeasuredLoad::default()
    }
}

fn evidence() -> Evidence {
    let parts = |crossing: &str| KnownStack::from([(StackPart::VirtualMachine, crossing.to_owned())]);
    Evidence {
        stacks: BTreeMap::from([(NATIVE.into(), parts("none")), (GUEST.into(), parts("kvm"))]),
        points: BTreeMap::from([(NATIVE.into(), points(NATIVE)), (GUEST.into(), points(GUEST))]),
        ..Evidence::default()
    }
}

fn question(evidence: &mut Evidence, load: &str, bytes: f64, depth: u32) -> Question {
    let here = cell(NATIVE, load, bytes, depth);
    evidence.shapes.insert(load.into(), shape(bytes, depth));
    evidence.cells.push(here.clone());
    Question {
        load: load.into(),
        shape: shape(bytes, depth),
        model: None,
        model_workers: 0,
        from: NATIVE.into(),
        reference: Reference::of(&here),
        to: GUEST.into(),
        processors: 1,
        machine: TargetMachine::SAME,
    }
}

fn by(id: MethodId, question: &Question, evidence: &Evidence) -> Result<Predicted, nestor_predict::Missing> {
    let method = METHODS.iter().find(|method| method.id == id).unwrap();
    (method.predict)(question, evidence, &Knowledge::default())
}

#[test]
fn surfaces_predict_by_ratio_by_queueing_and_by_the_cost_of_each_request() {
    for (bytes, depth, worst) in [(4096.0, 8, 0.05), (16384.0, 1, 0.05), (8192.0, 8, 0.08)] {
        let mut evidence = evidence();
        let question = question(&mut evidence, "load", bytes, depth);
        let truth = bytes / pass_s(GUEST, bytes, 1.0, f64::from(depth));
        for method in [MethodId::Ratio, MethodId::Queueing] {
            let found = by(method, &question, &evidence).unwrap();
            assert!(
                (found.rate / truth - 1.0).abs() < worst,
                "{method} {bytes} {depth}: {found:?} for {truth}"
            );
        }
    }
    // One at a time, the added time is all there is.
    let mut evidence = evidence();
    let question = question(&mut evidence, "load", 8192.0, 1);
    let truth = 8192.0 / pass_s(GUEST, 8192.0, 1.0, 1.0);
    let found = by(MethodId::PerRequest, &question, &evidence).unwrap();
    assert!((found.rate / truth - 1.0).abs() < 0.01, "{found:?} for {truth}");
}

/// The second prediction of the ESX study, through the crate (acceptance rows ).
#[test]
fn the_transaction_method_is_the_studys() {
    let mut evidence = Evidence::default();
    let model = MeasuredLoad {
        operations_per_s: 50.0 / 0.0903,
        response_s: Some(0.027),
        ..cell("vm", "model", 11264.0, 50)
    };
    evidence.cells.push(model);
    let question = Question {
        load: "mail".into(),
        shape: Shape { workers: 50, think_s: 0.05, outstanding: 9.5, ..shape(11264.0, 50) },
        model: Some("model".into()),
        model_workers: 50,
        from: "native".into(),
        reference: Reference {
            rate: 7122.0,
            requests_per_s: 50.0 / 0.0631,
            response_s: 0.012,
            processors_busy: 1.0,
        },
        to: "vm".into(),
        processors: 1,
        machine: TargetMachine { overhead_share: 0.094, compute_scale: 0.8 },
    };
    let found = by(MethodId::Transaction, &question, &evidence).unwrap();
    assert!((found.rate - 5346.0).abs() < 2.0, "{found:?}");
    // A model with fewer workers than the load has other times.
    let fewer = Question { model_workers: 49, ..question.clone() };
    assert!(by(MethodId::Transaction, &fewer, &evidence).unwrap_err().what.contains("50 workers"));
    let plain = Question { machine: TargetMachine::SAME, ..question };
    assert!((by(MethodId::Transaction, &plain, &evidence).unwrap().rate - 7122.0 * 63.1 / 90.3).abs() < 2.0);
}

#[test]
fn what_a_method_lacks_is_named_with_its_command() {
    let mut evidence = evidence();
    let question = question(&mut evidence, "load", 4096.0, 8);
    evidence.points.remove(GUEST);
    for method in [MethodId::Ratio, MethodId::Queueing, MethodId::PerRequest] {
        let missing = by(method, &question, &evidence).unwrap_err();
        let command = missing.command.unwrap();
        assert!(command.starts_with("nestor run 'ext4/kvm/hdd' iometer:surface"), "{method}: {command}");
    }
    assert!(
        by(MethodId::Transaction, &question, &evidence)
            .unwrap_err()
            .command
            .unwrap()
            .contains("characterize")
    );
    // At another place than the usual one it is measured there.
    let there = Evidence { on: Some("ssh:lab".to_owned()), ..evidence.clone() };
    for (method, command) in [
        (MethodId::Ratio, "nestor run --on ssh:lab 'ext4/kvm/hdd' iometer:surface"),
        (MethodId::Learnt, "nestor run --on ssh:lab 'ext4/kvm/hdd' fio:rand-read"),
    ] {
        let missing = by(method, &question, &there).unwrap_err().command.unwrap();
        assert!(missing.starts_with(command), "{method}: {missing}");
    }
    let nobody = answer(&question, &evidence, &Knowledge::default(), &Tracks::new());
    assert_eq!((nobody.rate, nobody.unknown.as_deref()), (None, Some("no method has the data it needs")));
}

#[test]
fn what_methods_were_off_before_decides_whom_to_trust() {
    let mut evidence = evidence();
    for (load, bytes, depth) in [("a", 1024.0, 1), ("b", 4096.0, 8), ("c", 16384.0, 8), ("d", 8192.0, 1)] {
        question(&mut evidence, load, bytes, depth);
        evidence.cells.push(cell(GUEST, load, bytes, depth));
    }
    let tracks = tracks(&evidence);
    assert!(tracks[&MethodId::Ratio].truths >= 8 && tracks[&MethodId::Ratio].error < 0.1, "{tracks:?}");
    let question = question(&mut evidence, "asked", 8192.0, 8);
    let truth = 8192.0 / pass_s(GUEST, 8192.0, 1.0, 8.0);
    let found = answer(&question, &evidence, &Knowledge::default(), &tracks);
    let rate = found.rate.expect("three methods agree");
    assert!((rate / truth - 1.0).abs() < 0.05, "{found:?}");
    assert!(found.interval.unwrap().contains(truth));
    let weights: f64 = found.methods.iter().map(|method| method.weight).sum();
    assert!((weights - 1.0).abs() < 1e-9);
    // Better than that nothing changes.
    let (model, same) = &found.nulls[0];
    assert_eq!(*model, NullModel::Same);
    assert!((same.unwrap() / truth - 1.0).abs() > (rate / truth - 1.0).abs());
}

/// Five guests on five hosts under four loads, whose effects multiply.
fn matrix() -> Evidence {
    let mut evidence = Evidence::default();
    let loads =
        [("reads", 1.0, 0.0), ("writes", 0.0, 0.0), ("random reads", 1.0, 1.0), ("random writes", 0.0, 1.0)];
    for (load, read, random) in loads {
        let shape = Shape { read_share: read, random_share: random, mean_bytes: 8192.0, ..Shape::default() };
        evidence.shapes.insert(load.into(), shape);
        evidence.families.insert(load.into(), load.split(' ').next_back().unwrap().to_owned());
    }
    for guest in 0..5_u32 {
        for host in 0..5_u32 {
            let stack = WrittenStack::from(format!("guest{guest}/kvm/host{host}"));
            let parts = KnownStack::from([
                (StackPart::GuestFileSystem, guest.to_string()),
                (StackPart::HostFileSystem, host.to_string()),
            ]);
            evidence.stacks.insert(stack.clone(), parts);
            for (load, read, random) in loads {
                let effect = 0.1 * f64::from(guest) + (1.0 - read) * 0.15 * f64::from((host * 7) % 5);
                let wobble = 0.01 * f64::from((guest * 3 + host * 5) % 4);
                let rate = 1e6 * (2.0 - random - effect + wobble).exp();
                evidence.cells.push(MeasuredLoad {
                    stack: stack.clone(),
                    load: load.into(),
                    rate,
                    operations_per_s: rate / 8192.0,
                    response_s: None,
                    requests_per_s: rate / 8192.0,
                    request_s: None,
                    shape: None,
                    runs: vec![1],
                    ..MeasuredLoad::default()
                });
            }
        }
    }
    evidence
}

/// Guests, hosts and loads whose effects multiply: what was never measured is learnt from what was.
#[test]
fn hidden_stacks_are_predicted_better_than_by_null_models() {
    let evidence = matrix();
    let found = validate(&evidence, Held::Stacks { known_loads: 2 }).unwrap();
    let (ours, same) = (&found.scores[0], &found.scores[1]);
    assert_eq!(ours.name, "prediction");
    let median = ours.median.unwrap();
    assert!(median < 0.03 && median < same.median.unwrap() / 2.0, "{found:?}");
    assert!(ours.coverage.unwrap() > 0.8 && ours.abstained() < 0.1, "{ours:?}");
    assert!(validate(&Evidence::default(), Held::Families).is_none());
}

/// Every load feels the hosts in its own way, so that the others tell nothing of what hosts do to one that ran on one of them only.
#[test]
fn a_family_that_goes_its_own_way_is_not_told_with_false_certainty() {
    let mut evidence = matrix();
    let shapes = ["reads", "writes"].map(|load| evidence.shapes[load].clone());
    evidence.shapes.clear();
    let cells: Vec<MeasuredLoad> =
        evidence.cells.iter().filter(|cell| cell.load == "reads").cloned().collect();
    evidence.cells.clear();
    for (number, strength) in [0.3, -0.25, 0.05, 0.4, -0.1, 0.2, -0.35, 0.15].into_iter().enumerate() {
        let load = WrittenWorkload::from(format!("load {number}"));
        evidence.shapes.insert(load.clone(), shapes[number % 2].clone());
        evidence.families.insert(load.clone(), load.to_string());
        for cell in &cells {
            let host = cell.stack.chars().next_back().unwrap().to_digit(10).unwrap();
            let rate = cell.rate * (strength * f64::from((host * 7) % 5)).exp();
            evidence.cells.push(MeasuredLoad { load: load.clone(), rate, ..cell.clone() });
        }
    }
    let found = validate(&evidence, Held::Families).unwrap();
    let ours = &found.scores[0];
    assert!(ours.coverage.is_none_or(|coverage| coverage > 0.8), "{ours:?}");
}

/// A load that the store does not know is told by its requests, once it was seen on a stack that is known.
#[test]
fn a_load_that_was_only_observed_is_told_by_loads_like_it() {
    let mut evidence = matrix();
    let knowledge = Knowledge::fit(&evidence);
    let [from, to] = ["guest1/kvm/host1", "guest3/kvm/host3"].map(WrittenStack::from);
    let writes = "writes".into();
    let here = MeasuredLoad {
        load: "observed".into(),
        rate: 500.0,
        operations_per_s: 500.0,
        requests_per_s: 500.0,
        ..evidence.cell(&from, &writes).unwrap().clone()
    };
    let question = Question {
        load: "observed".into(),
        shape: evidence.shapes["writes"].clone(),
        model: None,
        model_workers: 0,
        from: from.clone(),
        reference: Reference::of(&here),
        to: to.clone(),
        processors: 1,
        machine: TargetMachine::SAME,
    };
    let learnt = |evidence: &Evidence| {
        let method = METHODS.iter().find(|method| method.id == MethodId::Learnt).unwrap();
        (method.predict)(&question, evidence, &knowledge)
    };
    assert!(learnt(&evidence).unwrap_err().what.contains("--from"));
    let likewise = evidence.cell(&to, &writes).unwrap().rate / evidence.cell(&from, &writes).unwrap().rate;
    evidence.shapes.insert("observed".into(), question.shape.clone());
    evidence.cells.push(here);
    let found = learnt(&evidence).unwrap();
    assert!((found.rate / 500.0 / likewise - 1.0).abs() < 0.1, "{found:?} for {likewise}");
}

#[test]
fn a_layer_that_was_never_measured_is_not_guessed() {
    let mut evidence = matrix();
    let parts = KnownStack::from([
        (StackPart::GuestFileSystem, "1".to_owned()),
        (StackPart::HostFileSystem, "another".to_owned()),
    ]);
    evidence.stacks.insert("new".into(), parts);
    assert_eq!(evidence.never_measured(&"new".into()), [(StackPart::HostFileSystem, "another".to_owned())]);
    let knowledge = Knowledge::fit(&evidence);
    let question = Question {
        load: "reads".into(),
        shape: evidence.shapes["reads"].clone(),
        model: None,
        model_workers: 0,
        from: "guest1/kvm/host1".into(),
        reference: Reference::of(evidence.cell(&"guest1/kvm/host1".into(), &"reads".into()).unwrap()),
        to: "new".into(),
        processors: 0,
        machine: TargetMachine::SAME,
    };
    let found = answer(&question, &evidence, &knowledge, &Tracks::new());
    assert_eq!(found.rate, None);
    let missing =
        found.methods.iter().find(|m| m.method == MethodId::Learnt).unwrap().missing.clone().unwrap();
    assert!(missing.what.contains("host file system another"), "{missing:?}");
    let alike = evidence.most_alike(&"reads".into(), &"guest1/kvm/host4".into()).unwrap();
    assert!(alike.starts_with("guest1/") || alike.ends_with("/host4"), "{alike}");
}

/// Another amount of memory than was measured is not another kind of stack: the nearest stands for it, and the answer is less sure.
#[test]
fn the_nearest_amount_stands_for_one_that_was_not_measured() {
    let mut evidence = matrix();
    for stack in evidence.stacks.values_mut() {
        stack.insert(StackPart::GuestMemory, (192_u64 << 20).to_string());
    }
    let mut more = evidence.stacks["guest1/kvm/host1"].clone();
    more.insert(StackPart::GuestMemory, (384_u64 << 20).to_string());
    evidence.stacks.insert("more".into(), more);
    assert_eq!(evidence.never_measured(&"more".into()), []);
    assert_eq!(evidence.amounts_apart(&"more".into()), [(StackPart::GuestMemory, f64::from(192 << 20), 1.0)]);
    let knowledge = Knowledge::fit(&evidence);
    let asked = |to: &str| Question {
        load: "reads".into(),
        shape: evidence.shapes["reads"].clone(),
        model: None,
        model_workers: 0,
        from: "guest2/kvm/host2".into(),
        reference: Reference::of(evidence.cell(&"guest2/kvm/host2".into(), &"reads".into()).unwrap()),
        to: to.into(),
        processors: 0,
        machine: TargetMachine::SAME,
    };
    let learnt = METHODS.iter().find(|method| method.id == MethodId::Learnt).unwrap();
    let found = |to: &str| (learnt.predict)(&asked(to), &evidence, &knowledge).unwrap();
    let (more, same) = (found("more"), found("guest1/kvm/host1"));
    assert!(
        (more.rate / same.rate - 1.0).abs() < 0.1 && more.deviation > same.deviation,
        "{more:?} {same:?}"
    );
}

/// The thread that handles a disk's requests limits it only where it was seen at its limit.
#[test]
fn one_request_at_a_time_shows_no_limit() {
    let mut evidence = evidence();
    let question = question(&mut evidence, "load", 4096.0, 64);
    let free = by(MethodId::PerRequest, &question, &evidence).unwrap();
    for points in evidence.points.values_mut() {
        points.rates.retain(|(point, _)| point.depth == 1);
    }
    let alone = by(MethodId::PerRequest, &question, &evidence).unwrap();
    assert!(alone.steps.iter().all(|step| !step.contains("have been measured")), "{alone:?}");
    assert!(free.rate > 0.0);
}

/// A load that computes waits for the processors of the target as well.
#[test]
fn computing_needs_a_processor() {
    let mut evidence = evidence();
    let mut question = question(&mut evidence, "load", 4096.0, 8);
    question.shape.think_s = 0.05;
    let pass_s = 8.0 / 100.0;
    question.reference =
        Reference { rate: 100.0, requests_per_s: 100.0, response_s: pass_s - 0.05, processors_busy: 0.9 };
    let one = by(MethodId::Queueing, &question, &evidence).unwrap();
    question.processors = 8;
    let many = by(MethodId::Queueing, &question, &evidence).unwrap();
    assert!(one.rate < many.rate, "{} {}", one.rate, many.rate);
    question.machine.overhead_share = 1.0;
    assert!(by(MethodId::Queueing, &question, &evidence).unwrap().rate < many.rate);
}
