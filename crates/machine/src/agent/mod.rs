//! The agent: obeys requests on one byte stream, at every level, and takes down what it made when the stream ends.

pub mod ledger;
mod leftovers;
mod linked;
pub(crate) mod loop_device;
mod machines;
mod media;
mod nfs_server;
mod nfs_server_watch;
mod origin;
mod private;
pub mod process;
pub(crate) mod random;
mod requests;
mod resource;
mod settings;
mod together;
mod undoing;
mod users_directory;
mod work_root;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use nestor_stack::{Accelerator, HypervisorKind};

use crate::connection::GREETING;
use crate::hypervisor::{OutlivingMachine, RunningMachine};
use crate::message::{Answer, Envelope, PROTOCOL, Request, read_frame, write_frame};
use crate::not_undone::NotUndone;
use crate::place::MachinePlace;
use crate::refusal::{Cause, Refusal};
use crate::ticks::monotonic_ns;
use ledger::Ledger;
use linked::Programs;
use nestor_stop::lock;
use nfs_server_watch::Unasked;
use process::Spawner;
use resource::Resource;
use together::Begun;
pub use work_root::{WorkRoot, WorkRootError, work_root};

/// What an agent knows: shared by the threads that serve its requests.
pub struct Agent {
    work_directory: PathBuf,
    spawner: Spawner,
    ledger: Mutex<Ledger>,
    machines: Mutex<HashMap<MachinePlace, Booted>>,
    processes: Arc<Programs>,
    /// Process groups of programs that run to their end, to be killed if the stream ends first.
    running: Mutex<Vec<u32>>,
    /// Machines that other programs run, until they are up, by their entries in the ledger: to be ended if the stream ends first.
    coming: Mutex<Vec<(u64, OutlivingMachine)>>,
    /// Media of the user's that are ours for now; the open files hold their locks.
    claimed: Mutex<HashMap<String, fs::File>>,
    /// Those that were ours, as they were left.
    left: Mutex<HashMap<String, media::Identity>>,
    /// Requests that are being carried out, and whether further ones are refused.
    under_way: Mutex<UnderWay>,
    /// What hypervisors were found to have here.
    accelerators: Mutex<HashMap<ProbedHypervisor, Accelerator>>,
    /// Where a machine of the lab says what nobody has asked for.
    unasked: OnceLock<Unasked>,
    /// Whether the NFS server that is watched is to end.
    nfs_server_ends: Mutex<Option<Arc<AtomicBool>>>,
    /// When this process began.
    begun_ns: u64,
    /// Itself, once it serves.
    own: OnceLock<Weak<Self>>,
    /// Lines of requests that go on beside others.
    begun: Mutex<BTreeMap<u64, Begun>>,
}

/// A hypervisor, and how its program is started where that is one of the user's.
type ProbedHypervisor = (HypervisorKind, Option<Vec<String>>);

/// A machine that this agent booted.
struct Booted {
    /// Of the ledger.
    entry: u64,
    machine: Arc<dyn RunningMachine>,
}

#[derive(Default)]
struct UnderWay {
    requests: usize,
    closed: bool,
}

/// How long programs that were killed may wait for a file server before what they wait for is ended, too.
const LET_GO_AFTER: Duration = Duration::from_secs(2);

/// How long take-down waits for requests that it has cut short.
const CUT_SHORT_LIMIT: Duration = Duration::from_secs(20);

impl Agent {
    /// An agent with a work directory of its own below `root`.
    ///
    /// # Errors
    /// When the directory cannot be made, or `root` is not this user's alone.
    pub fn new(root: &Path) -> Result<Self, WorkRootError> {
        let run = WorkRoot::make(root)?.make_run()?;
        let work_directory = run.path().to_owned();
        let ledger = Ledger::create(run).map_err(|source| {
            let _ = fs::remove_dir_all(&work_directory);
            WorkRootError::System { path: work_directory.clone(), source }
        })?;
        Ok(Self {
            ledger: Mutex::new(ledger),
            work_directory,
            spawner: Spawner::new(),
            machines: Mutex::default(),
            processes: Arc::default(),
            running: Mutex::default(),
            coming: Mutex::default(),
            claimed: Mutex::default(),
            left: Mutex::default(),
            under_way: Mutex::default(),
            accelerators: Mutex::default(),
            unasked: OnceLock::new(),
            nfs_server_ends: Mutex::default(),
            begun_ns: monotonic_ns(),
            own: OnceLock::new(),
            begun: Mutex::default(),
        })
    }

    /// The same, whose process began at an earlier time of [`monotonic_ns`].
    #[must_use]
    pub fn begun_at(self, begun_ns: u64) -> Self {
        Self { begun_ns, ..self }
    }

    /// Serves requests until the stream ends, then takes everything down. Returns what could not be undone.
    pub fn serve(
        self: &Arc<Self>,
        mut reader: impl Read,
        writer: impl Write + Send + 'static,
    ) -> Vec<NotUndone> {
        self.is_served_by(self);
        let writer: Unasked = Arc::new(Mutex::new(Box::new(writer)));
        if std::process::id() == 1 {
            // An agent of the user's machine would have to be asked to undo things after that.
            let _ = self.unasked.set(Arc::clone(&writer));
        }
        let hello = Envelope { number: GREETING, body: Answer::Hello { protocol: PROTOCOL } };
        if write_frame(&mut *lock(&writer), &hello).is_ok() {
            while let Ok(envelope) = read_frame::<Envelope<Request>>(&mut reader) {
                let (agent, writer) = (Arc::clone(self), Arc::clone(&writer));
                std::thread::spawn(move || {
                    let body = agent
                        .obey_unless_closed(envelope.body)
                        .unwrap_or_else(|e| Answer::Failed(e.clipped()));
                    // If the controller is gone, the serving loop notices by itself.
                    let _ = write_frame(&mut *lock(&writer), &Envelope { number: envelope.number, body });
                });
            }
        }
        self.finish()
    }

    /// Takes everything down and, if nothing is left, removes the work directory. Returns what could not be undone.
    pub fn finish(&self) -> Vec<NotUndone> {
        let problems = self.take_down();
        if problems.is_empty() {
            let _ = lock(&self.ledger).directory().remove();
        }
        problems
    }

    /// Carries out a request, unless everything is being taken down: nothing may be made behind its back.
    fn obey_unless_closed(&self, request: Request) -> Result<Answer, Refusal> {
        if matches!(request, Request::TakeDown) {
            return self.obey(request);
        }
        {
            let mut under_way = lock(&self.under_way);
            if under_way.closed {
                return Err(Refusal::taken_down());
            }
            under_way.requests += 1;
        }
        let answer = self.obey(request);
        lock(&self.under_way).requests -= 1;
        answer
    }

    /// Takes down everything, last made first, and refuses all further requests.
    pub fn take_down(&self) -> Vec<NotUndone> {
        lock(&self.under_way).closed = true;
        self.expect_end_of_nfs_server();
        let _watched = self.let_go_of_servers_meanwhile();
        // Requests in flight may still make something, so they are cancelled and waited for.
        let deadline = Instant::now() + CUT_SHORT_LIMIT;
        loop {
            self.end_running();
            if lock(&self.under_way).requests == 0 || Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let problems = lock(&self.ledger).take_down();
        lock(&self.claimed).clear();
        for (_, (_, mut child)) in lock(&self.processes).drain() {
            let _ = child.wait();
        }
        problems
    }
}

impl Agent {
    /// Ends the calls that file servers do not answer, until what is returned is dropped: a program that was killed may wait for a server that is
    /// gone, and the request for it, a machine whose image lies there, or a file system on it that is unmounted.
    fn let_go_of_servers_meanwhile(&self) -> Sender<()> {
        let (watched, is_over) = channel();
        let mounts = lock(&self.ledger).served_mounts();
        if !mounts.is_empty() {
            std::thread::spawn(move || {
                while is_over.recv_timeout(LET_GO_AFTER) == Err(RecvTimeoutError::Timeout) {
                    mounts.iter().for_each(Resource::let_go_of_server);
                }
            });
        }
        watched
    }

    /// Kills what requests wait for: programs, machines that boot, machines that are up.
    fn end_running(&self) {
        for group in std::mem::take(&mut *lock(&self.running)) {
            if let Some(group) = i32::try_from(group).ok().and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
        }
        let coming: Vec<_> = lock(&self.coming).drain(..).collect();
        for (_, machine) in coming {
            // The request that boots it ends with it. What is still there, the ledger names.
            let _ = machine.end(&self.spawner);
        }
        let machines: Vec<_> = lock(&self.machines).drain().collect();
        for (_, Booted { entry, machine }) in machines {
            machine.stop();
            self.strike_ended(entry, &*machine);
        }
    }
}

/// Sends the controller, in place of a greeting, the reason why the agent cannot run.
pub fn decline(mut writer: impl Write, reason: &str) {
    // Without a controller, the error has no reader.
    let _ = write_frame(
        &mut writer,
        &Envelope { number: 0, body: Answer::Failed(Refusal::new(Cause::Other, reason)) },
    );
}

/// For tests that mount: a mount namespace that one of them makes has a copy of what the others have mounted.
#[cfg(test)]
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    lock(&ALONE)
}
