//! Where runs were made, as far as their numbers depend on it: runs of one stack at two places are not one cell.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use nestor_stack::{Accelerator, Layer, LayerDefinition, MachineName};
use rusqlite::{Connection, params};
use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{WrittenPlace, WrittenStack, WrittenWorkload};

/// A place.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct KnownPlace {
    /// As results are stored under it.
    pub on: WrittenPlace,
    /// What executes the instructions of its host; `None`, in JSON an empty text, where the runs do not say.
    #[serde(serialize_with = "name_or_nothing", deserialize_with = "named_or_none")]
    pub processors: Option<Accelerator>,
    /// What executes those of guests that are to run under KVM: KVM, or emulation where it does not work; `None` where none was run.
    pub guests: Option<Accelerator>,
}

fn name_or_nothing<S: Serializer>(processors: &Option<Accelerator>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(processors.map_or("", Accelerator::name))
}

fn named_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Accelerator>, D::Error> {
    let name = String::deserialize(from)?;
    (!name.is_empty()).then(|| Accelerator::deserialize(name.into_deserializer())).transpose()
}

impl KnownPlace {
    /// As `--on` is given it, with what executes its instructions: `emulated:time=real (TCG)`.
    pub fn in_words(&self) -> String {
        let mut words = self.on.as_asked();
        if let Some(processors) = self.processors.filter(|processors| *processors != Accelerator::Hardware) {
            words = format!("{words} ({})", processors.name().to_uppercase());
        }
        let is_emulated = |by: Option<Accelerator>| by.is_some_and(Accelerator::is_emulation);
        if let Some(guests) = self.guests.filter(|by| by.is_emulation() && !is_emulated(self.processors)) {
            words.push_str(&format!(", guests emulated ({})", guests.name().to_uppercase()));
        }
        words
    }

    /// Whether numbers of the other place are numbers of this one. What guests would have is no difference where none was run.
    pub fn is_like(&self, other: &Self) -> bool {
        let same_guests = match (&self.guests, &other.guests) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => true,
        };
        self.on == other.on && self.processors == other.processors && same_guests
    }
}

/// Runs of a cell at another place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Elsewhere {
    /// Where.
    pub place: KnownPlace,
    /// The stack.
    pub stack: WrittenStack,
    /// The load.
    pub workload: WrittenWorkload,
    /// How many.
    pub runs: u32,
}

/// Runs of a cell under the same conditions.
struct Group {
    conditions: String,
    stack: WrittenStack,
    workload: WrittenWorkload,
    runs: u32,
    /// When the newest began, and its number.
    newest: (String, i64),
}

/// Leaves in the counted runs only those of one place: of the processors that this place has had there were, those of the newest
/// run. What that place is, and the others' runs.
pub(super) fn keep_only(connection: &Connection, on: &str) -> rusqlite::Result<(KnownPlace, Vec<Elsewhere>)> {
    let groups = with_places(connection, groups(connection)?)?;
    let newest = |is_meant: &dyn Fn(&KnownPlace) -> bool| {
        let meant = groups.iter().filter(|(_, place)| is_meant(place));
        meant.max_by(|a, b| a.0.newest.cmp(&b.0.newest)).map(|(_, place)| place.clone())
    };
    let here = KnownPlace { on: on.into(), ..KnownPlace::default() };
    let here = newest(&|place| place.on == on).unwrap_or(here);
    let with_guests =
        newest(&|place| place.on == on && place.processors == here.processors && place.guests.is_some());
    let here = with_guests.unwrap_or(here);
    let elsewhere: Vec<(Group, KnownPlace)> =
        groups.into_iter().filter(|(_, place)| !here.is_like(place)).collect();
    forget(connection, &elsewhere)?;
    let mut cells: BTreeMap<(WrittenStack, WrittenWorkload, KnownPlace), u32> = BTreeMap::new();
    for (group, place) in elsewhere {
        *cells.entry((group.stack, group.workload, place)).or_default() += group.runs;
    }
    let elsewhere = cells
        .into_iter()
        .map(|((stack, workload, place), runs)| Elsewhere { place, stack, workload, runs })
        .collect();
    Ok((here, elsewhere))
}

fn groups(connection: &Connection) -> rusqlite::Result<Vec<Group>> {
    connection
        .prepare(
            "SELECT conditions, stack, workload, count(*), max(started_at), max(run) FROM temp.counted GROUP BY 1, 2, 3",
        )?
        .query_map([], |row| {
            Ok(Group {
                conditions: row.get(0)?,
                stack: row.get(1)?,
                workload: row.get(2)?,
                runs: row.get(3)?,
                newest: (row.get(4)?, row.get(5)?),
            })
        })?
        .collect()
}

/// Runs under the same conditions were made in the same machines, so that one of them tells of all. Which of the machines are meant
/// to be emulated is said by the stack.
fn with_places(connection: &Connection, groups: Vec<Group>) -> rusqlite::Result<Vec<(Group, KnownPlace)>> {
    let mut machines: BTreeMap<String, Machines> = BTreeMap::new();
    let mut guests: BTreeMap<WrittenStack, Guests> = BTreeMap::new();
    groups
        .into_iter()
        .map(|group| {
            let machines = match machines.entry(group.conditions.clone()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(Machines::of_run(connection, group.newest.1)?),
            };
            let wanted = guests.entry(group.stack.clone()).or_insert_with(|| Guests::of_stack(&group.stack));
            let place = machines.place(wanted);
            Ok((group, place))
        })
        .collect()
}

/// The machines of a run.
struct Machines {
    on: WrittenPlace,
    host: Option<Accelerator>,
    emulated_guests: usize,
}

impl Machines {
    fn of_run(connection: &Connection, run: i64) -> rusqlite::Result<Self> {
        let on = connection
            .prepare_cached("SELECT ground FROM main.runs WHERE number = ?")?
            .query_row([run], |row| row.get(0))?;
        let mut machines = Self { on, host: None, emulated_guests: 0 };
        let mut query =
            connection.prepare_cached("SELECT machine, accelerator FROM main.machines WHERE run = ?")?;
        let mut rows = query.query([run])?;
        while let Some(row) = rows.next()? {
            let (label, accelerator): (String, String) = (row.get(0)?, row.get(1)?);
            let accelerator: Option<Accelerator> = accelerator.parse().ok();
            match MachineName::from(label) {
                MachineName::HOST => machines.host = accelerator,
                // It is beside the host and emulated as that is.
                name if name.is_client() => {}
                _ => {
                    machines.emulated_guests +=
                        usize::from(accelerator.is_some_and(Accelerator::is_emulation))
                }
            }
        }
        Ok(machines)
    }

    fn place(&self, wanted: &Guests) -> KnownPlace {
        let has_fallen_back = self.emulated_guests > wanted.under_tcg;
        let guests = || if has_fallen_back { Accelerator::Tcg } else { Accelerator::Kvm };
        KnownPlace { on: self.on.clone(), processors: self.host, guests: (wanted.under_kvm > 0).then(guests) }
    }
}

/// How many virtual machines a stack has.
struct Guests {
    under_kvm: usize,
    under_tcg: usize,
}

impl Guests {
    fn of_stack(stack: &WrittenStack) -> Self {
        let count = |accelerator: Accelerator| {
            let is_meant = |layer: &&Layer| match layer.definition() {
                LayerDefinition::Hypervisor(spec) => spec.accelerator == accelerator,
                _ => false,
            };
            stack.value().map_or(0, |stack| stack.layers().iter().filter(is_meant).count())
        };
        Self { under_kvm: count(Accelerator::Kvm), under_tcg: count(Accelerator::Tcg) }
    }
}

/// Takes runs out of those that count.
fn forget(connection: &Connection, groups: &[(Group, KnownPlace)]) -> rusqlite::Result<()> {
    if groups.is_empty() {
        return Ok(());
    }
    connection.execute_batch(
        "CREATE TEMP TABLE elsewhere (conditions TEXT, stack TEXT, PRIMARY KEY (conditions, stack)) WITHOUT ROWID",
    )?;
    let mut insert = connection.prepare("INSERT OR IGNORE INTO temp.elsewhere VALUES (?, ?)")?;
    for (group, _) in groups {
        insert.execute(params![group.conditions, group.stack])?;
    }
    connection.execute_batch(
        "DELETE FROM temp.counted WHERE (conditions, stack) IN (SELECT conditions, stack FROM temp.elsewhere)",
    )
}
