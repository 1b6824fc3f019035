//! Recording on this machine: a loop device, as root.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nestor_capture::READY_FILE;
use nestor_capture::{Method, RecordOptions, record};
use nestor_stop::StopHandle;
use nestor_trace::{RecordSummary, TraceError, summarize_recording};

/// A loop device over a file, detached at the end.
struct LoopDevice(String);

impl LoopDevice {
    /// `None` if none is available: not root, or no loop driver.
    fn attach(image: &Path) -> Option<Self> {
        let file = std::fs::File::create(image).unwrap();
        file.set_len(16 << 20).unwrap();
        let output =
            Command::new("losetup").args(["-f", "--show"]).arg(image).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| Self(String::from_utf8(output.stdout).unwrap().trim().to_owned()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

#[test]
fn a_recording_holds_every_request_made_while_it_was_ready() {
    let directory = tempfile::tempdir().unwrap();
    let Some(device) = LoopDevice::attach(&directory.path().join("image")) else {
        eprintln!("skipped: no loop device can be attached here (needs root)");
        return;
    };
    for method in [Method::Auto, Method::Tracefs] {
        let output = directory.path().join(format!("{method:?}"));
        match record_two_writers(&device, &output, method) {
            Ok(summary) => check(&summary, &output),
            // A container may have loop devices and still not be allowed to trace.
            Err(error @ TraceError::Io { .. }) if error.to_string().starts_with("cannot mount") => {
                eprintln!("skipped: {error}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Records 20 direct writes of 64 KiB, then 4 MiB through the page cache, flushed at the end.
fn record_two_writers(
    device: &LoopDevice,
    output: &Path,
    method: Method,
) -> Result<RecordSummary, TraceError> {
    let stop = StopHandle::new().unwrap();
    let options = RecordOptions { device: (&device.0).into(), output: output.to_path_buf(), method };
    let of = format!("of={}", device.0);
    thread::scope(|scope| {
        let recorder = scope.spawn(|| record(&options, &stop));
        while !output.join(READY_FILE).exists() && !recorder.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        let mut written = true;
        if !recorder.is_finished() {
            let direct = ["if=/dev/zero", &of, "bs=64k", "count=20", "oflag=direct", "status=none"];
            written &= Command::new("dd").args(direct).status().unwrap().success();
            let cached =
                ["if=/dev/zero", &of, "bs=4k", "seek=2048", "count=1024", "conv=fsync", "status=none"];
            written &= Command::new("dd").args(cached).status().unwrap().success();
        }
        stop.stop();
        assert!(written, "dd could not write");
        recorder.join().unwrap()
    })
}

fn check(summary: &RecordSummary, output: &Path) {
    eprintln!("recorded through {:?}: {}", summary.method, summary.why);
    let metrics = summarize_recording(output).unwrap();
    let write = &metrics.write;
    eprintln!("{write:?}");
    assert_eq!((metrics.dropped_events, metrics.remarks.as_slice()), (0, [].as_slice()));
    let bytes = 20 * 65536 + (4 << 20);
    assert_eq!((write.queued_bytes, write.issued_bytes, write.completed_bytes), (bytes, bytes, bytes));
    assert_eq!(metrics.q2c.as_ref().unwrap().count(), write.queued);
    assert_eq!(metrics.d2c.as_ref().unwrap().count(), write.issued);
    assert!(metrics.flushes >= 1);
    assert!(summary.stopped_monotonic_ns > summary.started_monotonic_ns);
    assert!(!output.join(READY_FILE).exists());
}
