use std::fs::File;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use proptest::prelude::*;

use super::{level, two_levels, write};
use crate::{Trace, write_parquet};

fn exported(trace: &Trace) -> SerializedFileReader<File> {
    let mut file = tempfile::tempfile().unwrap();
    write_parquet(trace, &mut file).unwrap();
    SerializedFileReader::new(file).unwrap()
}

#[test]
fn one_row_a_request() {
    let file = exported(&two_levels());
    let rows: Vec<String> = file.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    insta::assert_snapshot!(rows.join("\n"), @r#"
    {level: 0, layer: "ext4", kind: "guest block", machine: "guest", id: 0, operation: "write", class: "journal", flags: "sync meta", origin: null, parents: [], offset: 0, bytes: 8192, queued_ns: 1000, issued_ns: 1500, completed_ns: 3000, bios: 2, pid: 77}
    {level: 0, layer: "ext4", kind: "guest block", machine: "guest", id: 1, operation: "read", class: "unknown", flags: "", origin: null, parents: [], offset: 8192, bytes: 8192, queued_ns: 1500, issued_ns: 2125, completed_ns: 4000, bios: 2, pid: 77}
    {level: 0, layer: "ext4", kind: "guest block", machine: "guest", id: 2, operation: "write", class: "journal", flags: "sync meta", origin: null, parents: [], offset: 16384, bytes: 8192, queued_ns: 4000, issued_ns: 4250, completed_ns: 5000, bios: 2, pid: 77}
    {level: 0, layer: "ext4", kind: "guest block", machine: "guest", id: 3, operation: "flush", class: "flush", flags: "sync meta", origin: null, parents: [], offset: 24576, bytes: 0, queued_ns: 9000, issued_ns: 9125, completed_ns: 9500, bios: 2, pid: 77}
    {level: 1, layer: "hdd:wd-7200", kind: "medium", machine: "ground", id: 0, operation: "write", class: "journal", flags: "sync meta", origin: "parent", parents: [0], offset: 0, bytes: 8192, queued_ns: 1205, issued_ns: 1455, completed_ns: 2205, bios: 2, pid: 77}
    {level: 1, layer: "hdd:wd-7200", kind: "medium", machine: "ground", id: 1, operation: "write", class: "journal", flags: "sync meta", origin: "journal", parents: [], offset: 8192, bytes: 8192, queued_ns: 2005, issued_ns: 2380, completed_ns: 3505, bios: 2, pid: 77}
    {level: 1, layer: "hdd:wd-7200", kind: "medium", machine: "ground", id: 2, operation: "write", class: "journal", flags: "sync meta", origin: "parent", parents: [2, 1], offset: 16384, bytes: 8192, queued_ns: 4105, issued_ns: 4180, completed_ns: 4405, bios: 2, pid: 77}
    {level: 1, layer: "hdd:wd-7200", kind: "medium", machine: "ground", id: 3, operation: "write", class: "journal", flags: "sync meta", origin: "parent", parents: [2], offset: 24576, bytes: 8192, queued_ns: 4205, issued_ns: 4380, completed_ns: 4905, bios: 2, pid: 77}
    "#);
}

#[test]
fn numbers_keep_their_size() {
    let request =
        nestor_trace::Request { id: u64::MAX, offset: u64::MAX - 1, pid: u32::MAX, ..write(0, 3, 1) };
    let file = exported(&Trace { levels: vec![level("x", "y", "z", vec![request])], ..Trace::default() });
    let row = file.get_row_iter(None).unwrap().next().unwrap().unwrap();
    assert_eq!((row.get_ulong(4).unwrap(), row.get_ulong(10).unwrap()), (u64::MAX, u64::MAX - 1));
    assert_eq!(row.get_uint(16).unwrap(), u32::MAX);
}

#[test]
fn a_file_without_rows_can_be_read() {
    let file = exported(&Trace { levels: vec![level("x", "y", "z", Vec::new())], ..Trace::default() });
    assert_eq!((file.metadata().file_metadata().num_rows(), file.num_row_groups()), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn parents_stay_with_their_requests(parents in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..5), 1..60)) {
        let requests = (0..parents.len() as u64).map(|id| write(id, id, 1)).collect();
        let mut trace = Trace { levels: vec![level("x", "y", "z", requests)], ..Trace::default() };
        for (id, parents) in parents.iter().enumerate() {
            trace.links.add(nestor_correlate::LevelIndex::TOP, id as u64, nestor_correlate::Origin::WriteBack, parents);
        }
        trace.links.sort();
        let file = exported(&trace);
        for (row, parents) in file.get_row_iter(None).unwrap().zip(&parents) {
            let row = row.unwrap();
            let list = row.get_list(9).unwrap();
            let read: Vec<u64> = list.elements().iter().map(|e| match e {
                parquet::record::Field::ULong(id) => *id,
                other => panic!("{other:?}"),
            }).collect();
            prop_assert_eq!(&read, parents);
        }
    }
}
