//! What the layers say of a claim that is contradicted.
//!
//! One pair of runs stands for all: the one whose ratio is nearest to the middle. What is told is what changed most
//! between its two runs, level by level, each with its numbers.

use rusqlite::{Connection, OptionalExtension, params};

use super::judge::EvidencePair;

/// Differences below this are not worth a sentence.
const WORTH_SAYING: f64 = 0.10;
/// The most sentences.
const MOST: usize = 4;
const MIB: f64 = 1_048_576.0;

/// One level of one run.
#[derive(Clone, Debug, Default)]
struct Level {
    issued: f64,
    issued_bytes: f64,
    merges: f64,
    read_bytes: f64,
    flushes: f64,
    queue_ns: Option<f64>,
    service_ns: Option<f64>,
    /// Of a modelled disk: moving the arm, waiting for the sector, transfer.
    parts_ns: Option<[f64; 3]>,
}

/// One run as its application and its levels saw it.
struct Side {
    stack: String,
    workload: String,
    mb_per_s: f64,
    elapsed_s: f64,
    bytes: f64,
    operations: f64,
    guest: Option<Level>,
    host: Option<Level>,
    disk: Option<Level>,
}

/// A sentence and how much the thing it is about changed: a logarithm, above zero if the candidate has more of it.
struct Finding {
    change: f64,
    sentence: String,
}

/// Sentences on what differs between the runs behind a claim, the most important first.
pub(super) fn by_layers(connection: &Connection, pairs: &[EvidencePair]) -> rusqlite::Result<Vec<String>> {
    let mut two: Vec<EvidencePair> =
        pairs.iter().copied().filter(|p| p.baseline_run.is_some_and(|b| b != p.run)).collect();
    two.sort_by(|a, b| a.ratio.unwrap_or(1.0).total_cmp(&b.ratio.unwrap_or(1.0)));
    let Some((pair, baseline_run)) = two.get(two.len() / 2).and_then(|p| Some((p, p.baseline_run?))) else {
        return within_one_run(connection, pairs);
    };
    let (Some(candidate), Some(baseline)) = (side(connection, pair.run)?, side(connection, baseline_run)?)
    else {
        return Ok(vec![format!("of the runs {} and {baseline_run} no layers were recorded", pair.run)]);
    };
    let mut told = vec![format!(
        "run {} ({}, {}, {:.2} MB/s) beside run {baseline_run} ({}, {}, {:.2} MB/s), the middle one of {} pairs:",
        pair.run,
        candidate.stack,
        candidate.workload,
        candidate.mb_per_s,
        baseline.stack,
        baseline.workload,
        baseline.mb_per_s,
        two.len()
    )];
    let mut findings: Vec<Finding> = findings(&candidate, &baseline);
    findings.retain(|f| f.change.abs() >= WORTH_SAYING.ln_1p());
    // What the slower side has more of explains it; what it has less of is often its consequence.
    let slower = if candidate.mb_per_s <= baseline.mb_per_s { 1.0 } else { -1.0 };
    let explains = |finding: &Finding| finding.change * slower > 0.0;
    findings.sort_by(|a, b| explains(b).cmp(&explains(a)).then(b.change.abs().total_cmp(&a.change.abs())));
    if findings.is_empty() {
        told.push(
            "requests, bytes, queue and service times differ by less than 10 % at every level".to_owned(),
        );
    }
    told.extend(findings.into_iter().take(MOST).map(|f| f.sentence));
    Ok(told)
}

/// For claims on the levels of one stack: what each level of the middle run was sent.
fn within_one_run(connection: &Connection, pairs: &[EvidencePair]) -> rusqlite::Result<Vec<String>> {
    let Some(run) = pairs.get(pairs.len() / 2).map(|p| p.run) else {
        return Ok(vec!["its query names no runs whose layers could be looked at".to_owned()]);
    };
    let Some(side) = side(connection, run)? else {
        return Ok(vec![format!("of run {run} no layers were recorded")]);
    };
    let levels = LEVELS.iter().filter_map(|(name, of)| {
        let level = of(&side)?;
        Some(format!(
            "{name} {:.1} requests and {:.2} MiB, {:.0} % merged",
            level.issued / side.bytes * MIB,
            level.issued_bytes / side.bytes,
            level.merges / (level.merges + level.issued).max(1.0) * 100.0
        ))
    });
    let levels: Vec<String> = levels.collect();
    Ok(vec![format!(
        "run {run} ({}, {}), one of {}; for each MiB of the application: {}",
        side.stack,
        side.workload,
        pairs.len(),
        levels.join("; ")
    )])
}

fn side(connection: &Connection, run: i64) -> rusqlite::Result<Option<Side>> {
    let side = connection
        .prepare_cached(
            "SELECT stack, workload, mb_per_s, elapsed_s, bytes, operations FROM cell WHERE run = ?",
        )?
        .query_row([run], |row| {
            let number =
                |i: usize| Ok::<_, rusqlite::Error>(row.get::<_, Option<f64>>(i)?.unwrap_or_default());
            Ok(Side {
                stack: row.get(0)?,
                workload: row.get(1)?,
                mb_per_s: number(2)?,
                elapsed_s: number(3)?,
                bytes: number(4)?,
                operations: number(5)?,
                guest: None,
                host: None,
                disk: None,
            })
        })
        .optional()?;
    let Some(mut side) = side else { return Ok(None) };
    side.guest = level(connection, run, "guest")?;
    side.host = level(connection, run, "host")?;
    side.disk = level(connection, run, "disk")?;
    // An application that moved nothing has requests all the same; they are told per request then.
    side.bytes = side.bytes.max(1.0);
    let recorded = side.guest.is_some() || side.host.is_some() || side.disk.is_some();
    Ok(recorded.then_some(side))
}

fn level(connection: &Connection, run: i64, level: &str) -> rusqlite::Result<Option<Level>> {
    connection
        .prepare_cached(
            "SELECT issued, issued_bytes, merges, read_issued_bytes, flushes, coalesce(q2d_mean_ns, i2d_mean_ns), \
             d2c_mean_ns, seek_ns, rotation_ns, transfer_ns FROM layer WHERE run = ?1 AND level = ?2",
        )?
        .query_row(params![run, level], |row| {
            let number = |i: usize| row.get::<_, Option<f64>>(i);
            let parts = (number(7)?, number(8)?, number(9)?);
            Ok(Level {
                issued: number(0)?.unwrap_or_default(),
                issued_bytes: number(1)?.unwrap_or_default(),
                merges: number(2)?.unwrap_or_default(),
                read_bytes: number(3)?.unwrap_or_default(),
                flushes: number(4)?.unwrap_or_default(),
                queue_ns: number(5)?,
                service_ns: number(6)?,
                parts_ns: match parts {
                    (Some(seek), Some(rotation), Some(transfer)) => Some([seek, rotation, transfer]),
                    _ => None,
                },
            })
        })
        .optional()
}

fn findings(candidate: &Side, baseline: &Side) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, of) in LEVELS {
        if let (Some(c), Some(b)) = (of(candidate), of(baseline)) {
            findings.extend(volume(name, (candidate, c), (baseline, b)));
            findings.extend(time(name, c, b));
        }
    }
    findings.extend(absorption(candidate, baseline));
    findings.extend(disk_time(candidate, baseline));
    findings.extend(flushes(candidate, baseline));
    findings
}

type OfLevel = fn(&Side) -> Option<&Level>;

const LEVELS: [(&str, OfLevel); 3] = [
    ("guest's block layer", |s| s.guest.as_ref()),
    ("host's block layer", |s| s.host.as_ref()),
    ("disk", |s| s.disk.as_ref()),
];

/// `None` if one of them is nothing.
fn change(candidate: f64, baseline: f64) -> Option<f64> {
    (candidate > 0.0 && baseline > 0.0).then(|| (candidate / baseline).ln())
}

/// Requests and bytes that a level was sent for what the application moved.
fn volume(name: &str, candidate: (&Side, &Level), baseline: (&Side, &Level)) -> Vec<Finding> {
    let per_mib = |(side, level): (&Side, &Level)| level.issued / side.bytes * MIB;
    let per_byte = |(side, level): (&Side, &Level)| level.issued_bytes / side.bytes;
    let merged = |(_, level): (&Side, &Level)| level.merges / (level.merges + level.issued).max(1.0) * 100.0;
    let requests = change(per_mib(candidate), per_mib(baseline)).map(|change| Finding {
        change,
        sentence: format!(
            "requests at the {name}: {:.1} for each MiB of the application against {:.1} ({:.0} % merged against {:.0} %)",
            per_mib(candidate),
            per_mib(baseline),
            merged(candidate),
            merged(baseline)
        ),
    });
    let bytes = change(per_byte(candidate), per_byte(baseline)).map(|change| Finding {
        change,
        sentence: format!(
            "bytes at the {name}: {:.2} times the application's against {:.2} times",
            per_byte(candidate),
            per_byte(baseline)
        ),
    });
    [requests, bytes].into_iter().flatten().collect()
}

/// Queue and service times of a level's requests.
fn time(name: &str, candidate: &Level, baseline: &Level) -> Vec<Finding> {
    let finding = |what: &str, candidate: Option<f64>, baseline: Option<f64>| {
        let (candidate, baseline) = (candidate?, baseline?);
        // Microseconds in a queue decide nothing beside milliseconds of a disk.
        let matters = candidate.max(baseline) > 50_000.0;
        Some(Finding {
            change: change(candidate, baseline).filter(|_| matters)?,
            sentence: format!(
                "{what} at the {name}: {:.2} ms in the mean against {:.2} ms",
                candidate / 1e6,
                baseline / 1e6
            ),
        })
    };
    let queue = finding("time in the queue", candidate.queue_ns, baseline.queue_ns);
    let service = finding("time until done, below the queue,", candidate.service_ns, baseline.service_ns);
    [queue, service].into_iter().flatten().collect()
}

/// What a cache of the host answered of what the guest read.
fn absorption(candidate: &Side, baseline: &Side) -> Option<Finding> {
    let share = |side: &Side| {
        let (guest, below) = (side.guest.as_ref()?, side.disk.as_ref().or(side.host.as_ref())?);
        (guest.read_bytes > 0.0).then(|| below.read_bytes / guest.read_bytes)
    };
    let (c, b) = (share(candidate)?, share(baseline)?);
    Some(Finding {
        // From the memory's side: reads that the disk was spared count like any other difference.
        change: ((c + 0.01) / (b + 0.01)).ln(),
        sentence: format!(
            "the disk read {:.0} % of the bytes that the guest read against {:.0} %; the rest came from, or over 100 % was \
             read ahead into, the host's memory",
            c * 100.0,
            b * 100.0
        ),
    })
}

/// Where the medium's time went, for each MiB of the application.
fn disk_time(candidate: &Side, baseline: &Side) -> Option<Finding> {
    let parts = |side: &Side| {
        let ns = side.disk.as_ref()?.parts_ns?;
        Some(ns.map(|part| part / 1e6 / side.bytes * MIB))
    };
    let (c, b) = (parts(candidate)?, parts(baseline)?);
    let total = |parts: [f64; 3]| parts.iter().sum::<f64>();
    let busy = |side: &Side, parts: [f64; 3]| {
        total(parts) / 1e3 * side.bytes / MIB / side.elapsed_s.max(1e-9) * 100.0
    };
    let [seek, rotation, transfer] = c;
    let [b_seek, b_rotation, b_transfer] = b;
    Some(Finding {
        // The medium's time decides the throughput: it is told before what else changed as much.
        change: change(total(c), total(b))? * 2.0,
        sentence: format!(
            "the disk worked {:.1} ms for each MiB of the application against {:.1} ms (seek {seek:.1} against {b_seek:.1}, \
             rotation {rotation:.1} against {b_rotation:.1}, transfer {transfer:.1} against {b_transfer:.1}), {:.0} % of the \
             time against {:.0} %",
            total(c),
            total(b),
            busy(candidate, c),
            busy(baseline, b)
        ),
    })
}

fn flushes(candidate: &Side, baseline: &Side) -> Option<Finding> {
    let per_operation = |side: &Side| {
        let level = side.disk.as_ref().or(side.host.as_ref())?;
        (side.operations > 0.0).then(|| level.flushes / side.operations * 1_000.0)
    };
    let (c, b) = (per_operation(candidate)?, per_operation(baseline)?);
    Some(Finding {
        change: ((c + 0.1) / (b + 0.1)).ln(),
        sentence: format!(
            "flushes that reached the disk for 1000 operations of the application: {c:.1} against {b:.1}"
        ),
    })
}
