//! A trace recorded from a loop device (see `data/README.md`) against blkparse, and the two recordings of the same run
//! against each other; made traces against btt.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod common;

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{DEVICE, event, write_files};
use nestor_statistics::LatencyHistogram;
use nestor_trace::event::{Action, BlockEvent, Direction};
use nestor_trace::{DirectionMetrics, LayerMetrics, summarize_blktrace, summarize_tracefs};

use Action::{BackMerge, Complete, GetRequest, Insert, Issue, Queue};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn binary() -> LayerMetrics {
    let inputs: Vec<_> = (0..2).map(|cpu| data().join(format!("ext4-loop.blktrace.{cpu}"))).collect();
    summarize_blktrace(&inputs, Some((7, 0))).unwrap()
}

fn text() -> LayerMetrics {
    let path = data().join("ext4-loop.tracefs.txt");
    let file = BufReader::new(std::fs::File::open(&path).unwrap());
    summarize_tracefs(file, &path, Some((7, 0))).unwrap()
}

fn count(histogram: &Option<LatencyHistogram>) -> u64 {
    histogram.as_ref().map_or(0, LatencyHistogram::count)
}

fn mean_ns(histogram: &Option<LatencyHistogram>) -> f64 {
    histogram.as_ref().and_then(LatencyHistogram::summary).map_or(0.0, |s| s.mean_ns)
}

/// What a command prints, or `None` with a note where it is not installed.
fn output_of(command: &mut Command) -> Option<String> {
    match command.output() {
        Ok(output) => Some(String::from_utf8(output.stdout).unwrap()),
        Err(error) => {
            eprintln!(
                "skipped: {:?} cannot be run ({error}); install the Debian package blktrace",
                command.get_program()
            );
            None
        }
    }
}

#[test]
fn both_recordings_of_a_run_tell_the_same() {
    let (binary, text) = (binary(), text());
    assert_eq!((&binary.read, &binary.write, &binary.discard), (&text.read, &text.write, &text.discard));
    let flushes = |m: &LayerMetrics| (m.flushes, m.flushes_queued, m.fua_writes, m.fua_writes_queued);
    assert_eq!(flushes(&binary), flushes(&text));
    assert_eq!(binary.size_histogram, text.size_histogram);
    assert_eq!(binary.sequential_share, text.sequential_share);
    let counts = |m: &LayerMetrics| [&m.q2i, &m.i2d, &m.q2d, &m.d2c, &m.q2c, &m.flush_d2c].map(count);
    assert_eq!(counts(&binary), counts(&text));
    // Each recorder runs at each event after the other, so the times differ by what a recorder costs.
    for (a, b) in [(&binary.d2c, &text.d2c), (&binary.q2c, &text.q2c)] {
        assert!((mean_ns(a) / mean_ns(b) - 1.0).abs() < 0.1, "{} {}", mean_ns(a), mean_ns(b));
    }
}

#[test]
fn every_request_of_the_real_trace_is_paired() {
    let m = binary();
    assert_eq!(m.remarks, [""; 0]);
    assert_eq!(count(&m.q2c), m.read.queued + m.write.queued);
    assert_eq!(count(&m.d2c), m.read.issued + m.write.issued);
    assert_eq!(count(&m.q2i), m.read.issued + m.write.issued);
    assert_eq!(count(&m.flush_d2c), m.flushes);
    assert_eq!((m.flushes, m.flushes_queued, m.fua_writes_queued), (17, 9, 8));
    // The identity, as far as histograms of three digits can show it.
    assert!(((mean_ns(&m.q2i) + mean_ns(&m.i2d)) / mean_ns(&m.q2d) - 1.0).abs() < 2e-3);
}

/// blkparse counts each event as such: its queued writes contain empty flushes, its issues flushes, its completions
/// second completions.
#[test]
fn counts_agree_with_blkparse() {
    let Some(events) = output_of(Command::new("blkparse").current_dir(data()).args([
        "-q",
        "-i",
        "ext4-loop",
        "-f",
        "%a %d %N\n",
    ])) else {
        return;
    };
    let counted = |action: &str, letter: char| {
        let mut found = DirectionMetrics::default();
        for line in events.lines() {
            let mut words = line.split(' ');
            let (a, rwbs, bytes) =
                (words.next().unwrap(), words.next().unwrap_or(""), words.next().unwrap_or(""));
            let bytes: u64 = bytes.parse().unwrap_or(0);
            if a == action && rwbs.contains(letter) && bytes > 0 {
                found.queued += 1;
                found.queued_bytes += bytes;
            }
        }
        (found.queued, found.queued_bytes)
    };
    let m = binary();
    for (direction, letter) in [(&m.read, 'R'), (&m.write, 'W')] {
        assert_eq!(counted("Q", letter), (direction.queued, direction.queued_bytes));
        assert_eq!(counted("D", letter), (direction.issued, direction.issued_bytes));
        assert_eq!(counted("C", letter), (direction.completed, direction.completed_bytes));
        assert_eq!(counted("M", letter).0, direction.back_merges);
        assert_eq!(counted("F", letter).0, direction.front_merges);
    }
    assert!(m.write.queued > 50 && m.write.back_merges > 10);
}

/// `NAME MIN AVG MAX N` of btt's first table: mean in nanoseconds, number.
fn btt_row(table: &str, name: &str) -> (f64, u64) {
    let row = table.lines().find(|line| line.split_whitespace().next() == Some(name));
    let words: Vec<_> =
        row.unwrap_or_else(|| panic!("btt has no {name}:\n{table}")).split_whitespace().collect();
    (words[2].parse::<f64>().unwrap() * 1e9, words[4].parse().unwrap())
}

fn btt(directory: &Path, events: &[BlockEvent]) -> Option<(LayerMetrics, String)> {
    let inputs = write_files(directory, "made", events);
    let mine = summarize_blktrace(&inputs, Some((DEVICE.major, DEVICE.minor))).unwrap();
    output_of(
        Command::new("blkparse").current_dir(directory).args(["-q", "-i", "made", "-d", "made.bin", "-O"]),
    )?;
    let table = output_of(Command::new("btt").current_dir(directory).args(["-i", "made.bin"]))?;
    Some((mine, table))
}

fn assert_close(mine: f64, theirs: f64, what: &str) {
    // The histogram keeps three digits.
    assert!((mine / theirs - 1.0).abs() < 2e-3, "{what}: {mine} here, {theirs} with btt");
}

/// A generator of numbers that are the same in every run (Knuth's MMIX constants).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Requests of up to `most_bios` merged bios on two CPUs, several at a time.
fn made_trace(most_bios: u64) -> Vec<BlockEvent> {
    let mut numbers = Numbers(7);
    let mut events = Vec::new();
    for request in 0..400_u64 {
        let begin = 1000 + request * 150;
        let sector = numbers.below(1 << 20) * 256;
        let bios = 1 + numbers.below(most_bios);
        let way = if numbers.below(2) == 0 { Direction::Read } else { Direction::Write };
        let cpu = numbers.below(2) as u32;
        let at = |time_us, action, sector, sectors| BlockEvent {
            direction: way,
            cpu,
            ..event(time_us, action, sector, sectors)
        };
        for bio in 0..bios {
            let then = if bio == 0 { GetRequest } else { BackMerge };
            events.push(at(begin + bio * 10, Queue, sector + bio * 8, 8));
            events.push(at(begin + bio * 10 + 2, then, sector + bio * 8, 8));
        }
        let inserted = begin + bios * 10 + numbers.below(90);
        let issued = inserted + 1 + numbers.below(300);
        let completed = issued + 1 + numbers.below(2000);
        events.push(at(inserted, Insert, sector, bios * 8));
        events.push(at(issued, Issue, sector, bios * 8));
        events.push(BlockEvent { cpu: 1 - cpu, ..at(completed, Complete, sector, bios * 8) });
    }
    events.sort_by_key(|e| e.time_ns);
    events
}

#[test]
fn without_merges_all_means_agree_with_btt() {
    let directory = tempfile::tempdir().unwrap();
    let Some((mine, table)) = btt(directory.path(), &made_trace(1)) else { return };
    for (name, histogram) in [("I2D", &mine.i2d), ("D2C", &mine.d2c), ("Q2C", &mine.q2c)] {
        let (mean, number) = btt_row(&table, name);
        assert_eq!(count(histogram), number, "{name}");
        assert_close(mean_ns(histogram), mean, name);
    }
    // btt has Q2I in two parts.
    let q2i = btt_row(&table, "Q2G").0 + btt_row(&table, "G2I").0;
    assert_close(mean_ns(&mine.q2i), q2i, "Q2I");
}

/// With merges, btt's Q2C is per bio and its I2D per request, as here. Its D2C is per bio: a request of n bios counts n
/// times; here it counts once, so that Q2I + I2D + D2C is the life of a request.
#[test]
fn with_merges_the_means_that_are_the_same_quantity_agree_with_btt() {
    let directory = tempfile::tempdir().unwrap();
    let events = made_trace(6);
    let Some((mine, table)) = btt(directory.path(), &events) else { return };
    for (name, histogram) in [("I2D", &mine.i2d), ("Q2C", &mine.q2c)] {
        let (mean, number) = btt_row(&table, name);
        assert_eq!(count(histogram), number, "{name}");
        assert_close(mean_ns(histogram), mean, name);
    }
    assert_eq!(btt_row(&table, "Q2M").1, mine.read.back_merges + mine.write.back_merges);
    assert_eq!(btt_row(&table, "D2C").1, mine.read.queued + mine.write.queued);
    assert_eq!(count(&mine.d2c), mine.read.issued + mine.write.issued);
    let q2i = btt_row(&table, "Q2G").0 + btt_row(&table, "G2I").0;
    assert_close(mean_ns(&mine.q2i), q2i, "Q2I");
}
