use super::machine::Arrival;
use super::*;

const GBIT: Wire =
    Wire { rate_bits_per_s: 1_000_000_000, delay_ns: 100_000, queue_bytes: 256 << 10, loss: 0.0 };

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
        assert_eq!(rows.len(), 17);
        for row in rows {
            assert_eq!(row.verdict, Verdict::Holds, "{row:?}");
            if row.quantity == Quantity::Delay {
                assert!((row.measured.unwrap() - 1e5).abs() <= 1.0, "to the nanosecond: {row:?}");
            }
        }
    }
}

#[test]
fn losses_are_counted_and_what_too_few_frames_say_is_not_judged() {
    let wire = Wire { loss: 0.2, delay_ns: 5_000_000, ..GBIT };
    let rows = checked(wire);
    assert!(rows.iter().all(|row| row.verdict != Verdict::Fails), "{rows:?}");
    let unmeasured: Vec<_> =
        rows.iter().filter(|row| row.verdict == Verdict::NotMeasured).map(|row| row.frames).collect();
    assert_eq!(unmeasured, [FrameKind::Segments; 3]);
    let lost: Vec<f64> =
        rows.iter().filter(|row| row.quantity == Quantity::Lost).filter_map(|row| row.measured).collect();
    assert!(lost.iter().all(|lost| *lost > 1800.0 && *lost < 2200.0) && lost[0] != lost[1], "{lost:?}");
}

/// Arrivals of a plan over a link that is not as it should be.
fn seen(plan: &[Sending], of: impl Fn(usize, u64) -> u64) -> Seen {
    let mut bits = 0;
    let arrivals = plan.iter().enumerate().map(|(index, sent)| {
        bits += sent.shape.bits();
        Arrival { at_ns: of(index, bits), index: Some(index) }
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
    assert_eq!(disorder_row(End::Lower, &all).verdict, Verdict::Holds);
    // 170 frames of 1538 bytes are 261 460 bytes of 262 144.
    let queue = |at_once: usize| {
        let taken_ns = std::iter::repeat_n(0, at_once).chain([12_304]).collect();
        queue_row(&link, End::Lower, &plan, &Seen { taken_ns, ..Seen::default() }).verdict
    };
    let verdicts = [queue(0), queue(170), queue(171), queue(172)];
    assert_eq!(verdicts, [Verdict::Fails, Verdict::Fails, Verdict::Holds, Verdict::Fails]);
    all.arrivals.swap(4, 5);
    assert_eq!(disorder_row(End::Lower, &all).measured, Some(1.0));
    all.arrivals[9].index = None;
    assert_eq!(disorder_row(End::Lower, &all).measured, Some(2.0));
    all.arrivals.pop();
    assert_eq!(lost_row(&link, End::Lower, &plan, &all).verdict, Verdict::Fails);
}
