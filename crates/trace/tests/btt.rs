//! Every number that `btt` prints, against `btt` itself: on a recorded trace and on made ones.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

#[path = "common/generate.rs"]
mod generate;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use generate::{Files, Mix, generate};
use nestor_statistics::LatencySummary;
use nestor_trace::decode::blktrace::MergedReader;
use nestor_trace::event::Device;
use nestor_trace::layer::{Devices, NoSink};
use nestor_trace::{BttInterval, LayerMetrics, SeekMetrics, TracePoint};

/// What a command prints, or `None` with a note where it is not installed.
fn output_of(command: &mut Command) -> Option<String> {
    match command.output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            let program = command.get_program();
            eprintln!("skipped: {program:?} cannot be run ({error}); install the Debian package blktrace");
            None
        }
    }
}

/// The output of `blkparse -d` followed by `btt -A` for `NAME.blktrace.*` in a directory.
fn btt(directory: &Path, name: &str) -> Option<String> {
    let scratch = tempfile::tempdir().unwrap();
    let dump = scratch.path().join("dump.bin");
    output_of(
        Command::new("blkparse").current_dir(directory).args(["-q", "-O", "-i", name, "-d"]).arg(&dump),
    )?;
    // btt leaves files where it runs.
    output_of(Command::new("btt").current_dir(scratch.path()).arg("-A").arg("-i").arg(&dump))
}

fn mine(paths: &[PathBuf]) -> Vec<(Device, LayerMetrics)> {
    let mut reader = MergedReader::open(paths).unwrap();
    let mut devices = Devices::new(TracePoint::Blktrace, None, true);
    while let Some(event) = reader.next_event().unwrap() {
        devices.push(&event, &mut NoSink);
    }
    devices.finish(0, &|_| None, &mut NoSink)
}

/// The lines of a section.
fn section<'a>(text: &'a str, title: &str) -> Vec<&'a str> {
    let heading = format!("==================== {title} ====================");
    let from = text.find(&heading).unwrap_or_else(|| panic!("btt has no section {title}"));
    let rest = &text[from + heading.len()..];
    let to = rest.find("====================").unwrap_or(rest.len());
    rest[..to].lines().collect()
}

/// N, MIN, AVG, MAX by the first word or device, below the heading of an interval.
fn averages(lines: &[&str], interval: &str) -> BTreeMap<String, (u64, [String; 3])> {
    let from = lines.iter().position(|l| {
        let mut words = l.split_whitespace();
        words.next() == Some(interval) && words.next() == Some("MIN")
    });
    let Some(from) = from else { return BTreeMap::new() };
    lines[from + 2..].iter().take_while(|line| !line.trim().is_empty()).map(|line| average(line)).collect()
}

fn average(line: &str) -> (String, (u64, [String; 3])) {
    let words: Vec<_> = line.split_whitespace().collect();
    let (name, numbers) = words.split_at(words.len() - 4);
    let name: String = name.concat();
    (name, (numbers[3].parse().unwrap(), [0, 1, 2].map(|i| numbers[i].to_owned())))
}

/// A number as btt prints it: equal to what it printed, but for one unit in the last digit.
fn assert_digits(mine: f64, theirs: &str, what: &str) {
    let digits = theirs.trim().trim_end_matches('%');
    let decimals = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let value: f64 = digits.parse().unwrap_or_else(|_| panic!("{what}: btt prints {theirs:?}"));
    let unit = 10_f64.powi(-(decimals as i32));
    assert!((mine - value).abs() <= unit * 1.01, "{what}: {mine:.decimals$} here, {theirs} with btt");
}

fn assert_interval(mine: &BttInterval, theirs: Option<&(u64, [String; 3])>, what: &str) {
    let Some((count, [min, mean, max])) = theirs else {
        assert_eq!(mine.count, 0, "{what}: btt has none");
        return;
    };
    assert_eq!(mine.count, *count, "{what}: N");
    assert_digits(mine.min_ns as f64 / 1e9, min, what);
    assert_digits(mine.mean_ns() / 1e9, mean, what);
    assert_digits(mine.max_ns as f64 / 1e9, max, what);
}

fn assert_summary(mine: Option<LatencySummary>, theirs: Option<&(u64, [String; 3])>, what: &str) {
    let exact = mine.map_or(BttInterval::default(), |s| BttInterval {
        count: s.count,
        min_ns: s.min_ns,
        max_ns: s.max_ns,
        total_ns: (s.mean_ns * s.count as f64).round() as u64,
    });
    assert_interval(&exact, theirs, what);
}

fn intervals(m: &LayerMetrics) -> [(&'static str, BttInterval); 10] {
    let b = m.btt.unwrap_or_default();
    [
        ("Q2Q", b.q2q),
        ("Q2A", b.q2a),
        ("Q2G", b.q2g),
        ("S2G", b.s2g),
        ("G2I", b.g2i),
        ("Q2M", b.q2m),
        ("I2D", b.i2d),
        ("M2D", b.m2d),
        ("D2C", b.d2c),
        ("Q2C", b.q2c),
    ]
}

/// btt gives devices of these drivers names of their own for three of the intervals.
fn is_remapper(device: Device) -> bool {
    matches!(device.major, 9 | 253 | 254)
}

fn name_for(device: Device, interval: &str) -> String {
    let own = is_remapper(device) && matches!(interval, "Q2Q" | "Q2A" | "Q2C");
    if own { format!("{interval}dm") } else { interval.to_owned() }
}

fn key(device: Device) -> String {
    format!("({},{})", device.major, device.minor)
}

/// The row of a device in a table with `|` between groups of columns.
fn row(lines: &[&str], device: Device) -> Option<Vec<String>> {
    rows(lines, device).into_iter().next()
}

fn rows(lines: &[&str], device: Device) -> Vec<Vec<String>> {
    let of_device = |line: &&&str| {
        let name: String = line.split('|').next().unwrap_or("").split_whitespace().collect();
        name == key(device)
    };
    let cells = |line: &&str| {
        let cells = line.split('|').skip(1).flat_map(|group| group.split_whitespace());
        cells.map(str::to_owned).collect()
    };
    lines.iter().filter(of_device).map(cells).collect()
}

fn assert_device(text: &str, device: Device, m: &LayerMetrics) {
    let per_device = section(text, "Per Device");
    let b = m.btt.unwrap();
    for (name, interval) in intervals(m) {
        // btt prints M2D for all devices together only.
        if name != "M2D" {
            let theirs = averages(&per_device, &name_for(device, name));
            assert_interval(&interval, theirs.get(&key(device)), &format!("{name} of {device}"));
        }
    }
    let overhead = row(&section(text, "Device Overhead"), device);
    if let Some(cells) = overhead.as_ref().filter(|cells| cells.len() == 5) {
        for ((name, share), theirs) in b.overhead().unwrap().iter().zip(cells) {
            assert_digits(share * 100.0, theirs, &format!("overhead {name} of {device}"));
        }
    } else {
        assert!(b.overhead().is_none() || is_remapper(device), "btt has no overhead of {device}");
    }
    let merges = row(&section(text, "Device Merge Information"), device);
    assert_eq!(merges.is_some(), b.merge_ratio().is_some(), "merges of {device}");
    if let Some(cells) = merges {
        let blocks = b.blocks;
        assert_eq!(cells[0], b.queued.max(b.issued).to_string(), "#Q of {device}");
        assert_eq!(cells[1], b.issued.to_string(), "#D of {device}");
        assert_digits(b.merge_ratio().unwrap(), &cells[2], "merge ratio");
        let expected = [blocks.min_ns, b.average_blocks().unwrap(), blocks.max_ns, blocks.total_ns];
        assert_eq!(cells[3..], expected.map(|n| n.to_string()), "blocks of {device}");
    }
    assert_seeks(&section(text, "Device Q2Q Seek Information"), device, m.q2q_seeks.as_ref(), "Q2Q");
    assert_seeks(&section(text, "Device D2D Seek Information"), device, m.d2d_seeks.as_ref(), "D2D");
    assert_plugs(&section(text, "Plug Information"), device, m);
    if let Some(cells) = row(&section(text, "Active Requests At Q Information"), device) {
        assert_digits(b.mean_active_at_queue().unwrap(), &cells[0], "Avg Reqs @ Q");
    }
    assert_live(&section(text, "I/O Active Period Information"), device, m);
}

fn assert_seeks(lines: &[&str], device: Device, mine: Option<&SeekMetrics>, what: &str) {
    let what = format!("{what} seeks of {device}");
    let Some(cells) = row(lines, device) else {
        assert!(mine.is_none(), "{what}: btt has none");
        return;
    };
    let mine = mine.unwrap();
    assert_eq!(cells[0], mine.count.to_string(), "{what}: number");
    assert_digits(mine.mean_sectors, &cells[1], &what);
    assert_eq!(cells[2], mine.btt_median_sectors.to_string(), "{what}: median");
    let (mode, count) = cells[3].trim_end_matches(')').split_once('(').unwrap();
    assert_eq!(count, mine.mode_count.to_string(), "{what}: number at the mode");
    // Of several, btt's first one is whichever its tree has first.
    let more = cells.len() - 4;
    let modes = lines
        .iter()
        .skip_while(|line| !line.split_whitespace().collect::<String>().starts_with(&key(device)))
        .nth(1)
        .and_then(|line| line.trim().strip_prefix("...(")?.split_once(' ')?.0.parse::<u64>().ok())
        .unwrap_or(more as u64);
    assert_eq!(modes + 1, mine.modes, "{what}: number of modes");
    if mine.modes == 1 {
        assert_eq!(mode, mine.mode_sectors.to_string(), "{what}: mode");
    }
    assert!(!mine.mode_is_lower_bound);
}

fn assert_plugs(lines: &[&str], device: Device, m: &LayerMetrics) {
    let of_device = rows(lines, device);
    let Some(plugs) = m.plugs else {
        assert!(of_device.iter().all(|cells| !cells[0].contains('(')), "btt has plugs of {device}");
        return;
    };
    let [counts, means] = of_device.as_slice() else { panic!("btt has no plugs of {device}") };
    let counts: Vec<_> =
        counts.join(" ").replace(['(', ')'], " ").split_whitespace().map(str::to_owned).collect();
    assert_eq!(counts[0], plugs.unplugs.to_string(), "plugs of {device}");
    assert_eq!(counts[1], plugs.timer_unplugs.to_string(), "timer unplugs of {device}");
    assert_digits(plugs.plugged_share().unwrap() * 100.0, &counts[2], "time plugged");
    assert_digits(plugs.requests_per_unplug().unwrap_or(0.0), &means[0], "requests per unplug");
    assert_digits(plugs.requests_per_timer_unplug().unwrap_or(0.0), &means[1], "requests per timer unplug");
}

fn assert_live(lines: &[&str], device: Device, m: &LayerMetrics) {
    let live = m.btt.unwrap().live;
    let cells = row(lines, device).unwrap_or_else(|| panic!("btt has no active periods of {device}"));
    assert_eq!(cells[0], live.count.to_string(), "active periods of {device}");
    if live.count > 1 {
        assert_digits(live.mean_live_s().unwrap(), &cells[1], "mean active period");
        assert_digits(live.mean_idle_s().unwrap(), &cells[2], "mean pause");
        assert_digits(live.live_share().unwrap() * 100.0, &cells[3], "share of time active");
    }
}

/// The first table: all devices together.
fn assert_all(text: &str, layers: &[(Device, LayerMetrics)]) {
    let lines = section(text, "All Devices");
    let theirs: BTreeMap<_, _> = lines
        .iter()
        .filter(|l| l.split_whitespace().count() == 5 && l.contains('.'))
        .map(|l| average(l))
        .collect();
    let mut sums: BTreeMap<String, BttInterval> = BTreeMap::new();
    for (device, m) in layers {
        for (name, interval) in intervals(m) {
            sums.entry(name_for(*device, name)).or_default().add(&interval);
        }
    }
    for (name, sum) in sums {
        // With several devices, btt's Q2Q is between bios of different ones.
        if layers.len() == 1 || !name.starts_with("Q2Q") {
            assert_interval(&sum, theirs.get(&name), &format!("{name} of all"));
        }
    }
}

/// Only for one device: btt's processes are not divided by device. Their names are `pid` and nine digits where the
/// trace has no names.
fn assert_processes(text: &str, m: &LayerMetrics) {
    let lines = section(text, "Per Process");
    assert!(!m.processes.is_empty());
    for process in &m.processes {
        let name = format!("pid{:09}", process.pid.unwrap());
        for (interval, summary) in process.intervals.named() {
            if interval != "M2D" {
                let theirs = averages(&lines, interval);
                assert_summary(summary, theirs.get(&name), &format!("{interval} of {name}"));
            }
        }
    }
}

fn assert_agreement(text: &str, layers: &[(Device, LayerMetrics)]) {
    for (device, m) in layers {
        assert_device(text, *device, m);
        assert_eq!(m.identity.violations, 0);
        assert!(m.identity.checked > 0 || m.btt.unwrap().issued == 0);
    }
    assert_all(text, layers);
}

#[test]
fn a_recorded_trace_agrees_with_btt() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let Some(text) = btt(&data, "ext4-loop") else { return };
    let layers = mine(&[data.join("ext4-loop.blktrace.0"), data.join("ext4-loop.blktrace.1")]);
    assert_eq!(layers.len(), 1);
    assert_agreement(&text, &layers);
    assert_processes(&text, &layers[0].1);
}

fn made(mix: &Mix, seed: u64) -> Option<(String, Vec<(Device, LayerMetrics)>)> {
    let directory = tempfile::tempdir().unwrap();
    let (mut files, paths) = Files::create(directory.path(), "made", mix.cpus);
    generate(mix, seed, &mut files);
    files.finish();
    Some((btt(directory.path(), "made")?, mine(&paths)))
}

#[test]
fn random_requests_agree_with_btt() {
    let Some((text, layers)) = made(&Mix::random_4k(3000), 1) else { return };
    assert_eq!(layers.len(), 1);
    assert_agreement(&text, &layers);
    assert_processes(&text, &layers[0].1);
}

#[test]
fn merges_plugs_splits_and_requeues_agree_with_btt() {
    for seed in 1..4 {
        let mix = Mix { other_disk: 0, remapped: 0, ..Mix::varied(2500) };
        let Some((text, layers)) = made(&mix, seed) else { return };
        assert_eq!(layers.len(), 1);
        assert_agreement(&text, &layers);
        assert_processes(&text, &layers[0].1);
        let b = layers[0].1.btt.unwrap();
        assert!(b.q2m.count > 100 && b.m2d.count > 100 && b.s2g.count > 100, "{b:?}");
    }
}

#[test]
fn several_devices_and_remaps_agree_with_btt() {
    for seed in 5..8 {
        let Some((text, layers)) = made(&Mix::varied(4000), seed) else { return };
        assert_eq!(layers.len(), 3);
        assert_agreement(&text, &layers);
        let volume = layers.iter().find(|(device, _)| *device == generate::VOLUME);
        assert!(volume.unwrap().1.btt.unwrap().q2a.count > 100);
    }
}
