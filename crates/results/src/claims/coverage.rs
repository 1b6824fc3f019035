//! Which guests and hosts of a study's matrix the runs behind a claim are of: "each guest" in a title is each that was measured.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

/// File systems that runs are of, among those of the whole study.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// File systems of guests, by name.
    pub guests: Covered,
    /// File systems of hosts, by name; the raw disk is none.
    pub hosts: Covered,
}

/// Some of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Covered {
    /// Those that the runs are of.
    pub names: BTreeSet<String>,
    /// How many the study has.
    pub of: usize,
}

impl Coverage {
    /// `1 of 6 guests: ext3; all 6 hosts`. Nothing of guests or hosts of which the study has one, or the runs none.
    pub fn in_words(&self) -> Option<String> {
        let words: Vec<String> =
            [self.guests.in_words("guests"), self.hosts.in_words("hosts")].into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

impl Covered {
    fn in_words(&self, what: &str) -> Option<String> {
        let (some, all) = (self.names.len(), self.of);
        match some {
            0 => None,
            _ if all < 2 => None,
            _ if some == all => Some(format!("all {all} {what}")),
            _ => {
                let names = self.names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                Some(format!("{some} of {all} {what}: {names}"))
            }
        }
    }
}

/// The file systems of every counted run.
#[derive(Debug, Default)]
pub(super) struct FileSystems {
    of_run: BTreeMap<i64, (Option<String>, Option<String>)>,
    guests: usize,
    hosts: usize,
}

impl FileSystems {
    /// Reads them from the temporary table `cell`.
    pub fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare("SELECT run, guest, host FROM temp.cell")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
        let of_run: BTreeMap<i64, (Option<String>, Option<String>)> = rows.collect::<Result<_, _>>()?;
        let guests = of_run.values().filter_map(|(guest, _)| guest.as_ref()).collect::<BTreeSet<_>>().len();
        let hosts = of_run.values().filter_map(|(_, host)| host.as_ref()).collect::<BTreeSet<_>>().len();
        Ok(Self { of_run, guests, hosts })
    }

    /// Those of some runs.
    pub fn of(&self, runs: &BTreeSet<i64>) -> Coverage {
        let those = || runs.iter().filter_map(|run| self.of_run.get(run));
        // A claim may have tens of thousands of runs and has a handful of names.
        let guests: BTreeSet<&String> = those().filter_map(|(guest, _)| guest.as_ref()).collect();
        let hosts: BTreeSet<&String> = those().filter_map(|(_, host)| host.as_ref()).collect();
        let covered =
            |names: BTreeSet<&String>, of| Covered { names: names.into_iter().cloned().collect(), of };
        Coverage { guests: covered(guests, self.guests), hosts: covered(hosts, self.hosts) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(names: &[&str], of: usize) -> Covered {
        Covered { names: names.iter().map(|name| (*name).to_owned()).collect(), of }
    }

    #[test]
    fn what_is_left_out_is_seen_and_what_there_is_one_of_is_not_said() {
        let of = |guests, hosts| Coverage { guests, hosts }.in_words();
        assert_eq!(
            of(covered(&["ext3"], 6), covered(&["jfs", "xfs"], 2)).as_deref(),
            Some("1 of 6 guests: ext3; all 2 hosts")
        );
        assert_eq!(of(covered(&["ext3"], 6), covered(&[], 6)).as_deref(), Some("1 of 6 guests: ext3"));
        assert_eq!(of(covered(&["ext3"], 1), covered(&[], 0)), None);
    }

    #[test]
    fn runs_are_counted_by_their_file_systems() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TEMP TABLE cell (run INTEGER, guest TEXT, host TEXT);
                INSERT INTO cell VALUES (1, 'ext3', 'jfs'), (2, 'ext3', NULL), (3, 'xfs', 'jfs'), (4, NULL, NULL), (5, 'jfs', 'xfs');",
            )
            .unwrap();
        let all = FileSystems::read(&connection).unwrap();
        let found = all.of(&[1, 2, 4, 9].into());
        assert_eq!(found, Coverage { guests: covered(&["ext3"], 3), hosts: covered(&["jfs"], 2) });
    }
}
