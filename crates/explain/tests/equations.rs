//! Equations 1 to 3 on made-up runs, whose answers are known.

use std::collections::{BTreeMap, BTreeSet};

use insta::assert_snapshot;
use nestor_correlate::{
    Blame, Cause, Correlation, Join, Level, LevelIndex, LevelTimes, Origin, Passage, Passed, Spent,
    TimeAtLevel,
};
use nestor_explain::equations::{Answer, Equations, Side, Term, Why, equations, equations_text};
use nestor_layout::Class;
use nestor_results::{
    CellRecord, Environment, Executor, LayerRecord, Measured, Outcome, PathLength, TraceMode,
};
use nestor_stack::{LayerRole, MachineLabel};
use nestor_statistics::LatencyHistogram;
use nestor_trace::{LayerMetrics, Operation, TracePoint};
use nestor_workload::{LoadResult, OperationClass, OperationResult};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// The medium's time by cause, in the words of results.
type Causes<'a> = &'a [(&'a str, u64)];

fn blame(causes: Causes<'_>) -> Blame {
    let spent = |busy_ns| Spent { requests: 1 + busy_ns / MS, busy_ns, ..Spent::default() };
    Blame {
        busy_ns: causes.iter().map(|(_, ns)| ns).sum(),
        causes: causes
            .iter()
            .map(|(cause, ns)| (Cause::try_from((*cause).to_owned()).unwrap(), spent(*ns)))
            .collect(),
        ..Blame::default()
    }
}

/// Ten writes of 8 ms and two flushes of 20 ms, on four levels.
fn passage() -> Passage {
    let at = |queued, issued| TimeAtLevel { queued_ns: queued * MS, issued_ns: issued * MS };
    let writes = Passed {
        requests: 10,
        without_lowest: 0,
        whole_ns: 80 * MS,
        levels: vec![at(10, 5), at(0, 4), at(1, 2), at(8, 50)],
    };
    let flushes = Passed {
        requests: 2,
        without_lowest: 1,
        whole_ns: 40 * MS,
        levels: vec![at(0, 2), at(0, 6), at(0, 0), at(0, 32)],
    };
    Passage {
        level: LevelIndex::TOP,
        operations: BTreeMap::from([(Operation::Write, writes), (Operation::Flush, flushes)]),
    }
}

fn same(ns: u64, count: u64) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::default();
    histogram.record_many_ns(ns, count);
    histogram
}

fn correlation(causes: Causes<'_>) -> Correlation {
    let level = |layer: &str, kind: &str, machine: &str| Level {
        layer: layer.to_owned(),
        kind: kind.into(),
        machine: machine.into(),
        requests: 100,
        misaligned: 0,
    };
    Correlation {
        levels: vec![
            level("ext3", "guest block", "guest"),
            level("kvm", "hypervisor", "host"),
            level("jfs", "host block", "host"),
            level("hdd", "medium", "ground"),
        ],
        joins: (0..3).map(|above| Join { above: LevelIndex::at(above), ..Join::default() }).collect(),
        blame: blame(causes),
        times: vec![LevelTimes { queue: same(MS, 10), service: same(7 * MS, 10) }],
        passage: passage(),
        ..Correlation::default()
    }
}

fn layers() -> Vec<LayerRecord> {
    let layer = |layer: &str, role: LayerRole, machine: &str| LayerRecord::new(layer, role, machine, None);
    vec![
        layer("application", LayerRole::Application, "guest"),
        layer("ext3", LayerRole::FileSystem(MachineLabel::Guest(1)), "guest"),
        layer("kvm", LayerRole::VirtualMachine, "host"),
        layer("jfs", LayerRole::FileSystem(MachineLabel::Host), "host"),
        layer("hdd", LayerRole::Disk, "host"),
    ]
}

fn record(correlation: Option<Correlation>) -> CellRecord {
    let done = OperationResult { operations: 100, bytes: 409_600, ..OperationResult::default() };
    let load = LoadResult {
        elapsed_ns: 200 * MS,
        operations: [(OperationClass("write".to_owned()), done)].into(),
        ..LoadResult::default()
    };
    let counted = [
        (Executor::Application, 5_000_000),
        (Executor::GuestKernel, 12_000_000),
        (Executor::Hypervisor, 3_000_000),
        (Executor::HostKernel, 40_000_000),
    ];
    CellRecord {
        stack: "ext3/kvm/raw/jfs/hdd".into(),
        workload: "postmark:small".into(),
        study: None,
        study_hash: None,
        block: 0,
        repeat: 0,
        position: 0,
        trace: TraceMode::Full,
        untraced_twin: false,
        started_at: "2026-01-01T00:00:00Z".to_owned(),
        cell_s: 60.0,
        load_s: None,
        outcome: Outcome::Measured(Measured {
            load,
            layers: layers(),
            host_cpu_busy: 0.1,
            cpu_busy: Vec::new(),
            images: Vec::new(),
            correlation,
            trace_remarks: Vec::new(),
            path_length: Some(PathLength { instructions: counted.into(), window_ns: 200 * MS, requests: 12 }),
            networks: Vec::new(),
            lives: Vec::new(),
        }),
        marks: Vec::new(),
        environment: Environment { ground: "emulated".into(), ..Environment::default() },
    }
}

fn of(records: &[CellRecord]) -> Equations {
    let runs: Vec<(i64, &CellRecord)> = (41..).zip(records).collect();
    equations(&runs).unwrap()
}

fn measured(record: &mut CellRecord) -> &mut Measured {
    match &mut record.outcome {
        Outcome::Measured(measured) => measured,
        Outcome::Failed(_) => unreachable!("made up as measured"),
    }
}

const ON_EXT3: Causes<'static> = &[
    ("directory>image-data", 9 * MS),
    ("inode>image-data", 6 * MS),
    ("superblock>image-data", MS),
    ("extent-map>image-data", 2 * MS),
    ("allocation-map>image-data", 5 * MS),
    ("file-data>image-data", 60 * MS),
    ("journal>image-data", 7 * MS),
    ("journal>flush", 3 * MS),
    ("flush>flush", 2 * MS),
    ("->journal", 8 * MS),
    ("->inode", 4 * MS),
    ("->image-data", MS),
    ("->flush", MS),
    ("", MS),
];

#[test]
fn the_terms_of_a_file_system_that_keeps_them_apart() {
    let said = of(&[record(Some(correlation(ON_EXT3)))]);
    let time = said.workload_time.known().unwrap();
    assert_eq!((time.busy_ns, time.off), (110 * MS, 0.0));
    let of_guest: Vec<u64> = time.file_systems[0].terms.iter().map(|term| term.busy_ns / MS).collect();
    assert_eq!(of_guest, [9, 9, 5, 60, 10, 2], "in the order of the equation");
    let of_host: Vec<u64> = time.file_systems[1].terms.iter().map(|term| term.busy_ns / MS).collect();
    assert_eq!(of_host, [0, 4, 0, 0, 8, 2], "what nobody asked for is the host's, by its own classes");
    assert_eq!((time.file_systems[2].layer.as_deref(), time.file_systems[2].busy_ns), (None, MS));
}

#[test]
fn what_lies_in_one_tree_is_one_term_and_is_said() {
    let causes: Causes<'_> = &[
        ("mixed-metadata>image-data", 30 * MS),
        ("directory>image-data", 2 * MS),
        ("allocation-map>image-data", 3 * MS),
        ("file-data>image-data", 10 * MS),
    ];
    let said = of(&[record(Some(correlation(causes)))]);
    let time = said.workload_time.known().unwrap();
    let terms = &time.file_systems[0].terms;
    assert_eq!(terms[0].terms, BTreeSet::from([Term::Directories, Term::Metadata]));
    assert_eq!((terms.len(), terms[0].busy_ns), (5, 32 * MS));
    assert!(time.notes.iter().any(|note| note.contains("not told apart")), "{:?}", time.notes);
}

#[test]
fn the_time_of_a_request_is_that_of_its_ends_and_the_disk() {
    let said = of(&[record(Some(correlation(ON_EXT3)))]);
    let time = said.request_time.known().unwrap();
    let means = |at: usize| Side::ALL.map(|side| time.operations[at].mean_ns(side) / MS as f64);
    assert_eq!(time.operations[0].operation, Operation::Write);
    assert_eq!(means(0), [1.5, 0.7, 5.8]);
    assert_eq!((time.operations[1].operation, means(1)), (Operation::Flush, [1.0, 3.0, 16.0]));
    let processor = said.processor_time.known().unwrap();
    let parts: Vec<_> =
        processor.parts.iter().map(|part| (part.executed_at_most_ns, part.waited_at_least_ns)).collect();
    let ms = |at_most: f64, at_least: f64| (Some(at_most * 1e6), Some(at_least * 1e6));
    // 17 ms in the front end, in which the guest's kernel executed 12; 13 ms in the back end, in which more was executed than that.
    assert_eq!(parts, [(None, None), ms(12.0, 5.0), ms(13.0, 0.0), ms(0.0, 90.0)]);
}

#[test]
fn text_says_all_of_it() {
    let mut marked = record(Some(correlation(ON_EXT3)));
    marked.block = 1;
    measured(&mut marked).correlation.as_mut().unwrap().blame = blame(&[("file-data>image-data", 90 * MS)]);
    let said = of(&[record(Some(correlation(ON_EXT3))), marked]);
    assert_snapshot!(equations_text(&said, Some(100)), @"
    ext3/kvm/raw/jfs/hdd   postmark:small   runs 41, 42

    (1) workload = directories + metadata + free list + file blocks + journal + housekeeping
      time of the medium                  share      of each run  requests  by class
      ext3 (guest)              185 ms   92.5 %
        directories            9.00 ms    4.5 %     0.0 to 8.2 %        10  directory
        metadata               9.00 ms    4.5 %     0.0 to 8.2 %        12  inode 6.00 ms, extent map
                                                                            2.00 ms, superblock 1.00 ms
        free list              5.00 ms    2.5 %     0.0 to 4.5 %         6  allocation map
        file blocks             150 ms   75.0 %  54.5 to 100.0 %       152  file data
        journal                10.0 ms    5.0 %     0.0 to 9.1 %        12  journal
        housekeeping           2.00 ms    1.0 %     0.0 to 1.8 %         3  flush
      jfs (host)               14.0 ms    7.0 %
        metadata               4.00 ms    2.0 %     0.0 to 3.6 %         5  inode
        journal                8.00 ms    4.0 %     0.0 to 7.3 %         9  journal
        housekeeping           2.00 ms    1.0 %     0.0 to 1.8 %         4  image data 1.00 ms, flush
                                                                            1.00 ms
      asked for by no request  1.00 ms    0.5 %
        housekeeping           1.00 ms    0.5 %     0.0 to 0.9 %         2  unknown
      together                  200 ms  100.0 %
      the terms add up to the 200 ms for which the medium was busy, exactly; of 400 ms measured, it
        was idle for 200 ms
      housekeeping has requests of which nothing says what they are for
      metadata has the small directories and files that lie in inodes (xfs, jfs; ext4 with
        inline_data)
      metadata has the counts of free blocks that lie in superblocks, group descriptors (ext) and
        headers of allocation groups (xfs)
      housekeeping has flushes, which make durable what was written of any term; the write of a
        journal that a device flushes for is journal
      housekeeping has parts of the image that no request above asked for: tables of its format,
        reading ahead, writing late
      file blocks have what was written to places that were free again when the layout was read:
        deleted files, and their deleted directories and maps

    (2), (3) request = front end in the guest + back end in hypervisor and host + disk
      mean time of a  requests     time  front end   queued  back end  queued     disk  queued
      write                 20  8.00 ms    1.50 ms  1.00 ms    700 us  100 us  5.80 ms  800 us
          of each run: 8.00 ms to 8.00 ms
      flush                  4  20.0 ms    1.00 ms     0 ns   3.00 ms    0 ns  16.0 ms    0 ns
          of each run: 20.0 ms to 20.0 ms
      front end: ext3 (guest block)
      back end: kvm (hypervisor), jfs (host block)
      disk: hdd (medium)
      the parts add up to the recorded times of the requests, within 0.022 %; queued is what of each
        part was spent in queues
      nothing at the medium belongs to 2 of 4 requests to flush: a cache answered them, or what the
        host wrote meanwhile, such as its journal, is not known to be for them

    instructions and waiting
      all requests together                 time  executed at most  waited at least  instructions
      above: application                       -                 -                -    10 000 000
      front end: guest kernel            34.0 ms           24.0 ms          10.0 ms    24 000 000
      back end: hypervisor, host kernel  26.0 ms           26.0 ms             0 ns    86 000 000
      disk                                180 ms              0 ns           180 ms             -
      of 400 ms measured, the processor executed for 120 ms (30.0 %) and waited for 280 ms
      instructions are counted by who executes them and not by request, so a part's time executing is
        at most theirs; times of requests under way at once add up to more than the measured time
    ");
    for columns in [60, 80, 100] {
        let text = equations_text(&said, Some(columns));
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{text}");
    }
}

fn why<T>(answer: &Answer<T>) -> Option<Why> {
    match answer {
        Answer::Known(_) => None,
        Answer::NotKnown(not_known) => Some(not_known.why),
    }
}

#[test]
fn what_is_not_known_is_said_with_what_mends_it() {
    let untraced = CellRecord { trace: TraceMode::Layers, ..record(None) };
    let mut without_instructions = record(Some(correlation(ON_EXT3)));
    measured(&mut without_instructions).path_length = None;
    let of_earlier = record(Some(Correlation { passage: Passage::default(), ..correlation(ON_EXT3) }));
    let mut badly = correlation(ON_EXT3);
    badly.joins[1].origins = BTreeMap::from([(Origin::Unknown, 6), (Origin::Parent, 94)]);
    let idle = record(Some(Correlation { blame: Blame::default(), ..correlation(&[]) }));
    let why_of = |record: CellRecord| {
        let said = of(&[record]);
        (why(&said.workload_time), why(&said.request_time), why(&said.processor_time))
    };
    assert_eq!(why_of(untraced.clone()), (Some(Why::NotTraced), Some(Why::NotTraced), None));
    assert_eq!(why_of(record(None)), (Some(Why::NotJoined), Some(Why::NotJoined), None));
    assert_eq!(why_of(without_instructions), (None, None, Some(Why::NotCounted)));
    assert_eq!(why_of(of_earlier), (None, Some(Why::NotKept), None));
    assert_eq!(why_of(record(Some(badly))), (Some(Why::BadlyJoined), Some(Why::BadlyJoined), None));
    assert_eq!(why_of(idle), (Some(Why::NothingBelow), None, None));
    assert_snapshot!(equations_text(&of(&[untraced]), Some(100)), @"
    ext3/kvm/raw/jfs/hdd   postmark:small   run 41

    (1) workload = directories + metadata + free list + file blocks + journal + housekeeping
      not known: the run was recorded with --trace layers, which follows no request
      to know it: nestor run ext3/kvm/raw/jfs/hdd postmark:small --on emulated --again --trace full

    (2), (3) request = front end in the guest + back end in hypervisor and host + disk
      not known: the run was recorded with --trace layers, which follows no request
      to know it: nestor run ext3/kvm/raw/jfs/hdd postmark:small --on emulated --again --trace full

    instructions and waiting
      all requests together              time  executed at most  waited at least  instructions
      above: application                    -                 -                -     5 000 000
      front end: guest kernel               -                 -                -    12 000 000
      back end: hypervisor, host kernel     -                 -                -    43 000 000
      disk                                  -                 -                -             -
      of 200 ms measured, the processor executed for 60.0 ms (30.0 %) and waited for 140 ms
      instructions are counted by who executes them and not by request, so a part's time executing is
        at most theirs; times of requests under way at once add up to more than the measured time
    ");
}

#[test]
fn terms_that_do_not_add_up_are_refused_with_the_numbers() {
    let mut wrong = correlation(ON_EXT3);
    wrong.blame.busy_ns = 112 * MS;
    let passed = wrong.passage.operations.get_mut(&Operation::Write).unwrap();
    passed.levels[3].issued_ns = 52 * MS;
    let said = of(&[record(Some(wrong))]);
    let Answer::NotKnown(workload) = &said.workload_time else { panic!("2 ms are missing") };
    let Answer::NotKnown(request) = &said.request_time else { panic!("2 ms are too many") };
    assert_snapshot!(format!("{}\n{}", workload.words, request.words), @"
    the terms add up to 110 ms, and the busy time of the medium is 112 ms: -1.8 % off, more than 1 %
    the terms add up to 82.0 ms, and the time of the 10 requests to write is 80.0 ms: +2.5 % off, more than 1 %
    ");
    let mut within = correlation(ON_EXT3);
    within.blame.busy_ns = 111 * MS;
    let said = of(&[record(Some(within))]);
    assert!((said.workload_time.known().unwrap().off + 1.0 / 111.0).abs() < 1e-9);
}

#[test]
fn the_medium_is_not_busy_for_longer_than_its_own_log_says() {
    let with_log = |requests_ns: u64, flushes_ns: u64| {
        let mut logged = record(Some(correlation(ON_EXT3)));
        let mut metrics = LayerMetrics::new(TracePoint::DiskLog);
        metrics.d2c = Some(same(requests_ns / 100, 100));
        metrics.flush_d2c = Some(same(flushes_ns / 2, 2));
        measured(&mut logged).layers.last_mut().unwrap().metrics = Some(metrics);
        of(&[logged])
    };
    // 110 ms: in its log, requests under way at once may take longer together.
    for (requests, flushes) in [(100, 10), (90, 20), (400, 0)] {
        let said = with_log(requests * MS, flushes * MS);
        assert_eq!(said.workload_time.known().unwrap().busy_ns, 110 * MS, "{requests} + {flushes}");
    }
    let said = with_log(90 * MS, 10 * MS);
    let Answer::NotKnown(not_known) = &said.workload_time else { panic!("10 ms are not in the log") };
    assert_eq!(not_known.why, Why::DoesNotAddUp);
    assert!(
        not_known.words.contains("the medium's log") && not_known.words.contains("110 ms"),
        "{not_known:?}"
    );
}

#[test]
fn instructions_of_several_machines_are_not_told_apart() {
    let with_level_in = |machine: &str| {
        let mut several = correlation(ON_EXT3);
        several.levels[1].machine = machine.into();
        let said = of(&[record(Some(several))]);
        assert!(said.request_time.known().is_some(), "the times of requests are told apart in {machine}");
        why(&said.processor_time)
    };
    assert_eq!(with_level_in("host"), None);
    assert_eq!(with_level_in("guest"), None);
    assert_eq!(with_level_in("guest 2"), Some(Why::CountedTogether), "a guest in a guest");
    assert_eq!(with_level_in("client"), Some(Why::CountedTogether), "a machine across a link");
}

/// As `PathLength::of` has it where the processor's mode for guests is not used.
fn counted_without_guest_mode(stack: &str) -> CellRecord {
    let mut record = CellRecord { stack: stack.into(), ..record(Some(correlation(ON_EXT3))) };
    let counted = vec![(Executor::Application, 8_000_000), (Executor::HostKernel, 52_000_000)];
    measured(&mut record).path_length.as_mut().unwrap().instructions = counted;
    record
}

#[test]
fn instructions_of_a_paravirtualised_domain_are_those_of_domain_and_dom0_together() {
    let domain = of(&[counted_without_guest_mode("ext3/xen:guest=pv/raw/jfs/hdd")]);
    let time = domain.processor_time.known().unwrap();
    let both = time.parts.iter().find(|part| part.is_domain_with_dom0()).unwrap();
    assert_eq!(both.sides, [Side::FrontEnd, Side::BackEnd]);
    let requests = domain.request_time.known().unwrap();
    let times = [Side::FrontEnd, Side::BackEnd].map(|side| requests.together_ns(side));
    assert_eq!(both.requests_ns, Some(times.iter().sum()));
    let said = equations_text(&domain, None);
    assert!(said.contains("front end, back end: domain and dom0 together"), "{said}");
    assert!(!said.contains("host kernel"), "{said}");
    // Another type of domain has the mode; dom0 itself is one machine, whose kernel it is.
    for stack in ["ext3/xen:guest=pvh/raw/jfs/hdd", "ext3/dom0/hdd"] {
        let said = equations_text(&of(&[counted_without_guest_mode(stack)]), None);
        assert!(said.contains("host kernel"), "{stack}: {said}");
        assert!(!said.contains("domain and dom0"), "{stack}: {said}");
    }
}

fn any_cause() -> impl Strategy<Value = String> {
    let class = prop::option::of(prop::sample::select(Class::ALL.to_vec()));
    prop::collection::vec(class, 0..4).prop_map(|classes| String::from(Cause(classes)))
}

proptest! {
    #[test]
    fn the_terms_always_add_up_to_the_busy_time(
        causes in prop::collection::btree_map(any_cause(), 1..1_000_000_000_u64, 1..40),
    ) {
        let causes: Vec<(&str, u64)> = causes.iter().map(|(cause, ns)| (cause.as_str(), *ns)).collect();
        let all: u64 = causes.iter().map(|(_, ns)| ns).sum();
        let said = of(&[record(Some(correlation(&causes)))]);
        let time = said.workload_time.known().unwrap();
        prop_assert_eq!(time.busy_ns, all);
        let rows = time.file_systems.iter().flat_map(|one| &one.terms);
        prop_assert_eq!(rows.clone().map(|term| term.busy_ns).sum::<u64>(), all);
        prop_assert_eq!(rows.clone().flat_map(|term| term.classes.values()).sum::<u64>(), all);
        for one in &time.file_systems {
            let terms: Vec<Term> = one.terms.iter().flat_map(|term| term.terms.iter().copied()).collect();
            prop_assert_eq!(terms.len(), Term::ALL.len(), "each term of the equation is in one row");
        }
    }
}
