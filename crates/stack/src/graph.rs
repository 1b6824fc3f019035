//! Machines as a graph: each is the outermost, or inside another, or beside another.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;

use serde::{Deserialize, Serialize};

use crate::Crossing;

/// The position of a machine in its stack, or among the machines that stand. What another is joined to comes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MachineIndex(usize);

impl MachineIndex {
    /// The machine with the medium.
    pub const OUTERMOST: Self = Self(0);

    /// How many machines come before it.
    pub const fn position(self) -> usize {
        self.0
    }
}

/// How a machine is joined to the one below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// To none: the machine with the medium.
    Outermost,
    /// That one runs it.
    Inside(MachineIndex),
    /// It uses what that one serves.
    Beside(MachineIndex),
}

impl Relation {
    /// That of the machine above a layer; `None` if it is the machine below, too.
    pub const fn across(crossing: Crossing, below: MachineIndex) -> Option<Self> {
        match crossing {
            Crossing::None => None,
            Crossing::Inside => Some(Self::Inside(below)),
            Crossing::Beside => Some(Self::Beside(below)),
        }
    }

    /// The machine that it is joined to, without which it cannot run.
    pub const fn joined_to(self) -> Option<MachineIndex> {
        match self {
            Self::Outermost => None,
            Self::Inside(other) | Self::Beside(other) => Some(other),
        }
    }
}

/// How deep a machine is in others: how many are around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Depth(usize);

impl Depth {
    /// In no other.
    pub const ROOT: Self = Self(0);

    /// In a machine that is in no other.
    pub const GUEST: Self = Self(1);

    /// Of the machines inside a machine of this depth.
    pub const fn inside(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One thing of each machine, with how the machines are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines<T>(BTreeMap<MachineIndex, (Relation, T)>);

impl<T> Default for Machines<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Machines<T> {
    /// Adds a machine after all others.
    pub fn push(&mut self, relation: Relation, of_machine: T) -> MachineIndex {
        let index = MachineIndex(self.after_all());
        self.insert(index, relation, of_machine);
        index
    }

    fn after_all(&self) -> usize {
        self.0.last_key_value().map_or(0, |(last, _)| last.0 + 1)
    }

    /// The positions after all machines and after one that may not be there yet, in their order.
    pub fn positions_after(&self, index: MachineIndex) -> impl Iterator<Item = MachineIndex> + use<T> {
        (self.after_all().max(index.0 + 1)..).map(MachineIndex)
    }

    /// Puts a machine at a position.
    pub fn insert(&mut self, index: MachineIndex, relation: Relation, of_machine: T) {
        self.0.insert(index, (relation, of_machine));
    }

    /// Takes one machine out; machines that are joined to it must be taken out first ([`Self::with_joined`]).
    pub fn take(&mut self, index: MachineIndex) -> Option<T> {
        self.0.remove(&index).map(|(_, of_machine)| of_machine)
    }

    /// What is at a position.
    pub fn get(&self, index: MachineIndex) -> Option<&T> {
        self.0.get(&index).map(|(_, of_machine)| of_machine)
    }

    /// How a machine is joined.
    pub fn relation(&self, index: MachineIndex) -> Option<Relation> {
        self.0.get(&index).map(|(relation, _)| *relation)
    }

    /// The machine that runs another.
    pub fn parent(&self, index: MachineIndex) -> Option<MachineIndex> {
        self.parent_across(self.relation(index)?)
    }

    /// The machine that runs, or is to run, one that is so joined.
    pub fn parent_across(&self, relation: Relation) -> Option<MachineIndex> {
        match relation {
            Relation::Inside(parent) => Some(parent),
            Relation::Beside(peer) => self.parent(peer),
            Relation::Outermost => None,
        }
    }

    /// The machine that is in no other and around a machine, which may be that itself.
    pub fn root_of(&self, index: MachineIndex) -> MachineIndex {
        self.parent(index).map_or(index, |parent| self.root_of(parent))
    }

    /// How deep a machine is in others.
    pub fn depth(&self, index: MachineIndex) -> Depth {
        self.parent(index).map_or(Depth::ROOT, |parent| self.depth(parent).inside())
    }

    /// How deep a machine is, or will be, that is so joined.
    pub fn depth_across(&self, relation: Relation) -> Depth {
        self.parent_across(relation).map_or(Depth::ROOT, |parent| self.depth(parent).inside())
    }

    /// The machines that a machine runs itself.
    pub fn inside(&self, index: MachineIndex) -> impl Iterator<Item = MachineIndex> {
        self.0.keys().copied().filter(move |other| self.parent(*other) == Some(index))
    }

    /// A machine and all that cannot run without it, in the order in which to end them: each before the one it is joined to.
    pub fn with_joined(&self, index: MachineIndex) -> Vec<MachineIndex> {
        let mut found: Vec<MachineIndex> = self.0.contains_key(&index).then_some(index).into_iter().collect();
        for (other, (relation, _)) in self.0.range(index..) {
            if relation.joined_to().is_some_and(|to| found.contains(&to)) {
                found.push(*other);
            }
        }
        found.reverse();
        found
    }

    /// What is of each machine, the outermost first, none before what it is joined to.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.0.values().map(|(_, of_machine)| of_machine)
    }

    /// The same with the positions.
    pub fn indexed(&self) -> impl DoubleEndedIterator<Item = (MachineIndex, &T)> + ExactSizeIterator {
        self.0.iter().map(|(index, (_, of_machine))| (*index, of_machine))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes all of them out.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl<T> Index<MachineIndex> for Machines<T> {
    type Output = T;

    fn index(&self, index: MachineIndex) -> &T {
        &self.0[&index].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host with two guests, in the second of which is another; and a client beside the first guest.
    fn machines() -> (Machines<&'static str>, [MachineIndex; 5]) {
        let mut machines = Machines::default();
        let host = machines.push(Relation::Outermost, "host");
        let first = machines.push(Relation::Inside(host), "first");
        let second = machines.push(Relation::Inside(host), "second");
        let deep = machines.push(Relation::Inside(second), "deep");
        let client = machines.push(Relation::Beside(first), "client");
        (machines, [host, first, second, deep, client])
    }

    #[test]
    fn who_is_beside_another_is_run_by_the_same_machine() {
        let (machines, [host, first, second, deep, client]) = machines();
        assert_eq!(machines.parent(client), Some(host));
        assert_eq!([host, first, second, deep, client].map(|index| machines.depth(index).0), [0, 1, 1, 2, 1]);
        assert_eq!(machines.depth_across(Relation::Beside(deep)), machines.depth(deep));
        assert_eq!([host, first, deep, client].map(|index| machines.root_of(index)), [host; 4]);
        assert_eq!(machines.inside(host).collect::<Vec<_>>(), [first, second, client]);
        assert_eq!(machines.inside(second).collect::<Vec<_>>(), [deep]);
    }

    #[test]
    fn positions_after_all_are_free() {
        let (mut machines, [.., client]) = machines();
        let next = machines.positions_after(MachineIndex::OUTERMOST).next().unwrap();
        assert_eq!(next.position(), client.position() + 1);
        let after: Vec<_> = machines.positions_after(next).take(2).map(MachineIndex::position).collect();
        assert_eq!(after, [next.position() + 1, next.position() + 2]);
        assert_eq!(machines.push(Relation::Outermost, "next"), next);
    }

    #[test]
    fn who_is_joined_to_a_machine_ends_before_it_and_others_stay() {
        let (mut machines, [host, first, second, deep, client]) = machines();
        assert_eq!(machines.with_joined(first), [client, first]);
        assert_eq!(machines.with_joined(second), [deep, second]);
        assert_eq!(machines.with_joined(host), [client, deep, second, first, host]);
        for index in machines.with_joined(first) {
            machines.take(index);
        }
        assert_eq!(machines.iter().copied().collect::<Vec<_>>(), ["host", "second", "deep"]);
        assert_eq!(machines[deep], "deep", "positions stay");
        assert_eq!(machines.with_joined(first), []);
    }
}
