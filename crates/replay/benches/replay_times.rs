//! How exactly a replay keeps a trace's times: a made trace of random 4 KiB reads and writes at Poisson arrivals, at several
//! rates, on nothing (what the machine's sleeping and spinning are good for), on a file in memory and on one on the disk.
//!
//! `REPLAY_ROUNDS` sets how often each is measured, `REPLAY_DEVICE` names a device whose contents may be lost. The target
//! (100 us at p99 at 10 000 requests/s) is for an idle machine: what others took of the processors, of all of them together and
//! what a hypervisor took included, is printed beside each round.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

use std::fs;
use std::path::{Path, PathBuf};

use nestor_replay::{
    EngineChoice, PlanBuilder, PlanOptions, ReplayOptions, ReplayPlan, ReplayReport, Target, TargetOptions,
    replay,
};
use nestor_statistics::SeededOrder;
use nestor_trace::event::{Action, BlockEvent, Device, Direction, Flags};

const SPAN_BYTES: u64 = 256 << 20;
const SECONDS: u64 = 2;
const RATES: [u64; 3] = [1_000, 10_000, 50_000];
const USUAL_ROUNDS: usize = 3;

fn main() {
    let rounds = std::env::var("REPLAY_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(USUAL_ROUNDS);
    println!(
        "lag of submissions behind their intended times, {SECONDS} s of 4 KiB requests at random times, us"
    );
    println!(
        "  {:<26} {:>8} {:>6} {:>9} {:>8} {:>8} {:>8} {:>10} {:>12}",
        "target", "rate", "others", "achieved", "p50", "p90", "p99", "max", "latency p50"
    );
    for target in targets() {
        for rate in RATES {
            for _ in 0..rounds {
                target.measure(rate);
            }
        }
    }
}

struct Measured {
    name: String,
    path: Option<PathBuf>,
    engine: EngineChoice,
    spin: bool,
    /// Removed at the end.
    _made: Option<tempfile::TempDir>,
}

fn targets() -> Vec<Measured> {
    let one = |name: &str, path: Option<PathBuf>, engine, spin| Measured {
        name: name.to_owned(),
        path,
        engine,
        spin,
        _made: None,
    };
    let mut targets = vec![
        one("nothing", None, EngineChoice::Auto, true),
        one("nothing, without spinning", None, EngineChoice::Auto, false),
    ];
    for (place, directory) in [("memory (tmpfs)", "/dev/shm"), ("file on disk", "/var/tmp")] {
        for (engine, words) in [(EngineChoice::Auto, ""), (EngineChoice::Threads, ", threads")] {
            let Ok(made) = tempfile::tempdir_in(directory) else { continue };
            let path = made.path().join("disk.img");
            if fill(&path).is_ok() {
                let name = format!("{place}{words}");
                targets.push(Measured { _made: Some(made), ..one(&name, Some(path), engine, true) });
            }
        }
    }
    if let Some(device) = std::env::var_os("REPLAY_DEVICE") {
        let device = PathBuf::from(device);
        targets.push(one(&device.display().to_string(), Some(device.clone()), EngineChoice::Auto, true));
        let name = format!("{}, threads", device.display());
        targets.push(one(&name, Some(device), EngineChoice::Threads, true));
    }
    targets
}

fn fill(path: &Path) -> std::io::Result<()> {
    fs::write(path, vec![0x5a; SPAN_BYTES as usize])
}

impl Measured {
    fn measure(&self, rate: u64) {
        let plan = made_plan(rate);
        let target = match &self.path {
            None => Target::nothing(SPAN_BYTES),
            Some(path) => {
                let overwrite = vec![path.clone()];
                let options = TargetOptions { writes: true, overwrite, ..TargetOptions::default() };
                Target::open(path, &options, &()).expect("the target can be opened")
            }
        };
        let options = ReplayOptions { engine: self.engine, spin: self.spin, ..ReplayOptions::default() };
        let before = Processors::now();
        let report = replay(&plan, &target, &options, &()).expect("the replay comes to its end");
        self.print(rate, &Processors::now().others_since(&before), &report);
    }

    fn print(&self, rate: u64, others: &str, report: &ReplayReport) {
        let lag = report.lag_summary.expect("requests were sent");
        let latency_ns = report.classes.first().and_then(|class| class.from_submission.quantile_ns(0.5));
        let us = |ns: u64| ns as f64 / 1e3;
        println!(
            "  {:<26} {rate:>8} {others:>6} {:>9.0} {:>8.1} {:>8.1} {:>8.1} {:>10.1} {:>12.1}",
            self.name,
            report.achieved.requests_per_second.unwrap_or_default(),
            us(lag.p50_ns),
            us(lag.p90_ns),
            us(lag.p99_ns),
            us(lag.max_ns),
            us(latency_ns.unwrap_or_default())
        );
    }
}

/// What the processors did, in ticks of 10 ms (`proc_stat(5)`, `proc_pid_stat(5)`).
struct Processors {
    idle: u64,
    all: u64,
    own: u64,
}

impl Processors {
    fn now() -> Self {
        let numbers = |text: &str, skip: usize| -> Vec<u64> {
            text.split_whitespace().skip(skip).filter_map(|word| word.parse().ok()).collect()
        };
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let of_all = numbers(stat.lines().next().unwrap_or_default(), 1);
        let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // After the name in brackets: utime and stime are the 14th and 15th of all words.
        let own = own.rsplit(')').next().map(|rest| numbers(rest, 11)).unwrap_or_default();
        Self {
            idle: of_all.iter().skip(3).take(2).sum(),
            all: of_all.iter().take(8).sum(),
            own: own.iter().take(2).sum(),
        }
    }

    /// The share of all processors that was neither idle nor this program's.
    fn others_since(&self, before: &Self) -> String {
        let all = (self.all - before.all).max(1);
        let busy = all.saturating_sub(self.idle - before.idle).saturating_sub(self.own - before.own);
        format!("{:.0} %", busy as f64 * 100.0 / all as f64)
    }
}

/// Requests at random times: exponential intervals, so that some come in bursts.
fn made_plan(rate: u64) -> ReplayPlan {
    let mut random = SeededOrder::new(rate);
    let mut builder = PlanBuilder::new(PlanOptions::default());
    let mut time_ns = 0.0;
    while time_ns < SECONDS as f64 * 1e9 {
        let uniform = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        time_ns += -(1.0 - uniform).ln() * 1e9 / rate as f64;
        builder.push(&BlockEvent {
            time_ns: time_ns as u64,
            sequence: 0,
            cpu: 0,
            pid: 1,
            device: Device { major: 8, minor: 0 },
            action: Action::Queue,
            direction: if random.below(2) == 0 { Direction::Read } else { Direction::Write },
            flags: Flags::default(),
            sector: random.below((SPAN_BYTES / 4096) as usize) as u64 * 8,
            bytes: 4096,
            error: 0,
        });
    }
    builder.finish("made").expect("requests were made")
}
