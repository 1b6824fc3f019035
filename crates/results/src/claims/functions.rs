//! Functions for the queries of claims and figures that SQLite lacks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nestor_stack::{Layer, Stack, XenDomain};
use nestor_statistics::prediction::{Rounding, TargetMachine, Transaction, capacity};
use nestor_statistics::{
    FittedLine, GroupSample, Variation, coefficient_of_variation, geometric_mean, mean_at, median,
    rank_correlation, variation_between,
};
use nestor_text::units::digits;
use rusqlite::Connection;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::FromSql;

use super::limits::with_room;
use super::searches::limit_searches;
use crate::WrittenStack;

/// `None` where the samples do not have it. The second argument is the confidence of intervals.
type OfSamples = fn(&[f64], f64) -> Option<f64>;

/// The same of pairs of two columns.
type OfPairs = fn(&[(f64, f64)], f64) -> Option<f64>;

/// A variation, or an end of its interval.
type OfVariation = fn(Variation) -> Option<f64>;

/// Samples that all statistics of a connection may hold at once.
const MOST_SAMPLES: usize = 2_000_000;

/// Of functions whose result depends on their arguments only.
const PURE: FunctionFlags = FunctionFlags::SQLITE_UTF8.union(FunctionFlags::SQLITE_DETERMINISTIC);

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

/// A statistic of the pairs of two columns; a row that lacks one of both is none.
struct StatisticOfPairs {
    of: OfPairs,
    confidence: f64,
    held: Held,
}

impl Aggregate<Samples<(f64, f64)>, Option<f64>> for StatisticOfPairs {
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
        Ok(pairs.and_then(|pairs| (self.of)(&pairs.values, self.confidence)))
    }
}

/// The members of a group and what was measured of each in each block.
struct Members {
    names: Vec<String>,
    samples: Samples<GroupSample>,
}

/// How much members vary, free of what their runs vary by.
struct VariationOfMembers {
    end: OfVariation,
    confidence: f64,
    held: Held,
}

impl Aggregate<Members, Option<f64>> for VariationOfMembers {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Members> {
        Ok(Members { names: Vec::new(), samples: Samples::new(&self.held) })
    }

    fn step(&self, context: &mut Context<'_>, members: &mut Members) -> rusqlite::Result<()> {
        let (Some(name), Some(block), Some(value)) =
            (argument::<Option<String>>(context, 0)?, argument(context, 1)?, argument(context, 2)?)
        else {
            return Ok(());
        };
        let group = members.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            members.names.push(name);
            members.names.len() - 1
        });
        members.samples.push(GroupSample { group, block, value })
    }

    fn finalize(&self, _: &mut Context<'_>, members: Option<Members>) -> rusqlite::Result<Option<f64>> {
        let variation = members.and_then(|m| variation_between(&m.samples.values, self.confidence));
        Ok(variation.and_then(self.end).map(|share| 100.0 * share.max(0.0)))
    }
}

/// An argument of a function, which takes memory where SQLite has not written it out yet.
fn argument<T: FromSql>(context: &Context<'_>, index: usize) -> rusqlite::Result<T> {
    with_room(|| context.get(index))
}

/// `geomean`, `median`, `cov` (in per cent), the ends of the intervals of an arithmetic and of a geometric mean at the study's confidence,
/// `variation(member, block, value)` (in per cent) and the ends of its interval, `rank_correlation(a, b)`, `slope(x, y)` and `intercept(x, y)` of
/// the line of least squares with the ends of their intervals, and the transaction model: `transaction_ms(compute, system, disk, overhead share, compute scale, rounded)` and
/// `capacity(metric, reference ms, target ms, rounded)`; `digits(x)`, a number as the program prints it; and, for a stack that this version knows, `is_beside(stack)`, `link_bits_per_s(stack)` of the link
/// to its source, `xen_domain(stack)` and `partition_start(stack)`, in bytes. SQLite's searches are limited.
pub(super) fn add_functions(connection: &Connection, confidence: f64) -> rusqlite::Result<()> {
    limit_searches(connection)?;
    add_model(connection)?;
    connection.create_scalar_function("digits", 1, PURE, |context| {
        let number = argument::<Option<f64>>(context, 0)?;
        Ok(number.map(digits))
    })?;
    connection.create_scalar_function("is_beside", 1, PURE, |context| {
        let stack = argument::<WrittenStack>(context, 0)?;
        Ok(stack.value().is_some_and(Stack::is_beside))
    })?;
    connection.create_scalar_function("link_bits_per_s", 1, PURE, |context| {
        let stack = argument::<WrittenStack>(context, 0)?;
        let link = stack.value().and_then(|stack| stack.source().iter().find_map(Layer::link));
        Ok(link.map(|link| link.rate.get().cast_signed()))
    })?;
    connection.create_scalar_function("xen_domain", 1, PURE, |context| {
        let stack = argument::<WrittenStack>(context, 0)?;
        Ok(stack.value().and_then(Stack::xen_domain).map(XenDomain::name))
    })?;
    connection.create_scalar_function("partition_start", 1, PURE, |context| {
        let stack = argument::<WrittenStack>(context, 0)?;
        let topmost = stack.value().and_then(|stack| stack.layers().iter().find_map(Layer::partition));
        Ok(topmost.map(|partition| partition.start.bytes().get().cast_signed()))
    })?;
    let held = Held::default();
    add_statistics_of_pairs(connection, confidence, &held)?;
    let ends: [(&str, OfVariation); 3] = [
        ("variation", |found| Some(found.value)),
        ("variation_low", |found| Some(found.interval?.low)),
        ("variation_high", |found| Some(found.interval?.high)),
    ];
    for (name, end) in ends {
        let variation = VariationOfMembers { end, confidence, held: held.clone() };
        connection.create_aggregate_function(name, 3, PURE, variation)?;
    }
    let statistics: [(&str, OfSamples); 7] = [
        ("geomean", |samples, _| geometric_mean(samples)),
        ("median", |samples, _| median(samples)),
        ("cov", |samples, _| coefficient_of_variation(samples).map(|cov| cov * 100.0)),
        ("mean_low", |samples, confidence| Some(mean_at(samples, confidence)?.interval?.low)),
        ("mean_high", |samples, confidence| Some(mean_at(samples, confidence)?.interval?.high)),
        ("geomean_low", |samples, confidence| Some(interval(samples, confidence)?.0)),
        ("geomean_high", |samples, confidence| Some(interval(samples, confidence)?.1)),
    ];
    for (name, of) in statistics {
        connection.create_aggregate_function(
            name,
            1,
            PURE,
            Statistic { of, confidence, held: held.clone() },
        )?;
    }
    Ok(())
}

/// What two columns have to do with each other.
fn add_statistics_of_pairs(connection: &Connection, confidence: f64, held: &Held) -> rusqlite::Result<()> {
    let statistics: [(&str, OfPairs); 7] = [
        ("rank_correlation", |pairs, _| rank_correlation(pairs)),
        ("slope", |points, _| Some(FittedLine::through(points)?.slope())),
        ("slope_low", |points, at| Some(FittedLine::through(points)?.slope_interval(at)?.low)),
        ("slope_high", |points, at| Some(FittedLine::through(points)?.slope_interval(at)?.high)),
        ("intercept", |points, _| Some(FittedLine::through(points)?.intercept())),
        ("intercept_low", |points, at| Some(FittedLine::through(points)?.intercept_interval(at)?.low)),
        ("intercept_high", |points, at| Some(FittedLine::through(points)?.intercept_interval(at)?.high)),
    ];
    for (name, of) in statistics {
        let statistic = StatisticOfPairs { of, confidence, held: held.clone() };
        connection.create_aggregate_function(name, 2, PURE, statistic)?;
    }
    Ok(())
}

/// The model of transactions.
fn add_model(connection: &Connection) -> rusqlite::Result<()> {
    let rounding = |rounded: bool| if rounded { Rounding::AsPrinted } else { Rounding::Exact };
    connection.create_scalar_function("transaction_ms", 6, PURE, move |context| {
        let number = |i: usize| argument(context, i);
        let transaction = Transaction { compute_ms: number(0)?, system_ms: number(1)?, disk_ms: number(2)? };
        let target = TargetMachine { overhead_share: number(3)?, compute_scale: number(4)? };
        Ok(transaction.on(target, rounding(argument(context, 5)?)))
    })?;
    connection.create_scalar_function("capacity", 4, PURE, move |context| {
        let number = |i: usize| argument(context, i);
        Ok(capacity(number(0)?, number(1)?, number(2)?, rounding(argument(context, 3)?)))
    })?;
    Ok(())
}

fn interval(samples: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let logarithms: Vec<f64> = samples.iter().map(|s| s.ln()).collect();
    let interval = mean_at(&logarithms, confidence)?.interval?;
    Some((interval.low.exp(), interval.high.exp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_functions() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        add_functions(&connection, 0.95).unwrap();
        connection
    }

    #[test]
    fn numbers_have_three_digits() {
        let shown = |number: &str| -> Option<String> {
            with_functions().query_row(&format!("SELECT digits({number})"), [], |row| row.get(0)).unwrap()
        };
        assert_eq!(
            ["42.84", "0.66", "55"].map(shown),
            ["42.8", "0.66", "55.0"].map(|text| Some(text.to_owned()))
        );
        assert_eq!(shown("NULL"), None);
    }

    /// What statistics find in the rows (member, block, value).
    fn found(what: &str, rows: &str) -> Option<f64> {
        let connection = with_functions();
        let query = format!("WITH r(member, block, value) AS (VALUES {rows}) SELECT {what} FROM r");
        connection.query_row(&query, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_mean_has_students_interval() {
        // Mean 2, standard error 1/√3, factor of two degrees of freedom 4.3027.
        let three = "('a', 0, 1.0), ('a', 1, 2.0), ('a', 2, 3.0)";
        let half = 4.302_653 / 3.0_f64.sqrt();
        assert!((found("mean_low(value)", three).unwrap() - (2.0 - half)).abs() < 1e-5);
        assert!((found("mean_high(value)", three).unwrap() - (2.0 + half)).abs() < 1e-5);
        assert_eq!(found("mean_low(value)", "('a', 0, 1.0)"), None);
    }

    /// Of `(x, y)` = (1, 2), (3, 6), (4, 9): x̄ = 8/3, Σ(x − x̄)² = 14/3, slope 16/7, intercept −3/7; residuals 1/7, −3/7, 2/7, so a variance
    /// of 2/7; one degree of freedom has the factor 12.7062.
    #[test]
    fn a_line_has_students_intervals() {
        let rows = "(0, 1.0, 2.0), (0, 3.0, 6.0), (0, NULL, 5.0), (0, 4.0, 9.0), (0, 7.0, NULL)";
        let near = |what: &str, expected: f64| {
            let value = found(&format!("{what}(block, value)"), rows).unwrap();
            assert!((value - expected).abs() < 1e-4, "{what}: {value}, not {expected}");
        };
        let (slope, intercept) = (16.0 / 7.0, -3.0 / 7.0);
        let of_slope = 12.706_205 * (2.0 / 7.0 * 3.0 / 14.0_f64).sqrt();
        let of_intercept = 12.706_205 * (2.0 / 7.0 * (1.0 / 3.0 + 64.0 / 9.0 * 3.0 / 14.0_f64)).sqrt();
        near("slope", slope);
        near("slope_low", slope - of_slope);
        near("slope_high", slope + of_slope);
        near("intercept", intercept);
        near("intercept_low", intercept - of_intercept);
        near("intercept_high", intercept + of_intercept);
        for end in ["slope_low", "slope_high", "intercept_low", "intercept_high"] {
            assert_eq!(found(&format!("{end}(block, value)"), "(0, 1.0, 2.0), (0, 3.0, 6.0)"), None, "{end}");
        }
        assert_eq!(found("slope(block, value)", "(0, 1.0, 2.0), (0, 1.0, 6.0)"), None);
        assert_eq!(found("intercept(block, value)", "(0, NULL, 2.0)"), None);
    }

    #[test]
    fn the_confidence_of_a_line_is_that_of_the_study() {
        let low = |confidence| {
            let connection = Connection::open_in_memory().unwrap();
            add_functions(&connection, confidence).unwrap();
            let query = "SELECT slope_low(column1, column2) FROM (VALUES (1, 2.0), (3, 6.0), (4, 9.0))";
            connection.query_row(query, [], |row| row.get::<_, f64>(0)).unwrap()
        };
        assert!(low(0.99) < low(0.95));
    }

    #[test]
    fn variation_between_members_is_not_that_of_their_runs() {
        // Members at 1, 2 and 3 in each of three blocks: √(exp(s²) − 1), with s that of their logarithms.
        let logarithms = [0.0, 2.0_f64.ln(), 3.0_f64.ln()];
        let mean = logarithms.iter().sum::<f64>() / 3.0;
        let variance = logarithms.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / 2.0;
        let expected = 100.0 * variance.exp_m1().sqrt();
        let still = "('a', 0, 1.0), ('b', 0, 2.0), ('c', 0, 3.0), ('a', 1, 1.0), ('b', 1, 2.0), ('c', 1, 3.0), \
                     ('a', 2, 1.0), ('b', 2, 2.0), ('c', 2, 3.0)";
        for end in ["variation", "variation_low", "variation_high"] {
            let value = found(&format!("{end}(member, block, value)"), still).unwrap();
            assert!((value - expected).abs() < 1e-9, "{end}: {value}");
        }
        // The same numbers, but each member takes a turn at each of them.
        let turning = "('a', 0, 1.0), ('b', 0, 2.0), ('c', 0, 3.0), ('a', 1, 2.0), ('b', 1, 3.0), ('c', 1, 1.0), \
                       ('a', 2, 3.0), ('b', 2, 1.0), ('c', 2, 2.0)";
        assert_eq!(found("variation(member, block, value)", turning), Some(0.0));
        assert_eq!(found("variation(member, block, value)", "('a', 0, 1.0), ('b', 0, 2.0)"), None);
    }
}
