//! What a replay's report says, for people.

use nestor_replay::{Amount, Depth, Fit, ReplayReport, TargetKind};
use nestor_report::units::{bytes, count, digits, duration_ns, iops, plural_u64, share};
use nestor_statistics::{LatencyHistogram, LatencySummary};

use crate::output::table;

/// Everything: the answer, what makes it less than it seems, then the numbers.
pub fn replay(report: &ReplayReport) -> String {
    let mut text = header(report);
    text += &format!("\n  {}\n", answer(report));
    for warning in warnings(report) {
        text += &format!("  {warning}\n");
    }
    if report.achieved.requests > 0 {
        text += "\n";
        text += &amounts(report);
        text += "\n";
        text += &latencies(report);
    }
    text
}

fn header(report: &ReplayReport) -> String {
    let target = match report.target_kind {
        TargetKind::Nothing => "dry run: no request is sent".to_owned(),
        kind => {
            let what = match kind {
                TargetKind::Device => "device",
                TargetKind::MadeFile => "made for this",
                _ => "file",
            };
            let cache = if report.direct { "direct" } else { "through the page cache" };
            format!(
                "on {} ({what}, {}; {}, {cache})",
                report.target,
                bytes(report.target_bytes),
                report.engine
            )
        }
    };
    let (trace, device, letter) = (&report.trace, &report.device, report.stage.letter());
    format!("{trace}   device {device}, from {letter}, {}\n{target}\n", report.speed)
}

fn answer(report: &ReplayReport) -> String {
    let requests = plural_u64(report.achieved.requests, "request", "requests");
    let rate =
        report.achieved.requests_per_second.map_or_else(String::new, |rate| format!(", {}", iops(rate)));
    match (&report.lag_summary, report.achieved.requests) {
        (_, 0) => "no request was sent".to_owned(),
        (Some(lag), _) => format!(
            "{requests}{rate}; sent later than intended by p50 {}  p99 {}  max {}",
            duration_ns(lag.p50_ns as f64),
            duration_ns(lag.p99_ns as f64),
            duration_ns(lag.max_ns as f64)
        ),
        (None, _) => format!("{requests}{rate}{}", faster(report)),
    }
}

/// How many times as fast as the trace.
fn faster(report: &ReplayReport) -> String {
    let times = report.relative_rate();
    times.map_or_else(String::new, |times| format!(", {} x the trace's own rate", digits(times)))
}

/// What makes the numbers less than they seem.
fn warnings(report: &ReplayReport) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut say = |if_so: bool, what: String| warnings.extend(if_so.then_some(what));
    let (done, all) = (report.achieved.requests, report.plan.requests);
    say(report.interrupted, format!("interrupted: {} of {} requests were replayed", count(done), count(all)));
    say(
        report.fell_behind(),
        "the replay fell behind: the processors were busy with other work, or submitting requests took too \
         long"
            .to_owned(),
    );
    let missed = report.missed_rate();
    say(missed.is_some(), format!("only {} of the rate was achieved", share(missed.unwrap_or_default())));
    say(
        report.waited() > 0,
        format!(
            "{} waited because {} were in flight, the limit (`--depth`)",
            plural_u64(report.waited(), "request", "requests"),
            count(report.depth_limit)
        ),
    );
    let out_of_order = report.ordering.submitted_out_of_order;
    say(
        out_of_order > 0,
        format!(
            "{} sent after a later one of the trace",
            plural_u64(out_of_order, "request was", "requests were")
        ),
    );
    warnings.extend(left_out(report));
    warnings.extend(fitted(report));
    warnings.extend(report.remarks.iter().cloned());
    warnings
}

fn left_out(report: &ReplayReport) -> Vec<String> {
    let l = &report.left_out;
    let discards = format!(
        "{} of {} not replayed (`--discard` replays them)",
        plural_u64(l.discards, "discard or write of zeroes", "discards and writes of zeroes"),
        bytes(l.discard_bytes)
    );
    let say = |number: u64, one: &str, many: &str| (number, plural_u64(number, one, many));
    [
        (l.discards, discards),
        say(
            l.impossible,
            "request with an invalid offset or size left out",
            "requests with invalid offsets or sizes left out",
        ),
        say(
            l.passthrough,
            "command passed through to the device left out",
            "commands passed through to the device left out",
        ),
        say(
            l.split_rests,
            "rest of a split request not sent twice",
            "rests of split requests not sent twice",
        ),
        say(
            l.requeued,
            "request that the driver requeued sent once",
            "requests that the driver requeued sent once",
        ),
    ]
    .into_iter()
    .filter(|(number, _)| *number > 0)
    .map(|(_, text)| text)
    .collect()
}

fn fitted(report: &ReplayReport) -> Vec<String> {
    let f = &report.fitted;
    let how = match f.fit {
        Fit::Wrap => "modulo the target's size",
        Fit::Scale => "by the ratio of the sizes",
        Fit::Exact => "to whole blocks",
    };
    let say = |number: u64, what: String| (number > 0).then_some(what);
    [
        say(
            f.moved,
            format!(
                "{} placed at other offsets than in the trace, {how}",
                plural_u64(f.moved, "request", "requests")
            ),
        ),
        say(
            f.widened,
            format!(
                "{} extended to whole blocks of the target",
                plural_u64(f.widened, "request", "requests")
            ),
        ),
        say(
            f.shortened,
            format!("{} cut to the target's size", plural_u64(f.shortened, "request", "requests")),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Offered against achieved.
fn amounts(report: &ReplayReport) -> String {
    let rate = |amount: &Amount| amount.requests_per_second.map_or_else(|| "-".to_owned(), iops);
    let depth =
        |depth: &Option<Depth>, of: fn(&Depth) -> String| depth.as_ref().map_or_else(|| "-".to_owned(), of);
    let (offered, achieved) = (&report.offered, &report.achieved);
    let (from, to) = (&report.depth_offered, &report.depth_achieved);
    let mut rows = vec![
        ["requests".to_owned(), count(offered.requests), count(achieved.requests)],
        ["bytes".to_owned(), bytes(offered.bytes), bytes(achieved.bytes)],
        ["rate".to_owned(), rate(offered), rate(achieved)],
        [
            "first to last sent".to_owned(),
            duration_ns(offered.duration_ns as f64),
            duration_ns(achieved.duration_ns as f64),
        ],
    ];
    let mean: fn(&Depth) -> String = |depth| digits(depth.mean);
    let max: fn(&Depth) -> String = |depth| count(depth.max);
    rows.push(["in flight, mean".to_owned(), depth(from, mean), depth(to, mean)]);
    rows.push(["in flight, maximum".to_owned(), depth(from, max), depth(to, max)]);
    let o = &report.ordering;
    if o.compared > 0 {
        rows.push([
            "overtaken by a later one".to_owned(),
            count(o.overtaken_in_trace),
            count(o.overtaken_in_replay),
        ]);
        let against = "completed out of the trace's order".to_owned();
        rows.push([against, "-".to_owned(), count(o.completed_out_of_trace_order)]);
    }
    if report.flushes_sent + report.fua_sent > 0 {
        let sent = format!("{}, {}", count(report.flushes_sent), count(report.fua_sent));
        rows.push(["flushes, FUA writes".to_owned(), sent.clone(), sent]);
    }
    table(&["", "offered", "achieved"], &rows)
}

/// Each class: as in the trace, and here.
fn latencies(report: &ReplayReport) -> String {
    let mut rows: Vec<[String; 7]> = Vec::new();
    for class in &report.classes {
        let mut name = class.class.word().to_owned();
        let mut row = |what: &str, histogram: Option<&LatencyHistogram>| {
            let Some(LatencySummary { count: n, mean_ns, p50_ns, p99_ns, max_ns, .. }) =
                histogram.and_then(LatencyHistogram::summary)
            else {
                return;
            };
            let time = |ns: u64| duration_ns(ns as f64);
            rows.push([
                std::mem::take(&mut name),
                what.to_owned(),
                count(n),
                duration_ns(mean_ns),
                time(p50_ns),
                time(p99_ns),
                time(max_ns),
            ]);
        };
        row("in the trace", class.original.as_ref());
        row("from submission", Some(&class.from_submission));
        row("from its intended time", class.from_intended.as_ref());
    }
    table(&["latency", "", "requests", "mean", "p50", "p99", "max"], &rows)
}

#[cfg(test)]
mod tests {
    use nestor_replay::{ReplayOptions, Speed, Target, WriteData, replay as run};

    use super::*;

    /// Replays an iolog on nothing, and puts fixed times in place of the measured ones.
    fn report(speed: Speed) -> ReplayReport {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("made.log");
        let log = "fio version 3 iolog\n0 f add\n0 f open\n0 f write 0 4096\n100 f read 8192 4096\n200 f sync\n\
                   300 f trim 0 4096\n400 f close\n";
        std::fs::write(&path, log).expect("a file");
        let plan = nestor_replay::read_plan(&[path], &nestor_replay::PlanOptions::default()).expect("a plan");
        let target = Target::nothing(plan.span_bytes());
        let options = ReplayOptions { speed, data: WriteData::Zeros, ..ReplayOptions::default() };
        let mut report = run(&plan, &target, &options, &()).expect("a replay");
        let mut fixed = LatencyHistogram::default();
        fixed.record_many_ns(12_000, 1);
        report.lag_summary = report.lag_summary.and(fixed.summary());
        report.depth_achieved = Some(Depth { mean: 1.5, max: 2 });
        report.achieved.duration_ns = 200_000;
        report.achieved.requests_per_second = Some(10_000.0);
        for class in &mut report.classes {
            class.from_submission = fixed.clone();
            class.from_intended = class.from_intended.as_ref().map(|_| fixed.clone());
        }
        report
    }

    #[test]
    fn the_answer_comes_first_and_what_is_missing_next() {
        insta::assert_snapshot!(replay(&report(Speed::Times(1.0))), @"
        made.log: fio iolog   device f, from Q, at its own times
        dry run: no request is sent

          3 requests, 10 000 IOPS; sent later than intended by p50 12.0 us  p99 12.0 us  max 12.0 us
          1 discard or write of zeroes of 4 KiB not replayed (`--discard` replays them)

                               offered      achieved
          requests             3            3
          bytes                8 KiB        8 KiB
          rate                 10 000 IOPS  10 000 IOPS
          first to last sent   200 us       200 us
          in flight, mean      -            1.50
          in flight, maximum   -            2
          flushes, FUA writes  1, 0         1, 0

          latency                          requests  mean     p50      p99      max
          read     from submission         1         12.0 us  12.0 us  12.0 us  12.0 us
                   from its intended time  1         12.0 us  12.0 us  12.0 us  12.0 us
          write    from submission         1         12.0 us  12.0 us  12.0 us  12.0 us
                   from its intended time  1         12.0 us  12.0 us  12.0 us  12.0 us
          flush    from submission         1         12.0 us  12.0 us  12.0 us  12.0 us
                   from its intended time  1         12.0 us  12.0 us  12.0 us  12.0 us
        ");
    }

    #[test]
    fn as_fast_as_possible_the_answer_is_the_rate() {
        let mut report = report(Speed::Max);
        report.interrupted = true;
        report.held_back = 2;
        let text = replay(&report);
        insta::assert_snapshot!(text.lines().take(6).collect::<Vec<_>>().join("\n"), @"
        made.log: fio iolog   device f, from Q, as fast as possible
        dry run: no request is sent

          3 requests, 10 000 IOPS, 1.00 x the trace's own rate
          interrupted: 3 of 3 requests were replayed
          1 discard or write of zeroes of 4 KiB not replayed (`--discard` replays them)
        ");
    }
}
