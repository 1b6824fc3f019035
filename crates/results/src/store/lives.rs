//! What instances of a cloud went through.

use rusqlite::{Connection, params};

use super::rows::{for_each_measured, integer};
use crate::life::{DiskUse, InstanceLife};
use crate::record::Measured;

/// Fills the tables that version 14 added, 17 made again and 21 gave another column, of runs whose record has lives.
pub(super) fn backfill(connection: &Connection) -> rusqlite::Result<()> {
    // Records are long: only those of loads that can have lives are read.
    let runs = "SELECT number, record FROM runs WHERE number IN (SELECT number FROM runs WHERE workload LIKE 'life:%')";
    for_each_measured(connection, runs, insert)
}

/// The lives of a run and their states.
pub(super) fn insert(connection: &Connection, run: i64, measured: &Measured) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO lives (run, instance, image_bytes, whole_s, unaccounted_s, first_process_s, hello_s, node) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    for (instance, life) in measured.lives.iter().enumerate() {
        let (instance, counted) = (instance as i64, life.is_counted());
        insert.execute(params![
            run,
            instance,
            counted.then(|| integer(life.image_bytes)),
            seconds(life.whole_ns()),
            seconds(life.unaccounted_ns()),
            life.first_process_ns.map(seconds),
            counted.then(|| seconds(life.hello_ns)),
            life.node,
        ])?;
        insert_states(connection, run, instance, life)?;
    }
    Ok(())
}

fn insert_states(
    connection: &Connection,
    run: i64,
    instance: i64,
    life: &InstanceLife,
) -> rusqlite::Result<()> {
    // A record of somebody else's may have a state twice.
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO states (run, instance, state, begin_s, seconds, own_s, from_repository_bytes, \
         to_repository_bytes, link_busy, node_read_bytes, node_written_bytes, node_busy_s, repository_read_bytes, \
         repository_written_bytes, repository_busy_s, node_cpu_busy, repository_cpu_busy, instructions, waited_s) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    let read = |disk: Option<&DiskUse>| disk.map(|disk| integer(disk.read_bytes));
    let written = |disk: Option<&DiskUse>| disk.map(|disk| integer(disk.written_bytes));
    let busy = |disk: Option<&DiskUse>| disk.map(|disk| seconds(disk.busy_ns));
    for state in &life.states {
        let (node, repository) = (state.node_disk(), state.repository_disk());
        let counted = |number: u64| life.is_counted().then(|| integer(number));
        insert.execute(params![
            run,
            instance,
            state.state.name(),
            seconds(state.begin_ns),
            seconds(state.duration_ns()),
            seconds(state.own_ns),
            counted(state.from_repository_bytes),
            counted(state.to_repository_bytes),
            life.is_counted().then_some(state.link_busy),
            read(node),
            written(node),
            busy(node),
            read(repository),
            written(repository),
            busy(repository),
            state.node_processors(),
            state.repository_processors(),
            state.all_instructions().map(integer),
            seconds(state.waited_ns),
        ])?;
    }
    Ok(())
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
