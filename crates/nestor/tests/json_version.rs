//! All JSON that is printed has the version of its form. That none is printed by another way is a test of `json.rs`.

mod support;

use serde_json::Value;
use support::{Sandbox, json, said};

/// Whether an object has the version as its first field.
fn has_version(value: &Value) -> bool {
    value.as_object().and_then(|object| object.iter().next())
        == Some((&"nestor_json".to_owned(), &Value::from(1)))
}

#[test]
fn objects_and_the_objects_of_a_list_have_it_first() {
    let sandbox = Sandbox::new();
    let commands: [&[&str]; 9] = [
        &["stack", "--json"],
        &["stack", "ext3/kvm/{raw/xfs/,}hdd", "--json"],
        &["workloads", "--json"],
        &["disk", "list", "--json"],
        &["load", "list", "--json"],
        &["replicate", "--json"],
        &["study", "--list", "--json"],
        &["report", "--json"],
        &["advise", "--settle", "list", "--json"],
    ];
    for command in commands {
        let printed = json(&said(&sandbox, command));
        let whole = match &printed {
            Value::Array(elements) => !elements.is_empty() && elements.iter().all(has_version),
            value => has_version(value),
        };
        assert!(whole, "{command:?}: {printed}");
    }
}
