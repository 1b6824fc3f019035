//! The control socket of a link: JSON, one request and one answer a line.

use std::path::{Path, PathBuf};

use nestor_link::log::LogEnd;
use nestor_link::{LinkStatistics, PortIndex};
use nestor_serving::{ControlStream, Controlled, ServingError};
use serde::{Deserialize, Serialize};

use crate::shared::Shared;

/// What can be asked of a served link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum LinkRequest {
    /// Join all machines in virtual time, which all stand: from now on they have a common time, and what they send arrives.
    Join,
    /// Say whether each of some machines waits for another, all of which stand, or they are not joined. One of them is about to be given
    /// something to do.
    Wake {
        /// Those that do not stand.
        waiting: Vec<PortIndex>,
    },
    /// Switch the times of frames and their losses; the delay remains. Answered when the machines stand.
    Timing {
        /// On or off.
        on: bool,
    },
    /// Report what was done so far.
    Statistics,
    /// Log each frame from now on.
    StartLog {
        /// To this file of the server's machine.
        path: PathBuf,
    },
    /// Close the log.
    StopLog,
    /// End the server.
    Quit,
}

/// What a served link answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum LinkResponse {
    /// It is done.
    Done,
    /// What was done so far, or until the log began.
    Statistics(LinkStatistics),
    /// How the log ended.
    LogClosed(LogEnd),
    /// Whether machines wait for another.
    Waits {
        /// Whether all do.
        waits: bool,
    },
    /// It could not be done.
    Failed {
        /// Why.
        reason: String,
    },
}

impl Controlled for Shared {
    type Request = LinkRequest;
    type Response = LinkResponse;

    fn answer(&self, request: &LinkRequest) -> LinkResponse {
        match request {
            LinkRequest::Join => match self.join() {
                Ok(()) => LinkResponse::Done,
                Err(reason) => LinkResponse::Failed { reason: reason.to_owned() },
            },
            LinkRequest::Wake { waiting } => LinkResponse::Waits { waits: self.wake(waiting) },
            LinkRequest::Timing { on } => {
                self.set_timed(*on);
                LinkResponse::Done
            }
            LinkRequest::Statistics => LinkResponse::Statistics(self.statistics()),
            LinkRequest::StartLog { path } => match self.start_log(path) {
                Ok(statistics) => LinkResponse::Statistics(statistics),
                Err(e) => LinkResponse::Failed { reason: e.to_string() },
            },
            LinkRequest::StopLog => match self.stop_log() {
                Ok(end) => LinkResponse::LogClosed(end),
                Err(e) => LinkResponse::Failed { reason: e.to_string() },
            },
            LinkRequest::Quit => LinkResponse::Done,
        }
    }

    fn is_last(request: &LinkRequest) -> bool {
        *request == LinkRequest::Quit
    }

    fn not_understood(reason: String) -> LinkResponse {
        LinkResponse::Failed { reason }
    }
}

/// A connection to a served link.
#[derive(Debug)]
pub struct ControlClient(ControlStream);

impl ControlClient {
    /// Connects to a control socket.
    ///
    /// # Errors
    /// No server listens there.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, ServingError> {
        ControlStream::connect(path).map(Self)
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// The server is gone or does not speak this protocol. An answer [`LinkResponse::Failed`] is not an error here.
    pub fn request(&mut self, request: &LinkRequest) -> Result<LinkResponse, ServingError> {
        self.0.ask(request)
    }

    /// Joins all machines in virtual time.
    ///
    /// # Errors
    /// See [`Self::request`]; or the server refuses.
    pub fn join(&mut self) -> Result<(), ServingError> {
        self.expect_done(&LinkRequest::Join)
    }

    /// Whether each of some machines waits for another, all of which stand. One of them is about to be given something to do.
    ///
    /// # Errors
    /// See [`Self::request`]; or the server refuses.
    pub fn wake(&mut self, waiting: Vec<PortIndex>) -> Result<bool, ServingError> {
        match self.request(&LinkRequest::Wake { waiting })? {
            LinkResponse::Waits { waits } => Ok(waits),
            other => Err(self.0.refused(format!("an unexpected answer: {other:?}"))),
        }
    }

    fn expect_done(&mut self, request: &LinkRequest) -> Result<(), ServingError> {
        match self.request(request)? {
            LinkResponse::Done => Ok(()),
            LinkResponse::Failed { reason } => Err(self.0.refused(reason)),
            other => Err(self.0.refused(format!("an unexpected answer: {other:?}"))),
        }
    }
}
