//! Watching the kernel's NFS server: whoever uses it waits for ever when it ends.
//!
//! Its threads are waited for, so that a watch costs nothing while they run.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use nestor_stop::lock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::connection::GREETING;
use crate::hypervisor::RunningMachine;
use crate::loss::Loss;
use crate::message::{Answer, Envelope, write_frame};
use crate::refusal::Refusal;

/// Where an agent says what nobody has asked for.
pub(super) type Unasked = Arc<Mutex<Box<dyn Write + Send>>>;

/// What the kernel calls each thread of its server (`nfsd_svc` in fs/nfsd/nfssvc.c).
const THREAD: &str = "nfsd";

/// In the flags of a thread of the kernel (`PF_KTHREAD` in include/linux/sched.h).
const KERNEL_THREAD: u32 = 0x0020_0000;

/// Who is to hear that the server has ended.
pub(super) struct NfsServerWatch {
    /// Machines of this agent, which may use it.
    pub(super) users: Vec<Weak<dyn RunningMachine>>,
    /// Whoever asks this agent, if that has others that may.
    pub(super) unasked: Option<Unasked>,
    /// It was asked to end.
    pub(super) is_to_end: Arc<AtomicBool>,
}

impl NfsServerWatch {
    pub(super) fn begin(self) {
        std::thread::spawn(move || {
            // Without the kernel's list of processes, its time limits end the load.
            if await_end(threads).is_ok() && !self.is_to_end.load(Ordering::Relaxed) {
                self.tell();
            }
        });
    }

    fn tell(&self) {
        let users = self.users.iter().filter_map(Weak::upgrade);
        users.for_each(|machine| machine.give_up(Loss::NfsServer));
        if let Some(writer) = &self.unasked {
            let body = Answer::Failed(Refusal::given_up(Loss::NfsServer));
            // Without a reader, nobody uses the server.
            let _ = write_frame(&mut *lock(writer), &Envelope { number: GREETING, body });
        }
    }
}

/// Waits until the server has no thread any more. It had some: that none is found at first means that they cannot be seen.
///
/// The kernel's own count of them is not asked, because it may follow their ends.
fn await_end(mut threads: impl FnMut() -> io::Result<Vec<OwnedFd>>) -> io::Result<()> {
    let mut running = threads()?;
    if running.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    while !running.is_empty() {
        let mut ends: Vec<_> = running.iter().map(|thread| PollFd::new(thread, PollFlags::IN)).collect();
        match poll(&mut ends, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        running = threads()?;
    }
    Ok(())
}

/// The threads of all servers of this kernel that have not ended.
fn threads() -> io::Result<Vec<OwnedFd>> {
    let is_one = |stat: &procfs::process::Stat| stat.comm == THREAD && stat.flags & KERNEL_THREAD != 0;
    let processes = procfs::process::all_processes().map_err(io::Error::other)?;
    let stats = processes.filter_map(|process| process.ok()?.stat().ok());
    let threads = stats.filter(is_one).filter_map(|stat| Pid::from_raw(stat.pid));
    Ok(threads.filter_map(|thread| pidfd_open(thread, PidfdFlags::empty()).ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// Those of some processes that have not ended.
    fn running(processes: &mut [Child]) -> io::Result<Vec<OwnedFd>> {
        let mut found = Vec::new();
        for process in processes {
            if process.try_wait()?.is_none() {
                found.push(pidfd_open(Pid::from_child(process), PidfdFlags::empty())?);
            }
        }
        Ok(found)
    }

    #[test]
    fn a_server_has_ended_when_none_of_its_threads_is_left() {
        let sleeping = || Command::new("sleep").arg("600").spawn().unwrap();
        let mut processes = [sleeping(), sleeping(), sleeping()];
        let mut looks = 0;
        let ended = await_end(|| {
            let left = running(&mut processes)?;
            assert_eq!(left.len(), 3 - looks, "it looks again when one has ended");
            if let Some(next) = processes.get_mut(looks) {
                next.kill()?;
            }
            looks += 1;
            Ok(left)
        });
        assert!(ended.is_ok() && looks == 4, "{ended:?} after {looks}");
        processes.iter_mut().for_each(|process| _ = process.wait());
        // One whose threads cannot be seen is not known to have ended.
        assert_eq!(await_end(|| Ok(Vec::new())).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
