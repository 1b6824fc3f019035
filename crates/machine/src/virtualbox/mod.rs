//! Machines of the VirtualBox that is installed, told by its tool `VBoxManage` (VirtualBox's manual, "VBoxManage").

mod calls;

use std::path::{Path, PathBuf};

use nestor_stack::{Accelerator, HypervisorKind};

use crate::hosted::{HostedIdentity, Known, Plan, Product, Tool, first_version};
use crate::refusal::{Cause, Refusal};

/// Its tool.
const TOOL: &str = "VBoxManage";

/// VirtualBox, as one of the hosted hypervisors.
pub struct VirtualBox;

impl Product for VirtualBox {
    fn kind(&self) -> HypervisorKind {
        HypervisorKind::VirtualBox
    }

    fn accelerator(&self) -> Accelerator {
        Accelerator::VirtualBox
    }

    fn name(&self) -> &'static str {
        "VirtualBox"
    }

    fn tool(&self) -> &'static str {
        TOOL
    }

    fn version(&self, tool: &Tool<'_>) -> Result<String, Refusal> {
        let said = tool.ask(&["--version"])?;
        first_version(&said, "").ok_or_else(|| {
            let message = format!("`{TOOL} --version` says no version: {:?}", said.trim());
            Refusal::new(Cause::NotSupported, message)
        })
    }

    fn known(&self) -> Known {
        Known::between((7, 0), (7, 2))
    }

    /// A registry of machines, and a service for it, of the machine's own: the user's VirtualBox neither sees nor changes anything. The service is
    /// found by the name of its socket, which has the UUID (`IPC_GetDefaultSocketPath` in VirtualBox's src/libs/xpcom18a4/ipc).
    fn environment(&self, identity: &HostedIdentity) -> Vec<(&'static str, String)> {
        vec![
            ("VBOX_USER_HOME", home(identity).display().to_string()),
            ("VBOX_IPC_SOCKETID", service(identity)),
        ]
    }

    fn start(&self, plan: &Plan<'_>, tool: &Tool<'_>) -> Result<(), Refusal> {
        for call in calls::to_start(plan) {
            let words: Vec<&str> = call.iter().map(String::as_str).collect();
            tool.call(&words)?;
        }
        Ok(())
    }

    fn end(&self, identity: &HostedIdentity, tool: &Tool<'_>) -> Result<(), Refusal> {
        // Nothing was made yet.
        if !home(identity).is_dir() {
            return Ok(());
        }
        // One that does not run cannot be switched off, and that is no failure.
        let ended = tool.call(&["controlvm", &identity.uuid, "poweroff"]);
        // Without `--delete`, which would delete what its disks are made of.
        let forgotten = tool.call(&["unregistervm", &identity.uuid]);
        forgotten.and(ended).map(drop)
    }

    fn log(&self, identity: &HostedIdentity) -> PathBuf {
        identity.directory.join(&identity.name).join("Logs/VBox.log")
    }

    fn strays(&self, identity: &HostedIdentity) -> Vec<PathBuf> {
        vec![Path::new("/tmp").join(format!(".vbox-{}-ipc", service(identity)))]
    }
}

/// What VirtualBox keeps of its machines.
fn home(identity: &HostedIdentity) -> PathBuf {
    identity.directory.join("home")
}

fn service(identity: &HostedIdentity) -> String {
    format!("nestor-{}", identity.uuid)
}
