use nestor_correlate::{Choice, Correlation, LevelIndex, Node, Origin, Rank, SampledTree};
use nestor_trace::Operation;

use super::wire::show;
use super::{level, write};
use crate::{Trace, write_perfetto};

fn node(
    level: usize,
    id: u64,
    (queued_ns, took_ns): (u64, u64),
    origin: Origin,
    children: Vec<Node>,
) -> Node {
    let request = write(id, queued_ns, took_ns);
    Node { level: LevelIndex::at(level), request, origin, shared_with: 0, children }
}

/// Two writes of the guest that one write of the disk serves, which is in both trees; and a read-ahead that nothing asked for.
fn correlation() -> Correlation {
    let level = |layer: &str, kind: &str| level(layer, kind, "host", Vec::new()).level;
    let shared = || node(1, 7, (150, 40), Origin::WriteBack, Vec::new());
    let choice = Choice::Latency(Rank::Median, Operation::Write);
    Correlation {
        levels: vec![level("ext4", "guest block"), level("hdd", "medium")],
        trees: vec![SampledTree { choice, root: node(0, 1, (100, 100), Origin::Unknown, vec![shared()]) }],
        timeline: vec![
            node(0, 2, (110, 100), Origin::Unknown, vec![shared()]),
            node(1, 8, (300, 10), Origin::ReadAhead, Vec::new()),
            // Of a level that there is not.
            node(5, 9, (0, 1), Origin::Unknown, Vec::new()),
        ],
        ..Correlation::default()
    }
}

#[test]
fn requests_in_several_trees_are_written_once_with_all_their_parents() {
    let mut bytes = Vec::new();
    let written = write_perfetto(&Trace::of_kept(&correlation()), &mut bytes).unwrap();
    assert_eq!((written.requests, written.links), (4, 2));
    let shown = show(&bytes);
    let flows = |begin_ns: u64| shown.slices.iter().find(|s| s.begin_ns == begin_ns).unwrap().flows.len();
    assert_eq!([100, 110, 150, 300].map(flows), [1, 1, 2, 0]);
}

#[test]
fn nothing_kept_is_nothing() {
    let without = Correlation { trees: Vec::new(), timeline: Vec::new(), ..correlation() };
    assert!(Trace::of_kept(&without).levels.is_empty());
}
