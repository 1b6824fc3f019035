use std::path::{Path, PathBuf};

use nestor_trace::AnalyzeOptions;

use super::{device, read, text};

fn recorded() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data");
    vec![data.join("ext4-loop.blktrace.0"), data.join("ext4-loop.blktrace.1")]
}

fn said(files: &[PathBuf], options: &AnalyzeOptions<'_>) -> String {
    read(files, options).unwrap().iter().map(text::analysis).collect()
}

#[test]
fn a_recorded_trace() {
    let options = AnalyzeOptions { per_process: true, ..AnalyzeOptions::default() };
    insta::assert_snapshot!(said(&recorded(), &options), @"
    ext4-loop: blktrace records, 2 files   947 records

    7:0   122 requests in 1.93 s: 63.1 IOPS, 4.36 MB/s
      50.0 % read, 67.5 KiB each on average, random (25.4 % follow the previous request)
      a request takes 193 us (median 130 us, p99 1.14 ms): 23.7 us until it is issued, 203 us in the device
      the device has 0.02 requests in flight on average, 16 at most; it is busy 0.4 % of the time

                             number  min      mean     p50      p90      p99      max      of Q2C
      Q2Q  between bios      137     1.66 us  14.1 ms  29.6 us  651 us   316 ms   322 ms
      Q2G  to get request    122     871 ns   6.32 us  1.25 us  19.4 us  37.1 us  41.0 us  4.0029 %
      G2I  to insert         122     961 ns   15.7 us  1.34 us  6.92 us  459 us   495 us   9.9459 %
      Q2M  to merge          22      451 ns   796 ns   491 ns   1.79 us  2.38 us  2.38 us  0.0910 %
      M2D  merged to issue   22      2.33 us  16.6 us  14.9 us  30.4 us  35.6 us  35.6 us
      Q2I  queued to insert  122     2.04 us  22.3 us  2.85 us  37.1 us  466 us   511 us
      I2D  scheduler         122     811 ns   1.39 us  1.03 us  1.80 us  6.18 us  6.73 us  0.7731 %
      Q2D  whole queue       122     2.85 us  23.7 us  3.98 us  38.3 us  467 us   513 us
      D2C  device            122     5.57 us  203 us   78.5 us  556 us   1.23 ms  1.38 ms  85.3391 %
           per bio (btt)     132     5.57 us  125 us                              890 us
      Q2C  whole, per bio    138     8.82 us  193 us   130 us   454 us   1.14 ms  1.42 ms
           of reads          64      8.82 us  136 us   70.3 us  359 us   902 us   902 us
           of writes         74      16.6 us  243 us   150 us   638 us   1.42 ms  1.42 ms
           flushes           17      48.3 us  180 us   128 us   443 us   479 us   479 us

             queued  back merges  front merges  issued  completed  requested  moved
      read   64      3            0             61      61         1.43 MiB   1.43 MiB
      write  74      19           0             61      61         6.60 MiB   6.60 MiB
      flushes 17 sent, 9 requested   FUA writes 0 sent, 8 requested

      merge ratio  1.1   sectors per request: min 2, mean 134, max 1 040, total 16 458
      sizes        4 KiB 45.9 %, 8 KiB 23.0 %, 512 KiB 4.9 %, 16 KiB 3.3 %, 64 KiB 3.3 %, 24 KiB 1.6 %, 18 others 18.0 %
      Q2Q seeks    138: mean 85 196 sectors, median 16 (btt 0), mode 0 (50x); 84.0 % within 1 % of the range, 84.0 % within 10 %
      D2D seeks    122: mean 96 369 sectors, median 48 (btt 0), mode 0 (34x); 80.0 % within 1 % of the range, 82.0 % within 10 %
      plugs        118 (0 by timer), plugged 0.0 % of the time, 1.00 requests per unplug (0.00 by timer)
      at each Q    0.16 requests wait on average
      active       64 periods of 96.5 us on average, 25.5 ms between them
      checked      Q2I + I2D + D2C = Q2C holds for 122 of 122 requests

      thread  reads            writes            merged  flushes  Q2G      D2C      Q2C
      10522   0      0 B       6       6.00 MiB  0       0        15.6 us
      10492   53     1.04 MiB  1       4 KiB     0       0        3.68 us  106 us   112 us  p99 902 us
      10511   5      384 KiB   1       128 KiB   0       0        11.6 us  360 us   377 us  p99 628 us
      10500   0      0 B       24      192 KiB   0       0        3.23 us  197 us   203 us  p99 326 us
      10506   0      0 B       1       128 KiB   0       0        31.9 us  136 us   179 us  p99 179 us
      10517   0      0 B       24      96 KiB    15      0        7.57 us  101 us   120 us  p99 189 us
      10493   0      0 B       11      44 KiB    4       3        4.46 us  50.2 us  179 us  p99 526 us
      10512   0      0 B       6       24 KiB    0       6        7.42 us  48.2 us  77.4 us  p99 165 us
      10495   4      16 KiB    0       0 B       3       0        20.2 us  49.0 us  71.7 us  p99 95.0 us
      10496   1      4 KiB     0       0 B       0       0        19.8 us  67.3 us  96.1 us  p99 96.1 us
      10507   1      4 KiB     0       0 B       0       0        21.8 us  158 us   185 us  p99 185 us
    ");
}

#[test]
fn requests_of_which_only_beginning_and_duration_are_known() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("web.csv");
    let mut lines = String::new();
    for n in 0..200_u64 {
        let kind = if n % 4 == 0 { "Write" } else { "Read" };
        let (time, offset) = (128_166_372_003_061_629 + n * 20_000, (n * 37 % 64) * 65_536);
        lines += &format!("{time},web,{},{kind},{offset},8192,{}\n", n % 2, 3_000 + n * 50);
    }
    std::fs::write(&path, lines).unwrap();
    insta::assert_snapshot!(said(&[path], &AnalyzeOptions::default()), @"
    web.csv: MSR Cambridge CSV   200 records

    web.0   100 requests in 397 ms: 252 IOPS, 2.06 MB/s
      50.0 % read, 8 KiB each on average, random (0.0 % follow the previous request)
      a request takes 795 us (median 790 us, p99 1.28 ms)
      the device has 0.20 requests in flight on average

                           number  min     mean    p50     p90      p99      max      of Q2C
      D2C  device          100     300 us  795 us  790 us  1.19 ms  1.28 ms  1.29 ms
      Q2C  whole, per bio  100     300 us  795 us  790 us  1.19 ms  1.28 ms  1.29 ms
           of reads        50      310 us  800 us  790 us  1.19 ms  1.29 ms  1.29 ms
           of writes       50      300 us  790 us  780 us  1.18 ms  1.28 ms  1.28 ms

             queued  back merges  front merges  issued  completed  requested  moved
      read   50      0            0             50      50         400 KiB    400 KiB
      write  50      0            0             50      50         400 KiB    400 KiB

      sizes        8 KiB 100.0 %
      D2D seeks    100: mean 2 099 sectors, median 1 264 (btt 1 264), mode 1 264 (84x); 0.0 % within 1 % of the range, 0.0 % within 10 %

    web.1   100 requests in 397 ms: 252 IOPS, 2.06 MB/s
      100.0 % read, 8 KiB each on average, random (0.0 % follow the previous request)
      a request takes 800 us (median 795 us, p99 1.29 ms)
      the device has 0.20 requests in flight on average

                           number  min     mean    p50     p90      p99      max      of Q2C
      D2C  device          100     305 us  800 us  795 us  1.20 ms  1.29 ms  1.30 ms
      Q2C  whole, per bio  100     305 us  800 us  795 us  1.20 ms  1.29 ms  1.30 ms
           of reads        100     305 us  800 us  795 us  1.20 ms  1.29 ms  1.30 ms

            queued  back merges  front merges  issued  completed  requested  moved
      read  100     0            0             100     100        800 KiB    800 KiB

      sizes        8 KiB 100.0 %
      D2D seeks    100: mean 2 202 sectors, median 1 264 (btt 1 264), mode 1 264 (83x); 0.0 % within 1 % of the range, 0.0 % within 10 %
    ");
}

#[test]
fn requests_of_which_nothing_but_their_place_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("replay.log");
    let mut lines = "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n".to_owned();
    for n in 0..40_u64 {
        lines += &format!("/dev/sdb write {} 4096\n", n * 4096);
    }
    std::fs::write(&path, lines + "/dev/sdb close\n").unwrap();
    insta::assert_snapshot!(said(&[path], &AnalyzeOptions::default()), @r"
    replay.log: fio iolog   40 records

    /dev/sdb   40 requests, 160 KiB
      0.0 % read, 4 KiB each on average, sequential (97.5 % follow the previous request)

             queued  back merges  front merges  issued  completed  requested  moved
      write  40      0            0             40      40         160 KiB    160 KiB

      sizes        4 KiB 100.0 %
      D2D seeks    40: mean 0 sectors, median 0 (btt 0), mode 0 (40x); 100.0 % within 1 % of the range, 100.0 % within 10 %

      the trace does not say when requests came: no rates and nothing over time
      the trace does not say how long requests took: no latencies
    ");
}

#[test]
fn a_device_that_is_not_there_is_told() {
    let options = AnalyzeOptions { device: Some(device("8:16").unwrap()), ..AnalyzeOptions::default() };
    let error = read(&recorded(), &options).unwrap_err().to_string();
    assert!(error.contains("no block event of device 8:16"), "{error}");
    assert!(error.contains("947 events of other devices"), "{error}");
    insta::assert_snapshot!(device("sda").unwrap_err(), @r#""sda" is not a device number; write it as lsblk does: 8:16"#);
}

#[test]
fn distributions_that_were_counted_by_the_recorder() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vscsi.txt");
    let disk = "for virtual machine worldGroupID : 7, virtual disk handleID : 8211 (scsi0:0)";
    let text = format!(
        "Histogram: IO lengths of commands {disk} {{\n min : 4096\n max : 1048576\n mean : 9240\n count : 17\n {{\n\
         0 (<= 512)\n 12 (<= 4096)\n 4 (<= 524288)\n 1 (> 524288)\n }}\n}}\n\
         Histogram: distance (in LBNs) between successive commands {disk} {{\n min : -70000\n max : 60000\n\
         mean : -3\n count : 3\n {{\n 1 (<= -50000)\n 0 (<= 50000)\n 2 (> 50000)\n }}\n}}\n\
         Histogram: latency of IOs in Microseconds (us) {disk} {{\n min : 90\n max : 200000\n mean : 700\n\
         count : 6\n {{\n 4 (<= 100)\n 0 (<= 100000)\n 2 (> 100000)\n }}\n}}\n\
         Histogram: latency of Write IOs in Microseconds (us) {disk} {{\n count : 0\n {{\n }}\n}}\n"
    );
    std::fs::write(&path, text).unwrap();
    let files = [path];
    insta::assert_snapshot!(said(&files, &AnalyzeOptions::default()), @"
    vscsi.txt: vscsiStats histograms   4 records

    scsi0:0, handle 8211, world group 7
                                                      number  min              mean        p50 up to       p90 up to       p99 up to       max
      IO lengths of commands                          17      4 KiB            9.02 KiB    4 KiB           512 KiB         1.00 MiB        1.00 MiB
      distance (in LBNs) between successive commands  3       -70 000 sectors  -3 sectors  60 000 sectors  60 000 sectors  60 000 sectors  60 000 sectors
      latency of IOs in Microseconds (us)             6       90.0 us          700 us      100 us          200 ms          200 ms          200 ms

      IO lengths of commands  number  share
      up to 4 KiB             12      70.6 %
      up to 512 KiB           4       23.5 %
      above 512 KiB           1       5.9 %

      distance (in LBNs) between successive commands  number  share
      up to -50 000 sectors                           1       33.3 %
      above 50 000 sectors                            2       66.7 %

      latency of IOs in Microseconds (us)  number  share
      up to 100 us                         4       66.7 %
      above 100 ms                         2       33.3 %

      histograms without an observation, which were left out: 1
    ");
    let json = serde_json::to_value(read(&files, &AnalyzeOptions::default()).unwrap()).unwrap();
    let lengths = &json[0]["histograms"][0];
    assert_eq!(
        (&lengths["unit"], &lengths["count"], &lengths["p90_at_most"]),
        (&serde_json::json!("bytes"), &serde_json::json!(17), &serde_json::json!(524_288))
    );
    assert_eq!(lengths["buckets"][1], serde_json::json!({"limit": 4096, "count": 12}));
}
