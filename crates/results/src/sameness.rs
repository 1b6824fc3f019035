//! Whether two runs have the same outcome. In virtual time, the same cell with the same seed has, to the last bit.

use serde_json::Value;

use crate::record::{CellRecord, sha256_hex};

/// What of a record says when and in which study it was made, and not what came out.
const CIRCUMSTANCES: [&str; 7] =
    ["study", "study_hash", "block", "position", "started_at", "cell_s", "load_s"];

impl CellRecord {
    /// The outcome: the record without its date, its study and place in it, and the real time it took.
    fn outcome_value(&self) -> Result<Value, serde_json::Error> {
        let mut value = serde_json::to_value(self)?;
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|name, _| !CIRCUMSTANCES.contains(&name.as_str()));
            // The digest of dependencies is not an outcome.
            let environment = fields.get_mut("environment").and_then(Value::as_object_mut);
            environment.map(|environment| environment.remove("depends_on"));
        }
        Ok(value)
    }

    /// SHA-256, in hexadecimal, of what came out: the same for runs of which each count, time and histogram is the same.
    ///
    /// # Errors
    ///
    /// If a number in the record is not finite and so has no JSON form.
    pub fn outcome_digest(&self) -> Result<String, serde_json::Error> {
        Ok(sha256_hex(self.outcome_value()?.to_string().as_bytes()))
    }

    /// The first values, at most `most`, that differ from another run: where, here and there. Empty if all are equal.
    ///
    /// # Errors
    ///
    /// As [`Self::outcome_digest`].
    pub fn differences_from(&self, other: &Self, most: usize) -> Result<Vec<String>, serde_json::Error> {
        let mut found = Vec::new();
        differences(&self.outcome_value()?, &other.outcome_value()?, "", &mut found, most);
        Ok(found)
    }
}

fn differences(here: &Value, there: &Value, place: &str, found: &mut Vec<String>, most: usize) {
    if here == there || found.len() >= most {
        return;
    }
    match (here, there) {
        (Value::Object(a), Value::Object(b)) => {
            let only_there = b.keys().filter(|name| !a.contains_key(*name));
            for name in a.keys().chain(only_there) {
                let field =
                    |fields: &serde_json::Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                differences(&field(a), &field(b), &format!("{place}/{name}"), found, most);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{place}/{at}"), found, most);
            }
        }
        _ => found.push(format!("{place}: {} and {}", shortened(here), shortened(there))),
    }
}

/// A value as JSON, of which the beginning is enough to recognise it.
fn shortened(value: &Value) -> String {
    const MOST: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use crate::record::CellRecord;
    use crate::tests::fixture;

    fn record() -> CellRecord {
        fixture::record("ext4/hdd", 0, 1 << 20)
    }

    fn other(change: impl Fn(&mut CellRecord)) -> CellRecord {
        let mut other = record();
        change(&mut other);
        other
    }

    #[test]
    fn when_and_where_in_a_study_a_run_was_made_is_not_what_came_out() {
        let again = other(|r| {
            r.started_at = "2031-01-01T00:00:00Z".to_owned();
            (r.cell_s, r.load_s, r.position, r.block) = (99.0, Some(9.0), 7, 3);
            (r.study, r.study_hash) = (Some("another".to_owned()), None);
        });
        assert_eq!(record().outcome_digest().unwrap(), again.outcome_digest().unwrap());
        assert!(record().differences_from(&again, 5).unwrap().is_empty());
    }

    #[test]
    fn what_differs_is_named_with_both_values() {
        let again = other(|r| r.environment.nestor = "2.0.0".to_owned());
        assert_ne!(record().outcome_digest().unwrap(), again.outcome_digest().unwrap());
        let found = record().differences_from(&again, 5).unwrap();
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("/environment/nestor: ") && found[0].ends_with("\"2.0.0\""),
            "{found:?}"
        );
        let none = other(|r| {
            r.outcome =
                crate::Outcome::Failed(crate::CellFailure::new(crate::FailureCause::MachineLost, "it hangs"))
        });
        assert_eq!(record().differences_from(&none, 1).unwrap().len(), 1);
        assert!(!record().differences_from(&none, 9).unwrap().is_empty());
    }
}
