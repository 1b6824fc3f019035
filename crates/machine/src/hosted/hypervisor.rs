//! What all hosted hypervisors are to the rest of the code.

use std::path::PathBuf;
use std::sync::Arc;

use nestor_stack::{Accelerator, Layer};

use super::{HostedMachine, Product, agent_port, disk_of_layer, here};
use crate::agent::process::Spawner;
use crate::hypervisor::{Accelerators, DiskSource, Hypervisor, OnStart, RunningMachine};
use crate::refusal::Refusal;
use crate::spec::{DiskAttachment, MachineSpec};

/// The hypervisor that a program is.
pub struct Hosted(pub &'static dyn Product);

impl Hypervisor for Hosted {
    fn program(&self) -> &'static str {
        self.0.tool()
    }

    fn version(&self) -> Option<String> {
        here(self.0.kind())?.ok()
    }

    fn accelerators(&self) -> Accelerators {
        Accelerators { hardware: self.0.accelerator(), fallback: self.0.accelerator() }
    }

    fn agent_port(&self) -> Option<PathBuf> {
        agent_port()
    }

    fn boot(
        &self,
        spec: &MachineSpec,
        _accelerator: Accelerator,
        directory: PathBuf,
        spawner: &Spawner,
        on_start: &mut OnStart<'_>,
    ) -> Result<Arc<dyn RunningMachine>, Refusal> {
        Ok(Arc::new(HostedMachine::boot(self.0.kind(), spec, directory, spawner, on_start)?))
    }

    fn disk(&self, layer: &Layer, name: &str, source: DiskSource<'_>) -> Option<DiskAttachment> {
        disk_of_layer(self.0.kind(), layer, name, source)
    }
}
