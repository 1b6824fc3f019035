//! What an agent made and could not undo: it travels with the answer, so that nobody has to read it from the words.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use crate::bounds::clipped;
use crate::refusal::ProgramEnd;

/// Something that was made and is still there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum NotUndone {
    /// A process that does not end.
    #[error("{what} (process {pid}) did not end after SIGKILL")]
    Process {
        /// What it is, for messages.
        what: String,
        /// Its number.
        pid: u32,
    },
    /// A mount that may be another's.
    #[error("what is mounted at {target} was left alone: {why}; run `umount {target}` if it is not needed")]
    MountLeft {
        /// Where.
        target: String,
        /// Why it was left.
        why: WhyLeft,
    },
    /// A mount that cannot be looked at.
    #[error("what is mounted at {target} was left alone because it cannot be looked at: {error}")]
    MountUnseen {
        /// Where.
        target: String,
        /// What the system said.
        error: SystemError,
    },
    /// A mount of ours.
    #[error("{target} could not be unmounted: {error}")]
    Mount {
        /// Where.
        target: String,
        /// What the system said.
        error: SystemError,
    },
    /// A loop device that may be another's.
    #[error(
        "the loop device {device} of {file} was left alone: {why}; run `losetup --detach {device}` if it is not needed",
        why = WhyLeft::UnknownLoopDevice
    )]
    LoopDeviceLeft {
        /// The device.
        device: String,
        /// The file that it is made of.
        file: String,
    },
    /// A loop device of ours.
    #[error("the loop device {device} could not be detached: {error}")]
    LoopDevice {
        /// The device.
        device: String,
        /// What the system said.
        error: SystemError,
    },
    /// An empty directory that may be another's.
    #[error("the empty directory {path} was left alone: {why}; run `rmdir {path}` if it is not needed")]
    DirectoryLeft {
        /// Where.
        path: String,
        /// Why it was left.
        why: WhyLeft,
    },
    /// A directory of ours.
    #[error("the directory {path} could not be removed: {error}")]
    Directory {
        /// Where.
        path: String,
        /// What the system said.
        error: SystemError,
    },
    /// A run's own directory in one of the user's, which may be another's.
    #[error("the directory {path} was left alone: {why}; run `rm -r {path}` if it is not needed")]
    OwnDirectoryLeft {
        /// Where.
        path: String,
        /// Why it was left.
        why: String,
    },
    /// The work directory of an agent.
    #[error("{path} could not be removed: {error}")]
    WorkDirectory {
        /// Where.
        path: String,
        /// What the system said.
        error: SystemError,
    },
    /// What was written on a device or file of the user's; `wipefs` failed.
    #[error("what was written to {path} could not be erased: {said}")]
    Signatures {
        /// The device or file.
        path: String,
        /// How `wipefs` ended.
        ended: ProgramEnd,
        /// What it said.
        said: String,
    },
    /// The same; `wipefs` could not be started.
    #[error("what was written to {path} could not be erased, because wipefs does not run: {error}")]
    SignaturesWithoutWipefs {
        /// The device or file.
        path: String,
        /// What the system said.
        error: SystemError,
    },
    /// A kernel setting that may be another's.
    #[error(
        "{path} was left alone; it holds `{found}` and held `{former}` before that run: {why}; write `{former}` to it, or \
         remove {work} to keep it"
    )]
    SettingLeft {
        /// The file of `/sys` or `/proc/sys`.
        path: String,
        /// What it holds.
        found: String,
        /// What it held.
        former: String,
        /// Why it was left.
        why: WhyLeft,
        /// The work directory of the run that wrote it.
        work: String,
    },
    /// A kernel setting of ours.
    #[error("{path} could not be set back to `{former}`: {error}")]
    Setting {
        /// The file of `/sys` or `/proc/sys`.
        path: String,
        /// What it held.
        former: String,
        /// What the system said.
        error: SystemError,
    },
    /// A machine that libvirt runs.
    #[error("the domain {name} still runs: {said}; run `virsh --connect {uri} destroy {name}`")]
    Domain {
        /// Its name.
        name: String,
        /// The libvirt that runs it.
        uri: String,
        /// What libvirt's tool said.
        said: String,
    },
    /// A domain of the user's Xen.
    #[error("the domain {name} of Xen is still there: {said}; run `xl destroy {name}`")]
    XenDomain {
        /// Its name.
        name: String,
        /// What Xen's tool said.
        said: String,
    },
    /// A machine that a hosted hypervisor runs.
    #[error(
        "the machine {name} still runs: {said}; end its processes: `kill -9 {pids}`",
        pids = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
    )]
    Hosted {
        /// Its name.
        name: String,
        /// The processes that run for it.
        pids: Vec<u32>,
        /// What was said when it was to be ended.
        said: String,
    },
    /// The kernel's NFS server, which by now has other exports.
    #[error(
        "the NFS server was left running because it has {others} exports besides that of the run ({export}), which was withdrawn; \
         run `rpc.nfsd 0` if it is not needed"
    )]
    NfsServerLeft {
        /// What the run had exported.
        export: String,
        /// How many others there are.
        others: usize,
    },
    /// The kernel's NFS server, which was started for a run.
    #[error("the NFS server that was started for {export} could not be ended: {said}")]
    NfsServer {
        /// What the run had exported.
        export: String,
        /// What the tool or the system said.
        said: String,
    },
}

impl NotUndone {
    /// With as much of what programs say as a frame may hold.
    pub(crate) fn clipped(self) -> Self {
        match self {
            Self::Process { what, pid } => Self::Process { what: clipped(what), pid },
            Self::Signatures { path, ended, said } => Self::Signatures { path, ended, said: clipped(said) },
            Self::NfsServer { export, said } => Self::NfsServer { export, said: clipped(said) },
            Self::OwnDirectoryLeft { path, why } => Self::OwnDirectoryLeft { path, why: clipped(why) },
            Self::Domain { name, uri, said } => Self::Domain { name, uri, said: clipped(said) },
            Self::XenDomain { name, said } => Self::XenDomain { name, said: clipped(said) },
            Self::Hosted { name, pids, said } => Self::Hosted { name, pids, said: clipped(said) },
            other => other,
        }
    }
}

/// Why something that has the name of what was made was left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum WhyLeft {
    /// The maker died before it could note its mount, or was older.
    #[error("the ledger does not say which mount it is")]
    UnknownMount,
    /// Two mounts are there.
    #[error("another mount covers the one that was made there")]
    CoveredMount,
    /// Before Linux 6.8.
    #[error(
        "this kernel does not report whether it is the same mount (Linux 6.8 does), and it is outside the run's work directory"
    )]
    UnreportedMount,
    /// The maker was older.
    #[error("the ledger does not say which one it is")]
    UnknownLoopDevice,
    /// The maker died before it could note its directory, or was older.
    #[error("the ledger does not say which directory it is, or this directory cannot be looked at")]
    UnknownDirectory,
    /// Of a file system without times of birth.
    #[error("its file system does not record when a directory was made")]
    UnreportedDirectory,
    /// The maker was older.
    #[error("the ledger does not say what that run wrote")]
    UnknownSetting,
    /// By another program.
    #[error("it was changed since")]
    ChangedSetting,
    /// Its name is used again.
    #[error("another disk or medium may have that name now")]
    OtherDisk,
}

/// What the operating system said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SystemError {
    /// The number of its error.
    Errno(i32),
    /// An error without a number.
    Words(String),
}

impl From<&io::Error> for SystemError {
    fn from(error: &io::Error) -> Self {
        error.raw_os_error().map_or_else(|| Self::Words(error.to_string()), Self::Errno)
    }
}

impl From<rustix::io::Errno> for SystemError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Errno(errno.raw_os_error())
    }
}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errno(number) => io::Error::from_raw_os_error(*number).fmt(f),
            Self::Words(words) => f.write_str(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Answer, Envelope, read_frame, write_frame};
    use crate::refusal::{Cause, Refusal};

    #[test]
    fn what_was_not_undone_keeps_its_type_on_the_way() {
        let mount = NotUndone::Mount { target: "/mnt".to_owned(), error: rustix::io::Errno::BUSY.into() };
        let ended = ProgramEnd::Code(1);
        let wipefs = NotUndone::Signatures { path: "/dev/sdb".to_owned(), ended, said: "x".repeat(1 << 20) };
        let refusal = Refusal::not_undone(vec![mount.clone(), wipefs]).clipped();
        assert!(
            refusal
                .message
                .starts_with("/mnt could not be unmounted: Device or resource busy (os error 16); ")
        );
        let mut frame = Vec::new();
        write_frame(&mut frame, &Envelope { number: 7, body: Answer::Failed(refusal.clone()) }).unwrap();
        let read: Envelope<Answer> = read_frame(&mut frame.as_slice()).unwrap();
        let Answer::Failed(read) = read.body else { panic!("{:?}", read.body) };
        assert_eq!(read, refusal);
        let Cause::NotUndone { left } = read.cause else { panic!("{:?}", read.cause) };
        assert_eq!((&left[0], left.len()), (&mount, 2));
    }

    #[test]
    fn a_refusal_names_a_few_of_many() {
        let process = |pid| NotUndone::Process { what: "sleep".to_owned(), pid };
        let refusal = Refusal::not_undone((0..1_000).map(process).collect()).clipped();
        assert!(refusal.message.contains("process 999"));
        assert!(matches!(refusal.cause, Cause::NotUndone { left } if left.len() < 100));
    }
}
