//! What the engine itself costs, each figure beside the bare system calls, or beside Filebench, in the same run.
//!
//! - a flowop beyond its system calls: `statfile`, and `read` of 4 KiB, by one thread, and a loop that only makes these calls;
//! - making a file set, and a loop that only makes the same directories and files;
//! - operations per second where the disk is the limit, and Filebench's (with FILEBENCH, in the directory that PARITY_DIRECTORY names, of a disk
//!   file system): as root the processes get at most 400 writes per second, if there is a cgroup controller for that;
//! - operations per second of CPU of four personalities on tmpfs, and of Filebench with the same scripts, if the environment
//!   variable FILEBENCH names its program (built from its source; it is run without address randomisation, which it does not survive).
//!
//! `-- --files N` sets the number of files of the file set (1 000 000); `-- --flowops`, `--file-set`, `--beside` measure only that.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use nestor_flowops::{
    FlowOptions, FlowReport, Listener, RunReport, Scale, Source, relocate, run_script, scale,
};

/// Ignores all reports.
struct Silence;

impl Listener for Silence {
    fn say(&self, _line: &str) {}
    fn progress(&self, _what: &str, _share: f64) {}
    fn report(&self, _so_far: &RunReport) {}
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// What may be named to measure only that.
const PARTS: [&str; 4] = ["--flowops", "--file-set", "--beside", "--parity"];
/// What makes this program run a script in a directory and print its rate instead of measuring.
const ONE: &str = "--one";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|a| a == ONE) {
        let text = std::fs::read_to_string(&arguments[at + 1]).expect("the script");
        let report = run(&text, Path::new(&arguments[at + 2]), FlowOptions::default(), Scale::Factor(1.0));
        println!("{}", report.runs[0].operations() as f64 / (report.runs[0].elapsed_ns as f64 / 1e9));
        return;
    }
    let files = arguments.iter().position(|a| a == "--files").and_then(|at| arguments[at + 1].parse().ok());
    let base = if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
    let folder = tempfile::tempdir_in(base).expect("a folder in memory");
    let wanted = |part: &str| {
        !PARTS.iter().any(|p| arguments.iter().any(|a| a == p)) || arguments.iter().any(|a| a == part)
    };
    if wanted(PARTS[0]) {
        flowops(folder.path());
    }
    if wanted(PARTS[1]) {
        file_set(folder.path(), files.unwrap_or(1_000_000));
    }
    if wanted(PARTS[2]) {
        beside_filebench(folder.path());
    }
    if wanted(PARTS[3]) {
        parity();
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn run(text: &str, folder: &Path, options: FlowOptions, how: Scale) -> FlowReport {
    let source = nestor_wml::Source::new("bench.f", text.as_bytes());
    let script = nestor_wml::parse(&source, &[]).unwrap_or_else(|e| panic!("{e}"));
    let scaled = scale(&script, how);
    let places = relocate(&scaled.script, folder);
    let options = FlowOptions { places, seed: 1, data_seed: 1, remove: true, ..options };
    run_script(&scaled.script, Source { name: "bench.f", text }, &options, &Silence).expect("the script runs")
}

const FLOWOP_FILES: u32 = 1000;
const FLOWOP_SECONDS: f64 = 1.0;
const ROUNDS: usize = 5;

fn flowops(folder: &Path) {
    println!("a flowop beyond its system calls (one thread, on {})", folder.display());
    let stat = "set $dir=/x\ndefine fileset name=s,path=$dir,entries=1000,size=4k,dirwidth=20,dirgamma=0,prealloc=100\n\
        define process name=p { thread name=t { flowop statfile name=f,filesetname=s } }\nrun 60\n";
    let read = "set $dir=/x\ndefine file name=s,path=$dir,size=64m,prealloc\n\
        define process name=p { thread name=t { flowop read name=f,filename=s,iosize=4k,random } }\nrun 60\n";
    recording(folder);
    for (name, text, bare) in [
        ("statfile", stat, bare_stat as fn(&Path) -> f64),
        ("read 4 KiB", read, bare_read as fn(&Path) -> f64),
    ] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let options = FlowOptions { time_s: Some(FLOWOP_SECONDS), ..FlowOptions::default() };
            let report = run(text, folder, options, Scale::Factor(1.0));
            let run = &report.runs[0];
            ours.push(run.elapsed_ns as f64 / run.operations() as f64);
            theirs.push(bare(folder));
        }
        let (ours, theirs) = (median(ours), median(theirs));
        println!(
            "  {name:12} {ours:6.0} ns, bare calls {theirs:6.0} ns: {:+5.0} ns (at most 1000)",
            ours - theirs
        );
    }
}

/// A flowop that does nothing has only two looks at the clock and its counting.
fn recording(folder: &Path) {
    let text = "define process name=p { thread name=t { flowop hog name=f,value=0 } }\nrun 60\n";
    let nothing = || {
        let options = FlowOptions { time_s: Some(FLOWOP_SECONDS), ..FlowOptions::default() };
        let report = run(text, folder, options, Scale::Factor(1.0));
        let run = &report.runs[0];
        run.elapsed_ns as f64 / run.flowops[0].operations as f64
    };
    let ours = median((0..ROUNDS).map(|_| nothing()).collect());
    let clock = median(
        (0..ROUNDS)
            .map(|_| {
                per_call(|_| {
                    std::hint::black_box(Instant::now());
                })
            })
            .collect(),
    );
    println!(
        "  nothing      {ours:6.0} ns, of which two looks at the clock {:.0} ns: counting and the rest {:.0} ns (at most 50)",
        2.0 * clock,
        ours - 2.0 * clock
    );
}

/// Nanoseconds of one call, in a loop of a second that looks at the clock as seldom as it can.
fn per_call(mut call: impl FnMut(u32)) -> f64 {
    let begin = Instant::now();
    let mut calls = 0u32;
    while begin.elapsed().as_secs_f64() < FLOWOP_SECONDS {
        for _ in 0..1000 {
            call(calls);
            calls = calls.wrapping_add(1);
        }
    }
    begin.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn bare_stat(folder: &Path) -> f64 {
    use rustix::fs::{AtFlags, Mode, OFlags};
    let root = folder.join("bare");
    std::fs::create_dir_all(root.join("00000001")).unwrap();
    let paths: Vec<CString> =
        (0..FLOWOP_FILES).map(|n| CString::new(format!("00000001/{n:08}")).unwrap()).collect();
    let handle = rustix::fs::open(&root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    for path in &paths {
        std::fs::write(root.join(path.to_str().unwrap()), [0; 4096]).unwrap();
    }
    let ns = per_call(|n| {
        rustix::fs::statat(&handle, &paths[(n % FLOWOP_FILES) as usize], AtFlags::empty()).unwrap();
    });
    std::fs::remove_dir_all(root).unwrap();
    ns
}

fn bare_read(folder: &Path) -> f64 {
    let path = folder.join("bare");
    std::fs::write(&path, vec![1; 64 << 20]).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let mut buffer = [0; 4096];
    let ns = per_call(|n| {
        let place = u64::from(n.wrapping_mul(2_654_435_761) % (16 << 10)) * 4096;
        rustix::io::pread(&file, &mut buffer, place).unwrap();
    });
    std::fs::remove_file(path).unwrap();
    ns
}

fn file_set(folder: &Path, files: u32) {
    println!("making a file set of {files} files of 1 KiB, 100 in each directory");
    let define = |parallel: &str| {
        format!(
            "set $dir=/x\ndefine fileset name=s,path=$dir,entries={files},size=1k,dirwidth=100,dirgamma=0,prealloc=100{parallel}\ncreate files\n"
        )
    };
    let timed =
        |parallel| run(&define(parallel), folder, FlowOptions::default(), Scale::Factor(1.0)).prepare_s;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for (name, parallel, bare_threads) in [("in turn", "", 1), ("parallel", ",paralloc", threads)] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            theirs.push(bare_files(folder, files, bare_threads));
            ours.push(timed(parallel));
        }
        let (ours, theirs) = (median(ours), median(theirs));
        println!(
            "  {name:9} {ours:.2} s, bare calls {theirs:.2} s: {:+.1} % (at most +10)",
            (ours / theirs - 1.0) * 100.0
        );
    }
}

/// The same directories and files by nothing but system calls, in a random order as well.
fn bare_files(folder: &Path, files: u32, threads: usize) -> f64 {
    use rustix::fs::{Mode, OFlags};
    let begin = Instant::now();
    let root = folder.join("bare");
    std::fs::create_dir(&root).unwrap();
    let handle = rustix::fs::open(&root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let directories = files.div_ceil(100);
    for directory in 0..directories {
        rustix::fs::mkdirat(&handle, format!("{directory:08}").as_str(), Mode::from_raw_mode(0o755)).unwrap();
    }
    let mut order: Vec<u32> = (0..files).collect();
    nestor_statistics::SeededOrder::new(1).shuffle(&mut order);
    let data = vec![7u8; 1024];
    std::thread::scope(|scope| {
        for part in order.chunks(files.div_ceil(threads as u32) as usize) {
            let (handle, data) = (&handle, &data);
            scope.spawn(move || {
                for file in part {
                    let path = CString::new(format!("{:08}/{:08}", file / 100, file % 100)).unwrap();
                    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
                    let file = rustix::fs::openat(handle, &path, flags, Mode::from_raw_mode(0o644)).unwrap();
                    rustix::io::write(&file, data).unwrap();
                }
            });
        }
    });
    let seconds = begin.elapsed().as_secs_f64();
    std::fs::remove_dir_all(root).unwrap();
    seconds
}

/// Seconds of each run beside Filebench.
const BESIDE_SECONDS: f64 = 10.0;

fn beside_filebench(folder: &Path) {
    let Some(filebench) = std::env::var_os("FILEBENCH").map(PathBuf::from) else {
        println!("beside Filebench: FILEBENCH does not name its program; not measured");
        return;
    };
    println!("operations per second of CPU on {}, beside {}", folder.display(), filebench.display());
    for (name, text) in scripts() {
        let text = text.replace("/x", &folder.display().to_string());
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let options = FlowOptions { time_s: Some(BESIDE_SECONDS), ..FlowOptions::default() };
            let report = run(&text, folder, options, Scale::Factor(1.0));
            let run = &report.runs[0];
            ours.push(run.operations() as f64 / (run.cpu_user_s + run.cpu_system_s));
            match filebench_run(&filebench, &text, folder) {
                Some(rate) => theirs.push(rate),
                None => println!("  {name}: Filebench gave no result"),
            }
        }
        if !theirs.is_empty() {
            let (ours, theirs) = (median(ours), median(theirs));
            println!(
                "  {name:12} {ours:9.0}, Filebench {theirs:9.0}: {:.2} times (at least 2)",
                ours / theirs
            );
        }
    }
}

/// Scripts of our own that both understand, after what the four servers do.
fn scripts() -> Vec<(&'static str, String)> {
    let open_read = "flowop openfile name=o,filesetname=s,fd=1\nflowop readwholefile name=r,fd=1,iosize=1m\nflowop closefile name=c,fd=1\n";
    let write = "flowop createfile name=n,filesetname=s,fd=1\nflowop writewholefile name=w,fd=1,iosize=1m\nflowop closefile name=d,fd=1\n";
    let remove = "flowop deletefile name=x,filesetname=s\n";
    let append = "flowop openfile name=p,filesetname=s,fd=1\nflowop appendfilerand name=a,iosize=16k,fd=1\nflowop fsync name=y,fd=1\nflowop closefile name=q,fd=1\n";
    // Many files: Filebench removes fewer than it makes when others have them open, and would find none left to make.
    let script = |size: &str, threads: u32, prealloc: u32, body: String| {
        let entries = if prealloc < 100 { 30_000 } else { 1000 };
        format!(
            "define fileset name=s,path=/x,entries={entries},size={size},dirwidth=20,prealloc={prealloc}\n\
             define process name=p,instances=1\n{{\nthread name=t,memsize=1m,instances={threads}\n{{\n{body}}}\n}}\nrun {BESIDE_SECONDS:.0}\n"
        )
    };
    vec![
        ("stat", script("1k", 16, 100, "flowop statfile name=z,filesetname=s\n".to_owned())),
        (
            "open-close",
            script(
                "1k",
                16,
                100,
                "flowop openfile name=o,filesetname=s,fd=1\nflowop closefile name=c,fd=1\n".to_owned(),
            ),
        ),
        ("web", script("16k", 100, 100, open_read.to_owned())),
        ("mail", script("16k", 16, 50, format!("{remove}{write}{append}{open_read}"))),
        ("file", script("64k", 50, 50, format!("{write}{append}{open_read}{remove}"))),
    ]
}

/// Operations per second of CPU of all of Filebench's processes.
fn filebench_run(filebench: &Path, text: &str, folder: &Path) -> Option<f64> {
    let script = folder.join("script.f");
    std::fs::write(&script, text).ok()?;
    let before = children_cpu_s();
    let output = Command::new("setarch")
        .arg("--addr-no-randomize")
        .arg(filebench)
        .arg("-f")
        .arg(&script)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let all_cpu = children_cpu_s() - before;
    // What making the files took is no part of ours either.
    let _ = std::fs::remove_dir_all(folder.join("s"));
    let prepare = {
        let only_files = text.split("define process").next()?.to_owned() + "create files\nquit\n";
        std::fs::write(&script, only_files).ok()?;
        let before = children_cpu_s();
        Command::new("setarch")
            .arg("--addr-no-randomize")
            .arg(filebench)
            .arg("-f")
            .arg(&script)
            .output()
            .ok()?;
        children_cpu_s() - before
    };
    let _ = std::fs::remove_dir_all(folder.join("s"));
    let text = String::from_utf8_lossy(&output.stdout);
    let summary = text.lines().find(|line| line.contains("IO Summary"))?;
    let operations: f64 = summary.split("IO Summary:").nth(1)?.split_whitespace().next()?.parse().ok()?;
    Some(operations / (all_cpu - prepare))
}

/// Writes per second where the disk is to be the limit.
const WRITES_PER_SECOND: u32 = 400;
const PARITY_SECONDS: u32 = 30;

/// The same script by both in turn, where the disk is the limit.
fn parity() {
    let named = |name| std::env::var_os(name).map(PathBuf::from);
    let (Some(filebench), Some(directory)) = (named("FILEBENCH"), named("PARITY_DIRECTORY")) else {
        println!(
            "parity: FILEBENCH and PARITY_DIRECTORY do not name Filebench and a directory; not measured"
        );
        return;
    };
    let folder = tempfile::tempdir_in(&directory).expect("a folder there");
    let place = folder.path().display();
    let text = format!(
        "define fileset name=s,path={place},entries=4000,size=16k,dirwidth=1000,prealloc=50\n\
         define process name=p,instances=1\n{{\nthread name=t,memsize=1m,instances=8\n{{\n\
         flowop createfile name=n,filesetname=s,fd=1\nflowop appendfilerand name=w,fd=1,iosize=16k\n\
         flowop fsync name=y,fd=1\nflowop closefile name=d,fd=1\n\
         flowop openfile name=o,filesetname=s,fd=1\nflowop appendfilerand name=a,iosize=16k,fd=1\n\
         flowop fsync name=z,fd=1\nflowop closefile name=q,fd=1\nflowop deletefile name=x,filesetname=s\n}}\n}}\nrun {PARITY_SECONDS}\n"
    );
    let script = folder.path().join("script.f");
    std::fs::write(&script, &text).expect("room for a script");
    let throttle = Throttle::new(&directory);
    match &throttle {
        Some(_) => {
            println!("parity in {}: at most {WRITES_PER_SECOND} writes per second", directory.display())
        }
        None => println!("parity in {}: the disk as it is (no right to limit it)", directory.display()),
    }
    let own = std::env::current_exe().expect("this program");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        rustix::fs::sync();
        let mut one = Command::new(&own);
        one.arg(ONE).arg(&script).arg(folder.path());
        let output = run_throttled(one, throttle.as_ref());
        ours.push(output.trim().parse::<f64>().expect("a rate"));
        rustix::fs::sync();
        let mut other = Command::new("setarch");
        other.arg("--addr-no-randomize").arg(&filebench).arg("-f").arg(&script);
        let output = run_throttled(other, throttle.as_ref());
        let summary = output.lines().find(|line| line.contains("IO Summary"));
        let rate = summary.and_then(|line| {
            line.split_whitespace().find_map(|w| w.parse::<f64>().ok().filter(|r| r.fract() != 0.0))
        });
        let _ = std::fs::remove_dir_all(folder.path().join("s"));
        match rate {
            Some(rate) => theirs.push(rate),
            None => println!("  Filebench gave no result"),
        }
    }
    if theirs.is_empty() {
        return;
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!(
        "  {ours:.1} operations/s, Filebench {theirs:.1}: {:+.1} % (within 5)",
        (ours / theirs - 1.0) * 100.0
    );
}

fn run_throttled(mut command: Command, throttle: Option<&Throttle>) -> String {
    use std::io::Read;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
    if let Some(throttle) = throttle {
        std::fs::write(throttle.group.join("cgroup.procs"), child.id().to_string())
            .expect("it enters the group");
    }
    let mut text = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
    child.wait().expect("it ends");
    text
}

/// A control group in which a disk takes so many writes per second; removed at the end.
struct Throttle {
    group: PathBuf,
}

impl Throttle {
    fn new(directory: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let device = std::fs::metadata(directory).ok()?.dev();
        // The whole disk, of a partition too: limits are the disk's.
        let number = format!("{}:{}", libc::major(device), libc::minor(device));
        let parent = std::fs::canonicalize(format!("/sys/dev/block/{number}/..")).ok()?;
        let disk = std::fs::read_to_string(parent.join("dev")).map_or(number, |text| text.trim().to_owned());
        let name = format!("nestor-parity-{}", std::process::id());
        let old = Path::new("/sys/fs/cgroup/blkio").join(&name);
        let new = Path::new("/sys/fs/cgroup").join(&name);
        let limits = [
            (old, "blkio.throttle.write_iops_device", format!("{disk} {WRITES_PER_SECOND}")),
            (new, "io.max", format!("{disk} wiops={WRITES_PER_SECOND}")),
        ];
        for (group, file, limit) in limits {
            if std::fs::create_dir(&group).is_ok() {
                let throttle = Self { group };
                if std::fs::write(throttle.group.join(file), limit).is_ok() {
                    return Some(throttle);
                }
            }
        }
        None
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.group);
    }
}

fn children_cpu_s() -> f64 {
    // SAFETY: all zeros is a value of this structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a structure of the type the call fills.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
