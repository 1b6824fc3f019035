//! A results file that an earlier version wrote opens, and reports the numbers that the version reported which wrote it.
//!
//! `old_results/results.sqlite` has two runs, measured by the commit before stacks were parsed once and results had a crate of their own;
//! `old_results/numbers.json` is what that commit reported of them. Wording may change; numbers, stacks and workloads may not.

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;
use support::{Sandbox, json, said};

/// The numbers in a value, each with its path; and the stacks and workloads.
fn facts(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                facts(field, &format!("{path}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                facts(item, &format!("{path}/{i}"), found);
            }
        }
        Value::Number(_) => found.push((path.to_owned(), value.clone())),
        Value::String(_) if path.ends_with("/stack") || path.ends_with("/workload") => {
            found.push((path.to_owned(), value.clone()));
        }
        Value::String(_) | Value::Bool(_) | Value::Null => {}
    }
}

#[test]
fn an_old_results_file_reports_the_numbers_that_it_reported_before() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old_results");
    let sandbox = Sandbox::new();
    let store = sandbox.text("old.sqlite");
    fs::copy(data.join("results.sqlite"), &store).unwrap();
    let before = json(&fs::read_to_string(data.join("numbers.json")).unwrap());
    let page = sandbox.text("report.html");
    let reported = [
        ("runs", vec!["report", "--all", "--json", "--store", &store]),
        ("run 28", vec!["report", "28", "--json", "--output", &page, "--store", &store]),
        ("run 2", vec!["report", "2", "--json", "--output", &page, "--store", &store]),
    ];
    for (what, arguments) in reported {
        let now = json(&said(&sandbox, &arguments));
        let (mut then, mut found) = (Vec::new(), Vec::new());
        facts(&before[what], "", &mut then);
        facts(&now, "", &mut found);
        assert!(then.len() > 5, "{what} has numbers");
        for fact in &then {
            assert!(found.contains(fact), "{what}: {} was {}", fact.0, fact.1);
        }
    }
}
