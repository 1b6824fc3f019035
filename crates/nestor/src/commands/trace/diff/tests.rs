use nestor_trace::event::{Action, BlockEvent, Device, Direction, Flags};
use nestor_trace::layer::LayerAccumulator;
use nestor_trace::{Analysis, AnalyzedLayer, TracePoint, TracedDevice};

use super::text;
use nestor_trace::diff::{ComparedTraces, Verdict, differences};

const DEVICE: Device = Device { major: 8, minor: 0 };

/// Reads of 4 KiB, one every millisecond, that take about `service_us`; after `merged` of them a second bio is merged.
fn trace(name: &str, service_us: u64, seed: u64, merged: u64) -> Analysis {
    trace_with_queue(name, service_us, seed, merged, 2)
}

/// The same, where each is in the queue for about as long as said.
fn trace_with_queue(name: &str, service_us: u64, seed: u64, merged: u64, queue_us: u64) -> Analysis {
    let mut layer = LayerAccumulator::new(TracePoint::Blktrace, None);
    let mut random = seed;
    let mut below = |end: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % end
    };
    for n in 0..4000_u64 {
        let (start, sector) = (1_000_000_000 + n * 1_000_000, below(1 << 16) * 64);
        let event = |us: u64, action, sectors: u64| BlockEvent {
            time_ns: start + us * 1000,
            sequence: 0,
            cpu: 0,
            pid: 1,
            device: DEVICE,
            action,
            direction: Direction::Read,
            flags: Flags::default(),
            sector,
            bytes: sectors * 512,
            error: 0,
        };
        layer.push(&event(0, Action::Queue, 8));
        layer.push(&event(1, Action::GetRequest, 8));
        let mut sectors = 8;
        if merged > 0 && n % merged == 0 {
            let second = |us, action| BlockEvent { sector: sector + 8, ..event(us, action, 8) };
            layer.push(&second(2, Action::Queue));
            layer.push(&second(3, Action::BackMerge));
            sectors = 16;
        }
        layer.push(&event(4, Action::Insert, sectors));
        layer.push(&event(4 + queue_us + below(20), Action::Issue, sectors));
        layer.push(&event(30 + service_us / 2 + below(service_us), Action::Complete, sectors));
    }
    let layers = vec![AnalyzedLayer { device: TracedDevice::Number(DEVICE), metrics: layer.finish(0) }];
    Analysis { trace: name.to_owned(), records: 20_000, layers, ..Analysis::default() }
}

#[test]
fn what_differs_comes_first_and_in_words() {
    let compared = ComparedTraces::of(&[trace("before", 300, 1, 0)], &[trace("after", 600, 2, 3)]);
    insta::assert_snapshot!(text::compared(&compared), @"
    A  before
    B  after

    8:0
      the device takes 607 us in B, 314 us in A: +93.3 % (mean D2C)
      a request takes 622 us in B, 330 us in A: +88.7 % (mean Q2C)
      requests in flight 0.61 in B, 0.31 in A: +93.2 % (queue depth)
      between bios there are 750 us in B, 1.00 ms in A: -25.0 % (mean Q2Q)

                     A                  B                  B / A  95 % interval
      p99 D2C        465 us             909 us             1.95   [1.94, 1.96]   differs
      p99 Q2C        477 us             924 us             1.94   [1.93, 1.94]   differs
      p99 read Q2C   477 us             924 us             1.94   [1.93, 1.94]   differs
      queue depth    0.31               0.61               1.93   [1.91, 1.97]   differs
      mean D2C       314 us             607 us             1.93   [1.91, 1.96]   differs
      mean Q2C       330 us             622 us             1.89   [1.86, 1.91]   differs
      mean read Q2C  330 us             622 us             1.89   [1.86, 1.91]   differs
      p50 D2C        316 us             604 us             1.91   [1.86, 1.96]   differs
      p50 Q2C        331 us             619 us             1.87   [1.83, 1.91]   differs
      p50 read Q2C   331 us             619 us             1.87   [1.83, 1.91]   differs
      mean Q2Q       1.00 ms            750 us             0.75   [0.74, 0.76]   differs
      throughput     4.10 MB/s          5.46 MB/s          1.33   [1.33, 1.33]   differs
      merged         0.0 %              25.0 %             -                     no interval
      bytes          15.6 MiB           20.8 MiB           1.33                  no interval
      request size   4 KiB              5.33 KiB           1.33                  no interval
      D2D seek       1 404 611 sectors  1 418 464 sectors  1.01                  no interval
      p50 Q2Q        1.00 ms            998 us             1.00   [1.00, 1.00]   differs
      mean I2D       11.6 us            11.5 us            0.99   [0.97, 1.02]   within noise
      mean Q2D       15.6 us            15.5 us            0.99   [0.98, 1.01]   within noise
      IOPS           1 000 IOPS         1 000 IOPS         1.00   [1.00, 1.00]   within noise
      p50 Q2D        16.0 us            16.0 us            1.00   [0.96, 1.05]   within noise
      p99 Q2D        25.0 us            25.0 us            1.00   [1.00, 1.00]   within noise
      p50 I2D        12.0 us            12.0 us            1.00   [0.94, 1.06]   within noise
      p99 I2D        21.0 us            21.0 us            1.00   [1.00, 1.00]   within noise
      mean Q2G       1.00 us            1.00 us            1.00   [1.00, 1.00]   within noise
      p50 Q2G        1.00 us            1.00 us            1.00   [1.00, 1.00]   within noise
      p99 Q2G        1.00 us            1.00 us            1.00   [1.00, 1.00]   within noise
      p99 Q2Q        1.00 ms            1.00 ms            1.00   [1.00, 1.00]   within noise
      requests       4 000              4 000              1.00                  no interval
      reads          100.0 %            100.0 %            1.00                  no interval
    ");
}

#[test]
fn the_same_again_is_noise() {
    let (a, b) = (trace("one", 300, 1, 0), trace("two", 300, 5, 0));
    let found = differences(&a.layers[0].metrics, &b.layers[0].metrics);
    let differing: Vec<_> =
        found.iter().filter(|d| d.verdict == Verdict::Differs).map(|d| d.metric).collect();
    assert_eq!(differing, [""; 0]);
    assert!(found.iter().filter(|d| d.verdict == Verdict::WithinNoise).count() > 8);
}

#[test]
fn a_small_part_of_a_request_that_doubled_comes_after_a_large_one_that_grew() {
    let (a, b) = (trace_with_queue("one", 300, 1, 0, 2), trace_with_queue("two", 400, 5, 0, 20));
    let found = differences(&a.layers[0].metrics, &b.layers[0].metrics);
    let place = |metric: &str| found.iter().position(|d| d.metric == metric).unwrap();
    let ratio = |metric: &str| found[place(metric)].ratio.unwrap();
    assert!(
        ratio("mean I2D") > 2.0 && ratio("mean D2C") < 1.5,
        "{} {}",
        ratio("mean I2D"),
        ratio("mean D2C")
    );
    assert!(place("mean D2C") < place("mean I2D"));
}
