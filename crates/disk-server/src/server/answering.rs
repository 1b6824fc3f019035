//! What a disk answers on its control socket.

use nestor_disk::DiskError;
use nestor_serving::Controlled;

use super::manage::{Shared, close_log, close_stamps};
use crate::control::{ControlRequest, ControlResponse};

impl Controlled for Shared {
    type Request = ControlRequest;
    type Response = ControlResponse;

    fn answer(&self, request: &ControlRequest) -> ControlResponse {
        let done = |result: Result<(), DiskError>| match result {
            Ok(()) => ControlResponse::Done,
            Err(error) => ControlResponse::Failed { reason: error.to_string() },
        };
        match request {
            ControlRequest::Timing { on } => {
                self.switch_timing(*on);
                ControlResponse::Done
            }
            ControlRequest::StartLog { path } => {
                // The old log is closed without the disk waiting for it.
                let old = self.manage().take_log();
                done(close_log(old).and_then(|_| self.manage().start_log(path)))
            }
            ControlRequest::StopLog => {
                let log = self.manage().take_log();
                match close_log(log) {
                    Ok(summary) => ControlResponse::LogClosed(summary),
                    Err(error) => ControlResponse::Failed { reason: error.to_string() },
                }
            }
            ControlRequest::StartStamps { path } => {
                let old = self.manage().take_stamps();
                done(close_stamps(old).and_then(|_| self.manage().start_stamps(path)))
            }
            ControlRequest::StopStamps => {
                let stamps = self.manage().take_stamps();
                done(close_stamps(stamps).map(|_| ()))
            }
            ControlRequest::Reset => done(self.reset()),
            ControlRequest::Statistics => ControlResponse::Statistics(Box::new(self.manage().statistics())),
            ControlRequest::Quit => ControlResponse::Done,
        }
    }

    fn is_last(request: &ControlRequest) -> bool {
        *request == ControlRequest::Quit
    }

    fn not_understood(reason: String) -> ControlResponse {
        ControlResponse::Failed { reason }
    }
}
