//! Machines of the VMware Workstation that is installed, told by its tool `vmrun` ("Using VMware Workstation Pro", "Using the vmrun Command to
//! Control Virtual Machines"). A machine is a file that describes it; VMware keeps nothing else of it.

mod description;

use std::path::{Path, PathBuf};

use nestor_stack::{Accelerator, HypervisorKind};

use crate::hosted::{HostedIdentity, Known, Plan, Product, Tool, first_version};
use crate::refusal::{Cause, Refusal};

/// Its tool.
const TOOL: &str = "vmrun";

/// Says that a Workstation is meant, not a Player or a server.
const WORKSTATION: [&str; 2] = ["-T", "ws"];

/// VMware, as one of the hosted hypervisors.
pub struct Vmware;

impl Product for Vmware {
    fn kind(&self) -> HypervisorKind {
        HypervisorKind::Vmware
    }

    fn accelerator(&self) -> Accelerator {
        Accelerator::Vmware
    }

    fn name(&self) -> &'static str {
        "VMware"
    }

    fn tool(&self) -> &'static str {
        TOOL
    }

    fn version(&self, tool: &Tool<'_>) -> Result<String, Refusal> {
        // Without arguments it prints its version and how it is used, and fails.
        let said = tool.ask(&[])?;
        first_version(&said, "vmrun version").ok_or_else(|| {
            let message = format!("`{TOOL}` says no version: {:?}", said.lines().next().unwrap_or_default());
            Refusal::new(Cause::NotSupported, message)
        })
    }

    fn known(&self) -> Known {
        Known::between((1, 15), (1, 17))
    }

    fn environment(&self, _identity: &HostedIdentity) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn start(&self, plan: &Plan<'_>, tool: &Tool<'_>) -> Result<(), Refusal> {
        let path = description_of(plan.identity);
        let text = description::of(plan)?;
        nestor_ownership::replace(&path, 0o600, text.as_bytes())
            .map_err(|e| Refusal::of_io(&format!("{} could not be written", path.display()), &e))?;
        vmrun(tool, "start", &path, "nogui")
    }

    fn end(&self, identity: &HostedIdentity, tool: &Tool<'_>) -> Result<(), Refusal> {
        let path = description_of(identity);
        // Nothing was made yet.
        if !path.exists() {
            return Ok(());
        }
        // Without `deleteVM`, which would delete what its disks are made of.
        vmrun(tool, "stop", &path, "hard")
    }

    fn log(&self, identity: &HostedIdentity) -> PathBuf {
        identity.directory.join("vmware.log")
    }

    fn strays(&self, _identity: &HostedIdentity) -> Vec<PathBuf> {
        Vec::new()
    }
}

fn description_of(identity: &HostedIdentity) -> PathBuf {
    identity.directory.join("machine.vmx")
}

fn vmrun(tool: &Tool<'_>, command: &str, path: &Path, how: &str) -> Result<(), Refusal> {
    let path = path.display().to_string();
    let [kind, workstation] = WORKSTATION;
    tool.call(&[kind, workstation, command, &path, how]).map(drop)
}
