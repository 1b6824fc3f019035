//! Requests from the side of their sender: what they are called in messages, and how long they may take.

use std::time::Duration;

use crate::command_line::shown;
use crate::message::Request;
use crate::spec::MachineTime;

/// If this variable is set, each request is printed with the time its answer took, and in virtual time where that stands afterwards. One that runs
/// programs is also printed when it is sent.
const REQUEST_LOG: &str = "NESTOR_LOG_REQUESTS";

/// Whether requests are printed.
pub(crate) fn are_logged() -> bool {
    std::env::var_os(REQUEST_LOG).is_some()
}

/// Whether the request runs programs, which may take long.
pub(super) fn runs_programs(request: &Request) -> bool {
    matches!(
        request,
        Request::Run(_)
            | Request::Together { .. }
            | Request::BeginTogether { .. }
            | Request::EndTogether { .. }
    )
}

/// What a request may take when it says nothing else.
const USUAL_LIMIT: Duration = Duration::from_secs(60);

/// What looking through a medium may take: gigabytes are read, and places all over a disk.
const INSPECTION_LIMIT: Duration = Duration::from_secs(600);

/// Whether the request boots a machine whose boot is watched in its own time.
pub(super) fn boots_in_virtual_time(request: &Request) -> bool {
    matches!(request, Request::StartMachine(spec) if spec.time != MachineTime::Real)
}

/// How long a machine may take to answer a request, without the allowance for machines on the way.
pub(super) fn own_limit(request: &Request) -> Duration {
    match request {
        Request::Run(command) => Duration::from_millis(command.timeout_ms) + Duration::from_secs(15),
        Request::StopProcess { grace_ms, .. } => Duration::from_millis(*grace_ms) + Duration::from_secs(15),
        Request::AwaitReady { timeout_ms, .. }
        | Request::KeepMachine { timeout_ms, .. }
        | Request::EndTogether { timeout_ms, .. } => Duration::from_millis(*timeout_ms) + USUAL_LIMIT,
        Request::StartMachine(spec) => {
            Duration::from_millis(spec.boot_timeout_ms + spec.probe_timeout_ms) + USUAL_LIMIT
        }
        Request::Inspect { .. } => INSPECTION_LIMIT,
        Request::Together { lines } => limit_of_lines(lines) + USUAL_LIMIT,
        Request::Forward { timeout_ms, .. } => Duration::from_millis(*timeout_ms) + USUAL_LIMIT,
        Request::ShutDownMachine { limit_ms, .. } => Duration::from_millis(*limit_ms) + USUAL_LIMIT,
        _ => USUAL_LIMIT,
    }
}

/// How long the longest of several lines may take.
pub(super) fn limit_of_lines(lines: &[Vec<Request>]) -> Duration {
    let of_line = |line: &Vec<Request>| line.iter().map(own_limit).sum::<Duration>();
    lines.iter().map(of_line).max().unwrap_or_default()
}

/// A request in one line, for the log.
pub(super) fn describe(request: &Request) -> String {
    match request {
        Request::Run(command) | Request::StartProcess { command, .. } => shown(&command.argv),
        Request::WriteFile { path, .. }
        | Request::CreateFile { path, .. }
        | Request::ReadFile { path, .. }
        | Request::Set { path, .. } => format!("{} {path}", request_name(request)),
        Request::Forward { request, .. } => describe(request),
        Request::Together { lines } | Request::BeginTogether { lines } => {
            lines.iter().flatten().map(describe).collect::<Vec<_>>().join("; ")
        }
        Request::AwaitReady { sign, .. } => format!("{}: {sign}", request_name(request)),
        _ => request_name(request).to_owned(),
    }
}

/// A request in a few words, for messages.
pub(super) fn request_name(request: &Request) -> &'static str {
    match request {
        Request::Facts => "describe the machine",
        Request::Run(_) => "run a program",
        Request::StartProcess { .. } => "start a program",
        Request::StopProcess { .. } => "stop a program",
        Request::AwaitReady { .. } => "wait until a program is ready",
        Request::WriteFile { .. } => "write a file",
        Request::ReadFile { .. } => "read a file",
        Request::MakeDirectory { .. } => "make a directory",
        Request::Mount(_) => "mount",
        Request::Unmount { .. } => "unmount",
        Request::AttachLoop { .. } => "make a loop device",
        Request::DetachLoop { .. } => "detach a loop device",
        Request::Claim { .. } => "take a medium",
        Request::Inspect { .. } => "look at a medium",
        Request::EraseAtRelease { .. } => "mark a medium for erasure",
        Request::Release { .. } => "release a medium",
        Request::MakeOwnDirectory { .. } => "make a directory in one of the user's",
        Request::RemoveOwnDirectory { .. } => "remove a directory in one of the user's",
        Request::Set { .. } => "change a setting",
        Request::FindDisk { .. } => "find a disk",
        Request::StartMachine(_) => "boot a machine",
        Request::StartApart { .. } => "start an agent in namespaces of its own",
        Request::OwnNfsServer(_) => "note the NFS server",
        Request::WatchNfsServer => "watch the NFS server",
        Request::EndNfsServer(_) => "end the NFS server",
        Request::ReadClock { .. } => "read the clock",
        Request::ReadTicks => "read the processor's counter",
        Request::TickOffset { .. } => "read the offset of a counter",
        Request::ServedRequests { .. } => "read what was served of a disk",
        Request::PowerOff => "power off",
        Request::ShutDownMachine { .. } => "shut a machine down",
        Request::StopMachine { .. } => "stop a machine",
        Request::TakeInstructions { .. } => "read the counted instructions",
        Request::KeepMachine { .. } => "keep a machine's state",
        Request::AttachDisk { .. } => "plug in a disk",
        Request::DetachDisk { .. } => "unplug a disk",
        Request::Prefetch { .. } => "ask how far a backing file is copied",
        Request::AttachInterface { .. } => "plug in a network interface",
        Request::DetachInterface { .. } => "unplug a network interface",
        Request::JoinMachines { .. } => "join machines",
        Request::Pause { .. } => "pause",
        Request::Forward { .. } => "pass on a request",
        Request::Together { .. } => "do several things at once",
        Request::BeginTogether { .. } => "begin several things at once",
        Request::EndTogether { .. } => "end several things at once",
        Request::TakeDown => "take everything down",
        Request::MakePrivateDirectory { .. } => "make a private directory",
        Request::CreateFile { .. } => "make a file",
        Request::MixRandom { .. } => "seed random numbers",
    }
}
