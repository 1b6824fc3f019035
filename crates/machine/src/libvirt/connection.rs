//! Which libvirt runs machines here: in a machine of the lab its driver for QEMU without a daemon, elsewhere the one that libvirt's own tools would
//! use (<https://libvirt.org/drvqemu.html#connections-to-qemu-driver>).

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nestor_ownership::replace;
use serde::{Deserialize, Serialize};

use super::daemon::Daemon;
use super::virsh;
use crate::agent::process::{self, Spawner};
use crate::init::is_first_process;
use crate::message::Command;
use crate::refusal::{Cause, Refusal};

/// The variable by which libvirt's tools are told what to connect to.
pub const URI_VARIABLE: &str = "LIBVIRT_DEFAULT_URI";

/// A libvirt for QEMU on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Uri {
    /// The daemon of the machine.
    System,
    /// The daemon of the user, which libvirt starts when it is needed and which ends when it is not.
    Session,
    /// No daemon: the driver in the tool itself, with all its files in a directory.
    Embedded {
        /// The directory.
        root: PathBuf,
    },
}

/// Where the daemon of the machine listens: the one for QEMU, or the older one for everything (libvirtd(8), virtqemud(8)).
const SYSTEM_SOCKETS: [&str; 2] = ["/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock"];

/// The user that libvirt's driver in Debian wants to exist, whoever runs its machines.
const DRIVERS_USER: &str = "libvirt-qemu";

/// How the driver without a daemon is set: machines run as root, which the agent of a lab machine is, and nothing is done against what a machine of
/// the lab does not fear. Without a daemon, there is none that would write consoles to files for it.
const SETTINGS: &str = "user = \"root\"\ngroup = \"root\"\ndynamic_ownership = 0\nremember_owner = 0\nsecurity_driver = \"none\"\n\
                        stdio_handler = \"file\"\ncgroup_controllers = []\nnamespaces = []\n";

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("qemu:///system"),
            Self::Session => f.write_str("qemu:///session"),
            Self::Embedded { root } => write!(f, "qemu:///embed?root={}", root.display()),
        }
    }
}

impl Uri {
    /// The one for machines whose files are in `directory`.
    ///
    /// # Errors
    /// [`URI_VARIABLE`] has something else.
    pub fn here(directory: &Path) -> Result<Self, Refusal> {
        if is_first_process() {
            return Ok(Self::Embedded { root: directory.with_file_name("libvirt") });
        }
        let said = std::env::var(URI_VARIABLE).ok().filter(|said| !said.is_empty());
        match said {
            None if rustix::process::geteuid().is_root() => Ok(Self::System),
            None => Ok(Self::Session),
            Some(said) => Self::parse(&said).ok_or_else(|| {
                let message = format!(
                    "{URI_VARIABLE} is `{said}`, where Nestor runs no machines: it takes {} and {}",
                    Self::System,
                    Self::Session
                );
                Refusal::new(Cause::NotSupported, message)
            }),
        }
    }

    /// A daemon's.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::System, Self::Session].into_iter().find(|uri| uri.to_string() == text)
    }

    /// The user and group that libvirt has to be told to run machines as, where it would take others.
    pub fn runs_as_user(&self) -> Option<(u32, u32)> {
        let own = || (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        matches!(self, Self::System).then(own)
    }

    /// Whether this user can use it, as far as that is known without starting anything.
    ///
    /// # Errors
    /// It is not there or not for this user, with what to do.
    pub fn check(&self) -> Result<(), Refusal> {
        if *self != Self::System {
            return Ok(());
        }
        let (uri, without) = (self.to_string(), format!("{URI_VARIABLE}={}", Self::Session));
        let packages = &["libvirt-daemon-system"];
        Daemon { uri: &uri, sockets: SYSTEM_SOCKETS, packages, without: &without }.check()?;
        if rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let session = Self::Session;
        let message = format!(
            "{self} runs machines as another user, who may not use files of yours; use {URI_VARIABLE}={session}, or be root"
        );
        Err(Refusal::new(Cause::NotPermitted, message))
    }

    /// Makes sure that it answers.
    ///
    /// # Errors
    /// It is not there, this user may not use it, or it does not answer in time: with what to do.
    pub fn make_ready(&self, spawner: &Spawner) -> Result<(), Refusal> {
        match self {
            Self::Embedded { root } => prepare(root, spawner)?,
            Self::System | Self::Session => self.check()?,
        }
        virsh::require_answer(spawner, self)
    }
}

/// Makes the directory of a driver without a daemon, and what the driver wants to find.
fn prepare(root: &Path, spawner: &Spawner) -> Result<(), Refusal> {
    let settings = root.join("etc/qemu.conf");
    if settings.exists() {
        return Ok(());
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    if !users.lines().any(|line| line.split(':').next() == Some(DRIVERS_USER)) {
        let argv = ["useradd", "--system", "--user-group", "--no-create-home", DRIVERS_USER];
        let made = process::run(spawner, &Command::new(argv), |_| {})?;
        if !made.succeeded() {
            let said = String::from_utf8_lossy(&made.stderr).trim().to_owned();
            let message =
                format!("the user {DRIVERS_USER}, whom libvirt's driver wants, could not be made: {said}");
            return Err(Refusal::new(Cause::Other, message));
        }
    }
    let failed = |e: io::Error| Refusal::of_io(&format!("{} could not be written", settings.display()), &e);
    fs::create_dir_all(root.join("etc")).map_err(failed)?;
    replace(&settings, 0o600, SETTINGS.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_libvirts() {
        let embedded = Uri::Embedded { root: "/run/nestor/1/libvirt".into() };
        assert_eq!(embedded.to_string(), "qemu:///embed?root=/run/nestor/1/libvirt");
        assert_eq!(Uri::parse("qemu:///session"), Some(Uri::Session));
        for other in
            ["xen:///system", "qemu+ssh://host/system", "qemu:///embed?root=/", "", "test:///default"]
        {
            assert_eq!(Uri::parse(other), None, "{other}");
        }
    }
}
