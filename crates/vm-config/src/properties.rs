//! QEMU's options: `key=value,…` and JSON, both as keys with dots (QEMU's util/keyval.c, util/qemu-option.c).

use std::collections::BTreeMap;

use serde_json::Value;

/// Deepest nesting of JSON that is read.
const DEEPEST: usize = 32;

/// The options of one argument. Keys of nested objects are joined with dots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties(BTreeMap<String, String>);

impl Properties {
    /// Reads an argument. `implied` is the key of a first value without one.
    pub(crate) fn parse(text: &str, implied: &str) -> Result<Self, String> {
        if text.trim_start().starts_with('{') {
            return Self::parse_json(text);
        }
        let mut found = BTreeMap::new();
        for (index, item) in split_commas(text).into_iter().enumerate() {
            match item.split_once('=') {
                Some((key, value)) => found.insert(key.to_owned(), value.to_owned()),
                None if index == 0 && !implied.is_empty() => found.insert(implied.to_owned(), item),
                None if item.is_empty() => None,
                None => match item.strip_prefix("no").filter(|rest| !rest.is_empty()) {
                    Some(key) if KNOWN_SWITCHES.contains(&key) => {
                        found.insert(key.to_owned(), "off".to_owned())
                    }
                    _ => found.insert(item, "on".to_owned()),
                },
            };
        }
        Ok(Self(found))
    }

    /// Reads an object of JSON.
    pub(crate) fn parse_json(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|e| format!("it is no valid JSON: {e}"))?;
        if !value.is_object() {
            return Err("it is no object of JSON".to_owned());
        }
        let mut found = BTreeMap::new();
        flatten("", &value, &mut found, 0)?;
        Ok(Self(found))
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The value of a switch, `None` if it is not there.
    pub(crate) fn switch(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            "on" | "yes" | "true" | "y" => Some(true),
            "off" | "no" | "false" | "n" => Some(false),
            _ => None,
        }
    }

    /// The options below `prefix.`, without it.
    pub(crate) fn below(&self, prefix: &str) -> Self {
        let dotted = format!("{prefix}.");
        let below = self
            .0
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(&dotted)?.to_owned(), value.clone())));
        Self(below.collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// With a value for a key that has none.
    pub(crate) fn or(mut self, key: &str, value: Option<&str>) -> Self {
        if let (None, Some(value)) = (self.get(key), value) {
            self.0.insert(key.to_owned(), value.to_owned());
        }
        self
    }
}

/// Switches that may be written with `no` before them (deprecated, QEMU before 6.0).
const KNOWN_SWITCHES: &[&str] = &["readonly", "snapshot", "boot", "wait", "server", "delay"];

/// Splits at single commas; two are one in a value.
fn split_commas(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        if letter == ',' && rest.next_if_eq(&',').is_none() {
            items.push(String::new());
        } else if let Some(last) = items.last_mut() {
            last.push(letter);
        }
    }
    items
}

fn flatten(
    prefix: &str,
    value: &Value,
    found: &mut BTreeMap<String, String>,
    depth: usize,
) -> Result<(), String> {
    if depth > DEEPEST {
        return Err(format!("its JSON is nested deeper than {DEEPEST} times"));
    }
    let joined = |key: &str| if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
    let text = match value {
        Value::Object(members) => {
            return members
                .iter()
                .try_for_each(|(key, value)| flatten(&joined(key), value, found, depth + 1));
        }
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            return items
                .try_for_each(|(i, value)| flatten(&joined(&i.to_string()), value, found, depth + 1));
        }
        Value::Bool(true) => "on".to_owned(),
        Value::Bool(false) => "off".to_owned(),
        Value::Null => return Ok(()),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
    };
    found.insert(prefix.to_owned(), text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_notations_are_one() {
        let words = Properties::parse("driver=qcow2,cache.direct=on,file.filename=/a,,b", "").unwrap();
        let json = Properties::parse(
            r#"{"driver": "qcow2", "cache": {"direct": true}, "file": {"filename": "/a,b"}}"#,
            "",
        );
        assert_eq!(words, json.unwrap());
        assert_eq!(words.below("file").get("filename"), Some("/a,b"));
        assert_eq!(words.switch("cache.direct"), Some(true));
        let implied = Properties::parse("virtio-blk-pci,drive=d", "driver").unwrap();
        assert_eq!(implied.get("driver"), Some("virtio-blk-pci"));
        let switches = Properties::parse("pc,noreadonly,nowhere", "type").unwrap();
        assert_eq!((switches.get("readonly"), switches.get("nowhere")), (Some("off"), Some("on")));
        assert!(Properties::parse("{]", "").is_err());
    }

    proptest! {
        #[test]
        fn any_value_is_read_as_it_was_written(value in "[^=]{0,20}", other in "[a-z]{1,5}") {
            let text = format!("file={},{other}=x", value.replace(',', ",,"));
            let read = Properties::parse(&text, "");
            // JSON begins with a brace; this does not.
            prop_assert_eq!(read.unwrap().get("file").map(str::to_owned),
                if other == "file" { Some("x".to_owned()) } else { Some(value) });
        }
    }
}
