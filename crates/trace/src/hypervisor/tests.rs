use super::*;
use crate::event::Device;
use crate::metrics::TracePoint;
use crate::recording::Interface;
use crate::request::{Operation, Request};
use crate::request_file::RequestReader;

const DISK: u64 = 0x55aa;

fn recording(lines: &str, source: HypervisorSource) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("qemu.log"), lines).unwrap();
    let summary = RecordSummary {
        method: TracePoint::Hypervisor,
        why: "asked for".into(),
        device: Device::default(),
        partitions: Vec::new(),
        dropped_events: 0,
        files: vec!["qemu.log".into()],
        started_monotonic_ns: 5_000_000_000,
        started_realtime_ns: 1_000_000_000_000,
        stopped_monotonic_ns: 7_000_000_000,
        hypervisor: Some(HypervisorSource { stopped_realtime_ns: 1_002_000_000_000, ..source }),
    };
    std::fs::write(directory.path().join("record.json"), serde_json::to_vec(&summary).unwrap()).unwrap();
    directory
}

fn summarized(lines: &str, source: HypervisorSource) -> (HypervisorMetrics, Vec<Request>, Vec<Request>) {
    let directory = recording(lines, source);
    let path = |name: &str| directory.path().join(name);
    let output = HypervisorOutput {
        disk_requests: Some(path("disk")),
        file_requests: Some(path("file")),
        layer: "kvm".into(),
        machine: "host".into(),
        disk_bytes: 0,
    };
    let metrics = summarize_hypervisor(directory.path(), &output).unwrap();
    let read = |name: &str| -> Vec<Request> {
        let Ok(reader) = RequestReader::open(path(name)) else { return Vec::new() };
        let header = reader.header();
        let expected = match name {
            "file" => ("qcow2", "image file"),
            _ => ("kvm", "hypervisor"),
        };
        assert_eq!((header.layer.as_str(), header.kind.as_str()), expected);
        reader.map(|r| r.unwrap()).collect()
    };
    (metrics, read("disk"), read("file"))
}

fn short(requests: &[Request]) -> Vec<(Operation, u64, u64, u64, u64)> {
    let start = 5_000_000_000;
    let shorten = |r: &Request| (r.operation, r.offset, r.bytes, r.queued_ns - start, r.completed_ns - start);
    requests.iter().map(shorten).collect()
}

#[test]
fn requests_through_virtio_blk_are_paired_by_their_address() {
    // The disk with the programs (0x77bb) is another one; two requests are in flight at once; a flush has no beginning.
    let log = "7@1000.000100:virtio_blk_handle_write vdev 0x55aa req 0x1 sector 16 nsectors 8\n\
               7@1000.000150:virtio_blk_handle_read vdev 0x55aa req 0x2 sector 800 nsectors 256\n\
               7@1000.000160:virtio_blk_handle_read vdev 0x77bb req 0x3 sector 16 nsectors 8\n\
               7@1000.000900:virtio_blk_req_complete vdev 0x55aa req 0x2 status 0\n\
               7@1000.000950:virtio_blk_req_complete vdev 0x77bb req 0x3 status 0\n\
               7@1000.001100:virtio_blk_req_complete vdev 0x55aa req 0x1 status 0\n\
               7@1000.001200:virtio_blk_req_complete vdev 0x55aa req 0x1 status 0\n";
    let source = HypervisorSource { device_address: Some(DISK), ..HypervisorSource::default() };
    let (metrics, disk, file) = summarized(log, source);
    assert_eq!(
        short(&disk),
        [
            (Operation::Read, 409_600, 131_072, 150_000, 900_000),
            (Operation::Write, 8192, 4096, 100_000, 1_100_000),
            (Operation::Flush, 0, 0, 1_200_000, 1_200_000),
        ]
    );
    assert!(file.is_empty() && metrics.file.is_none());
    assert_eq!(metrics.disk.trace_point, TracePoint::Hypervisor);
    assert_eq!((metrics.disk.read.completed_bytes, metrics.disk.write.completed_bytes), (131_072, 4096));
    assert_eq!(metrics.disk.flushes, 1);
    assert_eq!(metrics.disk.remarks, [""; 0]);
}

#[test]
fn without_a_known_address_the_busiest_disk_is_taken_and_it_is_said() {
    let log = "7@1000.000100:virtio_blk_handle_read vdev 0x1 req 0x1 sector 0 nsectors 8\n\
               7@1000.000110:virtio_blk_handle_read vdev 0x2 req 0x2 sector 64 nsectors 80\n\
               7@1000.000120:virtio_blk_req_complete vdev 0x1 req 0x1 status 0\n";
    let (metrics, disk, _) = summarized(log, HypervisorSource::default());
    assert_eq!(disk, []);
    assert_eq!(metrics.disk.read.queued_bytes, 80 * 512);
    let said = "the hypervisor served 2 disks; the busiest one was taken as the recorded one";
    assert!(metrics.disk.remarks.iter().any(|remark| remark == said), "{:?}", metrics.disk.remarks);
}

#[test]
fn a_scsi_command_is_two_lines_and_its_end() {
    let log = "7@1000.000100:scsi_req_parsed target 0 lun 0 tag -559038737 command 42 dir 2 length 8192\n\
               7@1000.000101:scsi_req_parsed_lba target 0 lun 0 tag -559038737 command 42 lba 100\n\
               7@1000.000200:scsi_req_parsed target 0 lun 0 tag 5 command 53 dir 0 length 0\n\
               7@1000.000201:scsi_req_parsed_lba target 0 lun 0 tag 5 command 53 lba 0\n\
               7@1000.000250:scsi_req_parsed target 0 lun 0 tag 6 command 18 dir 1 length 96\n\
               7@1000.000300:scsi_req_dequeue target 0 lun 0 tag -559038737\n\
               7@1000.000310:scsi_req_dequeue target 0 lun 0 tag 6\n\
               7@1000.000900:scsi_req_dequeue target 0 lun 0 tag 5\n";
    let source = HypervisorSource { interface: Interface::Scsi, ..HypervisorSource::default() };
    let (_, disk, _) = summarized(log, source);
    assert_eq!(
        short(&disk),
        [(Operation::Write, 51_200, 8192, 101_000, 300_000), (Operation::Flush, 0, 0, 200_000, 900_000)]
    );
}

#[test]
fn an_ata_request_is_as_long_as_the_parts_that_follow_it() {
    let log = "7@1000.000100:ide_exec_cmd IDE exec cmd: bus 0x1; state 0x2; cmd 0xca\n\
               7@1000.000110:dma_blk_io dbs=0xd1 bs=0xb1 offset=4096 to_dev=1\n\
               7@1000.000111:blk_co_pwritev blk 0x5 bs 0x6 offset 4096 bytes 4096 flags 0x0\n\
               7@1000.000150:blk_co_preadv blk 0x9 bs 0x8 offset 0 bytes 4096 flags 0x0\n\
               7@1000.000400:dma_complete dbs=0xd1 ret=0 cb=0x3\n\
               7@1000.000500:ide_exec_cmd IDE exec cmd: bus 0x1; state 0x2; cmd 0xea\n";
    let source = HypervisorSource { interface: Interface::Ata, ..HypervisorSource::default() };
    let (_, disk, _) = summarized(log, source);
    assert_eq!(
        short(&disk),
        [(Operation::Write, 4096, 4096, 110_000, 400_000), (Operation::Flush, 0, 0, 500_000, 500_000)]
    );
}

#[test]
fn an_nvme_command_is_named_by_queue_and_number() {
    let log = "7@1000.000100:pci_nvme_io_cmd cid 3 nsid 0x1 sqid 2 opc 0x1 opname 'NVME_NVM_CMD_WRITE'\n\
               7@1000.000101:pci_nvme_write cid 3 opname 'write' nsid 1 nlb 8 count 4096 lba 0x64\n\
               7@1000.000200:pci_nvme_io_cmd cid 4 nsid 0x1 sqid 1 opc 0x0 opname 'NVME_NVM_CMD_FLUSH'\n\
               7@1000.000300:pci_nvme_enqueue_req_completion cid 4 cqid 1 dw0 0x0 dw1 0x0 status 0x0\n\
               7@1000.000400:pci_nvme_enqueue_req_completion cid 3 cqid 2 dw0 0x0 dw1 0x0 status 0x0\n";
    let source = HypervisorSource { interface: Interface::Nvme, ..HypervisorSource::default() };
    let (_, disk, _) = summarized(log, source);
    assert_eq!(
        short(&disk),
        [(Operation::Flush, 0, 0, 200_000, 300_000), (Operation::Write, 51_200, 4096, 101_000, 400_000)]
    );
}

#[test]
fn requests_on_the_image_file_end_with_the_request_they_serve() {
    // The node 0xf0 is the format (the guest's own offsets), 0xf1 the file; a table is read first.
    let log = "7@1000.000100:virtio_blk_handle_write vdev 0x55aa req 0x1 sector 16 nsectors 16\n\
               7@1000.000110:bdrv_co_pwritev_part bs 0xf0 offset 8192 bytes 8192 flags 0x10\n\
               7@1000.000111:qcow2_cache_get_read co 0x8 is_l2_cache 1 index 0\n\
               7@1000.000112:bdrv_co_preadv_part bs 0xf1 offset 262144 bytes 65536 flags 0x0\n\
               7@1000.000200:qcow2_cluster_alloc_phys co 0x8\n\
               7@1000.000210:bdrv_co_pwritev_part bs 0xf1 offset 335872 bytes 8192 flags 0x0\n\
               7@1000.000300:virtio_blk_req_complete vdev 0x55aa req 0x1 status 0\n\
               7@1000.000310:qcow2_cache_entry_flush co 0x8 is_l2_cache 1 index 0\n\
               7@1000.000311:bdrv_co_pwritev_part bs 0xf1 offset 262144 bytes 65536 flags 0x0\n";
    let source = HypervisorSource {
        device_address: Some(DISK),
        format: Some("qcow2".into()),
        ..HypervisorSource::default()
    };
    let (metrics, disk, file) = summarized(log, source);
    assert_eq!(short(&disk), [(Operation::Write, 8192, 8192, 100_000, 300_000)]);
    assert_eq!(
        short(&file),
        [
            (Operation::Read, 262_144, 65_536, 112_000, 300_000),
            (Operation::Write, 335_872, 8192, 210_000, 300_000),
            (Operation::Write, 262_144, 65_536, 311_000, 311_000),
        ]
    );
    let counted = FormatCounts { table_reads: 1, table_writes: 1, allocations: 1, tables_made: 0 };
    assert_eq!(metrics.format, counted);
}

#[test]
fn threads_and_rings_tell_when_requests_on_the_image_file_end() {
    // Two of the guest's at once: the second one's table is read while the first one's data are.
    let log = "7@1000.000100:virtio_blk_handle_read vdev 0x55aa req 0x1 sector 16 nsectors 16\n\
               7@1000.000101:bdrv_co_preadv_part bs 0xf0 offset 8192 bytes 8192 flags 0x0\n\
               7@1000.000102:bdrv_co_preadv_part bs 0xf1 offset 335872 bytes 8192 flags 0x0\n\
               7@1000.000103:thread_pool_submit pool 0x3 req 0xa1 opaque 0x4\n\
               7@1000.000110:virtio_blk_handle_read vdev 0x55aa req 0x2 sector 1600 nsectors 16\n\
               7@1000.000111:bdrv_co_preadv_part bs 0xf0 offset 819200 bytes 8192 flags 0x0\n\
               7@1000.000112:bdrv_co_preadv_part bs 0xf1 offset 262144 bytes 4096 flags 0x0\n\
               7@1000.000113:luring_co_submit bs 0xf1 s 0x5 luringcb 0xb2 fd 9 offset 262144 nbytes 4096 type 1\n\
               7@1000.000200:thread_pool_complete pool 0x3 req 0xa1 opaque 0x4 ret 0\n\
               7@1000.000210:luring_process_completion s 0x5 luringcb 0xb2 ret 4096\n\
               7@1000.000211:bdrv_co_preadv_part bs 0xf1 offset 401408 bytes 8192 flags 0x0\n\
               7@1000.000230:virtio_blk_req_complete vdev 0x55aa req 0x1 status 0\n\
               7@1000.000300:virtio_blk_req_complete vdev 0x55aa req 0x2 status 0\n";
    let source = HypervisorSource {
        device_address: Some(DISK),
        format: Some("qcow2".into()),
        ..HypervisorSource::default()
    };
    let (_, _, file) = summarized(log, source);
    assert_eq!(
        short(&file),
        [
            (Operation::Read, 335_872, 8192, 102_000, 200_000),
            (Operation::Read, 262_144, 4096, 112_000, 210_000),
            // This one has no other event.
            (Operation::Read, 401_408, 8192, 211_000, 300_000),
        ]
    );
}

#[test]
fn what_no_node_was_asked_for_is_a_flush_of_the_image_file() {
    // A write of the guest that is written through: data, then a flush. Meanwhile the disk with the programs (0xc0) is
    // read, by a thread as well; and a ring says itself what it is asked for, and by which node.
    let log = "7@1000.000100:virtio_blk_handle_write vdev 0x55aa req 0x1 sector 16 nsectors 16\n\
               7@1000.000101:bdrv_co_pwritev_part bs 0xf0 offset 8192 bytes 8192 flags 0x10\n\
               7@1000.000102:bdrv_co_pwritev_part bs 0xf1 offset 335872 bytes 8192 flags 0x0\n\
               7@1000.000103:thread_pool_submit pool 0x3 req 0xa1 opaque 0x4\n\
               7@1000.000150:bdrv_co_preadv_part bs 0xc0 offset 4096 bytes 4096 flags 0x0\n\
               7@1000.000151:thread_pool_submit pool 0x3 req 0xa2 opaque 0x4\n\
               7@1000.000200:thread_pool_complete pool 0x3 req 0xa1 opaque 0x4 ret 0\n\
               7@1000.000201:thread_pool_submit pool 0x3 req 0xa3 opaque 0x4\n\
               7@1000.000300:thread_pool_complete pool 0x3 req 0xa2 opaque 0x4 ret 0\n\
               7@1000.000310:luring_co_submit bs 0xf1 s 0x5 luringcb 0xb2 fd 9 offset 0 nbytes 0 type 8\n\
               7@1000.000311:luring_co_submit bs 0xc0 s 0x5 luringcb 0xb3 fd 8 offset 0 nbytes 0 type 8\n\
               7@1000.000390:luring_process_completion s 0x5 luringcb 0xb3 ret 0\n\
               7@1000.000400:luring_process_completion s 0x5 luringcb 0xb2 ret 0\n\
               7@1000.000900:thread_pool_complete pool 0x3 req 0xa3 opaque 0x4 ret 0\n\
               7@1000.000910:virtio_blk_req_complete vdev 0x55aa req 0x1 status 0\n";
    let source = HypervisorSource {
        device_address: Some(DISK),
        format: Some("qcow2".into()),
        ..HypervisorSource::default()
    };
    let (metrics, _, file) = summarized(log, source);
    assert_eq!(
        short(&file),
        [
            (Operation::Write, 335_872, 8192, 102_000, 200_000),
            (Operation::Flush, 0, 0, 310_000, 400_000),
            (Operation::Flush, 0, 0, 201_000, 900_000),
        ]
    );
    assert_eq!(metrics.file.unwrap().flushes, 2);
}

#[test]
fn a_clock_that_was_set_meanwhile_is_told() {
    let clock = Clock { difference_ns: 950, difference_at_end_ns: 950 };
    assert_eq!((clock.monotonic_ns(501_000), clock.monotonic_ns(10)), (500_050, 0));
    assert_eq!(clock.remark(), None);
    let set = Clock { difference_at_end_ns: 950 - 2_000_000_000, ..clock };
    assert!(set.remark().unwrap().contains("set by -2000 ms"));
}

#[test]
fn garbage_is_skipped_and_the_recording_of_a_device_refused() {
    let log = "nonsense\n7@1000.000100:virtio_blk_handle_read vdev 0x55aa req 0x1\n\u{0}\u{1}\n";
    let source = HypervisorSource { device_address: Some(DISK), ..HypervisorSource::default() };
    let (metrics, disk, _) = summarized(log, source);
    assert!(disk.is_empty() && !metrics.disk.remarks.is_empty());
    let directory = recording("", HypervisorSource::default());
    let mut summary = RecordSummary::read(directory.path()).unwrap();
    summary.hypervisor = None;
    std::fs::write(directory.path().join("record.json"), serde_json::to_vec(&summary).unwrap()).unwrap();
    let error = summarize_hypervisor(directory.path(), &HypervisorOutput::default()).unwrap_err();
    assert!(error.to_string().contains("recording of a block device"), "{error}");
}
