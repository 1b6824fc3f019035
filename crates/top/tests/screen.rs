//! The screen at two sizes, drawn into memory.

use nestor_statistics::LatencyHistogram;
use nestor_top::{BlockLayer, Interval, Key, LayerCounts, LayerKind, Layers, Snapshot, Tally, View, lines};
use nestor_trace::event::Device;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn layers() -> Layers {
    let mut layers = Layers::new();
    layers.add([("qemu mail".to_owned(), LayerKind::Hypervisor)]);
    layers.add([("ext4 /var/lib/libvirt/images".to_owned(), LayerKind::FileSystem)]);
    for (name, minor, has_requests) in [("dm-0", 0, false), ("nvme0n1", 1, true)] {
        let device = Device { major: 253, minor };
        let block = BlockLayer { device, partitions: Vec::new(), has_requests };
        layers.add([(name.to_owned(), LayerKind::Device(block))]);
    }
    layers
}

fn tally(count: u64, bytes: u64, latency_ns: u64) -> Tally {
    let mut latency = LatencyHistogram::default();
    if count > 0 {
        latency.record_many_ns(latency_ns, count - count / 50);
        latency.record_many_ns(latency_ns * 8, count / 50);
    }
    Tally { count, bytes, latency }
}

fn interval(from_s: u64, times: u64) -> Interval {
    let layer =
        |reads: u64, writes: u64, each: u64, flushes: u64, latency_ns: u64, with_ms: [u64; 4]| LayerCounts {
            reads: tally(reads * times, reads * times * each, latency_ns),
            writes: tally(writes * times, writes * times * each, latency_ns * 2),
            flushes: tally(flushes * times, 0, latency_ns * 20),
            of_machine: (reads + writes) * times / 2,
            under_way_ns: u128::from(with_ms.iter().sum::<u64>()) * 1_300_000,
            under_way: 2,
            busy_ns: with_ms.iter().sum::<u64>() * 1_000_000,
            with_ns: with_ms.map(|ms| ms * 1_000_000).to_vec(),
            ..LayerCounts::default()
        };
    Interval {
        from_ns: from_s * 1_000_000_000,
        until_ns: (from_s + 1) * 1_000_000_000,
        layers: vec![
            layer(812, 1204, 4096, 33, 310_000, [90, 44, 11, 702]),
            layer(812, 1530, 4096, 33, 240_000, [0, 44, 11, 702]),
            layer(812, 1530, 4096, 33, 220_000, [0, 0, 11, 702]),
            layer(812, 1411, 4442, 66, 180_000, [0, 0, 0, 702]),
        ],
        late_events: 0,
        lost_events: 0,
    }
}

fn screen(view: &View, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    let shown = terminal.backend().to_string();
    let lines = shown.lines().map(|line| line.trim_matches('"').trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

fn view() -> View {
    let mut view = View::new(layers(), Vec::new());
    view.take(interval(0, 1));
    view
}

#[test]
fn it_fits_80_columns_and_24_lines() {
    insta::assert_snapshot!(screen(&view(), 80, 24), @"
    nestor top  last 1.0 s
    qemu mail > ext4 /var/lib/libvirt/images > dm-0 > nvme0n1

      layer             reads/s  writes/s  flush/s       read    written  x above
      qemu mail             812     1 200     33.0  3.33 MB/s  4.93 MB/s        -
      ext4 /va~/images      812     1 530     33.0  3.33 MB/s  6.27 MB/s     1.16
      dm-0                  812     1 530     33.0  3.33 MB/s  6.27 MB/s     1.00
      nvme0n1               812     1 410     66.0  3.61 MB/s  6.27 MB/s     1.03

      layer                p50      p99  queue  busy  waits for
      qemu mail         620 us  4.96 ms    1.1  85 %  nvme0n1 83 %, itself 11 %
      ext4 /va~/images  480 us  3.84 ms    1.0  76 %  nvme0n1 93 %, itself 6 %
      dm-0              440 us  3.52 ms    0.9  71 %  nvme0n1 98 %, itself 2 %
      nvme0n1           360 us  2.88 ms    0.9  70 %  itself 100 %

    qemu mail is busy 85 % of the time and waits mostly for nvme0n1: 83 % of that
    sent by other threads, among which the kernel's that write back: 51 % dm-0, 51 %
    nvme0n1





    q quit  space pause  s since the start  ? help
    ");
}

#[test]
fn wider_terminals_have_one_table() {
    insta::assert_snapshot!(screen(&view(), 120, 40), @"
    nestor top  last 1.0 s
    qemu mail > ext4 /var/lib/libvirt/images > dm-0 > nvme0n1

      layer                         reads/s  writes/s  flush/s       read    written  x above
      qemu mail                         812     1 200     33.0  3.33 MB/s  4.93 MB/s        -
      ext4 /var/lib/libvirt/images      812     1 530     33.0  3.33 MB/s  6.27 MB/s     1.16
      dm-0                              812     1 530     33.0  3.33 MB/s  6.27 MB/s     1.00
      nvme0n1                           812     1 410     66.0  3.61 MB/s  6.27 MB/s     1.03

      layer                         flush p50     p50      p99  queue  busy  waits for
      qemu mail                       6.20 ms  620 us  4.96 ms    1.1  85 %  nvme0n1 83 %, itself 11 %
      ext4 /var/lib/libvirt/images    4.80 ms  480 us  3.84 ms    1.0  76 %  nvme0n1 93 %, itself 6 %, dm-0 1 %
      dm-0                            4.40 ms  440 us  3.52 ms    0.9  71 %  nvme0n1 98 %, itself 2 %
      nvme0n1                         3.60 ms  360 us  2.88 ms    0.9  70 %  itself 100 %

    qemu mail is busy 85 % of the time and waits mostly for nvme0n1: 83 % of that
    sent by other threads, among which the kernel's that write back: 51 % dm-0, 51 % nvme0n1






















    q quit  space pause  s since the start  ? help
    ");
}

#[test]
fn keys_do_what_the_last_line_says() {
    let mut view = view();
    assert!(view.press(Key::Pause));
    view.take(interval(1, 3));
    let paused = screen(&view, 80, 24);
    assert!(paused.contains("paused") && paused.contains("1 200"), "{paused}");
    assert!(view.press(Key::Pause));
    assert!(screen(&view, 80, 24).contains("3 610"));
    assert!(view.press(Key::SinceStart));
    let all = screen(&view, 80, 24);
    // 1204 and 3612 in two seconds.
    assert!(all.contains("since the start, 2.0 s") && all.contains("2 410"), "{all}");
    assert!(view.press(Key::Help));
    let help = screen(&view, 80, 24);
    assert!(help.contains("Ctrl-C") && !help.contains("2 410"), "{help}");
    assert!(!view.press(Key::Quit));
}

#[test]
fn before_the_first_interval_and_on_any_size_something_is_drawn() {
    let empty = View::new(layers(), vec!["the hypervisor's calls are not seen".to_owned()]);
    assert!(screen(&empty, 80, 24).contains("the first interval is not over yet"));
    for (columns, rows) in [(1, 1), (3, 2), (20, 5), (79, 3), (200, 60)] {
        screen(&view(), columns, rows);
        screen(&empty, columns, rows);
    }
    let low = screen(&view(), 80, 10);
    assert!(low.contains("more lines"), "{low}");
}

#[test]
fn names_do_not_reach_the_terminal_as_orders() {
    let mut layers = Layers::new();
    layers.add([("qemu \u{1b}[2Jx\u{202e}\t".to_owned(), LayerKind::Hypervisor)]);
    let counts = LayerCounts { with_ns: vec![5], busy_ns: 5, ..LayerCounts::default() };
    let interval = Interval { until_ns: 10, layers: vec![counts], ..Interval::default() };
    let mut view = View::new(layers.clone(), Vec::new());
    view.take(interval.clone());
    let shown = screen(&view, 80, 24) + &lines(&Snapshot::of(&layers, &interval), 80).join("\n");
    let hidden = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(!shown.replace("\n", "").contains(hidden), "{shown:?}");
}

#[test]
fn tables_fit_their_columns_whatever_the_numbers() {
    let mut large = interval(0, 900);
    large.lost_events = 1_234_567;
    for interval in [interval(0, 0), interval(0, 1), large] {
        for columns in [80, 100, 118, 160] {
            let shown = lines(&Snapshot::of(&layers(), &interval), columns);
            let long = shown.iter().find(|line| line.chars().count() > columns);
            assert_eq!(long, None, "{}", shown.join("\n"));
        }
    }
}
