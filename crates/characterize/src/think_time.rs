//! How close a load of the profile comes to what was observed, and the think time with which its rate is the same.
//!
//! The ESX study found the think time of its model so (§5.2): varied until the model's rate was the application's.

use nestor_statistics::LatencyHistogram;
use nestor_text::units::ByteUnit;
use nestor_workload::profile::{LARGEST_UNNAMED_FILE_BYTES, LONGEST_THINK_MS};
use nestor_workload::{LoadResult, OperationClass, Profile, Value, Workload, WorkloadError};
use serde::Serialize;

/// Runs that may be needed until the rates meet.
const MOST_RUNS: usize = 4;
/// Rates so close are the same: a run of 10 s with 800 requests a second knows its rate to 1 %.
const SAME: f64 = 0.02;
/// Each worker comes round so often at least: with fewer rounds the rate is that of whole rounds only.
const ROUNDS: f64 = 20.0;
/// Seconds of a run: as usual, and at most.
const USUAL_S: f64 = 10.0;
const LONGEST_S: f64 = 120.0;

/// What is compared.
#[derive(Clone, Debug, Serialize)]
pub struct ClosenessRow {
    /// Which number.
    pub what: &'static str,
    /// As it was observed.
    pub observed: f64,
    /// Of the load that was run.
    pub load: f64,
}

/// How close it came.
#[derive(Clone, Debug, Serialize)]
pub struct Closeness {
    /// The load.
    pub workload: Workload,
    /// Runs until the rates met, or until there were enough.
    pub runs: usize,
    /// Whether they met, within 2 %.
    pub met: bool,
    /// The numbers side by side.
    pub rows: Vec<ClosenessRow>,
}

/// Fits the think time of a profile by loads of it, which `run` runs with a seed: on a file of `size` bytes, or of the span of its
/// requests.
///
/// # Errors
///
/// That of `run`, or that the profile makes no workload; the profile then stays as it was.
pub fn fit_think_time<E: From<WorkloadError>>(
    profile: &mut Profile,
    size: Option<u64>,
    mut run: impl FnMut(&Workload, u64) -> Result<LoadResult, E>,
) -> Result<Closeness, E> {
    let file_bytes = size.unwrap_or_else(|| profile.file_bytes().min(LARGEST_UNNAMED_FILE_BYTES));
    if size.is_none() && profile.file_bytes() > file_bytes {
        profile.remarks.push(format!(
            "the think time was fitted on a file of {}, but the requests span {}: seeks were \
             shorter (--size)",
            ByteUnit::GB.rounded(file_bytes as f64, 1),
            ByteUnit::GB.rounded(profile.file_bytes() as f64, 1)
        ));
    }
    let counted_ms = profile.concurrency.think_ms;
    let wanted = profile.rates.requests_per_s;
    let mut best: Option<(f64, f64, LoadResult)> = None;
    let mut runs = 0;
    while runs < MOST_RUNS {
        let workload = timed(profile, file_bytes)?;
        let result = run(&workload, 1 + runs as u64)?;
        runs += 1;
        let (think_ms, rate) = (profile.concurrency.think_ms, result.operations_per_second());
        let off = (rate / wanted - 1.0).abs();
        let next_ms = next_think_ms(profile, rate);
        if best.as_ref().is_none_or(|(least, ..)| off < *least) {
            best = Some((off, think_ms, result));
        }
        // Nothing is left to take away where workers do not think and are still too slow.
        if off <= SAME || next_ms == think_ms {
            break;
        }
        profile.concurrency.think_ms = next_ms;
    }
    let (off, think_ms, result) = best.expect("one load is run at least");
    profile.concurrency.think_ms = think_ms;
    if off > SAME {
        profile.remarks.push(format!(
            "no think time gave the observed rate there: the load does {:.1} requests/s instead of {wanted:.1}",
            result.operations_per_second()
        ));
    }
    let mut rows = rows(profile, &result);
    rows.push(ClosenessRow {
        what: "think time, ms",
        observed: counted_ms,
        load: profile.concurrency.think_ms,
    });
    Ok(Closeness { workload: profile.workload(file_bytes)?, runs, met: off <= SAME, rows })
}

/// The load, run long enough for its rate to be known.
fn timed(profile: &Profile, file_bytes: u64) -> Result<Workload, WorkloadError> {
    let round_s = (profile.concurrency.think_ms + profile.rates.response_ms) / 1e3;
    let seconds = (round_s * ROUNDS).clamp(USUAL_S, LONGEST_S).ceil();
    profile.workload(file_bytes)?.with([("runtime", Value::TimeLimit(Some(seconds as u64)))])
}

/// What a pass takes longer or shorter than wanted, workers should think less or more: X = W / (Z + R).
fn next_think_ms(profile: &Profile, rate: f64) -> f64 {
    let workers = f64::from(profile.model_workers());
    let pass_ms = |rate: f64| workers / rate.max(1e-9) * 1e3;
    (profile.concurrency.think_ms + pass_ms(profile.rates.requests_per_s) - pass_ms(rate))
        .clamp(0.0, LONGEST_THINK_MS)
}

fn rows(profile: &Profile, result: &LoadResult) -> Vec<ClosenessRow> {
    let mut all = LatencyHistogram::default();
    result.operations.values().for_each(|done| all.merge(&done.latency));
    let summary = all.summary();
    let operations: u64 = result.operations.values().map(|done| done.operations).sum();
    let reads = result.operations.get(&OperationClass("read".to_owned())).map_or(0, |done| done.operations);
    let rate = result.operations_per_second();
    let response_ms = summary.as_ref().map_or(0.0, |s| s.mean_ns / 1e6);
    let (requests, rates) = (&profile.requests, &profile.rates);
    let row = |what, observed, load| ClosenessRow { what, observed, load };
    let mut rows = vec![
        row("requests/s", rates.requests_per_s, rate),
        row("MB/s", rates.bytes_per_s / 1e6, result.bytes_per_second() / 1e6),
        row("response, ms", rates.response_ms, response_ms),
    ];
    if let (Some(observed), Some(summary)) = (rates.response_p99_ms, &summary) {
        rows.push(row("99th percentile, ms", observed, summary.p99_ns as f64 / 1e6));
    }
    rows.push(row("outstanding", profile.concurrency.outstanding, rate * response_ms / 1e3));
    rows.push(row("reads, %", requests.read_share * 100.0, reads as f64 / operations.max(1) as f64 * 100.0));
    let mean = result.bytes() as f64 / operations.max(1) as f64;
    rows.push(row("mean size, KiB", requests.mean_bytes / 1024.0, mean / 1024.0));
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nestor_workload::profile::{Concurrency, Rates, Requests};
    use nestor_workload::{OperationResult, Value};

    use super::*;

    #[derive(Debug)]
    struct Failed(String);

    impl From<WorkloadError> for Failed {
        fn from(error: WorkloadError) -> Self {
            Self(error.to_string())
        }
    }

    /// A mail server's: 50 workers that think 50 ms as it was counted, and 792 requests a second.
    fn observed() -> Profile {
        Profile {
            name: "mail".to_owned(),
            requests: Requests {
                read_share: 0.64,
                random_share: 1.0,
                mean_bytes: 11264.0,
                working_set_bytes: 1 << 30,
                span_bytes: 2 << 30,
                ..Requests::default()
            },
            concurrency: Concurrency {
                workers: 50,
                think_ms: 50.0,
                outstanding: 10.4,
                ..Concurrency::default()
            },
            rates: Rates {
                seconds: 60.0,
                requests_per_s: 792.0,
                bytes_per_s: 792.0 * 11264.0,
                response_ms: 13.1,
                response_p99_ms: Some(31.5),
                ..Rates::default()
            },
            ..Profile::default()
        }
    }

    /// Ten seconds of a load with this rate, whose requests take so long.
    fn ran(rate: f64, response_ms: f64) -> LoadResult {
        let result = |operations: u64| {
            let mut latency = LatencyHistogram::default();
            latency.record_many_ns((response_ms * 1e6) as u64, operations);
            OperationResult { operations, bytes: operations * 11264, latency, ..OperationResult::default() }
        };
        let all = (rate * 10.0).round() as u64;
        let reads = all * 64 / 100;
        LoadResult {
            engine: "made up".to_owned(),
            workload: "iometer:mail".to_owned(),
            elapsed_ns: 10_000_000_000,
            operations: BTreeMap::from([
                (OperationClass("read".to_owned()), result(reads)),
                (OperationClass("write".to_owned()), result(all - reads)),
            ]),
            working_set_bytes: 1 << 30,
            scale_factor: 1.0,
            ..LoadResult::default()
        }
    }

    /// What a workload's workers think, in milliseconds.
    fn think_ms(workload: &Workload) -> f64 {
        let Some(Value::Milliseconds(us)) = workload.value("think") else { panic!("{workload} has none") };
        us as f64 / 1e3
    }

    /// A machine on which each request takes this long.
    fn closed(response_ms: f64) -> impl FnMut(&Workload, u64) -> Result<LoadResult, Failed> {
        move |workload, _| Ok(ran(50.0 / (think_ms(workload) + response_ms) * 1e3, response_ms))
    }

    #[test]
    fn think_time_makes_up_for_another_response() {
        let mut profile = observed();
        let closeness = fit_think_time(&mut profile, None, closed(20.0)).unwrap();
        // A pass took 50 ms and 20 ms; wanted are 63.1 ms.
        assert!((profile.concurrency.think_ms - 43.13).abs() < 0.01, "{profile:?}");
        assert_eq!(profile.remarks, Vec::<String>::new());
        let row = |what: &str| closeness.rows.iter().find(|row| row.what == what).map(|row| row.load);
        assert_eq!((closeness.runs, closeness.met), (2, true));
        assert!(
            (row("requests/s").unwrap() - 792.0).abs() < 0.1
                && (row("response, ms").unwrap() - 20.0).abs() < 0.1
        );
        assert!((row("outstanding").unwrap() - 15.84).abs() < 0.1, "{closeness:?}");
        assert_eq!(closeness.workload.value("think"), Some(Value::Milliseconds(43_133)), "{closeness:?}");
    }

    #[test]
    fn who_thinks_not_at_all_and_is_too_slow_still_is_told() {
        let mut profile = observed();
        let closeness = fit_think_time(&mut profile, Some(1 << 30), closed(500.0)).unwrap();
        assert_eq!((closeness.runs, closeness.met, profile.concurrency.think_ms), (2, false, 0.0));
        assert_eq!(
            profile.remarks,
            ["no think time gave the observed rate there: the load does 100.0 requests/s instead of 792.0"]
        );
        let value = |option| closeness.workload.value(option);
        assert_eq!(value("think"), Some(Value::Milliseconds(0)), "{closeness:?}");
        assert_eq!(value("size"), Some(Value::Bytes(1 << 30)), "{closeness:?}");
    }

    #[test]
    fn the_nearest_of_a_few_runs_is_kept() {
        let mut profile = observed();
        profile.requests.span_bytes = 20_000_000_000;
        let (mut rates, mut seeds, mut thoughts) =
            ([400.0, 1600.0, 700.0, 500.0].into_iter(), vec![], vec![]);
        let closeness = fit_think_time::<Failed>(&mut profile, None, |workload, seed| {
            seeds.push(seed);
            thoughts.push(think_ms(workload));
            Ok(ran(rates.next().unwrap(), 20.0))
        });
        let closeness = closeness.unwrap();
        assert_eq!((seeds.as_slice(), closeness.met), ([1, 2, 3, 4].as_slice(), false));
        assert!((profile.concurrency.think_ms - thoughts[2]).abs() < 1e-3, "{thoughts:?} {profile:?}");
        assert_eq!(closeness.rows[0].load, 700.0);
        let remarks = profile.remarks.join("; ");
        assert!(remarks.contains("on a file of 8.6 GB, but the requests span 20.0 GB"), "{remarks}");
        assert!(remarks.contains("does 700.0 requests/s instead of 792.0"), "{remarks}");
    }

    #[test]
    fn a_load_that_cannot_be_run_leaves_the_profile_as_it_was_counted() {
        let mut profile = observed();
        let error =
            fit_think_time(&mut profile, None, |_, _| Err(Failed("there is no fio".to_owned()))).unwrap_err();
        assert_eq!((error.0.as_str(), &profile), ("there is no fio", &observed()));
    }
}
