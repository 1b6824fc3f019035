//! Distributions that the recorder has counted itself, for people: a line for each, and then each bucket.

use nestor_report::units::{bytes, count, duration_ns, share};
use nestor_trace::{CountedHistogram, Unit};

use crate::output::table;

/// Disks whose buckets are listed; of more there are the lines only, and all in the JSON.
const MOST_LISTED: usize = 64;

/// All of them, by disk; nothing where there are none.
pub fn text(histograms: &[CountedHistogram]) -> String {
    let mut text = String::new();
    let mut rest = histograms;
    let mut disks = 0;
    while let Some(first) = rest.first() {
        let disk = name(first);
        let same = rest.iter().take_while(|histogram| name(histogram) == disk).count();
        let (of_disk, others) = rest.split_at(same);
        rest = others;
        disks += 1;
        text += &format!("\n{disk}\n{}", summary(of_disk));
        if disks <= MOST_LISTED {
            of_disk.iter().for_each(|histogram| text += &buckets(histogram));
        }
    }
    if disks > MOST_LISTED {
        text += &format!("\n  --json shows the buckets of {} more\n", disks - MOST_LISTED);
    }
    text
}

/// The virtual disk and its machine, as far as they are named.
fn name(histogram: &CountedHistogram) -> String {
    let counted = &histogram.histogram;
    let mut parts = Vec::new();
    parts.extend(counted.disk.clone());
    parts.extend(counted.handle.map(|handle| format!("handle {handle}")));
    parts.extend(counted.world_group.map(|group| format!("world group {group}")));
    if parts.is_empty() { "virtual disk".to_owned() } else { parts.join(", ") }
}

fn value(unit: Unit, value: i64) -> String {
    match unit {
        Unit::Microseconds => duration_ns(value as f64 * 1000.0),
        Unit::Bytes if value >= 0 => bytes(value.unsigned_abs()),
        Unit::Sectors => format!("{} sectors", signed(value)),
        Unit::Bytes | Unit::Number => signed(value),
    }
}

fn signed(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", count(value.unsigned_abs()))
}

fn summary(histograms: &[CountedHistogram]) -> String {
    let rows: Vec<[String; 8]> = histograms
        .iter()
        .map(|histogram| {
            let counted = &histogram.histogram;
            let with_unit =
                |number: Option<i64>| number.map_or_else(String::new, |n| value(histogram.unit, n));
            let parts = [histogram.p50_at_most, histogram.p90_at_most, histogram.p99_at_most];
            let [p50, p90, p99] = parts.map(with_unit);
            let (min, mean, max) = (with_unit(counted.min), with_unit(counted.mean), with_unit(counted.max));
            [counted.quantity.clone(), count(counted.count), min, mean, p50, p90, p99, max]
        })
        .collect();
    table(&["", "number", "min", "mean", "p50 up to", "p90 up to", "p99 up to", "max"], &rows)
}

fn buckets(histogram: &CountedHistogram) -> String {
    let counted = &histogram.histogram;
    let all: u64 = counted.buckets.iter().map(|bucket| bucket.count).sum();
    let mut below = None;
    let mut rows: Vec<[String; 3]> = Vec::new();
    for bucket in &counted.buckets {
        let limit = match (bucket.limit, below) {
            (Some(limit), _) => format!("up to {}", value(histogram.unit, limit)),
            (None, Some(below)) => format!("above {}", value(histogram.unit, below)),
            (None, None) => "all".to_owned(),
        };
        below = bucket.limit.or(below);
        if bucket.count > 0 {
            rows.push([limit, count(bucket.count), share(bucket.count as f64 / all as f64)]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    format!("\n{}", table(&[&counted.quantity, "number", "share"], &rows))
}
