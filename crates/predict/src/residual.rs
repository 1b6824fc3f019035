//! What a prediction was off by, layer by layer.
//!
//! Methods predict a request's time as a whole. It is spread over the layers as the time was on the most similar stack where the
//! same load was traced; what each layer took beyond its part is its share of the residual. The shares add up to it.

use nestor_results::StoredRun;
use nestor_stack::{LayerRole, MachineName};
use serde::Serialize;

/// What is not spent in the block layers: the application, thinking, waiting for a processor; less what goes on in the background.
const ABOVE: &str = "above the block layer";

/// A layer's share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerResidual {
    /// Which layer; time at its lower edge without that of the layers below it.
    pub layer: String,
    /// In which machine.
    pub machine: MachineName,
    /// Milliseconds of each request of the load, as found.
    pub found_ms: f64,
    /// As predicted; none where nothing was predicted.
    pub predicted_ms: Option<f64>,
}

impl LayerResidual {
    /// Milliseconds that were predicted, less those found.
    pub fn off_ms(&self) -> Option<f64> {
        self.predicted_ms.map(|predicted_ms| predicted_ms - self.found_ms)
    }
}

/// A row of where a request's time went.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LayerTime {
    /// Which layer, as it is written in the stack.
    pub layer: String,
    /// What it is for in the stack.
    pub role: LayerRole,
    /// In which machine.
    pub machine: MachineName,
    /// Milliseconds of each request of the load, without those of the traced layers below.
    pub ms: f64,
}

/// From the top to the bottom, only what was traced; first what is above all layers.
pub(crate) type Times = Vec<LayerTime>;

/// Means over runs, each with the number of its requests and the milliseconds of a worker's pass; of the runs of which most layers
/// were traced. `None` where nothing was traced.
pub(crate) fn mean_times<'a>(runs: impl IntoIterator<Item = (&'a StoredRun, f64, f64)>) -> Option<Times> {
    let of_run = |(run, requests, pass_ms)| times(run, requests, pass_ms);
    let each: Vec<Times> = runs.into_iter().filter_map(of_run).collect();
    let mut mean = each.iter().max_by_key(|times| times.len())?.clone();
    let roles = |times: &Times| times.iter().map(|row| row.role.clone()).collect::<Vec<_>>();
    let same: Vec<&Times> = each.iter().filter(|times| roles(times) == roles(&mean)).collect();
    for (i, row) in mean.iter_mut().enumerate() {
        row.ms = same.iter().map(|times| times[i].ms).sum::<f64>() / same.len() as f64;
    }
    Some(mean)
}

/// Of one run. A request's time at a layer is that of all requests there, spread over those of the load.
fn times(run: &StoredRun, requests: f64, pass_ms: f64) -> Option<Times> {
    let measured = run.record.measured().filter(|_| requests > 0.0)?;
    let mut all: Times = measured
        .layers
        .iter()
        .filter_map(|layer| {
            let metrics = layer.metrics.as_ref()?;
            let time = metrics.q2c.as_ref().or(metrics.d2c.as_ref())?.summary()?;
            let ms = time.mean_ns * time.count as f64 / requests / 1e6;
            let (layer, role, machine) = (layer.layer.clone(), layer.role.clone(), layer.machine.clone());
            Some(LayerTime { layer, role, machine, ms })
        })
        .collect();
    let above = pass_ms - all.first()?.ms;
    for i in 1..all.len() {
        all[i - 1].ms -= all[i].ms;
    }
    all.insert(
        0,
        LayerTime {
            layer: ABOVE.to_owned(),
            role: LayerRole::Application,
            machine: MachineName::Unknown,
            ms: above,
        },
    );
    Some(all)
}

/// The same shares of a worker's pass of so many milliseconds. The mean of several runs' times is not the time of their mean rate.
pub(crate) fn adding_up_to(mut times: Times, pass_ms: f64) -> Times {
    let all: f64 = times.iter().map(|row| row.ms).sum();
    if all > 0.0 {
        times.iter_mut().for_each(|row| row.ms *= pass_ms / all);
    }
    times
}

/// What was found beside the predicted milliseconds, which are spread as `like` is. A layer that only one of the two has, or that
/// was traced in only one, is taken together with the one above it: there its time is in the other's.
pub(crate) fn by_layer(found: &Times, like: Option<(&Times, f64)>) -> Vec<LayerResidual> {
    let (rows, spread) = match like {
        Some((like, predicted)) => (shared(found, like), Some((shared(like, found), predicted))),
        None => (found.clone(), None),
    };
    let total: f64 = spread.iter().flat_map(|(like, _)| like).map(|row| row.ms).sum();
    let predicted_ms = |i: usize| {
        let (like, predicted) = spread.as_ref()?;
        (total > 0.0).then(|| like[i].ms / total * predicted)
    };
    let each = rows.into_iter().enumerate();
    each.map(|(i, row)| LayerResidual {
        layer: row.layer,
        machine: row.machine,
        found_ms: row.ms,
        predicted_ms: predicted_ms(i),
    })
    .collect()
}

/// The rows whose role is in `others` as well, the n-th of a role there being the n-th here; each with those below it that are not.
/// Counted from the bottom: the medium of the two is the same kind of thing, and what one has more is a machine on top.
fn shared(times: &Times, others: &Times) -> Times {
    let count = |rows: &[LayerTime], role: &LayerRole| rows.iter().filter(|row| row.role == *role).count();
    let mut kept: Times = Vec::new();
    for (i, row) in times.iter().enumerate() {
        let below = count(&times[i + 1..], &row.role);
        match kept.last_mut() {
            Some(above) if count(others, &row.role) <= below => {
                above.layer = format!("{} + {}", above.layer, row.layer);
                above.ms += row.ms;
            }
            _ => kept.push(row.clone()),
        }
    }
    kept
}

#[cfg(test)]
mod tests {

    use nestor_results::{CellRecord, Environment, LayerRecord, Measured, Outcome, TraceMode};
    use nestor_statistics::LatencyHistogram;
    use nestor_trace::{LayerMetrics, TracePoint};
    use nestor_workload::LoadResult;

    use super::*;

    /// Requests at a layer, with the milliseconds that each took there; those that were timed from the device only have no time in
    /// the queue.
    enum Traced {
        Not,
        FromQueue(u64, u64),
        FromDevice(u64, u64),
    }

    /// A run with these layers, from the top, each by its role.
    fn run(number: i64, layers: &[(&str, Traced)]) -> StoredRun {
        let took = |count: u64, ms: u64| {
            let mut histogram = LatencyHistogram::default();
            histogram.record_many_ns(ms * 1_000_000, count);
            Some(histogram)
        };
        let layer = |(role, traced): &(&str, Traced)| {
            let metrics = match traced {
                Traced::Not => None,
                Traced::FromQueue(count, ms) => {
                    let d2c = took(*count, 1);
                    Some(LayerMetrics {
                        q2c: took(*count, *ms),
                        d2c,
                        ..LayerMetrics::new(TracePoint::Blktrace)
                    })
                }
                Traced::FromDevice(count, ms) => {
                    Some(LayerMetrics { d2c: took(*count, *ms), ..LayerMetrics::new(TracePoint::DiskLog) })
                }
            };
            LayerRecord::new(format!("the {role}"), *role, MachineName::HOST, metrics)
        };
        let load = LoadResult { elapsed_ns: 1, scale_factor: 1.0, ..LoadResult::default() };
        let measured = Measured { load, layers: layers.iter().map(layer).collect(), ..Measured::default() };
        let record = CellRecord {
            stack: "ext4/hdd".into(),
            workload: String::new().into(),
            study: None,
            study_hash: None,
            block: 0,
            repeat: 0,
            position: 0,
            trace: TraceMode::Layers,
            untraced_twin: false,
            started_at: String::new(),
            cell_s: 1.0,
            load_s: None,
            outcome: Outcome::Measured(measured),
            marks: Vec::new(),
            environment: Environment::default(),
        };
        StoredRun { number, id: number.to_string(), record }
    }

    fn words((role, ms): (&str, f64)) -> (String, f64) {
        (role.to_owned(), ms)
    }

    /// Roles with their milliseconds, to the nearest hundredth: histograms are that exact.
    fn rounded(times: &Times) -> Vec<(String, f64)> {
        times.iter().map(|row| (row.role.to_string(), (row.ms * 100.0).round() / 100.0)).collect()
    }

    #[test]
    fn time_at_a_layer_is_without_that_of_the_layers_below() {
        let layers = [
            ("application", Traced::Not),
            ("guest fs", Traced::FromQueue(100, 8)),
            ("virtual machine", Traced::Not),
            // Twice as many requests, half of them its own: it is the load's requests that the time is spread over.
            ("host fs", Traced::FromQueue(200, 3)),
            ("disk", Traced::FromDevice(100, 5)),
        ];
        let run = run(1, &layers);
        let found = super::times(&run, 100.0, 10.0).unwrap();
        assert_eq!(
            rounded(&found),
            [("", 2.0), ("guest fs", 2.0), ("host fs", 1.0), ("disk", 5.0)].map(words)
        );
        assert_eq!((found[0].layer.as_str(), found[3].layer.as_str()), (ABOVE, "the disk"));
        let all: f64 = found.iter().map(|row| row.ms).sum();
        assert!((all - 10.0).abs() < 1e-9, "they add up to a worker's pass: {found:?}");
        // Without requests, or without a trace, nothing is known.
        assert_eq!(super::times(&run, 0.0, 10.0), None);
        assert_eq!(super::times(&self::run(2, &[("application", Traced::Not)]), 100.0, 10.0), None);
    }

    #[test]
    fn layers_add_up_to_what_was_found() {
        let found = times(&[("", 1.0), ("guest fs", -0.5), ("disk", 3.5)]);
        let scaled = adding_up_to(found, 8.0);
        assert_eq!(rounded(&scaled), [("", 2.0), ("guest fs", -1.0), ("disk", 7.0)].map(words));
    }

    #[test]
    fn means_are_of_the_runs_of_which_most_layers_were_traced() {
        let two = |number: i64, guest: u64, disk: u64| {
            let layers =
                [("guest fs", Traced::FromQueue(100, guest)), ("disk", Traced::FromQueue(100, disk))];
            run(number, &layers)
        };
        let runs = [
            run(1, &[("disk", Traced::FromQueue(100, 50))]),
            two(2, 6, 4),
            two(3, 10, 6),
            run(4, &[("disk", Traced::Not)]),
        ];
        let of = |run| (run, 100.0, 12.0);
        let mean = mean_times(runs.iter().map(of)).unwrap();
        assert_eq!(rounded(&mean), [("", 4.0), ("guest fs", 3.0), ("disk", 5.0)].map(words));
        assert_eq!(
            rounded(&mean_times([of(&runs[1])]).unwrap()),
            [("", 6.0), ("guest fs", 2.0), ("disk", 4.0)].map(words)
        );
        assert_eq!(mean_times([of(&runs[3])]), None);
        assert_eq!(mean_times([]), None);
    }

    fn times(rows: &[(&str, f64)]) -> Times {
        let row = |(role, ms): &(&str, f64)| LayerTime {
            layer: format!("the {role}"),
            role: (*role).into(),
            machine: MachineName::HOST,
            ms: *ms,
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn layers_are_held_against_their_own_kind_and_shares_add_up_to_the_residual() {
        let found = times(&[("", 2.0), ("guest fs", 1.0), ("host fs", 3.0), ("disk", 6.0)]);
        let alike = [
            (times(&[("", 1.0), ("guest fs", 1.0), ("host fs", 2.0), ("disk", 4.0)]), 4),
            (times(&[("", 1.0), ("guest fs", 1.0), ("disk", 4.0)]), 3),
            (
                times(&[
                    ("", 1.0),
                    ("guest fs", 1.0),
                    ("virtual machine", 1.0),
                    ("host fs", 1.0),
                    ("disk", 4.0),
                ]),
                4,
            ),
            (times(&[("", 1.0), ("disk", 4.0)]), 2),
        ];
        for (like, rows) in alike {
            let by_layer = by_layer(&found, Some((&like, 10.0)));
            assert_eq!(by_layer.len(), rows, "{by_layer:?}");
            let off: f64 = by_layer.iter().map(|row| row.predicted_ms.unwrap() - row.found_ms).sum();
            assert!((off - (10.0 - 12.0)).abs() < 1e-9, "{by_layer:?}");
            let disk = by_layer.last().unwrap();
            let disk_ms = like.last().unwrap().ms / like.iter().map(|row| row.ms).sum::<f64>() * 10.0;
            assert_eq!((disk.found_ms, disk.predicted_ms), (6.0, Some(disk_ms)));
        }
        assert!(by_layer(&found, None).iter().all(|row| row.predicted_ms.is_none()));
    }

    #[test]
    fn what_was_traced_on_one_side_only_is_with_the_layer_above() {
        let found = times(&[("", 2.0), ("guest fs", 1.0), ("host fs", 3.0), ("disk", 6.0)]);
        let like = times(&[("", 1.0), ("guest fs", 1.0), ("disk", 4.0)]);
        let rows = by_layer(&found, Some((&like, 6.0)));
        assert_eq!(rows[1].layer, "the guest fs + the host fs");
        assert_eq!((rows[1].found_ms, rows[1].predicted_ms), (4.0, Some(1.0)));
        // Of two machines the lower one is the other stack's only one.
        let nested = times(&[("", 2.0), ("guest fs", 1.0), ("guest fs", 3.0), ("disk", 6.0)]);
        assert_eq!(by_layer(&nested, Some((&like, 6.0)))[1].found_ms, 3.0);
    }
}
