//! Who tells Xen of domains: its own tool `xl`, or libvirt. Both ask the same library of Xen's (libxl), so the domain is the same.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nestor_stack::layers::hypervisors::XenGuest;
use serde::{Deserialize, Serialize};

use super::configuration::{self, DATA_DISK, DomainFiles};
use super::description;
use super::tools::{self, XL};
use crate::agent::process::Spawner;
use crate::boot_directory;
use crate::hypervisor::file_tail;
use crate::libvirt::{XenUri, virsh};
use crate::refusal::Refusal;
use crate::spec::MachineSpec;

/// What `libxl` runs for `xl` when a disk comes (`add`) and goes (`remove`): it tells the back end which device that is, and the tool stack that it
/// is connected. Xen's own script, which libvirt has no words to replace, does the same after a search for other users of the device, which takes
/// seconds.
const DISK_SCRIPT: &str = r#"#!/bin/sh
case "$1" in
add)
    device=$(xenstore-read "$XENBUS_PATH/params") || exit 1
    xenstore-write "$XENBUS_PATH/physical-device" "$(stat -L -c %t:%T "$device")" \
        "$XENBUS_PATH/physical-device-path" "$device" "$XENBUS_PATH/hotplug-status" connected ;;
remove) xenstore-rm "$XENBUS_PATH/hotplug-status" ;;
esac
"#;

/// Where libvirt has what that library says (<https://libvirt.org/drvxen.html>).
const LIBVIRTS_LOG: &str = "/var/log/libvirt/libxl/libxl-driver.log";

/// Lines of it that a message shows.
const LOG_LINES: usize = 6;

/// Who tells Xen of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Toolstack {
    /// Xen's own tool.
    #[default]
    Xl,
    /// libvirt, which has a daemon in the privileged domain.
    Libvirt,
}

/// A domain that is to be made.
pub struct NewDomain<'a> {
    /// The machine that it is to be.
    pub spec: &'a MachineSpec,
    /// How Xen is to run it.
    pub guest: XenGuest,
    /// Its name.
    pub name: &'a str,
    /// The UUID that was drawn for it, if one was.
    pub uuid: Option<&'a str>,
    /// The block device with the lab image's root.
    pub root: &'a str,
    /// Where its files are to be.
    pub directory: &'a Path,
}

impl Toolstack {
    /// Its program, as it is called in a shell.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Xl => XL,
            Self::Libvirt => virsh::VIRSH,
        }
    }

    /// Makes sure that it can be told something. Xen's own daemons run.
    ///
    /// # Errors
    /// libvirt is not there or does not answer, with what to do.
    pub fn make_ready(self, spawner: &Spawner) -> Result<(), Refusal> {
        match self {
            Self::Xl => Ok(()),
            Self::Libvirt => XenUri.make_ready(spawner),
        }
    }

    /// Writes the files of a domain; the path of its description.
    ///
    /// # Errors
    /// They cannot be written, or it cannot be told of one of their names.
    pub fn prepare(self, domain: &NewDomain<'_>) -> Result<PathBuf, Refusal> {
        let archive = domain.directory.join("initramfs.cpio");
        boot_directory::make(domain.directory, &domain.spec.modules_cpio, &archive)?;
        match self {
            Self::Xl => write_configuration(domain, &archive),
            Self::Libvirt => {
                let path = domain.directory.join("domain.xml");
                description::of(domain, &archive).write(&path)?;
                Ok(path)
            }
        }
    }

    /// Makes the domain; `on_start` hears the process of the tool, and the domain lives on without it.
    ///
    /// # Errors
    /// What the tool said.
    pub fn create(
        self,
        spawner: &Spawner,
        description: &Path,
        on_start: impl FnOnce(u32),
    ) -> Result<(), Refusal> {
        let path = description.display().to_string();
        let created = match self {
            Self::Xl => tools::run_noting(spawner, &[XL, "create", "-q", "-e", &path], on_start),
            Self::Libvirt => virsh::run_noting(spawner, &XenUri, &["create", &path], on_start)
                .map_err(|e| Refusal { message: format!("{}{}", e.message, log_tail()), ..e }),
        };
        created.map(drop)
    }

    /// Gives a domain a block device as its own disk. The directory is that of its files.
    ///
    /// # Errors
    /// What the tool said.
    pub fn attach(
        self,
        spawner: &Spawner,
        domain: &str,
        device: &str,
        directory: &Path,
    ) -> Result<(), Refusal> {
        let attached = match self {
            Self::Xl => {
                let words = configuration::disk(DATA_DISK, device, true, &script(directory));
                tools::run(spawner, &[XL, "block-attach", domain, &words])
            }
            Self::Libvirt => {
                let path = directory.join("disk.xml");
                description::disk(DATA_DISK, device, true).write(&path)?;
                let path = path.display().to_string();
                virsh::run(spawner, &XenUri, &["attach-device", domain, &path, "--live"])
            }
        };
        attached.map(drop)
    }

    /// Takes it away.
    ///
    /// # Errors
    /// What the tool said.
    pub fn detach(self, spawner: &Spawner, domain: &str) -> Result<(), Refusal> {
        let detached = match self {
            Self::Xl => tools::run(spawner, &[XL, "block-detach", domain, DATA_DISK]),
            Self::Libvirt => virsh::run(spawner, &XenUri, &["detach-disk", domain, DATA_DISK, "--live"]),
        };
        detached.map(drop)
    }
}

/// What `xl` is told of a domain; the path of that.
fn write_configuration(domain: &NewDomain<'_>, archive: &Path) -> Result<PathBuf, Refusal> {
    let failed = |path: &Path, e: &std::io::Error| {
        Refusal::of_io(&format!("{} could not be written", path.display()), e)
    };
    let script = script(domain.directory);
    fs::write(&script, DISK_SCRIPT).map_err(|e| failed(&script, &e))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).map_err(|e| failed(&script, &e))?;
    let files = DomainFiles { root: domain.root, initramfs: archive, script: &script };
    let path = domain.directory.join("domain.cfg");
    let text = configuration::text(domain.spec, domain.guest, (domain.name, domain.uuid), &files);
    fs::write(&path, text).map_err(|e| failed(&path, &e))?;
    Ok(path)
}

fn script(directory: &Path) -> PathBuf {
    directory.join("disk")
}

/// The end of what Xen's library said to libvirt, for a message.
fn log_tail() -> String {
    file_tail(Path::new(LIBVIRTS_LOG), "libvirt's log of Xen ends", LOG_LINES)
}
