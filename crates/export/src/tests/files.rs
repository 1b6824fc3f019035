use std::fs;
use std::path::PathBuf;

use nestor_trace::request_file::{ClockReading, RequestHeader};
use nestor_trace::{RequestWriter, TraceError};

use super::{level, two_levels, write};
use crate::{ExportError, Format, Trace, export_to_file};

#[test]
fn a_file_is_whole_or_not_there_and_never_replaced_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    let written = export_to_file(&two_levels(), Format::Csv, &path, false).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!((written.requests, written.links, written.bytes), (8, 4, text.len() as u64));

    fs::write(&path, "mine").unwrap();
    let refused = export_to_file(&two_levels(), Format::Csv, &path, false).unwrap_err();
    assert!(matches!(refused, ExportError::Exists { .. }), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    export_to_file(&two_levels(), Format::Parquet, &path, true).unwrap();
    assert!(fs::read(&path).unwrap().starts_with(b"PAR1"));

    let missing = vec![crate::ExportLevel {
        source: Box::new(folder.path().join("nothing.requests")),
        ..level("x", "y", "z", Vec::new())
    }];
    let other = folder.path().join("other.csv");
    let failed = export_to_file(&Trace { levels: missing, ..Trace::default() }, Format::Csv, &other, false);
    assert!(matches!(failed, Err(ExportError::Trace(TraceError::Io { .. }))));
    let nothing = export_to_file(&Trace::default(), Format::Csv, &other, false);
    assert!(matches!(nothing, Err(ExportError::NoLevels)));
    let left: Vec<PathBuf> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(left, [path], "nothing unfinished is left");
}

#[test]
fn request_files_are_read_from_where_they_lie() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guest.requests");
    let header = RequestHeader {
        layer: "ext4".to_owned(),
        kind: "guest block".to_owned(),
        machine: "guest".to_owned(),
        clock: ClockReading::default(),
        ..RequestHeader::default()
    };
    let mut writer = RequestWriter::create(&path, header).unwrap();
    (0..1_000).for_each(|id| writer.push(&write(id, id * 10, 500)).unwrap());
    writer.finish().unwrap();
    let level =
        crate::ExportLevel { source: Box::new(path), ..level("ext4", "guest block", "guest", Vec::new()) };
    let trace = Trace { levels: vec![level], ..Trace::default() };
    for format in [Format::Perfetto, Format::Parquet, Format::Csv] {
        let out = folder.path().join(format!("{format:?}"));
        assert_eq!(export_to_file(&trace, format, &out, false).unwrap().requests, 1_000);
    }
    let shown = super::wire::show(&fs::read(folder.path().join("Perfetto")).unwrap());
    assert_eq!(shown.slices.len(), 1_000);
}
