//! What cells in virtual time cost in real time: the whole cell after the first, the part of it that is not measuring, and real
//! seconds for each virtual one that is measured. Needs the lab image; native and nested side by side.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it.

use std::process::Command;

use serde_json::Value;

/// Name, stack and workload.
const CELLS: [(&str, &str, &str); 3] = [
    ("random reads, native", "ext4/hdd", "fio:rand-read:depth=4:scale=0.00625:runtime=10s"),
    ("random reads, nested", "ext3/kvm/raw/jfs/hdd", "fio:rand-read:depth=4:scale=0.00625:runtime=10s"),
    (
        "writes with fsync, nested",
        "ext4/kvm/qcow2/xfs/hdd",
        "fio:rand-write:bs=4k:depth=1:engine=psync:direct=off:fsync=1:runtime=10s",
    ),
];

/// Real seconds of a cell, of its load, and virtual seconds that were measured.
struct Cost {
    cell_s: f64,
    load_s: f64,
    measured_s: f64,
}

fn cost(stack: &str, workload: &str) -> Result<Cost, String> {
    let directory = tempfile::tempdir_in("/var/tmp").map_err(|e| e.to_string())?;
    let store = directory.path().join("results.sqlite");
    let run =
        ["run", stack, workload, "-n", "1", "--json", "--trace", "layers", "--on", "emulated:time=virtual"];
    let mut cost = Err("it was not run".to_owned());
    // The first boots and keeps its machines; the second is what every later one costs.
    for anew in [[].as_slice(), &["--again"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nestor"));
        command.args(run).args(anew).arg("--store").arg(&store).env("NESTOR_LOG_REQUESTS", "1");
        let output = command.output().map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        let views: Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("{e}: {said}"))?;
        cost = cost_of(views.get(0).unwrap_or(&views), &said).ok_or_else(|| said.into_owned());
    }
    cost
}

fn cost_of(view: &Value, log: &str) -> Option<Cost> {
    let load_s = log.lines().filter(|line| line.contains("fio --name") && !line.contains("create_only"));
    let load_s = load_s.filter_map(|line| line.split_whitespace().next()?.parse::<f64>().ok()).next_back()?;
    Some(Cost { cell_s: view["cell_s"].as_f64()?, load_s, measured_s: view["measured_s"].as_f64()? })
}

fn main() {
    println!("{:<28}{:>12}{:>16}{:>22}", "cell", "real s", "not measuring", "real s per virtual s");
    for (name, stack, workload) in CELLS {
        match cost(stack, workload) {
            Ok(Cost { cell_s, load_s, measured_s }) => {
                println!("{name:<28}{cell_s:>12.1}{:>16.1}{:>22.2}", cell_s - load_s, load_s / measured_s);
            }
            Err(why) => println!("{name:<28}  {why}"),
        }
    }
}
