//! What is printed of a correlation.

mod support;

use nestor_correlate::{CacheBetween, CorrelateOptions, LevelInput, SpaceMap, correlate};
use support::{Plan, Stack, header};

#[test]
fn the_text_says_how_sure_it_is() {
    let recorded = Stack::new(Plan { requests: 300, depth: 4, flushes: 0.05, ..Plan::default() }).run();
    let [guest, hypervisor, host, medium] = recorded.levels;
    let levels = [
        LevelInput::new(header("ext4", "guest block", "guest"), guest),
        LevelInput::new(header("kvm", "hypervisor", "host"), hypervisor).with_cache(CacheBetween::NONE),
        LevelInput::new(header("xfs", "host block", "host"), host)
            .with_cache(CacheBetween::NONE)
            .with_map(SpaceMap::Extents(recorded.map)),
        LevelInput::new(header("hdd", "medium", "ground"), medium).with_cache(CacheBetween::NONE),
    ];
    let correlation = correlate(&levels, &CorrelateOptions::default()).unwrap();
    let narrow = correlation.to_text(Some(80));
    insta::assert_snapshot!(correlation.to_text(None), @"
    layer  recorded     machine  requests
    ext4   guest block  guest         300
    kvm    hypervisor   host          300
    xfs    host block   host          300
    hdd    medium       ground        300

    from > to   joined  split  merged  read-ahead  write-back  read-modify-write  journal  metadata  unknown  from cache  unmatched
    ext4 > kvm     300      0       0           0           0                  0        0         0        0           0          0
    kvm > xfs      300      0       0           0           0                  0        0         0        0           0          0
    xfs > hdd      300      0       0           0           0                  0        0         0        0           0          0

    ext4 > kvm: clocks known to 2.91 us at the middle (offset 12800.000003 s, drift 47.45 ppm, 285 pairs)
    kvm > xfs: one clock
    xfs > hdd: clocks known to 1.13 us at the middle (offset -20000.000998 s, drift 22.21 ppm, 285 pairs)
    unmatched: at most 0.00 % of a level's requests

    where time is added          requests     mean      p50      p90      p99      max
    ext4: its own queue               285  10.1 us  9.93 us  18.3 us  19.9 us  20.0 us
      between ext4 > kvm, read        154  44.8 us  44.8 us  68.2 us  82.2 us  83.4 us
      between ext4 > kvm, write       131  50.6 us  50.0 us  74.5 us  81.7 us  85.8 us
      between ext4 > kvm, flush        15  22.0 us  23.3 us  31.2 us  34.8 us  34.8 us
    kvm: its own queue                285  2.34 us  2.43 us  3.75 us  3.98 us  3.99 us
      between kvm > xfs, read         154  5.78 us  5.91 us  8.00 us  9.35 us  9.51 us
      between kvm > xfs, write        131  5.83 us  5.76 us  8.15 us  9.68 us  9.85 us
      between kvm > xfs, flush         15  6.36 us  6.22 us  8.49 us  9.05 us  9.05 us
    xfs: its own queue                285  14.8 us  13.7 us  27.7 us  29.8 us  29.9 us
      between xfs > hdd, read         154  19.7 us  19.9 us  31.6 us  36.4 us  37.7 us
      between xfs > hdd, write        131  19.2 us  19.1 us  31.4 us  35.6 us  35.9 us
      between xfs > hdd, flush         15  16.9 us  14.1 us  30.1 us  37.2 us  37.2 us
    hdd: its own queue                285  95.4 us  94.8 us   179 us   197 us   198 us
    hdd: service                      285  1.83 ms  1.72 ms  3.48 ms  3.96 ms  3.99 ms

    median read: 1.92 ms
      ext4       read 4 KiB at 1048596480     +0 ns  1.92 ms  |########################################|
        kvm      read 4 KiB at 1048596480  +27.0 us  1.87 ms  |####################################### |
          xfs    read 4 KiB at 1560002560  +30.5 us  1.86 ms  |.###################################### |
            hdd  read 4 KiB at 1560002560  +57.4 us  1.82 ms  | .##################################### |

    p99 read: 4.11 ms
      ext4       read 4 KiB at 14176256       +0 ns  4.11 ms  |########################################|
        kvm      read 4 KiB at 14176256    +26.3 us  4.05 ms  |####################################### |
          xfs    read 4 KiB at 1840861184  +30.3 us  4.05 ms  |####################################### |
            hdd  read 4 KiB at 1840861184  +42.0 us  4.01 ms  |####################################### |

    median write: 1.77 ms
      ext4       write 32 KiB at 263221248     +0 ns  1.77 ms  |########################################|
        kvm      write 32 KiB at 263221248  +48.2 us  1.70 ms  | ###################################### |
          xfs    write 32 KiB at 291172352  +53.3 us  1.69 ms  | ###################################### |
            hdd  write 32 KiB at 291172352  +67.4 us  1.67 ms  | .##################################### |

    p99 write: 4.15 ms
      ext4       write 8 KiB at 681340928     +0 ns  4.15 ms  |########################################|
        kvm      write 8 KiB at 681340928  +14.2 us  4.10 ms  |####################################### |
          xfs    write 8 KiB at 226140160  +15.8 us  4.10 ms  |####################################### |
            hdd  write 8 KiB at 226140160  +38.4 us  4.05 ms  |.###################################### |

    median flush: 2.73 ms
      ext4       flush     +0 ns  2.73 ms  |########################################|
        kvm      flush  +16.3 us  2.69 ms  |####################################### |
          xfs    flush  +21.9 us  2.68 ms  |####################################### |
            hdd  flush  +38.0 us  2.65 ms  |..##################################### |

    p99 flush: 3.57 ms
      ext4       flush     +0 ns  3.57 ms  |########################################|
        kvm      flush  +19.9 us  3.53 ms  |####################################### |
          xfs    flush  +26.6 us  3.52 ms  |####################################### |
            hdd  flush  +33.5 us  3.51 ms  |..##################################### |
    ");
    let wide: Vec<&str> = narrow.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:?}");
    insta::assert_snapshot!(narrow.lines().take(20).collect::<Vec<_>>().join("\n"), @"
    layer  recorded     machine  requests
    ext4   guest block  guest         300
    kvm    hypervisor   host          300
    xfs    host block   host          300
    hdd    medium       ground        300

    from > to   joined  split  merged  read-ahead  write-back  read-modify-write
    ext4 > kvm     300      0       0           0           0                  0
        journal: 0; metadata: 0; unknown: 0; from cache: 0; unmatched: 0
    kvm > xfs      300      0       0           0           0                  0
        journal: 0; metadata: 0; unknown: 0; from cache: 0; unmatched: 0
    xfs > hdd      300      0       0           0           0                  0
        journal: 0; metadata: 0; unknown: 0; from cache: 0; unmatched: 0

    ext4 > kvm: clocks known to 2.91 us at the middle (offset 12800.000003 s,
    drift 47.45 ppm, 285 pairs)
    kvm > xfs: one clock
    xfs > hdd: clocks known to 1.13 us at the middle (offset -20000.000998 s,
    drift 22.21 ppm, 285 pairs)
    unmatched: at most 0.00 % of a level's requests
    ");
    let bars = narrow.lines().filter(|line| line.ends_with('|')).count();
    assert_eq!(bars, correlation.to_text(None).lines().filter(|line| line.ends_with('|')).count());
}
