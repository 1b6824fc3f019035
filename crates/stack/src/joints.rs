//! What to put between two layers that do not fit together.

use std::collections::VecDeque;

use crate::error::{Candidate, enumerated};
use crate::layers::{JOINTS, Joint};
use crate::{Layer, Offer, StackError};

/// Layers to put between two others, from the bottom up.
#[derive(Clone, Debug, Default)]
struct Joints(Vec<&'static Joint>);

impl Joints {
    /// In words: `a file system and an image`.
    fn words(&self) -> String {
        enumerated(self.0.iter().map(|joint| joint.words), "and")
    }

    /// As they are written above a stack, each with its separator: `raw/ext4/`.
    fn text(&self) -> String {
        self.0.iter().rev().map(|joint| format!("{}/", joint.layer.name)).collect()
    }

    /// The suggestion to put them above the layers `below`, which are the rest of the error's stack.
    fn candidate(&self, error: &StackError, place: &str, below: &[Layer]) -> Candidate {
        let at = below.first().map_or(error.stack().len(), |lower| lower.span.start);
        let (upper, lower) = error.stack().split_at(at);
        Candidate {
            words: format!("put {} {place}", self.words()),
            text: format!("{upper}{}{lower}", self.text()),
        }
    }
}

/// All that make of what is offered something that is needed, the fewest layers first.
fn ways(needs: &[Offer], offers: Offer) -> Vec<Joints> {
    // No two things are further apart.
    const MOST: usize = 3;
    let mut found = Vec::new();
    let mut ways = VecDeque::from([(offers, Joints::default())]);
    while let Some((reached, way)) = ways.pop_front() {
        if needs.contains(&reached) {
            found.push(way);
        } else if way.0.len() < MOST {
            ways.extend(JOINTS.iter().filter_map(|joint| {
                let next = joint.layer.definition.offers(Some(reached))?;
                Some((next, Joints(way.0.iter().copied().chain([joint]).collect())))
            }));
        }
    }
    found
}

/// The error with the suggestion to put something above the layers `below`, which are the rest of the error's stack: the fewest layers
/// with which it can be built.
pub(crate) fn suggested(
    error: StackError,
    (needs, offers): (&[Offer], Offer),
    place: &str,
    below: &[Layer],
) -> StackError {
    let candidates = ways(needs, offers).iter().map(|way| way.candidate(&error, place, below)).collect();
    error.suggest_first_of(candidates)
}

/// The fewest layers to put on a block device, as they are written above a stack.
pub(crate) fn above_block_device(needs: &[Offer]) -> String {
    ways(needs, Offer::Block).first().map(Joints::text).unwrap_or_default()
}
