use nestor_results::{Resource, TraceMode, WrittenPlace};
use nestor_stack::{BitRate, Stack};
use nestor_statistics::random::SeededOrder;
use nestor_workload::Workload;
use proptest::prelude::*;

use super::*;

pub(crate) const MIB: u64 = 1 << 20;
const GBIT: BitRate = BitRate(1_000_000_000);
const SIZES: [u64; 4] = [48 * MIB, 144 * MIB, 240 * MIB, 336 * MIB];
const PATTERN: &str = "fio:rand-read:depth=1:runtime=off";

pub(crate) fn question(image_bytes: u64, instances: u32, reads_bytes: Option<u64>) -> Question {
    Question { image_bytes, instances, link_rate: GBIT, reads_bytes, run_options: Vec::new() }
}

pub(crate) fn place() -> WrittenPlace {
    "emulated:time=virtual".into()
}

fn taken(seconds: f64, disk_share: f64) -> Taken {
    let demand_s = [(Resource::Link, 0.5), (Resource::Disk("repository".into()), disk_share)];
    Taken { seconds, demand_s: demand_s.map(|(resource, share)| (resource, share * seconds)).into() }
}

/// Made-up lives of one setup.
#[derive(Default)]
pub(crate) struct Lives(pub(crate) Vec<ObservedLife>);

impl Lives {
    /// One that reads nothing.
    pub(crate) fn add(&mut self, way: &str, image_bytes: u64, transfer_s: f64) {
        let stack = format!("ext4/kvm/{way}/ext4/hdd//link/raw:size={image_bytes}/ext4/hdd:size=4G");
        let stack = Stack::parse(&stack).unwrap();
        self.0.push(ObservedLife {
            run: self.0.len() as i64 + 1,
            way: Way::of(&stack).unwrap(),
            setup: Setup {
                stack: "ext4/kvm/WAY/ext4/hdd//link/raw/ext4/hdd:size=4G".to_owned(),
                trace: TraceMode::Layers,
            },
            link_rate: GBIT,
            stack,
            image_bytes,
            transfer: taken(transfer_s, 0.8),
            rest: taken(10.0, 0.1),
            reads: None,
        });
    }

    /// One that reads.
    pub(crate) fn add_reading(&mut self, way: &str, transfer_s: f64, reads_bytes: u64, rest_s: f64) {
        self.add(way, 160 * MIB, transfer_s);
        let life = self.0.last_mut().unwrap();
        life.rest = taken(rest_s, 0.3);
        life.reads = Some(Reads { pattern: PATTERN.to_owned(), bytes: reads_bytes });
    }

    pub(crate) fn advice(&self, question: &Question) -> PropagationAdvice {
        propagation_advice(question, &place(), &self.0).unwrap()
    }
}

/// Three ways with small, fixed deviations: an image takes `copy:nbd` 0.2 s and 10 ms for each MiB, `copy:scp` three times as long, and is
/// open at once as an overlay. A read MiB takes 2 ms of a copy, and 300 ms of an overlay.
pub(crate) fn usual() -> Lives {
    let mut lives = Lives::default();
    let mut random = SeededOrder::new(20);
    let mut noise = |deviation: f64| deviation * random.normal();
    for size in SIZES {
        for _ in 0..2 {
            let seconds = 0.2 + 0.01 * (size / MIB) as f64;
            lives.add("copy:nbd", size, seconds + noise(0.01));
            lives.add("copy:scp", size, 3.0 * seconds + noise(0.01));
            lives.add("overlay", size, 0.2 + noise(0.001));
        }
    }
    for reads in [2 * MIB, 8 * MIB, 32 * MIB] {
        for _ in 0..2 {
            let mib = (reads / MIB) as f64;
            lives.add_reading("copy:nbd", 1.8 + noise(0.01), reads, 10.0 + 0.002 * mib + noise(0.02));
            lives.add_reading("overlay", 0.2 + noise(0.001), reads, 10.0 + 0.3 * mib + noise(0.02));
        }
    }
    lives
}

fn of<'a>(advice: &'a PropagationAdvice, way: &str) -> &'a WayAnswer {
    advice.ways.iter().find(|answer| answer.way.layer == way).unwrap()
}

#[test]
fn the_shortest_copy_is_taken_and_the_overlay_waits_for_the_question_of_reads() {
    let advice = usual().advice(&question(336 * MIB, 4, None));
    let choice = advice.choice.as_ref().unwrap();
    assert_eq!(
        (choice.way.layer.as_str(), choice.by, choice.among),
        ("copy:nbd", Compared::TransfersOfCopies, 2)
    );
    assert_eq!(choice.not_told_apart, []);
    let nbd = &of(&advice, "copy:nbd").transfer;
    let interval = nbd.one.interval.unwrap();
    assert!(interval.contains(3.56) && interval.half_width() < 0.1, "{nbd:?}");
    let busiest = nbd.bottleneck.as_ref().unwrap();
    assert_eq!(busiest.resource, Resource::Disk("repository".into()));
    assert!((busiest.share - 0.8).abs() < 0.01);
    // Four at once are between four times the link's demand and four times the time: what the repository's disk has read for one is there for all.
    assert!((nbd.all_s.low - 4.0 * 0.5 * 3.56).abs() < 0.2 && (nbd.all_s.high - 4.0 * 3.56).abs() < 0.4);
    let [cross_over] = advice.cross_overs.as_slice() else { panic!("{:?}", advice.cross_overs) };
    let Earlier::OverlayBelow { bytes, interval, extrapolated } = cross_over.earlier else {
        panic!("{cross_over:?}")
    };
    // 3.36 s over 298 ms for each MiB.
    let truth = 3.36 / 0.298 * MIB as f64;
    assert!((bytes / truth - 1.0).abs() < 0.05 && interval.contains(truth), "{cross_over:?}");
    assert_eq!((extrapolated, advice.missing), (None, vec![]));
}

#[test]
fn whole_lives_decide_where_it_is_known_what_is_read() {
    let chosen = |reads: u64| {
        let advice = usual().advice(&question(160 * MIB, 1, Some(reads)));
        let choice = advice.choice.unwrap();
        assert_eq!((choice.by, choice.among), (Compared::Lives, 2), "scp was not measured with reads");
        (choice.way.layer, choice.not_told_apart.len())
    };
    assert_eq!(chosen(MIB), ("overlay".to_owned(), 0));
    assert_eq!(chosen(30 * MIB), ("copy:nbd".to_owned(), 0));
    let advice = usual().advice(&question(160 * MIB, 1, Some(30 * MIB)));
    let lacks: Vec<(&[String], Lack)> =
        advice.missing.iter().map(|missing| (missing.ways.as_slice(), missing.lack)).collect();
    assert_eq!(lacks, [(&["copy:scp".to_owned()][..], Lack::Reads)]);
    assert_eq!(of(&advice, "copy:scp").life, None);
    assert_eq!(advice.ways.last().unwrap().way.layer, "copy:scp");
    let life = of(&advice, "overlay").life.as_ref().unwrap();
    assert!((life.one.seconds - (0.2 + 10.0 + 9.0)).abs() < 0.2, "{life:?}");
}

#[test]
fn fewer_than_three_sizes_have_no_interval_and_one_size_says_nothing_of_others() {
    let mut lives = Lives::default();
    for size in [48 * MIB, 144 * MIB] {
        lives.add("copy:nbd", size, 1.0 + size as f64 / 1e8);
        lives.add("copy:nbd", size, 1.1 + size as f64 / 1e8);
    }
    lives.add("copy:scp", 48 * MIB, 2.0);
    let advice = lives.advice(&question(96 * MIB, 1, None));
    let nbd = of(&advice, "copy:nbd");
    assert_eq!((nbd.transfer.one.interval, nbd.transfer_of.sizes), (None, 2));
    assert!((nbd.transfer.one.seconds - 1.05 - 0.96 * 1.048_576).abs() < 1e-9);
    assert_eq!(advice.ways.len(), 1, "{advice:?}");
    let lacks: Vec<Lack> = advice.missing.iter().map(|missing| missing.lack).collect();
    assert_eq!(lacks, [Lack::All, Lack::Sizes, Lack::Reads]);
    assert_eq!(advice.missing[1].ways, ["copy:nbd", "copy:scp"]);
    // Of the size itself it does.
    let advice = lives.advice(&question(48 * MIB, 1, None));
    assert_eq!(of(&advice, "copy:scp").transfer.one, Estimate { seconds: 2.0, interval: None });
    assert_eq!(advice.choice.unwrap().not_told_apart.len(), 1, "without intervals nothing is told apart");
}

#[test]
fn far_from_the_measured_sizes_a_line_is_an_extrapolation() {
    let factor =
        |size: u64| of(&usual().advice(&question(size, 1, None)), "copy:nbd").transfer_of.extrapolated;
    assert_eq!(factor(672 * MIB), None);
    assert_eq!(factor(1008 * MIB), Some(3.0));
    assert_eq!(factor(12 * MIB), Some(4.0));
}

#[test]
fn lives_of_other_setups_are_not_mixed_in() {
    let mut lives = usual();
    let mut other = Lives::default();
    SIZES.iter().for_each(|size| other.add("copy:nbd", *size, 100.0));
    for mut life in other.0 {
        life.setup.trace = TraceMode::Full;
        lives.0.push(life);
    }
    let advice = lives.advice(&question(336 * MIB, 1, None));
    assert_eq!(advice.other_setups.len(), 1);
    assert!(of(&advice, "copy:nbd").transfer.one.seconds < 4.0);
}

#[test]
fn what_was_not_measured_is_said_with_its_command() {
    let refused = |question: &Question, lives: &[ObservedLife]| {
        propagation_advice(question, &place(), lives).unwrap_err().to_string()
    };
    insta::assert_snapshot!(refused(&question(8 << 30, 1, None), &[]), @r"
    no life of an instance was measured on emulated:time=virtual
      measure some first: nestor run 'ext4/kvm/{copy:scp,copy:gridftp,copy:nbd,overlay}/ext4/hdd//link:rate=1gbit/raw:size={1G,2G,4G}/ext4/hdd' life:cycle
    ");
    let slower = Question {
        link_rate: BitRate(100_000_000),
        run_options: vec!["--store".to_owned(), "my results.sqlite".to_owned()],
        ..question(336 * MIB, 1, None)
    };
    insta::assert_snapshot!(refused(&slower, &usual().0), @r"
    no image was brought over a link of 100mbit on emulated:time=virtual, only of 1gbit, and times do not follow from one rate to another
      measure it first: nestor run 'ext4/kvm/{copy:nbd,copy:scp,overlay}/ext4/hdd//link:rate=100mbit/raw:size={84M,168M,336M}/ext4/hdd:size=4G' life:cycle --trace layers --store 'my results.sqlite'
    ");
}

/// A shell would pass the words of these commands on as they are quoted.
fn words(command: &str) -> Vec<&str> {
    command.split(' ').map(|word| word.trim_matches('\'')).collect()
}

#[test]
fn commands_can_be_run() {
    let mut lives = Lives::default();
    lives.add("copy:http:ranges=4", 64 * MIB, 1.0);
    for size in [1, 100 * MIB, 700 * MIB, 40 << 30] {
        let advice = lives.advice(&question(size, 1, Some(MIB)));
        assert_eq!(advice.missing.len(), 3);
        for missing in &advice.missing {
            let [_, _, stacks, workloads, ref trace @ ..] = words(&missing.command)[..] else {
                panic!("{}", missing.command)
            };
            assert_eq!(trace, ["--trace", "layers"]);
            let stacks = nestor_stack::parse_all(stacks).unwrap();
            let workloads = nestor_stack::expand(workloads).unwrap();
            let workloads: Vec<Workload> =
                workloads.iter().map(|workload| Workload::parse(workload).unwrap()).collect();
            assert_eq!(stacks.len() * workloads.len(), 3 * missing.ways.len(), "{}", missing.command);
            for stack in &stacks {
                let image = stack.source()[1].size("size").unwrap().get();
                assert!((32 * MIB..=(4 << 30) / 4).contains(&image), "{}", missing.command);
            }
            assert!(workloads.iter().all(|workload| workload.life().is_some()));
        }
    }
}

#[test]
fn where_lines_do_not_cross_one_way_is_earlier_whatever_is_read() {
    let mut lives = usual();
    let earlier = |lives: &Lives| lives.advice(&question(160 * MIB, 1, None)).cross_overs[0].earlier;
    // Bytes that are read cost the overlay less than the copy, and its image comes earlier.
    for life in lives.0.iter_mut().filter(|life| life.reads.is_some()) {
        let mib = life.reads.as_ref().map_or(0.0, |reads| reads.bytes as f64 / MIB as f64);
        life.rest.seconds += if life.way.is_copy() { mib } else { 0.0 };
    }
    assert_eq!(earlier(&lives), Earlier::Overlay { told_apart_from_bytes: 0.0 });
    // It takes as long as the copy until it is open, by these few lives.
    for life in lives.0.iter_mut().filter(|life| !life.way.is_copy()) {
        life.transfer.seconds = 1.79;
    }
    let Earlier::Overlay { told_apart_from_bytes } = earlier(&lives) else { panic!("{:?}", earlier(&lives)) };
    assert!((0.0..MIB as f64).contains(&told_apart_from_bytes), "{told_apart_from_bytes}");
    lives.0.retain(|life| life.reads.as_ref().is_none_or(|reads| reads.bytes != 8 * MIB));
    assert_eq!(earlier(&lives), Earlier::TooFewSizes);
}

/// Of how many in 1000 studies, in per cent, a way is told apart from another one in vain.
fn told_apart_in_vain(ways: &[&str]) -> f64 {
    const STUDIES: u32 = 1_000;
    let mut random = SeededOrder::new(1_978);
    let mut wrong = 0_u32;
    for _ in 0..STUDIES {
        let mut lives = Lives::default();
        for way in ways {
            for size in SIZES {
                let seconds = 0.2 + 0.01 * (size / MIB) as f64;
                (0..2).for_each(|_| lives.add(way, size, seconds + 0.1 * random.normal()));
            }
        }
        let choice = lives.advice(&question(300 * MIB, 1, None)).choice.unwrap();
        wrong += u32::from(choice.not_told_apart.len() + 1 < ways.len());
    }
    100.0 * f64::from(wrong) / f64::from(STUDIES)
}

#[test]
fn noise_makes_no_winner_more_often_than_the_confidence_allows() {
    // Three standard errors of a share of 1000 above 5 %.
    let most = 5.0 + 2.07;
    let two = told_apart_in_vain(&["copy:nbd", "copy:scp"]);
    let four = told_apart_in_vain(&["copy:nbd", "copy:scp", "copy:rsync", "copy:gridftp"]);
    assert!(two > 0.0 && two <= most, "{two}");
    assert!(four <= most, "{four}");
}

proptest! {
    #[test]
    fn a_made_up_line_is_found_again(
        head_s in 0.0_f64..10.0, ns_per_byte in 1.0_f64..100.0, asked_mib in 10_u64..4_000,
    ) {
        let mut lives = Lives::default();
        let seconds = |bytes: u64| head_s + ns_per_byte * 1e-9 * bytes as f64;
        SIZES.iter().for_each(|size| lives.add("copy:nbd", *size, seconds(*size)));
        let advice = lives.advice(&question(asked_mib * MIB, 1, None));
        let one = of(&advice, "copy:nbd").transfer.one;
        prop_assert!((one.seconds / seconds(asked_mib * MIB) - 1.0).abs() < 1e-6, "{one:?}");
        prop_assert!(one.interval.unwrap().half_width() < 1e-6 * one.seconds);
    }

    #[test]
    fn bounds_are_those_of_one_and_rise_with_each_instance(
        noise in prop::collection::vec(0.9_f64..1.1, 4), instances in 1_u32..200, asked_mib in 1_u64..4_000,
    ) {
        let mut lives = Lives::default();
        for (size, noise) in SIZES.into_iter().zip(noise) {
            lives.add("copy:nbd", size, noise * (0.2 + 0.01 * (size / MIB) as f64));
        }
        let time = |instances: u32| {
            of(&lives.advice(&question(asked_mib * MIB, instances, None)), "copy:nbd").transfer.clone()
        };
        let (alone, some, more) = (time(1), time(instances), time(instances + 1));
        let interval = alone.one.interval.unwrap();
        prop_assert_eq!((alone.all_s.low, alone.all_s.high), (interval.low, interval.high));
        prop_assert!(some.all_s.low <= more.all_s.low && some.all_s.high <= more.all_s.high);
        prop_assert!(some.all_s.low <= some.all_s.high);
        // No sooner than one, no later than one after another.
        prop_assert!(some.all_s.low >= interval.low);
        prop_assert!((some.all_s.high - f64::from(instances) * interval.high).abs() <= 1e-9 * some.all_s.high);
        prop_assert!(some.bottleneck.unwrap().demand_s <= some.one.seconds);
    }
}
