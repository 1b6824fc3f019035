//! Where cells run: the only part of a laboratory that a campaign needs.

use nestor_lab::Lab;
use nestor_results::{LaboratoryDigest, WrittenPlace};
use nestor_stack::Stack;

use crate::cell::{CellEnd, CellRequest, run_cell};

/// A place that runs one cell after another, each on a fresh stack.
pub trait Bench {
    /// Its place, as results name it: `emulated`, `this`, `ssh:HOST`.
    fn ground(&self) -> WrittenPlace;

    /// What all its numbers depend on besides the cells; `None` if they also depend on anything else.
    fn dependencies(&mut self) -> Option<LaboratoryDigest> {
        None
    }

    /// Announces the stacks that will be requested, so that machines are large enough from the start.
    fn make_room_for(&mut self, stacks: &[Stack]);

    /// Runs a cell; how it failed is in its record.
    fn run_cell(&mut self, request: &CellRequest<'_>, progress: &dyn Fn(&str)) -> CellEnd;
}

impl Bench for Lab {
    fn ground(&self) -> WrittenPlace {
        self.place().clone().into()
    }

    fn dependencies(&mut self) -> Option<LaboratoryDigest> {
        Some(LaboratoryDigest {
            base: Self::dependencies(self)?,
            packs: self.contents_of_packs(),
            kernels: self.contents_of_kernels(),
            qemus: self.contents_of_qemus(),
        })
    }

    fn make_room_for(&mut self, stacks: &[Stack]) {
        Self::make_room_for(self, stacks);
    }

    fn run_cell(&mut self, request: &CellRequest<'_>, progress: &dyn Fn(&str)) -> CellEnd {
        run_cell(self, request, progress)
    }
}
