//! Watching the kernel's NFS server: whoever uses it waits for ever when it ends.
//!
//! Its threads are waited for, so that a watch costs nothing while they run.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{lock, nfs_server};
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
            if await_end().is_ok() && !self.is_to_end.load(Ordering::Relaxed) {
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

/// Waits until the server has no thread any more.
fn await_end() -> io::Result<()> {
    while nfs_server::threads() > 0 {
        let threads = threads()?;
        let mut ends: Vec<_> = threads.iter().map(|thread| PollFd::new(thread, PollFlags::IN)).collect();
        if ends.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        match poll(&mut ends, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
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
