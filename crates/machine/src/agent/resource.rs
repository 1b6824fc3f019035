//! What was made and how it is undone.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use procfs::process::{Process, Stat};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process};
use serde::{Deserialize, Serialize};

use super::loop_device;
use super::nfs_server::{self, ServerTimes};
use super::process::Spawner;
use super::settings;
use super::undoing::{self, By, DirectoryIdentity, Verdict};
use super::users_directory;
use crate::hosted::HostedIdentity;
use crate::hypervisor::OutlivingMachine;
use crate::libvirt::DomainIdentity;
use crate::nfs_export::NfsExport;
use crate::not_undone::NotUndone;
use crate::refusal::ProgramEnd;
use crate::xen::NotedDomain;
use nestor_kernel::mounts::MountIdentity;

/// Something that was made and has to be undone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// A process group whose leader was started by us; the start time distinguishes it from a later process with that number.
    Process {
        /// Process id and group id.
        pid: u32,
        /// Field 22 of `/proc/PID/stat`: clock ticks since boot.
        start_ticks: u64,
        /// What it is, for messages.
        what: String,
    },
    /// A mounted file system.
    Mount {
        /// Where.
        target: String,
        /// Which mount: what is mounted there instead is left alone. Absent while it is being mounted, and in what older versions
        /// wrote; then whatever is there is left alone.
        #[serde(default)]
        mounted: Option<MountIdentity>,
    },
    /// A loop device.
    LoopDevice {
        /// `/dev/loopN`, for people; empty while it is being made, before its name is known.
        device: String,
        /// The file it was made of.
        file: String,
        /// The mark that the kernel keeps with it, because numbers of devices and paths of files are used again. Absent in
        /// ledgers of older versions; then every device of such a file is left alone.
        #[serde(default)]
        mark: Option<String>,
    },
    /// A directory, removed only if empty.
    Directory {
        /// Where.
        path: String,
        /// Which directory. Absent while it is being made, and in what older versions wrote; then it is left alone.
        #[serde(default)]
        made: Option<DirectoryIdentity>,
    },
    /// A directory of a random name in one of the user's, removed with all that is in it.
    OwnDirectory {
        /// Where. The name is known before it is made, and nobody can guess it.
        path: String,
    },
    /// What we wrote on a device or file of the user's that carried nothing before, or could be overwritten.
    Signatures {
        /// The device or file.
        path: String,
    },
    /// A kernel setting with its former value.
    Setting {
        /// The file of `/sys` or `/proc/sys`.
        path: String,
        /// What it held before.
        former: String,
        /// What it held afterwards: a later change by another program is left alone. Absent in ledgers of older versions.
        #[serde(default)]
        written: Option<String>,
        /// Of a setting of a disk, which disk (`settings::disk_of`): its name is used again. Absent for other settings, before Linux
        /// 5.15, and in what older versions wrote.
        #[serde(default)]
        disk: Option<u64>,
    },
    /// The kernel's NFS server, which was not running before.
    NfsServer {
        /// What it was started for.
        export: NfsExport,
        /// What the kernel kept for the next server before.
        former: ServerTimes,
        /// The file system that controls it was mounted for it.
        is_control_ours: bool,
    },
    /// A machine that libvirt runs.
    Domain(DomainIdentity),
    /// A domain of the user's Xen, or of libvirt's on any.
    XenDomain(NotedDomain),
    /// A machine that a hosted hypervisor runs.
    Hosted(HostedIdentity),
}

impl From<OutlivingMachine> for Resource {
    fn from(machine: OutlivingMachine) -> Self {
        match machine {
            OutlivingMachine::Libvirt(domain) => Self::Domain(domain),
            OutlivingMachine::Xen(domain) => Self::XenDomain(domain),
            OutlivingMachine::Hosted(machine) => Self::Hosted(machine),
        }
    }
}

impl Resource {
    /// Undoes it; succeeds when there is nothing (any more) to undo.
    ///
    /// # Errors
    /// What still exists and why it could not be removed.
    pub fn take_down(&self, by: By) -> Result<(), NotUndone> {
        self.undo(by, Wanted::Yes)
    }

    /// The same where nothing that it holds is wanted any more.
    ///
    /// # Errors
    /// As [`Self::take_down`].
    pub fn take_down_for_good(&self, by: By) -> Result<(), NotUndone> {
        self.undo(by, Wanted::No)
    }

    /// Whether it is a machine that outlives its agent. It may use what was made after it: disks are plugged into it later.
    pub(super) fn is_outliving_machine(&self) -> bool {
        matches!(self, Self::Domain(_) | Self::XenDomain(_) | Self::Hosted(_))
    }

    /// Whether it is still there when the machine was started again.
    pub(super) fn outlives_restart(&self) -> bool {
        matches!(self, Self::OwnDirectory { .. })
    }

    /// Whether it is a mount of what a file server offers.
    pub(super) fn is_served_mount(&self) -> bool {
        matches!(self, Self::Mount { mounted: Some(mounted), .. } if is_served(mounted))
    }

    /// Ends the calls that the file server of a mount does not answer: whoever waits for them goes on.
    pub(super) fn let_go_of_server(&self) {
        if let Self::Mount { target, mounted: Some(mounted) } = self
            && is_served(mounted)
            && !answers(target)
        {
            // Busy as it is, it stays mounted.
            let _ = unmount(target, UnmountFlags::FORCE);
        }
    }

    fn undo(&self, by: By, wanted: Wanted) -> Result<(), NotUndone> {
        match self {
            Self::Process { pid, start_ticks, what } => end_process_group(*pid, *start_ticks, what),
            Self::Mount { target, mounted } => unmount_at(target, mounted.as_ref(), by, wanted),
            Self::LoopDevice { file, mark: Some(mark), .. } => loop_device::detach(mark, file),
            Self::LoopDevice { device, file, mark: None } => name_loops(device, file),
            Self::Directory { path, made } => remove_directory(path, made.as_ref(), by),
            Self::OwnDirectory { path } => users_directory::remove(path),
            Self::Signatures { path } => erase_signatures(path),
            Self::Setting { path, former, written, disk } => {
                settings::set_back(path, former, written.as_deref(), *disk, by)
            }
            Self::NfsServer { export, former, is_control_ours } => {
                nfs_server::end(export, former, *is_control_ours, by)
            }
            Self::Domain(domain) => domain.end(&Spawner::new()),
            Self::XenDomain(domain) => domain.end(&Spawner::new()),
            Self::Hosted(machine) => machine.end(&Spawner::new()),
        }
    }
}

/// Start time of a process in clock ticks since boot, or `None` if the process does not exist.
pub fn process_start_ticks(pid: u32) -> Option<u64> {
    stat(pid).map(|stat| stat.starttime)
}

fn stat(pid: u32) -> Option<Stat> {
    Process::new(pid.try_into().ok()?).and_then(|process| process.stat()).ok()
}

/// Whether a process runs that was started then.
pub fn is_same_live_process(pid: u32, start_ticks: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.starttime == start_ticks && stat.state != 'Z')
}

fn end_process_group(pid: u32, start_ticks: u64, what: &str) -> Result<(), NotUndone> {
    let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    if !is_same_live_process(pid, start_ticks) {
        return Ok(());
    }
    for (signal, patience) in
        [(Signal::TERM, Duration::from_secs(2)), (Signal::KILL, Duration::from_secs(10))]
    {
        // A group that is gone is what we want.
        let _ = kill_process_group(group, signal);
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if test_kill_process(group).is_err() || !is_same_live_process(pid, start_ticks) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Err(NotUndone::Process { what: what.to_owned(), pid })
}

/// Whether what is still to be written to a file system is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Yes,
    No,
}

/// Kernel's names of file systems that other machines serve begin with this.
const SERVED: &str = "nfs";

/// How long a file server may take to say how full it is.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How long what is to be written to a server that is gone may take to fail.
const FAILURE_LIMIT: Duration = Duration::from_secs(10);

fn is_served(mounted: &MountIdentity) -> bool {
    mounted.line.kind.starts_with(SERVED)
}

/// Whether the server of a mounted file system answers: how full it is, no client knows by itself. A thread that waits for one that does not
/// ends with its call.
fn answers(target: &str) -> bool {
    let target = target.to_owned();
    within(ANSWER_LIMIT, move || rustix::fs::statfs(target).is_ok()).unwrap_or(false)
}

/// What a call says that may never end; `None` if it has not ended in time.
fn within<T: Send + 'static>(limit: Duration, call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(call()));
    receiver.recv_timeout(limit).ok()
}

/// Unmounts what a server offers that does not answer, as `umount -f -l` does. What is still to be written has to fail before, because the
/// kernel writes it when the last user of the mount is gone, and nobody can end those calls.
fn abandon(target: &str) -> rustix::io::Result<()> {
    // Of all file systems, because nothing of this one can be opened: that would ask the server, too.
    let writing = std::thread::spawn(rustix::fs::sync);
    let deadline = Instant::now() + FAILURE_LIMIT;
    while !writing.is_finished() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
        let _ = unmount(target, UnmountFlags::FORCE);
    }
    unmount(target, UnmountFlags::FORCE | UnmountFlags::DETACH)
}

fn unmount_at(
    target: &str,
    mounted: Option<&MountIdentity>,
    by: By,
    wanted: Wanted,
) -> Result<(), NotUndone> {
    let at = || target.to_owned();
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match undoing::of_mount(target, mounted, by) {
            Ok(Verdict::Ours) => {}
            Ok(Verdict::Gone) => return Ok(()),
            Ok(Verdict::Unknown(why)) => return Err(NotUndone::MountLeft { target: at(), why }),
            Err(e) => return Err(NotUndone::MountUnseen { target: at(), error: (&e).into() }),
        }
        let is_abandoned = wanted == Wanted::No && mounted.is_some_and(is_served) && !answers(target);
        let unmounted = if is_abandoned { abandon(target) } else { unmount(target, UnmountFlags::empty()) };
        match unmounted {
            Ok(()) => {}
            // EINVAL: not a mount point (any more).
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => return Ok(()),
            Err(rustix::io::Errno::BUSY) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(e) => return Err(NotUndone::Mount { target: at(), error: e.into() }),
        }
    }
}

fn remove_directory(path: &str, made: Option<&DirectoryIdentity>, by: By) -> Result<(), NotUndone> {
    match undoing::of_directory(path, made, by) {
        Verdict::Ours => {}
        Verdict::Gone => return Ok(()),
        // A directory that is not empty is never removed.
        Verdict::Unknown(_) if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) => {
            return Ok(());
        }
        Verdict::Unknown(why) => {
            return Err(NotUndone::DirectoryLeft { path: path.to_owned(), why });
        }
    }
    match fs::remove_dir(path) {
        Err(e) if !matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
            Err(NotUndone::Directory { path: path.to_owned(), error: (&e).into() })
        }
        _ => Ok(()),
    }
}

fn erase_signatures(path: &str) -> Result<(), NotUndone> {
    let of = || path.to_owned();
    match Command::new("wipefs").args(["--all", "--force", "--quiet", "--", path]).output() {
        Ok(output) if output.status.success() => {
            empty_file(path);
            Ok(())
        }
        // The device was pulled or the file removed: there is nothing to erase.
        _ if !Path::new(path).exists() => Ok(()),
        Ok(output) => Err(NotUndone::Signatures {
            path: of(),
            ended: ProgramEnd::of(output.status),
            said: String::from_utf8_lossy(&output.stderr).trim_end().to_owned(),
        }),
        Err(e) => Err(NotUndone::SignaturesWithoutWipefs { path: of(), error: (&e).into() }),
    }
}

/// Makes holes of all that a regular file holds, so that it is as empty as it was. Where the file system cannot, old
/// data stay in it, as they do on a device.
fn empty_file(path: &str) {
    use rustix::fs::{FallocateFlags, fallocate};
    let Ok(file) = fs::OpenOptions::new().write(true).open(path) else { return };
    if let Some(bytes) = file.metadata().ok().filter(fs::Metadata::is_file).map(|found| found.len()) {
        let _ = fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, bytes.max(1));
    }
}

/// Loop devices that may or may not be the one that was made.
fn name_loops(device: &str, file: &str) -> Result<(), NotUndone> {
    let there = loop_device::named(file).into_iter().find(|found| device.is_empty() || found == device);
    there.map_or(Ok(()), |device| Err(NotUndone::LoopDeviceLeft { device, file: file.to_owned() }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;
    use crate::not_undone::WhyLeft;

    /// Needs root, as loop devices do.
    #[test]
    fn only_the_loop_device_that_was_made_is_detached_whoever_has_its_file() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().canonicalize().unwrap().join("medium");
        fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
        if !made.status.success() {
            return;
        }
        let another = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        let [name, work] = [file.display().to_string(), directory.path().display().to_string()];
        let heir = By::Heir { work: Path::new(&work), sees_its_mounts: true };
        let noted = |device: &str, mark: serde_json::Value| {
            let value = serde_json::json!({"loop-device": {"device": device, "file": name, "mark": mark}});
            serde_json::from_value::<Resource>(value).unwrap()
        };
        let said = ["", &another].map(|device| {
            let older = noted(device, serde_json::Value::Null).take_down(heir);
            (older, noted(device, "nestor-of-a-dead-run".into()).take_down(heir))
        });
        let kept = loop_device::named(&name);
        let detached = Command::new("losetup").args(["--detach", &another]).status().unwrap();
        assert_eq!(kept, std::slice::from_ref(&another));
        for (older, marked) in said {
            let (device, file) = (another.clone(), name.clone());
            assert_eq!(older, Err(NotUndone::LoopDeviceLeft { device, file }));
            assert_eq!(marked, Ok(()));
        }
        assert!(detached.success());
        // Its maker died before it could note the name.
        let mark = loop_device::new_mark().unwrap();
        loop_device::attach(&file, false, &mark).unwrap();
        noted("", mark.into()).take_down(heir).unwrap();
        assert_eq!(loop_device::named(&name), Vec::<String>::new());
    }

    #[test]
    fn a_process_group_is_ended_only_if_it_is_still_the_same() {
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let ticks = process_start_ticks(child.id()).unwrap();
        let other = Resource::Process { pid: child.id(), start_ticks: ticks + 1, what: "sleep".into() };
        other.take_down(By::Maker).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "a process of the same number is not ours");
        let ours = Resource::Process { pid: child.id(), start_ticks: ticks, what: "sleep".into() };
        ours.take_down(By::Maker).unwrap();
        assert!(!child.wait().unwrap().success());
    }

    /// A child that another test has forked holds every descriptor of this process until it executes its program, those of the mount
    /// among them, so that the mount may be busy for that moment.
    fn unmount_now(target: &str) {
        unmount(target, UnmountFlags::DETACH).unwrap();
    }

    /// Needs root and the right to mount.
    #[test]
    fn only_the_file_system_that_was_mounted_is_unmounted() {
        use rustix::mount::{MountFlags, mount};
        let _alone = crate::agent::alone();
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().display().to_string();
        let tmpfs = || mount("tmpfs", &target, "tmpfs", MountFlags::empty(), None);
        let there = || MountIdentity::at(folder.path()).unwrap();
        let heir = By::Heir { work: folder.path(), sees_its_mounts: false };
        if tmpfs().is_err() {
            return;
        }
        let dead = Resource::Mount { target: target.clone(), mounted: there() };
        let text = serde_json::to_string(&dead).unwrap();
        assert_eq!(serde_json::from_str::<Resource>(&text).unwrap(), dead);
        unmount_now(&target);
        tmpfs().unwrap();
        let other = there().unwrap();
        // Without the id of its own it often is the same to the last letter.
        if other.unique.is_some() {
            dead.take_down(heir).unwrap();
            assert_eq!(there().as_ref(), Some(&other), "another's is left alone");
        }
        let ours = Resource::Mount { target: target.clone(), mounted: Some(other) };
        tmpfs().unwrap();
        let covered = ours.take_down(heir).unwrap_err();
        assert_eq!(covered, NotUndone::MountLeft { target: target.clone(), why: WhyLeft::CoveredMount });
        unmount_now(&target);
        ours.take_down(heir).unwrap();
        assert_eq!(there(), None);
        ours.take_down(heir).unwrap();
    }

    /// Needs root and the right to mount.
    #[test]
    fn what_an_older_version_noted_of_a_mount_or_directory_is_no_reason_to_touch_it() {
        use rustix::mount::{MountFlags, mount};
        use std::os::unix::fs::MetadataExt as _;
        let _alone = crate::agent::alone();
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().display().to_string();
        let older = |value| serde_json::from_value::<Resource>(value).unwrap();
        let directory = older(serde_json::json!({"directory": {"path": target}}));
        let refused =
            directory.take_down(By::Heir { work: Path::new("/none"), sees_its_mounts: false }).unwrap_err();
        let (path, why) = (target.clone(), WhyLeft::UnknownDirectory);
        assert_eq!(refused, NotUndone::DirectoryLeft { path, why });
        assert!(folder.path().is_dir());
        if mount("tmpfs", &target, "tmpfs", MountFlags::empty(), None).is_err() {
            return;
        }
        let device = fs::metadata(&target).unwrap().dev();
        let mounts = [Some(device), None]
            .map(|device| older(serde_json::json!({"mount": {"target": target, "device": device}})));
        let said = mounts
            .each_ref()
            .map(|mount| mount.take_down(By::Heir { work: folder.path(), sees_its_mounts: false }));
        let is_there = MountIdentity::at(folder.path()).unwrap().is_some();
        unmount_now(&target);
        assert!(is_there);
        for refused in said.map(Result::unwrap_err) {
            assert_eq!(refused, NotUndone::MountLeft { target: target.clone(), why: WhyLeft::UnknownMount });
        }
        assert_eq!(mounts[1].take_down(By::Maker), Ok(()), "nothing is mounted there any more");
    }

    #[test]
    fn what_an_older_version_noted_of_a_loop_device_or_setting_can_be_read() {
        let older = |value| serde_json::from_value::<Resource>(value).unwrap();
        let file = "/none".to_owned();
        assert_eq!(
            older(serde_json::json!({"loop-device": {"device": "/dev/loop0", "file": file}})),
            Resource::LoopDevice { device: "/dev/loop0".into(), file, mark: None }
        );
        let setting = older(serde_json::json!({"setting": {"path": "/sys/none", "former": "1"}}));
        let [path, former] = ["/sys/none", "1"].map(String::from);
        assert_eq!(setting, Resource::Setting { path, former, written: None, disk: None });
        let heir = By::Heir { work: Path::new("/none"), sees_its_mounts: true };
        assert_eq!(setting.take_down(heir), Ok(()), "there is none");
    }
}
