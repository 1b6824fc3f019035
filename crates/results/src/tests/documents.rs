//! What the documents say of the file of results and of marks is so.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use tempfile::TempDir;

use super::fixture::*;
use super::judged::recorded;
use crate::claims::{Evidence, TABLES};
use crate::record::{CellRecord, Mark, Outcome};
use crate::{Store, Study, StudyRecord};

const SCHEMA: &str = include_str!("../../../../docs/schema.md");
const MEASURE: &str = include_str!("../../../../docs/measure.md");

/// Columns by table.
type Tables = BTreeMap<String, BTreeSet<String>>;

/// The text from a heading to the next one.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let (_, after) = document.split_once(&format!("\n## {heading}\n")).expect(heading);
    after.split_once("\n## ").map_or(after, |(section, _)| section)
}

/// The cells of the table whose head begins so, row by row.
fn rows<'a>(text: &'a str, head: &str) -> Vec<Vec<&'a str>> {
    let lines = text.lines().skip_while(|line| !line.starts_with(head)).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// What is in backticks outside of parentheses, where values and explanations are; braces are several names.
fn names(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let outside: String = text
        .chars()
        .filter(|&c| {
            depth = if c == '(' { depth + 1 } else { depth };
            let keep = depth == 0;
            depth = if c == ')' { depth.saturating_sub(1) } else { depth };
            keep
        })
        .collect();
    let quoted = outside.split('`').skip(1).step_by(2);
    quoted.flat_map(|name| nestor_stack::expand(name).unwrap()).collect()
}

fn columns(connection: &Connection, table: &str) -> BTreeSet<String> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?)").unwrap();
    statement.query_map([table], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

fn tables_of_the_file(connection: &Connection) -> Tables {
    let mut statement = connection
        .prepare("SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'")
        .unwrap();
    let names: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    names.into_iter().map(|name| (name.clone(), columns(connection, &name))).collect()
}

/// A store in a folder of its own, with one study of a guest on a nested and on the raw disk.
struct Kept {
    _folder: TempDir,
    store: Store,
    study: StudyRecord,
}

impl Kept {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let mut store = Store::open(&folder.path().join("r.sqlite")).unwrap();
        let stacks = ["ext3/kvm:cache=writethrough/hdd", "ext3/kvm:cache=writethrough/raw/xfs/hdd"];
        let workload = "wml:fileserver:scale=0.02";
        for stack in stacks {
            let mut run = CellRecord { workload: workload.into(), ..record(stack, 0, MIB) };
            if let Outcome::Measured(measured) = &mut run.outcome {
                measured.layers = vec![
                    layer("application", "", "guest", None),
                    layer("ext3", "guest fs", "guest", Some(writes(MIB))),
                    layer("xfs", "host fs", "host", Some(writes(2 * MIB))),
                ];
            }
            store.insert(&run).unwrap();
        }
        let study = Study::new("s", "S", stacks.map(Into::into).to_vec(), vec![workload.into()]);
        let study = recorded(&record(stacks[0], 0, MIB).study_hash.unwrap(), study);
        store.save_study(&study).unwrap();
        Self { _folder: folder, store, study }
    }
}

#[test]
fn every_table_and_column_of_the_file_is_documented() {
    let mut documented: Tables = rows(section(SCHEMA, "Tables"), "| table ")
        .iter()
        .map(|row| {
            let kind = if row[0].starts_with("view ") { "view" } else { "" };
            (kind.to_owned() + &names(row[0]).concat(), names(row[2]).into_iter().collect())
        })
        .collect();
    let of_layers = rows(section(SCHEMA, "Tables"), "| column of `layer_metrics` ");
    documented.insert("layer_metrics".to_owned(), of_layers.iter().flat_map(|row| names(row[0])).collect());
    let there = tables_of_the_file(&Kept::new().store.reader().unwrap());
    for (view, columns) in &there {
        let Some(named) = documented.remove(&format!("view{view}")) else { continue };
        // `as cells`: what it names is a table, whose columns it has. A column may have the name of a table, too.
        let of_name = |name: String| match there.get(&name).filter(|_| !columns.contains(&name)) {
            Some(of_table) => of_table.clone(),
            None => [name].into(),
        };
        documented.insert(view.clone(), named.into_iter().flat_map(of_name).collect());
    }
    for (table, columns) in &there {
        assert_eq!(documented.get(table), Some(columns), "{table} in docs/schema.md, and in the file");
    }
    assert_eq!(documented.len(), there.len(), "{:?}", documented.keys());
    let version: i64 =
        Kept::new().store.reader().unwrap().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert!(SCHEMA.contains(&format!("`PRAGMA user_version` is {version}.")));
}

#[test]
fn what_claims_can_ask_is_there_and_documented() {
    let kept = Kept::new();
    let evidence = Evidence::new(&kept.store, &kept.study).unwrap();
    let file = tables_of_the_file(&kept.store.reader().unwrap());
    let asked = section(SCHEMA, "What claims and figures can ask");
    let rows = rows(asked, "| table ");
    let documented: BTreeSet<String> = rows.iter().map(|row| names(row[0]).concat()).collect();
    assert_eq!(documented, TABLES.map(str::to_owned).into(), "in docs/schema.md, and laid out");
    for row in &rows {
        let table = names(row[0]).concat();
        let there = columns(evidence.connection(), &table);
        assert!(!there.is_empty(), "{table}");
        for name in &names(row[2]) {
            // `as cell`: what it names is a table, whose columns it has.
            let needed = match (documented.contains(name), file.get(name)) {
                (true, _) => columns(evidence.connection(), name),
                (false, Some(columns)) => columns.clone(),
                (false, None) => [name.clone()].into(),
            };
            // A column may have the name of a table: `class`, `layer`.
            let missing: Vec<&String> =
                if there.contains(name) { Vec::new() } else { needed.difference(&there).collect() };
            assert!(missing.is_empty(), "{table} lacks {missing:?}");
        }
    }
    let (_, functions) = asked.split_once("Functions besides SQLite's own").expect("functions");
    let mut known =
        evidence.connection().prepare("SELECT 1 FROM pragma_function_list WHERE name = ?").unwrap();
    let called: Vec<&str> =
        functions.split('`').skip(1).step_by(2).filter_map(|f| Some(f.split_once('(')?.0)).collect();
    assert!(called.len() >= 8, "{called:?}");
    for function in called {
        assert!(known.exists([function]).unwrap(), "there is no function {function}");
    }
}

/// The queries of schema.md: SQL as it is, and what other languages send.
fn example_queries() -> Vec<String> {
    let examples = section(SCHEMA, "Three queries");
    let fenced = examples.split("```").skip(1).step_by(2);
    fenced
        .map(|block| match block.split_once('\n').expect("a language") {
            ("sql", query) => query.to_owned(),
            (_, program) => program.split("\"\"\"").nth(1).expect("a query").to_owned(),
        })
        .collect()
}

#[test]
fn the_example_queries_run_and_find_something() {
    let kept = Kept::new();
    let evidence = Evidence::new(&kept.store, &kept.study).unwrap();
    let queries = example_queries();
    assert_eq!(queries.len(), 3);
    for query in queries {
        // DuckDB's own words, in SQLite's; the tables and columns are what is tried here.
        let query =
            query.replace("quantile_cont(r.bytes_per_second / 1e6, 0.5)", "median(r.bytes_per_second / 1e6)");
        let query = query.replace("GROUP BY ALL ORDER BY ALL", "GROUP BY 1, 2 ORDER BY 1, 2");
        let mut statement = evidence.connection().prepare(&query).unwrap_or_else(|e| panic!("{e}:\n{query}"));
        assert!(statement.exists([]).unwrap(), "nothing is found by\n{query}");
    }
}

#[test]
fn the_list_of_tables_in_measure_is_whole() {
    let listed: BTreeSet<String> =
        rows(section(MEASURE, "Results"), "| | |").iter().flat_map(|row| names(row[1])).collect();
    let there = tables_of_the_file(&Kept::new().store.reader().unwrap());
    assert_eq!(listed, there.into_keys().collect());
}

/// One of each kind; a new kind does not compile until it is here.
fn marks() -> Vec<Mark> {
    let reason = String::new;
    let all = vec![
        Mark::EmulatedCpu,
        Mark::Declared,
        Mark::CpuBound { machine: reason().into(), busy: 1.0, modelled: None },
        Mark::Cached { reason: reason() },
        Mark::NotSteady { reason: reason() },
        Mark::Inconsistent { reason: reason() },
        Mark::Suspended { seconds: 1.0 },
        Mark::EventsDropped { layer: reason(), events: 1 },
        Mark::Unmatched { share: 1.0 },
        Mark::Unclassified { layer: reason(), share: 1.0 },
    ];
    for mark in &all {
        match mark {
            Mark::EmulatedCpu
            | Mark::Declared
            | Mark::CpuBound { .. }
            | Mark::Cached { .. }
            | Mark::NotSteady { .. }
            | Mark::Inconsistent { .. }
            | Mark::Suspended { .. }
            | Mark::EventsDropped { .. }
            | Mark::Unmatched { .. }
            | Mark::Unclassified { .. } => {}
        }
    }
    all
}

#[test]
fn the_list_of_marks_in_measure_is_whole() {
    let text = section(MEASURE, "Marks");
    let listed: Vec<(String, String)> =
        rows(text, "| mark ").iter().map(|row| (row[0].to_owned(), row[1].to_owned())).collect();
    let there: Vec<(String, String)> =
        marks().iter().map(|mark| (mark.name().to_owned(), mark.letter().to_string())).collect();
    assert_eq!(listed, there);
    let spoiling: BTreeSet<char> =
        marks().iter().filter(|mark| mark.spoils_comparison()).map(Mark::letter).collect();
    let (_, line) = text.rsplit_once("\n\n").expect("a paragraph below the table");
    let said = line.split(" are also printed").next().unwrap_or_default();
    let said: BTreeSet<char> = said.split([',', ' ']).filter(|w| w.len() == 1).flat_map(str::chars).collect();
    assert_eq!(said, spoiling, "{line}");
}
