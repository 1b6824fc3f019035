//! What fuzzing begins with: the examples that the tests know the answers to.

use std::fs;
use std::io;
use std::path::Path;

use nestor_disk::log::{Header, Operation, Record};
use nestor_link::End;
use nestor_link::log::{Ended, FrameHeader, FrameRecord, LogClock, LogSummary};
use nestor_trace::decode::Format;
use nestor_trace::{RequestHeader, RequestWriter};

use nestor_machine::message::{Answer, Command, Envelope, Facts, PROTOCOL, Request};
use nestor_statistics::LatencyHistogram;
use nestor_workload::flow_report::FlowReport;

use crate::targets;

#[path = "../../crates/trace/tests/traces/mod.rs"]
mod traces;

const STACKS: [&str; 9] = [
    "ext4/hdd",
    "ext3/kvm/raw/jfs/hdd",
    "ext4/kvm:disk=lsi:cache=writethrough/vmdk/ext4/hdd:wd-re3",
    "nfs:vers=3:rsize=64k/link:rate=2.5gbit:delay=100us:loss=0.1%/ext4/raid5",
    "ext2/part:start=63s/kvm/nbd/link/qcow2/xfs/hdd",
    "ext4/kvm/qcow2/xfs/kvm/raw/xfs/hdd",
    "xfs/dev:/dev/sdb",
    "{ext2,ext3}/kvm/{raw/{ext2,jfs}/,}hdd",
    "ext4/kvm:cache={none,writeback}/raw/xfs/file:/srv/disk.img",
];

const WORKLOADS: [&str; 4] =
    ["fio:seq-write", "fio:rand-read:block=4k:depth=255", "postmark:mail:files=500", "fio:{seq,rand}-write"];

const SCRIPTS: [&str; 2] = [
    "set $dir=/tmp\nset $n=4k * 2\nset $size=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5,min=1,max=1m,round=512)\n\
     set mode quit firstdone\neventgen rate = 50\n\
     define fileset name=files,path=$dir/sub,entries=$n,size=$size,dirwidth=20,prealloc=80,paralloc\n\
     define flowop name=both, $set, $count=2 {\n flowop openfile name=o,filesetname=$set,fd=1\n\
     flowop read name=r,fd=1,iosize=8k,random,iters=$count\n flowop closefile name=c,fd=1\n}\n\
     define process name=p,instances=2 {\n thread name=t,memsize=10m,instances=$n {\n\
     flowop both name=b,iters=3,$set=files\n flowop semblock name=s,value=5,highwater=9\n\
     flowop finishoncount name=f,value=9,target=b\n }\n}\necho \"about $dir\"\nrun 60\n",
    "define randvar name=$x, type=tabular, min=1k, round=1k, randtable = {{80, 1k, 4k}, {20, 4k, 16k}}\nset $x.mean=9k\n\
     define file name=one,path=/tmp,size=$x,reuse,cached=$cached # remark\n\
     foreach $v in 1,2 { define process name=p { thread name=t { flowop hog name=h,value=$v } } create processes\n\
     sleep $v stats snap shutdown processes }\npsrun -10 600\n",
];

const PROFILE: &str = "name = 'mail'\n[requests]\nread-share = 0.64\nrandom-share = 1.0\nmean-bytes = 10990.0\nflush-share = 0.1\n\
     working-set-bytes = 536870912\nspan-bytes = 1073741824\n[[requests.sizes]]\nbytes = 8192\nshare = 0.5\n[[requests.sizes]]\n\
     bytes = 16384\nshare = 0.5\n[concurrency]\nworkers = 50\nthink-ms = 50.0\noutstanding = 9.5\n[rates]\nseconds = 60.0\n\
     requests-per-s = 792.0\nbytes-per-s = 8.5e6\nresponse-ms = 12.0\n[processor]\nuser = 0.7\nsystem = 0.3\n";

/// Output of programs, and what else machines tell.
const ANSWERS: [(&str, &str, &[u8]); 19] = [
    ("manager-ec2", "running", include_bytes!("../../crates/manager/tests/data/ec2-running.xml")),
    ("manager-opennebula", "running", include_bytes!("../../crates/manager/tests/data/opennebula-running.xml")),
    ("vm-qemu", "nodes", include_bytes!("../../crates/vm-config/tests/data/qemu-arguments.txt")),
    ("vm-qemu", "drives", b"-M\nq35,accel=kvm\n-m\n2G\n-smp\nsockets=2,cores=2\n-drive\nfile=/a,if=none,id=d,cache=none,aio=native,bps=1\n-device\nlsi,id=s\n-device\nscsi-hd,bus=s.0,drive=d\n-hdb\nnbd:unix:/b\n"),
    ("vm-proxmox", "100", concat!(include_str!("../../crates/vm-config/tests/data/storage.cfg"), "---\n", include_str!("../../crates/vm-config/tests/data/100.conf")).as_bytes()),
    ("vm-libvirt", "domain", include_bytes!("../../crates/vm-config/tests/data/domain.xml")),
    ("vm-image", "qcow2", include_bytes!("../../crates/vm-config/tests/data/image.json")),
    ("fio", "mixed", include_bytes!("../../crates/workload/tests/data/fio-mixed-two-jobs.json")),
    ("fio-paced", "paced", include_bytes!("../../crates/workload/tests/data/fio-rand-read-paced.json")),
    ("postmark", "xs", include_bytes!("../../crates/workload/tests/data/postmark-xs.txt")),
    ("bonnie", "all", include_bytes!("../../crates/workload/tests/data/bonnie-all.csv")),
    ("dbench", "two", include_bytes!("../../crates/workload/tests/data/dbench-two-clients.txt")),
    ("calls", "client", b"  nfsd-411     [000] .....    12.345678: rpc_stats_latency: task:0000002a@00000003 xid=0x5c1f0e17 nfsv3 WRITE backlog=9 rtt=812 execute=830\n"),
    ("calls", "server", b"  nfsd-411     [000] .....    12.345678: nfsd_write_start: xid=0x5c1f0e17 fh_hash=0x8be4f91c offset=1048576 len=262144\n  nfsd-411     [000] .....    12.345678: svc_stats_latency: xid=0x5c1f0e17 server=10.78.1.1:2049 client=10.78.1.2:790 proc=WRITE execute-us=344\n"),
    ("extents", "filefrag", b"File size of m/i is 20971520 (5120 blocks of 4096 bytes)\n   0:        0..    1023:         24..      1047:   1024:            \n   1:     2560..    2815:       1304..      1559:    256:       2584: last\n"),
    ("extents", "xfs-bmap", b"m/i:\n   0: [0..8191]:       192..8383         0 (192..8383)       8192 000000\n   1: [8192..20479]:   hole                                 12288\n"),
    ("extents", "qemu-img", br#"[{"start":0,"length":65536,"depth":0,"zero":false,"data":true,"offset":327680},{"start":65536,"length":65536,"depth":0,"zero":true,"data":false},[196608,65536,4096]]"#),
    ("manifest", "two", b"{\"stack\":\"ext4/hdd\",\"workload\":\"fio:seq-write\",\"block\":0,\"seed\":1,\"levels\":[{\"file\":\"a.requests\",\"map\":\"identity\",\"cached_reads\":\"never\",\"cached_writes\":\"possible\"},{\"layer\":\"hdd\",\"file\":\"a.requests\",\"map\":\"extents\",\"extents\":\"extents-0.csv\",\"cached_reads\":\"unknown\",\"cached_writes\":\"promised\"}]}\0upper,lower,bytes\n0,4096,8192\n"),
    ("manifest", "clusters", b"{\"levels\":[{\"file\":\"a.requests\",\"map\":\"clusters\",\"cluster_bytes\":65536,\"cached_reads\":\"never\",\"cached_writes\":\"never\"},{\"file\":\"a.requests\",\"map\":\"clusters\",\"cluster_bytes\":4096,\"cached_reads\":\"never\",\"cached_writes\":\"never\"}]}"),
];

/// Writes a directory for each target and prints their names.
pub fn write(directory: &Path) -> io::Result<()> {
    for target in targets::names() {
        fs::create_dir_all(directory.join(target))?;
        println!("{target}");
    }
    let put = |target: &str, name: &str, bytes: &[u8]| fs::write(directory.join(target).join(name), bytes);
    for (number, (format, bytes)) in traces::examples().into_iter().enumerate() {
        // The beginning shows the form; short inputs are tried more often.
        let short = &bytes[..bytes.len().min(4000)];
        put(target_of(format), &format!("example-{number}"), short)?;
        put("open", &format!("example-{number}"), short)?;
        put("analysis", &format!("example-{number}"), short)?;
    }
    for (number, stack) in STACKS.iter().enumerate() {
        put("stack", &format!("example-{number}"), stack.as_bytes())?;
    }
    for (number, workload) in WORKLOADS.iter().enumerate() {
        put("workload", &format!("example-{number}"), workload.as_bytes())?;
    }
    put("profile", "mail", PROFILE.as_bytes())?;
    for (number, script) in SCRIPTS.iter().enumerate() {
        put("wml", &format!("example-{number}"), script.as_bytes())?;
    }
    if directory.join("study").is_dir() {
        put("study", "quick", include_bytes!("../../studies/quick.toml"))?;
        #[cfg(feature = "study")]
        put("record", "measured", &record())?;
    }
    put("disk-log", "example", &disk_log())?;
    put("link-log", "example", &link_log())?;
    for (target, name, bytes) in ANSWERS {
        put(target, name, bytes)?;
    }
    put("latency", "one", &latency())?;
    put("agent-frame", "hello", &frame(&Answer::Hello { protocol: PROTOCOL }))?;
    put(
        "agent-frame",
        "facts",
        &frame(&Answer::Facts(Facts { file_systems: vec!["ext4".to_owned()], ..Facts::default() })),
    )?;
    put("agent-frame", "run", &frame(&Request::Run(Command::new(["true", "a"]))))?;
    put("virtio", "read", &virtio())?;
    put("flow-report", "one", &[b"\0", &flow_report()[..]].concat())?;
    request_file(&directory.join("request-file/example"))?;
    request_file(&directory.join("analysis-requests/example"))
}

fn target_of(format: Format) -> &'static str {
    match format {
        Format::Blktrace => "blktrace",
        Format::Tracefs => "tracefs",
        Format::Blkparse => "blkparse",
        Format::Simpletrace => "simpletrace",
        Format::QemuLog => "qemu-log",
        Format::FioIolog => "fio-iolog",
        Format::FioLatencyLog => "fio-latency-log",
        Format::Msr => "msr",
        Format::VscsiCommands => "vscsi-commands",
        Format::VscsiHistograms => "vscsi-histograms",
        Format::RequestFile => "request-file",
        Format::DiskLog => "disk-log",
        Format::LinkLog => "link-log",
    }
}

fn link_log() -> Vec<u8> {
    let header = FrameHeader {
        clock: LogClock::Common([10, 20]),
        rate_bits_per_s: 1_000_000_000,
        delay_ns: 100_000,
        summary: LogSummary { records: 1, ..LogSummary::default() },
    };
    let record = FrameRecord {
        from: End::Upper,
        ended: Ended::Delivered,
        frames: 1,
        bytes: 1514,
        wire_bytes: 1538,
        tcp_bytes: 1448,
        tcp_again_bytes: 0,
        taken_ns: 1000,
        begins_ns: 2000,
        leaves_ns: 14_304,
        arrives_ns: 114_304,
        delivered_ns: 114_400,
    };
    [&header.encode()[..], &record.encode()].concat()
}

fn disk_log() -> Vec<u8> {
    let header = Header {
        disk: "example".to_owned(),
        opened_ns: 1,
        sectors: 1 << 20,
        first_sector: 0,
        records: 1,
        dropped: 0,
    };
    let record = Record {
        sequence: 0,
        operation: Operation::Write,
        sector: 8,
        sectors: 16,
        queue: 0,
        queue_depth: 1,
        arrival_ns: 1000,
        service_start_ns: 2000,
        complete_ns: 9000,
        model_complete_ns: 8000,
        seek_ns: 1000,
        rotation_ns: 2000,
        transfer_ns: 2000,
        overhead_ns: 1000,
        cache_hit: false,
        timed: true,
        failed: false,
    };
    [&header.encode()[..], &record.encode()].concat()
}

fn request_file(path: &Path) -> io::Result<()> {
    let header =
        RequestHeader { layer: "ext4".to_owned(), kind: "host block".to_owned(), ..RequestHeader::default() };
    let mut writer = RequestWriter::create(path, header).map_err(io::Error::other)?;
    for found in traces::read(traces::MSR).requests {
        writer.push(&found.request).map_err(io::Error::other)?;
    }
    writer.finish().map_err(io::Error::other)?;
    Ok(())
}

/// The bytes of a histogram, as its target takes them.
fn latency() -> Vec<u8> {
    let mut histogram = LatencyHistogram::default();
    [1, 5_000, 7_000_000].into_iter().zip(1..).for_each(|(ns, count)| histogram.record_many_ns(ns, count));
    let text = serde_json::to_value(&histogram).expect("a text");
    [b"\0", text.as_str().unwrap_or_default().as_bytes()].concat()
}

fn frame<T: serde::Serialize>(body: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(&Envelope { number: 1, body }).expect("it is sent so")
}

/// A read of a sector: header, data, status.
fn virtio() -> Vec<u8> {
    let chain = [[0, 0, 16, 0, 0], [0, 8, 0, 2, 1], [0, 16, 1, 0, 1]].concat();
    [vec![0; 512], chain].concat()
}

fn flow_report() -> Vec<u8> {
    let mut latency = LatencyHistogram::default();
    latency.record_ns(1000);
    let report = serde_json::json!({
        "runs": [{
            "ended": "time", "elapsed_ns": 2_000_000_000_u64, "threads": 2, "cpu_user_s": 0.5, "cpu_system_s": 0.5,
            "flowops": [{"name": "a", "kind": "read", "is_io": true, "operations": 1, "bytes": 4096, "latency": latency,
                "mean_ns": 1000.0, "bytes_by_second": [4096, 0]}],
            "passes": [], "pace": {"of": "passes", "asked_per_second": 5.0, "offered": 10, "begun": 9}, "remarks": []
        }],
        "file_sets": [{"name": "f", "path": "/top", "files": 1, "preallocated": 1, "directories": 1,
            "leaf_directories": 0, "bytes": 4096}],
        "prepare_s": 0.1
    });
    assert!(serde_json::from_value::<FlowReport>(report.clone()).is_ok(), "it is one that is read");
    report.to_string().into_bytes()
}

/// A record of two layers.
#[cfg(feature = "study")]
fn record() -> Vec<u8> {
    use nestor_results::{CellRecord, Environment, LayerRecord, Mark, Measured, Outcome, TraceMode};
    use nestor_trace::{LayerMetrics, TracePoint};
    use nestor_workload::{LoadResult, OperationClass, OperationResult};

    let mut latency = LatencyHistogram::default();
    latency.record_many_ns(50_000, 1000);
    let layer = |name: &str, point| {
        let mut metrics = LayerMetrics::new(point);
        (metrics.write.issued, metrics.write.issued_bytes, metrics.write.completed) = (1000, 4_096_000, 1000);
        (metrics.d2c, metrics.q2c, metrics.i2d) =
            (Some(latency.clone()), Some(latency.clone()), Some(latency.clone()));
        metrics.span_s = 10.0;
        LayerRecord::new(name, "guest fs", "guest", Some(metrics))
    };
    let write = OperationResult {
        operations: 1000,
        bytes: 4_096_000,
        latency: latency.clone(),
        bytes_by_second: vec![409_600; 10],
        ..OperationResult::default()
    };
    let load = LoadResult {
        engine: "fio".to_owned(),
        workload: "fio:seq-write".to_owned(),
        elapsed_ns: 10_000_000_000,
        operations: [(OperationClass("write".to_owned()), write)].into(),
        working_set_bytes: 1 << 29,
        scale_factor: 1.0,
        cpu_user_s: 0.1,
        cpu_system_s: 0.1,
        engine_output: String::new(),
        figures: Default::default(),
        remarks: Vec::new(),
    };
    let record = CellRecord {
        stack: "ext3/kvm/raw/jfs/hdd".into(),
        workload: "fio:seq-write".into(),
        study: None,
        study_hash: None,
        block: 0,
        repeat: 0,
        position: 0,
        trace: TraceMode::Layers,
        untraced_twin: false,
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        cell_s: 12.5,
        load_s: Some(10.0),
        outcome: Outcome::Measured(Measured {
            load,
            layers: vec![layer("ext3", TracePoint::Blktrace), layer("hdd", TracePoint::DiskLog)],
            host_cpu_busy: 0.5,
            cpu_busy: vec![("host".into(), 0.5)],
            images: Vec::new(),
            correlation: None,
            trace_remarks: Vec::new(),
            path_length: None,
            networks: Vec::new(),
        }),
        marks: vec![Mark::EmulatedCpu, Mark::Suspended { seconds: 1.0 }],
        environment: Environment::default(),
    };
    serde_json::to_vec(&record).expect("it is stored so")
}
