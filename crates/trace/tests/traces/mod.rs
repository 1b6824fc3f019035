//! An example of each form of trace, and what is in it.
#![allow(dead_code, reason = "each test uses a part")]

use std::io::Cursor;
use std::path::{Path, PathBuf};

use nestor_trace::TraceError;
use nestor_trace::decode::{
    Format, Input, OpenOptions, QemuEvent, ReadWarnings, Source, Trace, TracedRequest, VscsiHistogram,
    open_input,
};
use nestor_trace::event::BlockEvent;

pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub const MSR: &str = "\
Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
128166372003061629,hm,1,Read,383496192,32768,113736
128166372016382155,hm,1,Write,310983680,4096,1500
128166372016392155,web,0,Write,310987776,4096,100
";

pub const VSCSI_COMMANDS: &str = "\
#Vscsi Cmd Trace. (Trace Format Version 1)
#Serial Number,IO Data Length,Num SG Entries,Command Type,LBN,Time Stamp (microseconds)
2147483692,4096,1,write,24048792,2756778716647
2147483769,8192,2,read,6322464,2756783857269
2147483770,0,0,other,0,2756783857270
";

pub const VSCSI_HISTOGRAMS: &str = "\
Histogram: IO lengths of commands for virtual machine worldGroupID : 118739, virtual disk handleID : 8211 (scsi0:0) {
 min : 4096
 max : 1048576
 mean : 9240
 count : 17
   {
      0               (<=                512)
     12               (<=               4096)
      4               (<=             524288)
      1               (>              524288)
   }
}
Histogram: distance (in LBNs) between successive commands for virtual machine worldGroupID : 118739, virtual disk handleID : 8211 (scsi0:0) {
 min : -70000
 max : 60000
 mean : -3
 count : 3
   {
      1               (<=             -50000)
      2               (>               50000)
   }
}
";

pub const VSCSI_CSV: &str = "\
Histogram: latency of IOs in Microseconds (us),virtual machine worldGroupID : 118739,virtual disk handleID : 8211
min,90
max,200000
mean,700
count,6
Frequency,Histogram Bucket Limit
4,100
1,100000
1,100000
";

pub const IOLOG_2: &str = "\
fio version 2 iolog
/srv/a add
/srv/b add
/srv/a open
/srv/a write 0 4096
/srv/a wait 150 0
/srv/b read 8192 16384
/srv/a sync 0 0
/srv/b trim 0 65536
/srv/a close
";

/// Writes QEMU's simple trace format as `trace/simple.c` does.
pub struct Simpletrace {
    pub big_endian: bool,
    pub bytes: Vec<u8>,
}

pub enum Value<'a> {
    Number(u64),
    Text(&'a str),
}

impl Simpletrace {
    pub fn new(big_endian: bool) -> Self {
        let mut file = Self { big_endian, bytes: Vec::new() };
        file.u64(u64::MAX);
        file.u64(0xf2b1_77cb_0aa4_29b4);
        file.u64(4);
        file
    }

    pub fn map(&mut self, number: u64, name: &str) {
        self.u64(0);
        self.u64(number);
        self.u32(name.len() as u32);
        self.bytes.extend(name.bytes());
    }

    pub fn event(&mut self, number: u64, time_ns: u64, pid: u32, arguments: &[Value<'_>]) {
        let of = |argument: &Value<'_>| match argument {
            Value::Number(_) => 8,
            Value::Text(text) => 4 + text.len(),
        };
        self.u64(1);
        self.u64(number);
        self.u64(time_ns);
        self.u32((24 + arguments.iter().map(of).sum::<usize>()) as u32);
        self.u32(pid);
        for argument in arguments {
            match argument {
                Value::Number(number) => self.u64(*number),
                Value::Text(text) => {
                    self.u32(text.len() as u32);
                    self.bytes.extend(text.bytes());
                }
            }
        }
    }

    pub fn dropped(&mut self, time_ns: u64, count: u64) {
        self.event(u64::MAX - 1, time_ns, 0, &[Value::Number(count)]);
    }

    fn u32(&mut self, n: u32) {
        self.bytes.extend(if self.big_endian { n.to_be_bytes() } else { n.to_le_bytes() });
    }

    fn u64(&mut self, n: u64) {
        self.bytes.extend(if self.big_endian { n.to_be_bytes() } else { n.to_le_bytes() });
    }
}

pub fn simpletrace(big_endian: bool) -> Vec<u8> {
    use Value::{Number, Text};
    let mut file = Simpletrace::new(big_endian);
    file.map(7, "virtio_blk_handle_write");
    file.event(7, 1000, 42, &[Number(0x10), Number(0x20), Number(8), Number(16)]);
    file.map(300, "scsi_disk_dma_command_WRITE");
    file.event(300, 3000, 42, &[Text("AndVerify "), Number(64), Number(8)]);
    file.map(8, "virtio_blk_rw_complete");
    // Out of order by a little, as threads make it.
    file.event(8, 2000, 42, &[Number(0x10), Number(0x20), Number(-5_i64 as u64)]);
    file.dropped(3500, 12);
    file.map(9, "of_a_newer_qemu");
    file.event(9, 4000, 42, &[Number(1), Number(2)]);
    file.event(77, 5000, 42, &[]);
    file.bytes
}

/// One of each form, with its name.
pub fn examples() -> Vec<(Format, Vec<u8>)> {
    vec![
        (Format::Blktrace, include_bytes!("../data/ext4-loop.blktrace.0").into()),
        (Format::Tracefs, include_bytes!("../data/ext4-loop.tracefs.txt").into()),
        (Format::Blkparse, include_bytes!("../data/ext4-loop.blkparse.txt").into()),
        (Format::Simpletrace, simpletrace(false)),
        (Format::Simpletrace, simpletrace(true)),
        (Format::QemuLog, include_bytes!("../data/qemu-system.log").into()),
        (Format::QemuLog, include_bytes!("../data/qemu-io.log").into()),
        (Format::FioIolog, include_bytes!("../data/fio-v3.iolog").into()),
        (Format::FioIolog, IOLOG_2.into()),
        (Format::FioLatencyLog, include_bytes!("../data/fio_lat.log").into()),
        (Format::Msr, MSR.into()),
        (Format::VscsiCommands, VSCSI_COMMANDS.into()),
        (Format::VscsiHistograms, VSCSI_HISTOGRAMS.into()),
        (Format::VscsiHistograms, VSCSI_CSV.into()),
    ]
}

pub fn open_bytes(bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Trace, TraceError> {
    open_input(Input::new(Cursor::new(bytes), "test"), &OpenOptions::default())
}

/// All that a trace yields.
#[derive(Debug, Default, PartialEq)]
pub struct Contents {
    pub events: Vec<BlockEvent>,
    pub requests: Vec<TracedRequest>,
    pub targets: Vec<String>,
    pub qemu: Vec<QemuEvent>,
    pub histograms: Vec<VscsiHistogram>,
    pub warnings: ReadWarnings,
    pub lost: u64,
}

pub fn contents(source: Source) -> Result<Contents, TraceError> {
    let mut all = Contents::default();
    match source {
        Source::BlockEvents(mut source) => {
            let mut some = Vec::new();
            while source.next_events(100, &mut some)? {
                all.events.extend(&some);
            }
            (all.warnings, all.lost) = (source.warnings(), source.lost_events());
        }
        Source::Requests(mut source) => {
            while let Some(request) = source.next_request()? {
                all.requests.push(request);
            }
            (all.targets, all.warnings) = (source.targets().to_vec(), source.warnings());
        }
        Source::Qemu(mut source) => {
            while let Some(event) = source.next_event()? {
                all.qemu.push(event);
            }
            (all.warnings, all.lost) = (source.warnings(), source.lost_events());
        }
        Source::Histograms(histograms) => all.histograms = histograms,
    }
    Ok(all)
}

pub fn read(bytes: impl AsRef<[u8]> + Send + 'static) -> Contents {
    contents(open_bytes(bytes).unwrap().source).unwrap()
}
