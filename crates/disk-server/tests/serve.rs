//! A served disk from the other side: this crate's own front end does what a guest does. Nothing here depends on how
//! long anything takes.

mod support;

use std::path::PathBuf;

use nestor_disk::log::{Operation, Reader, StampReader, StampRun};
use nestor_disk_server::{ServeOptions, serve};
use support::served::{SIZE, Served, options};
use support::{FrontEnd, header_address, status_at};
use virtio_bindings::bindings::virtio_blk::{
    VIRTIO_BLK_F_RO, VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_T_DISCARD,
    VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT, VIRTIO_BLK_T_WRITE_ZEROES,
};

const OK: u8 = VIRTIO_BLK_S_OK as u8;
const IOERR: u8 = VIRTIO_BLK_S_IOERR as u8;
const UNSUPP: u8 = VIRTIO_BLK_S_UNSUPP as u8;

fn write(front_end: &mut FrontEnd, sector: u64, data: &[u8]) -> u8 {
    front_end.set_data(0, data);
    front_end.request(VIRTIO_BLK_T_OUT, sector, data.len() as u32, false)
}

fn read(front_end: &mut FrontEnd, sector: u64, bytes: u32) -> Vec<u8> {
    front_end.set_data(0, &vec![0xee; bytes as usize]);
    assert_eq!(front_end.request(VIRTIO_BLK_T_IN, sector, bytes, true), OK);
    front_end.data(0, bytes as usize)
}

fn range(front_end: &mut FrontEnd, kind: u32, sector: u64, sectors: u32, flags: u32) -> u8 {
    let mut range = sector.to_le_bytes().to_vec();
    range.extend(sectors.to_le_bytes());
    range.extend(flags.to_le_bytes());
    front_end.set_data(0, &range);
    front_end.request(kind, 0, 16, false)
}

fn pattern(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed) | 1).collect()
}

fn holds_data(profile: &str) {
    let served = Served::start(profile, |_| {});
    let mut front_end = served.front_end();
    let data = pattern(7, 16 << 10);
    assert_eq!(read(&mut front_end, 100, 4096), vec![0; 4096], "a new disk is empty");
    assert_eq!(write(&mut front_end, 100, &data), OK);
    assert_eq!(read(&mut front_end, 100, 16 << 10), data);
    assert_eq!(front_end.request(VIRTIO_BLK_T_FLUSH, 0, 0, false), OK);

    assert_eq!(range(&mut front_end, VIRTIO_BLK_T_DISCARD, 104, 8, 0), OK);
    assert_eq!(range(&mut front_end, VIRTIO_BLK_T_WRITE_ZEROES, 116, 4, 0), OK);
    assert_eq!(range(&mut front_end, VIRTIO_BLK_T_WRITE_ZEROES, 124, 4, 1), OK);
    let mut expected = data;
    for zeroed in [104..112, 116..120, 124..128] {
        expected[(zeroed.start - 100) * 512..(zeroed.end - 100) * 512].fill(0);
    }
    assert_eq!(read(&mut front_end, 100, 16 << 10), expected);
    let statistics = served.control().statistics().unwrap();
    assert_eq!((statistics.read.requests, statistics.write.requests, statistics.flushes), (3, 1, 1));
    assert_eq!((statistics.discard.requests, statistics.write_zeroes.requests), (1, 2));
    assert_eq!((statistics.failed, statistics.refused, statistics.in_flight), (0, 0, 0));
}

#[test]
fn a_disk_without_timing_holds_its_data() {
    holds_data("null");
}

#[test]
fn a_hard_disk_holds_its_data() {
    holds_data("wd-7200-1tb");
}

#[test]
fn a_flash_disk_and_an_array_hold_their_data() {
    holds_data("ssd");
    holds_data("raid0");
}

#[test]
fn what_does_not_lie_on_the_disk_is_refused() {
    let served = Served::start("null", |_| {});
    let mut front_end = served.front_end();
    let sectors = SIZE / 512;
    assert_eq!(front_end.request(VIRTIO_BLK_T_IN, sectors - 1, 512, true), OK);
    assert_eq!(front_end.request(VIRTIO_BLK_T_IN, sectors - 1, 1024, true), IOERR);
    assert_eq!(front_end.request(VIRTIO_BLK_T_OUT, sectors, 512, false), IOERR);
    assert_eq!(front_end.request(VIRTIO_BLK_T_OUT, u64::MAX, 512, false), IOERR);
    assert_eq!(front_end.request(VIRTIO_BLK_T_IN, 0, 100, true), IOERR, "not a whole sector");
    assert_eq!(range(&mut front_end, VIRTIO_BLK_T_DISCARD, sectors, 1, 0), IOERR);
    assert_eq!(range(&mut front_end, VIRTIO_BLK_T_DISCARD, 0, 1, 1), UNSUPP);
    assert_eq!(front_end.request(99, 0, 512, true), UNSUPP);
    assert_eq!(served.control().statistics().unwrap().refused, 7);
}

#[test]
fn hostile_chains_are_survived() {
    for profile in ["null", "hdd"] {
        let served = Served::start(profile, |_| {});
        let mut front_end = served.front_end();
        let far = 1 << 50;
        // No room for a status; nothing at all to read; memory that does not exist; status before the header.
        let chains: &[&[(u64, u32, bool)]] = &[
            &[(header_address(0), 16, false)],
            &[(status_at(0), 1, true)],
            &[(far, 16, false), (status_at(0), 1, true)],
            &[(header_address(0), 16, false), (far, 512, true), (status_at(0), 1, true)],
            &[(header_address(0), 16, false), (front_end.data_at(0), 512, true), (far, 1, true)],
            &[(status_at(0), 1, true), (header_address(0), 16, false)],
            &[(header_address(0), 7, false), (status_at(0), 1, true)],
            &[(header_address(0), 16, false), (u64::MAX - 100, 4096, true), (status_at(0), 1, true)],
        ];
        for chain in chains {
            front_end.submit(0, VIRTIO_BLK_T_IN, 0, 0, true);
            front_end.finish_one();
            front_end.submit_raw(0, chain);
            assert_eq!(front_end.finish_one().0, 0, "every chain comes back: {chain:?}");
        }
        // A chain that leads into itself.
        front_end.write_descriptor(0, header_address(0), 16, 1, 1);
        front_end.write_descriptor(1, header_address(0), 16, 1, 0);
        front_end.publish(0);
        front_end.finish_one();
        assert_eq!(front_end.request(VIRTIO_BLK_T_FLUSH, 0, 0, false), OK, "the disk still works");
    }
}

#[test]
fn the_disk_names_itself_and_its_size() {
    let served = Served::start("null", |options| options.write_cache = Some(true));
    let mut front_end = served.front_end();
    assert_eq!(front_end.request(VIRTIO_BLK_T_GET_ID, 0, 20, true), OK);
    assert_eq!(&front_end.data(0, 20), b"a disk of Nestor\0\0\0\0");
    let config = front_end.config(60);
    assert_eq!(u64::from_le_bytes(config[..8].try_into().unwrap()), SIZE / 512);
}

#[test]
fn the_write_cache_is_switched_by_option_and_by_the_guest() {
    const WRITE_CACHE_AT: u32 = 32;
    let served = Served::start("hdd", |options| options.write_cache = Some(false));
    let mut front_end = served.front_end();
    assert_eq!(front_end.config(60)[WRITE_CACHE_AT as usize], 0);
    assert_eq!(write(&mut front_end, 0, &pattern(1, 512)), OK);
    assert_eq!(served.control().statistics().unwrap().cache_hits, 0);
    front_end.set_config(WRITE_CACHE_AT, 1);
    assert_eq!(front_end.config(60)[WRITE_CACHE_AT as usize], 1);
    assert_eq!(write(&mut front_end, 8, &pattern(1, 512)), OK);
    let statistics = served.control().statistics().unwrap();
    assert!(statistics.write_cache);
    assert_eq!(statistics.cache_hits, 1);
}

#[test]
fn a_guest_restarts_and_another_connects() {
    let served = Served::start("hdd", |_| {});
    let data = pattern(3, 4096);
    let mut first = served.front_end();
    assert_eq!(write(&mut first, 8, &data), OK);
    // A reset in the middle of requests: all that was made available is answered.
    for slot in 0..8 {
        first.submit(slot, VIRTIO_BLK_T_IN, u64::from(slot) * 1000, 4096, true);
    }
    first.kick();
    let taken = first.restart_queue();
    let mut answered = 0;
    while first.poll().is_some() {
        answered += 1;
    }
    assert_eq!(taken, 1 + answered, "what was taken was answered");
    while answered < 8 {
        first.finish_one();
        answered += 1;
    }
    assert_eq!(read(&mut first, 8, 4096), data);
    // Gone in the middle of a request.
    first.submit(0, VIRTIO_BLK_T_IN, 0, 4096, true);
    first.kick();
    drop(first);
    for _ in 0..3 {
        let mut next = served.front_end();
        assert_eq!(read(&mut next, 8, 4096), data);
    }
}

#[test]
fn timing_is_switched_with_the_queue_drained() {
    let served = Served::start("hdd", |options| options.timing = false);
    let (mut front_end, mut control) = (served.front_end(), served.control());
    assert!(!control.statistics().unwrap().timing);
    assert_eq!(write(&mut front_end, 0, &pattern(1, 4096)), OK);
    assert_eq!(control.statistics().unwrap().timed_requests, 0);
    control.set_timing(true).unwrap();
    assert!(control.statistics().unwrap().timing);
    for slot in 0..4 {
        front_end.submit(slot, VIRTIO_BLK_T_OUT, 4000 * u64::from(slot), 4096, false);
    }
    front_end.kick();
    for _ in 0..4 {
        front_end.finish_one();
    }
    control.set_timing(false).unwrap();
    let statistics = control.statistics().unwrap();
    assert_eq!((statistics.timing, statistics.in_flight, statistics.settled), (false, 0, true));
    assert_eq!(statistics.timed_requests, 4);
    assert_eq!(statistics.cache_hits, 4, "the write cache took them");
}

#[test]
fn reset_empties_the_disk() {
    let served = Served::start("hdd", |_| {});
    let (mut front_end, mut control) = (served.front_end(), served.control());
    assert_eq!(write(&mut front_end, 64, &pattern(9, 32 << 10)), OK);
    assert!(control.statistics().unwrap().allocated_bytes > 0);
    control.reset().unwrap();
    assert_eq!(control.statistics().unwrap().allocated_bytes, 0);
    assert_eq!(read(&mut front_end, 64, 32 << 10), vec![0; 32 << 10]);
}

#[test]
fn the_log_tells_of_every_request() {
    let served = Served::start("hdd", |options| options.offset_bytes = 1 << 30);
    let (mut front_end, mut control) = (served.front_end(), served.control());
    let path = served.path("disk.log");
    control.start_log(&path).unwrap();
    assert_eq!(write(&mut front_end, 16, &pattern(2, 8192)), OK);
    assert_eq!(front_end.request(VIRTIO_BLK_T_FLUSH, 0, 0, false), OK);
    read(&mut front_end, 4096, 4096);
    control.set_timing(false).unwrap();
    read(&mut front_end, 4096, 4096);
    let summary = control.stop_log().unwrap();
    assert_eq!((summary.records, summary.dropped), (4, 0));

    let reader = Reader::open(&path).unwrap();
    let header = reader.header().clone();
    assert_eq!(
        (header.disk.as_str(), header.sectors, header.first_sector),
        ("wd-7200-1tb", SIZE / 512, 1 << 21)
    );
    let records: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
    let seen: Vec<_> = records.iter().map(|r| (r.operation, r.sector, r.sectors, r.timed)).collect();
    let expected = [
        (Operation::Write, 16, 16, true),
        (Operation::Flush, 0, 0, true),
        (Operation::Read, 4096, 8, true),
        (Operation::Read, 4096, 8, false),
    ];
    assert_eq!(seen, expected);
    for (sequence, r) in records.iter().enumerate() {
        assert_eq!(r.sequence, sequence as u64);
        assert!(header.opened_ns <= r.arrival_ns && r.arrival_ns <= r.service_start_ns);
        assert!(r.service_start_ns <= r.model_complete_ns && r.model_complete_ns <= r.complete_ns);
        let parts = r.seek_ns + r.rotation_ns + r.transfer_ns + r.overhead_ns;
        assert_eq!(parts, r.model_complete_ns - r.service_start_ns);
    }
}

#[test]
fn a_disk_that_is_read_only_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    std::fs::write(&image, pattern(9, SIZE as usize)).unwrap();
    let serve = || {
        Served::start("null", |options| {
            options.data = Some(image.clone());
            options.read_only = true;
        })
    };
    // Two at once may read it.
    for served in [serve(), serve()] {
        let mut front_end = served.front_end();
        assert_ne!(front_end.offered_features() & (1 << VIRTIO_BLK_F_RO), 0);
        assert_eq!(read(&mut front_end, 0, 4096), pattern(9, 4096));
        assert_eq!(write(&mut front_end, 0, &pattern(1, 4096)), IOERR);
        assert_eq!(range(&mut front_end, VIRTIO_BLK_T_DISCARD, 0, 8, 0), IOERR);
    }
    assert_eq!(std::fs::read(&image).unwrap(), pattern(9, SIZE as usize));
}

#[test]
fn quitting_removes_the_sockets_and_keeps_the_data() {
    let served = Served::start("null", |_| {});
    let mut front_end = served.front_end();
    assert_eq!(write(&mut front_end, 0, &pattern(5, 512)), OK);
    served.control().quit().unwrap();
    let folder = served.wait();
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(left, ["disk.data"]);
    assert_eq!(&std::fs::read(folder.path().join("disk.data")).unwrap()[..512], pattern(5, 512));
}

#[test]
fn sockets_and_data_are_the_owners_only() {
    use std::os::unix::fs::PermissionsExt;
    let served = Served::start("null", |_| {});
    for name in ["disk.sock", "disk.control", "disk.data"] {
        let mode = std::fs::metadata(served.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn two_disks_never_share_a_socket_or_a_file() {
    let served = Served::start("null", |_| {});
    let folder = tempfile::tempdir().unwrap();
    let second = |socket: PathBuf, data: PathBuf| {
        let control = Some(folder.path().join("control"));
        serve(ServeOptions { socket, data: Some(data), control, ..options("null", SIZE) })
            .unwrap_err()
            .to_string()
    };
    let error = second(served.path("disk.sock"), folder.path().join("data"));
    assert!(error.contains("another server listens there"), "{error}");
    let error = second(folder.path().join("socket"), served.path("disk.data"));
    assert!(error.contains("another disk may serve it"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    let mut front_end = served.front_end();
    assert_eq!(front_end.request(VIRTIO_BLK_T_FLUSH, 0, 0, false), OK, "the first disk still works");
}

#[test]
fn impossible_options_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let options = |profile: &str, size_bytes| ServeOptions {
        socket: folder.path().join("s"),
        data: Some(folder.path().join("d")),
        ..options(profile, size_bytes)
    };
    insta::assert_snapshot!(
        serve(options("wd-9999", 512)).unwrap_err(),
        @"no disk profile is called `wd-9999`; the profiles are null, wd-7200-1tb, wd-re3, st1000lm024, st336938lw, raid0-14x10k, raid0-5x10k, raid5-5x10k, ssd-sata, nvme-pcie4"
    );
    insta::assert_snapshot!(
        serve(options("wd-re3", 300 << 30)).unwrap_err(),
        @"a region of 322122547200 bytes at offset 0 does not fit onto the modelled disk `wd-re3` of 250059350016 bytes; both must be multiples of 512 and the region must not be empty"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn nonsense_on_the_control_socket_is_answered() {
    use std::io::{BufRead, BufReader, Write};
    let served = Served::start("null", |_| {});
    let mut stream = std::os::unix::net::UnixStream::connect(served.path("disk.control")).unwrap();
    stream.write_all(b"{\"do\":\"dance\"}\n{\"do\":\"statistics\"}\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert!(lines.next().unwrap().unwrap().contains("this is not a control request"));
    assert!(lines.next().unwrap().unwrap().contains("\"answer\":\"statistics\""));
}

#[test]
fn stamps_in_the_data_are_noted_beside_the_log() {
    for profile in ["null", "ssd-sata"] {
        let served = Served::start(profile, |_| {});
        let mut control = served.control();
        control.start_log(served.path("disk.log")).unwrap();
        control.start_stamps(served.path("disk.stamps")).unwrap();
        let mut front_end = served.front_end();
        let mut data = vec![3; 4096];
        nestor_disk::log::stamp(&mut data[..2048], 11);
        nestor_disk::log::stamp(&mut data[2048..3072], 12);
        assert_eq!(write(&mut front_end, 100, &data), OK);
        assert_eq!(write(&mut front_end, 200, &pattern(1, 4096)), OK);
        read(&mut front_end, 102, 2048);
        control.stop_stamps().unwrap();
        control.stop_log().unwrap();
        let records: Vec<_> =
            Reader::open(served.path("disk.log")).unwrap().collect::<Result<_, _>>().unwrap();
        let runs: Vec<_> =
            StampReader::open(served.path("disk.stamps")).unwrap().collect::<Result<_, _>>().unwrap();
        let run = |request: usize, sector, sectors, stamp, read| StampRun {
            sequence: records[request].sequence,
            sector,
            sectors,
            stamp,
            read,
        };
        let expected = [
            run(0, 100, 4, 11, false),
            run(0, 104, 2, 12, false),
            run(2, 102, 2, 11, true),
            run(2, 104, 2, 12, true),
        ];
        assert_eq!(runs, expected, "{profile}");
    }
}
