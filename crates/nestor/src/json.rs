//! The JSON that this program prints and writes for others, with the version of its form.

use anyhow::{Context, Result};
use nestor_terminal::visible_json;
use serde::Serialize;
use serde_json::{Map, Value};

/// The field that has the version: the first of every object that is printed, and of every object in a list that is.
pub const VERSION_FIELD: &str = "nestor_json";

/// The version of the form of all JSON that is printed. It rises when a field goes away, gets another name, type, unit or meaning, or moves;
/// a new field, or a new word in one that has words, does not raise it (docs/schema.md).
pub const JSON_VERSION: u32 = 1;

/// A value as indented JSON with its version, without control characters.
///
/// # Errors
/// When it has no JSON form.
pub fn json_text<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    written(value, serde_json::to_string_pretty)
}

/// The same on one line, for what is printed again and again.
///
/// # Errors
/// When it has no JSON form.
pub fn json_line<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    written(value, serde_json::to_string)
}

fn written<T: Serialize + ?Sized>(
    value: &T,
    as_text: impl Fn(&Value) -> serde_json::Result<String>,
) -> Result<String> {
    let value = serde_json::to_value(value).context("the result has no JSON form")?;
    let text = as_text(&versioned(value)).context("the result has no JSON form")?;
    Ok(visible_json(&text).into_owned())
}

/// A list stays one, so that those who read it go on as before: each of its elements has the version.
fn versioned(value: Value) -> Value {
    match value {
        Value::Array(elements) => elements.into_iter().map(with_version).collect(),
        other => with_version(other),
    }
}

fn with_version(value: Value) -> Value {
    let mut object = Map::from_iter([(VERSION_FIELD.to_owned(), JSON_VERSION.into())]);
    match value {
        Value::Object(fields) => object.extend(fields),
        // Nothing that is printed today: it could carry no version by itself.
        other => object.extend([("value".to_owned(), other)]),
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use serde_json::json;

    use super::*;

    #[test]
    fn the_version_comes_first_in_objects_and_in_those_of_a_list() {
        let versions = |value: Value| serde_json::to_string(&versioned(value)).unwrap();
        assert_eq!(versions(json!({"b": 1, "a": [{}]})), r#"{"nestor_json":1,"b":1,"a":[{}]}"#);
        assert_eq!(versions(json!([{"a": 1}, {}])), r#"[{"nestor_json":1,"a":1},{"nestor_json":1}]"#);
        assert_eq!(versions(json!([])), "[]");
        assert_eq!(versions(json!("done")), r#"{"nestor_json":1,"value":"done"}"#);
    }

    #[test]
    fn numbers_are_printed_as_they_are() {
        #[derive(Serialize)]
        struct Numbers {
            large: u64,
            ratio: f64,
            gap: Option<f64>,
        }
        let text = json_text(&Numbers { large: u64::MAX, ratio: 0.1 + 0.2, gap: None }).unwrap();
        let compact: String = text.split_whitespace().collect();
        assert_eq!(
            compact,
            r#"{"nestor_json":1,"large":18446744073709551615,"ratio":0.30000000000000004,"gap":null}"#
        );
    }

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    /// What makes text of JSON, by file: none but this one and those whose text only this program reads again.
    #[test]
    fn nothing_else_makes_json_text() {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let own = ["src/json.rs", "load/timed.rs", "load/wml.rs", "predict/kept.rs"];
        let mut files = Vec::new();
        sources(&program, &mut files);
        assert!(files.len() > 50, "{files:?}");
        for file in files {
            if own.iter().any(|name| file.ends_with(name)) {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            for makes in
                ["serde_json::to_string", "serde_json::to_writer", "serde_json::to_vec", "visible_json("]
            {
                assert!(
                    !text.contains(makes),
                    "{makes} in {}: use output::print_json or json::json_text",
                    file.display()
                );
            }
        }
    }
}
