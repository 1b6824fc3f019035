use super::machine::{Arrival, Part};
use super::*;

const GBIT: Wire =
    Wire { rate_bits_per_s: 1_000_000_000, delay_ns: 100_000, queue_bytes: 256 << 10, loss: 0.0, cut: None };

fn link(wire: Wire) -> CheckedLink {
    CheckedLink { wire, mtu: 1500, seed: 0 }
}

fn checked(wire: Wire) -> Vec<CheckRow> {
    check(&link(wire), tempfile::tempdir().unwrap().path()).unwrap()
}

#[test]
fn a_link_holds_against_its_model_at_all_rates() {
    let rates = [10_000_000, 10_000_000_000];
    for rate_bits_per_s in rates {
        let rows = checked(Wire { rate_bits_per_s, ..GBIT });
        assert_eq!(rows.len(), 23);
        for row in rows {
            assert_eq!(row.verdict, Verdict::Holds, "{row:?}");
            if row.quantity == Quantity::Delay {
                assert!((row.measured.unwrap() - 1e5).abs() <= 1.0, "to the nanosecond: {row:?}");
            }
        }
    }
}

#[test]
fn losses_are_counted_frame_by_frame_and_enough_is_sent_to_measure_the_rest() {
    let loss = 0.5;
    let rows = checked(Wire { loss, delay_ns: 5_000_000, ..GBIT });
    assert!(rows.iter().all(|row| row.verdict == Verdict::Holds && row.measured.is_some()), "{rows:?}");
    assert_eq!(Verdict::of(&rows), Verdict::Holds);
    let lost: Vec<&CheckRow> = rows.iter().filter(|row| row.quantity == Quantity::Lost).collect();
    assert_eq!(lost.len(), 6);
    for both in lost.chunks(2) {
        assert!(both[0].measured != both[1].measured, "each direction loses frames of its own: {both:?}");
        // Of segments as of single frames, and no segment for each frame of it.
        assert!((both[0].expected / loss - 10_000.0).abs() < 46.0, "{both:?}");
    }
}

#[test]
fn what_too_few_frames_say_is_not_judged_and_is_no_link_that_holds() {
    let rows = checked(Wire { loss: 0.9999, ..GBIT });
    assert!(rows.iter().all(|row| row.verdict != Verdict::Fails), "{rows:?}");
    let unmeasured: Vec<_> = rows.iter().filter(|row| row.verdict == Verdict::NotMeasured).collect();
    let of_frames = |row: &&&CheckRow| row.frames != FrameKind::Segments;
    assert_eq!(unmeasured.iter().filter(of_frames).count(), 10, "{unmeasured:?}");
    assert!(unmeasured.iter().all(|row| row.measured.is_none()));
    assert_eq!(Verdict::of(&rows), Verdict::NotMeasured);
    let wrong = CheckRow { verdict: Verdict::Fails, ..rows[0].clone() };
    assert_eq!(Verdict::of(&[rows[0].clone(), wrong]), Verdict::Fails);
}

#[test]
fn so_much_is_sent_that_enough_arrives() {
    let sent = |loss, shape, usual| sendings_for(&link(Wire { loss, ..GBIT }), shape, usual);
    assert_eq!(sent(0.0, Shape::Shortest, 40), 40);
    assert_eq!(sent(0.5, Shape::Shortest, 40), 160, "of 80, 19 may arrive");
    assert_eq!(sent(0.5, Shape::Segment { mtu: 1500 }, 40), 40, "of each, something does");
    assert_eq!(sent(0.99, Shape::Shortest, 40), 5120);
    assert_eq!(sent(0.9999, Shape::Shortest, 40), 40, "the most that is sent would not be enough");
}

/// Arrivals of a plan over a link that is not as it should be.
fn seen(plan: &[Sending], of: impl Fn(usize, u64) -> u64) -> Seen {
    let mut bits = 0;
    let arrivals = plan.iter().enumerate().map(|(index, sent)| {
        bits += sent.shape.bits();
        let part = Some(Part { index, begin: 0, end: sent.shape.frames() });
        Arrival { at_ns: of(index, bits), part }
    });
    Seen { arrivals: arrivals.collect(), taken_ns: Vec::new() }
}

#[test]
fn a_link_that_is_too_fast_or_too_slow_fails() {
    let (link, plan) = (link(GBIT), at_once(Shape::Longest { mtu: 1500 }, 200));
    let verdict = |thousandths: u64| {
        let seen = seen(&plan, |_, bits| bits * 1000 / thousandths + 100_000);
        rate_row(&link, Quantity::Rate, End::Lower, &plan, &seen).verdict
    };
    let expected =
        [(985, Verdict::Fails), (993, Verdict::Holds), (1007, Verdict::Holds), (1015, Verdict::Fails)];
    for (thousandths, expected) in expected {
        assert_eq!(verdict(thousandths), expected, "{thousandths}");
    }
    let nothing = rate_row(&link, Quantity::Rate, End::Lower, &plan, &Seen::default());
    assert_eq!((nothing.measured, nothing.verdict), (None, Verdict::Fails));
}

#[test]
fn several_that_do_not_share_the_wire_fail() {
    let (link, shape) = (link(GBIT), Shape::Longest { mtu: 1500 });
    let plan = at_once(shape, 600);
    let row = |seen: &[Seen]| shared_rate_row(&link, End::Upper, shape, seen);
    let as_one = || seen(&plan, |_, bits| bits);
    assert_eq!(row(&[as_one()]).verdict, Verdict::Holds);
    // Each has the whole rate for itself.
    assert_eq!(row(&[seen(&plan, |_, bits| bits / 3)]).verdict, Verdict::Fails);
    let one_is_slow = row(&[as_one(), seen(&plan, |_, bits| 3 * bits), as_one()]);
    assert_eq!(one_is_slow.verdict, Verdict::Fails);
    assert_eq!(row(&[as_one(), Seen::default()]).measured, None, "one has nothing");
}

#[test]
fn one_frame_that_is_late_fails_the_delay() {
    let (link, plan) = (link(GBIT), apart(&link(GBIT)));
    let row = |late_ns: u64| {
        let arrival = |index: usize, _| {
            let sent = plan[index];
            let late_ns = if index == 7 { late_ns } else { 0 };
            sent.at_ns + sent.shape.bits() + 100_000 + late_ns
        };
        delay_row(&link, End::Upper, &plan, &seen(&plan, arrival))
    };
    assert_eq!((row(0).measured, row(0).verdict), (Some(1e5), Verdict::Holds));
    assert_eq!((row(9_000).verdict, row(11_000).verdict), (Verdict::Holds, Verdict::Fails));
}

#[test]
fn lost_frames_a_full_queue_and_a_wrong_order_are_seen() {
    let (link, plan) = (link(GBIT), at_once(Shape::Longest { mtu: 1500 }, 300));
    let mut all = seen(&plan, |_, bits| bits);
    assert_eq!(lost_row(&link, End::Lower, &plan, &all).verdict, Verdict::Holds);
    assert_eq!(disorder_row(&link, End::Lower, &plan, &all).verdict, Verdict::Holds);
    // 170 frames of 1538 bytes are 261 460 bytes of 262 144.
    let queue = |at_once: usize| {
        let taken_ns = std::iter::repeat_n(0, at_once).chain([12_304]).collect();
        queue_row(&link, End::Lower, &plan, &Seen { taken_ns, ..Seen::default() }).verdict
    };
    let verdicts = [queue(0), queue(170), queue(171), queue(172)];
    assert_eq!(verdicts, [Verdict::Fails, Verdict::Fails, Verdict::Holds, Verdict::Fails]);
    all.arrivals.swap(4, 5);
    assert_eq!(disorder_row(&link, End::Lower, &plan, &all).measured, Some(1.0));
    all.arrivals[9].part = None;
    assert_eq!(disorder_row(&link, End::Lower, &plan, &all).measured, Some(2.0));
    all.arrivals.pop();
    assert_eq!(lost_row(&link, End::Lower, &plan, &all).verdict, Verdict::Fails);
}

#[test]
fn a_segment_of_which_a_frame_is_missing_arrives_in_parts_and_the_rate_is_that_of_its_last_bits() {
    let (link, plan) = (link(GBIT), at_once(Shape::Segment { mtu: 1500 }, 40));
    let mut all = seen(&plan, |_, bits| bits);
    let whole = all.arrivals[20];
    let bits = plan[0].shape.bits();
    let part = |begin, end| Arrival {
        at_ns: whole.at_ns - bits + plan[0].shape.bits_of_first(end),
        part: Some(Part { index: 20, begin, end }),
    };
    all.arrivals.splice(20..21, [part(0, 7), part(8, 46)]);
    let rate = |seen: &Seen| rate_row(&link, Quantity::Rate, End::Lower, &plan, seen).measured.unwrap();
    assert!((rate(&all) - 1e9).abs() < 1e3);
    assert_eq!(lost_row(&link, End::Lower, &plan, &all).measured, Some(1.0));
    assert_eq!(disorder_row(&link, End::Lower, &plan, &all).measured, Some(0.0));
    all.arrivals.truncate(21);
    assert!((rate(&all) - 1e9).abs() < 1e3, "{}", rate(&all));
    all.arrivals.push(part(6, 8));
    assert_eq!(disorder_row(&link, End::Lower, &plan, &all).measured, Some(1.0));
}
