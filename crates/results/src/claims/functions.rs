//! Functions for the queries of claims and figures that SQLite lacks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nestor_statistics::prediction::{Rounding, TargetMachine, Transaction, capacity};
use nestor_statistics::{coefficient_of_variation, geometric_mean, mean_at, median, rank_correlation};
use rusqlite::Connection;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::FromSql;

use super::limits::with_room;
use super::searches::limit_searches;

/// `None` where the samples do not have it. The second argument is the confidence of intervals.
type OfSamples = fn(&[f64], f64) -> Option<f64>;

/// Samples that all statistics of a connection may hold at once.
const MOST_SAMPLES: usize = 2_000_000;

/// Samples that are held now.
#[derive(Clone, Default)]
struct Held(Arc<AtomicUsize>);

/// The samples of one statistic.
struct Samples<T> {
    values: Vec<T>,
    held: Held,
}

impl<T> Samples<T> {
    fn new(held: &Held) -> Self {
        Self { values: Vec::new(), held: held.clone() }
    }

    fn push(&mut self, value: T) -> rusqlite::Result<()> {
        if self.held.0.load(Ordering::Relaxed) >= MOST_SAMPLES {
            let reason = format!("its statistics are of over {MOST_SAMPLES} samples");
            return Err(rusqlite::Error::UserFunctionError(reason.into()));
        }
        self.held.0.fetch_add(1, Ordering::Relaxed);
        self.values.push(value);
        Ok(())
    }
}

impl<T> Drop for Samples<T> {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.values.len(), Ordering::Relaxed);
    }
}

/// A statistic of a column that SQLite does not have.
struct Statistic {
    of: OfSamples,
    confidence: f64,
    held: Held,
}

impl Aggregate<Samples<f64>, Option<f64>> for Statistic {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Samples<f64>> {
        Ok(Samples::new(&self.held))
    }

    fn step(&self, context: &mut Context<'_>, samples: &mut Samples<f64>) -> rusqlite::Result<()> {
        argument::<Option<f64>>(context, 0)?.map_or(Ok(()), |sample| samples.push(sample))
    }

    fn finalize(&self, _: &mut Context<'_>, samples: Option<Samples<f64>>) -> rusqlite::Result<Option<f64>> {
        Ok(samples.and_then(|samples| (self.of)(&samples.values, self.confidence)))
    }
}

/// How the order of two columns agrees.
struct RankCorrelation {
    held: Held,
}

impl Aggregate<Samples<(f64, f64)>, Option<f64>> for RankCorrelation {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Samples<(f64, f64)>> {
        Ok(Samples::new(&self.held))
    }

    fn step(&self, context: &mut Context<'_>, pairs: &mut Samples<(f64, f64)>) -> rusqlite::Result<()> {
        match (argument(context, 0)?, argument(context, 1)?) {
            (Some(a), Some(b)) => pairs.push((a, b)),
            _ => Ok(()),
        }
    }

    fn finalize(
        &self,
        _: &mut Context<'_>,
        pairs: Option<Samples<(f64, f64)>>,
    ) -> rusqlite::Result<Option<f64>> {
        Ok(pairs.and_then(|pairs| rank_correlation(&pairs.values)))
    }
}

/// An argument of a function, which takes memory where SQLite has not written it out yet.
fn argument<T: FromSql>(context: &Context<'_>, index: usize) -> rusqlite::Result<T> {
    with_room(|| context.get(index))
}

/// `geomean`, `median`, `cov` (in per cent), the ends of the interval of a geometric mean at the study's confidence, `rank_correlation(a, b)`, and
/// the transaction model: `transaction_ms(compute, system, disk, overhead share, compute scale, rounded)` and
/// `capacity(metric, reference ms, target ms, rounded)`. SQLite's searches are limited.
pub(super) fn add_functions(connection: &Connection, confidence: f64) -> rusqlite::Result<()> {
    limit_searches(connection)?;
    let held = Held::default();
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_aggregate_function(
        "rank_correlation",
        2,
        flags,
        RankCorrelation { held: held.clone() },
    )?;
    let rounding = |rounded: bool| if rounded { Rounding::AsPrinted } else { Rounding::Exact };
    connection.create_scalar_function("transaction_ms", 6, flags, move |context| {
        let number = |i: usize| argument(context, i);
        let transaction = Transaction { compute_ms: number(0)?, system_ms: number(1)?, disk_ms: number(2)? };
        let target = TargetMachine { overhead_share: number(3)?, compute_scale: number(4)? };
        Ok(transaction.on(target, rounding(argument(context, 5)?)))
    })?;
    connection.create_scalar_function("capacity", 4, flags, move |context| {
        let number = |i: usize| argument(context, i);
        Ok(capacity(number(0)?, number(1)?, number(2)?, rounding(argument(context, 3)?)))
    })?;
    let statistics: [(&str, OfSamples); 5] = [
        ("geomean", |samples, _| geometric_mean(samples)),
        ("median", |samples, _| median(samples)),
        ("cov", |samples, _| coefficient_of_variation(samples).map(|cov| cov * 100.0)),
        ("geomean_low", |samples, confidence| Some(interval(samples, confidence)?.0)),
        ("geomean_high", |samples, confidence| Some(interval(samples, confidence)?.1)),
    ];
    for (name, of) in statistics {
        connection.create_aggregate_function(
            name,
            1,
            flags,
            Statistic { of, confidence, held: held.clone() },
        )?;
    }
    Ok(())
}

fn interval(samples: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let logarithms: Vec<f64> = samples.iter().map(|s| s.ln()).collect();
    let interval = mean_at(&logarithms, confidence)?.interval?;
    Some((interval.low.exp(), interval.high.exp()))
}
