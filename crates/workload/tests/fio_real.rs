//! The commands run by the real fio (it must be installed), and its own numbers against ours.

mod support;

use nestor_workload::{LoadError, Place, Target, Workload};
use support::{Bench, class, run};

/// fio's bins are 1/64 of a power of two wide (its `stat.h`, `FIO_IO_U_PLAT_BITS`).
fn within_one_bin(ours: u64, fios: u64) -> bool {
    ours.abs_diff(fios) <= fios / 64 + 1
}

#[test]
fn the_four_cases_do_each_block_once_and_agree_with_fio() {
    for (case, name) in
        [("seq-read", "read"), ("seq-write", "write"), ("rand-read", "read"), ("rand-write", "write")]
    {
        let bench = Bench::new();
        let (result, json) = bench.measure(&format!("fio:{case}:size=4M:files=4:direct=off"));
        let operations = class(&result, name);
        assert_eq!(operations.operations, 512, "{case}");
        assert_eq!(operations.bytes, 4 << 20, "{case}");
        assert_eq!(operations.latency.count(), 512, "{case}");
        assert_eq!(result.operations.len(), 1, "{case}");
        assert_eq!(result.working_set_bytes, 4 << 20);
        assert_eq!(result.scale_factor, 4.0 / 5120.0);
        assert!(result.engine.starts_with("fio "), "{}", result.engine);
        assert!(result.elapsed_ns > 0 && result.cpu_user_s >= 0.0);
        let percentiles = json["jobs"][0][name]["lat_ns"]["percentile"].as_object().unwrap();
        assert!(percentiles.len() > 10);
        for (percentile, fios) in percentiles {
            let quantile = percentile.parse::<f64>().unwrap() / 100.0;
            let ours = operations.latency.quantile_ns(quantile).unwrap();
            let fios = fios.as_u64().unwrap();
            assert!(within_one_bin(ours, fios), "{case}: p{percentile} is {ours} ns, fio says {fios} ns");
        }
    }
}

#[test]
fn data_sets_are_laid_out_in_full_without_zeroes_or_repetition() {
    let bench = Bench::new();
    // Three files that are no multiple of the layout's block.
    let workload = Workload::parse("fio:rand-read:size=3000k:files=3:numjobs=3").unwrap();
    bench.prepare(&workload, &bench.place());
    let mut blocks = std::collections::HashSet::new();
    let mut files = 0;
    for entry in std::fs::read_dir(bench.top()).unwrap() {
        let content = std::fs::read(entry.unwrap().path()).unwrap();
        files += 1;
        assert_eq!(content.len() as u64, workload.data_set().file_bytes);
        for block in content.chunks(4096) {
            assert!(block.iter().any(|byte| *byte != 0));
            assert!(blocks.insert(block.to_vec()), "a block is there twice");
        }
    }
    assert_eq!(files, 3);
    assert_eq!(blocks.len() as u64, workload.data_set().bytes / 4096);
}

#[test]
fn several_jobs_are_merged_and_fsyncs_are_a_class_of_their_own() {
    let bench = Bench::new();
    let (result, json) =
        bench.measure("fio:mixed:read=70:size=1M:files=4:numjobs=2:direct=off:engine=psync:bs=4k:fsync=16");
    assert_eq!(json["jobs"].as_array().unwrap().len(), 2);
    let (read, write, fsync) = (class(&result, "read"), class(&result, "write"), class(&result, "fsync"));
    assert_eq!(read.operations + write.operations, 256);
    assert!(read.operations > write.operations, "{} reads, {} writes", read.operations, write.operations);
    assert!(fsync.operations > 0 && fsync.operations == fsync.latency.count());
    assert_eq!(fsync.bytes, 0);
}

#[test]
fn new_files_are_made_by_the_measured_run() {
    let bench = Bench::new();
    let (result, _) = bench.measure("fio:seq-write:overwrite=off:size=1M:files=2:direct=off");
    assert_eq!(class(&result, "write").bytes, 1 << 20);
    assert_eq!(std::fs::read_dir(bench.top()).unwrap().count(), 2);
}

#[test]
fn the_seed_decides_the_sequence() {
    let bench = Bench::new();
    let workload = Workload::parse("fio:rand-read:size=1M:files=2:direct=off:engine=psync").unwrap();
    bench.prepare(&workload, &bench.place());
    let sequence = |seed| {
        let mut step = workload.measure(&bench.place(), seed);
        let log =
            bench.0.path().join(format!("sequence.{}", std::fs::read_dir(bench.0.path()).unwrap().count()));
        step.argv.push(format!("--write_iolog={}", log.display()));
        workload.parse_output(&run(&step)).unwrap();
        // Time, file, operation, offset, length: all but the time.
        let text = std::fs::read_to_string(log).unwrap();
        let reads = text.lines().filter_map(|line| line.find('/').map(|at| line[at..].to_owned()));
        reads.filter(|line| line.contains(" read ")).collect::<Vec<_>>()
    };
    let first = sequence(1);
    assert_eq!(first.len(), 128);
    assert_eq!(first, sequence(1));
    assert_ne!(first, sequence(2));
}

#[test]
fn a_device_is_filled_and_read_in_parts() {
    let bench = Bench::new();
    // A file stands in for the device: fio only opens it by name.
    let device = bench.0.path().join("disk:0");
    std::fs::File::create(&device).unwrap().set_len(4 << 20).unwrap();
    let place = Place { target: Target::Device(device.to_str().unwrap().to_owned()), ..bench.place() };
    let workload = Workload::parse("fio:rand-read:size=2M:numjobs=2:direct=off").unwrap();
    bench.prepare(&workload, &place);
    let content = std::fs::read(&device).unwrap();
    assert!(content[..2 << 20].chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)));
    assert!(content[2 << 20..].iter().all(|byte| *byte == 0));
    let result = workload.parse_output(&run(&workload.measure(&place, 1))).unwrap();
    assert_eq!(class(&result, "read").bytes, 2 << 20);
}

#[test]
fn fios_refusals_are_passed_on() {
    let bench = Bench::new();
    let workload = Workload::parse("fio:seq-read:size=1M:direct=off").unwrap();
    let place = Place { target: Target::Directory("/nowhere/at/all".to_owned()), ..bench.place() };
    let error = workload.check_preparation(&run(&workload.prepare(&place, 1)[0])).unwrap_err();
    insta::assert_snapshot!(error, @"fio refused the workload (exit code 1): /nowhere/at/all is not a directory");
    // Measured without the data set.
    let error = workload.parse_output(&run(&workload.measure(&bench.place(), 1))).unwrap_err();
    assert!(matches!(error, LoadError::OperationFailed { .. } | LoadError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("file creation disallowed"), "{error}");
}

#[test]
fn every_operation_is_recorded_with_its_file_and_its_duration() {
    let bench = Bench::new();
    let workload = Workload::parse("fio:rand-write:size=4M:files=4:direct=off:fsync=64").unwrap();
    bench.prepare(&workload, &bench.place());
    let recorded = workload.measure_recorded(&bench.place(), 1).unwrap();
    let result = workload.parse_output(&run(&recorded.step)).unwrap();
    assert_eq!(class(&result, "write").latency.count(), 512);
    let lines = |path: &str| -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines()
            .map(|line| line.split([',', ' ']).filter(|w| !w.is_empty()).map(str::to_owned).collect())
            .collect()
    };
    let latencies = lines(&recorded.log.latency_log);
    let of_writes: Vec<u64> =
        latencies.iter().filter(|l| l[2] == "1").map(|l| l[1].parse().unwrap()).collect();
    assert_eq!(of_writes.len(), 512);
    let slowest = class(&result, "write").latency.summary().unwrap().max_ns;
    assert!(within_one_bin(*of_writes.iter().max().unwrap(), slowest), "the same latencies as in the report");
    let iolog = lines(&recorded.log.iolog);
    assert_eq!(iolog[0].join(" "), "fio version 3 iolog");
    assert_eq!(iolog.iter().filter(|l| l.get(2).is_some_and(|action| action == "write")).count(), 512);
    assert!(class(&result, "fsync").operations > 0);
    // At its end fio syncs every file once more, which the iolog has and the report has not.
    let syncs = iolog.iter().filter(|l| l.get(2).is_some_and(|action| action == "sync")).count() as u64;
    assert!(syncs >= class(&result, "fsync").operations);
    assert!(!recorded.log.direct);
    // Jobs would write over each other's record, and too many operations would fill a small machine's memory.
    let place = bench.place();
    let recorded = |text: &str| Workload::parse(text).unwrap().measure_recorded(&place, 1);
    assert_eq!(recorded("fio:rand-write:size=4M:files=4:numjobs=2"), None);
    assert_eq!(recorded("fio:rand-write:scale=1"), None);
}
