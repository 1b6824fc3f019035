//! Whether a hosted hypervisor is installed on this machine, with what its machines need besides.

use std::path::Path;
use std::process::{Command, Stdio};

use nestor_ownership::{place_for_temporary, temporary_directory_in};
use nestor_stack::HypervisorKind;

use super::boot_disc::{XORRISO, require_loader};
use super::boot_modules::UNSQUASHFS;
use super::identity::HostedIdentity;
use super::tool::Tool;
use super::{Product, product};
use crate::agent::process::Spawner;
use crate::refusal::{Cause, Refusal};

/// Programs besides, and their Debian packages.
const PROGRAMS: [(&str, &str, &str); 2] =
    [(XORRISO, "-version", "xorriso"), (UNSQUASHFS, "-help", "squashfs-tools")];

/// The version of the program of a kind here; `None` if that is not a hosted hypervisor.
///
/// # Errors
/// Its tool is not installed, does not answer, is of a version that is not known, or something that its machines need is not installed.
pub fn here(kind: HypervisorKind) -> Option<Result<String, Refusal>> {
    product(kind).map(|product| examine(kind, product))
}

fn examine(kind: HypervisorKind, product: &dyn Product) -> Result<String, Refusal> {
    let directory = temporary_directory_in(&place_for_temporary(), "nestor-asked-")
        .map_err(|e| Refusal::of_io("no temporary directory could be made", &e))?;
    let version = ask(kind, product, directory.path())?;
    product.known().require(product.name(), product.tool(), &version)?;
    for (program, argument, package) in PROGRAMS {
        let started = Command::new(program).arg(argument).stdin(Stdio::null()).output();
        if started.is_err() {
            let cause = Cause::NotInstalled { program: program.to_owned() };
            return Err(Refusal::new(
                cause,
                format!("{program} is not installed: apt-get install {package}"),
            ));
        }
    }
    require_loader()?;
    Ok(format!("{} {version}", product.name()))
}

/// Only what the tool prints of itself: the program's own files and services are not touched.
fn ask(kind: HypervisorKind, product: &dyn Product, directory: &Path) -> Result<String, Refusal> {
    let identity = HostedIdentity::new(kind, directory, "none")?;
    let spawner = Spawner::new();
    let tool = Tool::new(product, &identity, directory, &spawner);
    product.version(&tool)
}
