//! The command lines of fio.

use super::super::options::{bytes, choice, count, switch, time_limit_s};
use super::super::random::seed_of;
use nestor_statistics::SeededOrder;
use nestor_text::units;

use super::data_set::DataPlan;
use super::makes_new_files;
use crate::engine::{OperationLog, Place, RecordedStep, Step, Target};
use crate::notation::Workload;
use crate::value::Value;

/// Files that all jobs together keep open; the usual limit of a process is 1024 descriptors.
const OPEN_FILES: u64 = 768;

/// Largest write while files are laid out; large, so that laying out is quick on emulated machines.
const LAYOUT_BLOCK_BYTES: u64 = 1 << 20;

/// The slowest layout that is not taken for a hang.
pub(in crate::engines) const SLOWEST_LAYOUT_BYTES_PER_S: u64 = 4 << 20;
/// The slowest run to the data set's end that is not taken for a hang (32 random 8 KiB operations per second).
pub(in crate::engines) const SLOWEST_RUN_BYTES_PER_S: u64 = 256 << 10;
/// Starting fio, opening files and draining the queue, on a nested emulated machine.
pub(in crate::engines) const SPARE_S: u64 = 120;

/// Where the measured step leaves its bandwidth log: fio appends `_bw.log` to the prefix it is given.
pub(super) fn bandwidth_log(place: &Place) -> (String, String) {
    let prefix = format!("{}/nestor-fio", place.scratch.trim_end_matches('/'));
    (format!("{prefix}_bw.log"), prefix)
}

/// A command line under construction.
pub(in crate::engines) struct Arguments(pub(in crate::engines) Vec<String>);

impl Arguments {
    fn new() -> Self {
        let mut arguments = Self::of_all_jobs();
        arguments.0.insert(1, "--name=nestor".to_owned());
        arguments
    }

    /// What is set before the first [`Self::job`] is for all.
    pub(in crate::engines) fn of_all_jobs() -> Self {
        // A thread instead of a process per job: less memory, and no System V shared memory needed for it.
        let start = ["fio", "--thread=1", "--eta=never", "--output-format=json+"];
        Self(start.map(str::to_owned).to_vec())
    }

    /// What is set from here on is for this job.
    pub(in crate::engines) fn job(&mut self, name: &str) -> &mut Self {
        self.set("name", name)
    }

    /// Latencies as histograms of the whole time of each operation, and the throughput of each second.
    ///
    /// Returns the file with the throughput, which is there when the step has ended.
    pub(in crate::engines) fn measured(&mut self, place: &Place) -> String {
        self.set("lat_percentiles", 1).set("clat_percentiles", 0);
        // With equal intervals each line is one sample; otherwise fio averages samples and leaves idle ones out.
        let (log, prefix) = bandwidth_log(place);
        self.set("write_bw_log", prefix)
            .set("log_avg_msec", 1000)
            .set("bwavgtime", 1000)
            .set("per_job_logs", 0);
        log
    }

    pub(in crate::engines) fn set(&mut self, option: &str, value: impl std::fmt::Display) -> &mut Self {
        self.0.push(format!("--{option}={value}"));
        self
    }

    /// What is worked on, and how it is cut. `jobs` share it.
    fn target(&mut self, plan: DataPlan, target: &Target) -> &mut Self {
        match target {
            Target::Directory(path) => {
                self.set("directory", escaped(path));
                self.set("nrfiles", plan.files_per_job).set("filesize", plan.file_bytes);
                self.set("size", plan.bytes_per_job());
                if plan.files() > OPEN_FILES {
                    self.set("openfiles", (OPEN_FILES / plan.jobs).max(1));
                }
                self.set("numjobs", plan.jobs).set("fallocate", "none")
            }
            Target::Device(path) => {
                self.set("filename", escaped(path)).set("size", plan.bytes_per_job());
                if plan.jobs > 1 {
                    self.set("numjobs", plan.jobs).set("offset_increment", plan.bytes_per_job());
                }
                self.set("allow_file_create", 0)
            }
        }
    }
}

/// The stream of a seed from which the layout is drawn; operations have the seed itself.
const LAYOUT: u64 = 1;

/// fio takes `:` in paths for a separator of several.
pub(in crate::engines) fn escaped(path: &str) -> String {
    path.replace('\\', "\\\\").replace(':', "\\:")
}

/// fio takes 4096 bytes for an option, and each of so many names is at most 13 long.
const MOST_NAMED: u64 = 256;

/// The names that fio gives the files of its only job, from one on that the seed chooses, around to the one before.
fn from_first(plan: DataPlan, seed: u64) -> Option<String> {
    if plan.jobs > 1 || !(2..=MOST_NAMED).contains(&plan.files_per_job) {
        return None;
    }
    let first = SeededOrder::for_part(seed, LAYOUT).below(plan.files_per_job as usize) as u64;
    let names = (0..plan.files_per_job).map(|n| format!("nestor.0.{}", (first + n) % plan.files_per_job));
    Some(names.collect::<Vec<_>>().join(":"))
}

/// Lays the data set out; nothing when the measured run makes its own files.
pub(super) fn prepare(workload: &Workload, place: &Place, seed: u64) -> Vec<Step> {
    if makes_new_files(workload) {
        return Vec::new();
    }
    let plan = DataPlan::of(workload);
    let mut arguments = Arguments::new();
    let what = match &place.target {
        Target::Directory(_) => {
            // `create_only` opens and fills the files of all jobs one after the other, ending each with fsync.
            arguments.target(plan, &place.target);
            if let Some(names) = from_first(plan, seed) {
                arguments.set("filename", names);
            }
            arguments.set("rw", "write").set("overwrite", 1).set("create_only", 1);
            arguments.set("bs", layout_block(workload, plan.file_bytes));
            plan.in_words()
        }
        Target::Device(path) => {
            // One job, so that the device is filled from beginning to end.
            let whole = DataPlan { jobs: 1, files_per_job: 1, file_bytes: plan.bytes() };
            arguments.target(whole, &place.target);
            arguments.set("rw", "write").set("bs", layout_block(workload, plan.bytes()));
            arguments.set("ioengine", "psync").set("refill_buffers", 1).set("end_fsync", 1);
            format!("{} of {path}", units::size(plan.bytes()))
        }
    };
    vec![Step {
        title: format!("laying out {what}"),
        argv: arguments.0,
        input_files: Vec::new(),
        copied_files: Vec::new(),
        output_files: Vec::new(),
        timeout_s: SPARE_S + plan.bytes() / SLOWEST_LAYOUT_BYTES_PER_S,
    }]
}

/// More operations than this are not recorded one by one: fio keeps twice 48 bytes of each in memory and leaves
/// 150 in its logs, which in a lab machine are memory too.
const MOST_RECORDED: u64 = 400_000;

/// The measured run with a record of each operation instead of the log of bandwidth: fio has one interval for all its
/// logs, and the bandwidth follows from the operations.
///
/// Several jobs would write into one iolog.
pub(super) fn measure_recorded(workload: &Workload, place: &Place, seed: u64) -> Option<RecordedStep> {
    let plan = DataPlan::of(workload);
    let operations = plan.bytes() / bytes(workload, "bs");
    if plan.jobs > 1 || operations > MOST_RECORDED {
        return None;
    }
    let mut step = measure(workload, place, seed);
    let (_, prefix) = bandwidth_log(place);
    let averages = ["--write_bw_log=", "--log_avg_msec=", "--bwavgtime="];
    step.argv.retain(|argument| !averages.iter().any(|start| argument.starts_with(start)));
    let iolog = format!("{prefix}.iolog");
    // Latency as it is reported: from the moment an operation is made. The part after submission has a log as well, and
    // must: fio has no latency of syncs without it (`disable_clat` leaves them out).
    step.argv.extend(["--disable_slat=1", "--log_offset=1", "--log_unix_epoch=1"].map(str::to_owned));
    // Room for all from the start. fio makes more while it submits, so what ends after the last submission is lost if
    // the room was full then (seen in 3.33: `iolog->pending` in its `stat.c`). A sync may follow each write.
    step.argv.push(format!("--log_entries={}", 2 * operations + 1024));
    // The processor's own counter, fio's usual clock, drifts against the kernel's in a machine within an emulated one.
    step.argv.push("--clocksource=clock_gettime".to_owned());
    step.argv.extend([format!("--write_lat_log={prefix}"), format!("--write_iolog={iolog}")]);
    step.output_files.clear();
    let log = OperationLog {
        latency_log: format!("{prefix}_lat.log"),
        iolog,
        others: vec![format!("{prefix}_clat.log")],
        direct: switch(workload, "direct"),
    };
    Some(RecordedStep { step, log })
}

/// The measured run.
pub(super) fn measure(workload: &Workload, place: &Place, seed: u64) -> Step {
    let plan = DataPlan::of(workload);
    let mut arguments = Arguments::new();
    arguments.target(plan, &place.target);
    arguments.set("rw", direction(workload));
    if workload.case() == "mixed" {
        arguments.set("rwmixread", count(workload, "read"));
    }
    arguments.set("bs", bytes(workload, "bs"));
    arguments.set("ioengine", choice(workload, "engine")).set("iodepth", count(workload, "depth"));
    arguments.set("direct", u8::from(switch(workload, "direct")));
    if let Target::Directory(_) = place.target {
        arguments.set("file_service_type", choice(workload, "service"));
        if !makes_new_files(workload) {
            arguments.set("overwrite", 1).set("allow_file_create", 0);
        }
    }
    if let Some(Value::Count(writes)) = workload.value("fsync") {
        arguments.set("fsync", writes);
    }
    if writes(workload) && !switch(workload, "direct") {
        arguments.set("end_fsync", 1);
    }
    if let Some(seconds) = time_limit_s(workload, "runtime") {
        arguments.set("runtime", seconds);
    }
    // fio 3.33 ignores `randseed` for offsets unless `randrepeat` is off.
    arguments.set("randrepeat", 0).set("randseed", seed_of(workload, seed));
    let log = arguments.measured(place);
    Step {
        title: format!("{workload} on {}", place.target.path()),
        argv: arguments.0,
        input_files: Vec::new(),
        copied_files: Vec::new(),
        output_files: vec![log],
        timeout_s: SPARE_S + longest_s(workload, plan),
    }
}

/// A bound for the time of the measured run.
fn longest_s(workload: &Workload, plan: DataPlan) -> u64 {
    let run = time_limit_s(workload, "runtime").unwrap_or(plan.bytes() / SLOWEST_RUN_BYTES_PER_S);
    // What is still in the page cache when the time is over is written by the last fsync.
    let last_fsync = if writes(workload) && !switch(workload, "direct") {
        plan.bytes() / SLOWEST_LAYOUT_BYTES_PER_S
    } else {
        0
    };
    run + last_fsync
}

fn writes(workload: &Workload) -> bool {
    !workload.case().ends_with("-read")
}

fn direction(workload: &Workload) -> &'static str {
    match workload.case() {
        "seq-read" => "read",
        "seq-write" => "write",
        "rand-read" => "randread",
        "rand-write" => "randwrite",
        _ => "randrw",
    }
}

/// The block size of the layout: fio leaves out what remains of a file after whole blocks, so it must divide the size.
pub(in crate::engines) fn layout_block(workload: &Workload, size: u64) -> u64 {
    layout_block_of(size, bytes(workload, "bs"))
}

/// The same for a size that is a multiple of `unit`.
pub(in crate::engines) fn layout_block_of(size: u64, unit: u64) -> u64 {
    greatest_common_divisor(size, LAYOUT_BLOCK_BYTES).max(unit)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place { target: Target::Directory("/mnt/top".to_owned()), scratch: "/run/nestor/".to_owned() }
    }

    fn lines(step: &Step) -> String {
        step.argv.join("\n")
    }

    #[test]
    fn sequential_write_is_laid_out_and_overwritten() {
        let workload = Workload::parse("fio:seq-write").unwrap();
        let steps = prepare(&workload, &place(), 1);
        let names = from_first(DataPlan::of(&workload), 1).unwrap();
        insta::assert_snapshot!(lines(&steps[0]).replace(&names, "NAMES"), @r"
        fio
        --name=nestor
        --thread=1
        --eta=never
        --output-format=json+
        --directory=/mnt/top
        --nrfiles=64
        --filesize=8388608
        --size=536870912
        --numjobs=1
        --fallocate=none
        --filename=NAMES
        --rw=write
        --overwrite=1
        --create_only=1
        --bs=1048576
        ");
        insta::assert_snapshot!(lines(&measure(&workload, &place(), 1)), @r"
        fio
        --name=nestor
        --thread=1
        --eta=never
        --output-format=json+
        --directory=/mnt/top
        --nrfiles=64
        --filesize=8388608
        --size=536870912
        --numjobs=1
        --fallocate=none
        --rw=write
        --bs=8192
        --ioengine=libaio
        --iodepth=255
        --direct=1
        --file_service_type=sequential
        --overwrite=1
        --allow_file_create=0
        --runtime=10
        --randrepeat=0
        --randseed=1216681718
        --lat_percentiles=1
        --clat_percentiles=0
        --write_bw_log=/run/nestor/nestor-fio
        --log_avg_msec=1000
        --bwavgtime=1000
        --per_job_logs=0
        ");
    }

    #[test]
    fn operations_are_recorded_instead_of_averages() {
        let workload = Workload::parse("fio:seq-write:direct=off").unwrap();
        let plain = measure(&workload, &place(), 1);
        let recorded = measure_recorded(&workload, &place(), 1).unwrap();
        let only_in = |a: &Step, b: &Step| -> String {
            let missing: Vec<_> = a.argv.iter().filter(|x| !b.argv.contains(x)).map(String::as_str).collect();
            missing.join("\n")
        };
        insta::assert_snapshot!(only_in(&plain, &recorded.step), @r"
        --write_bw_log=/run/nestor/nestor-fio
        --log_avg_msec=1000
        --bwavgtime=1000
        ");
        insta::assert_snapshot!(only_in(&recorded.step, &plain), @r"
        --disable_slat=1
        --log_offset=1
        --log_unix_epoch=1
        --log_entries=132096
        --clocksource=clock_gettime
        --write_lat_log=/run/nestor/nestor-fio
        --write_iolog=/run/nestor/nestor-fio.iolog
        ");
        assert_eq!(recorded.log.latency_log, "/run/nestor/nestor-fio_lat.log");
        assert!(!recorded.log.direct && recorded.step.output_files.is_empty());
    }

    #[test]
    fn every_option_reaches_fio() {
        let text = "fio:mixed:read=70:bs=4k:depth=32:size=16M:files=8:runtime=2m:direct=off:engine=io_uring:numjobs=2\
                    :service=roundrobin:fsync=100:seed=7";
        let workload = Workload::parse(text).unwrap();
        let step = measure(&workload, &place(), 1);
        insta::assert_snapshot!(lines(&step), @r"
        fio
        --name=nestor
        --thread=1
        --eta=never
        --output-format=json+
        --directory=/mnt/top
        --nrfiles=4
        --filesize=2097152
        --size=8388608
        --numjobs=2
        --fallocate=none
        --rw=randrw
        --rwmixread=70
        --bs=4096
        --ioengine=io_uring
        --iodepth=32
        --direct=0
        --file_service_type=roundrobin
        --overwrite=1
        --allow_file_create=0
        --fsync=100
        --end_fsync=1
        --runtime=120
        --randrepeat=0
        --randseed=7
        --lat_percentiles=1
        --clat_percentiles=0
        --write_bw_log=/run/nestor/nestor-fio
        --log_avg_msec=1000
        --bwavgtime=1000
        --per_job_logs=0
        ");
        assert_eq!(step.output_files, ["/run/nestor/nestor-fio_bw.log"]);
        // 2 minutes, 120 spare seconds, 4 for the last fsync.
        assert_eq!(step.timeout_s, 244);
    }

    #[test]
    fn a_device_is_filled_by_one_job_and_measured_by_all() {
        let workload = Workload::parse("fio:rand-read:size=1G:numjobs=4:runtime=off").unwrap();
        let place =
            Place { target: Target::Device("/dev/disk/by-path/pci-0000:00:04.0".to_owned()), ..place() };
        insta::assert_snapshot!(lines(&prepare(&workload, &place, 1)[0]), @r"
        fio
        --name=nestor
        --thread=1
        --eta=never
        --output-format=json+
        --filename=/dev/disk/by-path/pci-0000\:00\:04.0
        --size=1073741824
        --allow_file_create=0
        --rw=write
        --bs=1048576
        --ioengine=psync
        --refill_buffers=1
        --end_fsync=1
        ");
        insta::assert_snapshot!(lines(&measure(&workload, &place, 1)), @r"
        fio
        --name=nestor
        --thread=1
        --eta=never
        --output-format=json+
        --filename=/dev/disk/by-path/pci-0000\:00\:04.0
        --size=268435456
        --numjobs=4
        --offset_increment=268435456
        --allow_file_create=0
        --rw=randread
        --bs=8192
        --ioengine=libaio
        --iodepth=255
        --direct=1
        --randrepeat=0
        --randseed=1216681718
        --lat_percentiles=1
        --clat_percentiles=0
        --write_bw_log=/run/nestor/nestor-fio
        --log_avg_msec=1000
        --bwavgtime=1000
        --per_job_logs=0
        ");
    }

    #[test]
    fn new_files_are_not_laid_out() {
        let workload = Workload::parse("fio:seq-write:overwrite=off").unwrap();
        assert!(prepare(&workload, &place(), 1).is_empty());
        let line = lines(&measure(&workload, &place(), 1));
        assert!(!line.contains("overwrite") && !line.contains("allow_file_create"), "{line}");
    }

    #[test]
    fn the_seed_says_which_file_is_laid_out_first_and_leaves_none_out() {
        let names = |text: &str, seed| from_first(DataPlan::of(&Workload::parse(text).unwrap()), seed);
        let firsts: std::collections::BTreeSet<String> = (0..200)
            .map(|seed| {
                let names = names("fio:seq-write", seed).unwrap();
                let mut numbers: Vec<u64> =
                    names.split(':').map(|name| name.rsplit('.').next().unwrap().parse().unwrap()).collect();
                assert!(numbers.windows(2).all(|two| two[1] == (two[0] + 1) % 64), "{names}");
                numbers.sort_unstable();
                assert_eq!(numbers, (0..64).collect::<Vec<_>>());
                names.split(':').next().unwrap().to_owned()
            })
            .collect();
        assert!(firsts.len() > 50, "{}", firsts.len());
        assert_eq!(names("fio:seq-write", 3), names("fio:seq-write", 3));
        assert_eq!(names("fio:seq-read:numjobs=4", 3), None);
        assert_eq!(names("fio:seq-read:files=257:size=1G", 3), None);
        assert!(names("fio:seq-read:files=256:size=1G", 3).unwrap().len() < 4096);
    }
}
