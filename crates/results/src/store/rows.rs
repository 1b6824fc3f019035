//! A record spread over the tables that queries read. The record itself is kept whole beside them.

use nestor_statistics::LatencyHistogram;
use nestor_trace::{DirectionMetrics, LayerMetrics};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::{links, lives, stacks};
use crate::record::{CellRecord, LayerRecord, Measured};
use crate::{WrittenStack, WrittenWorkload};

/// Writes everything but the row in `runs`.
pub(super) fn insert_details(connection: &Connection, run: i64, record: &CellRecord) -> rusqlite::Result<()> {
    if stacks::note(connection, &record.stack, &record.workload)? {
        stacks::note_machine_options(connection, &record.stack)?;
    }
    insert_environment(connection, run, record)?;
    super::conditions::note(connection, run, record)?;
    super::dependencies::note(connection, run, record)?;
    insert_machines(connection, run, record)?;
    let mut insert = connection
        .prepare_cached("INSERT INTO marks (run, place, mark, detail, about) VALUES (?, ?, ?, ?, ?)")?;
    for (place, mark) in record.marks.iter().enumerate() {
        insert.execute(params![run, place as i64, mark.name(), mark.detail(), mark.about()])?;
    }
    let Some(measured) = record.measured() else { return Ok(()) };
    insert_operations(connection, run, measured)?;
    for (depth, layer) in measured.layers.iter().enumerate() {
        insert_layer(connection, run, depth as i64, layer)?;
    }
    insert_instructions(connection, run, measured)?;
    links::insert_networks(connection, run, record.stack.value(), measured)?;
    links::insert_frames(connection, run, measured)?;
    lives::insert(connection, run, measured)?;
    insert_more(connection, run, measured)?;
    // Apart, because older files get the row before they have the column.
    connection
        .prepare_cached("UPDATE loads SET real_s = ? WHERE run = ?")?
        .execute(params![record.load_s, run])?;
    Ok(())
}

/// Fills what version 6 of the tables added. Runs that were measured before it have no known dependencies.
pub(super) fn backfill_instructions(connection: &Connection) -> rusqlite::Result<()> {
    let mut runs =
        connection.prepare("SELECT number, record FROM runs WHERE ground LIKE '%time=virtual%'")?;
    let mut rows = runs.query([])?;
    while let Some(row) = rows.next()? {
        let (run, json): (i64, String) = (row.get(0)?, row.get(1)?);
        let Ok(record) = serde_json::from_str::<CellRecord>(&json) else { continue };
        if let Some(measured) = record.measured() {
            insert_instructions(connection, run, measured)?;
        }
    }
    Ok(())
}

fn insert_instructions(connection: &Connection, run: i64, measured: &Measured) -> rusqlite::Result<()> {
    let Some(path) = &measured.path_length else { return Ok(()) };
    let per_operation = path.per_operation(&measured.load);
    let mut insert = connection.prepare_cached(
        "INSERT INTO instructions (run, executor, instructions, window_ns, per_operation) VALUES (?, ?, ?, ?, ?)",
    )?;
    for (executor, instructions) in &path.instructions {
        let of_operation = per_operation.iter().find(|(other, _)| other == executor).map(|(_, count)| *count);
        insert.execute(params![
            run,
            executor.stored(),
            integer(*instructions),
            integer(path.window_ns),
            of_operation
        ])?;
    }
    Ok(())
}

/// Fills what version 3 of the tables added, from the runs that are there. A record that does not read back gets
/// nothing: reading it says why, and must not keep the rest of the file from being read.
pub(super) fn backfill(connection: &Connection) -> rusqlite::Result<()> {
    let runs: Vec<(i64, WrittenStack, WrittenWorkload)> = connection
        .prepare("SELECT number, stack, workload FROM runs ORDER BY number")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    let mut record = connection.prepare("SELECT record FROM runs WHERE number = ?")?;
    for (run, stack, workload) in runs {
        stacks::note(connection, &stack, &workload)?;
        let json: String = record.query_row([run], |row| row.get(0))?;
        let Ok(record) = serde_json::from_str::<CellRecord>(&json) else { continue };
        super::conditions::note(connection, run, &record)?;
        if let Some(measured) = record.measured() {
            insert_more(connection, run, measured)?;
        }
    }
    Ok(())
}

/// What version 3 of the tables added.
fn insert_more(connection: &Connection, run: i64, measured: &Measured) -> rusqlite::Result<()> {
    let load = &measured.load;
    connection
        .prepare_cached(
            "INSERT INTO loads (run, engine, working_set_bytes, scale_factor, cpu_user_s, cpu_system_s) \
             VALUES (?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            run,
            load.engine,
            integer(load.working_set_bytes),
            load.scale_factor,
            load.cpu_user_s,
            load.cpu_system_s,
        ])?;
    for (depth, layer) in measured.layers.iter().enumerate() {
        if let Some(metrics) = &layer.metrics {
            insert_classes(connection, run, depth as i64, metrics)?;
            insert_seeks(connection, run, depth as i64, metrics)?;
            update_means(connection, run, depth as i64, metrics)?;
        }
    }
    Ok(())
}

fn insert_classes(
    connection: &Connection,
    run: i64,
    depth: i64,
    metrics: &LayerMetrics,
) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO layer_classes (run, depth, class, requests, read_bytes, write_bytes) VALUES (?, ?, ?, ?, ?, ?)",
    )?;
    for (class, counts) in &metrics.classes {
        insert.execute(params![
            run,
            depth,
            class.name(),
            integer(counts.requests),
            integer(counts.read_bytes),
            integer(counts.write_bytes),
        ])?;
    }
    Ok(())
}

fn insert_seeks(
    connection: &Connection,
    run: i64,
    depth: i64,
    metrics: &LayerMetrics,
) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO seeks (run, depth, percent, distance_share) VALUES (?, ?, ?, ?)",
    )?;
    for (distance, share) in metrics.d2d_seeks.iter().flat_map(|seeks| seeks.normalised_cdf()) {
        insert.execute(params![run, depth, (share * 100.0).round() as i64, distance])?;
    }
    Ok(())
}

fn update_means(
    connection: &Connection,
    run: i64,
    depth: i64,
    metrics: &LayerMetrics,
) -> rusqlite::Result<()> {
    let mean = |stage: &Option<LatencyHistogram>| {
        stage.as_ref().and_then(LatencyHistogram::summary).map(|s| s.mean_ns)
    };
    let seeks = metrics.d2d_seeks.as_ref();
    connection
        .prepare_cached(
            "UPDATE layer_metrics SET q2i_mean_ns = ?3, i2d_mean_ns = ?4, q2d_mean_ns = ?5, d2c_mean_ns = ?6, \
             q2c_mean_ns = ?7, seek_mean_sectors = ?8, seek_median_sectors = ?9, seek_span_sectors = ?10, \
             times_checked = ?11, times_wrong = ?12 WHERE run = ?1 AND depth = ?2",
        )?
        .execute(params![
            run,
            depth,
            mean(&metrics.q2i),
            mean(&metrics.i2d),
            mean(&metrics.q2d),
            mean(&metrics.d2c),
            mean(&metrics.q2c),
            seeks.map(|s| s.mean_sectors),
            seeks.map(|s| integer(s.median_sectors)),
            seeks.map(|s| integer(s.span_sectors)),
            integer(metrics.identity.checked),
            integer(metrics.identity.violations),
        ])?;
    Ok(())
}

fn insert_environment(connection: &Connection, run: i64, record: &CellRecord) -> rusqlite::Result<()> {
    let environment = &record.environment;
    let packages = environment.packages.iter().map(|(name, value)| ("package", name.clone(), value.clone()));
    let settings = environment.kept_settings().into_iter().map(|(name, value)| ("setting", name, value));
    let machines = environment.machines.iter().map(|m| ("machine", m.label.stored(), m.in_words()));
    let mut insert = connection
        .prepare_cached("INSERT OR REPLACE INTO environment (run, kind, name, value) VALUES (?, ?, ?, ?)")?;
    for (kind, name, value) in packages.chain(settings).chain(machines) {
        insert.execute(params![run, kind, name, value])?;
    }
    Ok(())
}

fn insert_machines(connection: &Connection, run: i64, record: &CellRecord) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO machines (run, machine, kernel, cpu_model, cpus, memory_bytes, accelerator) \
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?;
    for machine in &record.environment.machines {
        insert.execute(params![
            run,
            machine.label.stored(),
            machine.kernel,
            machine.cpu_model,
            machine.cpus,
            integer(machine.memory_bytes),
            machine.accelerator.to_string(),
        ])?;
    }
    Ok(())
}

/// Fills what version 8 of the tables added. How long loads ran in real time was not kept before it.
pub(super) fn backfill_machines_and_marks(connection: &Connection) -> rusqlite::Result<()> {
    let mut update =
        connection.prepare("UPDATE marks SET about = ?3 WHERE run = ?1 AND place = ?2 AND mark = ?4")?;
    let mut runs = connection.prepare("SELECT number, record FROM runs")?;
    let mut rows = runs.query([])?;
    while let Some(row) = rows.next()? {
        let (run, json): (i64, String) = (row.get(0)?, row.get(1)?);
        let Ok(record) = serde_json::from_str::<CellRecord>(&json) else { continue };
        insert_machines(connection, run, &record)?;
        for (place, mark) in record.marks.iter().enumerate() {
            update.execute(params![run, place as i64, mark.about(), mark.name()])?;
        }
    }
    Ok(())
}

fn insert_operations(connection: &Connection, run: i64, measured: &Measured) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO operations (run, class, operations, bytes, latency_mean_ns, latency_p50_ns, latency_p90_ns, \
         latency_p99_ns, latency_max_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    let mut insert_sample =
        connection.prepare_cached("INSERT INTO samples (run, class, second, bytes) VALUES (?, ?, ?, ?)")?;
    let mut insert_latency =
        connection.prepare_cached("INSERT INTO latencies (run, class, histogram) VALUES (?, ?, ?)")?;
    for (class, result) in &measured.load.operations {
        let latency = result.latency.summary();
        insert.execute(params![
            run,
            class.0,
            integer(result.operations),
            integer(result.bytes),
            latency.map(|l| l.mean_ns),
            latency.map(|l| integer(l.p50_ns)),
            latency.map(|l| integer(l.p90_ns)),
            latency.map(|l| integer(l.p99_ns)),
            latency.map(|l| integer(l.max_ns)),
        ])?;
        for (second, bytes) in result.bytes_by_second.iter().enumerate() {
            insert_sample.execute(params![run, class.0, second as i64, integer(*bytes)])?;
        }
        insert_latency.execute(params![run, class.0, encoded(&result.latency)?])?;
    }
    update_processor_time(connection, run, measured)
}

/// Sets what version 13 of the tables added.
fn update_processor_time(connection: &Connection, run: i64, measured: &Measured) -> rusqlite::Result<()> {
    let mut update = connection.prepare_cached(
        "UPDATE operations SET elapsed_ns = ?3, cpu_percent = ?4, cpu_per_operation_ns = ?5 WHERE run = ?1 AND class = ?2",
    )?;
    let load = &measured.load;
    // Most programs say neither.
    let said = load.operations.iter().filter(|(_, o)| o.elapsed_ns.is_some() || o.cpu_percent.is_some());
    for (class, result) in said {
        update.execute(params![
            run,
            class.0,
            result.elapsed_ns.map(integer),
            result.cpu_percent,
            result.cpu_ns_per_operation(load.elapsed_ns),
        ])?;
    }
    Ok(())
}

/// Fills what version 13 of the tables added, of runs whose program said it. Of IOzone's tests, only re-reading had times of its own then.
pub(super) fn backfill_processor_time(connection: &Connection) -> rusqlite::Result<()> {
    let runs = "SELECT r.number, r.record FROM runs AS r JOIN workloads AS w ON w.workload = r.workload \
                WHERE r.outcome = 'measured' AND w.engine IN ('bonnie', 'iozone')";
    for_each_measured(connection, runs, update_processor_time)
}

/// Does something with what was measured in each of the runs that a query names, by number and record. A record that is not understood has
/// nothing that could be filled in.
pub(super) fn for_each_measured(
    connection: &Connection,
    runs: &str,
    fill: impl Fn(&Connection, i64, &Measured) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut runs = connection.prepare(runs)?;
    let mut rows = runs.query([])?;
    while let Some(row) = rows.next()? {
        let (run, json): (i64, String) = (row.get(0)?, row.get(1)?);
        let Ok(record) = serde_json::from_str::<CellRecord>(&json) else { continue };
        if let Some(measured) = record.measured() {
            fill(connection, run, measured)?;
        }
    }
    Ok(())
}

fn insert_layer(connection: &Connection, run: i64, depth: i64, layer: &LayerRecord) -> rusqlite::Result<()> {
    let mut values = vec![
        Value::from(run),
        Value::from(depth),
        Value::from(layer.layer.clone()),
        Value::from(layer.role.stored()),
        Value::from(layer.machine.stored()),
    ];
    values.extend(metric_values(layer.metrics.as_ref()));
    // The columns of later versions follow these.
    values.extend(vec![Value::Null; COLUMNS_OF_VERSION_3]);
    let arms = layer.metrics.as_ref().and_then(|metrics| metrics.arms);
    let parts = [arms.map(|a| a.seek_ns), arms.map(|a| a.rotation_ns), arms.map(|a| a.transfer_ns)];
    values.extend(parts.map(|part| Value::from(part.map(integer))));
    let places = vec!["?"; values.len()].join(", ");
    let statement = format!("INSERT INTO layer_metrics VALUES ({places})");
    connection.prepare_cached(&statement)?.execute(params_from_iter(values))?;
    let Some(metrics) = &layer.metrics else { return Ok(()) };
    for (name, histogram) in stages(metrics) {
        if let Some(histogram) = histogram {
            insert_histogram(connection, run, depth, name, histogram)?;
        }
    }
    let mut insert = connection
        .prepare_cached("INSERT INTO request_sizes (run, depth, bytes, requests) VALUES (?, ?, ?, ?)")?;
    for (bytes, requests) in &metrics.size_histogram {
        insert.execute(params![run, depth, integer(*bytes), integer(*requests)])?;
    }
    Ok(())
}

/// Columns of `layer_metrics` that [`update_means`] fills.
const COLUMNS_OF_VERSION_3: usize = 10;

/// The columns of `layer_metrics` from `trace_point` to `cache_hits`, in the table's order.
fn metric_values(metrics: Option<&LayerMetrics>) -> Vec<Value> {
    /// `trace_point` to `cache_hits`.
    const COLUMNS: usize = 39;
    let Some(metrics) = metrics else { return vec![Value::Null; COLUMNS] };
    let trace_point = serde_json::to_value(metrics.trace_point).ok();
    let trace_point = trace_point.and_then(|v| v.as_str().map(str::to_owned));
    let mut values = vec![Value::from(trace_point)];
    values.extend(direction_values(&metrics.read));
    values.extend(direction_values(&metrics.write));
    values.push(Value::from(integer(metrics.flushes)));
    values.push(Value::from(integer(metrics.fua_writes)));
    values.push(Value::from(integer(metrics.flushes_queued)));
    values.push(Value::from(integer(metrics.fua_writes_queued)));
    values.push(Value::from(metrics.sequential_share));
    values.push(Value::from(integer(metrics.dropped_events)));
    values.push(Value::from(metrics.span_s));
    for (_, stage) in stages(metrics) {
        let summary = stage.as_ref().and_then(LatencyHistogram::summary);
        values.push(Value::from(summary.map(|s| integer(s.p50_ns))));
        values.push(Value::from(summary.map(|s| integer(s.p99_ns))));
    }
    let service = metrics.service;
    values.push(Value::from(service.map(|s| integer(s.seek_ns))));
    values.push(Value::from(service.map(|s| integer(s.rotation_ns))));
    values.push(Value::from(service.map(|s| integer(s.transfer_ns))));
    values.push(Value::from(service.map(|s| integer(s.overhead_ns))));
    values.push(Value::from(service.map(|s| integer(s.cache_hits))));
    debug_assert_eq!(values.len(), COLUMNS);
    values
}

/// The stages of a request's life, in the order of their columns.
fn stages(metrics: &LayerMetrics) -> [(&'static str, &Option<LatencyHistogram>); 6] {
    [
        ("q2i", &metrics.q2i),
        ("i2d", &metrics.i2d),
        ("q2d", &metrics.q2d),
        ("d2c", &metrics.d2c),
        ("q2c", &metrics.q2c),
        ("flush_d2c", &metrics.flush_d2c),
    ]
}

fn direction_values(direction: &DirectionMetrics) -> [Value; 7] {
    [
        direction.queued,
        direction.queued_bytes,
        direction.issued,
        direction.issued_bytes,
        direction.completed,
        direction.completed_bytes,
        direction.back_merges.saturating_add(direction.front_merges),
    ]
    .map(|number| Value::from(integer(number)))
}

fn insert_histogram(
    connection: &Connection,
    run: i64,
    depth: i64,
    name: &str,
    histogram: &LatencyHistogram,
) -> rusqlite::Result<()> {
    let mut insert = connection
        .prepare_cached("INSERT INTO histograms (run, depth, name, histogram) VALUES (?, ?, ?, ?)")?;
    insert.execute(params![run, depth, name, encoded(histogram)?])?;
    Ok(())
}

/// A histogram as it is kept: compressed, in base64.
fn encoded(histogram: &LatencyHistogram) -> rusqlite::Result<Option<String>> {
    let json =
        serde_json::to_value(histogram).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
    Ok(json.as_str().map(str::to_owned))
}

/// SQLite's integers are signed; counts beyond them are kept exactly in the record and capped in its columns.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
