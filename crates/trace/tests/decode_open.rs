//! From what a user names to traces.

mod common;
mod traces;

use std::path::PathBuf;

use common::{encoded, event, write_files};
use nestor_trace::decode::blktrace::{ByteOrder, Encoder, Version};
use nestor_trace::decode::{Format, Source, ThreadNames, open};
use nestor_trace::event::{Action, BlockEvent};
use traces::{contents, data, read};

fn error_of(paths: &[PathBuf]) -> String {
    open(paths).map(|traces| traces.len()).unwrap_err().to_string()
}

#[test]
fn files_of_cpus_are_grouped_by_device() {
    let directory = tempfile::tempdir().unwrap();
    let on = |cpu, time_us| BlockEvent { cpu, ..event(time_us, Action::Queue, 0, 8) };
    let mut paths = write_files(directory.path(), "sdb", &[on(0, 1), on(2, 2), on(1, 3)]);
    paths.extend(write_files(directory.path(), "sda", &[on(0, 9), on(1, 8)]));
    std::fs::write(directory.path().join("sda.blktrace.2"), []).unwrap();
    paths.push(directory.path().join("sda.blktrace.2"));
    paths.swap(0, 4);
    let traces = open(&paths).unwrap();
    let descriptions: Vec<_> = traces.iter().map(|t| t.description()).collect();
    assert_eq!(descriptions, ["sda: blktrace records, 3 files", "sdb: blktrace records, 3 files"]);
    assert!(traces.iter().all(|t| t.remarks.is_empty()));
    // The same by the directory, and by the name before the number.
    assert_eq!(open(&[directory.path().to_path_buf()]).unwrap().len(), 2);
    let [by_name] = open(&[directory.path().join("sda")]).unwrap().try_into().ok().unwrap();
    let times: Vec<_> = contents(by_name.source).unwrap().events.iter().map(|e| e.time_ns / 1000).collect();
    assert_eq!(times, [8, 9]);
}

#[test]
fn a_missing_cpu_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let on = |cpu| BlockEvent { cpu, ..event(1, Action::Queue, 0, 8) };
    let mut paths = write_files(directory.path(), "sda", &(0..5).map(on).collect::<Vec<_>>());
    paths.drain(1..4);
    paths.push(paths[0].clone());
    let [trace] = open(&paths).unwrap().try_into().ok().unwrap();
    assert_eq!(trace.remarks[1], "the files of CPUs 1 to 3 are missing: their events are not counted");
    assert!(trace.remarks[0].ends_with("of a CPU whose file was already given: its events count twice"));
}

#[test]
fn what_cannot_be_read_is_said_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = error_of(&[path]);
        error.replace(&format!("{}/", directory.path().display()), "")
    };
    insta::assert_snapshot!(file("empty", b""), @"empty: at byte 0: the file is empty");
    insta::assert_snapshot!(file("hm_0.csv.gz", b"\x1f\x8b\x08\0abc"), @"hm_0.csv.gz: at byte 0: it is compressed with gzip: give `zcat FILE` on standard input, with - as its name");
    insta::assert_snapshot!(file("noise", b"\x01\x02noise\xff\n\n"), @r#"noise: at byte 0: not a trace of a known form: it begins with "\x01\x02noise\xff\n\n"; known forms are blktrace records; tracefs text of block events; blkparse text; QEMU simpletrace; QEMU trace log; fio iolog; fio latency log; MSR Cambridge CSV; vscsiStats commands; vscsiStats histograms; Nestor request file; Nestor disk log; Nestor frame log"#);
    insta::assert_snapshot!(error_of(&[]), @"no block event in ; name at least one");
    assert!(error_of(&[directory.path().to_path_buf()]).contains("directory without files of blktrace"));
    assert!(error_of(&[directory.path().join("absent")]).starts_with("cannot open the trace"));
}

#[test]
fn what_several_cpus_wrote_into_one_file_is_put_into_order() {
    let mut events = Vec::new();
    for cpu in 0..3 {
        let of_cpu = |i: u32| BlockEvent {
            cpu,
            sequence: i + 1,
            ..event(u64::from(i * 10 + cpu), Action::Queue, 0, 8)
        };
        events.extend((0..1000).map(of_cpu));
    }
    let all = read(encoded(&events, ByteOrder::Big, Version::V8));
    assert!(all.events.is_sorted_by_key(|e| e.time_ns) && all.events.len() == 3000);
    assert_eq!(all.warnings, Default::default());
}

#[test]
fn two_disks_in_one_file_have_numbers_of_their_own() {
    let on = |minor, sequence| BlockEvent {
        sequence,
        device: (8, minor).into(),
        ..event(u64::from(sequence), Action::Queue, 0, 8)
    };
    let events = [on(0, 1), on(16, 1), on(0, 2), on(16, 2), on(16, 5), on(0, 3)];
    let all = read(encoded(&events, ByteOrder::Little, Version::V7));
    assert_eq!((all.events.len(), all.warnings.missing_records), (6, 2));
}

#[test]
fn jumps_of_the_clock_are_counted() {
    let day_us = 86_400_000_000;
    let events = [5, 6 + day_us, 7 + 3 * day_us, 4].map(|time_us| event(time_us, Action::Queue, 0, 8));
    let mut reader = nestor_trace::decode::blktrace::FileReader::new(
        std::io::Cursor::new(encoded(&events, ByteOrder::Little, Version::V7)),
        "test",
    );
    while reader.next_event().unwrap().is_some() {}
    assert_eq!((reader.warnings().clock_jumps, reader.warnings().out_of_order), (2, 1));
}

#[test]
fn names_of_threads_are_kept_by_every_form_that_tells_them() {
    let [trace] = open(&[data("ext4-loop.tracefs.txt")]).unwrap().try_into().ok().unwrap();
    assert_eq!(trace.format, Format::Tracefs);
    let Source::BlockEvents(mut source) = trace.source else { panic!("events") };
    let mut pids = std::collections::BTreeSet::new();
    while let Some(event) = source.next_event().unwrap() {
        pids.insert(event.pid);
    }
    let names: Vec<_> = pids.iter().filter_map(|pid| source.thread_name(*pid)).collect();
    assert!(names.contains(&"fio") && names.iter().any(|name| name.starts_with("jbd2/loop0")), "{names:?}");
}

#[test]
fn notes_of_either_byte_order_and_version_name_threads_and_the_wall_clock() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for version in [Version::V7, Version::V8] {
            let encoder = Encoder { order, version };
            let at = event(5, Action::Queue, 0, 8);
            let mut bytes = Vec::new();
            encoder.process(&at, "sh", &mut bytes);
            encoder.clock(&at, 1_700_000_000_000_000_123, &mut bytes);
            encoder.event(&at, &mut bytes);
            // The thread has become another program.
            encoder.process(&at, "fio", &mut bytes);
            let Source::BlockEvents(mut source) = traces::open_bytes(bytes).unwrap().source else {
                panic!("events")
            };
            assert_eq!(source.next_event().unwrap(), Some(at));
            assert_eq!(source.next_event().unwrap(), None);
            assert_eq!((source.thread_name(77), source.thread_name(78)), (Some("fio"), None));
            let clock = source.clock().unwrap();
            assert_eq!((clock.time_ns, clock.realtime_ns), (5000, 1_700_000_000_000_000_123));
        }
    }
}

#[test]
fn names_of_threads_take_no_memory_without_end() {
    let mut names = ThreadNames::default();
    for pid in 0..70_000 {
        names.insert(pid, &"x".repeat(1000));
    }
    assert_eq!((names.len(), names.left_out()), (1 << 16, 70_000 - (1 << 16)));
    assert_eq!(names.get(3).map(str::len), Some(64));
}

/// fio's logs look alike: only their names show what is in them.
#[test]
fn a_log_of_fio_is_told_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let log = |name: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, "1, 4096, 0, 4096, 0\n2, 8192, 1, 4096, 0\n").unwrap();
        path
    };
    let refused = |name: &str| {
        let error = error_of(&[log(name)]);
        error.replace(&format!("{}/", directory.path().display()), "")
    };
    insta::assert_snapshot!(refused("job_bw.1.log"), @"job_bw.1.log: at byte 0: by its name it is fio's log of bandwidth (KiB/s), which contains no requests; give its log of latencies (NAME_lat.JOB.log, of `write_lat_log`)");
    insta::assert_snapshot!(refused("job_iops.log"), @"job_iops.log: at byte 0: by its name it is fio's log of operations per second, which contains no requests; give its log of latencies (NAME_lat.JOB.log, of `write_lat_log`)");
    assert!(refused("a.b_bw.12.log").contains("bandwidth"));
    let remarks = |name: &str| {
        let [trace] = open(&[log(name)]).unwrap().try_into().ok().unwrap();
        assert_eq!(trace.format, Format::FioLatencyLog, "{name}");
        trace.remarks
    };
    for name in ["job_lat.1.log", "job_clat.log", "x_bw_lat.3.log"] {
        assert_eq!(remarks(name), Vec::<String>::new(), "{name}");
    }
    assert!(remarks("job_slat.1.log")[0].contains("submission"));
    for name in ["results.txt", "bw.log", "job_bw.log.old"] {
        assert!(remarks(name)[0].starts_with("read as latencies; fio's logs of bandwidth"), "{name}");
    }
}
