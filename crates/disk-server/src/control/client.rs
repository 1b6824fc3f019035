//! The asking end of a disk's control socket.

use std::path::{Path, PathBuf};

use super::{ControlRequest, ControlResponse, Statistics};
use nestor_disk::log::LogSummary;
use nestor_serving::{ControlStream, ServingError};

/// A connection to a serving disk.
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
    /// The server is gone or does not speak this protocol. An answer [`ControlResponse::Failed`] is not an error here.
    pub fn request(&mut self, request: &ControlRequest) -> Result<ControlResponse, ServingError> {
        self.0.ask(request)
    }

    /// Switches timing; returns when the disk has come to rest under the old setting.
    ///
    /// # Errors
    /// See [`Self::request`]; or the server refuses.
    pub fn set_timing(&mut self, on: bool) -> Result<(), ServingError> {
        self.expect_done(&ControlRequest::Timing { on })
    }

    /// Starts a request log at `path`.
    ///
    /// # Errors
    /// See [`Self::request`]; or the file cannot be created.
    pub fn start_log(&mut self, path: impl Into<PathBuf>) -> Result<(), ServingError> {
        self.expect_done(&ControlRequest::StartLog { path: path.into() })
    }

    /// Closes the request log and says how many records it has and lacks.
    ///
    /// # Errors
    /// See [`Self::request`]; or the log could not be written.
    pub fn stop_log(&mut self) -> Result<LogSummary, ServingError> {
        match self.request(&ControlRequest::StopLog)? {
            ControlResponse::LogClosed(summary) => Ok(summary),
            other => Err(self.unexpected(other)),
        }
    }

    /// Starts to note stamps at `path`.
    ///
    /// # Errors
    /// See [`Self::request`]; or the file cannot be created.
    pub fn start_stamps(&mut self, path: impl Into<PathBuf>) -> Result<(), ServingError> {
        self.expect_done(&ControlRequest::StartStamps { path: path.into() })
    }

    /// Closes the file of stamps.
    ///
    /// # Errors
    /// See [`Self::request`]; or the file could not be written.
    pub fn stop_stamps(&mut self) -> Result<(), ServingError> {
        self.expect_done(&ControlRequest::StopStamps)
    }

    /// Drops all data, caches and positions.
    ///
    /// # Errors
    /// See [`Self::request`]; or the data file cannot be emptied.
    pub fn reset(&mut self) -> Result<(), ServingError> {
        self.expect_done(&ControlRequest::Reset)
    }

    /// What the disk has done so far.
    ///
    /// # Errors
    /// See [`Self::request`].
    pub fn statistics(&mut self) -> Result<Statistics, ServingError> {
        match self.request(&ControlRequest::Statistics)? {
            ControlResponse::Statistics(statistics) => Ok(*statistics),
            other => Err(self.unexpected(other)),
        }
    }

    /// Ends the server.
    ///
    /// # Errors
    /// See [`Self::request`].
    pub fn quit(&mut self) -> Result<(), ServingError> {
        self.expect_done(&ControlRequest::Quit)
    }

    fn expect_done(&mut self, request: &ControlRequest) -> Result<(), ServingError> {
        match self.request(request)? {
            ControlResponse::Done => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    fn unexpected(&self, response: ControlResponse) -> ServingError {
        let reason = match response {
            ControlResponse::Failed { reason } => reason,
            other => format!("an unexpected answer: {other:?}"),
        };
        self.0.refused(reason)
    }
}
