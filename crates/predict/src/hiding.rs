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

/// Where the one probe of each load is made: of the stacks on which it was measured the most typical one, with which all stacks have
/// most in common as `shared` counts it, because what is found there says most about the others; of equals the one with most loads.
/// `cells` are stacks and loads.
pub(crate) fn probes<S: Ord + Copy, L: Ord>(
    cells: impl Iterator<Item = (S, L)> + Clone,
    shared: impl Fn(S, S) -> usize,
) -> BTreeMap<L, S> {
    let mut loads: BTreeMap<S, usize> = BTreeMap::new();
    cells.clone().for_each(|(stack, _)| *loads.entry(stack).or_default() += 1);
    let typical = |stack: &S| loads.keys().map(|other| shared(*stack, *other)).sum::<usize>();
    let rank: BTreeMap<S, (usize, usize)> =
        loads.iter().map(|(stack, count)| (*stack, (typical(stack), *count))).collect();
    let mut probes: BTreeMap<L, S> = BTreeMap::new();
    for (stack, load) in cells {
        let probe = probes.entry(load).or_insert(stack);
        if rank[&stack] > rank[probe] {
            *probe = stack;
        }
    }
    probes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_made_on_the_most_typical_stack_of_its_load() {
        let stacks = ["ext4/xfs", "ext4/jfs", "ext4/ext4", "jfs/xfs"];
        let shared = |a: &str, b: &str| a.split('/').zip(b.split('/')).filter(|(a, b)| a == b).count();
        let cells = stacks.into_iter().map(|stack| (stack, "everywhere")).chain([
            ("jfs/xfs", "twice"),
            ("ext4/jfs", "twice"),
            ("jfs/xfs", "once"),
        ]);
        let found = probes(cells, shared);
        // ext4/xfs shares three layers with others and two with itself, ext4/jfs two and two, jfs/xfs one and two.
        assert_eq!(
            found,
            BTreeMap::from([("everywhere", "ext4/xfs"), ("twice", "ext4/jfs"), ("once", "jfs/xfs")])
        );
    }
}
