//! QEMU's monitor protocol: a line of JSON each way, events in between.
//!
//! The arguments of `blockdev-add` and `device_add` come from the layers as JSON, so nothing is gained by typed
//! bindings of QEMU's whole schema, which would be the largest dependency of the program.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

use crate::refusal::{Cause, Refusal};

/// A command, with its arguments, that undoes what another one did.
pub type UndoCommand = (&'static str, Value);

/// A connection to QEMU's monitor.
pub struct Qmp {
    reader: BufReader<UnixStream>,
    events: Vec<Value>,
    /// The ends of jobs, which are kept until they are forgotten.
    ended_jobs: Vec<EndedJob>,
    /// How long each answer may take.
    limit: Duration,
    /// The number of the last command, which its answer repeats.
    last: u64,
}

/// The end of a job of the block layer (`BLOCK_JOB_COMPLETED` in qapi/block-core.json).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedJob {
    /// Its name.
    pub job: String,
    /// What went wrong, in QEMU's words; `None` of a job that has done all.
    pub error: Option<String>,
    /// When, on `CLOCK_REALTIME` of QEMU's machine, in microseconds; `None` if QEMU could not read that.
    pub realtime_us: Option<u64>,
}

impl EndedJob {
    /// `None` of another event.
    fn of(event: &Value) -> Option<Self> {
        let is_end = event.get("event")?.as_str()? == "BLOCK_JOB_COMPLETED";
        let data = event.get("data").filter(|_| is_end)?;
        let error = data.get("error").and_then(Value::as_str).map(str::to_owned);
        // Both are -1 where the clock could not be read (qapi/qmp-spec.txt).
        let part = |name: &str| event["timestamp"][name].as_u64();
        let realtime_us = part("seconds")
            .zip(part("microseconds"))
            .and_then(|(seconds, us)| seconds.checked_mul(1_000_000)?.checked_add(us));
        Some(Self { job: data["device"].as_str()?.to_owned(), error, realtime_us })
    }
}

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// QEMU says no.
    #[error("QEMU refuses `{command}`: {text}")]
    Refused {
        /// The command.
        command: String,
        /// What can be done about it.
        reason: Reason,
        /// QEMU's own description.
        text: String,
    },
    /// Nothing is heard of QEMU.
    #[error("QEMU's monitor does not answer `{command}`: {error}")]
    Gone {
        /// The command.
        command: String,
        /// Why.
        error: io::Error,
    },
    /// QEMU lives and says nothing.
    #[error("QEMU's monitor has not answered `{command}` within {} s; it may be busy, or it hangs", limit.as_secs())]
    Silent {
        /// The command.
        command: String,
        /// How long it had.
        limit: Duration,
    },
    /// It answers, but not with a number.
    #[error("QEMU did not report an instruction count")]
    NotCounted,
}

impl QmpError {
    fn unheard(command: &str, limit: Duration) -> impl Fn(io::Error) -> Self {
        let command = command.to_owned();
        move |error| match is_over(&error) {
            true => Self::Silent { command: command.clone(), limit },
            false => Self::Gone { command: command.clone(), error },
        }
    }
}

/// Whether the time for reading was over.
fn is_over(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

impl From<QmpError> for Refusal {
    fn from(error: QmpError) -> Self {
        let cause = match &error {
            QmpError::Refused { .. } => Cause::NotSupported,
            QmpError::Gone { .. } => Cause::MachineLost,
            QmpError::Silent { .. } => Cause::MachineSilent,
            QmpError::NotCounted => Cause::Other,
        };
        Self::new(cause, error.to_string())
    }
}

/// Why QEMU refuses a command, as far as that decides what is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// What the command names is not there.
    NotFound,
    /// What the command names is used by something else.
    InUse,
    /// The machine was already asked to let go of it.
    Unplugging,
    /// Anything else.
    Other,
}

impl Reason {
    /// From an error's class (`qapi/error.json`) or, as nearly all errors are of one class, from its description:
    /// `blockdev-del` ("Node … is in use", "… is busy"), `chardev-remove` ("Chardev '…' is busy"), `device_del` ("… is already in the
    /// process of unplug").
    fn of(class: &str, text: &str) -> Self {
        match class {
            // The second is of jobs (`find_block_job` in blockdev.c).
            "DeviceNotFound" | "DeviceNotActive" => Self::NotFound,
            _ if text.contains("unplug") => Self::Unplugging,
            _ if text.contains("in use") || text.contains("busy") => Self::InUse,
            _ => Self::Other,
        }
    }
}

/// How long QEMU may take to answer a command.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

impl Qmp {
    /// Connects and negotiates; each answer may take `limit`, which is not zero.
    ///
    /// # Errors
    /// When QEMU does not answer as a monitor does.
    pub fn connect(socket: &Path, limit: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(limit))?;
        let mut qmp = Self {
            reader: BufReader::new(stream),
            events: Vec::new(),
            ended_jobs: Vec::new(),
            limit,
            last: 0,
        };
        qmp.read_line()?;
        qmp.execute("qmp_capabilities", &json!({})).map_err(io::Error::other)?;
        qmp.set_timeout(ANSWER_LIMIT);
        Ok(qmp)
    }

    /// Runs a command.
    ///
    /// # Errors
    /// QEMU's own description of what is wrong, or that it is gone.
    pub fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value, QmpError> {
        let line = self.line(command, arguments);
        self.reader.get_ref().write_all(line.as_bytes()).map_err(QmpError::unheard(command, self.limit))?;
        self.answer(command)
    }

    /// The same, with a limit of its own.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn execute_within(
        &mut self,
        limit: Duration,
        command: &str,
        arguments: &Value,
    ) -> Result<Value, QmpError> {
        self.set_timeout(limit);
        let answer = self.execute(command, arguments);
        self.set_timeout(ANSWER_LIMIT);
        answer
    }

    fn line(&mut self, command: &str, arguments: &Value) -> String {
        self.last += 1;
        json!({ "execute": command, "arguments": arguments, "id": self.last }).to_string() + "\n"
    }

    fn answer(&mut self, command: &str) -> Result<Value, QmpError> {
        let unheard = QmpError::unheard(command, self.limit);
        loop {
            let mut message = self.read_line().map_err(&unheard)?;
            if message.get("event").is_some() {
                self.note(message);
            } else if message.get("id").and_then(Value::as_u64) != Some(self.last) {
                // The answer to a command that had its limit.
            } else if let Some(error) = message.get("error") {
                let word = |name: &str| error.get(name).and_then(Value::as_str);
                let text = word("desc").unwrap_or("no description").to_owned();
                let reason = Reason::of(word("class").unwrap_or_default(), &text);
                return Err(QmpError::Refused { command: command.to_owned(), reason, text });
            } else if let Some(value) = message.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    /// Instructions that a machine in virtual time has executed. Asking does not change what it does.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn executed(&mut self) -> Result<u64, QmpError> {
        let replay = self.execute("query-replay", &json!({}))?;
        replay["icount"].as_u64().ok_or(QmpError::NotCounted)
    }

    /// Hands QEMU an open file, by a name that commands then use.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn give_file(&mut self, name: &str, file: &File) -> Result<(), QmpError> {
        let unheard = QmpError::unheard("getfd", self.limit);
        let line = self.line("getfd", &json!({ "fdname": name }));
        let files = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let pieces = [IoSlice::new(line.as_bytes())];
        let sent = sendmsg(self.reader.get_ref(), &pieces, &mut control, SendFlags::empty())
            .map_err(|e| unheard(e.into()))?;
        self.reader.get_ref().write_all(&line.as_bytes()[sent..]).map_err(&unheard)?;
        self.answer("getfd").map(|_| ())
    }

    /// Waits for an event that fits.
    ///
    /// # Errors
    /// When it does not come within `limit`.
    pub fn wait_event(
        &mut self,
        name: &str,
        limit: Duration,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<(), Refusal> {
        let deadline = Instant::now() + limit;
        let is_it = |e: &Value| e.get("event").and_then(Value::as_str) == Some(name) && fits(&e["data"]);
        loop {
            if let Some(at) = self.events.iter().position(is_it) {
                self.events.drain(..=at);
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message = format!("QEMU did not report {name} within {} s", limit.as_secs());
                return Err(Refusal::new(Cause::MachineSilent, message));
            }
            self.set_timeout(left);
            let message = self.read_line();
            self.set_timeout(ANSWER_LIMIT);
            match message {
                Ok(message) => self.note(message),
                Err(e) if is_over(&e) => {}
                Err(e) => {
                    let message = format!("QEMU's monitor ended while waiting for {name}: {e}");
                    return Err(Refusal::new(Cause::MachineLost, message));
                }
            }
        }
    }

    /// Keeps what QEMU tells without being asked.
    fn note(&mut self, event: Value) {
        match EndedJob::of(&event) {
            Some(ended) => self.ended_jobs.push(ended),
            None => self.events.push(event),
        }
    }

    /// How a job has ended, as far as QEMU has told until its last answer.
    pub fn ended_job(&self, job: &str) -> Option<&EndedJob> {
        self.ended_jobs.iter().rfind(|ended| ended.job == job)
    }

    /// Forgets the end of jobs of that name: another one begins.
    pub fn forget_job(&mut self, job: &str) {
        self.ended_jobs.retain(|ended| ended.job != job);
    }

    fn set_timeout(&mut self, limit: Duration) {
        self.limit = limit;
        // Only a zero duration is refused, and that is not passed.
        let _ = self.reader.get_ref().set_read_timeout(Some(limit));
    }

    fn read_line(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_str(&line).map_err(io::Error::other)
    }
}
