//! The notebook `docs/results.ipynb` runs on results: on those that the test makes up, and on the demo's where these are.
//!
//! It is executed by Jupyter with pandas and matplotlib, which `make test` installs from Debian.

#![allow(clippy::print_stderr)] // For who runs it, not for who uses the program.

mod advise_store;

use std::path::{Path, PathBuf};
use std::process::Command;

use advise_store::MadeUp;
use nestor_results::Store;
use serde_json::Value;
use tempfile::TempDir;

const JUPYTER: &str = "/usr/bin/jupyter-nbconvert";
const STACKS: [&str; 3] = ["ext3/kvm/hdd", "ext3/kvm/raw/xfs/hdd", "ext3/kvm/qcow2/xfs/hdd"];

fn notebook() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results.ipynb")
}

fn read(text: &str) -> Vec<Value> {
    let notebook: Value = serde_json::from_str(text).expect("a notebook");
    let cells = notebook["cells"].as_array().expect("cells");
    cells.iter().filter(|cell| cell["cell_type"] == "code").cloned().collect()
}

/// Whether Jupyter and what the notebook imports are there; says so if not.
fn is_there() -> bool {
    let imports =
        Command::new("/usr/bin/python3").args(["-c", "import ipykernel, matplotlib, pandas"]).output();
    let there = Path::new(JUPYTER).exists() && imports.is_ok_and(|output| output.status.success());
    if !there {
        eprintln!(
            "not tested: the notebook needs jupyter-nbconvert, python3-ipykernel, python3-pandas and python3-matplotlib"
        );
    }
    there
}

/// Runs it on a file; all outputs of its cells, in their order.
fn executed(results: &Path, study: &str) -> Vec<Vec<Value>> {
    let home = TempDir::new().unwrap();
    let output = Command::new(JUPYTER)
        .args(["--to", "notebook", "--execute", "--stdout", "--log-level=ERROR"])
        .arg(notebook())
        .env("NESTOR_RESULTS", results)
        .env("NESTOR_STUDY", study)
        // Jupyter, IPython, matplotlib and fontconfig keep what they like to keep there.
        .envs(
            ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR"]
                .map(|name| (name, home.path())),
        )
        .envs(
            ["JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"].map(|name| (name, home.path())),
        )
        .output()
        .expect("Jupyter starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let cells = read(&String::from_utf8(output.stdout).expect("text is UTF-8"));
    cells.iter().map(|cell| cell["outputs"].as_array().cloned().unwrap_or_default()).collect()
}

/// How many pictures each cell drew.
fn pictures(outputs: &[Vec<Value>]) -> Vec<usize> {
    let drawn = |outputs: &Vec<Value>| outputs.iter().filter(|o| o["data"]["image/png"].is_string()).count();
    outputs.iter().map(drawn).collect()
}

fn made_up(path: &Path) {
    let mut runs = MadeUp::new("fio:rand-write:bs=8k:size=4M");
    runs.keep_study("made-up", &STACKS);
    for block in 0..3 {
        for (stack, rate) in STACKS.into_iter().zip([100.0, 80.0, 60.0]) {
            runs.run("made-up", block, stack, rate + f64::from(block));
            runs.with_latency((1e9 / rate) as u64);
        }
    }
    runs.keep(path);
}

#[test]
fn it_is_kept_without_outputs() {
    let cells = read(&std::fs::read_to_string(notebook()).unwrap());
    assert!(cells.len() >= 4);
    for cell in cells {
        assert_eq!((&cell["outputs"], &cell["execution_count"]), (&Value::Array(Vec::new()), &Value::Null));
    }
}

#[test]
fn it_draws_a_study_that_was_made_up() {
    if !is_there() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("results.sqlite");
    made_up(&path);
    let outputs = executed(&path, "made-up");
    assert_eq!(pictures(&outputs), [0, 1, 1, 1]);
    let table = |cell: usize| -> String {
        let last = outputs[cell].last().expect("a table");
        last["data"]["text/plain"].as_array().expect("lines").iter().filter_map(Value::as_str).collect()
    };
    assert!(table(0).contains("made-up"), "{}", table(0));
    for stack in STACKS {
        assert!(table(1).contains(stack) && table(3).contains(stack), "{stack}: {}{}", table(1), table(3));
    }
}

/// Those that `make demo` leaves in the user's own file, which is only read.
#[test]
fn it_draws_the_demo_where_that_was_run() {
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    let data = data.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share")));
    let Some(path) = data.map(|data| data.join("nestor/results.sqlite")).filter(|path| path.exists()) else {
        eprintln!("not tested: there are no results of the demo");
        return;
    };
    if !is_there() {
        return;
    }
    // A copy of this version: the file itself may be of an earlier one, and must stay as it is.
    let folder = TempDir::new().unwrap();
    let copy = folder.path().join("copy.sqlite");
    let Ok(store) = Store::open_read_only(&path) else {
        eprintln!("not tested: {} cannot be read", path.display());
        return;
    };
    if store.study_named("quick").unwrap().is_none() {
        eprintln!("not tested: {} has no results of the demo", path.display());
        return;
    }
    store.copy_to(&copy).unwrap();
    drop(Store::open(&copy).unwrap());
    assert_eq!(pictures(&executed(&copy, "quick"))[1..], [1, 1, 1]);
}
