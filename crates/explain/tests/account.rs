//! The account adds up to the nanosecond, whatever the requests were.

use nestor_correlate::{BlameBuilder, Cause};
use nestor_explain::{
    CallEvidence, Evidence, Explanation, Holder, ImageEvidence, LinkFigures, MechanismName, NetworkEvidence,
    Part, Volume, explain,
};
use nestor_layout::Class;
use nestor_results::Executor;
use nestor_trace::event::Flags;
use nestor_trace::rpc::CallKind;
use nestor_trace::{Operation, Request};
use proptest::prelude::*;

/// A request of the lowest level: when it was issued, how long it took, where, and what it is for.
type Drawn = (u64, u64, u64, usize, bool);

const CAUSES: [&str; 9] = [
    "file-data>image-data",
    "journal>image-data",
    "inode>image-data",
    "->journal",
    "->inode",
    "->image-data",
    "flush>flush",
    "->-",
    "",
];

/// The requests of a run, in parallel as they come, and how long the lowest level was at work.
fn recorded(drawn: &[Drawn]) -> (BlameBuilder, u64) {
    let mut requests: Vec<(Request, Cause)> = drawn
        .iter()
        .map(|(issued_ns, took_ns, place, cause, read)| {
            let cause = Cause::try_from(CAUSES[*cause].to_owned()).unwrap();
            let operation = match (cause.bottom(), read) {
                (Some(Class::Flush), _) => Operation::Flush,
                (_, true) => Operation::Read,
                (_, false) => Operation::Write,
            };
            let request = Request {
                id: 0,
                operation,
                flags: Flags::default(),
                class: Class::Unknown,
                offset: place * 4096,
                bytes: if operation == Operation::Flush { 0 } else { 4096 },
                queued_ns: *issued_ns,
                issued_ns: *issued_ns,
                completed_ns: issued_ns + took_ns,
                bios: 1,
                pid: 0,
            };
            (request, cause)
        })
        .collect();
    requests.sort_by_key(|(request, _)| request.completed_ns);
    // The length of the union of all intervals, counted another way than by the builder.
    let mut intervals: Vec<_> = requests.iter().map(|(r, _)| (r.issued_ns, r.completed_ns)).collect();
    intervals.sort_unstable();
    let (mut busy, mut until) = (0, 0);
    for (from, to) in intervals {
        busy += to.saturating_sub(from.max(until));
        until = until.max(to);
    }
    let mut builder = BlameBuilder::default();
    for (request, cause) in requests {
        let top = cause.top().map(|_| (request.offset, request.bytes));
        builder.push(&request, cause, top);
    }
    (builder, busy)
}

fn any_requests() -> impl Strategy<Value = Vec<Drawn>> {
    let drawn = (0..2_000_000_u64, 1..90_000_u64, 0..500_u64, 0..CAUSES.len(), any::<bool>());
    prop::collection::vec(drawn, 0..60)
}

/// Calls of each kind, over a link of some rate and delay.
fn any_network() -> impl Strategy<Value = Option<NetworkEvidence>> {
    let calls =
        (0.0..500.0_f64, 0.0..9e6_f64).prop_map(|(calls, response_ns)| CallEvidence { calls, response_ns });
    let kinds = [CallKind::Read, CallKind::Write, CallKind::Commit, CallKind::Metadata];
    let calls = prop::array::uniform4(calls).prop_map(move |calls| kinds.into_iter().zip(calls).collect());
    let bytes = prop::array::uniform5(0.0..1e6_f64);
    let figures = prop::option::of((1e6..1e10_f64, 1e3..1e7_f64));
    let network = (calls, bytes, figures, 0.0..500.0_f64).prop_map(|(calls, bytes, figures, fsyncs)| {
        let [to_server_bytes, to_client_bytes, read_bytes, written_bytes, direct_written_bytes] = bytes;
        let figures = figures.map(|(rate_bits_per_s, delay_ns)| LinkFigures { rate_bits_per_s, delay_ns });
        NetworkEvidence {
            calls,
            figures,
            to_server_bytes,
            to_client_bytes,
            read_bytes,
            written_bytes,
            direct_written_bytes,
            fsyncs,
            ..NetworkEvidence::default()
        }
    });
    prop::option::of(network)
}

fn any_evidence() -> impl Strategy<Value = Evidence> {
    let numbers = (0..3_000_000_u64, 1..70_u64, 0..70_u64, 0..4_usize);
    let tables = (0..100_u64, prop::array::uniform4(0..40_000_u64), 0.0..1.0_f64);
    let drawn = (any_requests(), numbers, tables, any_network());
    drawn.prop_map(|(drawn, (elapsed, writes, reads, flushes), tables, network)| {
        let (builder, busy) = recorded(&drawn);
        let blame = builder.finish();
        assert_eq!(blame.causes.values().map(|spent| spent.busy_ns).sum::<u64>(), busy);
        let (table_reads, instructions, cpu) = tables;
        let operations = (writes + reads) as f64;
        let edge = nestor_explain::Edge { flushes: flushes as f64 * operations / 4.0, ..Default::default() };
        Evidence {
            elapsed_ns: elapsed as f64,
            reads: Volume { count: reads as f64, bytes: reads as f64 * 4096.0 },
            writes: Volume { count: writes as f64, bytes: writes as f64 * 4096.0 },
            latency_ns: elapsed as f64 * 2.0,
            edges: vec![nestor_explain::Edge::default(), edge],
            blame,
            networks: network
                .map(|network| NetworkEvidence { elapsed_ns: elapsed as f64, ..network })
                .into_iter()
                .collect(),
            image: Some(ImageEvidence { table_reads: table_reads as f64, ..ImageEvidence::default() }),
            cpu_busy: vec![("host".into(), cpu)],
            counted_operations: operations,
            instructions: Executor::ALL
                .into_iter()
                .zip(instructions.map(|i| i as f64 * operations))
                .collect(),
            ..Evidence::default()
        }
    })
}

/// Where requests were not followed, nothing is known of the medium: not even that it was idle.
fn names_nothing(e: &Explanation) -> Result<(), TestCaseError> {
    prop_assert_eq!(&e.account, &nestor_explain::Account::default());
    prop_assert!(e.findings.iter().all(|found| found.mechanism == MechanismName::Noise));
    prop_assert!(e.doubts.iter().any(|doubt| doubt.contains("--trace full")), "{:?}", e.doubts);
    Ok(())
}

/// What must hold of every account.
fn adds_up(e: &Explanation) -> Result<(), TestCaseError> {
    let account = &e.account;
    let here = e.time_per_operation_ns.round() as i64;
    let before = e.baseline_time_per_operation_ns.map_or(0, |ns| ns.round() as i64);
    prop_assert_eq!(account.whole_ns, here - before);
    prop_assert_eq!(account.parts.iter().map(|row| row.here_ns).sum::<i64>(), here);
    prop_assert_eq!(account.parts.iter().map(|row| row.baseline_ns).sum::<i64>(), before);
    prop_assert_eq!(account.lines.iter().map(|line| line.effect_ns).sum::<i64>(), account.whole_ns);
    for line in &account.lines {
        prop_assert_eq!(line.parts.values().sum::<i64>(), line.effect_ns);
        if !line.executors.is_empty() {
            prop_assert_eq!(line.executors.values().sum::<i64>(), line.effect_ns);
        }
    }
    for part in Part::ALL {
        let row = account.parts.iter().find(|row| row.part == part);
        let held = account.lines.iter().filter_map(|line| line.parts.get(&part)).sum::<i64>();
        prop_assert_eq!(held, row.map_or(0, |row| row.here_ns - row.baseline_ns), "{:?}", part);
    }
    for row in account.parts.iter().filter(|row| row.requests.is_some()) {
        let differs = row.here_ns != row.baseline_ns;
        prop_assert!(!differs || row.holder.is_some(), "whose requests are those of {:?}", row.part);
    }
    let mut holders: Vec<Holder> = account.lines.iter().map(|line| line.holder).collect();
    let effects: Vec<u64> = account.lines.iter().map(|line| line.effect_ns.unsigned_abs()).collect();
    prop_assert!(effects.is_sorted_by(|a, b| a >= b), "ranked by what they add");
    holders.sort();
    prop_assert!(holders.is_sorted_by(|a, b| a < b), "a holder has one line: {:?}", holders);
    for finding in e.findings.iter().filter(|f| f.mechanism != MechanismName::Noise) {
        let line = account.lines.iter().find(|line| line.holder == Holder::Mechanism(finding.mechanism));
        prop_assert_eq!(line.map_or(0, |line| line.effect_ns) as f64, finding.effect_ns);
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_nanosecond_has_one_holder(here in any_evidence(), baseline in any_evidence(), rates in 0..3_u32) {
        let is_followed = |e: &Evidence| e.blame.span_ns > 0;
        let alone = explain(&here, None);
        if is_followed(&here) { adds_up(&alone)? } else { names_nothing(&alone)? }
        let with_rates = |e: &Evidence, rate: f64| Evidence { rates: (0..rates).map(|block| (block, rate)).collect(), ..e.clone() };
        let both = explain(&with_rates(&here, 100.0), Some(&with_rates(&baseline, 90.0)));
        if is_followed(&here) && is_followed(&baseline) { adds_up(&both)? } else { names_nothing(&both)? }
    }

    #[test]
    fn the_other_way_round_the_parts_are_the_same_with_the_other_sign(a in any_evidence(), b in any_evidence()) {
        let there = explain(&a, Some(&b)).account.parts;
        let back = explain(&b, Some(&a)).account.parts;
        let more = |rows: Vec<nestor_explain::PartRow>, sign: i64| -> Vec<(Part, i64)> {
            rows.iter().map(|row| (row.part, sign * (row.here_ns - row.baseline_ns))).collect()
        };
        prop_assert_eq!(more(there, 1), more(back, -1));
    }
}

#[test]
fn what_the_medium_does_after_the_application_has_ended_is_not_lost() {
    let (builder, _) = recorded(&[(0, 900, 0, 0, false), (1_000, 4_000, 7, 0, false)]);
    let mut here = Evidence { elapsed_ns: 1_000.0, blame: builder.finish(), ..Evidence::default() };
    here.writes.count = 10.0;
    let account = explain(&here, None).account;
    let ns = |part: Part| account.parts.iter().find(|row| row.part == part).map(|row| row.here_ns);
    assert_eq!((account.whole_ns, ns(Part::Data), ns(Part::Outside)), (100, Some(490), Some(-390)));
}
