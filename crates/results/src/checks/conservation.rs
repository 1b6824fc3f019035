//! Identities that hold in every correct measurement, whatever the stack. A run that violates one is excluded from every statistic.
//!
//! Each sentence names the identity and both its sides. The tolerances allow for requests in flight when a recorder
//! started or stopped, and for the rounding of stored numbers.

use nestor_stack::LayerIndex;
use nestor_statistics::{LatencyHistogram, SHORTEST_LATENCY_NS, identity};
use nestor_trace::{DirectionMetrics, LayerMetrics, TracePoint};
use nestor_workload::Direction;

use super::{Expected, metrics_of, traced_below_application};
use crate::record::{LayerRecord, Measured};

/// Requests that may be in flight at each end of a trace: fio's depth of 255 at both. Recorders neither start nor stop
/// at the same moment, and what a kernel writes back in between (up to 40 requests in our own runs) is among these.
const UNDER_WAY: u64 = 512;
/// Share by which counts, volumes and the states of a life may differ.
const COUNT_TOLERANCE: f64 = 0.01;
/// Share by which sums of times may differ; histograms round each to three digits.
const TIME_TOLERANCE: f64 = 0.05;
/// Share by which the two sides of Little's law may differ at a layer (acceptance rules, §3 rule 8).
const LITTLES_LAW_TOLERANCE: f64 = 0.02;
/// Depths are stored in thousandths, so smaller ones are not known to within the tolerance.
const SMALLEST_DEPTH: f64 = 0.1;

/// Every identity that the numbers violate, in sentences.
pub(super) fn violations(measured: &Measured, expected: &Expected) -> Vec<String> {
    let mut reasons = Vec::new();
    for (layer, metrics) in traced(measured) {
        reasons.extend(uncompleted(layer, metrics));
        reasons.extend(stages_do_not_add_up(layer, metrics));
        reasons.extend(against_littles_law_at(layer, metrics));
    }
    reasons.extend(lost_between_neighbours(measured));
    reasons.extend(lost_before_back_ends(measured));
    reasons.extend(direct_disks_that_keep_writes(measured, expected));
    reasons.extend(direct_writes_that_did_not_arrive(measured, expected));
    reasons.extend(against_littles_law(measured, expected));
    reasons.extend(faster_than_the_medium(measured, expected));
    reasons.extend(lives_with_time_in_no_state(measured));
    reasons
}

/// The states of each instance add up to its whole life: no time is in none of them, and none in two.
fn lives_with_time_in_no_state(measured: &Measured) -> Vec<String> {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let wrong = measured
        .lives
        .iter()
        .enumerate()
        .filter(|(_, life)| life.unaccounted_ns() as f64 > COUNT_TOLERANCE * life.whole_ns() as f64);
    wrong
        .map(|(instance, life)| {
            format!(
                "conservation of time: the states of instance {instance} take {:.3} s together, its whole life {:.3} s",
                seconds(life.in_states_ns()),
                seconds(life.whole_ns())
            )
        })
        .collect()
}

/// The trace points, the application's own block device included.
fn traced(measured: &Measured) -> impl Iterator<Item = (&LayerRecord, &LayerMetrics)> {
    measured.layers.iter().filter_map(|l| l.metrics.as_ref().map(|m| (l, m)))
}

/// All issued requests have completed, except those in flight when the trace began and ended.
fn uncompleted(layer: &LayerRecord, metrics: &LayerMetrics) -> Option<String> {
    // Lost events have their own mark and make counts useless for this, as do requests that are counted twice.
    if metrics.dropped_events > 0 || metrics.reissued > 0 {
        return None;
    }
    let issued = metrics.issued();
    let completed = metrics.read.completed.saturating_add(metrics.write.completed);
    let allowed = ((issued as f64 * COUNT_TOLERANCE) as u64).max(UNDER_WAY);
    (issued.abs_diff(completed) > allowed)
        .then(|| format!("{} issued {issued} requests but {completed} completed", layer.layer))
}

/// Q2I + I2D + D2C = Q2C (the stages of `btt`'s "ALL" table): of each request where it was checked as it passed, else of
/// the means.
fn stages_do_not_add_up(layer: &LayerRecord, metrics: &LayerMetrics) -> Option<String> {
    let checked = metrics.identity;
    if checked.checked > 0 {
        let share = checked.violations as f64 / checked.checked as f64;
        return (metrics.dropped_events == 0 && share > COUNT_TOLERANCE).then(|| {
            format!(
                "at {} Q2I + I2D + D2C is not Q2C for {} of {} requests",
                layer.layer, checked.violations, checked.checked
            )
        });
    }
    // Q2C is per bio and the others per request, so the means agree only where hardly any was merged or split, and none
    // had a flush before or after it, which is in no request's time.
    let unmerged = metrics.merged_share().is_some_and(|share| share <= COUNT_TOLERANCE);
    let flushing = [metrics.flushes, metrics.flushes_queued, metrics.fua_writes, metrics.fua_writes_queued]
        .iter()
        .any(|n| *n > 0);
    if !unmerged || flushing {
        return None;
    }
    parts_differ(layer, metrics)
}

fn parts_differ(layer: &LayerRecord, metrics: &LayerMetrics) -> Option<String> {
    let (queue, service, whole) = (metrics.q2d.as_ref()?, metrics.d2c.as_ref()?, metrics.q2c.as_ref()?);
    let allowed = COUNT_TOLERANCE * whole.count() as f64;
    let near = |part: &LatencyHistogram| part.count().abs_diff(whole.count()) as f64 <= allowed;
    if whole.count() == 0 || !near(queue) || !near(service) {
        return None;
    }
    let (parts_ns, whole_ns) = ([mean_ns(queue), mean_ns(service)], mean_ns(whole));
    let error = identity::sum_error(&parts_ns, whole_ns)?;
    // Histograms count what took no time as their shortest duration, each part by itself.
    let counted = parts_ns.len() as f64 * SHORTEST_LATENCY_NS as f64;
    (error.abs() > TIME_TOLERANCE && error.abs() * whole_ns > counted)
        .then(|| format!("at {} Q2D + D2C differ from Q2C by {:+.0} %", layer.layer, error * 100.0))
}

fn mean_ns(histogram: &LatencyHistogram) -> f64 {
    histogram.summary().map_or(0.0, |s| s.mean_ns)
}

/// N = X·R at one layer: the mean depth that was counted over time is the rate of completions times their mean time.
///
/// Both sides come from the same requests in two ways, so they agree to a thousandth unless a request is missing in one
/// of them. Only where all requests were seen from their beginning to their end.
fn against_littles_law_at(layer: &LayerRecord, metrics: &LayerMetrics) -> Option<String> {
    let timeline = metrics.timeline.as_ref()?;
    let flushes = metrics.flushes.saturating_add(metrics.flushes_queued);
    let at_disk = metrics.trace_point == TracePoint::DiskLog;
    // A disk's depth counts flushes, whose time in its queue is not kept.
    let exact = metrics.dropped_events == 0
        && metrics.remarks.is_empty()
        && metrics.discard.issued == 0
        && !(at_disk && flushes > 0);
    let steps = timeline.depth.len();
    let (last, whole) = (*timeline.depth.last()?, timeline.step_ns as f64);
    let last_ns = metrics.span_s * 1e9 - (steps - 1) as f64 * whole;
    // A flush after the last request makes the span longer than the timeline.
    if !exact || last_ns <= 0.0 || last_ns > 1.5 * whole {
        return None;
    }
    // The last step ends with the last request, which a flush after it hides.
    let until_last_ns = timeline.depth[..steps - 1].iter().sum::<f64>() * whole;
    let [least, most] =
        [until_last_ns, until_last_ns + last * last_ns.min(whole)].map(|ns| ns / (metrics.span_s * 1e9));
    if least < SMALLEST_DEPTH {
        return None;
    }
    let service = metrics.d2c.as_ref()?;
    // A request is with a disk from when it arrived there.
    let time_ns = mean_ns(service) + if at_disk { metrics.i2d.as_ref().map_or(0.0, mean_ns) } else { 0.0 };
    let rate = service.count() as f64 / metrics.span_s;
    let depth = (rate * time_ns / 1e9).clamp(least, most);
    let error = identity::littles_law_error(depth, rate, time_ns / 1e9)?;
    (error.abs() > LITTLES_LAW_TOLERANCE).then(|| {
        format!(
            "Little's law at {}: {rate:.0} requests/s of {:.3} ms make {:.2} under way, {depth:.2} were counted",
            layer.layer,
            time_ns / 1e6,
            rate * time_ns / 1e9
        )
    })
}

/// What one trace point sent is what the next one received, where nothing is between the two: a guest's block device and
/// its virtual disk, a host's block device and the modelled disk.
fn lost_between_neighbours(measured: &Measured) -> Vec<String> {
    let traced: Vec<(usize, &LayerRecord, &LayerMetrics)> = measured
        .layers
        .iter()
        .enumerate()
        .filter_map(|(i, l)| l.metrics.as_ref().map(|m| (i, l, m)))
        .collect();
    let mut reasons = Vec::new();
    for pair in traced.windows(2) {
        let ((at, upper, sent), (below, lower, received)) = (pair[0], pair[1]);
        let joined = below == at + 1
            && is_block(sent)
            && matches!(received.trace_point, TracePoint::Hypervisor | TracePoint::DiskLog);
        if !joined || sent.dropped_events > 0 || received.dropped_events > 0 {
            continue;
        }
        for direction in Direction::BOTH {
            let (above, under) = (metrics_of(sent, direction), metrics_of(received, direction));
            // What was not completed, or issued twice, may count on both sides.
            let allowed =
                under_way_bytes(above).saturating_add(above.issued_bytes.abs_diff(above.completed_bytes));
            if beyond(above.issued_bytes, under.queued_bytes, allowed) != 0.0 {
                reasons.push(format!(
                    "conservation of bytes: {} sent {} bytes of {direction}s, {} received {}",
                    upper.layer, above.issued_bytes, lower.layer, under.queued_bytes
                ));
            }
        }
    }
    reasons
}

/// What a guest sent to its disk is what the back end of the disk counted, request by request.
fn lost_before_back_ends(measured: &Measured) -> Vec<String> {
    let mut reasons = Vec::new();
    for pair in measured.layers.windows(2) {
        let (Some(sent), Some(served)) = (pair[0].metrics.as_ref(), pair[1].served) else { continue };
        if !is_block(sent) || sent.dropped_events > 0 {
            continue;
        }
        for (direction, arrived) in [(Direction::Read, served.reads), (Direction::Write, served.writes)] {
            let above = metrics_of(sent, direction);
            let allowed = UNDER_WAY.saturating_add(above.issued.abs_diff(above.completed));
            if beyond(above.issued, arrived, allowed) != 0.0 {
                reasons.push(format!(
                    "conservation of requests: {} sent {} {direction}s, the back end of {} counted {arrived}",
                    pair[0].layer, above.issued, pair[1].layer
                ));
            }
        }
    }
    reasons
}

/// Whether a trace point is the kernel's block layer.
fn is_block(metrics: &LayerMetrics) -> bool {
    matches!(metrics.trace_point, TracePoint::Blktrace | TracePoint::Tracefs)
}

/// By how much volumes differ, as a share, beyond tolerance and the requests in flight; infinite where nothing was sent.
fn beyond(sent: u64, arrived: u64, under_way: u64) -> f64 {
    let share = identity::conservation_error(sent, arrived, under_way).unwrap_or(f64::INFINITY);
    if share.abs() > COUNT_TOLERANCE { share } else { 0.0 }
}

/// The bytes of as many requests as may have been in flight.
fn under_way_bytes(direction: &DirectionMetrics) -> u64 {
    let mean_bytes = direction.issued_bytes.checked_div(direction.issued).unwrap_or(4096).max(4096);
    UNDER_WAY.saturating_mul(mean_bytes)
}

/// Below a virtual disk that is opened past the page cache, the block device gets at least the bytes that the guest wrote.
fn direct_disks_that_keep_writes(measured: &Measured, expected: &Expected) -> Vec<String> {
    let at = |layer: Option<LayerIndex>| {
        let layer = measured.layer(layer)?;
        Some((layer, layer.metrics.as_ref().filter(|m| m.dropped_events == 0)?))
    };
    let kept = expected.direct_disks.iter().filter_map(|disk| {
        let ((guest, written), (host, arrived)) = (at(disk.hypervisor.above())?, at(Some(disk.host))?);
        let (written, arrived) = (&written.write, arrived.write.issued_bytes);
        // The guest's last requests may not have been completed.
        let sent = written.issued_bytes.min(written.completed_bytes);
        (beyond(sent, arrived, under_way_bytes(written)) < 0.0).then(|| {
            format!(
                "conservation of bytes: {} wrote {sent} bytes to a disk opened past the page cache, {} passed on {arrived}",
                guest.layer, host.layer
            )
        })
    });
    kept.collect()
}

/// The block device below the application gets at least the bytes that it wrote past its page cache.
fn direct_writes_that_did_not_arrive(measured: &Measured, expected: &Expected) -> Option<String> {
    let written = measured.load.bytes_of(Direction::Write).unwrap_or(0);
    let application = measured.layers.first()?;
    // The application's own device, or the one below the file system beside it.
    let beside = measured.layers.get(1).filter(|l| l.machine == application.machine);
    let layer = if application.metrics.is_some() { application } else { beside? };
    let metrics = layer.metrics.as_ref().filter(|m| m.dropped_events == 0)?;
    if !expected.writes_directly || !is_block(metrics) {
        return None;
    }
    let arrived = metrics.write.issued_bytes;
    (beyond(written, arrived, under_way_bytes(&metrics.write)) < 0.0).then(|| {
        format!(
            "conservation of bytes: the application wrote {written} bytes past the page cache, {} passed on {arrived}",
            layer.layer
        )
    })
}

/// No more operations can have been outstanding than the workload keeps outstanding.
fn against_littles_law(measured: &Measured, expected: &Expected) -> Option<String> {
    let concurrency = expected.concurrency?;
    let elapsed_s = measured.load.elapsed_ns as f64 / 1e9;
    let operation_seconds: f64 = measured
        .load
        .operations
        .values()
        .filter_map(|o| o.latency.summary())
        .map(|s| s.mean_ns / 1e9 * s.count as f64)
        .sum();
    let error = identity::littles_law_error(concurrency, 1.0 / elapsed_s, operation_seconds)?;
    (error > TIME_TOLERANCE).then(|| {
        format!(
            "Little's law: throughput times latency gives {:.1} operations outstanding, the workload keeps {concurrency}",
            operation_seconds / elapsed_s
        )
    })
}

/// The medium cannot have moved more than it can.
fn faster_than_the_medium(measured: &Measured, expected: &Expected) -> Vec<String> {
    let Some((layer, metrics)) = traced_below_application(measured).last() else { return Vec::new() };
    if metrics.span_s <= 0.0 {
        return Vec::new();
    }
    let bytes_per_s = metrics.issued_bytes() as f64 / metrics.span_s;
    let requests_per_s = metrics.issued() as f64 / metrics.span_s;
    let mut reasons = Vec::new();
    if let Some(limit) = expected.medium_bytes_per_s.filter(|l| bytes_per_s > l * (1.0 + TIME_TOLERANCE)) {
        let (seen, limit) = (bytes_per_s / 1e6, limit / 1e6);
        reasons
            .push(format!("{} moved {seen:.0} MB/s; it cannot move more than {limit:.0} MB/s", layer.layer));
    }
    if let Some(limit) =
        expected.medium_requests_per_s.filter(|l| requests_per_s > l * (1.0 + TIME_TOLERANCE))
    {
        reasons.push(format!(
            "{} served {requests_per_s:.0} requests/s; it cannot serve more than {limit:.0}",
            layer.layer
        ));
    }
    reasons
}
