//! Evidence in which one mechanism is at work, made up.

// Each test file uses its own part of this.
#![allow(dead_code)]

use nestor_correlate::{Blame, Cause, Spent, Transition};
use nestor_explain::{
    CallEvidence, Edge, Evidence, ImageEvidence, LinkFigures, MechanismName, NetworkEvidence, Placed, Volume,
};
use nestor_results::Executor;
use nestor_trace::rpc::CallKind;

pub const SECOND: u64 = 1_000_000_000;

pub fn cause(text: &str) -> Cause {
    Cause::try_from(text.to_owned()).unwrap()
}

/// Time of the lowest level for one cause.
pub fn spend(e: &mut Evidence, of: &str, requests: u64, busy_s: f64) {
    let busy_ns = (busy_s * SECOND as f64) as u64;
    let bytes = requests * 8192;
    let spent = Spent { requests, bytes, busy_ns, jumps: requests, ..Spent::default() };
    e.blame.causes.insert(cause(of), spent);
    e.blame.busy_ns = e.blame.causes.values().map(|s| s.busy_ns).sum();
    e.blame.span_ns = e.elapsed_ns as u64;
}

fn volume(count: f64) -> Volume {
    Volume { count, bytes: count * 8192.0 }
}

/// A level whose requests begin where blocks do.
fn level((kind, layer): (&str, &str)) -> Placed {
    Placed { kind: kind.into(), layer: layer.to_owned(), requests: 1000.0, misaligned: 0.0 }
}

/// Reads before the writes of an application that only writes.
fn read_for_writes(e: &mut Evidence) {
    let spent = Spent {
        requests: 2000,
        reads: 1000,
        bytes: 2000 * 4096,
        busy_ns: 19 * SECOND,
        read_busy_ns: 9 * SECOND,
        ..Spent::default()
    };
    e.blame.causes.insert(cause("file-data>image-data"), spent);
    e.blame.busy_ns = 19 * SECOND;
}

/// 1000 random writes of 8 KiB in 10 s, four at once, on a disk that is busy for 9.5 s.
pub fn plain() -> Evidence {
    let edge = |layer: &str, role: &str, machine: &str| Edge {
        layer: layer.to_owned(),
        role: role.into(),
        machine: machine.into(),
        writes: volume(1000.0),
        queued: 1000.0,
        served_ns: 38e9,
        waited_ns: 1e8,
        span_ns: 10e9,
        ..Edge::default()
    };
    let mut e = Evidence {
        stack: "ext4/kvm/raw/xfs/hdd".into(),
        workload: "fio:rand-write".into(),
        runs: vec![1, 2, 3],
        rates: vec![(0, 99.0), (1, 100.0), (2, 101.0)],
        elapsed_ns: 10e9,
        writes: volume(1000.0),
        latency_ns: 40e9,
        edges: vec![
            edge("ext4", "guest fs", "guest"),
            edge("raw", "raw image", "host"),
            edge("xfs", "host fs", "host"),
            edge("hdd", "disk", "host"),
        ],
        levels: [("guest block", "ext4"), ("host block", "xfs"), ("medium", "hdd")].map(level).to_vec(),
        blame: Blame::default(),
        image: Some(ImageEvidence { extents: 3.0, ..ImageEvidence::default() }),
        cpu_busy: vec![("host".into(), 0.3), ("guest".into(), 0.2)],
        ..Evidence::default()
    };
    spend(&mut e, "file-data>image-data", 1000, 9.5);
    e
}

/// The same in twice the time.
pub fn slow() -> Evidence {
    let mut e = plain();
    e.elapsed_ns = 20e9;
    e.rates = vec![(0, 49.0), (1, 50.0), (2, 51.0)];
    e.latency_ns = 80e9;
    e.edges.iter_mut().for_each(|edge| {
        edge.span_ns = 20e9;
        edge.served_ns = 76e9;
    });
    e
}

fn reading(e: &mut Evidence) {
    e.reads = std::mem::take(&mut e.writes);
    e.edges.iter_mut().for_each(|edge| edge.reads = std::mem::take(&mut edge.writes));
}

fn transition(from: &str, to: &str, jumps: u64, distance: u64, busy_s: f64) -> Transition {
    let busy_ns = (busy_s * SECOND as f64) as u64;
    Transition { from: cause(from), to: cause(to), jumps, jump_bytes: jumps * distance, busy_ns }
}

/// Calls, and seconds from each to its reply, summed up.
pub fn calls(calls: f64, response_s: f64) -> CallEvidence {
    CallEvidence { calls, response_ns: response_s * 1e9 }
}

/// The same over a network of 1 Gbit/s and 100 us: a WRITE for each write and some calls for names, in the background.
pub fn over_network(mut e: Evidence) -> Evidence {
    e.stack = "ext4/kvm/raw/nfs:vers=3/link/xfs/hdd".into();
    e.networks = vec![NetworkEvidence {
        layer: "nfs:vers=3".to_owned(),
        link: "link".to_owned(),
        figures: Some(LinkFigures { rate_bits_per_s: 1e9, delay_ns: 1e5 }),
        calls: [(CallKind::Write, calls(1000.0, 1.0)), (CallKind::Metadata, calls(20.0, 0.01))].into(),
        to_server_bytes: 8.5e6,
        to_client_bytes: 2e5,
        written_bytes: 8.192e6,
        elapsed_ns: e.elapsed_ns,
        ..NetworkEvidence::default()
    }];
    e
}

pub fn call(e: &mut Evidence, kind: CallKind, of_kind: CallEvidence) {
    e.networks[0].calls.insert(kind, of_kind);
}

/// Evidence in which a mechanism is at work, and that of its baseline.
pub fn planted(mechanism: MechanismName) -> (Evidence, Evidence) {
    let (mut here, mut before) = (slow(), plain());
    match mechanism {
        MechanismName::HostReadAhead => {
            (here, before) = (plain(), slow());
            reading(&mut here);
            reading(&mut before);
            spend(&mut before, "file-data>image-data", 1000, 19.5);
            for edge in &mut here.edges[1..] {
                edge.reads.count = 60.0;
            }
            here.stack = "ext4/kvm:cache=writeback/raw/xfs/hdd".into();
        }
        MechanismName::HostCache => {
            (here, before) = (plain(), slow());
            reading(&mut here);
            reading(&mut before);
            spend(&mut before, "file-data>image-data", 1000, 19.5);
            for edge in &mut here.edges[1..] {
                edge.reads = volume(300.0);
            }
        }
        MechanismName::Merging => {
            spend(&mut here, "file-data>image-data", 1000, 19.5);
            for edge in &mut before.edges {
                edge.merged = 800.0;
                edge.writes.count = 200.0;
            }
            before.blame.causes.get_mut(&cause("file-data>image-data")).unwrap().requests = 200;
        }
        MechanismName::GuestAmplification => {
            spend(&mut here, "file-data>image-data", 1000, 10.0);
            spend(&mut here, "journal>image-data", 500, 6.0);
            spend(&mut here, "inode>image-data", 300, 3.0);
        }
        MechanismName::HostAmplification => {
            spend(&mut here, "->journal", 500, 6.0);
            spend(&mut here, "->allocation-map", 300, 4.0);
        }
        MechanismName::JournalOfJournal => {
            spend(&mut before, "journal>image-data", 200, 0.1);
            spend(&mut here, "journal>image-data", 200, 0.1);
            spend(&mut here, "->journal", 400, 9.0);
        }
        MechanismName::Misalignment => {
            read_for_writes(&mut here);
            here.levels[0].misaligned = 990.0;
        }
        MechanismName::ReadModifyWrite => read_for_writes(&mut here),
        MechanismName::Flushes => {
            spend(&mut here, "flush>flush", 1000, 6.0);
            spend(&mut here, "file-data>image-data", 1000, 13.0);
            here.edges[3].flushes = 1000.0;
        }
        MechanismName::SeeksToLog => {
            for (e, way, busy) in [(&mut here, 100 << 30, 18.0), (&mut before, 1 << 30, 8.0)] {
                spend(e, "journal>image-data", 1000, busy / 2.0);
                spend(e, "file-data>image-data", 1000, busy / 2.0 + 1.0);
                e.blame.transitions = vec![
                    transition("file-data>image-data", "journal>image-data", 1000, way, busy / 2.0),
                    transition("journal>image-data", "file-data>image-data", 1000, way, busy / 2.0),
                ];
            }
        }
        MechanismName::ImageMetadata => {
            for e in [&mut here, &mut before] {
                e.stack = "ext4/kvm/qcow2/xfs/hdd".into();
            }
            here.image = Some(ImageEvidence { table_reads: 900.0, ..ImageEvidence::default() });
            spend(&mut here, "->image-data", 900, 9.0);
        }
        MechanismName::SingleQueue => {
            spend(&mut here, "file-data>image-data", 1000, 19.8);
            here.edges.iter_mut().for_each(|edge| edge.served_ns = 19.8e9);
            here.edges[0].waited_ns = 60e9;
        }
        MechanismName::CpuBound => {
            here.cpu_busy = vec![("host".into(), 0.98), ("guest".into(), 0.4)];
        }
        MechanismName::PathLength => {
            // All of the additional 10 ms of an operation are executed, with processors that idle else.
            for (e, host_kernel) in [(&mut before, 200_000.0), (&mut here, 9_900_000.0)] {
                let operations = e.operations();
                e.counted_operations = operations;
                let each = [(Executor::Hypervisor, 100_000.0), (Executor::HostKernel, host_kernel)];
                e.instructions = each.map(|(executor, count)| (executor, count * operations)).into();
            }
        }
        MechanismName::Fragmentation => {
            spend(&mut here, "file-data>image-data", 1000, 19.5);
            here.blame.causes.get_mut(&cause("file-data>image-data")).unwrap().scattered = 400;
            here.image = Some(ImageEvidence { extents: 9000.0, ..ImageEvidence::default() });
        }
        MechanismName::SynchronousWrite => {
            (here, before) = (over_network(here), over_network(before));
            here.networks[0].fsyncs = 1000.0;
            call(&mut here, CallKind::Write, calls(1000.0, 18.5));
            // What the server does for it: the journal's commit, and a flush before it and after.
            spend(&mut here, "->journal", 1000, 3.0);
            spend(&mut here, "flush>flush", 2000, 6.0);
            here.edges[3].flushes = 2000.0;
        }
        MechanismName::MetadataRpc => {
            (here, before) = (over_network(here), over_network(before));
            call(&mut here, CallKind::Metadata, calls(3000.0, 9.5));
        }
        MechanismName::LinkBound => {
            (here, before) = (over_network(here), over_network(before));
            here.networks[0].figures = Some(LinkFigures { rate_bits_per_s: 6e6, delay_ns: 1e5 });
            call(&mut here, CallKind::Write, calls(1000.0, 19.0));
        }
        MechanismName::ReadaheadOverNfs => {
            (here, before) = (over_network(here), over_network(before));
            for (e, times, response_s) in [(&mut here, 16.0, 11.0), (&mut before, 1.0, 1.0)] {
                reading(e);
                e.networks[0].read_bytes = e.reads.bytes * times;
                e.networks[0].calls = [(CallKind::Read, calls(1000.0, response_s))].into();
            }
        }
        MechanismName::Noise => {
            here = plain();
            here.rates = vec![(0, 97.0), (1, 103.0), (2, 101.0)];
        }
    }
    (here, before)
}
