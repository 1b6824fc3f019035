//! What a prediction was off by, layer by layer.
//!
//! Methods predict a request's time as a whole. It is spread over the layers as the time was on the most similar stack where the
//! same load was traced; what each layer took beyond its part is its share of the residual. The shares add up to it.

use nestor_study::StoredRun;
use serde::Serialize;

/// What is not spent in the block layers: the application, thinking, waiting for a processor; less what goes on in the background.
const ABOVE: &str = "above the block layer";
/// Layers of which the two stacks have different numbers.
const BETWEEN: &str = "layers between";

/// A layer's share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerResidual {
    /// Which layer; time at its lower edge without that of the layers below it.
    pub layer: String,
    /// In which machine.
    pub machine: String,
    /// Milliseconds of each request of the load, as found.
    pub found_ms: f64,
    /// As predicted; none where nothing was predicted.
    pub predicted_ms: Option<f64>,
}

/// Where a request's time went: layer, machine, milliseconds, from the top to the bottom; first what is above them all.
pub type Times = Vec<(String, String, f64)>;

/// Means over runs of which each has the number of its requests and the milliseconds of a worker's pass. `None` where nothing was
/// traced.
pub fn mean_times(runs: &[&StoredRun], of: impl Fn(&StoredRun) -> Option<(f64, f64)>) -> Option<Times> {
    let each: Vec<Times> = runs
        .iter()
        .filter_map(|run| {
            let (requests, pass_ms) = of(run)?;
            times(run, requests, pass_ms)
        })
        .collect();
    let mut sum = each.first()?.clone();
    let same: Vec<&Times> = each.iter().filter(|times| times.len() == sum.len()).collect();
    for (i, row) in sum.iter_mut().enumerate() {
        row.2 = same.iter().map(|times| times[i].2).sum::<f64>() / same.len() as f64;
    }
    Some(sum)
}

/// Of one run. A request's time at a layer is that of all requests there, spread over those of the load.
fn times(run: &StoredRun, requests: f64, pass_ms: f64) -> Option<Times> {
    let measured = run.record.measured().filter(|_| requests > 0.0)?;
    let traced: Vec<(String, String, f64)> = measured
        .layers
        .iter()
        .filter_map(|layer| {
            let metrics = layer.metrics.as_ref()?;
            let time = metrics.q2c.as_ref().or(metrics.d2c.as_ref())?.summary()?;
            let ms = time.mean_ns * time.count as f64 / requests / 1e6;
            Some((layer.layer.clone(), layer.machine.clone(), ms))
        })
        .collect();
    let top = traced.first()?.2;
    let mut all = vec![(ABOVE.to_owned(), String::new(), pass_ms - top)];
    for (i, (layer, machine, ms)) in traced.iter().enumerate() {
        let below = traced.get(i + 1).map_or(0.0, |(_, _, ms)| *ms);
        all.push((layer.clone(), machine.clone(), ms - below));
    }
    Some(all)
}

/// What was found beside the predicted milliseconds, which are spread as `like` is. Where the two have different numbers of
/// layers, all but the first two and the last are taken together.
pub fn by_layer(found: &Times, like: Option<(&Times, f64)>) -> Vec<LayerResidual> {
    let alike = like.is_some_and(|(like, _)| like.len() == found.len());
    let (rows, spread) = match like {
        Some((like, predicted)) if alike => (found.clone(), Some((like.clone(), predicted))),
        Some((like, predicted)) => (folded(found), Some((folded(like), predicted))),
        None => (found.clone(), None),
    };
    let total: f64 = spread.iter().flat_map(|(like, _)| like).map(|(_, _, ms)| ms).sum();
    let predicted_ms = |i: usize| {
        let (like, predicted) = spread.as_ref()?;
        (total > 0.0).then(|| like[i].2 / total * predicted)
    };
    let each = rows.into_iter().enumerate();
    each.map(|(i, (layer, machine, found_ms))| LayerResidual {
        layer,
        machine,
        found_ms,
        predicted_ms: predicted_ms(i),
    })
    .collect()
}

/// Four rows: above, the first layer, those between, the last.
fn folded(times: &Times) -> Times {
    let last = times.len() - 1;
    let between: f64 = times.iter().take(last).skip(2).map(|(_, _, ms)| ms).sum();
    let row = |at: usize| times[at].clone();
    let bottom = if last >= 2 { row(last) } else { (String::new(), String::new(), 0.0) };
    vec![row(0), row(1.min(last)), (BETWEEN.to_owned(), String::new(), between), bottom]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ms: &[f64]) -> Times {
        ms.iter().enumerate().map(|(i, ms)| (format!("layer {i}"), "host".to_owned(), *ms)).collect()
    }

    #[test]
    fn shares_add_up_to_the_residual() {
        let found = times(&[2.0, 1.0, 3.0, 6.0]);
        for like in [times(&[1.0, 1.0, 2.0, 4.0]), times(&[1.0, 1.0, 4.0]), times(&[1.0, 1.0, 1.0, 1.0, 4.0])]
        {
            let rows = by_layer(&found, Some((&like, 10.0)));
            assert_eq!(rows.len(), 4);
            let off: f64 = rows.iter().map(|row| row.predicted_ms.unwrap() - row.found_ms).sum();
            assert!((off - (10.0 - 12.0)).abs() < 1e-9, "{rows:?}");
        }
        assert!(by_layer(&found, None).iter().all(|row| row.predicted_ms.is_none()));
    }
}
