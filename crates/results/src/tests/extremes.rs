//! Records of somebody else's with numbers at the end of what their types hold.

use serde_json::Value;
use tempfile::TempDir;

use super::fixture::{MIB, layer, life_with_transfer, record, writes};
use crate::checks::{Expected, bytes_by_second, marks};
use crate::record::{CellRecord, Outcome};
use crate::{RunFilter, RunNumbers, Store};

/// The same record with every whole number that can be so much at the end of its type.
fn at_the_end(record: &CellRecord) -> CellRecord {
    let mut json = serde_json::to_value(record).unwrap();
    let mut paths = Vec::new();
    whole_numbers(&json, String::new(), &mut paths);
    for path in paths {
        for most in [u64::MAX, i64::MAX.unsigned_abs(), u32::MAX.into()] {
            let before = std::mem::replace(json.pointer_mut(&path).unwrap(), most.into());
            if serde_json::from_value::<CellRecord>(json.clone()).is_ok() {
                break;
            }
            *json.pointer_mut(&path).unwrap() = before;
        }
    }
    serde_json::from_value(json).unwrap()
}

fn whole_numbers(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Number(number) if number.is_u64() => found.push(path),
        Value::Array(list) => {
            for (index, item) in list.iter().enumerate() {
                whole_numbers(item, format!("{path}/{index}"), found);
            }
        }
        Value::Object(map) => {
            for (name, item) in map {
                whole_numbers(item, format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        _ => {}
    }
}

#[test]
fn numbers_at_the_end_of_64_bits_are_checked_stored_and_read_without_overflow() {
    let mut usual = record("ext3/kvm/raw/jfs/hdd", 0, 64 * MIB);
    if let Outcome::Measured(measured) = &mut usual.outcome {
        let read = measured.load.operations.values().next().cloned().unwrap();
        measured.load.operations.insert(nestor_workload::OperationClass("read".to_owned()), read);
        measured.layers.push(layer("ext3", "guest fs", "guest", Some(writes(64 * MIB))));
        measured.layers.push(layer("hdd", "disk", "host", Some(writes(64 * MIB))));
        measured.lives.push(life_with_transfer(1.0));
    }
    let extreme = at_the_end(&usual);
    assert_ne!(extreme, usual);
    let measured = extreme.measured().unwrap();
    let _ = marks(measured, &extreme.environment, &Expected::default());
    assert!(bytes_by_second(measured).iter().all(|bytes| bytes.is_finite()));
    assert_eq!(measured.load.bytes(), u64::MAX);
    let folder = TempDir::new().unwrap();
    let mut store = Store::open(&folder.path().join("results.sqlite")).unwrap();
    store.insert(&extreme).unwrap();
    let numbers = store.numbers(&RunFilter::default()).unwrap();
    let run = store.run(numbers[0]).unwrap();
    assert_eq!(run.record, extreme);
    let _ = RunNumbers::of(&run);
}
