//! A recorder: a process in a machine of the stack, started before the workload and stopped after it.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use nestor_capture::READY_FILE;
use nestor_kernel::out_of_memory::OutOfMemory;
use nestor_lab::{BlockPoint, BuiltStack, VirtualDisk};
use nestor_machine::{Command, Machine, ReadySign, hypervisor};
use nestor_stack::{LayerIndex, MachineIndex};
use nestor_text::units::bytes;
use nestor_trace::CallEnd;

use super::calls::CallPoint;
use super::{CellError, kernel_log};

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The block device that this layer offers.
    Point(LayerIndex),
    /// The requests of the hypervisor that is this layer.
    VirtualDisk(LayerIndex),
    /// The calls of the network file system that is this layer, at an end.
    Calls(LayerIndex, CallEnd),
}

/// A recorder that runs, or has run.
pub(super) struct Recorder {
    pub subject: Subject,
    pub machine: Machine,
    process: u32,
    pub directory: String,
    /// Just before it was started, as [`kernel_log::uptime_s`].
    started_s: Option<f64>,
}

/// How long a recorder may take to get ready, in its machine's own time.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// How long it may take to write out what it has.
const STOP_LIMIT_MS: u64 = 60_000;

impl Recorder {
    /// Starts the recorder of a block device.
    pub fn of_point(built: &BuiltStack, point: &BlockPoint) -> Result<Self, CellError> {
        let arguments = ["record", "--device", &point.device];
        Self::start(built, Subject::Point(point.offered_by), point.machine, &arguments)
    }

    /// Starts the recorder of a hypervisor, of one that has a trace.
    pub fn of_virtual_disk(built: &BuiltStack, disk: &VirtualDisk) -> Result<Option<Self>, CellError> {
        let work_directory = Path::new(&built.machines[disk.machine].facts.work_directory);
        let hypervisor = hypervisor(disk.hypervisor);
        let Some(of_guest) = hypervisor.trace_arguments(work_directory, disk.guest) else { return Ok(None) };
        let mut arguments = vec!["hypervisor", "record"];
        arguments.extend(of_guest.iter().map(String::as_str).chain(["--disk", disk.model]));
        if let Some(image) = built.image_of(disk).filter(|image| image.map_command.is_some()) {
            arguments.extend(["--format", &image.format]);
        }
        Self::start(built, Subject::VirtualDisk(disk.layer), disk.machine, &arguments).map(Some)
    }

    /// Starts the recorder of an end of the calls of a network file system.
    pub fn of_calls(built: &BuiltStack, point: CallPoint) -> Result<Self, CellError> {
        let end = match point.end {
            CallEnd::Client => "client",
            CallEnd::Server => "server",
        };
        Self::start(built, Subject::Calls(point.layer, point.end), point.machine, &["calls", "--end", end])
    }

    fn start(
        built: &BuiltStack,
        subject: Subject,
        at: MachineIndex,
        arguments: &[&str],
    ) -> Result<Self, CellError> {
        let place = &built.machines[at];
        let name = match subject {
            Subject::Point(layer) => format!("trace-{}", layer.position()),
            Subject::VirtualDisk(layer) => format!("trace-vm-{}", layer.position()),
            Subject::Calls(layer, _) => format!("trace-calls-{}", layer.position()),
        };
        let directory = format!("{}/{name}", place.facts.work_directory);
        place.machine.make_directory(&directory)?;
        let argv = ["{nestor}", "trace"].into_iter().chain(arguments.iter().copied());
        let argv = argv.chain(["--output", &directory]);
        let started_s = kernel_log::uptime_s(&place.machine);
        let process = place.machine.start_process(Command::new(argv), &format!("{directory}.txt"))?;
        Ok(Self { subject, machine: place.machine.clone(), process, directory, started_s })
    }

    /// Waits until every later request is recorded.
    pub fn wait_until_ready(&self) -> Result<(), CellError> {
        let ready = format!("{}/{READY_FILE}", self.directory);
        self.machine.await_ready(self.process, ReadySign::File(ready), READY_LIMIT).map_err(|e| {
            match e.machine_is_lost() {
                true => e.into(),
                false => self.failed(RecorderFault::DidNotStart, &e.to_string()),
            }
        })
    }

    /// Stops it; what it recorded is complete afterwards.
    pub fn stop(&self) -> Result<(), CellError> {
        let finished = self.machine.stop_process(self.process, STOP_LIMIT_MS)?;
        if finished.succeeded() {
            return Ok(());
        }
        let ended = finished.end(STOP_LIMIT_MS / 1000).to_string();
        Err(self.failed(RecorderFault::DidNotStopCleanly, &ended))
    }

    /// Ends a recorder whose recording is no longer needed.
    pub fn abandon(&self) {
        let _ = self.machine.stop_process(self.process, 5_000);
    }

    /// `otherwise` stands for what a recorder that printed nothing should have said.
    fn failed(&self, fault: RecorderFault, otherwise: &str) -> CellError {
        let said = self.machine.read_file(&format!("{}.txt", self.directory)).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        let ended =
            self.started_s.and_then(|since_s| kernel_log::out_of_memory_since(&self.machine, since_s));
        CellError::Recorder(Box::new(FailedRecorder {
            machine: self.machine.label().to_owned(),
            fault,
            said: if said.is_empty() { otherwise.to_owned() } else { said },
            ended,
        }))
    }
}

/// What a recorder failed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecorderFault {
    /// It did not get ready.
    DidNotStart,
    /// It ended before it was stopped, or did not write out what it had.
    DidNotStopCleanly,
}

/// A recorder that failed.
#[derive(Debug, thiserror::Error)]
pub(super) struct FailedRecorder {
    machine: String,
    fault: RecorderFault,
    /// What it printed.
    said: String,
    /// A program that the kernel ended for want of memory meanwhile: the recorder, one of its own, or another one.
    pub ended: Option<OutOfMemory>,
}

impl fmt::Display for FailedRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, fault, said, ended } = self;
        let what = match fault {
            RecorderFault::DidNotStart => "did not start",
            RecorderFault::DidNotStopCleanly => "did not stop cleanly",
        };
        write!(f, "{machine}: the recorder of a trace point {what}: {said}")?;
        let Some(OutOfMemory { program, resident_bytes, .. }) = ended else { return Ok(()) };
        write!(
            f,
            "\n  the kernel ended `{program}`, which had {}, because {machine} was out of memory; give it more \
             (`memory=` or `available=` for a guest, `host-memory=` for the machine around it), or record nothing \
             (`--no-trace`)",
            bytes(*resident_bytes)
        )
    }
}

#[cfg(test)]
mod tests {
    use nestor_results::FailureCause;

    use super::*;

    #[test]
    fn a_recorder_that_the_kernel_ended_says_so() {
        let failed = |ended: Option<OutOfMemory>| {
            CellError::Recorder(Box::new(FailedRecorder {
                machine: "guest".to_owned(),
                fault: RecorderFault::DidNotStopCleanly,
                said: "error: it ended with signal: 9".to_owned(),
                ended,
            }))
        };
        let plain = failed(None);
        assert_eq!(
            plain.to_string(),
            "guest: the recorder of a trace point did not stop cleanly: error: it ended with signal: 9"
        );
        assert_eq!(plain.cause(), FailureCause::Other);
        let (program, resident_bytes) = ("blktrace".to_owned(), 25 << 20);
        let ended = failed(Some(OutOfMemory { program, at_s: 14.5, resident_bytes }));
        assert_eq!(ended.cause(), FailureCause::NoMemory);
        let told = ended.to_string();
        let told = told.strip_prefix(&plain.to_string()).unwrap();
        assert!(
            told.starts_with("\n  the kernel ended `blktrace`, which had 25.0 MiB, because guest was"),
            "{told}"
        );
    }
}
