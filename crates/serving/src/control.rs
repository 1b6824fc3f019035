//! Control sockets: JSON, one request and one answer a line.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nestor_stop::{StopHandle, Woken};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ServingError;

/// Longest request; a path is at most 4096 bytes, six characters each when escaped.
const LONGEST_LINE_BYTES: u64 = 32 * 1024;

/// A device as its control socket sees it.
pub trait Controlled: Send + Sync + 'static {
    /// What can be asked.
    type Request: DeserializeOwned;
    /// What is answered.
    type Response: Serialize;

    /// Does what is asked.
    fn answer(&self, request: &Self::Request) -> Self::Response;

    /// Whether a request, once answered, ends the server.
    fn is_last(request: &Self::Request) -> bool;

    /// The answer to what is no request.
    fn not_understood(reason: String) -> Self::Response;
}

/// Accepts control connections until the server ends; each gets a thread.
pub fn serve_control<D: Controlled>(listener: &UnixListener, stop: &StopHandle, device: &Arc<D>) {
    while stop.wait_with(Some(listener.as_fd()), None) == Woken::Readable {
        let Ok((stream, _)) = listener.accept() else { continue };
        let (device, stop) = (Arc::clone(device), stop.clone());
        let named = std::thread::Builder::new().name("control".to_owned());
        // Without a thread the connection closes, which the client reports.
        let _ = named.spawn(move || converse(&stream, &stop, &*device));
    }
}

/// Answers one connection's requests until it closes or the server ends.
fn converse<D: Controlled>(stream: &UnixStream, stop: &StopHandle, device: &D) {
    let mut input = BufReader::new(stream);
    loop {
        if input.buffer().is_empty() && stop.wait_with(Some(stream.as_fd()), None) != Woken::Readable {
            return;
        }
        let mut line = Vec::new();
        match input.by_ref().take(LONGEST_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(read) if read > 0 && line.ends_with(b"\n") => {}
            _ => return,
        }
        let request = serde_json::from_slice::<D::Request>(&line);
        let quits = request.as_ref().is_ok_and(D::is_last);
        let response = match request {
            Ok(request) => device.answer(&request),
            Err(error) => D::not_understood(format!("this is not a control request: {error}")),
        };
        let mut text = serde_json::to_string(&response).expect("answers are plain data");
        text.push('\n');
        let written = (&mut &*stream).write_all(text.as_bytes());
        if quits {
            stop.stop();
        }
        if written.is_err() {
            return;
        }
    }
}

/// The asking end of a control socket.
#[derive(Debug)]
pub struct ControlStream {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl ControlStream {
    /// Connects to a control socket.
    ///
    /// # Errors
    /// No server listens there.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, ServingError> {
        let path = path.as_ref().to_owned();
        let stream = UnixStream::connect(&path)
            .map_err(ServingError::io("connect to the device's control socket", &path))?;
        Ok(Self { path, stream: BufReader::new(stream) })
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// The server is gone or does not speak this protocol.
    pub fn ask<Q: Serialize, A: DeserializeOwned>(&mut self, request: &Q) -> Result<A, ServingError> {
        let mut line = serde_json::to_string(request).expect("requests are plain data");
        line.push('\n');
        let talk = || ServingError::io("talk to the device behind", &self.path);
        self.stream.get_mut().write_all(line.as_bytes()).map_err(talk())?;
        line.clear();
        let read = self.stream.read_line(&mut line).map_err(talk())?;
        if read == 0 {
            return Err(talk()(std::io::ErrorKind::UnexpectedEof.into()));
        }
        serde_json::from_str(&line).map_err(|e| self.refused(format!("{} ({e})", line.trim())))
    }

    /// The error for an answer that is not what was asked for.
    pub fn refused(&self, reason: String) -> ServingError {
        ServingError::Control { path: self.path.clone(), reason }
    }
}
