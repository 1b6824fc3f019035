//! The programs that an image from a repository needs on machines of the user's.

use nestor_link::End;
use nestor_machine::{Command, Machine};
use nestor_stack::layers::sourced::transfers::Program;
use nestor_stack::{Layer, Stack};

use crate::lab_problem::{LabProblem, MissingProgram};
use crate::{BuildError, Lab};

/// What makes an image and fills it.
const AT_REPOSITORY: [Program; 2] = [("qemu-img", "qemu-utils"), ("fio", "fio")];

/// What serves an overlay, and makes and checks it.
const OVERLAY: [[Program; 2]; 2] = [
    [("qemu-nbd", "qemu-utils"), ("nbdcopy", "libnbd-bin")],
    [("qemu-img", "qemu-utils"), ("nbdcopy", "libnbd-bin")],
];

/// Prints those of some programs that are not there.
const MISSING: &str = r#"for program; do command -v -- "$program" >/dev/null || echo "$program"; done"#;

impl Lab {
    /// Refuses a source for which a program is not installed on the repository or on the node.
    pub(crate) fn check_programs(&self, stack: &Stack, machines: [&Machine; 2]) -> Result<(), BuildError> {
        let Some(layer) = stack.sourced_image().map(|at| stack.layer(at)) else { return Ok(()) };
        let mut missing = Vec::new();
        for ((machine, end), needed) in machines.into_iter().zip(End::BOTH).zip(needed(layer)) {
            let argv = ["sh", "-c", MISSING, "sh"].into_iter().chain(needed.iter().map(|(name, _)| *name));
            let said = machine.run_ok(Command::new(argv))?;
            let is_missing = |(name, _): &Program| said.lines().any(|line| line == *name);
            missing.extend(needed.into_iter().filter(is_missing).map(|(program, package)| MissingProgram {
                machine: self.name_of_end(end),
                program,
                package,
            }));
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(LabProblem::NoPrograms { layer: layer.label(), missing }.into())
    }
}

/// The programs for a layer at the repository and on the node.
fn needed(layer: &Layer) -> [Vec<Program>; 2] {
    let [mut at_repository, on_node] = match layer.copy() {
        Some(copy) => copy.transfer.programs_at(layer),
        None => OVERLAY.map(Vec::from),
    };
    at_repository.extend(AT_REPOSITORY);
    [at_repository, on_node]
}
