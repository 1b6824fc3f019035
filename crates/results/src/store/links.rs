//! What went over networks, in the tables that queries read.

use nestor_stack::Stack;
use nestor_statistics::LatencyHistogram;
use nestor_trace::{AccessPattern, CallMetrics, FrameMetrics, LinkMetrics};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::rows::integer;
use crate::record::Measured;

/// The calls and frames of network file systems.
pub(super) fn insert_networks(
    connection: &Connection,
    run: i64,
    stack: Option<&Stack>,
    measured: &Measured,
) -> rusqlite::Result<()> {
    let mut calls_of = connection.prepare_cached("INSERT INTO rpc VALUES (?, ?, ?, ?, ?, ?, ?, ?)")?;
    let mut frames_of = connection.prepare_cached("INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?)")?;
    for network in &measured.networks {
        // The application is in front.
        let depth = network.position.position() as i64 + 1;
        for (end, counts) in [("client", &network.client), ("server", &network.server)] {
            for (procedure, calls) in counts.iter() {
                calls_of.execute(params![
                    run,
                    depth,
                    end,
                    procedure,
                    integer(calls.calls),
                    integer(calls.sent_bytes),
                    integer(calls.received_bytes),
                    integer(calls.response_ms)
                ])?;
            }
        }
        if let Some(calls) = &network.calls {
            insert_call_times(connection, run, depth, calls)?;
            if let Some(accesses) = &calls.accesses {
                let both = [("read", &accesses.reads), ("write", &accesses.writes)];
                insert_accesses(connection, run, depth, both, calls.dropped_events)?;
            }
            let loop_device = stack.and_then(|stack| stack.loop_device_below(network.position));
            if let (Some(writes), Some(layer)) = (&calls.own_writes, loop_device) {
                let depth = layer.position() as i64 + 1;
                insert_accesses(connection, run, depth, [("write", writes)], calls.dropped_events)?;
            }
        }
        for (toward, sent) in [("server", &network.to_server), ("client", &network.to_client)] {
            let [frames, bytes, lost, refused] =
                [sent.frames, sent.bytes, sent.lost, sent.refused].map(integer);
            frames_of.execute(params![run, depth, toward, frames, bytes, lost, refused])?;
        }
    }
    Ok(())
}

/// How the time of calls divides, by procedure.
fn insert_call_times(
    connection: &Connection,
    run: i64,
    depth: i64,
    calls: &CallMetrics,
) -> rusqlite::Result<()> {
    for (procedure, times) in &calls.procedures {
        let mut values = vec![Value::from(run), Value::from(depth), Value::from(procedure.clone())];
        let counts = [times.calls, times.read_bytes, times.written_bytes];
        values.extend(counts.map(|count| Value::from(integer(count))));
        let parts = [&times.queue, &times.response, &times.wire, &times.server, &times.after];
        values.extend(parts.into_iter().flat_map(|part| summary_values(part.as_ref())));
        values.push(Value::from(integer(calls.dropped_events)));
        insert_row(connection, "call_times", values)?;
    }
    Ok(())
}

/// Where files were read and written in.
fn insert_accesses<'a>(
    connection: &Connection,
    run: i64,
    depth: i64,
    patterns_by_kind: impl IntoIterator<Item = (&'static str, &'a AccessPattern)>,
    dropped_events: u64,
) -> rusqlite::Result<()> {
    let mut patterns =
        connection.prepare_cached("INSERT INTO file_accesses VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    let mut sizes = connection.prepare_cached("INSERT INTO file_access_sizes VALUES (?, ?, ?, ?, ?)")?;
    for (kind, pattern) in patterns_by_kind {
        let [count, bytes, files, sequential, dropped] =
            [pattern.accesses, pattern.bytes, pattern.files, pattern.sequential, dropped_events].map(integer);
        let seek = pattern.seek_mean_bytes;
        patterns.execute(params![run, depth, kind, count, bytes, files, sequential, seek, dropped])?;
        for (size, count) in &pattern.sizes {
            sizes.execute(params![run, depth, kind, integer(*size), integer(*count)])?;
        }
    }
    Ok(())
}

/// Mean, median and 99th percentile of times, in nanoseconds; NULL without any.
fn summary_values(times: Option<&LatencyHistogram>) -> [Value; 3] {
    let summary = times.and_then(LatencyHistogram::summary);
    [
        Value::from(summary.map(|s| s.mean_ns)),
        Value::from(summary.map(|s| integer(s.p50_ns))),
        Value::from(summary.map(|s| integer(s.p99_ns))),
    ]
}

fn insert_row(connection: &Connection, table: &str, values: Vec<Value>) -> rusqlite::Result<()> {
    let places = vec!["?"; values.len()].join(", ");
    let statement = format!("INSERT INTO {table} VALUES ({places})");
    connection.prepare_cached(&statement)?.execute(params_from_iter(values)).map(|_| ())
}

/// What became of the frames of links, where they were logged.
pub(super) fn insert_frames(connection: &Connection, run: i64, measured: &Measured) -> rusqlite::Result<()> {
    for (depth, layer) in measured.layers.iter().enumerate() {
        let Some(link) = &layer.frames else { continue };
        for (toward, sent) in [("server", &link.to_server), ("client", &link.to_client)] {
            let mut values =
                vec![Value::from(run), Value::from(depth as i64), Value::from(toward.to_owned())];
            values.extend(frame_values(link, sent, link.loaded_s(measured.load.elapsed_ns as f64 / 1e9)));
            insert_row(connection, "frames", values)?;
        }
    }
    Ok(())
}

/// The columns from `frames` on, in the table's order.
fn frame_values(link: &LinkMetrics, way: &FrameMetrics, over_s: f64) -> Vec<Value> {
    let number = |number: u64| Value::from(integer(number));
    let counts = [
        way.sent.frames,
        way.sent.bytes,
        way.wire_bytes,
        way.tcp_bytes,
        way.sent.lost,
        way.sent.refused,
        way.sendings,
    ];
    let mut values = counts.map(number).to_vec();
    values.push(Value::from(way.rate_bits_per_s(over_s)));
    values.push(number(way.busy_ns));
    for times in [&way.queue, &way.wire, &way.delivery] {
        values.extend(summary_values(times.as_ref()));
    }
    values.push(number(link.dropped));
    values.push(number(way.tcp_again_bytes));
    values
}
