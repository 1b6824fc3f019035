//! What is fuzzed: each target takes any bytes and must neither panic, nor hang, nor take memory without end.

use std::io::Cursor;

use nestor_disk::log::Reader as DiskLogReader;
use nestor_layout::Layout;
use nestor_link::log::FrameReader;
use nestor_stack::Stack;
use nestor_trace::calls::join;
use nestor_trace::decode::blkparse::BlkparseReader;
use nestor_trace::decode::blktrace::{FileReader, MergedReader};
use nestor_trace::decode::csv::{CsvForm, CsvReader};
use nestor_trace::decode::fio::{IologReader, LatencyLogReader};
use nestor_trace::decode::qemu::{LogReader, Signatures, SimpletraceReader};
use nestor_trace::decode::tracefs::TextReader;
use nestor_trace::decode::vscsi::read_histograms;
use nestor_trace::decode::{EventSource, Input, OpenOptions, QemuSource, RequestSource, Source, open_input};
use nestor_trace::{CallMetrics, CallRequests, FileExtents, RequestReader, TracedCalls};
use nestor_workload::{Profile, Workload};

use crate::{answers, descriptions, images, joins, managers};

/// What is done with an input.
pub type Target = fn(&[u8]);

const TARGETS: &[(&str, Target)] = &[
    ("open", open),
    ("blktrace", |data| {
        events(&mut MergedReader::new(halves(data).map(|half| FileReader::new(half, "fuzz")).into()))
    }),
    ("tracefs", |data| events(&mut TextReader::new(data, "fuzz"))),
    ("calls", calls),
    ("blkparse", |data| events(&mut BlkparseReader::new(data, "fuzz"))),
    ("simpletrace", |data| qemu(&mut SimpletraceReader::new(data, "fuzz", Signatures::of_storage()))),
    ("qemu-log", |data| qemu(&mut LogReader::new(data, "fuzz", Signatures::of_storage()))),
    ("fio-iolog", |data| requests(&mut IologReader::new(data, "fuzz"))),
    ("fio-latency-log", |data| requests(&mut LatencyLogReader::new(data, "fuzz"))),
    ("msr", |data| requests(&mut CsvReader::new(data, "fuzz", CsvForm::Msr))),
    ("vscsi-commands", |data| requests(&mut CsvReader::new(data, "fuzz", CsvForm::VscsiCommands))),
    ("vscsi-histograms", |data| drop(read_histograms(data, "fuzz"))),
    ("request-file", request_file),
    ("disk-log", disk_log),
    ("link-log", link_log),
    ("layout", |data| drop(nestor_layout::read(&data))),
    ("layout-file", |mut data| drop(Layout::read_from(&mut data))),
    ("layout-ext2", |data| images::read_patched("ext2", data)),
    ("layout-ext4", |data| images::read_patched("ext4", data)),
    ("layout-xfs", |data| images::read_patched("xfs", data)),
    ("layout-jfs", |data| images::read_patched("jfs", data)),
    ("layout-reiserfs", |data| images::read_patched("reiserfs", data)),
    ("layout-btrfs", |data| images::read_patched("btrfs", data)),
    ("layout-f2fs", |data| images::read_patched("f2fs", data)),
    ("layout-nilfs2", |data| images::read_patched("nilfs2", data)),
    ("stack", |data| text(data, stack)),
    ("workload", |data| text(data, |text| drop(Workload::parse(text)))),
    ("profile", |data| text(data, profile)),
    ("wml", wml),
    ("latency", answers::latency),
    ("agent-frame", answers::agent_frame),
    ("fio", |data| {
        answers::output(
            "fio:mixed:read=70:bs=4k:size=1M:files=4:numjobs=2:direct=off:engine=psync:fsync=16",
            data,
        )
    }),
    ("fio-paced", |data| answers::output("fio:rand-read:size=16M:files=4:runtime=3s", data)),
    ("postmark", |data| answers::output("postmark:xs", data)),
    ("bonnie", |data| answers::output("bonnie:all:size=2G:files=32768", data)),
    ("dbench", |data| answers::output("dbench:fileserver:clients=2:runtime=3s", data)),
    ("flow-report", |data| answers::output("wml:fileserver", data)),
    ("manager-ec2", |data| text(data, managers::ec2)),
    ("manager-opennebula", |data| text(data, managers::opennebula)),
    ("program", |data| drop(nestor_machine::lab_image::program(data))),
    ("libraries", |data| text(data, |text| drop(nestor_machine::lab_image::libraries(text)))),
    ("vm-qemu", |data| text(data, descriptions::qemu_command_line)),
    ("vm-proxmox", |data| text(data, descriptions::proxmox)),
    ("vm-libvirt", |data| text(data, descriptions::domain)),
    ("vm-image", |data| text(data, descriptions::image)),
    ("stamps", answers::stamps),
    ("virtio", answers::virtio),
    ("extents", joins::extents),
    ("manifest", joins::manifest),
    ("analysis", joins::analysis),
    ("analysis-requests", joins::requests),
    #[cfg(feature = "study")]
    ("record", |data| text(data, study::record)),
    #[cfg(feature = "study")]
    ("study", |data| text(data, study::parse)),
    #[cfg(feature = "study")]
    ("gate-rule", |data| text(data, study::gate_rule)),
];

/// All targets.
pub fn names() -> Vec<&'static str> {
    TARGETS.iter().map(|(name, _)| *name).collect()
}

/// The target of that name.
pub fn find(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

fn halves(data: &[u8]) -> [&[u8]; 2] {
    let (a, b) = data.split_at(data.len() / 2);
    [a, b]
}

fn open(data: &[u8]) {
    let input = Input::new(Cursor::new(data.to_vec()), "fuzz");
    let Ok(trace) = open_input(input, &OpenOptions::default()) else { return };
    assert!(!trace.description().is_empty());
    match trace.source {
        Source::BlockEvents(mut source) => events(&mut *source),
        Source::Requests(mut source) => requests(&mut *source),
        Source::Qemu(mut source) => qemu(&mut *source),
        Source::Histograms(_) => {}
    }
}

fn events(source: &mut dyn EventSource) {
    while let Ok(Some(event)) = source.next_event() {
        let _ = (event.end_sector(), source.thread_name(event.pid));
    }
    source.warnings().remarks();
}

fn requests(source: &mut dyn RequestSource) {
    let mut count = 0;
    while let Ok(Some(found)) = source.next_request() {
        assert!(found.request.completed_ns >= found.request.queued_ns);
        assert!((found.target as usize) < source.targets().len());
        assert_eq!(found.request.id, count);
        count += 1;
    }
    source.warnings().remarks();
}

fn qemu(source: &mut dyn QemuSource) {
    while let Ok(Some(event)) = source.next_event() {
        let _ = (event.number("offset"), event.signed("ret"), event.text("cmd"));
    }
    source.warnings().remarks();
}

fn request_file(data: &[u8]) {
    if let Ok(reader) = RequestReader::new(data, "fuzz") {
        reader.for_each(drop);
    }
}

fn disk_log(data: &[u8]) {
    if let Ok(reader) = DiskLogReader::new(data, "fuzz") {
        reader.for_each(drop);
    }
}

fn link_log(data: &[u8]) {
    if let Ok(reader) = FrameReader::new(data, "fuzz") {
        reader.for_each(drop);
    }
}

fn text(data: &[u8], target: impl Fn(&str)) {
    if let Ok(text) = std::str::from_utf8(data) {
        target(text);
    }
}

/// One input is what a client recorded and what its server did.
fn calls(data: &[u8]) {
    let [Ok(client), Ok(server)] = halves(data).map(|half| TracedCalls::read(half, "fuzz".as_ref())) else {
        return;
    };
    let joined = join(&client, &server);
    drop(CallMetrics::of(&joined, server.lost_events));
    drop(CallRequests::on_main_file(&joined));
    // A file as the layout of a damaged file system may have it.
    let extents = FileExtents::new(vec![(0, u64::MAX, 4096), (512, 0, u64::MAX), (u64::MAX, 7, 9)]);
    let files = joined.accesses.iter().map(|access| (access.file, extents.clone())).collect();
    drop(CallRequests::on_device(&joined, &files));
}

fn stack(text: &str) {
    let Ok(stacks) = nestor_stack::parse_all(text) else { return };
    for stack in stacks {
        let canonical = stack.to_string();
        assert_eq!(Stack::parse(&canonical).map(|again| again.to_string()).as_deref(), Ok(&*canonical));
    }
}

/// What reads as a profile also runs as a workload, and reads again as it was written.
fn profile(text: &str) {
    let Ok(profile) = Profile::parse(text) else { return };
    assert!(profile.workload(profile.file_bytes()).is_ok());
    assert!(Profile::parse(&profile.to_toml()).is_ok());
}

/// What is understood is also planned or refused, at every scale; trees of many entries are only looked at.
fn wml(data: &[u8]) {
    const FEW: u64 = 5000;
    let script = match nestor_wml::parse(&nestor_wml::Source::new("fuzz", data), &[]) {
        Ok(script) => script,
        Err(error) => return assert!(error.to_string().contains('^')),
    };
    let text = String::from_utf8_lossy(data);
    let source = nestor_flowops::Source { name: "fuzz", text: &text };
    for how in [
        nestor_flowops::Scale::Factor(1.0),
        nestor_flowops::Scale::Tiny,
        nestor_flowops::Scale::Factor(1e300),
    ] {
        let scaled = nestor_flowops::scale(&script, how).script;
        let entries = nestor_flowops::file_sets(&scaled)
            .fold(0_u64, |sum, set| sum.saturating_add(set.entries).saturating_add(set.leaf_directories));
        let _ = match entries <= FEW {
            true => nestor_flowops::plan(&scaled, source, 1),
            false => nestor_flowops::check(&scaled, source),
        };
    }
}

#[cfg(feature = "study")]
mod study {
    use nestor_results::checks::{Expected, marks, steady_after_s};
    use nestor_results::{CellRecord, GateRule, RunNumbers, StoredRun, Study};

    pub fn parse(text: &str) {
        let _ = Study::parse("fuzz", text, None);
    }

    /// What is read is written so that it reads as the same.
    pub fn gate_rule(text: &str) {
        let Ok(rule) = text.parse::<GateRule>() else { return };
        assert!(rule.to_string().parse::<GateRule>().is_ok_and(|again| again == rule), "{rule}");
    }

    /// A stored record, and all that is asked of one.
    pub fn record(text: &str) {
        let Ok(record) = serde_json::from_str::<CellRecord>(text) else { return };
        let Some(measured) = record.measured() else { return };
        let expected = match (record.stack.value(), record.workload.value()) {
            (Some(stack), Some(workload)) => Expected::of(stack, workload),
            _ => Expected::default(),
        };
        for mark in marks(measured, &record.environment, &expected).iter().chain(&record.marks) {
            assert!(!mark.detail().is_empty() || !mark.name().is_empty());
        }
        let _ = (steady_after_s(measured), measured.load.bytes_per_second(), record.content_id());
        let run = StoredRun { number: 1, id: String::new(), record };
        let _ = RunNumbers::of(&run);
    }
}
