//! Memory stays bounded for any trace, and remarks give the number of everything that is left out for that.
//!
//! One test alone in its program, because what it counts is the program's memory.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{encoded, event};
use nestor_trace::decode::blktrace::{ByteOrder, Version};
use nestor_trace::decode::{Input, OpenOptions, open_input};
use nestor_trace::event::{Action, BlockEvent, Device};
use nestor_trace::{Analysis, AnalyzeOptions, analyze};

/// Counts what is in use and the most that ever was.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on as it is to the system's allocator; the counters do not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps to what `System` asks for, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MOST_BYTES: usize = 100_000_000;

/// A file of records that are made as they are read.
struct Made<F> {
    next: F,
    number: u64,
    records: u64,
    ready: Vec<u8>,
}

impl<F: FnMut(u64) -> BlockEvent> Read for Made<F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.ready.is_empty() && self.number < self.records {
            let event = BlockEvent { sequence: self.number as u32 + 1, ..(self.next)(self.number) };
            self.ready = encoded(&[event], ByteOrder::Little, Version::V7);
            self.number += 1;
        }
        let length = self.ready.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.ready[..length]);
        self.ready.drain(..length);
        Ok(length)
    }
}

/// Analyses a number of records and checks the memory that this took.
fn analysed(what: &str, records: u64, next: impl FnMut(u64) -> BlockEvent + Send + 'static) -> Analysis {
    let before = IN_USE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let source = Made { next, number: 0, records, ready: Vec::new() };
    let trace = open_input(Input::new(source, "made"), &OpenOptions::default()).unwrap();
    let options = AnalyzeOptions { per_process: true, ..AnalyzeOptions::default() };
    let analysis = analyze(trace, &options).unwrap();
    let peak = PEAK.load(Ordering::Relaxed) - before;
    println!("{what}: {:.1} MB", peak as f64 / 1e6);
    assert!(peak < MOST_BYTES, "{what} takes {peak} bytes");
    analysis
}

/// The remark with a word.
fn remark<'a>(remarks: &'a [String], word: &str) -> &'a str {
    remarks.iter().find(|remark| remark.contains(word)).unwrap_or_else(|| panic!("{word}: {remarks:?}"))
}

/// Times whose distances are of every order of magnitude, from a number.
fn scattered(number: u64) -> u64 {
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (scattered >> 8) >> (scattered % 40 + 16)
}

#[test]
fn no_trace_takes_more_than_100_mb() {
    let of_device = |n: u64| Device { major: 8 + (n >> 20) as u32, minor: (n & 0xf_ffff) as u32 };
    let found = analysed("devices", 20_000, move |n| BlockEvent {
        device: of_device(n),
        ..event(n, Action::Queue, n * 8, 8)
    });
    assert_eq!((found.records, found.layers.len()), (20_000, 32));
    insta::assert_snapshot!(remark(&found.remarks, "beyond"), @"19968 events are of devices beyond the first 32, which were left out; name one to count it");

    let found = analysed("outstanding requests", 500_000, |n| event(n, Action::Queue, n * 4096, 8));
    insta::assert_snapshot!(remark(&found.layers[0].metrics.remarks, "given up"), @"434464 requests were given up because too many were in flight: counted, not timed");

    let found = analysed("processes", 300_000, |n| {
        let actions = [Action::Queue, Action::GetRequest, Action::Insert, Action::Issue, Action::Complete];
        let at = (n % 5) as usize;
        BlockEvent { pid: (n / 5) as u32 + 1, ..event(n * 7 + n % 5, actions[at], (n / 5) * 4096, 8) }
    });
    let processes = &found.layers[0].metrics.processes;
    let others = processes.iter().find(|process| process.pid.is_none()).unwrap();
    assert_eq!((processes.len(), others.write_queued), (513, 60_000 - 512));

    let found = analysed("CPUs", 20_000, |n| BlockEvent {
        cpu: n as u32,
        sequence: 1,
        ..event(n, Action::Queue, n * 8, 8)
    });
    insta::assert_snapshot!(remark(&found.remarks, "losses"), @"15904 events were not checked for losses: the trace has too many CPUs and devices");

    // Everything at once, with times and distances of every size.
    let found = analysed("devices, processes and requests", 400_000, move |n| {
        let actions = [Action::Queue, Action::GetRequest, Action::Insert, Action::Issue, Action::Complete];
        let (request, at) = (n / 5, (n % 5) as usize);
        // Every other request never ends.
        let action = if at == 4 && request % 2 == 0 { Action::Plug } else { actions[at] };
        let time_ns = n * 1_000_000_000_000 / 400 + scattered(n) % 2_000_000_000;
        BlockEvent {
            device: of_device(request % 40),
            pid: request as u32 % 3000,
            time_ns,
            ..event(0, action, scattered(request) >> 4, 8 + request % 2000)
        }
    });
    assert_eq!(found.layers.len(), 32);
}
