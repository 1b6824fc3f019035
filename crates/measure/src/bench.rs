//! Where cells are run: the one thing that a campaign needs of a laboratory.

use nestor_lab::Lab;
use nestor_stack::Stack;

use crate::cell::{CellEnd, CellRequest, run_cell};

/// A place that runs one cell after another, each on a fresh stack.
pub trait Bench {
    /// Where it stands, as results name it: `emulated`, `this`, `ssh:HOST`.
    fn ground(&self) -> String;

    /// SHA-256 of what all its numbers depend on besides the cells; `None` where they depend on more than that can tell.
    fn dependencies(&mut self) -> Option<[u8; 32]> {
        None
    }

    /// Says which stacks will be asked for, so that machines are made large enough at once.
    fn make_room_for(&mut self, stacks: &[Stack]);

    /// Runs a cell; how it failed is in its record.
    fn run_cell(&mut self, request: &CellRequest<'_>, progress: &dyn Fn(&str)) -> CellEnd;
}

impl Bench for Lab {
    fn ground(&self) -> String {
        self.place().to_string()
    }

    fn dependencies(&mut self) -> Option<[u8; 32]> {
        Self::dependencies(self)
    }

    fn make_room_for(&mut self, stacks: &[Stack]) {
        Self::make_room_for(self, stacks);
    }

    fn run_cell(&mut self, request: &CellRequest<'_>, progress: &dyn Fn(&str)) -> CellEnd {
        run_cell(self, request, progress)
    }
}
