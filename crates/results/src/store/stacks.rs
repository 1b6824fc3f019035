//! Stacks and workloads taken apart into columns, so that a query can ask for `host_fs = 'jfs'` and not for a text.
//!
//! Both tables follow from the notation alone: a row is written when the first run with the stack or the workload is.

use nestor_stack::{HOST_MEMORY_OPTION, Layer};
use nestor_workload::Value;
use rusqlite::{Connection, params};

use crate::{WrittenStack, WrittenWorkload};

/// Stores the parts of a stack and a workload, unless they are already stored; whether the stack is new.
pub(super) fn note(
    connection: &Connection,
    stack: &WrittenStack,
    workload: &WrittenWorkload,
) -> rusqlite::Result<bool> {
    let known = |table: &str, text: &str| {
        connection.prepare_cached(&format!("SELECT 1 FROM {table}s WHERE {table} = ?"))?.exists([text])
    };
    let is_new = !known("stack", stack)?;
    if is_new {
        note_stack(connection, stack)?;
    }
    if !known("workload", workload)? {
        note_workload(connection, workload)?;
    }
    Ok(is_new)
}

/// The columns of a stack; of one that this version does not know none has a value.
#[derive(Default)]
pub(super) struct StackColumns {
    pub guest_fs: Option<String>,
    pub guest_fs_options: Option<String>,
    pub crossing: Option<String>,
    pub crossings: Option<i64>,
    pub cache: Option<String>,
    pub device: Option<String>,
    pub aio: Option<String>,
    pub guest_memory_bytes: Option<i64>,
    pub machine_options: Option<String>,
    pub guest_sched: Option<String>,
    pub guest_readahead: Option<String>,
    pub image: Option<String>,
    pub image_options: Option<String>,
    pub host_fs: Option<String>,
    pub host_fs_options: Option<String>,
    pub host_sched: Option<String>,
    pub host_readahead: Option<String>,
    pub medium: Option<String>,
    pub medium_options: Option<String>,
    pub medium_bytes: Option<i64>,
    /// Labels of the layers that have no column, topmost first. No column either.
    pub other_layers: String,
}

impl StackColumns {
    pub fn of(written: &WrittenStack) -> Self {
        let Some(stack) = written.value() else { return Self::default() };
        let parts = stack.anatomy();
        let (machine, medium) = (parts.virtual_machine, parts.medium);
        let name = |layer: Option<&Layer>| layer.map(|layer| layer.name().to_owned());
        let option =
            |layer: Option<&Layer>, name: &str| layer.and_then(|l| l.option(name)).map(str::to_owned);
        let size = |layer: Option<&Layer>, name: &str| {
            layer.and_then(|l| l.size(name)).map(|bytes| super::rows::integer(bytes.get()))
        };
        let crossings = stack.crossings().count();
        let others: Vec<String> = parts.others().map(Layer::label).collect();
        Self {
            guest_fs: name(parts.guest_file_system()),
            guest_fs_options: parts.guest_file_system().map(options),
            crossing: name(machine),
            crossings: i64::try_from(crossings).ok(),
            cache: option(machine, "cache"),
            device: option(machine, "disk"),
            aio: option(machine, "aio"),
            guest_memory_bytes: size(machine, "memory"),
            machine_options: machine.map(options_without_column).or_else(|| host_memory_of(medium)),
            guest_sched: option(machine, "sched"),
            guest_readahead: option(machine, "readahead"),
            image: name(parts.image()),
            image_options: parts.image().map(options),
            host_fs: name(parts.host_file_system()),
            host_fs_options: parts.host_file_system().map(options),
            host_sched: option(Some(medium), "sched"),
            host_readahead: option(Some(medium), "readahead"),
            medium: name(Some(medium)),
            medium_options: Some(options_but(medium, &[HOST_MEMORY_OPTION])),
            medium_bytes: size(Some(medium), "size"),
            other_layers: others.join("/"),
        }
    }
}

/// A stack that this version does not know has a row without parts.
fn note_stack(connection: &Connection, stack: &WrittenStack) -> rusqlite::Result<()> {
    let columns = StackColumns::of(stack);
    connection
        .prepare_cached(
            "INSERT INTO stacks (stack, guest_fs, guest_fs_options, crossing, crossings, cache, device, aio, \
             guest_memory_bytes, guest_sched, guest_readahead, image, image_options, host_fs, host_fs_options, \
             host_sched, host_readahead, medium, medium_options, medium_bytes) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            stack,
            columns.guest_fs,
            columns.guest_fs_options,
            columns.crossing,
            columns.crossings,
            columns.cache,
            columns.device,
            columns.aio,
            columns.guest_memory_bytes,
            columns.guest_sched,
            columns.guest_readahead,
            columns.image,
            columns.image_options,
            columns.host_fs,
            columns.host_fs_options,
            columns.host_sched,
            columns.host_readahead,
            columns.medium,
            columns.medium_options,
            columns.medium_bytes,
        ])?;
    Ok(())
}

/// Options of a virtual machine that have a column of their own.
const WITH_COLUMN: [&str; 6] = ["cache", "disk", "aio", "memory", "sched", "readahead"];

/// The other options of a virtual machine that are written, joined.
fn options_without_column(machine: &Layer) -> String {
    options_but(machine, &WITH_COLUMN)
}

/// What a medium says of its machine, which is nothing of the disk.
fn host_memory_of(medium: &Layer) -> Option<String> {
    medium.written_options().find(|(name, _)| *name == HOST_MEMORY_OPTION).map(|(_, option)| option)
}

/// Stores what version 7 of the tables added.
pub(super) fn note_machine_options(connection: &Connection, stack: &WrittenStack) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE stacks SET machine_options = ? WHERE stack = ?")?
        .execute(params![StackColumns::of(stack).machine_options, stack])?;
    Ok(())
}

/// Fills what version 7 of the tables added.
pub(super) fn backfill_machine_options(connection: &Connection) -> rusqlite::Result<()> {
    let stacks: Vec<WrittenStack> = connection
        .prepare("SELECT stack FROM stacks")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    stacks.iter().try_for_each(|stack| note_machine_options(connection, stack))
}

/// The options of a layer that are not at their default, as written; empty without any.
fn options(layer: &Layer) -> String {
    options_but(layer, &[])
}

fn options_but(layer: &Layer, without: &[&str]) -> String {
    let others = layer.written_options().filter(|(name, _)| !without.contains(name));
    others.map(|(_, option)| option).collect::<Vec<_>>().join(":")
}

fn note_workload(connection: &Connection, written: &WrittenWorkload) -> rusqlite::Result<()> {
    let text = written.as_str();
    let Some(workload) = written.value() else {
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
    for (name, value) in workload.script_settings() {
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
