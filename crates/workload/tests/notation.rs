//! The notation: what is written is what is printed, and what is wrong is pointed at.

use nestor_workload::engines::ENGINES;
use nestor_workload::{Kind, Place, Target, Workload, catalogue};
use proptest::prelude::*;

/// Texts that fit the kind of an option.
fn value_text(kind: Kind) -> BoxedStrategy<String> {
    match kind {
        Kind::Bytes => prop_oneof![
            (1u64..256).prop_map(|n| format!("{}", n * 512)),
            (1u64..999, "[kMG]").prop_map(|(n, unit)| format!("{n}{unit}"))
        ]
        .boxed(),
        Kind::Count { min, max } => (min..=max.min(min + 300)).prop_map(|n| n.to_string()).boxed(),
        Kind::TimeLimit => {
            prop_oneof![Just("off".to_owned()), (1u64..7300, "[smh]?").prop_map(|(n, u)| format!("{n}{u}"))]
                .boxed()
        }
        Kind::Switch => prop_oneof![Just("on".to_owned()), Just("off".to_owned())].boxed(),
        Kind::Choice(words) => proptest::sample::select(words.to_vec()).prop_map(str::to_owned).boxed(),
        Kind::File => "[a-z./-]{1,12}".boxed(),
        Kind::Workload => {
            proptest::sample::select(vec!["fio:rand-read:bs=8k", "postmark:small", "fio:seq-write"])
                .prop_map(str::to_owned)
                .boxed()
        }
        Kind::Milliseconds => (0u32..60_000, 0u32..1000).prop_map(|(ms, us)| format!("{ms}.{us:03}")).boxed(),
        Kind::Sizes => proptest::collection::vec((1u64..64, 1u64..100), 1..5)
            .prop_map(|sizes| {
                let words = sizes.iter().map(|(blocks, weight)| format!("{}/{weight}", blocks * 512));
                words.collect::<Vec<_>>().join("+")
            })
            .boxed(),
        Kind::Factor => (0u32..3, 0u32..1_000_000).prop_map(|(a, b)| format!("{a}.{b:06}")).boxed(),
    }
}

/// Workloads of an engine with any options in any order; not all of them fit together.
fn workload_of(engine: &'static dyn nestor_workload::Engine) -> impl Strategy<Value = String> {
    let option = proptest::sample::select(engine.options().to_vec())
        .prop_flat_map(|spec| value_text(spec.kind).prop_map(move |value| format!(":{}={value}", spec.name)));
    (proptest::sample::select(engine.cases().to_vec()), proptest::collection::vec(option, 0..4))
        .prop_map(move |(case, options)| format!("{}:{}{}", engine.name(), case.name, options.concat()))
}

fn fio_text() -> impl Strategy<Value = String> {
    workload_of(ENGINES[0])
}

fn workload_text() -> impl Strategy<Value = String> {
    (0..ENGINES.len()).prop_flat_map(|index| workload_of(ENGINES[index]))
}

proptest! {
    #[test]
    fn printed_workloads_read_back_the_same(text in workload_text()) {
        if let Ok(workload) = Workload::parse(&text) {
            let printed = workload.to_string();
            let again = Workload::parse(&printed).unwrap();
            prop_assert_eq!(&again, &workload);
            prop_assert_eq!(again.to_string(), printed.clone());
            prop_assert_eq!(again.data_set(), workload.data_set());
            let json = serde_json::to_string(&workload).unwrap();
            prop_assert_eq!(&json, &format!("{printed:?}"));
            prop_assert_eq!(&serde_json::from_str::<Workload>(&json).unwrap(), &workload);
            // Whatever fits together is a command that may take long, but not for ever.
            prop_assert!(!workload.describe().is_empty());
            let place = Place { target: Target::Directory("/top".to_owned()), scratch: "/run".to_owned() };
            let longest_s = 100 * 365 * 24 * 3600;
            prop_assert!(workload.prepare(&place, 1).iter().all(|step| step.timeout_s < longest_s));
        }
    }

    #[test]
    fn data_sets_are_whole_blocks_and_near_the_size_asked_for(text in fio_text()) {
        if let Ok(workload) = Workload::parse(&text) {
            let data = workload.data_set();
            prop_assert!(data.bytes > 0);
            prop_assert_eq!(data.bytes, data.files * data.file_bytes);
            if let Some(nestor_workload::Value::Bytes(size)) = workload.given("size") {
                prop_assert!(data.bytes <= size);
            }
        }
    }

    #[test]
    fn any_text_is_answered(text in "\\PC{0,40}|fio:[a-z-]{0,10}(:[a-z]{0,6}=?[0-9a-zA-Z.]{0,24}){0,3}|[\\x00-\\x7fä€]{0,30}") {
        if let Err(error) = Workload::parse(&text) {
            prop_assert!(error.to_string().lines().count() == 4, "{}", error);
        }
    }
}

fn error(text: &str) -> String {
    Workload::parse(text).unwrap_err().to_string()
}

#[test]
fn defaults_are_left_out_and_the_order_is_fixed() {
    let canonical = |text: &str| Workload::parse(text).unwrap().to_string();
    assert_eq!(canonical("fio:seq-write:scale=0.10:depth=255:bs=8192:direct=on"), "fio:seq-write");
    assert_eq!(canonical("fio:rand-read:engine=psync:depth=1"), "fio:rand-read:engine=psync");
    assert_eq!(
        canonical("fio:rand-read:fsync=1".replace("rand-read", "mixed").as_str()),
        "fio:mixed:fsync=1"
    );
    assert_eq!(
        canonical("fio:rand-read:numjobs=2:runtime=120:size=1024M:bs=4096:depth=32"),
        "fio:rand-read:bs=4k:depth=32:size=1G:runtime=2m:numjobs=2"
    );
}

#[test]
fn a_workload_says_what_it_is() {
    let describe = |text: &str| Workload::parse(text).unwrap().describe();
    assert_eq!(describe("fio:seq-write"), "8 KiB, depth 255, 512 MiB in 64 files");
    assert_eq!(
        describe("fio:mixed:read=70:numjobs=2:direct=off:engine=psync:size=1M:files=2"),
        "8 KiB, 70 % reads, depth 1, 2 jobs, buffered, 1 MiB in 2 files"
    );
    assert_eq!(Workload::parse("fio:seq-write").unwrap().remarks(), Vec::<String>::new());
    insta::assert_snapshot!(Workload::parse("fio:seq-write:direct=off").unwrap().remarks().join("\n"), @"libaio without direct=on is not asynchronous: the kernel sees one operation at a time");
}

#[test]
fn errors_point_at_the_part_to_blame() {
    insta::assert_snapshot!(error("fi:seq-write"), @r#"
    a workload is not understood
      fi:seq-write
      ^^ there is no engine "fi"
      did you mean fio? engines are fio, wml, postmark, bonnie, dbench, iozone, iometer, replay, stamps, life
    "#);
    insta::assert_snapshot!(error("fio"), @r"
    a workload is not understood
      fio
         ^ fio needs a case after it
      it has seq-read, seq-write, rand-read, rand-write, mixed
    ");
    insta::assert_snapshot!(error("fio:seq-wirte:bs=4k"), @r#"
    a workload is not understood
      fio:seq-wirte:bs=4k
          ^^^^^^^^^ fio has no case "seq-wirte"
      did you mean seq-write? it has seq-read, seq-write, rand-read, rand-write, mixed
    "#);
    insta::assert_snapshot!(error("fio:seq-write:dept=4"), @r#"
    a workload is not understood
      fio:seq-write:dept=4
                    ^^^^ fio has no option "dept"
      did you mean depth? options are bs, depth, scale, size, files, filesize, runtime, direct, engine, numjobs, service, overwrite, fsync, seed
    "#);
    insta::assert_snapshot!(error("fio:seq-write:depth"), @r#"
    a workload is not understood
      fio:seq-write:depth
                         ^ depth needs a value after =
      depth is a whole number from 1 to 65536
    "#);
    insta::assert_snapshot!(error("fio:seq-write:read=70"), @r#"
    a workload is not understood
      fio:seq-write:read=70
                    ^^^^ fio:seq-write has no option "read"
      only mixed has it
    "#);
    insta::assert_snapshot!(error("fio:seq-write:bs=8KB"), @r#"
    a workload is not understood
      fio:seq-write:bs=8KB
                       ^^^ bs cannot be "8KB"
      bs is a size such as 512, 8k, 64M or 1G (powers of 1024)
    "#);
    insta::assert_snapshot!(error("fio:seq-write:bs=4k:bs=8k"), @r"
    a workload is not understood
      fio:seq-write:bs=4k:bs=8k
                          ^^^^^ bs is given twice
      write it once
    ");
    insta::assert_snapshot!(error("fio:seq-write:engine=iouring"), @r#"
    a workload is not understood
      fio:seq-write:engine=iouring
                           ^^^^^^^ engine cannot be "iouring"
      did you mean io_uring? engine is one of libaio, io_uring, posixaio, psync, sync
    "#);
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    insta::assert_snapshot!(error("fio:rand-read:engine=psync:depth=32"), @r"
    a workload is not understood
      fio:rand-read:engine=psync:depth=32
                                 ^^^^^^^^ engine=psync waits for each operation: its depth is always 1
      omit depth, or use numjobs= for parallelism, or engine=io_uring
    ");
    insta::assert_snapshot!(error("fio:rand-read:size=1G:scale=0.5"), @r"
    a workload is not understood
      fio:rand-read:size=1G:scale=0.5
                            ^^^^^^^^^ scale and size set the same value
      give either scale or size
    ");
    insta::assert_snapshot!(error("fio:rand-read:bs=1000"), @r"
    a workload is not understood
      fio:rand-read:bs=1000
                    ^^^^^^^ direct I/O needs blocks of whole sectors, and 1000 is not a multiple of 512
      make bs a multiple of 512, or add direct=off
    ");
    insta::assert_snapshot!(error("fio:rand-read:files=5:numjobs=2"), @r"
    a workload is not understood
      fio:rand-read:files=5:numjobs=2
                    ^^^^^^^ 5 files cannot be shared evenly among 2 jobs
      make files a multiple of 2, such as 6
    ");
    insta::assert_snapshot!(error("fio:rand-read:size=4k"), @r"
    a workload is not understood
      fio:rand-read:size=4k
                    ^^^^^^^ a data set of 4 KiB in 1 file(s) leaves no room for a block of 8 KiB in each
      use a larger data set, larger files or smaller blocks
    ");
    insta::assert_snapshot!(error("fio:rand-read:filesize=512:bs=512:scale=1"), @r"
    a workload is not understood
      fio:rand-read:filesize=512:bs=512:scale=1
                    ^^^^^^^^^^^^ that makes 10485760 files, but at most 1000000 can be laid out
      use a larger filesize or a smaller data set
    ");
}

#[test]
fn the_catalogue_names_every_case_with_its_options() {
    let list = catalogue();
    let names: Vec<&str> = list.iter().map(|entry| entry.workload.as_str()).collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    fio:seq-read
    fio:seq-write
    fio:rand-read
    fio:rand-write
    fio:mixed
    wml:fileserver
    wml:webserver
    wml:mailserver
    wml:dbserver
    wml:create-tree
    wml:stat-tree
    wml:nas-seq-write
    wml:nas-rand-read
    wml:script
    postmark:xs
    postmark:small
    postmark:large
    bonnie:all
    bonnie:sequential
    bonnie:files
    dbench:fileserver
    iozone:write
    iozone:rewrite
    iozone:read
    iozone:reread
    iozone:rand-read
    iozone:rand-write
    iometer:grid
    iometer:mail
    iometer:surface
    replay:trace
    stamps:mixed
    life:cycle
    ");
    for entry in &list {
        if entry.workload.starts_with("fio:") {
            assert_eq!(entry.options.iter().any(|o| o.option == "read"), entry.workload.ends_with(":mixed"));
        }
        for option in &entry.options {
            if let Some(default) = &option.default {
                let needs_file = entry.options.iter().any(|o| o.form == "file");
                let shortest =
                    if needs_file { format!("{}:file=a", entry.workload) } else { entry.workload.clone() };
                let text = format!("{shortest}:{}={default}", option.option);
                assert_eq!(Workload::parse(&text).unwrap().to_string(), shortest, "{text}");
            }
        }
    }
}

#[test]
fn a_case_without_its_engine_is_shown_with_it() {
    insta::assert_snapshot!(error("seq-write:bs=4k"), @r#"
    a workload is not understood
      seq-write:bs=4k
      ^^^^^^^^^ there is no engine "seq-write"
      did you mean fio:seq-write:bs=4k?
    "#);
}
