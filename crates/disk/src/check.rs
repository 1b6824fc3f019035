//! Compares a model with the published figures of its medium. The model is measured in its own time, without a clock, so the
//! answer is always the same.

use std::fmt::Write as _;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use crate::error::DiskError;
use crate::log::Operation;
use crate::model::hdd::{HddFigures, HddModel};
use crate::model::{Completion, Model, ModelRequest, SECTOR_BYTES, Turn};
use crate::profile::{Figure, HddProfile, Medium, Profile, SsdProfile};

const RANDOM_REQUESTS: usize = 10_000;
const RANDOM_SECTORS: u32 = 8;
const SEQUENTIAL_BYTES: u64 = 128 << 20;
const SEQUENTIAL_SECTORS: u32 = 256;
/// Random requests at a time, if nothing is published of the medium.
const QUEUED: usize = 32;

const SEQUENTIAL_DEPTH: usize = 4;
const SEED: u64 = 1;

/// A profile's model next to its published figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckReport {
    /// The profile's name.
    pub profile: String,
    /// What it is.
    pub title: String,
    /// Remarks that belong to the profile.
    pub remarks: Vec<String>,
    /// The comparison.
    pub rows: Vec<CheckRow>,
}

/// One quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckRow {
    /// What was measured.
    pub quantity: String,
    /// Its unit.
    pub unit: String,
    /// What was published, if anything was.
    pub published: Option<f64>,
    /// What the profile assumes where nothing was published; absent if the model's figure just follows from others.
    pub assumed: Option<f64>,
    /// Where, or what the model's figure comes from.
    pub source: String,
    /// What the model does.
    pub model: f64,
    /// Deviation of the model from the published or assumed figure, in percent of that figure.
    pub deviation_percent: Option<f64>,
}

/// Compares a profile's model with its published figures.
///
/// # Errors
/// The profile's figures contradict each other.
pub fn check(profile: &Profile) -> Result<CheckReport, DiskError> {
    let rows = match &profile.medium {
        Medium::Null => Vec::new(),
        Medium::Hdd(hdd) => {
            let mut rows = mechanics(profile, hdd, profile.capacity_bytes)?;
            rows.extend(throughput(
                profile,
                &Expected {
                    outer: Some(&hdd.outer_mb_s),
                    inner: Some(&hdd.inner_mb_s),
                    ..Expected::default()
                },
            )?);
            rows
        }
        Medium::Array(raid) => {
            let mut rows = mechanics(profile, &raid.member, raid.member_bytes)?;
            rows.extend(throughput(profile, &Expected::default())?);
            rows
        }
        Medium::Ssd(ssd) => {
            let expected =
                Expected { outer: Some(&ssd.read_mb_s), inner: Some(&ssd.read_mb_s), ssd: Some(ssd) };
            throughput(profile, &expected)?
        }
    };
    Ok(CheckReport {
        profile: profile.name.to_owned(),
        title: profile.title.to_owned(),
        remarks: profile.remarks.iter().map(|remark| (*remark).to_owned()).collect(),
        rows,
    })
}

/// What was published of a whole medium's throughput.
#[derive(Default)]
struct Expected<'a> {
    outer: Option<&'a Figure>,
    inner: Option<&'a Figure>,
    ssd: Option<&'a SsdProfile>,
}

fn row(quantity: &str, unit: &str, figure: Option<&Figure>, model: f64) -> CheckRow {
    let expected = figure.map(Figure::value);
    let published = figure.and_then(Figure::published);
    CheckRow {
        quantity: quantity.to_owned(),
        unit: unit.to_owned(),
        published,
        assumed: expected.filter(|_| published.is_none()),
        source: figure.map_or("not published", Figure::origin).to_owned(),
        model,
        deviation_percent: expected.map(|expected| (model / expected - 1.0) * 100.0),
    }
}

/// Seek and rotation of one disk.
fn mechanics(profile: &Profile, hdd: &HddProfile, capacity_bytes: u64) -> Result<Vec<CheckRow>, DiskError> {
    let misfit = |reason| DiskError::Profile { profile: profile.name.to_owned(), reason };
    let figures: HddFigures = hdd.figures(capacity_bytes);
    let mut model = HddModel::new(figures).map_err(misfit)?;
    let mut random = SmallRng::seed_from_u64(SEED);
    let cylinders = model.cylinders();
    let pairs = 100_000;
    let sum_ns: u64 = (0..pairs)
        .map(|_| model.seek_between_ns(random.random_range(0..cylinders), random.random_range(0..cylinders)))
        .sum();
    let reads = random_requests(Operation::Read, figures.geometry.sectors);
    let (done, _) = run_closed_loop(&mut model, 1, reads.take(RANDOM_REQUESTS));
    let rotation_ns: u64 = done.iter().map(|c| c.parts.rotation_ns).sum();
    let half_turn = match hdd.rpm {
        Figure::Published { value, source } => Figure::from_source(30_000.0 / value, source),
        Figure::Assumed { value, why } => Figure::assume(30_000.0 / value, why),
    };
    Ok(vec![
        row("average seek", "ms", Some(&hdd.average_seek_ms), sum_ns as f64 / f64::from(pairs) / 1e6),
        row("rotational latency", "ms", Some(&half_turn), rotation_ns as f64 / done.len() as f64 / 1e6),
    ])
}

/// What the whole medium delivers.
fn throughput(profile: &Profile, expected: &Expected<'_>) -> Result<Vec<CheckRow>, DiskError> {
    let sectors = profile.capacity_bytes / SECTOR_BYTES;
    let iops = |operation, depth: usize| -> Result<f64, DiskError> {
        let mut model = profile.model(Turn::default())?;
        let count = RANDOM_REQUESTS * depth.div_ceil(QUEUED);
        let requests = random_requests(operation, sectors).take(count);
        let (done, end_ns) = run_closed_loop(model.as_mut(), depth, requests);
        Ok(done.len() as f64 / (end_ns as f64 / 1e9))
    };
    let ssd = expected.ssd;
    let depth = ssd.map_or(QUEUED, |ssd| ssd.queue_depth.value() as usize);
    // A medium that takes more at a time is measured with more, so that the beginning and the end are as small a part.
    let bytes = SEQUENTIAL_BYTES * depth.div_ceil(QUEUED) as u64;
    let rate = |operation, first: u64| -> Result<f64, DiskError> {
        let mut model = profile.model(Turn::default())?;
        let count = bytes / SECTOR_BYTES / u64::from(SEQUENTIAL_SECTORS);
        let requests = (0..count).map(|i| {
            let sector = first + i * u64::from(SEQUENTIAL_SECTORS);
            ModelRequest { id: i, operation, sector, sectors: SEQUENTIAL_SECTORS }
        });
        let (_, end_ns) = run_closed_loop(model.as_mut(), SEQUENTIAL_DEPTH, requests);
        Ok(bytes as f64 / 1e6 / (end_ns as f64 / 1e9))
    };
    let last = sectors - bytes / SECTOR_BYTES;
    let (read, write) = (Operation::Read, Operation::Write);
    let queued = |what| format!("random 4 KiB {what}, depth {depth}");
    let mut rows = vec![
        row("random 4 KiB reads, depth 1", "IOPS", ssd.map(|s| &s.read_iops_1), iops(read, 1)?),
        row(&queued("reads"), "IOPS", ssd.map(|s| &s.read_iops_queued), iops(read, depth)?),
        row("sequential read, outer", "MB/s", expected.outer, rate(read, 0)?),
        row("sequential read, inner", "MB/s", expected.inner, rate(read, last)?),
    ];
    if let Some(ssd) = ssd {
        rows.push(row("random 4 KiB writes, depth 1", "IOPS", Some(&ssd.write_iops_1), iops(write, 1)?));
        rows.push(row(&queued("writes"), "IOPS", Some(&ssd.write_iops_queued), iops(write, depth)?));
        rows.push(row("sequential write", "MB/s", Some(&ssd.write_mb_s), rate(write, 0)?));
    }
    Ok(rows)
}

fn random_requests(operation: Operation, disk_sectors: u64) -> impl Iterator<Item = ModelRequest> {
    let mut random = SmallRng::seed_from_u64(SEED);
    let blocks = disk_sectors / u64::from(RANDOM_SECTORS);
    (0..).map(move |id| {
        let sector = random.random_range(0..blocks) * u64::from(RANDOM_SECTORS);
        ModelRequest { id, operation, sector, sectors: RANDOM_SECTORS }
    })
}

/// Keeps `depth` requests in a model, from time 0 on, until all are done and the caches are on the medium.
/// Returns the completions in order of time, and the end.
pub(crate) fn run_closed_loop(
    model: &mut dyn Model,
    depth: usize,
    requests: impl IntoIterator<Item = ModelRequest>,
) -> (Vec<Completion>, u64) {
    let mut requests = requests.into_iter();
    let mut done = Vec::new();
    for request in requests.by_ref().take(depth) {
        model.submit(request, 0);
    }
    let (mut answered, mut end_ns) = (0, 0);
    while let Some(next_ns) = model.next_event_ns() {
        model.advance(next_ns, &mut done);
        for completion in &done[answered..] {
            if let Some(request) = requests.next() {
                model.submit(request, completion.complete_ns.max(next_ns));
            }
        }
        answered = done.len();
        end_ns = next_ns;
    }
    (done, end_ns)
}

impl CheckReport {
    /// The report as a table for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}   {}\n", self.profile, self.title);
        if self.rows.is_empty() {
            text.push_str("  takes no time, so there is nothing to compare\n");
        } else {
            let head = ["", "published", "model", "deviation", "source"];
            let _ =
                writeln!(text, "  {:<34}{:>11}{:>10}{:>11}  {}", head[0], head[1], head[2], head[3], head[4]);
        }
        for row in &self.rows {
            let assumed = || row.assumed.map(|a| format!("({})", number(a)));
            let expected = row.published.map(number).or_else(assumed).unwrap_or("-".to_owned());
            let deviation = row.deviation_percent.map_or("-".to_owned(), |d| format!("{d:+.1} %"));
            let (quantity, model) = (format!("{}, {}", row.quantity, row.unit), number(row.model));
            let _ =
                writeln!(text, "  {quantity:<34}{expected:>11}{model:>10}{deviation:>11}  {}", row.source);
        }
        if self.rows.iter().any(|row| row.assumed.is_some()) {
            text.push_str("  in brackets: assumed, not published\n");
        }
        for remark in &self.remarks {
            let _ = writeln!(text, "  remark: {remark}");
        }
        text
    }
}

/// Three significant digits, more only before the point.
fn number(value: f64) -> String {
    match value.abs() {
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles::PROFILES;

    #[test]
    fn every_model_does_what_its_profile_says() {
        for profile in PROFILES {
            let report = check(profile).unwrap();
            for row in &report.rows {
                let deviation = row.deviation_percent.unwrap_or(0.0);
                assert!(deviation.abs() < 3.0, "{}: {} deviates {deviation} %", profile.name, row.quantity);
                assert!(row.model.is_finite() && !row.source.is_empty());
            }
        }
    }

    #[test]
    fn a_report_is_a_table() {
        let report = CheckReport {
            profile: "a-disk".to_owned(),
            title: "a disk".to_owned(),
            remarks: vec!["it is not real".to_owned()],
            rows: vec![
                row("average seek", "ms", Some(&Figure::from_source(8.5, "a data sheet")), 8.6),
                row("sequential read, outer", "MB/s", Some(&Figure::assume(126.0, "a guess")), 126.0),
                row("random 4 KiB reads, depth 1", "IOPS", None, 1234.4),
            ],
        };
        insta::assert_snapshot!(report.to_text(), @r"
        a-disk   a disk
                                              published     model  deviation  source
          average seek, ms                         8.50      8.60     +1.2 %  a data sheet
          sequential read, outer, MB/s            (126)       126     +0.0 %  a guess
          random 4 KiB reads, depth 1, IOPS           -      1234          -  not published
          in brackets: assumed, not published
          remark: it is not real
        ");
    }
}
