//! Whether two runs have the same outcome. In virtual time, the same cell with the same seed has, to the last bit.

use std::collections::BTreeSet;

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

/// Runs in virtual time as two SHA-256 in hexadecimal. Where the first is the same, the second has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Of all that decides the numbers of each run.
    pub decided_by: String,
    /// Of what came out.
    pub outcome: String,
}

/// Collects the runs of a [`Fingerprint`], in any order.
#[derive(Debug, Default)]
pub struct Fingerprinting {
    /// What decides the numbers of a run, and its outcome.
    each: BTreeSet<(String, String)>,
    depends_on_more: bool,
}

impl Fingerprinting {
    /// Adds a run; one that failed does not count.
    ///
    /// # Errors
    ///
    /// As [`CellRecord::outcome_digest`].
    pub fn add(&mut self, run: &CellRecord) -> Result<(), serde_json::Error> {
        if run.measured().is_some() {
            match &run.environment.depends_on {
                Some(decided_by) => {
                    self.each.insert((decided_by.clone(), run.outcome_digest()?));
                }
                None => self.depends_on_more = true,
            }
        }
        Ok(())
    }

    /// `None` if the numbers of a run depend on more than is known, as in real time, or if there are no runs.
    pub fn end(self) -> Option<Fingerprint> {
        let (decided_by, outcomes): (Vec<_>, Vec<_>) = self.each.into_iter().unzip();
        (!self.depends_on_more && !outcomes.is_empty()).then(|| Fingerprint {
            decided_by: sha256_hex(decided_by.concat().as_bytes()),
            outcome: sha256_hex(outcomes.concat().as_bytes()),
        })
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
    use super::Fingerprinting;
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

    #[test]
    fn what_decides_runs_and_what_came_out_have_one_digest_in_any_order() {
        let run = |seed: &str, nestor: &str| {
            other(|r| {
                r.environment.depends_on = Some(seed.to_owned());
                r.environment.nestor = nestor.to_owned();
            })
        };
        let of = |runs: &[CellRecord]| {
            let mut all = Fingerprinting::default();
            runs.iter().for_each(|run| all.add(run).unwrap());
            all.end()
        };
        let here = of(&[run("1", "a"), run("2", "b")]).unwrap();
        // Known results are copies of runs that are there.
        assert_eq!(of(&[run("2", "b"), run("1", "a"), run("2", "b")]), Some(here.clone()));
        let unlike = of(&[run("1", "a"), run("2", "c")]).unwrap();
        assert!(unlike.decided_by == here.decided_by && unlike.outcome != here.outcome);
        let of_other_seeds = of(&[run("1", "a"), run("3", "b")]).unwrap();
        assert!(of_other_seeds.decided_by != here.decided_by && of_other_seeds.outcome == here.outcome);
        assert_eq!(of(&[run("1", "a"), record()]), None);
        assert_eq!(of(&[]), None);
    }
}
