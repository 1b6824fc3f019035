use std::fs;
use std::path::Path;

use nestor_correlate::CorrelateError;
use nestor_trace::request_file::{ClockReading, RequestHeader};
use nestor_trace::{Request, RequestWriter};

use super::wire::show;
use super::write;
use crate::{ExportError, open_inputs, write_csv, write_perfetto};

fn file(
    path: &Path,
    layer: &str,
    machine: &str,
    clock: ClockReading,
    requests: impl Iterator<Item = Request>,
) {
    let header = RequestHeader {
        layer: layer.to_owned(),
        kind: "block".to_owned(),
        machine: machine.to_owned(),
        clock,
        ..RequestHeader::default()
    };
    let mut writer = RequestWriter::create(path, header).unwrap();
    requests.for_each(|request| writer.push(&request).unwrap());
    writer.finish().unwrap();
}

/// How far the host's clock is ahead of the guest's.
const AHEAD_NS: u64 = 5_000_000_000;

/// A guest's requests and the disk's, one below each other, as `nestor run --trace-to` leaves them.
fn recording(directory: &Path, requests: u64) {
    fs::create_dir_all(directory).unwrap();
    let clock = |monotonic_ns| ClockReading { realtime_ns: Some(1_790_000_000_000_000_000), monotonic_ns };
    let at = |id: u64| 1_000_000_000 + id * 1_000_000 + (id * id % 977) * 100;
    let guest = (0..requests).map(|id| write(id, at(id), 800_000));
    let disk = (0..requests).map(|id| write(id, at(id) + AHEAD_NS + 100_000, 500_000));
    file(&directory.join("guest.requests"), "ext4", "guest", clock(1_000), guest);
    file(&directory.join("disk.requests"), "hdd", "ground", clock(1_000 + AHEAD_NS), disk);
    let manifest = r#"{
        "stack": "ext4/hdd", "workload": "fio:rand-write", "block": 0, "seed": 1,
        "levels": [
            { "layer": "ext4", "kind": "block", "machine": "guest", "requests": 1, "file": "guest.requests",
              "map": "identity", "cached_reads": "unknown", "cached_writes": "unknown" },
            { "layer": "hdd", "kind": "medium", "machine": "ground", "requests": 1, "file": "disk.requests",
              "map": "identity", "cached_reads": "never", "cached_writes": "never" }
        ]
    }"#;
    fs::write(directory.join("manifest.json"), manifest).unwrap();
}

#[test]
fn the_trace_points_of_a_recording_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    recording(&folder.path().join("001-cell"), 400);
    // The directory above is enough where there is one recording in it.
    let inputs = open_inputs(&[folder.path().to_path_buf()], folder.path()).unwrap();
    let mut bytes = Vec::new();
    let written = write_perfetto(&inputs.trace, &mut bytes).unwrap();
    assert_eq!((written.requests, written.links), (800, 400));
    let shown = show(&bytes);
    let (guest, disk) = shown.slices.split_at(400);
    for (above, below) in guest.iter().zip(disk) {
        assert_eq!((above.flows.as_slice(), below.category.as_str()), (below.flows.as_slice(), "parent"));
        // On one clock the disk works within the guest's waiting.
        assert!(above.begin_ns <= below.begin_ns && below.end_ns <= above.end_ns, "{above:?} {below:?}");
    }
}

#[test]
fn several_recordings_have_to_be_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    recording(&folder.path().join("001-cell"), 3);
    recording(&folder.path().join("002-cell"), 3);
    let refused = open_inputs(&[folder.path().to_path_buf()], folder.path()).err().unwrap();
    assert!(matches!(refused, ExportError::Recording(CorrelateError::Several { count: 2, .. })), "{refused}");
}

#[test]
fn recordings_that_cannot_be_joined_are_exported_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path(), 300);
    // Requests of a guest that has nothing to do with the disk's.
    let other = (0..300)
        .map(|id| Request { offset: (1 << 40) + id * 8_192, ..write(id, 1_000_000 + id * 400_000, 100) });
    let clock = ClockReading { realtime_ns: Some(1_790_000_000_000_000_000), monotonic_ns: 1_000 };
    file(&folder.path().join("guest.requests"), "ext4", "guest", clock, other);
    let inputs = open_inputs(&[folder.path().to_path_buf()], folder.path()).unwrap();
    let mut text = Vec::new();
    assert_eq!(write_csv(&inputs.trace, &mut text).unwrap().requests, 600);
    let text = String::from_utf8(text).unwrap();
    let disk = text.lines().find(|line| line.starts_with("1,hdd")).unwrap();
    // Its clock is put right by the calendar, if not by the requests.
    let queued: u64 = disk.split(',').nth(12).unwrap().parse().unwrap();
    assert!((1_000_000_000..1_002_000_000).contains(&queued), "{disk}");
}

#[test]
fn a_level_that_no_request_reached_is_left_out_and_the_others_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path(), 300);
    file(&folder.path().join("idle.requests"), "", "", ClockReading::default(), std::iter::empty());
    let path = folder.path().join("manifest.json");
    let idle = r#"{ "layer": "raid0", "file": "idle.requests", "map": "identity", "cached_reads": "never",
                    "cached_writes": "never" }"#;
    let text = fs::read_to_string(&path).unwrap();
    let last = text.rfind(']').unwrap();
    fs::write(&path, format!("{}, {idle} {}", &text[..last], &text[last..])).unwrap();
    let inputs = open_inputs(&[folder.path().to_path_buf()], folder.path()).unwrap();
    assert_eq!(inputs.remarks, ["no request reached raid0"]);
    let written = write_csv(&inputs.trace, &mut Vec::new()).unwrap();
    assert_eq!((written.requests, inputs.trace.levels.len()), (600, 2));
    assert_eq!(write_perfetto(&inputs.trace, &mut Vec::new()).unwrap().links, 300);
}

#[test]
fn a_description_that_leads_elsewhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path(), 3);
    let path = folder.path().join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    for wrong in [
        text.replace("disk.requests", "../disk.requests"),
        text.replace("disk.requests", "/etc/passwd"),
        text.replace("identity", "upside-down"),
        text.replace("[", "{"),
        "{ \"levels\": [] }".to_owned(),
    ] {
        fs::write(&path, wrong).unwrap();
        let refused = open_inputs(&[folder.path().to_path_buf()], folder.path()).err().unwrap();
        assert!(matches!(refused, ExportError::Recording(CorrelateError::Manifest { .. })), "{refused}");
    }
}

#[test]
fn traces_of_other_programs_become_one_trace_point_for_each_device() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two-disks.txt");
    let mut text = String::new();
    for (number, device) in ["8,0", "8,16"].iter().enumerate() {
        for (time, action) in
            [("0.000001000", "Q"), ("0.000002000", "G"), ("0.000003000", "D"), ("0.000009000", "C")]
        {
            let by = if action == "C" { "[0]" } else { "[fio]" };
            text.push_str(&format!(
                "{device:>6}    0 {:>8}     {time}   697 {action:>2}   W 2048 + 16 {by}\n",
                number + 1
            ));
        }
    }
    fs::write(&path, text).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let inputs = open_inputs(&[path], scratch.path()).unwrap();
    assert_eq!(
        inputs.remarks,
        ["the trace points are not joined: nothing describes how the addresses of \
                                 one map to the next"]
    );
    let mut text = Vec::new();
    write_csv(&inputs.trace, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    insta::assert_snapshot!(text, @r"
    level,layer,kind,machine,id,operation,class,flags,origin,parents,offset,bytes,queued_ns,issued_ns,completed_ns,bios,pid
    0,two-disks.txt 8:0,blkparse text,,0,write,unknown,,,,1048576,8192,1000,3000,9000,1,697
    1,two-disks.txt 8:16,blkparse text,,0,write,unknown,,,,1048576,8192,1000,3000,9000,1,697
    ");
}

#[test]
fn what_is_not_there_or_no_trace_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage");
    fs::write(&garbage, [7u8; 5_000]).unwrap();
    for input in [folder.path().join("missing"), garbage] {
        assert!(matches!(open_inputs(&[input], folder.path()).err().unwrap(), ExportError::Trace(_)));
    }
}
