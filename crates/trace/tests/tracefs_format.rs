//! The text of tracefs, as kernels of several ages print it.

use std::path::Path;

use nestor_trace::decode::tracefs::{Line, TextReader, parse_line};
use nestor_trace::event::{Action, BlockEvent, Device, Direction, Flags};
use nestor_trace::summarize_tracefs;
use proptest::prelude::*;

fn parsed(line: &str) -> BlockEvent {
    match parse_line(line) {
        Line::Event(event) => event,
        other => panic!("{line}: {other:?}"),
    }
}

fn sda() -> Device {
    Device { major: 8, minor: 0 }
}

#[test]
fn a_request_is_read_with_and_without_a_priority() {
    let linux_6_1 = parsed(
        "             fio-812     [003] .....   101.000250: block_rq_issue: 8,0 WS 4096 () 2048 + 8 [fio]",
    );
    let linux_6_18 = parsed(
        "             fio-812     [003] .....   101.000250: block_rq_issue: 8,0 WS 4096 () 2048 + 8 be,0,4 [fio]",
    );
    let expected = BlockEvent {
        time_ns: 101_000_250_000,
        sequence: 0,
        cpu: 3,
        pid: 812,
        device: sda(),
        action: Action::Issue,
        direction: Direction::Write,
        flags: Flags::SYNC,
        sector: 2048,
        bytes: 4096,
        error: 0,
    };
    assert_eq!(linux_6_1, expected);
    assert_eq!(linux_6_18, expected);
}

#[test]
fn every_event_is_known() {
    let action = |event: &str| parsed(&format!(" a-1 [000] d.s1. 1.5: block_{event}")).action;
    assert_eq!(action("bio_queue: 8,0 R 0 + 8 [a]"), Action::Queue);
    assert_eq!(action("getrq: 8,0 R 0 + 8 [a]"), Action::GetRequest);
    assert_eq!(action("bio_backmerge: 8,0 R 0 + 8 [a]"), Action::BackMerge);
    assert_eq!(action("rq_merge: 8,0 R 4096 () 0 + 8 [a]"), Action::BackMerge);
    assert_eq!(action("bio_frontmerge: 8,0 R 0 + 8 [a]"), Action::FrontMerge);
    assert_eq!(action("rq_insert: 8,0 R 4096 () 0 + 8 be,0,4 [a]"), Action::Insert);
    assert_eq!(action("rq_requeue: 8,0 R () 0 + 8 [0]"), Action::Requeue);
    assert_eq!(action("rq_complete: 8,0 R () 0 + 8 [0]"), Action::Complete);
    assert_eq!(action("bio_complete: 8,0 R 0 + 8 [0]"), Action::Complete);
    assert_eq!(action("split: 8,0 R 0 / 1280 [a]"), Action::Split { new_sector: 1280 });
    assert_eq!(action("plug: [a]"), Action::Plug);
    assert_eq!(action("unplug: [a b] 3"), Action::Unplug { requests: 3, timer: false });
    let from = Action::Remap { from: Device { major: 8, minor: 1 }, from_sector: 5 };
    assert_eq!(action("bio_remap: 8,0 R 2053 + 8 <- (8,1) 5"), from);
    assert_eq!(parse_line(" a-1 [000] ..... 1.5: block_io_start: 8,0 R 4096 () 0 + 8 [a]"), Line::Other);
    assert_eq!(parse_line(" a-1 [000] ..... 1.5: block_rq_teleport: 8,0 R 0 + 8 [a]"), Line::Unknown);
    assert_eq!(parse_line(" a-1 [000] ..... 1.5: sched_switch: prev_comm=a"), Line::Other);
}

#[test]
fn flags_are_taken_apart() {
    let of = |rwbs: &str, bytes: u64| {
        let event = parsed(&format!(" a-1 [000] ..... 1.5: block_bio_queue: 8,0 {rwbs} 64 + {bytes} [a]"));
        (event.direction, event.flags)
    };
    let none = Flags::default();
    let set = |flags: &[Flags]| flags.iter().fold(none, |all, flag| all.with(*flag, true));
    assert_eq!(of("R", 8), (Direction::Read, none));
    assert_eq!(of("RAM", 8), (Direction::Read, set(&[Flags::AHEAD, Flags::META])));
    assert_eq!(
        of("FWFSM", 8),
        (Direction::Write, set(&[Flags::FLUSH, Flags::FUA, Flags::SYNC, Flags::META]))
    );
    assert_eq!(of("WFS", 8), (Direction::Write, set(&[Flags::FUA, Flags::SYNC])));
    assert_eq!(of("FWS", 0), (Direction::None, set(&[Flags::FLUSH, Flags::SYNC])));
    assert_eq!(of("FF", 0), (Direction::None, Flags::FLUSH));
    assert_eq!(of("DS", 8), (Direction::Discard, Flags::SYNC));
    assert_eq!(of("NS", 8), (Direction::Discard, Flags::SYNC));
    assert_eq!(of("N", 0), (Direction::None, none));
}

#[test]
fn odd_names_of_threads_do_no_harm() {
    let a =
        parsed("  my [prog] 1-2-99 (    99) [001] d.h2. 7.000001: block_rq_complete: 8,0 R () 8 + 8 [-5]");
    assert_eq!((a.pid, a.cpu, a.error), (99, 1, 5));
    let b = parsed(
        " jbd2/loop0-8-29204   [001] ..... 2471.766040: block_bio_queue: 7,0 FWFSM 524360 + 8 [jbd2/loop0-8]",
    );
    assert_eq!((b.pid, b.sector), (29204, 524_360));
    let c = parsed(
        " kworker/1:1H-54 [001] ..... 1.5: block_rq_issue: 8,0 R 4096 () 8 + 8 none,0,0 [kworker/1: + 9]",
    );
    assert_eq!((c.pid, c.bytes), (54, 4096));
}

#[test]
fn commands_passed_through_are_no_requests() {
    let event = parsed(" a-1 [000] ..... 1.5: block_rq_issue: 8,0 N 36 (12 00 00 00 24 00) 0 + 0 [a]");
    assert!(event.flags.contains(Flags::PASSTHROUGH));
    assert_eq!(event.bytes, 36);
}

#[test]
fn losses_are_summed() {
    let text = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 140/250   #P:4\n\
                CPU:0 [LOST 12 EVENTS]\n a-1 [000] ..... 1.5: block_bio_queue: 8,0 R 0 + 8 [a]\n";
    let metrics = summarize_tracefs(text.as_bytes(), Path::new("trace"), Some((8, 0))).unwrap();
    assert_eq!(metrics.dropped_events, 122);
    assert_eq!(metrics.read.queued, 1);
}

#[test]
fn a_text_of_something_else_is_refused() {
    let error = summarize_tracefs("what is this\n".as_bytes(), Path::new("trace.txt"), None).unwrap_err();
    insta::assert_snapshot!(error, @"no block event in trace.txt; the events in them are not block events; check that these are the right files");
}

#[test]
fn endless_lines_are_skipped_in_constant_memory() {
    let mut text = vec![b'x'; 1 << 19];
    text.extend(b"\n a-1 [000] ..... 1.5: block_bio_queue: 8,0 R 0 + 8 [a]\n");
    let mut reader = TextReader::new(text.as_slice(), "trace");
    assert_eq!(reader.next_event().unwrap().unwrap().action, Action::Queue);
    assert_eq!(reader.warnings().skipped_lines, 1);
}

proptest! {
    #[test]
    fn lines_of_any_kind_never_panic(line in any::<String>()) {
        parse_line(&line);
    }

    #[test]
    fn damaged_lines_never_panic(at in 0..90_usize, with in ".{0,5}") {
        let line = " a-1 [000] ..... 1.5: block_rq_complete: 8,0 FWFSM () 204800 + 2048 be,0,4 [-5]";
        let at = at.min(line.len());
        parse_line(&format!("{}{with}{}", &line[..at], &line[at..]));
        parse_line(&line[..at]);
        parse_line(&format!("{with}{}", &line[at..]));
    }

    #[test]
    fn bytes_of_any_kind_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        let _ = summarize_tracefs(bytes.as_slice(), Path::new("trace"), None);
    }
}
