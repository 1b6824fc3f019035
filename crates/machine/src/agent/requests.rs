//! What the agent does for each request.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command as OsCommand;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nestor_stop::lock;
use rustix::fs::OFlags;
use rustix::mount::{UnmountFlags, unmount};

use super::ledger::{By, DirectoryIdentity, Resource, process_start_ticks};
use super::nfs_server::{self, ServerTimes};
use super::nfs_server_watch::NfsServerWatch;
use super::{Agent, loop_device, media, private, process, random, settings};
use crate::command_line::shown;
use crate::disks;
use crate::facts;
use crate::init;
use crate::message::{Answer, Command, MAX_FRAME_BYTES, ReadySign, Request};
use crate::mounting::Mounting;
use crate::nfs_export::NfsExport;
use crate::refusal::{Cause, FileKind, ProgramEnd, Refusal};
use crate::ticks::{TickReading, monotonic_ns};
use nestor_kernel::mounts::MountIdentity;

pub(super) type Obeyed = Result<Answer, Refusal>;

/// How often it is looked whether a program is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

fn mix_random(data: &[u8]) -> Obeyed {
    let data = random::whole(data)
        .ok_or_else(|| Refusal::new(Cause::Other, "the seed for random numbers must have 64 bytes"))?;
    let what = "the kernel's random number generator could not be seeded, which needs root";
    random::mix(data).map(|()| Answer::Done).map_err(|e| Refusal::of_io(what, &e))
}

fn is_shown(sign: &ReadySign) -> bool {
    match sign {
        ReadySign::File(path) => Path::new(path).exists(),
        ReadySign::Socket(path) => UnixStream::connect(path).is_ok(),
        ReadySign::Port(address) => TcpStream::connect(address).is_ok(),
    }
}

fn read_clock(mark: bool) -> Obeyed {
    if mark {
        nestor_vtime::protocol::mark();
    }
    Ok(Answer::Clock(monotonic_ns()))
}

fn pause(time: Duration) -> Obeyed {
    std::thread::sleep(time);
    Ok(Answer::Done)
}

impl Agent {
    /// Carries out one request.
    ///
    /// # Errors
    /// What happened, where, what to do.
    pub(super) fn obey(&self, request: Request) -> Obeyed {
        let ms = Duration::from_millis;
        match request {
            Request::Facts => Ok(Answer::Facts(facts::of_this_machine(&self.work_directory, self.begun_ns))),
            Request::Run(command) => self.run(&command),
            Request::StartProcess { command, output } => self.start_process(&command, &output),
            Request::StopProcess { process, grace_ms } => self.stop_process(process, grace_ms),
            Request::AwaitReady { process, sign, timeout_ms } => self.await_ready(process, &sign, timeout_ms),
            Request::WriteFile { path, contents } => write_file(&path, &contents),
            Request::ReadFile { path, offset, max_bytes } => read_file(&path, offset, max_bytes),
            Request::MakeDirectory { path } => self.make_directory(&path),
            Request::Mount(mounting) => self.mount(&mounting),
            Request::Unmount { target } => self.unmount(&target),
            Request::AttachLoop { file, direct_io } => self.attach_loop(&file, direct_io),
            Request::DetachLoop { device } => self.detach_loop(&device),
            Request::Claim { path, kind } => self.claim(path, kind),
            Request::Inspect { path } => self.inspect(&path),
            Request::EraseAtRelease { path } => self.erase_at_release(path),
            Request::Release { path } => self.release(&path),
            Request::MakeOwnDirectory { within, kept } => self.make_own_directory(&within, &kept),
            Request::RemoveOwnDirectory { path } => self.remove_own_directory(&path),
            Request::Set { path, value } => self.set(&path, &value),
            Request::FindDisk { mark, timeout_ms } => disks::find(&mark, ms(timeout_ms)).map(Answer::Device),
            Request::StartMachine(spec) => self.start_machine(&spec),
            Request::StartApart { machine } => self.start_apart(machine),
            Request::OwnNfsServer(export) => self.own_nfs_server(&export),
            Request::WatchNfsServer => self.watch_nfs_server(),
            Request::EndNfsServer(export) => self.end_nfs_server(&export),
            Request::KeepMachine { machine, path, timeout_ms } => {
                self.keep_machine(machine, &path, ms(timeout_ms))
            }
            Request::TakeInstructions { machine } => self.take_instructions(machine),
            Request::ReadClock { mark } => read_clock(mark),
            Request::ReadTicks => Ok(Answer::Ticks(TickReading::now())),
            Request::TickOffset { machine } => Ok(Answer::TickOffset(self.machine(machine)?.tick_offset()?)),
            Request::ServedRequests { machine } => {
                Ok(Answer::Served(self.machine(machine)?.served_requests()?))
            }
            Request::PowerOff => self.power_off(),
            Request::ShutDownMachine { machine, limit_ms } => self.shut_down_machine(machine, ms(limit_ms)),
            Request::StopMachine { machine } => self.stop_machine(machine),
            Request::AttachDisk { machine, disk } => self.with_disk(machine, &disk, |m| m.attach(&disk)),
            Request::DetachDisk { machine, disk } => self.with_disk(machine, &disk, |m| m.detach(&disk)),
            Request::Prefetch { machine, disk } => {
                Ok(Answer::Prefetch(self.machine(machine)?.prefetch(&disk)?))
            }
            Request::AttachInterface { machine, interface } => self.attach_interface(machine, &interface),
            Request::DetachInterface { machine, interface } => self.detach_interface(machine, &interface),
            Request::JoinMachines { machines, server, control } => {
                self.join_machines(&machines, server, &control)
            }
            Request::Pause { ms: time_ms } => pause(ms(time_ms)),
            Request::Forward { machine, timeout_ms, request } => self.forward(machine, timeout_ms, *request),
            Request::MakePrivateDirectory { prefix } => self.make_private_directory(&prefix),
            Request::CreateFile { path, contents } => self.create_file(&path, &contents),
            Request::MixRandom { data } => mix_random(&data),
            Request::Together { lines } => Ok(Answer::Together(self.together(lines))),
            Request::BeginTogether { lines } => self.begin_together(lines),
            Request::EndTogether { begun, .. } => self.end_together(begun),
            Request::TakeDown => self.take_all_down(),
        }
    }

    fn take_all_down(&self) -> Obeyed {
        match self.take_down() {
            problems if problems.is_empty() => Ok(Answer::Done),
            problems => Err(Refusal::not_undone(problems)),
        }
    }

    /// Does not return where it succeeds.
    fn power_off(&self) -> Obeyed {
        if !init::is_first_process() {
            let message = "only a machine of the lab is powered off";
            return Err(Refusal::new(Cause::NotSupported, message));
        }
        // This request is one of those under way, which taking down all of them would wait for.
        let problems = lock(&self.ledger).take_down();
        if !problems.is_empty() {
            return Err(Refusal::not_undone(problems));
        }
        init::power_off()
    }

    fn run(&self, command: &Command) -> Obeyed {
        let mut group = 0;
        let finished = process::run(&self.spawner, command, |child| {
            group = child.id();
            lock(&self.running).push(group);
        });
        lock(&self.running).retain(|&g| g != group);
        finished.map(Answer::Finished)
    }

    fn start_process(&self, command: &Command, output: &str) -> Obeyed {
        let child = process::start(&self.spawner, command, output)?;
        let pid = child.id();
        let what = shown(&command.argv);
        let entry = self.enter(Resource::Process {
            pid,
            start_ticks: process_start_ticks(pid).unwrap_or_default(),
            what,
        })?;
        lock(&self.processes).insert(pid, (entry, child));
        Ok(Answer::Started { process: pid })
    }

    fn stop_process(&self, pid: u32, grace_ms: u64) -> Obeyed {
        let started = lock(&self.processes).remove(&pid);
        let (entry, mut child) = started.ok_or_else(|| self.no_such_process(pid))?;
        let finished = process::stop(&mut child, Duration::from_millis(grace_ms))
            .map_err(|e| Refusal::of_io(&format!("waiting for process {pid} failed"), &e))?;
        lock(&self.ledger).strike(entry);
        Ok(Answer::Finished(finished))
    }

    fn await_ready(&self, pid: u32, sign: &ReadySign, timeout_ms: u64) -> Obeyed {
        let limit = Duration::from_millis(timeout_ms);
        let deadline = Instant::now() + limit;
        loop {
            let ended = match lock(&self.processes).get_mut(&pid) {
                Some((_, child)) => child.try_wait().ok().flatten(),
                None => return Err(self.no_such_process(pid)),
            };
            // Looked for after the program: one that has ended shows nothing more.
            if is_shown(sign) {
                return Ok(Answer::Done);
            }
            if let Some(status) = ended {
                let (program, ended) = (self.name_of(pid), ProgramEnd::of(status));
                let message = format!("{program} {ended} and has not {sign}");
                return Err(Refusal::new(Cause::ProgramFailed { program, ended }, message));
            }
            if Instant::now() >= deadline {
                let program = self.name_of(pid);
                let message = format!("{program} has not {sign} within {} s", limit.as_secs());
                return Err(Refusal::new(Cause::TimedOut, message));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Why a process is not among those that were started here: it was taken down with all others, or never was.
    fn no_such_process(&self, pid: u32) -> Refusal {
        match lock(&self.under_way).closed {
            true => Refusal::taken_down(),
            false => Refusal::new(Cause::Other, format!("process {pid} was not started by nestor")),
        }
    }

    /// A program that was started here, for a message: `rpc.mountd (process 1278)`.
    fn name_of(&self, process: u32) -> String {
        let is_it = |r: &Resource| matches!(r, Resource::Process { pid, .. } if *pid == process);
        let started = lock(&self.ledger).find(is_it);
        let program = match &started {
            Some((_, Resource::Process { what, .. })) => what.split_whitespace().next(),
            _ => None,
        };
        program
            .map_or_else(|| format!("process {process}"), |program| format!("{program} (process {process})"))
    }

    fn make_directory(&self, path: &str) -> Obeyed {
        if Path::new(path).is_dir() {
            return Ok(Answer::Done);
        }
        let failed = |e: io::Error| Refusal::of_io(&format!("the directory {path} could not be made"), &e);
        if let Some(above) = Path::new(path).parent() {
            fs::create_dir_all(above).map_err(failed)?;
        }
        let directory = |made| Resource::Directory { path: path.to_owned(), made };
        let coming = self.enter(directory(None))?;
        let made = fs::create_dir(path);
        if let Err(e) = made {
            // Another's, if it is there: not to be removed.
            lock(&self.ledger).strike(coming);
            return if Path::new(path).is_dir() { Ok(Answer::Done) } else { Err(failed(e)) };
        }
        self.revise(coming, directory(DirectoryIdentity::at(Path::new(path))))?;
        Ok(Answer::Done)
    }

    /// Notes a server that is started next, and makes it controllable.
    fn own_nfs_server(&self, export: &NfsExport) -> Obeyed {
        let failed = |e: io::Error| {
            Refusal::of_io("what controls the kernel's NFS server could not be mounted at /proc/fs/nfsd", &e)
        };
        let is_control_ours = !nfs_server::is_controlled().map_err(failed)?;
        let noted = |former| Resource::NfsServer { export: export.clone(), former, is_control_ours };
        let coming = self.enter(noted(ServerTimes::default()))?;
        if is_control_ours && let Err(e) = nfs_server::mount_control() {
            lock(&self.ledger).strike(coming);
            return Err(failed(e));
        }
        // Only what is mounted shows the times.
        self.revise(coming, noted(ServerTimes::now())).map(|()| Answer::Done)
    }

    fn mount(&self, mounting: &Mounting) -> Obeyed {
        let Mounting { source, target, file_system, .. } = mounting;
        self.make_directory(target)?;
        // An agent that is killed now does not know what came to be mounted there.
        let mount = |mounted| Resource::Mount { target: target.clone(), mounted };
        let coming = self.enter(mount(None))?;
        let argv = mounting.command();
        let mut command = OsCommand::new(&argv[0]);
        command.args(&argv[1..]);
        let what = format!("mounting {source} as {file_system} on {target} failed");
        let made = run_tool(command, &what).and_then(|_| match MountIdentity::at(Path::new(target)) {
            Ok(Some(mounted)) => Ok(mounted),
            unknown => {
                // Later it could not be known whose it is.
                let _ = unmount(target, UnmountFlags::empty());
                let why = unknown.err().map_or_else(|| "nothing is there".to_owned(), |e| e.to_string());
                Err(Refusal::new(Cause::Other, format!("{what}: the new mount cannot be looked at: {why}")))
            }
        });
        match made {
            Ok(mounted) => self.revise(coming, mount(Some(mounted))).map(|()| Answer::Done),
            Err(e) => {
                lock(&self.ledger).strike(coming);
                Err(match e.cause {
                    Cause::ProgramFailed { .. } => Refusal { cause: Cause::NotMounted, ..e },
                    _ => e,
                })
            }
        }
    }

    /// From now on whoever uses the server hears when it ends by itself.
    fn watch_nfs_server(&self) -> Obeyed {
        let users = lock(&self.machines).values().map(|user| Arc::downgrade(&user.machine)).collect();
        let watch = NfsServerWatch { users, unasked: self.unasked.get().cloned(), is_to_end: Arc::default() };
        if let Some(former) = lock(&self.nfs_server_ends).replace(Arc::clone(&watch.is_to_end)) {
            former.store(true, Ordering::Relaxed);
        }
        watch.begin();
        Ok(Answer::Done)
    }

    fn end_nfs_server(&self, export: &NfsExport) -> Obeyed {
        self.expect_end_of_nfs_server();
        let is_it = |r: &Resource| matches!(r, Resource::NfsServer { export: e, .. } if e == export);
        self.undo(&format!("nestor did not start an NFS server for {export}"), is_it)
    }

    /// It is ended now because that was asked for.
    pub(super) fn expect_end_of_nfs_server(&self) {
        if let Some(watched) = lock(&self.nfs_server_ends).take() {
            watched.store(true, Ordering::Relaxed);
        }
    }

    fn unmount(&self, target: &str) -> Obeyed {
        let is_it = |r: &Resource| matches!(r, Resource::Mount { target: t, .. } if t == target);
        self.undo(&format!("{target} is not mounted by nestor"), is_it)
    }

    fn attach_loop(&self, file: &str, direct_io: bool) -> Obeyed {
        let failed = |e: io::Error| Refusal::of_io(&format!("making a loop device of {file} failed"), &e);
        let mark = loop_device::new_mark().map_err(failed)?;
        let noted = |device: &str| Resource::LoopDevice {
            device: device.to_owned(),
            file: file.to_owned(),
            mark: Some(mark.clone()),
        };
        // An agent that is killed now leaves a device of which it does not know the name.
        let coming = self.enter(noted(""))?;
        match loop_device::attach(Path::new(file), direct_io, &mark) {
            Ok(device) => self.revise(coming, noted(&device)).map(|()| Answer::Device(device)),
            Err(e) => {
                lock(&self.ledger).strike(coming);
                Err(failed(e))
            }
        }
    }

    fn detach_loop(&self, device: &str) -> Obeyed {
        let is_it = |r: &Resource| matches!(r, Resource::LoopDevice { device: d, .. } if d == device);
        self.undo(&format!("{device} is not a loop device of nestor's"), is_it)
    }

    fn claim(&self, path: String, kind: FileKind) -> Obeyed {
        let file = media::claim(&path, kind)?;
        lock(&self.claimed).insert(path, file);
        Ok(Answer::Done)
    }

    fn inspect(&self, path: &str) -> Obeyed {
        let medium = lock(&self.claimed).get(path).map(fs::File::try_clone);
        let medium = medium.ok_or_else(|| Refusal::new(Cause::NotThere, format!("{path} was not taken")))?;
        let medium = medium.map_err(|e| Refusal::of_io(&format!("{path} could not be looked at"), &e))?;
        let left = lock(&self.left).get(path).cloned();
        if left.is_some() && left == media::Identity::of(&medium) {
            return Ok(Answer::Found(None));
        }
        let found = media::found_in(&medium)
            .map_err(|e| Refusal::of_io(&format!("{path} could not be looked at"), &e))?;
        Ok(Answer::Found(found))
    }

    fn erase_at_release(&self, path: String) -> Obeyed {
        self.enter(Resource::Signatures { path }).map(|_| Answer::Done)
    }

    fn release(&self, path: &str) -> Obeyed {
        let is_it = |r: &Resource| matches!(r, Resource::Signatures { path: p } if *p == path);
        let erased = lock(&self.ledger).find(is_it);
        if let Some((number, resource)) = erased {
            resource.take_down(By::Maker)?;
            lock(&self.ledger).strike(number);
            let left = lock(&self.claimed).get(path).and_then(media::Identity::of);
            left.map(|left| lock(&self.left).insert(path.to_owned(), left));
        }
        lock(&self.claimed).remove(path);
        Ok(Answer::Done)
    }

    fn set(&self, path: &str, value: &str) -> Obeyed {
        let former = settings::read(path)
            .map_err(|e| Refusal::of_io(&format!("the setting {path} could not be read"), &e))?;
        let disk = settings::disk_of(path);
        let noted = |written: &str| Resource::Setting {
            path: path.to_owned(),
            former: former.clone(),
            written: Some(written.to_owned()),
            disk,
        };
        let entry = self.enter(noted(value.trim()))?;
        if let Err(e) = settings::write(path, value) {
            lock(&self.ledger).strike(entry);
            return Err(Refusal::of_io(&format!("{path} could not be set to `{value}`"), &e));
        }
        // The kernel may round it, or write it in another way.
        match settings::read(path) {
            Ok(written) if written != value.trim() => self.revise(entry, noted(&written))?,
            _ => {}
        }
        Ok(Answer::Done)
    }

    pub(super) fn enter(&self, resource: Resource) -> Result<u64, Refusal> {
        lock(&self.ledger).enter(resource).map_err(|e| self.unwritten(&e))
    }

    fn revise(&self, number: u64, resource: Resource) -> Result<(), Refusal> {
        lock(&self.ledger).revise(number, resource).map_err(|e| self.unwritten(&e))
    }

    fn unwritten(&self, error: &io::Error) -> Refusal {
        Refusal::of_io(
            &format!("the ledger in {} could not be written", self.work_directory.display()),
            error,
        )
    }

    pub(super) fn undo(&self, missing: &str, matches: impl Fn(&Resource) -> bool) -> Obeyed {
        let (number, resource) =
            lock(&self.ledger).find(matches).ok_or_else(|| Refusal::new(Cause::NotThere, missing))?;
        resource.take_down(By::Maker)?;
        lock(&self.ledger).strike(number);
        Ok(Answer::Done)
    }
}

fn run_tool(mut command: OsCommand, what: &str) -> Result<String, Refusal> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.env("LC_ALL", "C");
    let output = command
        .output()
        .map_err(|e| Refusal::cannot_start(std::slice::from_ref(&program), &e).within(what))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        let cause = Cause::of_program(&program, ProgramEnd::of(output.status), &said);
        return Err(Refusal::new(cause, said).within(what));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn write_file(path: &str, contents: &[u8]) -> Obeyed {
    if let Some(parent) = Path::new(path).parent() {
        fs::create_dir_all(parent).map_err(|e| {
            Refusal::of_io(&format!("the directory {} could not be made", parent.display()), &e)
        })?;
    }
    private::open_to_write(Path::new(path), OFlags::TRUNC)
        .and_then(|mut file| file.write_all(contents))
        .map(|()| Answer::Done)
        .map_err(|e| Refusal::of_io(&format!("{path} could not be written"), &e))
}

fn read_file(path: &str, offset: u64, max_bytes: u64) -> Obeyed {
    let read = || {
        let mut file = fs::File::open(path)?;
        if offset > 0 {
            file.seek(SeekFrom::Start(offset))?;
        }
        let mut bytes = Vec::new();
        file.take(max_bytes.min(u64::from(MAX_FRAME_BYTES) - 4096)).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    read().map(Answer::Bytes).map_err(|e| Refusal::of_io(&format!("{path} could not be read"), &e))
}

#[cfg(test)]
mod tests;
