//! The answering end of a control socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use nestor_stop::Woken;

use super::manage::{Shared, close_log, close_stamps};
use crate::control::{ControlRequest, ControlResponse};

/// Longest request; a path is at most 4096 bytes, six characters each when escaped.
const LONGEST_LINE_BYTES: u64 = 32 * 1024;

/// Accepts control connections until the server ends; each gets a thread.
pub(super) fn serve(listener: &UnixListener, shared: &Arc<Shared>) {
    while shared.stop_handle().wait_with(Some(listener.as_fd()), None) == Woken::Readable {
        let Ok((stream, _)) = listener.accept() else { continue };
        let shared = Arc::clone(shared);
        let named = std::thread::Builder::new().name("disk-control".to_owned());
        // Without a thread the connection closes, which the client reports.
        let _ = named.spawn(move || converse(&stream, &shared));
    }
}

/// Answers one connection's requests until it closes or the server ends.
fn converse(stream: &UnixStream, shared: &Shared) {
    let mut input = BufReader::new(stream);
    loop {
        if input.buffer().is_empty()
            && shared.stop_handle().wait_with(Some(stream.as_fd()), None) != Woken::Readable
        {
            return;
        }
        let mut line = Vec::new();
        match input.by_ref().take(LONGEST_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(read) if read > 0 && line.ends_with(b"\n") => {}
            _ => return,
        }
        let request = serde_json::from_slice::<ControlRequest>(&line);
        let quits = matches!(request, Ok(ControlRequest::Quit));
        let response = match request {
            Ok(request) => answer(request, shared),
            Err(error) => {
                ControlResponse::Failed { reason: format!("this is not a control request: {error}") }
            }
        };
        let mut text = serde_json::to_string(&response).expect("answers are plain data");
        text.push('\n');
        let written = (&mut &*stream).write_all(text.as_bytes());
        if quits {
            shared.stop_handle().stop();
        }
        if written.is_err() {
            return;
        }
    }
}

fn answer(request: ControlRequest, shared: &Shared) -> ControlResponse {
    let done = |result: Result<(), nestor_disk::DiskError>| match result {
        Ok(()) => ControlResponse::Done,
        Err(error) => ControlResponse::Failed { reason: error.to_string() },
    };
    match request {
        ControlRequest::Timing { on } => {
            shared.switch_timing(on);
            ControlResponse::Done
        }
        ControlRequest::StartLog { path } => {
            // The old log is closed without the disk waiting for it.
            let old = shared.manage().take_log();
            done(close_log(old).and_then(|_| shared.manage().start_log(&path)))
        }
        ControlRequest::StopLog => {
            let log = shared.manage().take_log();
            match close_log(log) {
                Ok(summary) => ControlResponse::LogClosed(summary),
                Err(error) => ControlResponse::Failed { reason: error.to_string() },
            }
        }
        ControlRequest::StartStamps { path } => {
            let old = shared.manage().take_stamps();
            done(close_stamps(old).and_then(|_| shared.manage().start_stamps(&path)))
        }
        ControlRequest::StopStamps => {
            let stamps = shared.manage().take_stamps();
            done(close_stamps(stamps).map(|_| ()))
        }
        ControlRequest::Reset => done(shared.reset()),
        ControlRequest::Statistics => ControlResponse::Statistics(Box::new(shared.manage().statistics())),
        ControlRequest::Quit => ControlResponse::Done,
    }
}
