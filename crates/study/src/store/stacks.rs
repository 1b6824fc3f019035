//! Stacks and workloads taken apart into columns, so that a query can ask for `host_fs = 'jfs'` and not for a text.
//!
//! Both tables follow from the notation alone: a row is written when the first run with the stack or the workload is.

use nestor_load::{Value, Workload, personality};
use nestor_stack::{Layer, LayerDefinition, Stack};
use rusqlite::{Connection, params};

/// Keeps the parts of a stack and a workload, if they are not kept yet.
pub(super) fn note(connection: &Connection, stack: &str, workload: &str) -> rusqlite::Result<()> {
    let known = |table: &str, text: &str| {
        connection.prepare_cached(&format!("SELECT 1 FROM {table}s WHERE {table} = ?"))?.exists([text])
    };
    if !known("stack", stack)? {
        note_stack(connection, stack)?;
    }
    if !known("workload", workload)? {
        note_workload(connection, workload)?;
    }
    Ok(())
}

/// What is not in today's grammar has a row without parts.
pub(super) fn note_stack(connection: &Connection, text: &str) -> rusqlite::Result<()> {
    let Ok(stack) = Stack::parse(text) else {
        connection.prepare_cached("INSERT INTO stacks (stack) VALUES (?)")?.execute([text])?;
        return Ok(());
    };
    let is_file_system = |layer: &&Layer| matches!(layer.definition(), LayerDefinition::FileSystem(_));
    let (crossing, above, below) = match stack.crossings().next() {
        Some((at, _)) => (Some(stack.layer(at)), stack.above(at), stack.below(at)),
        None => (None, stack.layers(), &[][..]),
    };
    let guest = above.iter().find(is_file_system);
    let host = below.iter().find(is_file_system);
    let image = below.iter().find(|l| matches!(l.definition(), LayerDefinition::ImageFormat(_)));
    let option = |layer: Option<&Layer>, name: &str| layer.and_then(|l| l.option(name)).map(str::to_owned);
    let size = |layer: Option<&Layer>, name: &str| {
        layer.and_then(|l| l.size(name)).map(|bytes| super::rows::integer(bytes.get()))
    };
    let medium = stack.medium();
    let crossings = stack.crossings().count() as i64;
    connection
        .prepare_cached(
            "INSERT INTO stacks (stack, guest_fs, guest_fs_options, crossing, crossings, cache, device, aio, \
             guest_memory_bytes, guest_sched, guest_readahead, image, image_options, host_fs, host_fs_options, \
             host_sched, host_readahead, medium, medium_options, medium_bytes) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            text,
            guest.map(Layer::name),
            guest.map(options),
            crossing.map(Layer::name),
            crossings,
            option(crossing, "cache"),
            option(crossing, "disk"),
            option(crossing, "aio"),
            size(crossing, "memory"),
            option(crossing, "sched"),
            option(crossing, "readahead"),
            image.map(Layer::name),
            image.map(options),
            host.map(Layer::name),
            host.map(options),
            option(Some(medium), "sched"),
            option(Some(medium), "readahead"),
            medium.name(),
            options(medium),
            size(Some(medium), "size"),
        ])?;
    Ok(())
}

/// The options of a layer that are not at their default, as written; empty without any.
fn options(layer: &Layer) -> String {
    let label = layer.label();
    label[layer.name().len()..].trim_start_matches(':').to_owned()
}

fn note_workload(connection: &Connection, text: &str) -> rusqlite::Result<()> {
    let Ok(workload) = Workload::parse(text) else {
        connection.prepare_cached("INSERT INTO workloads (workload) VALUES (?)")?.execute([text])?;
        return Ok(());
    };
    let engine = workload.engine();
    let canonical = workload.to_string();
    let written = canonical[engine.name().len() + 1 + workload.case().len()..].trim_start_matches(':');
    let set = workload.data_set();
    connection
        .prepare_cached(
            "INSERT INTO workloads (workload, engine, load, options, files, file_bytes, bytes, scale_factor) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            text,
            engine.name(),
            workload.case(),
            written,
            super::rows::integer(set.files),
            super::rows::integer(set.file_bytes),
            super::rows::integer(set.bytes),
            set.scale_factor,
        ])?;
    let mut insert = connection
        .prepare_cached("INSERT OR IGNORE INTO workload_options (workload, name, value) VALUES (?, ?, ?)")?;
    for spec in engine.options() {
        if let Some(value) = workload.value(spec.name) {
            insert.execute(params![text, spec.name, in_numbers(&value)])?;
        }
    }
    // A personality's own settings, which its options override.
    let script = if engine.name() == "wml" { personality(workload.case()) } else { None };
    for (name, value) in script.into_iter().flat_map(settings) {
        insert.execute(params![text, format!("script:{name}"), value])?;
    }
    Ok(())
}

/// Sizes in bytes and times in seconds, for arithmetic; everything else as it is written.
fn in_numbers(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => bytes.to_string(),
        Value::TimeLimit(Some(seconds)) => seconds.to_string(),
        other => other.to_string(),
    }
}

/// `set $name=value` of a script, in the script's own spelling.
fn settings(script: &str) -> impl Iterator<Item = (&str, &str)> {
    script.lines().filter_map(|line| line.trim().strip_prefix("set $")?.split_once('='))
}
