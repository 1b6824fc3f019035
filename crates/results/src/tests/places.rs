//! Runs of the same stack and load at several places, in one file of results.

use tempfile::TempDir;

use super::fixture::*;
use crate::record::CellRecord;
use crate::{Known, Store};

const GUEST: &str = "ext3/kvm/raw/jfs/hdd";
const NATIVE: &str = "ext3/hdd";
const TCG: &str = "ext3/tcg/hdd";

/// A run somewhere, on these processors: of the host, then of the guests. The minute says which run is newer.
fn run_at(on: &str, processors: &[&str], stack: &str, minute: u32, mib: u64) -> CellRecord {
    let mut record = record(stack, minute, mib * MIB);
    record.started_at = format!("2026-01-02T03:{minute:02}:00Z");
    record.environment.ground = on.into();
    let model = record.environment.machines[0].clone();
    let machine = |(depth, accelerator): (usize, &&str)| {
        let (label, accelerator) = (["host", "guest", "guest 2"][depth].into(), accelerator.parse().unwrap());
        crate::MachineRecord { label, accelerator, ..model.clone() }
    };
    record.environment.machines = processors.iter().enumerate().map(machine).collect();
    record
}

fn known(records: &[CellRecord], on: &str) -> Known {
    let folder = TempDir::new().unwrap();
    let mut store = Store::open(&folder.path().join("r.sqlite")).unwrap();
    for record in records {
        store.insert(record).unwrap();
    }
    store.known(on).unwrap()
}

/// Each cell's stack with its MiB in each second, and with the number of its runs.
fn cells(known: &Known) -> Vec<(&str, u32, usize)> {
    let mib = |bytes: f64| (bytes / MIB as f64).round() as u32;
    known.cells.iter().map(|c| (c.stack.as_str(), mib(c.bytes_per_second), c.runs.len())).collect()
}

/// Stack, place and number of the runs that are left out.
fn elsewhere(known: &Known) -> Vec<(&str, String, u32)> {
    known.elsewhere.iter().map(|e| (e.stack.as_str(), e.place.in_words(), e.runs)).collect()
}

#[test]
fn runs_of_other_places_are_no_runs_of_a_cell() {
    let records = [
        run_at("ssh:a", &["hardware", "kvm"], GUEST, 0, 100),
        run_at("ssh:a", &["hardware", "kvm"], GUEST, 1, 100),
        run_at("ssh:b", &["hardware", "kvm"], GUEST, 2, 400),
        run_at("this", &["hardware", "kvm"], GUEST, 3, 900),
        run_at("this", &["hardware"], NATIVE, 4, 1000),
    ];
    let a = known(&records, "ssh:a");
    assert_eq!(cells(&a), [(GUEST, 10, 2)]);
    assert_eq!(
        elsewhere(&a),
        [(NATIVE, "this".to_owned(), 1), (GUEST, "ssh:b".to_owned(), 1), (GUEST, "this".to_owned(), 1)]
    );
    // What a load asks for is not told by other places either.
    assert_eq!(a.loads_on.len(), 1);
    assert_eq!(cells(&known(&records, "ssh:b")), [(GUEST, 40, 1)]);
    assert_eq!(cells(&known(&records, "this")), [(NATIVE, 100, 1), (GUEST, 90, 1)]);
    let nowhere = known(&records, "emulated");
    assert_eq!((nowhere.place.in_words().as_str(), nowhere.cells.len()), ("emulated:time=real", 0));
    assert_eq!(nowhere.elsewhere.iter().map(|e| e.runs).sum::<u32>(), 5);
}

#[test]
fn of_the_processors_that_a_place_had_those_of_the_newest_run_count() {
    let mut records = vec![
        run_at("emulated", &["tcg", "kvm"], GUEST, 0, 100),
        run_at("emulated", &["tcg"], NATIVE, 1, 200),
        run_at("emulated", &["kvm", "kvm"], GUEST, 2, 700),
        run_at("emulated", &["kvm"], NATIVE, 3, 800),
    ];
    let under_kvm = known(&records, "emulated");
    assert_eq!(under_kvm.place.in_words(), "emulated:time=real (KVM)");
    assert_eq!(cells(&under_kvm), [(NATIVE, 80, 1), (GUEST, 70, 1)]);
    let left_out = "emulated:time=real (TCG)".to_owned();
    assert_eq!(elsewhere(&under_kvm), [(NATIVE, left_out.clone(), 1), (GUEST, left_out, 1)]);
    // It is when they were made that counts, not when they came into this file.
    records.reverse();
    assert_eq!(cells(&known(&records, "emulated")), [(NATIVE, 80, 1), (GUEST, 70, 1)]);
    records.push(run_at("emulated", &["tcg"], NATIVE, 4, 200));
    let emulated = known(&records, "emulated");
    assert_eq!(emulated.place.in_words(), "emulated:time=real (TCG)");
    assert_eq!(cells(&emulated), [(NATIVE, 20, 2), (GUEST, 10, 1)]);
}

#[test]
fn guests_that_could_not_run_under_kvm_are_no_guests_that_could() {
    let mut records = vec![
        run_at("this", &["hardware"], NATIVE, 0, 500),
        run_at("this", &["hardware", "kvm"], GUEST, 1, 400),
        // Asked for, and so the same wherever KVM works or not.
        run_at("this", &["hardware", "tcg"], TCG, 2, 50),
    ];
    let all = known(&records, "this");
    assert_eq!((cells(&all).len(), all.elsewhere.len()), (3, 0));
    records.push(run_at("this", &["hardware", "tcg"], GUEST, 3, 60));
    let without = known(&records, "this");
    assert_eq!(without.place.in_words(), "this, guests emulated (TCG)");
    assert_eq!(cells(&without), [(NATIVE, 50, 1), (GUEST, 6, 1), (TCG, 5, 1)]);
    assert_eq!(elsewhere(&without), [(GUEST, "this".to_owned(), 1)]);
    assert!(!without.place.is_like(&all.place) && all.place.is_like(&all.place));
}
