//! Many points of the grid in one run: each is a job of fio that begins when the one before has ended.
//!
//! A stack takes longer to build than a point to measure, so a surface is one run. The points come in an order of chance (drawn
//! from the seed), so that what changes in the course of the run is not taken for what the points differ in.

use std::collections::BTreeMap;

use nestor_statistics::surface::{GridPoint, SHARES_PERCENT, STUDY_BYTES, points_to_measure, study_grid};
use nestor_statistics::{LatencyHistogram, SeededOrder};
use nestor_text::units;

use super::stream::{Pattern, Stream};
use super::{NAME_IN_LOG, file_name};
use crate::engine::{DataSet, Misfit, Place, Step, StepOutput};
use crate::engines::fio::job::{Arguments, SPARE_S, escaped};
use crate::engines::fio::report::{Expected, Report, SyncTimes};
use crate::engines::options::{bytes, count, switch, time_limit_s};
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::{LoadResult, OperationResult};

/// Fewer tell no surface.
pub(super) const FEWEST_POINTS: u64 = 6;
/// The study's grid.
pub(super) const ALL_POINTS: u64 = (STUDY_BYTES.len() * SHARES_PERCENT.len() * SHARES_PERCENT.len()) as u64;
/// Ours; the study has 3 minutes for each point (row A-6).
pub(super) const POINT_S: u64 = 3;
/// Requests of a point, so that the logs of all are a few megabytes.
pub(super) const POINT_OPERATIONS: u64 = 2000;
/// A time without limit would be one for each point.
const LONGEST_POINT_S: u64 = 600;

/// What one point of a surface reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SurfacePoint {
    /// Which.
    pub point: GridPoint,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Mean time of a request in milliseconds.
    pub response_ms: f64,
    /// Share of one processor that the program itself and the kernel for it used where it ran.
    pub cpu_share: f64,
}

/// The names of a point's figures begin so.
const FIGURE: &str = "point";

impl SurfacePoint {
    /// The points in the figures of a result; none if it is of another workload.
    pub fn of(result: &LoadResult) -> Vec<Self> {
        let mut found: BTreeMap<GridPoint, Self> = BTreeMap::new();
        for (name, value) in &result.figures {
            let Some((point, what)) = point_of(name) else { continue };
            let entry = found.entry(point).or_insert(Self {
                point,
                requests_per_s: 0.0,
                response_ms: 0.0,
                cpu_share: 0.0,
            });
            match what {
                "requests_per_s" => entry.requests_per_s = *value,
                "response_ms" => entry.response_ms = *value,
                "cpu_share" => entry.cpu_share = *value,
                _ => {}
            }
        }
        found.into_values().filter(|point| point.requests_per_s > 0.0).collect()
    }

    /// Bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.requests_per_s * f64::from(self.point.bytes)
    }

    fn into_figures(self, figures: &mut BTreeMap<String, f64>) {
        let GridPoint { bytes, read_percent, random_percent, depth } = self.point;
        let name = format!("{FIGURE}_{bytes}_{read_percent}_{random_percent}_{depth}");
        for (what, value) in [
            ("requests_per_s", self.requests_per_s),
            ("response_ms", self.response_ms),
            ("cpu_share", self.cpu_share),
        ] {
            figures.insert(format!("{name}_{what}"), value);
        }
    }
}

/// `point_4096_50_25_64_requests_per_s`
fn point_of(name: &str) -> Option<(GridPoint, &str)> {
    let mut words = name.splitn(6, '_');
    if words.next()? != FIGURE {
        return None;
    }
    let point = GridPoint {
        bytes: words.next()?.parse().ok()?,
        read_percent: words.next()?.parse().ok()?,
        random_percent: words.next()?.parse().ok()?,
        depth: words.next()?.parse().ok()?,
    };
    Some((point, words.next()?))
}

pub(super) fn check(workload: &Workload) -> Result<(), Misfit> {
    let misfit = |option, why: String, remedy: String| Err(Misfit { option, why, remedy });
    let smallest = bytes(workload, "smallest");
    if smallest > u64::from(STUDY_BYTES[STUDY_BYTES.len() - 1]) {
        return misfit(
            "smallest",
            "no size of the grid is that large".to_owned(),
            "write at most 16k".to_owned(),
        );
    }
    if bytes(workload, "size") < largest(workload) {
        let remedy = format!("write a size of at least {}", units::size(largest(workload)));
        return misfit("size", "no block fits".to_owned(), remedy);
    }
    match time_limit_s(workload, "runtime") {
        Some(seconds) if seconds <= LONGEST_POINT_S => Ok(()),
        _ => misfit(
            "runtime",
            "each point takes this time".to_owned(),
            format!("write at most {} minutes", LONGEST_POINT_S / 60),
        ),
    }
}

/// The grid as far as its blocks are not too small.
fn grid(workload: &Workload) -> Vec<GridPoint> {
    let smallest = bytes(workload, "smallest");
    let depth = count(workload, "depth") as u32;
    study_grid(depth).into_iter().filter(|point| u64::from(point.bytes) >= smallest).collect()
}

/// The points that are measured, in the order of the seed.
fn points(workload: &Workload, seed: u64) -> Vec<GridPoint> {
    let grid = grid(workload);
    let wanted = count(workload, "points") as usize;
    let mut chosen = if wanted < grid.len() { points_to_measure(&grid, &[], wanted) } else { grid };
    chosen.sort();
    SeededOrder::new(seed).shuffle(&mut chosen);
    chosen
}

/// How many points are measured.
pub(super) fn count_of_points(workload: &Workload) -> u64 {
    (grid(workload).len() as u64).min(count(workload, "points"))
}

pub(super) fn largest(workload: &Workload) -> u64 {
    grid(workload).iter().map(|point| u64::from(point.bytes)).max().unwrap_or(1 << 14)
}

pub(super) fn describe(workload: &Workload) -> String {
    let grid = grid(workload);
    format!(
        "{} of the {} points of the grid of sizes, reads and seeks, depth {}, {} s each, on {}",
        count_of_points(workload),
        grid.len(),
        count(workload, "depth"),
        time_limit_s(workload, "runtime").unwrap_or(POINT_S),
        units::size(bytes(workload, "size")),
    )
}

pub(super) fn measure(workload: &Workload, place: &Place, seed: u64) -> Step {
    let points = points(workload, seed);
    let mut arguments = Arguments::of_all_jobs();
    arguments.set("replay_redirect", file_name(place)).set("ioengine", "libaio");
    arguments
        .set("iodepth", count(workload, "depth"))
        .set("direct", u8::from(switch(workload, "direct")))
        .set("runtime", time_limit_s(workload, "runtime").unwrap_or(POINT_S));
    let log = arguments.measured(place);
    let mut input_files = Vec::new();
    let scratch = place.scratch.trim_end_matches('/');
    for (number, point) in points.iter().enumerate() {
        let path = format!("{scratch}/nestor-surface-{number}.iolog");
        let (text, moved) = requests(workload, point, seed, number as u64);
        arguments.job(&job_name(point)).set("stonewall", 1).set("bs", point.bytes);
        arguments.set("read_iolog", escaped(&path)).set("io_size", moved);
        input_files.push((path, text.into_bytes()));
    }
    let longest_s = points.len() as u64 * (time_limit_s(workload, "runtime").unwrap_or(POINT_S) + 5);
    Step {
        title: format!("{workload} on {}", place.target.path()),
        argv: arguments.0,
        input_files,
        copied_files: Vec::new(),
        output_files: vec![log],
        timeout_s: SPARE_S + longest_s,
    }
}

/// The requests of a point as fio's iolog, and how many bytes they move.
fn requests(workload: &Workload, point: &GridPoint, seed: u64, number: u64) -> (String, u64) {
    let block = u64::from(point.bytes);
    let pattern = Pattern {
        read: u64::from(point.read_percent),
        random: u64::from(point.random_percent),
        blocks: bytes(workload, "size") / block,
        sizes: vec![(1, 1)],
    };
    let operations = count(workload, "operations");
    let mut text = format!("fio version 2 iolog\n{NAME_IN_LOG} add\n{NAME_IN_LOG} open\n");
    for request in Stream::new(pattern, seed, number).take(operations as usize) {
        let verb = if request.read { "read" } else { "write" };
        text.push_str(&format!("{NAME_IN_LOG} {verb} {} {block}\n", request.block * block));
    }
    (text, operations * block)
}

pub(super) fn parse(
    workload: &Workload,
    output: &StepOutput,
    data_set: DataSet,
) -> Result<LoadResult, LoadError> {
    let depth = count(workload, "depth") as u32;
    let mut whole: Option<LoadResult> = None;
    for report in Report::read(output)?.of_each_job() {
        let Some(point) = report.job_names().next().and_then(|name| point_of_job(name, depth)) else {
            let detail = "a job does not have a point in its name".to_owned();
            return Err(LoadError::Inconsistent { program: "fio", detail });
        };
        let block = u64::from(point.bytes);
        let expected = Expected {
            jobs: 1,
            block_bytes: Some(block),
            bytes: count(workload, "operations") * block,
            time_limit_s: time_limit_s(workload, "runtime"),
            data_set,
            syncs: SyncTimes::Wrong,
        };
        let result = report.into_result(workload, &expected, output)?;
        let whole = whole.get_or_insert_with(|| LoadResult {
            elapsed_ns: 0,
            operations: BTreeMap::new(),
            cpu_user_s: 0.0,
            cpu_system_s: 0.0,
            ..result.clone()
        });
        reached(point, &result).into_figures(&mut whole.figures);
        add(whole, result);
    }
    whole.ok_or_else(|| LoadError::NoOutput { program: "fio", detail: "its report has no point".to_owned() })
}

fn reached(point: GridPoint, result: &LoadResult) -> SurfacePoint {
    let mut all = LatencyHistogram::default();
    result.operations.values().for_each(|done| all.merge(&done.latency));
    let seconds = result.elapsed_ns as f64 / 1e9;
    SurfacePoint {
        point,
        requests_per_s: result.operations_per_second(),
        response_ms: all.summary().map_or(0.0, |summary| summary.mean_ns / 1e6),
        cpu_share: (result.cpu_user_s + result.cpu_system_s) / seconds.max(1e-9),
    }
}

/// Points follow each other: times add up.
fn add(whole: &mut LoadResult, point: LoadResult) {
    whole.elapsed_ns = whole.elapsed_ns.saturating_add(point.elapsed_ns);
    whole.cpu_user_s += point.cpu_user_s;
    whole.cpu_system_s += point.cpu_system_s;
    for (class, done) in point.operations {
        let sum: &mut OperationResult = whole.operations.entry(class).or_default();
        sum.operations = sum.operations.saturating_add(done.operations);
        sum.bytes = sum.bytes.saturating_add(done.bytes);
        sum.latency.merge(&done.latency);
    }
}

/// `4096-50-25`
fn job_name(point: &GridPoint) -> String {
    format!("{}-{}-{}", point.bytes, point.read_percent, point.random_percent)
}

fn point_of_job(name: &str, depth: u32) -> Option<GridPoint> {
    let mut words = name.splitn(3, '-');
    Some(GridPoint {
        bytes: words.next()?.parse().ok()?,
        read_percent: words.next()?.parse().ok()?,
        random_percent: words.next()?.parse().ok()?,
        depth,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Target;

    fn workload(text: &str) -> Workload {
        Workload::parse(text).unwrap()
    }

    fn jobs(text: &str, seed: u64) -> (Vec<String>, Step) {
        let place =
            Place { target: Target::Directory("/mnt/top".to_owned()), scratch: "/run/nestor".to_owned() };
        let step = workload(text).measure(&place, seed);
        let names = step.argv.iter().filter_map(|word| word.strip_prefix("--name=").map(str::to_owned));
        (names.collect(), step)
    }

    #[test]
    fn the_whole_grid_is_the_studys_and_its_order_the_seeds() {
        let (first, step) = jobs("iometer:surface", 1);
        assert_eq!(first.len(), 100);
        assert_eq!(step.input_files.len(), 100);
        let (again, _) = jobs("iometer:surface", 1);
        let (other, _) = jobs("iometer:surface", 2);
        assert_eq!(first, again);
        assert_ne!(first, other);
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        assert_eq!(sorted(first), sorted(other));
        // Without 1 KiB, as on the study's first machine (row A-7).
        assert_eq!(jobs("iometer:surface:smallest=4k", 1).0.len(), 75);
    }

    #[test]
    fn a_part_of_the_grid_is_well_spread_and_jobs_follow_each_other() {
        let (names, step) = jobs("iometer:surface:points=30:depth=28:runtime=2", 1);
        assert_eq!(names.len(), 30);
        assert_eq!(step.argv.iter().filter(|word| *word == "--stonewall=1").count(), 30);
        for end in ["-0", "-100"] {
            assert!(names.iter().filter(|name| name.ends_with(end)).count() >= 4, "{names:?}");
        }
        let words =
            "30 of the 100 points of the grid of sizes, reads and seeks, depth 28, 2 s each, on 512 MiB";
        assert_eq!(workload("iometer:surface:points=30:depth=28:runtime=2").describe(), words);
    }

    #[test]
    fn points_are_found_again_in_the_figures() {
        let point = GridPoint { bytes: 4096, read_percent: 25, random_percent: 75, depth: 47 };
        let reached = SurfacePoint { point, requests_per_s: 812.5, response_ms: 57.9, cpu_share: 0.04 };
        assert_eq!(point_of_job(&job_name(&point), 47), Some(point));
        let mut result = LoadResult {
            engine: String::new(),
            workload: String::new(),
            elapsed_ns: 1,
            operations: BTreeMap::new(),
            working_set_bytes: 0,
            scale_factor: 1.0,
            cpu_user_s: 0.0,
            cpu_system_s: 0.0,
            engine_output: String::new(),
            figures: BTreeMap::from([("creation_alone_files".to_owned(), 3.0)]),
            remarks: Vec::new(),
        };
        reached.into_figures(&mut result.figures);
        assert_eq!(SurfacePoint::of(&result), [reached]);
        assert!((reached.bytes_per_s() - 812.5 * 4096.0).abs() < 1e-9);
    }

    #[test]
    fn what_makes_no_surface_is_refused() {
        let error = |text: &str| Workload::parse(text).unwrap_err().problem.to_string();
        assert_eq!(error("iometer:surface:smallest=32k"), "no size of the grid is that large");
        assert_eq!(error("iometer:surface:size=8k"), "no block fits");
        assert_eq!(error("iometer:surface:runtime=off"), "each point takes this time");
        assert!(Workload::parse("iometer:surface:read=30").is_err());
    }
}
