//! Against the tools that write the forms, where they are installed: a recorded trace has to be the same in each of them.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod traces;

use std::path::{Path, PathBuf};
use std::process::Command;

use nestor_trace::decode::{Clock, Format, Source, open};
use nestor_trace::event::{BlockEvent, Direction, Flags};
use traces::{Contents, contents, data};

fn of_one(paths: &[PathBuf], format: Format) -> Contents {
    let [trace] = open(paths).unwrap().try_into().ok().expect("one trace");
    assert_eq!(trace.format, format);
    contents(trace.source).unwrap()
}

fn recorded() -> Contents {
    of_one(&[0, 1].map(|cpu| data(&format!("ext4-loop.blktrace.{cpu}"))), Format::Blktrace)
}

/// What a tool printed, or `None` with a note where it is not installed.
fn run(command: &mut Command, package: &str) -> Option<Vec<u8>> {
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
            Some([output.stdout, output.stderr].concat())
        }
        Err(error) => {
            eprintln!("skipped: {command:?} cannot be run ({error}); install the Debian package {package}");
            None
        }
    }
}

/// What blkparse writes has times from the first event.
fn assert_same_from_the_start(own: &Contents, theirs: &Contents, what: &str) {
    let start_ns = own.events[0].time_ns;
    assert!(own.events.len() > 900);
    for (own, theirs) in own.events.iter().zip(&theirs.events) {
        assert_eq!(BlockEvent { time_ns: own.time_ns - start_ns, ..*own }, *theirs, "{what}");
    }
    assert_eq!((own.events.len(), own.warnings), (theirs.events.len(), theirs.warnings), "{what}");
}

#[test]
fn blkparses_binary_file_has_the_same_events() {
    let directory = tempfile::tempdir().unwrap();
    let merged = directory.path().join("merged");
    let mut blkparse = Command::new("blkparse");
    blkparse.current_dir(data("")).args(["-q", "-i", "ext4-loop", "-O", "-d"]).arg(&merged);
    if run(&mut blkparse, "blktrace").is_none() {
        return;
    }
    let (own, theirs) = (recorded(), of_one(&[merged], Format::Blktrace));
    assert_same_from_the_start(&own, &theirs, "-d");
}

#[test]
fn blkparses_text_has_the_same_events() {
    for options in [&[][..], &["-t"], &["-q"], &["-v"]] {
        let mut blkparse = Command::new("blkparse");
        blkparse.current_dir(data("")).args(["-i", "ext4-loop"]).args(options);
        let Some(text) = run(&mut blkparse, "blktrace") else { return };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("printed");
        std::fs::write(&path, text).unwrap();
        let (own, theirs) = (recorded(), of_one(&[path], Format::Blkparse));
        assert_same_from_the_start(&own, &theirs, &format!("{options:?}"));
    }
}

#[test]
fn a_log_of_a_real_qemu_is_understood() {
    let all = of_one(&[data("qemu-system.log")], Format::QemuLog);
    assert_eq!((all.qemu.len(), all.warnings), (40, Default::default()));
    let named = |name: &str| all.qemu.iter().find(|e| &*e.name == name).unwrap_or_else(|| panic!("{name}"));
    // The firmware reads the boot sector.
    let read = named("virtio_blk_handle_read");
    assert_eq!((read.number("sector"), read.number("nsectors")), (Some(0), Some(1)));
    assert!(read.time_ns > 1_700_000_000_000_000_000 && read.pid > 0);
    let done = named("virtio_blk_rw_complete");
    assert_eq!((done.number("req"), done.signed("ret")), (read.number("req"), Some(0)));
    assert!(done.time_ns > read.time_ns);
    let below = named("blk_co_preadv");
    assert_eq!((below.number("offset"), below.number("bytes")), (Some(0), Some(512)));
    assert_eq!(named("qcow2_cache_get").number("is_l2_cache"), Some(1));
}

#[test]
fn a_log_without_times_is_read_as_such() {
    let [trace] = open(&[data("qemu-io.log")]).unwrap().try_into().ok().unwrap();
    let Source::Qemu(mut source) = trace.source else { panic!("events of QEMU") };
    let mut writes = Vec::new();
    while let Some(event) = source.next_event().unwrap() {
        if &*event.name == "blk_co_pwritev" {
            writes.push((event.number("offset").unwrap(), event.number("bytes").unwrap()));
        }
    }
    assert_eq!(source.clock(), Clock::None);
    assert_eq!(writes, [(1 << 20, 65536)]);
    assert_eq!(source.warnings().skipped_lines, 0);
}

#[test]
fn the_installed_qemu_is_understood() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    let mut create = Command::new("qemu-img");
    create.args(["create", "-q", "-f", "qcow2"]).arg(&image).arg("16M");
    if run(&mut create, "qemu-utils").is_none() {
        return;
    }
    let mut io = Command::new("qemu-io");
    io.args([
        "-T",
        "enable=blk_co_*",
        "-T",
        "enable=thread_pool_*",
        "-c",
        "write 4M 128k",
        "-c",
        "read 4k 8k",
    ])
    .arg(&image);
    let Some(output) = run(&mut io, "qemu-utils") else { return };
    let log: String = String::from_utf8(output)
        .unwrap()
        .lines()
        .filter(|l| l.contains('_'))
        .map(|l| format!("{l}\n"))
        .collect();
    if log.is_empty() {
        eprintln!("skipped: this QEMU does not log its trace events");
        return;
    }
    let path: PathBuf = directory.path().join("log");
    std::fs::write(&path, log).unwrap();
    let all = of_one(&[path], Format::QemuLog);
    let requests: Vec<_> = all
        .qemu
        .iter()
        .filter(|e| e.number("bytes") > Some(4096))
        .map(|e| (e.name.to_string(), e.number("offset"), e.number("bytes")))
        .collect();
    let expected = [
        ("blk_co_pwritev".to_owned(), Some(4 << 20), Some(128 << 10)),
        ("blk_co_preadv".to_owned(), Some(4096), Some(8192)),
    ];
    assert_eq!(requests, expected);
    assert!(all.qemu.iter().any(|e| &*e.name == "thread_pool_complete" && e.signed("ret") == Some(0)));
}

#[test]
fn the_installed_fio_is_understood() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let mut fio = Command::new("fio");
    fio.args(["--name=job", "--size=256k", "--bs=4k", "--rw=randrw", "--log_offset=1", "--output=/dev/null"]);
    fio.arg(format!("--filename={}", path("file")));
    fio.arg(format!("--write_iolog={}", path("iolog"))).arg(format!("--write_lat_log={}", path("log")));
    if run(&mut fio, "fio").is_none() {
        return;
    }
    let asked = of_one(&[Path::new(&path("iolog")).to_path_buf()], Format::FioIolog);
    let served = of_one(&[Path::new(&path("log_lat.1.log")).to_path_buf()], Format::FioLatencyLog);
    let places = |all: &Contents| {
        let mut places: Vec<_> =
            all.requests.iter().map(|r| (r.request.operation, r.request.offset)).collect();
        places.sort_unstable();
        places
    };
    assert_eq!(places(&asked), places(&served));
    assert_eq!(served.requests.len(), 64);
    assert!(
        served
            .requests
            .iter()
            .all(|r| r.request.completed_ns > r.request.queued_ns && r.request.bytes == 4096)
    );
    assert_eq!((asked.warnings, served.warnings), Default::default());
}

/// The recording of the same run through tracefs has times in microseconds and the names of the threads.
#[test]
fn directions_and_flags_are_the_same_in_every_form() {
    let of = |all: &Contents| {
        let mut kinds: Vec<_> =
            all.events.iter().map(|e| (e.sector, e.bytes, e.direction, e.flags)).collect();
        kinds.retain(|(_, bytes, _, _)| *bytes > 0);
        kinds.dedup();
        kinds
    };
    let binary = of(&recorded());
    let text = of(&of_one(&[data("ext4-loop.tracefs.txt")], Format::Tracefs));
    for kind in [(Direction::Read, Flags::AHEAD), (Direction::Write, Flags::SYNC)] {
        let with = |kinds: &[(u64, u64, Direction, Flags)]| {
            kinds
                .iter()
                .filter(|(_, _, d, f)| *d == kind.0 && f.contains(kind.1))
                .map(|k| k.0)
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert!(!with(&binary).is_empty());
        assert_eq!(with(&binary), with(&text));
    }
}
