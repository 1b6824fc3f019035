//! Joins held against a disk that stamps: a driver's requests, as it made them, and the disk's own log, joined without
//! knowing what the disk knows. Nothing here depends on how long anything takes.

#[path = "../../disk-server/tests/support/mod.rs"]
mod driver;

use std::path::Path;

use nestor_correlate::stamps::{Agreement, StampCheck, StampedOperation};
use nestor_correlate::{CacheBetween, CorrelateOptions, Correlation, LevelInput, correlate_observed};
use nestor_disk::Turn;
use nestor_disk::log::{Reader, StampReader, stamp};
use nestor_disk_server::{ControlClient, DiskTime, ServeOptions, StopHandle, serve};
use nestor_layout::Class;
use nestor_statistics::SeededOrder;
use nestor_trace::event::Flags;
use nestor_trace::{DiskLogRequests, Operation, Request, RequestHeader};
use rustix::time::{ClockId, clock_gettime};
use virtio_bindings::bindings::virtio_blk::{VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT};

const SIZE: u64 = 64 << 20;
const DATA_BYTES: u32 = 16 << 10;
/// What the driver's clock is ahead of the disk's.
const AHEAD_NS: u64 = 9_000_000_000_000;

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The driver's requests and operations, in the order of completion.
struct Driven {
    requests: Vec<Request>,
    operations: Vec<StampedOperation>,
}

/// Keeps `depth` requests in flight; of a few places, so that many are for the same one.
fn drive(socket: &Path, count: usize, depth: u16, places: usize, seed: u64) -> Driven {
    let mut front_end = driver::FrontEnd::connect(socket, DATA_BYTES);
    let mut random = SeededOrder::new(seed);
    let mut in_flight: Vec<Option<StampedOperation>> = vec![None; usize::from(depth)];
    let mut driven = Driven { requests: Vec::new(), operations: Vec::new() };
    let mut submitted = 0;
    while driven.operations.len() < count {
        while let Some(slot) = in_flight.iter().position(Option::is_none).filter(|_| submitted < count) {
            submitted += 1;
            let bytes = 4096 << random.below(3);
            let offset = random.below(places) as u64 * 4096;
            let reads = random.below(3) == 0;
            let number = submitted as u64;
            let mut data = vec![0; bytes as usize];
            stamp(&mut data, number);
            front_end.set_data(slot as u16, &data);
            let kind = if reads { VIRTIO_BLK_T_IN } else { VIRTIO_BLK_T_OUT };
            let operation = if reads { Operation::Read } else { Operation::Write };
            in_flight[slot] = Some(StampedOperation {
                stamp: number,
                operation,
                offset,
                bytes,
                started_ns: now_ns() + AHEAD_NS,
                ended_ns: 0,
            });
            let before = front_end.next_available();
            front_end.submit(slot as u16, kind, offset / 512, bytes as u32, reads);
            front_end.kick_since(before);
        }
        let Some((slot, _)) = front_end.poll() else {
            front_end.wait();
            continue;
        };
        let Some(mut operation) = in_flight[usize::from(slot)].take() else { continue };
        operation.ended_ns = now_ns() + AHEAD_NS;
        driven.requests.push(Request {
            id: driven.requests.len() as u64,
            operation: operation.operation,
            flags: Flags::default(),
            class: Class::Unknown,
            offset: operation.offset,
            bytes: operation.bytes,
            queued_ns: operation.started_ns,
            issued_ns: operation.started_ns,
            completed_ns: operation.ended_ns,
            bios: 1,
            pid: 0,
        });
        driven.operations.push(operation);
    }
    driven
}

fn run(profile: &str, count: usize, depth: u16, places: usize) -> (Correlation, Agreement) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let stop = StopHandle::new().unwrap();
    let options = ServeOptions {
        profile: profile.to_owned(),
        size_bytes: SIZE,
        offset_bytes: 0,
        socket: path("disk.sock"),
        data: Some(path("disk.data")),
        control: Some(path("disk.control")),
        log: Some(path("disk.log")),
        stamps: Some(path("disk.stamps")),
        write_cache: None,
        turned: Turn::default(),
        timing: true,
        durable: false,
        serial: "stamps".to_owned(),
        once: false,
        end_with_parent: false,
        time: DiskTime::Real,
        read_only: false,
        stop: stop.clone(),
    };
    let server = std::thread::spawn(move || serve(options));
    let mut control = loop {
        assert!(!server.is_finished(), "the server ended at once");
        match ControlClient::connect(path("disk.control")) {
            Ok(control) => break control,
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
        }
    };
    let driven = drive(&path("disk.sock"), count, depth, places, 5);
    control.stop_stamps().unwrap();
    control.stop_log().unwrap();
    stop.stop();
    server.join().unwrap().unwrap();

    let medium: Vec<Request> =
        DiskLogRequests::open(path("disk.log"), "disk", "ground").unwrap().collect::<Result<_, _>>().unwrap();
    let header = |layer: &str| RequestHeader {
        layer: layer.to_owned(),
        machine: layer.to_owned(),
        ..RequestHeader::default()
    };
    let levels = [
        LevelInput::new(header("driver"), driven.requests.clone()),
        LevelInput::new(header("disk"), medium).with_cache(CacheBetween::NONE),
    ];
    let mut check = StampCheck::new();
    let correlation =
        correlate_observed(&levels, &CorrelateOptions::default(), &mut |joined| check.observe(joined))
            .unwrap();
    let sequences = Reader::open(path("disk.log")).unwrap().map(|record| record.unwrap().sequence);
    let runs = StampReader::open(path("disk.stamps")).unwrap().map(|run| run.unwrap());
    let agreement = check.agreement(&driven.requests, sequences, runs, &driven.operations, 0);
    (correlation, agreement)
}

#[test]
fn joins_agree_with_the_stamps() {
    for (profile, places) in [("null", 16_000), ("ssd-sata", 16_000), ("ssd-sata", 64)] {
        let (correlation, agreement) = run(profile, 2000, 24, places);
        let share = agreement.share().unwrap();
        println!(
            "{profile}, {places} places: {} of {} runs agree ({:.2} %), {} without ancestor; clock known to {} ns",
            agreement.agreeing,
            agreement.checked,
            100.0 * share,
            agreement.without_ancestor,
            correlation.joins[0].clock_bound_ns,
        );
        // With few places a dozen requests for the same blocks are in flight at once, many of them quite alike.
        let least = if places > 1000 { 0.998 } else { 0.95 };
        assert!(share >= least, "{share}: {:#?}", agreement.examples);
        assert!(agreement.without_ancestor * 100 <= agreement.checked);
        let join = &correlation.joins[0];
        let off = join.clock_offset_ns.abs_diff(AHEAD_NS as i64);
        assert!(off <= join.clock_bound_ns, "{off} ns off, bound {} ns", join.clock_bound_ns);
        assert!(correlation.unmatched_share().unwrap() < 0.01);
    }
}
