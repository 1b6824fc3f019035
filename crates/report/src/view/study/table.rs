//! The cells of a study as a table for other programs: one row a cell, numbers with their intervals.

use nestor_export::{Table, Values};
use nestor_statistics::{Interval, LatencySummary, Mean, Ratio};
use nestor_workload::RateUnit;

use super::{CellReport, StudyReport};

impl StudyReport {
    /// All cells, in their order. Throughput is in the `throughput_unit` of its row; `ratio` is the throughput over that of the
    /// baseline in the same block, with the interval of the study's confidence; latencies are those of the class of operations
    /// that took most time altogether, merged over all runs.
    pub fn table(&self) -> Table {
        let confidence = self.study.study.confidence();
        let rows = Rows(&self.cells);
        let low = |interval: Option<Interval>| interval.map(|interval| interval.low);
        let high = |interval: Option<Interval>| interval.map(|interval| interval.high);
        Table::default()
            .with("study", rows.texts(|_| Some(self.name.clone())))
            .with("stack", rows.texts(|cell| Some(cell.stack.to_string())))
            .with("workload", rows.texts(|cell| Some(cell.workload.to_string())))
            .with("baseline", rows.texts(|cell| Some(cell.comparison.as_ref()?.baseline.stack.to_string())))
            .with("runs", rows.whole(|cell| cell.run.as_ref().map_or(0, |run| run.summary.samples.len())))
            .with("failed", rows.whole(|cell| cell.run.as_ref().map_or(0, |run| run.summary.failures.len())))
            .with("not_run", rows.whole(|cell| cell.not_run.len()))
            .with("throughput", rows.numbers(|cell| Some(throughput(cell)?.0.value)))
            .with("throughput_low", rows.numbers(|cell| low(throughput(cell)?.0.interval)))
            .with("throughput_high", rows.numbers(|cell| high(throughput(cell)?.0.interval)))
            .with("throughput_unit", rows.texts(|cell| Some(throughput(cell)?.1.base().to_owned())))
            .with("ratio", rows.numbers(|cell| Some(ratio(cell)?.value)))
            .with("ratio_low", rows.numbers(|cell| low(ratio(cell)?.interval)))
            .with("ratio_high", rows.numbers(|cell| high(ratio(cell)?.interval)))
            .with("ratio_pairs", rows.optional(|cell| i64::try_from(ratio(cell)?.pairs).ok()))
            .with("ratio_confidence", rows.numbers(|cell| ratio(cell)?.interval.map(|_| confidence)))
            .with("life_s", rows.numbers(|cell| Some(life(cell)?.value)))
            .with("life_low_s", rows.numbers(|cell| low(life(cell)?.interval)))
            .with("life_high_s", rows.numbers(|cell| high(life(cell)?.interval)))
            .with("latency_class", rows.texts(|cell| Some(latency(cell)?.0.clone())))
            .with("latency_p50_ns", rows.optional(|cell| i64::try_from(latency(cell)?.1.p50_ns).ok()))
            .with("latency_p90_ns", rows.optional(|cell| i64::try_from(latency(cell)?.1.p90_ns).ok()))
            .with("latency_p99_ns", rows.optional(|cell| i64::try_from(latency(cell)?.1.p99_ns).ok()))
            .with("latency_max_ns", rows.optional(|cell| i64::try_from(latency(cell)?.1.max_ns).ok()))
            .with("marks", rows.texts(|cell| Some(marks(cell)).filter(|marks| !marks.is_empty())))
    }
}

/// Makes columns of the cells.
struct Rows<'a>(&'a [CellReport]);

impl Rows<'_> {
    fn texts(&self, of: impl Fn(&CellReport) -> Option<String>) -> Values {
        Values::Text(self.0.iter().map(of).collect())
    }

    fn whole(&self, of: impl Fn(&CellReport) -> usize) -> Values {
        self.optional(|cell| i64::try_from(of(cell)).ok())
    }

    fn optional(&self, of: impl Fn(&CellReport) -> Option<i64>) -> Values {
        Values::Whole(self.0.iter().map(of).collect())
    }

    fn numbers(&self, of: impl Fn(&CellReport) -> Option<f64>) -> Values {
        Values::Number(self.0.iter().map(of).collect())
    }
}

fn throughput(cell: &CellReport) -> Option<(Mean, RateUnit)> {
    let summary = &cell.run.as_ref()?.summary;
    Some((summary.throughput()?, summary.rate_unit()))
}

fn ratio(cell: &CellReport) -> Option<Ratio> {
    cell.comparison.as_ref()?.ratio
}

fn life(cell: &CellReport) -> Option<Mean> {
    Some(cell.run.as_ref()?.lives_summary.as_ref()?.whole_s)
}

fn latency(cell: &CellReport) -> Option<(&String, &LatencySummary)> {
    cell.run.as_ref()?.summary.latency_of_longest()
}

fn marks(cell: &CellReport) -> String {
    cell.run.as_ref().map(|run| run.summary.mark_names()).unwrap_or_default()
}
