//! The requests that a correlation keeps, as a trace: those of its trees and of its middle.

use std::collections::BTreeMap;

use nestor_correlate::{Correlation, LevelIndex, Node, Origin};
use nestor_trace::Request;

use crate::{ExportLevel, Trace};

/// A request that is kept, with those of the level above that it serves.
struct Kept {
    request: Request,
    origin: Origin,
    parents: Vec<u64>,
}

/// The requests of a level by their numbers: trees share requests.
type KeptLevel = BTreeMap<u64, Kept>;

impl Trace {
    /// The requests of [`Correlation::trees`] and [`Correlation::timeline`], on the clock of the topmost level. It has no levels if
    /// none was kept.
    pub fn of_kept(correlation: &Correlation) -> Self {
        let mut kept: Vec<KeptLevel> = correlation.levels.iter().map(|_| KeptLevel::new()).collect();
        let roots = correlation.trees.iter().map(|tree| &tree.root).chain(&correlation.timeline);
        roots.for_each(|root| keep(root, None, &mut kept));
        if kept.iter().all(KeptLevel::is_empty) {
            return Self::default();
        }
        let mut trace = Self::default();
        for (index, (level, kept)) in correlation.levels.iter().zip(kept).enumerate() {
            for (id, one) in &kept {
                if index > 0 {
                    trace.links.add(LevelIndex::at(index), *id, one.origin, &one.parents);
                }
            }
            let mut requests: Vec<Request> = kept.into_values().map(|one| one.request).collect();
            requests.sort_by_key(|request| (request.completed_ns, request.id));
            trace.levels.push(ExportLevel {
                level: level.clone(),
                clock: Vec::new(),
                source: Box::new(requests),
            });
        }
        trace.links.sort();
        trace
    }
}

/// Levels that the correlation does not have are left out: a results file can name any.
fn keep(node: &Node, parent: Option<u64>, kept: &mut [KeptLevel]) {
    let Some(level) = kept.get_mut(node.level.position()) else { return };
    let one = level.entry(node.request.id).or_insert_with(|| Kept {
        request: node.request,
        origin: node.origin,
        parents: Vec::new(),
    });
    if let Some(parent) = parent.filter(|parent| !one.parents.contains(parent)) {
        one.parents.push(parent);
    }
    node.children.iter().for_each(|child| keep(child, Some(node.request.id), kept));
}
