use std::io::Cursor;

use proptest::prelude::*;

use super::*;
use crate::event::Device;
use crate::file_extents::FileExtents;
use crate::request::{Operation, Request};

fn client(xid: u32, procedure: &str, [queue_ns, response_ns, whole_ns]: [u64; 3]) -> ClientCall {
    let procedure = procedure.to_owned();
    ClientCall { xid, client: 3, procedure, over_ns: 0, queue_ns, response_ns, whole_ns }
}

fn server(xid: u32, procedure: &str, service_ns: u64) -> ServerCall {
    ServerCall { xid, procedure: procedure.to_owned(), replied_ns: 0, service_ns }
}

fn write(xid: u32, bytes: u32) -> Access {
    Access { xid, kind: CallKind::Write, file: 9, offset: 0, bytes, began_ns: 0 }
}

fn own_write(minor: u32, inode: u64) -> OwnWrite {
    let file = FileNumber { device: Device { major: 254, minor }, inode };
    OwnWrite { file, offset: 0, bytes: 4096 }
}

#[test]
fn only_writes_to_the_image_are_those_of_the_loop_device() {
    let all = [own_write(0, 131), own_write(16, 131), own_write(0, 132), own_write(0, 131)];
    let kept = |image| {
        let mut traced = TracedCalls { own_writes: all.to_vec(), ..TracedCalls::default() };
        traced.keep_own_writes_of(image);
        traced.own_writes
    };
    assert_eq!(
        kept(Some(all[0].file)),
        [all[0], all[3]],
        "not another file there, nor that number elsewhere"
    );
    assert_eq!(kept(None), []);
}

#[test]
fn a_call_s_time_is_its_queue_the_wire_the_server_and_what_comes_after() {
    let here = TracedCalls { client: vec![client(1, "WRITE", [10, 700, 730])], ..TracedCalls::default() };
    let there = TracedCalls {
        server: vec![server(1, "WRITE", 300)],
        accesses: vec![write(1, 4096)],
        own_writes: vec![own_write(0, 131); 2],
        ..TracedCalls::default()
    };
    let joined = join(&here, &there);
    let call = &joined.calls[0];
    assert_eq!((call.wire_ns(), call.after_ns(), call.replies), (Some(400), 20, 1));
    let metrics = CallMetrics::of(&joined, 0);
    let write = &metrics.procedures["WRITE"];
    assert_eq!((write.calls, write.written_bytes, write.read_bytes), (1, 4096, 0));
    let p50 = |times: &Option<LatencyHistogram>| times.as_ref().unwrap().quantile_ns(0.5).unwrap();
    assert_eq!([&write.queue, &write.wire, &write.server, &write.after].map(p50), [10, 400, 300, 20]);
    let accesses = metrics.accesses.as_ref().unwrap();
    assert_eq!((accesses.writes.accesses, accesses.reads.accesses), (1, 0));
    let own = metrics.own_writes.as_ref().unwrap();
    assert_eq!((own.accesses, own.bytes, own.sequential), (2, 8192, 0));
    let kept = serde_json::to_string(&metrics).unwrap();
    assert_eq!(serde_json::from_str::<CallMetrics>(&kept).unwrap(), metrics);
}

#[test]
fn what_one_end_does_not_have_and_what_came_twice_is_counted() {
    let times = [0, 50, 50];
    let calls = [1, 2, 3, 4].map(|xid| client(xid, "READ", times));
    let here = TracedCalls { client: calls.to_vec(), retransmissions: 1, ..TracedCalls::default() };
    // Number 2 came twice, 3 is missing, nobody called 9, and 5 came when the client no longer recorded.
    let there = TracedCalls {
        server: [1, 2, 2, 9, 4, 5].map(|xid| server(xid, "COMPOUND", 20)).to_vec(),
        ..TracedCalls::default()
    };
    let joined = join(&here, &there);
    assert_eq!(joined.outside, 1);
    let metrics = CallMetrics::of(&joined, 0);
    assert_eq!((metrics.repeated, metrics.unserved, metrics.uncalled, metrics.retransmissions), (1, 1, 1, 1));
    assert_eq!(metrics.procedures["READ"].server.as_ref().unwrap().count(), 3);
    // A number that was given again is another call.
    let again = TracedCalls { client: vec![client(7, "READ", times); 2], ..TracedCalls::default() };
    let there = TracedCalls { server: vec![server(7, "READ", 1); 2], ..TracedCalls::default() };
    let metrics = CallMetrics::of(&join(&again, &there), 0);
    assert_eq!((metrics.repeated, metrics.unserved, metrics.uncalled), (0, 0, 0));
}

#[test]
fn traced_calls_are_held_against_counted_ones_procedure_by_procedure() {
    let calls = ["WRITE", "WRITE", "COMMIT", "LOOKUP"].map(|procedure| client(1, procedure, [0; 3]));
    let traced = TracedCalls { client: calls.to_vec(), ..TracedCalls::default() };
    let counted = |counts: serde_json::Value| serde_json::from_value::<RpcCounts>(counts).unwrap();
    let equal = serde_json::json!({"WRITE": {"calls": 2}, "COMMIT": {"calls": 1}, "LOOKUP": {"calls": 1}});
    let counts = traced.counts(CallEnd::Client);
    assert_eq!(differences(&counts, &counted(equal)), []);
    let other = serde_json::json!({"WRITE": {"calls": 3}, "COMMIT": {"calls": 1}, "READ": {"calls": 1}});
    let found = differences(&counts, &counted(other));
    let difference = |procedure: &str, traced, counted| CountDifference {
        procedure: procedure.to_owned(),
        traced,
        counted,
    };
    assert_eq!(found, [difference("LOOKUP", 1, 0), difference("READ", 0, 1), difference("WRITE", 2, 3)]);
}

#[test]
fn a_client_that_only_keeps_the_state_of_version_4_is_no_mount_s() {
    let line = |client: u32, procedure: &str| {
        format!(
            " kworker/u2:1-17 [000] ..... 12.345678: rpc_stats_latency: task:0000002a@{client:08x} xid=0x5c1f0e17 \
             nfsv4 {procedure} backlog=9 rtt=812 execute=830\n"
        )
    };
    let text = [line(1, "SEQUENCE"), line(2, "SEQUENCE"), line(2, "WRITE")].concat();
    let traced = TracedCalls::read(Cursor::new(text), Path::new("trace.txt")).unwrap();
    assert_eq!(traced.counts(CallEnd::Client), BTreeMap::from([("SEQUENCE", 1), ("WRITE", 1)]));
}

proptest! {
    #[test]
    fn each_call_of_an_end_is_in_one_place(ours in prop::collection::vec(0_u32..20, 0..60), theirs in prop::collection::vec(0_u32..20, 0..60)) {
        let calls = ours.iter().map(|xid| client(*xid, "READ", [1, 2, 3]));
        let here = TracedCalls { client: calls.collect(), ..TracedCalls::default() };
        let there = TracedCalls {
            server: theirs.iter().map(|xid| server(*xid, "READ", 1)).collect(),
            ..TracedCalls::default()
        };
        let joined = join(&here, &there);
        let metrics = CallMetrics::of(&joined, 0);
        let (ours, theirs) = (ours.len() as u64, theirs.len() as u64);
        prop_assert_eq!(metrics.sum(|times| times.calls), ours);
        prop_assert_eq!(ours - metrics.unserved + metrics.repeated + metrics.uncalled + joined.outside, theirs);
        prop_assert!(joined.calls.iter().all(|call| call.server.is_none_or(|server| server.xid == call.client.xid)));
    }
}

#[test]
fn calls_on_a_file_are_requests_at_both_ends() {
    let over = |call: ClientCall, over_ns| ClientCall { over_ns, ..call };
    let here = TracedCalls {
        client: vec![
            over(client(1, "WRITE", [10_000, 700_000, 730_000]), 2_000_000),
            over(client(2, "GETATTR", [0, 1000, 1000]), 2_100_000),
            over(client(3, "COMMIT", [0, 90_000, 90_000]), 2_200_000),
            over(client(4, "READ", [0, 50_000, 50_000]), 1_900_000),
        ],
        ..TracedCalls::default()
    };
    let replied = |call: ServerCall, replied_ns| ServerCall { replied_ns, ..call };
    let there = TracedCalls {
        server: vec![
            replied(server(1, "WRITE", 300_000), 81_900_000),
            replied(server(2, "GETATTR", 1000), 82_000_000),
            replied(server(3, "COMMIT", 50_000), 82_150_000),
            replied(server(4, "READ", 1000), 81_850_000),
        ],
        accesses: vec![
            Access { offset: 8192, began_ns: 81_700_000, ..write(1, 4096) },
            Access { file: 4, ..write(4, 512) },
        ],
        ..TracedCalls::default()
    };
    let found = CallRequests::on_main_file(&join(&here, &there));
    let seen = |requests: &[Request]| {
        let of_one =
            |r: &Request| (r.id, r.operation, r.offset, r.bytes, r.queued_ns, r.issued_ns, r.completed_ns);
        requests.iter().map(of_one).collect::<Vec<_>>()
    };
    assert_eq!(
        seen(&found.client),
        [
            (0, Operation::Write, 8192, 4096, 1_270_000, 1_280_000, 2_000_000),
            (1, Operation::Flush, 0, 0, 2_110_000, 2_110_000, 2_200_000)
        ]
    );
    assert_eq!(
        seen(&found.server),
        [
            (0, Operation::Write, 8192, 4096, 81_600_000, 81_700_000, 81_900_000),
            (1, Operation::Flush, 0, 0, 82_100_000, 82_100_000, 82_150_000)
        ]
    );
    assert_eq!(found.unplaced, 1);
    let files = HashMap::from([(9, FileExtents::new(vec![(8192, 1 << 20, 1024), (9216, 5 << 20, 1 << 20)]))]);
    let on_device = CallRequests::on_device(&join(&here, &there), &files);
    let write = |id, offset, bytes| (id, Operation::Write, offset, bytes, 1_270_000, 1_280_000, 2_000_000);
    assert_eq!(
        seen(&on_device.client),
        [
            write(0, 1 << 20, 1024),
            write(1, 5 << 20, 3072),
            (2, Operation::Flush, 0, 0, 2_110_000, 2_110_000, 2_200_000)
        ]
    );
    assert_eq!((on_device.server.len(), on_device.unplaced), (3, 1));
    let none = CallRequests::on_device(&join(&here, &there), &HashMap::new());
    assert_eq!(none, CallRequests { unplaced: 2, ..CallRequests::default() });
    let unserved = TracedCalls::default();
    assert_eq!(CallRequests::on_main_file(&join(&here, &unserved)), CallRequests::default());
}
