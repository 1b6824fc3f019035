//! What to put between two layers that do not fit together.

use std::collections::VecDeque;

use crate::error::enumerated;
use crate::layers::{JOINTS, Joint};
use crate::{Layer, LayerDefinition, Offer, StackError};

/// Layers to put between two others, from the bottom up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joints(Vec<&'static Joint>);

impl Joints {
    /// The fewest that make of what is offered something that is needed.
    pub(crate) fn between(needs: &[Offer], offers: Offer) -> Self {
        // No two things are further apart.
        const MOST: usize = 3;
        let mut ways = VecDeque::from([(offers, Self::default())]);
        while let Some((reached, way)) = ways.pop_front() {
            if needs.contains(&reached) {
                return way;
            }
            if way.0.len() == MOST {
                continue;
            }
            ways.extend(JOINTS.iter().filter_map(|joint| {
                let next = joint.layer.definition.offers(Some(reached))?;
                Some((next, Self(way.0.iter().copied().chain([joint]).collect())))
            }));
        }
        Self::default()
    }

    /// In words: `a file system and an image`.
    fn words(&self) -> String {
        enumerated(self.0.iter().map(|joint| joint.words), "and")
    }

    /// As they are written above a stack, each with its separator: `raw/ext4/`.
    pub(crate) fn text(&self) -> String {
        self.0.iter().rev().map(|joint| format!("{}/", joint.layer.name)).collect()
    }

    /// The error with the suggestion to put them between the layers `above` and those `below`, which are all of the error's stack. What
    /// cannot be built in virtual time is not suggested.
    pub(crate) fn suggested(
        &self,
        error: StackError,
        place: &str,
        [above, below]: [&[Layer]; 2],
    ) -> StackError {
        let words = format!("put {} {place}", self.words());
        let is_link = |definition: &LayerDefinition| matches!(definition, LayerDefinition::Link);
        let own = self.0.iter().filter(|joint| is_link(&joint.layer.definition)).count();
        let written = above.iter().chain(below).filter(|layer| is_link(layer.definition())).count();
        if own + written > 1 {
            return error
                .with_help(format!("{words}; a stack with several links needs `--on emulated:time=real`"));
        }
        let at = below.first().map_or(error.stack().len(), |lower| lower.span.start);
        let (upper, lower) = error.stack().split_at(at);
        let candidate = format!("{upper}{}{lower}", self.text());
        error.suggest(&words, candidate)
    }
}
