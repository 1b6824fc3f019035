//! What each form of trace says, by examples whose answer is known.

mod traces;

use nestor_trace::Operation;
use nestor_trace::decode::{Recorded, Source};
use nestor_trace::event::{Action, Device, Direction, Flags};
use traces::{
    MSR, VSCSI_COMMANDS, VSCSI_CSV, VSCSI_HISTOGRAMS, data, examples, open_bytes, read, simpletrace,
};

#[test]
fn every_form_is_recognised_by_its_content() {
    for (format, bytes) in examples() {
        assert_eq!(open_bytes(bytes).unwrap().format, format);
    }
}

#[test]
fn blkparse_lines_are_understood() {
    let text = "\
  8,16   3        1     0.000000000  697  A WFSM 2148 + 8 <- (8,17) 100
  8,16   3        2     0.000000829  697  Q  WS 2148 + 8 [kjournald [8:16]]
  8,16   1        3     1.500000000     0  C   R 24 + 16 (  131765) [65531]
  8,16   1        4     1.600000000   700  UT  N [fio] 3
  8,16   1        5     1.700000000   700  X  WS 204800 / 206848 [fio]
  8,16   0        0     1.750000000     0  m   N cfq700 slice expired t=0
  8,16   1        6     1.800000000   701  D   R 36 (12 01 00 00 24 00 ..) [scsi_id]
  8,16   1        8     1.900000000   701  D  FN [(null)]
CPU0 (sdb):
 Reads Queued:           9,      400KiB\t Writes Queued:           4,      128KiB
Skips: 1 forward (1 -   5.0%)
";
    let all = read(text);
    let e = &all.events;
    assert_eq!(e.len(), 7);
    assert!(e.iter().all(|e| e.device == Device { major: 8, minor: 16 }));
    let remap = Action::Remap { from: Device { major: 8, minor: 17 }, from_sector: 100 };
    assert_eq!((e[0].action, e[0].sector, e[0].bytes, e[0].cpu), (remap, 2148, 4096, 3));
    assert_eq!(e[0].flags, Flags::FUA.with(Flags::SYNC, true).with(Flags::META, true));
    assert_eq!((e[1].action, e[1].time_ns, e[1].pid, e[1].sequence), (Action::Queue, 829, 697, 2));
    assert_eq!((e[2].action, e[2].error, e[2].bytes), (Action::Complete, 5, 8192));
    assert_eq!(e[3].action, Action::Unplug { requests: 3, timer: true });
    assert_eq!((e[4].action, e[4].bytes), (Action::Split { new_sector: 206_848 }, 1 << 20));
    assert_eq!((e[5].bytes, e[5].sector), (36, 0));
    assert!(e[5].flags.contains(Flags::PASSTHROUGH));
    assert!(e[6].is_empty_flush() && e[6].direction == Direction::None);
    assert_eq!((all.warnings.missing_records, all.warnings.skipped_lines), (1, 0));
    let Source::BlockEvents(mut source) = open_bytes(text).unwrap().source else { panic!("events") };
    while source.next_event().unwrap().is_some() {}
    assert_eq!(source.thread_name(697), Some("kjournald [8:16]"));
    assert_eq!((source.thread_name(701), source.thread_name(0)), (Some("scsi_id"), None));
}

#[test]
fn simpletrace_is_understood_in_both_byte_orders() {
    let (little, big) = (read(simpletrace(false)), read(simpletrace(true)));
    assert_eq!(little, big);
    let e = &little.qemu;
    assert_eq!(e.iter().map(|e| e.time_ns).collect::<Vec<_>>(), [1000, 2000, 3000, 4000]);
    assert_eq!((&*e[0].name, e[0].pid), ("virtio_blk_handle_write", 42));
    assert_eq!((e[0].number("sector"), e[0].number("nsectors")), (Some(8), Some(16)));
    assert_eq!(e[1].signed("ret"), Some(-5));
    assert_eq!(
        (e[2].text("cmd"), e[2].number("lba"), e[2].number("len")),
        (Some("AndVerify "), Some(64), Some(8))
    );
    assert_eq!((e[3].number("arg0"), e[3].number("arg1")), (Some(1), Some(2)));
    assert_eq!((little.lost, little.warnings.unknown_actions, little.warnings.out_of_order), (12, 1, 0));
}

#[test]
fn an_old_simpletrace_is_refused_in_words() {
    let mut bytes = simpletrace(false);
    bytes[16] = 3;
    let error = traces::contents(open_bytes(bytes).unwrap().source).unwrap_err();
    insta::assert_snapshot!(error, @"test: at byte 16: version 3 of QEMU's simple trace format instead of 4: it has numbers for events without their names; make text of it with the simpletrace.py of the QEMU that wrote it");
}

#[test]
fn fios_iologs_are_understood() {
    let all = read(traces::IOLOG_2);
    let seen: Vec<_> = all
        .requests
        .iter()
        .map(|r| (r.target, r.request.operation, r.request.offset, r.request.bytes, r.request.queued_ns))
        .collect();
    let expected = [
        (0, Operation::Write, 0, 4096, 0),
        (1, Operation::Read, 8192, 16384, 150_000),
        (0, Operation::Flush, 0, 0, 150_000),
        (1, Operation::Discard, 0, 65536, 150_000),
    ];
    assert_eq!(seen, expected);
    assert_eq!(all.targets, ["/srv/a", "/srv/b"]);
    let trace = open_bytes(std::fs::read(data("fio-v3.iolog")).unwrap()).unwrap();
    let Source::Requests(mut source) = trace.source else { panic!("requests") };
    let first = source.next_request().unwrap().unwrap();
    assert_eq!((first.request.operation, first.request.offset), (Operation::Read, 61440));
    assert_eq!((first.request.queued_ns, first.request.completed_ns), (130_000, 130_000));
    assert_eq!(source.recorded(), Recorded { time: true, latency: false, offset: true });
    let mut count = 1;
    while source.next_request().unwrap().is_some() {
        count += 1;
    }
    // All lines but the title, add, open and close.
    assert_eq!(count, 41);
}

#[test]
fn fios_latency_logs_are_understood_with_and_without_offsets() {
    let log = |text: &'static str| {
        let of = |r: &nestor_trace::decode::TracedRequest| {
            let r = r.request;
            (r.operation, r.offset, r.bytes, r.queued_ns, r.completed_ns - r.queued_ns)
        };
        read(text).requests.iter().map(of).collect::<Vec<_>>()
    };
    use Operation::{Discard, Flush, Read, Write};
    // fio 2.99 and later: priority last; with an offset; with an offset and the issue time.
    assert_eq!(log("5, 2000000, 0, 4096, 0\n"), [(Read, 0, 4096, 3_000_000, 2_000_000)]);
    assert_eq!(log("5, 2000000, 1, 4096, 8192, 0x2004\n"), [(Write, 8192, 4096, 3_000_000, 2_000_000)]);
    assert_eq!(log("5, 2000000, 2, 512, 8192, 0, 2500000\n"), [(Discard, 8192, 512, 2_500_000, 2_000_000)]);
    // Older: no priority.
    assert_eq!(log("5, 2000000, 3, 0\n5, 10, 0, 4096, 8192\n")[0], (Flush, 0, 0, 3_000_000, 2_000_000));
    assert_eq!(log("5, 10, 0, 4096, 8192\n"), [(Read, 8192, 4096, 4_999_990, 10)]);
    // The first request ends within the first millisecond.
    assert_eq!(log("0, 593959, 0, 4096, 61440, 0\n"), [(Read, 61440, 4096, 0, 593_959)]);
    let averages = traces::contents(open_bytes("500, 93959, 0, 0, 0, 0\n").unwrap().source).unwrap_err();
    insta::assert_snapshot!(averages, @"test: at byte 0: an entry without a size: this is a log of averages; let fio log every request (without log_avg_msec)");
}

#[test]
fn msr_traces_are_understood() {
    let all = read(MSR);
    let r: Vec<_> = all.requests.iter().map(|r| (r.target, r.request)).collect();
    assert_eq!(all.targets, ["hm.1", "web.0"]);
    // 128166372003061629 ticks are 2007-02-22 17:00:00.3061629 UTC. The answers come out in their order.
    let first = r.iter().find(|(_, r)| r.operation == Operation::Read).unwrap().1;
    assert_eq!(first.queued_ns, 1_172_163_600_306_162_900);
    assert_eq!(first.completed_ns - first.queued_ns, 11_373_600);
    assert_eq!((first.offset, first.bytes, first.id), (383_496_192, 32768, 0));
    assert!(r.is_sorted_by_key(|(_, r)| r.completed_ns) && r.len() == 3);
    assert_eq!(all.warnings, Default::default());
}

#[test]
fn traces_of_vmwares_commands_are_understood() {
    let all = read(VSCSI_COMMANDS);
    let r: Vec<_> = all.requests.iter().map(|r| r.request).collect();
    assert_eq!(r.len(), 2);
    assert_eq!((r[0].operation, r[0].offset, r[0].bytes), (Operation::Write, 24_048_792 * 512, 4096));
    assert_eq!((r[1].operation, r[1].queued_ns), (Operation::Read, 2_756_783_857_269_000));
    assert_eq!(all.warnings.unknown_actions, 1);
}

#[test]
fn vmwares_histograms_are_understood() {
    let all = read(VSCSI_HISTOGRAMS).histograms;
    assert_eq!(all.len(), 2);
    let h = &all[0];
    assert_eq!(
        (h.quantity.as_str(), h.world_group, h.handle),
        ("IO lengths of commands", Some(118_739), Some(8211))
    );
    assert_eq!(
        (h.disk.as_deref(), h.min, h.max, h.mean),
        (Some("scsi0:0"), Some(4096), Some(1_048_576), Some(9240))
    );
    let buckets: Vec<_> = h.buckets.iter().map(|b| (b.limit, b.count)).collect();
    assert_eq!(buckets, [(Some(512), 0), (Some(4096), 12), (Some(524_288), 4), (None, 1)]);
    assert_eq!(h.count, buckets.iter().map(|(_, n)| n).sum::<u64>());
    assert_eq!((all[1].min, all[1].buckets[0].limit), (Some(-70_000), Some(-50_000)));
    let csv = &read(VSCSI_CSV).histograms[0];
    assert_eq!((csv.quantity.as_str(), csv.handle), ("latency of IOs in Microseconds (us)", Some(8211)));
    let buckets: Vec<_> = csv.buckets.iter().map(|b| (b.limit, b.count)).collect();
    assert_eq!(buckets, [(Some(100), 4), (Some(100_000), 1), (None, 1)]);
}
