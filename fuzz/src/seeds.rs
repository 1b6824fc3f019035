//! What fuzzing begins with: the examples that the tests know the answers to.

use std::fs;
use std::io;
use std::path::Path;

use nestor_disk::log::{Header, Operation, Record};
use nestor_trace::decode::Format;
use nestor_trace::{RequestHeader, RequestWriter};

use crate::targets;

#[path = "../../crates/trace/tests/traces/mod.rs"]
mod traces;

const STACKS: [&str; 8] = [
    "ext4/hdd",
    "ext3/kvm/raw/jfs/hdd",
    "ext4/kvm:disk=lsi:cache=writethrough/vmdk/ext4/hdd:wd-re3",
    "nfs/ext4/raid5",
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
    }
    put("disk-log", "example", &disk_log())?;
    request_file(&directory.join("request-file/example"))
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
    }
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
