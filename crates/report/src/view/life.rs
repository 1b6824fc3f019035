//! What instances of a cloud went through.

use std::collections::BTreeMap;

use nestor_results::{DiskUse, InstanceLife, LifeState, LivesSummary, ManagedLife, Measured, StateRecord};
use serde::Serialize;

/// The life of one instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LifeView {
    /// Which of the run's, from 0.
    pub instance: usize,
    /// Which of the nodes it was on, from 0.
    pub node: u32,
    /// Its states, in the order of time.
    pub states: Vec<StateRow>,
    /// From the request for it to the end of its last state, without the laboratory's own time.
    pub whole_s: f64,
    /// Of that, what no state has, or two have.
    pub unaccounted_s: f64,
    /// The laboratory's own time in all states, which is no part of the life.
    pub own_s: f64,
    /// Of the boot, until the first process of the virtual machine began; `None` if that is not known.
    pub first_process_s: Option<f64>,
    /// Of the boot, until its agent answered; `None` if it did not boot.
    pub hello_s: Option<f64>,
    /// What its manager said of it, if one started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerView>,
}

/// The manager of an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ManagerView {
    /// As it calls itself.
    pub product: &'static str,
    /// How it calls the instance.
    pub instance: String,
    /// How often it was asked.
    pub poll_s: f64,
    /// The states that it does not tell from the one before.
    pub not_told_apart: Vec<LifeState>,
}

/// One state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StateRow {
    /// Which.
    pub state: LifeState,
    /// When it began, since the instance was asked for.
    pub begin_s: f64,
    /// When it ended for this instance, the laboratory's own time included.
    pub end_s: f64,
    /// How long the instance waited after that for others, which enter the next state together with it.
    pub waited_s: f64,
    /// What it took, without the laboratory's own time and without waiting.
    pub seconds: f64,
    /// Share of the whole life, 0 to 1; `None` of one that took no time.
    pub share: Option<f64>,
    /// Bytes of the frames that the repository sent, if they were counted.
    pub from_repository_bytes: Option<u64>,
    /// Bytes of the frames that it received.
    pub to_repository_bytes: Option<u64>,
    /// What the disk of the instance's node did, if it was counted.
    pub node_disk: Option<DiskRow>,
    /// What that of the repository did.
    pub repository_disk: Option<DiskRow>,
    /// What was busy for the largest share of it, in words; `None` where it took no time.
    pub pace: Option<String>,
    /// What the node's processor executed, in virtual time.
    pub instructions: Option<u64>,
    /// Of a manager's instance, what it said of the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<ManagedRow>,
}

/// What a manager says of a state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ManagedRow {
    /// By how much its seconds may be wrong.
    pub uncertain_s: f64,
    /// What it took by the manager's own records.
    pub recorded_s: Option<u64>,
    /// How the manager calls it.
    pub names: Vec<String>,
}

/// What a disk did in a state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DiskRow {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time in which requests were in flight.
    pub busy_s: f64,
}

impl LifeView {
    /// Of all instances of a run.
    pub fn all_of(measured: &Measured) -> Vec<Self> {
        measured.lives.iter().enumerate().map(|(instance, life)| Self::of(instance, life)).collect()
    }

    fn of(instance: usize, life: &InstanceLife) -> Self {
        let whole_s = seconds(life.whole_ns());
        let own_ns = life.states.iter().fold(0, |sum: u64, state| sum.saturating_add(state.own_ns));
        Self {
            instance,
            node: life.node,
            states: life
                .states
                .iter()
                .map(|state| StateRow::of(state, whole_s, life.managed.as_deref()))
                .collect(),
            whole_s,
            unaccounted_s: seconds(life.unaccounted_ns()),
            own_s: seconds(own_ns),
            first_process_s: life.first_process_ns.map(seconds),
            hello_s: life
                .state(LifeState::Boot)
                .filter(|_| life.is_counted())
                .map(|_| seconds(life.hello_ns)),
            manager: life.managed.as_deref().map(ManagerView::of),
        }
    }

    /// `life of the instance`, or of several its number: `life of instance 3`.
    pub fn name(&self, instances: usize) -> String {
        match instances {
            1 => "life of the instance".to_owned(),
            _ => format!("life of {}", self.short_name(instances)),
        }
    }

    /// `instance`, or of several its number: `instance 3`.
    pub fn short_name(&self, instances: usize) -> String {
        if instances > 1 { format!("instance {}", self.instance) } else { "instance".to_owned() }
    }

    /// `boot: first process after 310.0 ms, agent's hello after 1.20 s`; `None` if it did not boot.
    pub fn boot_words(&self) -> Option<String> {
        let time = |seconds: f64| crate::units::duration_ns(seconds * 1e9);
        let hello = format!("agent's hello after {}", time(self.hello_s?));
        Some(match self.first_process_s {
            Some(first) => format!("boot: first process after {}, {hello}", time(first)),
            None => format!("boot: {hello}"),
        })
    }

    /// What sets the pace of the transfer: `transfer: the link sets the pace, busy 97 % of the time`; `None` where nothing was copied.
    pub fn transfer_words(&self) -> Option<String> {
        let transfer = self.states.iter().find(|row| row.state == LifeState::Transfer)?;
        transfer.pace.as_ref().map(|pace| format!("transfer: {pace}"))
    }

    /// `without 50.0 ms of the laboratory's own`; `None` where it had none.
    pub fn own_words(&self) -> Option<String> {
        let own = crate::units::duration_ns(self.own_s * 1e9);
        (self.own_s > 0.0).then(|| format!("without {own} of the laboratory's own"))
    }

    /// How well the states of a manager's instance are known, and which it does not tell apart; nothing of other instances.
    pub fn manager_words(&self) -> Vec<String> {
        let Some(manager) = &self.manager else { return Vec::new() };
        let ManagerView { product, instance, poll_s, not_told_apart } = manager;
        let poll = crate::units::duration_ns(poll_s * 1e9);
        let mut words = vec![format!("instance {instance} of {product}, which was asked every {poll}")];
        if !not_told_apart.is_empty() {
            let states: Vec<&str> = not_told_apart.iter().map(|state| state.name()).collect();
            words.push(format!("{product} does not tell {} from the state before", states.join(" and ")));
        }
        words
    }

    /// When its last state ended, the laboratory's own time included.
    pub fn end_s(&self) -> f64 {
        self.states.last().map_or(0.0, |state| state.end_s)
    }
}

impl ManagerView {
    fn of(managed: &ManagedLife) -> Self {
        Self {
            product: managed.manager.product(),
            instance: managed.instance.clone(),
            poll_s: seconds(managed.poll_ns),
            not_told_apart: managed.not_told_apart().collect(),
        }
    }
}

impl ManagedRow {
    fn of(managed: &ManagedLife, state: LifeState) -> Option<Self> {
        let told = managed.state(state)?;
        Some(Self {
            uncertain_s: seconds(managed.uncertain_ns(state)?),
            recorded_s: told.recorded_s,
            names: told.names.clone(),
        })
    }
}

impl StateRow {
    fn of(state: &StateRecord, whole_s: f64, managed: Option<&ManagedLife>) -> Self {
        let took_s = seconds(state.duration_ns());
        // A manager counts nothing.
        let counted = managed.is_none();
        Self {
            state: state.state,
            begin_s: seconds(state.begin_ns),
            end_s: seconds(state.end_ns.saturating_sub(state.waited_ns)),
            waited_s: seconds(state.waited_ns),
            seconds: took_s,
            share: (whole_s > 0.0).then(|| took_s / whole_s),
            from_repository_bytes: counted.then_some(state.from_repository_bytes),
            to_repository_bytes: counted.then_some(state.to_repository_bytes),
            node_disk: state.node_disk().map(DiskRow::of),
            repository_disk: state.repository_disk().map(DiskRow::of),
            pace: state.busiest().filter(|_| counted).map(|busiest| busiest.to_string()),
            managed: managed.and_then(|managed| ManagedRow::of(managed, state.state)),
            instructions: state.all_instructions(),
        }
    }
}

impl DiskRow {
    /// What the disks of the nodes of several instances did together in a state.
    pub fn of_nodes(lives: &[LifeView], state: LifeState) -> Option<Self> {
        let mut nodes = BTreeMap::new();
        for life in lives {
            let row = life.states.iter().find(|row| row.state == state);
            nodes.entry(life.node).or_insert(row.and_then(|row| row.node_disk));
        }
        nodes.into_values().flatten().reduce(|all, one| Self {
            read_bytes: all.read_bytes.saturating_add(one.read_bytes),
            written_bytes: all.written_bytes.saturating_add(one.written_bytes),
            busy_s: all.busy_s + one.busy_s,
        })
    }

    fn of(disk: &DiskUse) -> Self {
        Self { read_bytes: disk.read_bytes, written_bytes: disk.written_bytes, busy_s: seconds(disk.busy_ns) }
    }
}

/// What the whole life is of: `whole life of an instance`.
pub fn whole_life_words(lives: &LivesSummary) -> String {
    match lives.instances {
        1 => "whole life of an instance".to_owned(),
        several => format!("whole life, mean of {several} instances"),
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
