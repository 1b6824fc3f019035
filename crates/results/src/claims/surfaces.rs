//! The surfaces that cells measured, as tables: the measured points, those interpolated between them, and their error.

use std::collections::BTreeMap;

use nestor_statistics::median;
use nestor_statistics::surface::{GridPoint, Surface, points_to_measure, study_grid};
use nestor_workload::SurfacePoint;
use rusqlite::{Connection, params};

use crate::record::CellRecord;
use crate::store::surface_loads;

/// Parts of a whole grid from which the rest is estimated, to measure the error.
const PARTS: [usize; 5] = [15, 20, 25, 34, 50];
/// A grid that is whole enough for that: the study's without its smallest size.
const WHOLE: usize = 75;

/// Makes `surface`, `surface_pair`, `surface_ratio`, `surface_fit`, `surface_error` and `surface_check`.
pub(super) fn lay_out(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(TABLES)?;
    surface_loads::note(connection)?;
    for (run, points) in measured(connection)? {
        insert_points(connection, run, &points)?;
        insert_fit(connection, run, &points)?;
        if points.len() >= WHOLE {
            insert_check(connection, run, &points)?;
        }
    }
    connection.execute_batch(VIEWS)
}

fn measured(connection: &Connection) -> rusqlite::Result<BTreeMap<i64, Vec<SurfacePoint>>> {
    let mut records = connection.prepare(RECORDS)?;
    let mut rows = records.query([])?;
    let mut found = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (run, text): (i64, String) = (row.get(0)?, row.get(1)?);
        found.insert(run, CellRecord::surface_points(&text));
    }
    Ok(found)
}

fn insert_points(connection: &Connection, run: i64, points: &[SurfacePoint]) -> rusqlite::Result<()> {
    let mut insert =
        connection.prepare_cached("INSERT INTO temp.surface_point VALUES (?, ?, ?, ?, ?, ?, ?, ?)")?;
    for reached in points {
        let point = reached.point;
        insert.execute(params![
            run,
            point.bytes,
            point.read_percent,
            point.random_percent,
            point.depth,
            reached.requests_per_s,
            reached.response_ms,
            reached.cpu_share,
        ])?;
    }
    Ok(())
}

/// The grid between the points, each with its 90 % interval; measured points as they are.
fn insert_fit(connection: &Connection, run: i64, points: &[SurfacePoint]) -> rusqlite::Result<()> {
    let rates: Vec<(GridPoint, f64)> = points.iter().map(|p| (p.point, p.requests_per_s)).collect();
    let Some((depth, smallest)) = points.iter().map(|p| (p.point.depth, p.point.bytes)).min() else {
        return Ok(());
    };
    let Some(surface) = Surface::fit(&rates) else { return Ok(()) };
    let error = surface.error();
    connection.execute(
        "INSERT INTO temp.surface_error VALUES (?, ?, ?, ?, ?)",
        params![run, rates.len() as i64, error.median, error.largest, error.covered],
    )?;
    let mut insert =
        connection.prepare_cached("INSERT INTO temp.surface_fitted VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    for point in study_grid(depth).into_iter().filter(|point| point.bytes >= smallest) {
        let known = rates.iter().find(|(known, _)| *known == point).map(|(_, rate)| *rate);
        let estimate = surface.at(&point);
        let mb = |rate: f64| rate * f64::from(point.bytes) / 1e6;
        let (rate, low, high) = match known {
            Some(rate) => (rate, None, None),
            None => {
                (estimate.requests_per_s, Some(mb(estimate.interval.low)), Some(mb(estimate.interval.high)))
            }
        };
        insert.execute(params![
            run,
            point.bytes,
            point.read_percent,
            point.random_percent,
            depth,
            mb(rate),
            low,
            high,
            known.is_some(),
        ])?;
    }
    Ok(())
}

/// The error of a part of the whole grid at the points that it leaves out.
fn insert_check(connection: &Connection, run: i64, points: &[SurfacePoint]) -> rusqlite::Result<()> {
    let rates: BTreeMap<GridPoint, f64> = points.iter().map(|p| (p.point, p.requests_per_s)).collect();
    let grid: Vec<GridPoint> = rates.keys().copied().collect();
    for part in PARTS {
        let chosen: Vec<(GridPoint, f64)> =
            points_to_measure(&grid, &[], part).into_iter().map(|point| (point, rates[&point])).collect();
        let Some(surface) = Surface::fit(&chosen) else { continue };
        let others: Vec<(&GridPoint, &f64)> =
            rates.iter().filter(|(point, _)| !chosen.iter().any(|(known, _)| known == *point)).collect();
        let mut errors: Vec<f64> = others
            .iter()
            .map(|(point, rate)| (surface.at(point).requests_per_s / **rate - 1.0).abs())
            .collect();
        errors.sort_by(f64::total_cmp);
        let Some(middle) = median(&errors) else { continue };
        let ninth = errors[(errors.len() * 9 / 10).min(errors.len() - 1)];
        let inside =
            others.iter().filter(|(point, rate)| surface.at(point).interval.contains(**rate)).count();
        connection.execute(
            "INSERT INTO temp.surface_check VALUES (?, ?, ?, ?, ?, ?)",
            params![
                run,
                part as i64,
                middle,
                ninth,
                errors.last().copied(),
                inside as f64 / others.len() as f64
            ],
        )?;
    }
    Ok(())
}

const RECORDS: &str = "
SELECT r.number, r.record FROM main.runs AS r JOIN cell ON cell.run = r.number
WHERE cell.workload IN (SELECT workload FROM temp.surface_loads)";

const TABLES: &str = "
CREATE TEMP TABLE surface_point (run INTEGER, size INTEGER, read INTEGER, random INTEGER, depth INTEGER,
    requests_per_s REAL, response_ms REAL, cpu_share REAL, PRIMARY KEY (run, size, read, random, depth)) WITHOUT ROWID;
CREATE TEMP TABLE surface_fitted (run INTEGER, size INTEGER, read INTEGER, random INTEGER, depth INTEGER,
    mb_per_s REAL, low REAL, high REAL, measured INTEGER, PRIMARY KEY (run, size, read, random, depth)) WITHOUT ROWID;
CREATE TEMP TABLE surface_error (run INTEGER PRIMARY KEY, points INTEGER, median REAL, largest REAL, covered REAL);
CREATE TEMP TABLE surface_check (run INTEGER, points INTEGER, median REAL, ninety REAL, largest REAL, covered REAL);";

/// Runs of a native stack in the same block count as one, by the geometric mean of each point.
const VIEWS: &str = "
CREATE TEMP VIEW surface AS
SELECT p.run, p.size, p.read, p.random, p.depth, p.requests_per_s, p.requests_per_s * p.size / 1e6 AS mb_per_s,
    p.response_ms, p.cpu_share, c.block, c.repeat, c.stack, c.workload, c.kind, c.guest, c.device, c.cache, c.medium,
    c.medium_options, c.host_cpu_busy, c.marked
FROM surface_point AS p JOIN cell AS c USING (run);
CREATE TEMP VIEW surface_fit AS
SELECT f.*, c.block, c.stack, c.workload, c.kind, c.guest, c.device, c.medium, c.medium_options, c.marked
FROM surface_fitted AS f JOIN cell AS c USING (run);
CREATE TEMP TABLE surface_pair AS
SELECT v.run, min(n.run) AS baseline_run, v.block, v.block % 2 AS half, v.guest, v.device, v.medium, v.medium_options, v.workload, v.stack,
    v.size, v.read, v.random, v.depth, geomean(n.mb_per_s) AS baseline, v.mb_per_s AS candidate,
    v.mb_per_s / geomean(n.mb_per_s) AS relative, max(v.marked, max(n.marked)) AS marked
FROM surface AS v JOIN surface AS n ON n.kind = 'native' AND n.guest IS v.guest AND n.medium IS v.medium
    AND n.medium_options IS v.medium_options AND n.workload = v.workload AND n.block = v.block
    AND n.size = v.size AND n.read = v.read AND n.random = v.random AND n.depth = v.depth
WHERE v.kind <> 'native'
GROUP BY v.run, v.size, v.read, v.random, v.depth;
CREATE TEMP TABLE surface_ratio AS
SELECT v.run, min(n.run) AS baseline_run, v.block, v.guest, v.device, v.medium, v.medium_options, v.workload, v.stack,
    v.size, v.read, v.random, v.depth, v.mb_per_s / geomean(n.mb_per_s) AS relative, min(v.measured, min(n.measured)) AS measured,
    max(v.marked, max(n.marked)) AS marked
FROM surface_fit AS v JOIN surface_fit AS n ON n.kind = 'native' AND n.guest IS v.guest AND n.medium IS v.medium
    AND n.medium_options IS v.medium_options AND n.workload = v.workload AND n.block = v.block
    AND n.size = v.size AND n.read = v.read AND n.random = v.random AND n.depth = v.depth
WHERE v.kind <> 'native'
GROUP BY v.run, v.size, v.read, v.random, v.depth;";
