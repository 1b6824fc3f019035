//! What is hidden together, to see how far off predictions of it are.

use std::collections::{BTreeMap, BTreeSet};

use nestor_statistics::SeededOrder;

/// Deals names into parts by chance: in their own order one part would be one host or one guest. Fewer names than parts leave some
/// parts empty.
pub(crate) fn dealt<T: Ord>(names: BTreeSet<T>, parts: usize, seed: u64) -> Vec<BTreeSet<T>> {
    let mut names: Vec<T> = names.into_iter().collect();
    SeededOrder::new(seed).shuffle(&mut names);
    let mut groups: Vec<BTreeSet<T>> = (0..parts).map(|_| BTreeSet::new()).collect();
    for (place, name) in names.into_iter().enumerate() {
        groups[place % parts].insert(name);
    }
    groups
}

/// Where each load runs now: of the stacks on which it was measured the one with most loads. `cells` are stacks and loads.
pub(crate) fn homes<S: Ord + Copy, L: Ord>(cells: impl Iterator<Item = (S, L)> + Clone) -> BTreeMap<L, S> {
    let mut loads: BTreeMap<S, usize> = BTreeMap::new();
    cells.clone().for_each(|(stack, _)| *loads.entry(stack).or_default() += 1);
    let mut homes: BTreeMap<L, S> = BTreeMap::new();
    for (stack, load) in cells {
        let home = homes.entry(load).or_insert(stack);
        if loads[&stack] > loads[home] {
            *home = stack;
        }
    }
    homes
}
