//! Memory of a user's Xen: a domain gets what is free, and nothing is taken from the privileged domain for it.

use nestor_stack::layers::hypervisors::XenGuest;

use super::tools::{self, XL};
use crate::agent::process::Spawner;
use crate::refusal::{Cause, Refusal};
use crate::spec::MachineSpec;

/// What Xen takes beside a domain's memory, in MiB (`libxl__domain_need_memory_calculate` and `libxl_get_required_shadow_memory` in libxl): for
/// each processor, for so much of its memory, and for a domain of either type; and what is left, because Xen counts its heap otherwise.
const MIB_A_PROCESSOR: u64 = 1;
const MEMORY_MIB_FOR_ONE: u64 = 128;
const MIB_A_PV: u64 = 1;
const MIB_A_PVH: u64 = 2;
const MIB_TO_SPARE: u64 = 8;

/// Refuses a domain for which too little memory is free. `xl` would take what lacks from the privileged domain (`autoballoon` in xl.conf(5)), and
/// that is the machine on which everything is measured.
///
/// # Errors
/// What is free and what is needed, with what to do; or what Xen's tool said.
pub fn require(spawner: &Spawner, spec: &MachineSpec) -> Result<(), Refusal> {
    let (free_mib, needed_mib) = (free(spawner)?, needed(spec));
    if free_mib < needed_mib { Err(too_little(free_mib, needed_mib)) } else { Ok(()) }
}

/// What to say of a domain that could not be made: with what is free by now.
pub fn of_failed_create(spawner: &Spawner, failed: Refusal) -> Refusal {
    match free(spawner) {
        Ok(mib) if matches!(failed.cause, Cause::ProgramFailed { .. }) => Refusal {
            message: format!("{}\n    (Xen has {mib} MiB of memory free)", failed.message),
            ..failed
        },
        _ => failed,
    }
}

/// MiB that Xen has free.
fn free(spawner: &Spawner) -> Result<u64, Refusal> {
    let said = tools::run(spawner, &[XL, "info", "free_memory"])?;
    said.trim().parse().map_err(|_| {
        Refusal::new(Cause::Other, format!("`xl info free_memory` said {said:?}, which is no number"))
    })
}

fn needed(spec: &MachineSpec) -> u64 {
    let memory_mib = spec.memory_bytes >> 20;
    let of_type = match spec.xen_guest {
        Some(XenGuest::Pvh) => MIB_A_PVH,
        _ => MIB_A_PV,
    };
    let tables = u64::from(spec.cpus) * MIB_A_PROCESSOR + memory_mib.div_ceil(MEMORY_MIB_FOR_ONE);
    memory_mib + tables + of_type + MIB_TO_SPARE
}

fn too_little(free_mib: u64, needed_mib: u64) -> Refusal {
    let message = format!(
        "Xen has {free_mib} MiB of memory free (`xl info free_memory`), and the domain needs {needed_mib} MiB; none is taken from dom0, which is \
         the machine that is measured: boot Xen with less for it (`dom0_mem=…M,max:…M`), end another domain, or give this one less \
         (`xen:memory=…`)"
    );
    Refusal::new(Cause::NoMemory, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_free_memory_is_said_with_both_numbers() {
        insta::assert_snapshot!(too_little(120, 268).message, @"Xen has 120 MiB of memory free (`xl info free_memory`), and the domain needs 268 MiB; none is taken from dom0, which is the machine that is measured: boot Xen with less for it (`dom0_mem=…M,max:…M`), end another domain, or give this one less (`xen:memory=…`)");
    }
}
