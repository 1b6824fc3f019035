//! Machines that libvirt runs: a transient domain of QEMU's for each, by its tool `virsh`.

mod connection;
mod daemon;
mod description;
mod disk;
mod domain;
mod identity;
mod inside;
mod live;
pub(crate) mod virsh;
mod xen;
pub(crate) mod xml;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nestor_stack::{Accelerator, Layer};

use crate::agent::process::Spawner;
use crate::hypervisor::{Accelerators, DiskSource, Hypervisor, OnStart, RunningMachine};
use crate::place::MachinePlace;
use crate::qemu::Qemu;
use crate::refusal::{Cause, Refusal};
use crate::spec::{DiskAttachment, MachineSpec};
use connection::Uri;
pub use disk::DomainDisk;
use domain::Domain;
pub use identity::DomainIdentity;
pub use inside::serve as serve_inside;
pub(crate) use xen::XenUri;

/// Which libvirt would run machines on this machine, as far as it is known without starting one: its version and what is connected to.
///
/// # Errors
/// Its tool is not installed, or its daemon is not there or not for this user: with what to do.
pub fn here() -> Result<String, Refusal> {
    let version = virsh::version(&Spawner::new()).ok_or_else(|| {
        let program = virsh::VIRSH.to_owned();
        Refusal::new(Cause::NotInstalled { program }, "virsh is not installed")
    })?;
    let uri = Uri::here(Path::new("/"))?;
    uri.check()?;
    Ok(format!("{version}, {uri}"))
}

/// libvirt's description of a domain, in XML, of the libvirt that would run machines here.
///
/// # Errors
/// As [`here`]; or libvirt has no such domain.
pub fn domain_description(name: &str) -> Result<String, Refusal> {
    if name.is_empty() || name.starts_with('-') {
        let message =
            format!("`{name}` is no domain: a domain has a name, which does not begin with a hyphen");
        return Err(Refusal::new(Cause::Other, message));
    }
    here()?;
    virsh::run(&Spawner::new(), &Uri::here(Path::new("/"))?, &["dumpxml", name])
}

/// libvirt as a hypervisor. What its machines are, they are by QEMU.
pub struct Libvirt;

impl Hypervisor for Libvirt {
    fn program(&self) -> &'static str {
        virsh::VIRSH
    }

    fn version(&self) -> Option<String> {
        virsh::version(&Spawner::new())
    }

    fn accelerators(&self) -> Accelerators {
        Qemu.accelerators()
    }

    fn may_use_hardware(&self) -> bool {
        Qemu.may_use_hardware()
    }

    fn hardware_works(&self, spec: &MachineSpec, directory: PathBuf, spawner: &Spawner) -> bool {
        Qemu.hardware_works(spec, directory, spawner)
    }

    fn agent_port(&self) -> Option<PathBuf> {
        Qemu.agent_port()
    }

    fn boot(
        &self,
        spec: &MachineSpec,
        accelerator: Accelerator,
        directory: PathBuf,
        spawner: &Spawner,
        on_start: &mut OnStart<'_>,
    ) -> Result<Arc<dyn RunningMachine>, Refusal> {
        Ok(Arc::new(Domain::boot(spec, accelerator, directory, spawner, on_start)?))
    }

    fn disk(&self, layer: &Layer, name: &str, source: DiskSource<'_>) -> Option<DiskAttachment> {
        disk::of_layer(layer, name, source)
    }

    fn trace_arguments(&self, work_directory: &Path, machine: MachinePlace) -> Option<Vec<String>> {
        Qemu.trace_arguments(work_directory, machine)
    }
}
