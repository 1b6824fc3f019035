//! Machines run by QEMU: the command line, QMP, and a running machine with its agent.

mod accelerator;
mod agent_port;
mod arguments;
mod disk;
mod doing;
mod joining;
mod kept_state;
pub(crate) mod own_machine;
mod plugging;
mod prefetch;
mod progress;
mod qmp;
mod running;
mod tick_offset;
mod time_library;
mod trace;
mod version;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nestor_stack::{Accelerator, Layer};

use crate::agent::process::Spawner;
use crate::hypervisor::{Accelerators, DiskSource, Hypervisor, OnStart, RunningMachine};
use crate::place::MachinePlace;
use crate::refusal::Refusal;
use crate::spec::{DiskAttachment, MachineSpec};
pub use disk::DiskObjects;
pub(crate) use own_machine::{GuestPaging, MachineFiles, Overtime, console_tail, guests_tick_offset};
use running::QemuMachine;
pub use trace::TraceSwitch;

/// QEMU's program for the only architecture of the lab image.
const QEMU: &str = "qemu-system-x86_64";

/// QEMU as a hypervisor.
pub struct Qemu;

impl Hypervisor for Qemu {
    fn program(&self) -> &'static str {
        QEMU
    }

    fn version(&self) -> Option<String> {
        version::first_line()
    }

    fn accelerators(&self) -> Accelerators {
        Accelerators { hardware: Accelerator::Kvm, fallback: Accelerator::Tcg }
    }

    fn may_use_hardware(&self) -> bool {
        accelerator::may_use_kvm()
    }

    fn hardware_works(&self, spec: &MachineSpec, directory: PathBuf, spawner: &Spawner) -> bool {
        accelerator::kvm_works(spec, directory, spawner)
    }

    fn agent_port(&self) -> Option<PathBuf> {
        agent_port::find()
    }

    fn boot(
        &self,
        spec: &MachineSpec,
        accelerator: Accelerator,
        directory: PathBuf,
        spawner: &Spawner,
        on_start: &mut OnStart<'_>,
    ) -> Result<Arc<dyn RunningMachine>, Refusal> {
        let machine = QemuMachine::boot(spec, accelerator, directory, spawner, on_start)?;
        Ok(Arc::new(machine))
    }

    fn disk(&self, layer: &Layer, name: &str, source: DiskSource<'_>) -> Option<DiskAttachment> {
        disk::of_layer(layer, name, source)
    }

    fn trace_arguments(&self, work_directory: &Path, machine: MachinePlace) -> Option<Vec<String>> {
        Some(trace::recorder_arguments(work_directory, machine))
    }
}
