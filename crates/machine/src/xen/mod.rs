//! Domains of the Xen under which this machine runs, told by `xl` or libvirt: their configuration, their disks, and the agent's stream.

mod configuration;
mod console;
mod daemons;
mod description;
mod domain;
mod identity;
#[cfg(test)]
mod made_up;
mod memory;
mod role;
mod tools;
mod toolstack;

use std::path::PathBuf;
use std::sync::Arc;

use nestor_stack::{Accelerator, Layer};
use serde::{Deserialize, Serialize};

use crate::agent::process::Spawner;
use crate::hypervisor::{Accelerators, DiskSource, Hypervisor, OnStart, OwnDisk, RunningMachine};
use crate::refusal::{Cause, Refusal};
use crate::spec::{DiskAttachment, DiskBackend, MachineSpec};
pub use configuration::{DATA_DISK, ROOT_DISK};
use domain::Domain;
pub use identity::NotedDomain;
pub use role::{XenRole, role, version};
pub use toolstack::Toolstack;

/// What of Xen's is on this machine, for `--on this`, as far as it is known without asking Xen: its version and tool.
///
/// # Errors
/// What is missing for domains, with what to do.
pub fn here() -> Result<String, Refusal> {
    daemons::require_privileged_domain(role())?;
    let version = version().unwrap_or_else(|| "of an unknown version".to_owned());
    if !tools::is_installed() {
        let program = tools::XL.to_owned();
        let message =
            format!("this machine is the privileged domain of Xen {version}, but xl is not installed");
        return Err(Refusal::new(Cause::NotInstalled { program }, message));
    }
    daemons::require_daemons()?;
    Ok(format!("Xen {version}, this machine is its privileged domain"))
}

/// What a domain has as its disk, in the privileged domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XenDisk {
    /// A block device.
    Device(String),
    /// A raw image, which a loop device serves past the page cache.
    RawImage(String),
}

/// Xen as a hypervisor, and who tells it of domains.
pub struct Xen(pub Toolstack);

impl Hypervisor for Xen {
    fn program(&self) -> &'static str {
        self.0.program()
    }

    fn version(&self) -> Option<String> {
        version().map(|version| format!("Xen {version}"))
    }

    fn accelerators(&self) -> Accelerators {
        Accelerators { hardware: Accelerator::Xen, fallback: Accelerator::Xen }
    }

    fn agent_port(&self) -> Option<PathBuf> {
        console::of_this_domain()
    }

    fn boot(
        &self,
        spec: &MachineSpec,
        _accelerator: Accelerator,
        directory: PathBuf,
        spawner: &Spawner,
        on_start: &mut OnStart<'_>,
    ) -> Result<Arc<dyn RunningMachine>, Refusal> {
        Ok(Arc::new(Domain::boot(self.0, spec, directory, spawner.clone(), on_start)?))
    }

    fn disk(&self, layer: &Layer, name: &str, source: DiskSource<'_>) -> Option<DiskAttachment> {
        layer.hypervisor()?.disk.xen_guest()?;
        let disk = match source {
            DiskSource::Device(path) => XenDisk::Device(path.to_owned()),
            DiskSource::Image { path, .. } => XenDisk::RawImage(path.to_owned()),
        };
        Some(DiskAttachment { serial: name.to_owned(), backend: DiskBackend::Own(OwnDisk::Xen(disk)) })
    }
}
