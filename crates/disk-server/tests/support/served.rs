//! A disk that a thread of the test serves.

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use nestor_disk::Turn;
use nestor_disk_server::{ControlClient, DiskTime, ServeError, ServeOptions, StopHandle, serve};

use super::FrontEnd;

/// Bytes of the disk.
pub const SIZE: u64 = 8 << 20;
/// Most bytes of a request.
pub const DATA_BYTES: u32 = 64 << 10;

/// Options with nothing special; sockets and files are the caller's to name.
pub fn options(profile: &str, size_bytes: u64) -> ServeOptions {
    ServeOptions {
        profile: profile.to_owned(),
        size_bytes,
        offset_bytes: 0,
        socket: PathBuf::new(),
        data: None,
        control: None,
        log: None,
        stamps: None,
        write_cache: None,
        turned: Turn::default(),
        timing: true,
        durable: false,
        serial: "a disk of Nestor".to_owned(),
        once: false,
        end_with_parent: false,
        time: DiskTime::Real,
        read_only: false,
        stop: StopHandle::new().unwrap(),
    }
}

/// A disk served by a thread, in its own folder.
pub struct Served {
    pub folder: tempfile::TempDir,
    pub stop: StopHandle,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Served {
    /// Serves a profile.
    pub fn start(profile: &str, change: impl FnOnce(&mut ServeOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stop = StopHandle::new().unwrap();
        let mut options = ServeOptions {
            socket: folder.path().join("disk.sock"),
            data: Some(folder.path().join("disk.data")),
            control: Some(folder.path().join("disk.control")),
            stop: stop.clone(),
            ..options(profile, SIZE)
        };
        change(&mut options);
        let thread = Some(std::thread::spawn(move || serve(options)));
        let served = Self { folder, stop, thread };
        // An answer, not only a connection, which is accepted before the server is ready.
        let answers = || ControlClient::connect(served.path("disk.control"))?.statistics().map(|_| ());
        while answers().is_err() {
            assert!(!served.thread.as_ref().unwrap().is_finished(), "the server ended at once");
            std::thread::sleep(Duration::from_millis(1));
        }
        served
    }

    /// A file of its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A driver.
    pub fn front_end(&self) -> FrontEnd {
        FrontEnd::connect(&self.path("disk.sock"), DATA_BYTES)
    }

    /// Its control socket.
    pub fn control(&self) -> ControlClient {
        ControlClient::connect(self.path("disk.control")).unwrap()
    }

    /// Waits until the server has ended by itself.
    pub fn wait(mut self) -> tempfile::TempDir {
        self.thread.take().unwrap().join().unwrap().unwrap();
        std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
