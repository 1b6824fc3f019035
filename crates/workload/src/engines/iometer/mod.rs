//! Iometer's load: one stream of requests per worker in which reads and writes, seeks and continuations are mixed by chance.
//!
//! The ESX study (Ahmad et al., WWC '03) ran Iometer 2003.05.10 over a grid of 4 block sizes, 5 shares of reads and 5 of
//! seeks (§3.1, row A-7), and modelled a mail server with it (§5.2, rows ).
//!
//! # Why fio's own mixture is not it
//! fio's `rw=randrw` with `percentage_random` keeps a position for reads and one for writes, so that a file that is half read
//! and half written "sequentially" is gone through twice; Iometer has one position, and a request that does not seek goes on
//! where the last one ended, whatever that did (§3.4, row A-14: why the mixed sequential slices are the slowest). So the
//! requests are drawn here, and fio replays them as an iolog.
//!
//! # The cases
//! * `grid`: the paper's outstanding requests were 28, 47 and 64 on its three machines (row A-5): `depth=64` by default;
//!   one worker, no think time (row A-6). Blocks, shares and 3 minutes a point: `bs=`, `read=`, `random=`, `runtime=3m`.
//! * `surface`: many points of the grid in one run, each a job of fio after the other, 3 s each; all 100 (75 without 1 KiB), or
//!   those `points=` that tell most of the others.
//! * `mail`: 64 % reads, all random, 10.9 KB, 50 ms think time, 50 workers with one request each (§5.2). 10.9 KB become 11
//!   KiB: 8.5 MB/s over 792 requests/s are 10.99 KiB with binary megabytes (row A-26), and requests past the page cache are
//!   whole sectors.
//!
//! # How long
//! fio ends at `operations` (all workers together; they are drawn before, 25 bytes of log each) or at `runtime`, whichever
//! comes first.
//!
//! # The file
//! The paper does not give its size. All workers work on one file, as Iometer's do on its `iobw.tst`, at multiples of the
//! block size, past the page cache (`direct=on`).

mod stream;
mod surface;

use nestor_text::units;

use super::fio::job::{
    Arguments, SLOWEST_LAYOUT_BYTES_PER_S, SLOWEST_RUN_BYTES_PER_S, SPARE_S, escaped, layout_block_of,
};
use super::fio::report::{Expected, Report, SyncTimes};
use super::options::{bytes, count, switch, time_limit_s};
use super::random::seed_of;
use crate::demand::Demand;
use crate::engine::{About, Case, DataSet, Engine, Misfit, OptionSpec, Place, Step, StepOutput, Target};
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::{Direction, LoadResult};
use crate::value::{Kind, Value};
use stream::{Pattern, Stream};
pub use surface::SurfacePoint;

/// The engine.
pub struct Iometer;

const CASES: &[Case] = &[
    Case { name: "grid", summary: "a point of the grid of block size, reads and seeks" },
    Case { name: "mail", summary: "a model of a mail server: 50 workers that think between requests" },
    Case { name: "surface", summary: "many points of the grid, one after the other" },
];

/// The cases with one kind of request.
const ONE_KIND: &[&str] = &["grid", "mail"];
const MANY_KINDS: &[&str] = &["surface"];

/// Which way its operations move data.
const DIRECTIONS: &[(&str, Direction)] = Direction::OF_READ_AND_WRITE;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec { name: "bs", kind: Kind::Bytes, cases: ONE_KIND, summary: "bytes per request" },
    OptionSpec {
        name: "sizes",
        kind: Kind::Sizes,
        cases: ONE_KIND,
        summary: "sizes of requests, drawn by their weights, instead of bs",
    },
    OptionSpec {
        name: "read",
        kind: Kind::Count { min: 0, max: 100 },
        cases: ONE_KIND,
        summary: "percentage of reads; each request is drawn at random",
    },
    OptionSpec {
        name: "random",
        kind: Kind::Count { min: 0, max: 100 },
        cases: ONE_KIND,
        summary: "percentage of requests that seek; the others continue after the previous request",
    },
    OptionSpec {
        name: "depth",
        kind: Kind::Count { min: 1, max: 4096 },
        cases: &[],
        summary: "outstanding requests of each worker",
    },
    OptionSpec {
        name: "think",
        kind: Kind::Milliseconds,
        cases: ONE_KIND,
        summary: "milliseconds that a worker waits after each request",
    },
    OptionSpec {
        name: "workers",
        kind: Kind::Count { min: 1, max: 256 },
        cases: ONE_KIND,
        summary: "number of workers",
    },
    OptionSpec {
        name: "points",
        kind: Kind::Count { min: surface::FEWEST_POINTS, max: surface::ALL_POINTS },
        cases: MANY_KINDS,
        summary: "number of points of the grid; the points that are most informative about the others",
    },
    OptionSpec {
        name: "smallest",
        kind: Kind::Bytes,
        cases: MANY_KINDS,
        summary: "leaves out the grid's points with fewer bytes per request",
    },
    OptionSpec {
        name: "size",
        kind: Kind::Bytes,
        cases: &[],
        summary: "size of the file that all workers share",
    },
    OptionSpec {
        name: "operations",
        kind: Kind::Count { min: 1, max: 2_000_000 },
        cases: &[],
        summary: "number of requests of all workers; for a surface, at each point",
    },
    OptionSpec {
        name: "runtime",
        kind: Kind::TimeLimit,
        cases: &[],
        summary: "time limit; for a surface, at each point",
    },
    OptionSpec {
        name: "direct",
        kind: Kind::Switch,
        cases: &[],
        summary: "bypass the page cache (O_DIRECT)",
    },
    OptionSpec {
        name: "seed",
        kind: Kind::Count { min: 1, max: u32::MAX as u64 },
        cases: &[],
        summary: "fixed requests; by default, different ones for each replication",
    },
];

/// Ours: twice the memory of a 256 MiB guest.
const FILE_BYTES: u64 = 512 << 20;
/// Ours: half a megabyte of log.
const OPERATIONS: u64 = 20_000;
/// Ours, as in the fio engine; the paper has 3 minutes.
const RUNTIME_S: u64 = 10;
/// O_DIRECT needs multiples of the device's logical block, 512 bytes at least.
const SECTOR_BYTES: u64 = 512;
/// The file's name within a log; fio puts the real one in its place.
const NAME_IN_LOG: &str = "f";

impl Engine for Iometer {
    fn about(&self) -> &'static About {
        &About {
            name: "iometer",
            program: "fio",
            package: Some("fio"),
            cases: CASES,
            options: OPTIONS,
            directions: DIRECTIONS,
        }
    }

    fn default_value(&self, workload: &Workload, option: &str) -> Option<Value> {
        let mail = workload.case() == "mail";
        let surface = is_surface(workload);
        Some(match option {
            "bs" => Value::Bytes(if mail { 11 << 10 } else { 4 << 10 }),
            "read" => Value::Count(if mail { 64 } else { 50 }),
            "random" => Value::Count(if mail { 100 } else { 50 }),
            "depth" => Value::Count(if mail { 1 } else { 64 }),
            "think" => Value::Milliseconds(if mail { 50_000 } else { 0 }),
            "workers" => Value::Count(if mail { 50 } else { 1 }),
            "size" => Value::Bytes(FILE_BYTES),
            "points" => Value::Count(surface::ALL_POINTS),
            "smallest" => Value::Bytes(1 << 10),
            "operations" => Value::Count(if surface { surface::POINT_OPERATIONS } else { OPERATIONS }),
            "runtime" => Value::TimeLimit(Some(if surface { surface::POINT_S } else { RUNTIME_S })),
            "direct" => Value::Switch(true),
            _ => return None,
        })
    }

    fn check(&self, workload: &Workload) -> Result<(), Misfit> {
        if is_surface(workload) {
            return surface::check(workload);
        }
        let misfit = |option, why: String, remedy: String| Err(Misfit { option, why, remedy });
        let by = if workload.given("sizes").is_some() { "sizes" } else { "bs" };
        if by == "sizes" && workload.given("bs").is_some() {
            let why = "the sizes of requests are given twice".to_owned();
            return misfit("bs", why, "write either bs= or sizes=".to_owned());
        }
        let sizes = sizes(workload);
        let uneven = sizes.iter().find(|(bytes, _)| !bytes.is_multiple_of(SECTOR_BYTES));
        if let Some((block, _)) = uneven.filter(|_| switch(workload, "direct")) {
            let why =
                format!("direct I/O needs blocks of whole sectors, and {block} is not a multiple of 512");
            return misfit(by, why, format!("make {by} a multiple of 512, or add direct=off"));
        }
        let largest = largest(&sizes);
        if bytes(workload, "size") < largest {
            let option = if workload.given("size").is_some() { "size" } else { by };
            let remedy = format!("write a size of at least {}", units::size(largest));
            return misfit(option, "no block fits".to_owned(), remedy);
        }
        if think_us(workload) > 0 && count(workload, "depth") > 1 {
            let option = if workload.given("depth").is_some() { "depth" } else { "think" };
            let why = "a worker thinks after each request, so it has one request at a time".to_owned();
            return misfit(
                option,
                why,
                "write depth=1, and use workers= for more requests in flight".to_owned(),
            );
        }
        let (operations, workers) = (count(workload, "operations"), count(workload, "workers"));
        if operations < workers {
            let why = format!("{operations} operations are fewer than one for each of {workers} workers");
            return misfit("operations", why, format!("write at least {workers}"));
        }
        Ok(())
    }

    /// The paper does not say how large its file was.
    fn demand(&self, workload: &Workload) -> Demand {
        let outstanding = count(workload, "depth").saturating_mul(count(workload, "workers"));
        let surface = is_surface(workload);
        let share = |option| (!surface).then(|| count(workload, option) as f64 / 100.0);
        let one_size = !surface && workload.value("sizes").is_none();
        let think_ms = match workload.value("think") {
            Some(Value::Milliseconds(microseconds)) => Some(microseconds as f64 / 1e3),
            _ => None,
        };
        Demand {
            outstanding: Some(outstanding),
            workers: Some(outstanding),
            think_ms,
            past_page_cache: switch(workload, "direct"),
            read_share: share("read"),
            random_share: share("random"),
            request_bytes: one_size.then(|| bytes(workload, "bs")),
            is_surface: surface,
            ..Demand::default()
        }
    }

    fn data_set(&self, workload: &Workload) -> DataSet {
        let unit = unit(&sizes(workload));
        let bytes = bytes(workload, "size") / unit * unit;
        DataSet { bytes, files: 1, file_bytes: bytes, scale_factor: 1.0 }
    }

    fn describe(&self, workload: &Workload) -> String {
        if is_surface(workload) {
            return surface::describe(workload);
        }
        let sizes = sizes(workload);
        let size = match sizes.as_slice() {
            [(bytes, _)] => units::size(*bytes),
            _ => format!("{} sizes, {} on average", sizes.len(), units::size(mean(&sizes))),
        };
        let mut words = vec![
            size,
            format!("{} % reads", count(workload, "read")),
            format!("{} % seeks", count(workload, "random")),
            format!("depth {}", count(workload, "depth")),
        ];
        match count(workload, "workers") {
            1 => {}
            workers => words.push(format!("{workers} workers")),
        }
        if think_us(workload) > 0 {
            words.push(format!("{} ms think time", Value::Milliseconds(think_us(workload))));
        }
        if !switch(workload, "direct") {
            words.push("buffered".to_owned());
        }
        words.push(format!("on {}", units::size(self.data_set(workload).bytes)));
        words.join(", ")
    }

    fn remarks(&self, workload: &Workload) -> Vec<String> {
        let mut remarks = vec!["requests drawn as Iometer draws them, replayed by fio".to_owned()];
        if !switch(workload, "direct") && count(workload, "depth") > 1 {
            remarks.push(
                "libaio without direct=on is not asynchronous: the kernel sees one operation at a time"
                    .to_owned(),
            );
        }
        remarks
    }

    fn prepare(&self, workload: &Workload, place: &Place, _seed: u64) -> Vec<Step> {
        let mut arguments = Arguments::of_all_jobs();
        let size = self.data_set(workload).bytes;
        arguments.set("filename", escaped(&file_name(place))).set("size", size).set("fallocate", "none");
        arguments
            .set("rw", "write")
            .set("bs", layout_block_of(size, unit(&sizes(workload))))
            .set("ioengine", "psync");
        arguments.set("refill_buffers", 1).set("end_fsync", 1).job("layout");
        vec![Step {
            title: format!("laying out {}", units::size(size)),
            argv: arguments.0,
            input_files: Vec::new(),
            copied_files: Vec::new(),
            output_files: Vec::new(),
            timeout_s: SPARE_S + size / SLOWEST_LAYOUT_BYTES_PER_S,
        }]
    }

    fn measure(&self, workload: &Workload, place: &Place, seed: u64) -> Step {
        if is_surface(workload) {
            return surface::measure(workload, place, seed_of(workload, seed));
        }
        let logs = logs(workload, place, seed_of(workload, seed));
        let mut arguments = Arguments::of_all_jobs();
        arguments.set("replay_redirect", file_name(place));
        arguments.set("bs", largest(&sizes(workload))).set("ioengine", "libaio");
        arguments
            .set("iodepth", count(workload, "depth"))
            .set("direct", u8::from(switch(workload, "direct")));
        if think_us(workload) > 0 {
            arguments.set("thinktime", think_us(workload));
        }
        if let Some(seconds) = time_limit_s(workload, "runtime") {
            arguments.set("runtime", seconds);
        }
        let log = arguments.measured(place);
        // A job for each, not `numjobs`: with several clones that share a file fio 3.33 crashes, because `add_file` in its
        // `filesetup.c` adds a file that a sibling has to none of the others ("clean cloned siblings").
        let mut input_files = Vec::new();
        for (worker, log) in logs.into_iter().enumerate() {
            // So fio stops when all are issued. Without it, it asks the log for one more, takes itself for done, and leaves
            // out what is still under way: up to depth - 1 requests (seen in 3.33: `td->done` in `td_io_getevents`).
            arguments.job(&format!("worker-{worker}")).set("read_iolog", escaped(&log.path));
            arguments.set("io_size", log.bytes);
            input_files.push((log.path, log.text.into_bytes()));
        }
        Step {
            title: format!("{workload} on {}", place.target.path()),
            argv: arguments.0,
            input_files,
            copied_files: Vec::new(),
            output_files: vec![log],
            timeout_s: SPARE_S + longest_s(workload),
        }
    }

    fn time_limit_s(&self, workload: &Workload) -> Option<u64> {
        let each = time_limit_s(workload, "runtime")?;
        Some(if is_surface(workload) { surface::count_of_points(workload) * each } else { each })
    }

    fn check_preparation(&self, _workload: &Workload, output: &StepOutput) -> Result<(), LoadError> {
        Report::read(output).map(|_| ())
    }

    fn parse(&self, workload: &Workload, output: &StepOutput) -> Result<LoadResult, LoadError> {
        if is_surface(workload) {
            return surface::parse(workload, output, self.data_set(workload));
        }
        let sizes = sizes(workload);
        let expected = Expected {
            jobs: count(workload, "workers"),
            block_bytes: if let [(bytes, _)] = sizes[..] { Some(bytes) } else { None },
            bytes: count(workload, "operations") * largest(&sizes),
            time_limit_s: time_limit_s(workload, "runtime"),
            data_set: self.data_set(workload),
            syncs: SyncTimes::Wrong,
        };
        Report::read(output)?.into_result(workload, &expected, output)
    }
}

fn is_surface(workload: &Workload) -> bool {
    workload.case() == "surface"
}

/// Bytes of requests with their weights; of a surface, what all its points' are multiples of and parts of.
fn sizes(workload: &Workload) -> Vec<(u64, u64)> {
    match workload.value("sizes") {
        _ if is_surface(workload) => vec![(surface::largest(workload), 1)],
        Some(Value::Sizes(sizes)) => sizes,
        _ => vec![(bytes(workload, "bs"), 1)],
    }
}

fn largest(sizes: &[(u64, u64)]) -> u64 {
    sizes.iter().map(|(bytes, _)| *bytes).max().unwrap_or(SECTOR_BYTES)
}

fn mean(sizes: &[(u64, u64)]) -> u64 {
    let weights: u64 = sizes.iter().map(|(_, weight)| weight).sum();
    let bytes = sizes.iter().map(|(bytes, weight)| u128::from(*bytes) * u128::from(*weight)).sum::<u128>();
    u64::try_from(bytes / u128::from(weights.max(1))).unwrap_or(u64::MAX)
}

/// Bytes that all sizes are multiples of: positions are multiples of them too.
fn unit(sizes: &[(u64, u64)]) -> u64 {
    let divisor = |a: u64, b: u64| {
        let (mut a, mut b) = (a, b);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    sizes.iter().fold(0, |unit, (bytes, _)| divisor(unit, *bytes)).max(1)
}

/// Microseconds that a worker thinks after each request.
fn think_us(workload: &Workload) -> u64 {
    match workload.value("think") {
        Some(Value::Milliseconds(us)) => us,
        _ => 0,
    }
}

/// The requests of one worker, as a file in fio's form.
struct Log {
    path: String,
    text: String,
    /// Of all its requests.
    bytes: u64,
}

/// The requests of each worker ("fio version 2 iolog"). A log ends with a request: see [`Iometer::measure`].
fn logs(workload: &Workload, place: &Place, seed: u64) -> Vec<Log> {
    let sizes = sizes(workload);
    let unit = unit(&sizes);
    let pattern = Pattern {
        read: count(workload, "read"),
        random: count(workload, "random"),
        blocks: bytes(workload, "size") / unit,
        sizes: sizes.iter().map(|(bytes, weight)| (bytes / unit, *weight)).collect(),
    };
    let scratch = place.scratch.trim_end_matches('/');
    let log_of = |worker: u64| {
        let requests = Stream::new(pattern.clone(), seed, worker).take(share(workload, worker) as usize);
        let mut log = Log {
            path: format!("{scratch}/nestor-iometer-{worker}.iolog"),
            text: format!("fio version 2 iolog\n{NAME_IN_LOG} add\n{NAME_IN_LOG} open\n"),
            bytes: 0,
        };
        for request in requests {
            let verb = if request.read { "read" } else { "write" };
            let (offset, bytes) = (request.block * unit, request.blocks * unit);
            log.text.push_str(&format!("{NAME_IN_LOG} {verb} {offset} {bytes}\n"));
            log.bytes += bytes;
        }
        log
    };
    (0..count(workload, "workers")).map(log_of).collect()
}

/// How many of the requests are a worker's: the first ones have one more where they cannot be shared evenly.
fn share(workload: &Workload, worker: u64) -> u64 {
    let (operations, workers) = (count(workload, "operations"), count(workload, "workers"));
    operations / workers + u64::from(worker < operations % workers)
}

/// A bound for the time of the measured run.
fn longest_s(workload: &Workload) -> u64 {
    time_limit_s(workload, "runtime").unwrap_or_else(|| {
        let operations = count(workload, "operations");
        let thinking = share(workload, 0) * think_us(workload) / 1_000_000;
        thinking + operations * largest(&sizes(workload)) / SLOWEST_RUN_BYTES_PER_S + operations / 10
    })
}

fn file_name(place: &Place) -> String {
    match &place.target {
        Target::Directory(directory) => format!("{}/nestor-iometer.tst", directory.trim_end_matches('/')),
        Target::Device(device) => device.clone(),
    }
}

#[cfg(test)]
mod tests;
