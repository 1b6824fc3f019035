//! The layers of a stack in their two lines: the one that a write travels, and that of the source.

use std::ops::Range;

use crate::{Layer, LayerIndex};

/// The layers of a stack. The line that a write travels goes from the application down to a medium. The line of the source, if there is
/// one, goes from the link between the two machines down to the medium of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    /// Both lines, the source behind the other.
    layers: Vec<Layer>,
    /// How many layers the first line has.
    main: usize,
}

impl Lines {
    /// Puts them together; `source` is empty of a stack without one.
    pub fn new(main: Vec<Layer>, source: Vec<Layer>) -> Self {
        let count = main.len();
        Self { layers: main.into_iter().chain(source).collect(), main: count }
    }

    /// The line that a write travels.
    pub fn main(&self) -> &[Layer] {
        &self.layers[..self.main]
    }

    /// The line of the source; empty without one.
    pub fn source(&self) -> &[Layer] {
        &self.layers[self.main..]
    }

    /// Both lines, the source last.
    pub fn all(&self) -> &[Layer] {
        &self.layers
    }

    /// The positions of the line that a position is in.
    pub fn line_of(&self, index: LayerIndex) -> Range<usize> {
        if index.position() < self.main { 0..self.main } else { self.main..self.layers.len() }
    }
}
