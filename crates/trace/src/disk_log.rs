//! The modelled disk's own log as a layer.

use std::path::Path;

use nestor_disk::log::{Operation, Reader, Record};
use nestor_statistics::LatencyHistogram;

use crate::error::TraceError;
use crate::event::SECTOR_BYTES;
use crate::layer::seeks::Seeks;
use crate::layer::timeline::Spans;
use crate::metrics::{DirectionMetrics, DirectionTimes, Identity, LayerMetrics, ServiceTime, TracePoint};
use crate::request_file::request_of;

/// Different seek distances that are counted each.
const MOST_DISTANCES: usize = 100_000;

/// Condenses the request log of a modelled disk.
///
/// A disk queues and serves, so of the intervals of a layer it has I2D (arrival to start of service), D2C (service,
/// up to the posted completion) and Q2C (both). The parts of [`ServiceTime`] add up to the modelled service, which is
/// shorter than D2C by what serving adds, and include those of flushes. Of each request it is checked that they add up:
/// it arrived, its service began, it was complete, in this order. The intervals are of requests with data;
/// flushes have [`LayerMetrics::flush_d2c`]. Seeks are from each request with data to the one that was completed next,
/// and the depth over time counts what has arrived and is not complete, as the driver above does.
///
/// # Errors
/// The log cannot be read or is damaged. A log that ends within a record is read up to there and remarked on.
pub fn summarize_disk_log(path: &Path) -> Result<LayerMetrics, TraceError> {
    let mut reader = Reader::open(path)?;
    let (records, dropped) = (reader.header().records, reader.header().dropped);
    let mut layer = DiskLayer::new();
    let mut remarks = Vec::new();
    for record in &mut reader {
        match record {
            Ok(record) => layer.push(&record),
            Err(error) if layer.records > 0 => {
                remarks.push(error.to_string());
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    if records == 0 && layer.records > 0 {
        remarks.push(
            "the log was never closed: its last requests and the count of lost ones are missing".to_owned(),
        );
    }
    Ok(layer.finish(dropped, remarks))
}

#[derive(Debug)]
struct DiskLayer {
    records: u64,
    read: DirectionMetrics,
    write: DirectionMetrics,
    discard: DirectionMetrics,
    flushes: u64,
    i2d: LatencyHistogram,
    d2c: LatencyHistogram,
    q2c: LatencyHistogram,
    flush_d2c: LatencyHistogram,
    sizes: std::collections::BTreeMap<u64, u64>,
    service: ServiceTime,
    identity: Identity,
    /// First arrival, last completion.
    span_ns: Option<(u64, u64)>,
    /// Of the read and write that were logged last: the sector after.
    last_end: [Option<u64>; 2],
    sequential: [u64; 2],
    failed: u64,
    untimed: u64,
    /// Of reads, of writes.
    times: [Times; 2],
    seeks: Seeks,
    spans: Spans,
}

/// The intervals of one direction.
#[derive(Debug, Default)]
struct Times {
    q2d: LatencyHistogram,
    d2c: LatencyHistogram,
    q2c: LatencyHistogram,
}

impl Times {
    fn finish(self) -> DirectionTimes {
        DirectionTimes { q2d: some(self.q2d), d2c: some(self.d2c), q2c: some(self.q2c) }
    }
}

fn some(histogram: LatencyHistogram) -> Option<LatencyHistogram> {
    (histogram.count() > 0).then_some(histogram)
}

impl DiskLayer {
    fn new() -> Self {
        Self {
            records: 0,
            read: DirectionMetrics::default(),
            write: DirectionMetrics::default(),
            discard: DirectionMetrics::default(),
            flushes: 0,
            i2d: LatencyHistogram::default(),
            d2c: LatencyHistogram::default(),
            q2c: LatencyHistogram::default(),
            flush_d2c: LatencyHistogram::default(),
            sizes: std::collections::BTreeMap::new(),
            service: ServiceTime::default(),
            identity: Identity::default(),
            span_ns: None,
            last_end: [None; 2],
            sequential: [0; 2],
            failed: 0,
            untimed: 0,
            times: Default::default(),
            seeks: Seeks::new(MOST_DISTANCES),
            spans: Spans::new(),
        }
    }

    fn push(&mut self, record: &Record) {
        self.records += 1;
        let (first, last) = self.span_ns.unwrap_or((record.arrival_ns, record.complete_ns));
        self.span_ns = Some((first.min(record.arrival_ns), last.max(record.complete_ns)));
        self.failed += u64::from(record.failed);
        self.untimed += u64::from(!record.timed);
        self.service.seek_ns = self.service.seek_ns.saturating_add(record.seek_ns);
        self.service.rotation_ns = self.service.rotation_ns.saturating_add(record.rotation_ns);
        self.service.transfer_ns = self.service.transfer_ns.saturating_add(record.transfer_ns);
        self.service.overhead_ns = self.service.overhead_ns.saturating_add(record.overhead_ns);
        self.service.cache_hits += u64::from(record.cache_hit);
        self.spans.push_at_device(&request_of(record, self.records), u32::from(record.queue_depth));
        let service_ns = record.complete_ns.saturating_sub(record.service_start_ns);
        let bytes = u64::from(record.sectors) * SECTOR_BYTES;
        let (direction, lane) = match record.operation {
            Operation::Read => (&mut self.read, Some(0)),
            Operation::Write => (&mut self.write, Some(1)),
            Operation::Discard | Operation::WriteZeroes => (&mut self.discard, None),
            Operation::Flush => {
                self.flushes += 1;
                self.flush_d2c.record_ns(service_ns);
                return;
            }
        };
        for (count, sum) in [
            (&mut direction.queued, &mut direction.queued_bytes),
            (&mut direction.issued, &mut direction.issued_bytes),
            (&mut direction.completed, &mut direction.completed_bytes),
        ] {
            *count += 1;
            *sum += bytes;
        }
        self.i2d.record_ns(record.queue_ns());
        self.d2c.record_ns(service_ns);
        self.q2c.record_ns(record.latency_ns());
        self.identity.checked += 1;
        // An interval that runs backwards is counted as none, and then the sum is too long.
        self.identity.violations +=
            u64::from(record.queue_ns().saturating_add(service_ns) != record.latency_ns());
        let end = record.sector.saturating_add(u64::from(record.sectors));
        self.seeks.push(record.sector, end);
        if let Some(lane) = lane {
            self.times[lane].q2d.record_ns(record.queue_ns());
            self.times[lane].d2c.record_ns(service_ns);
            self.times[lane].q2c.record_ns(record.latency_ns());
            *self.sizes.entry(bytes).or_default() += 1;
            self.sequential[lane] += u64::from(self.last_end[lane] == Some(record.sector));
            self.last_end[lane] = Some(end);
        }
    }

    fn finish(self, dropped_events: u64, mut remarks: Vec<String>) -> LayerMetrics {
        let mut say = |count: u64, text: &str| {
            if count > 0 {
                remarks.push(format!("{count} {text}"));
            }
        };
        say(self.failed, "requests were answered with an error");
        say(self.untimed, "requests were served with the timing model off");
        say(dropped_events, "requests are missing in the log: all counts are lower bounds");
        let (first, last) = self.span_ns.unwrap_or_default();
        // Records stand in the order of completion, which is the order in which the medium was used.
        let share = |sequential: u64, of: u64| (of > 0).then(|| sequential as f64 / of as f64);
        let (reads, writes) = (self.read.issued, self.write.issued);
        let [sequential_reads, sequential_writes] = self.sequential;
        let [read_times, write_times] = self.times.map(Times::finish);
        LayerMetrics {
            trace_point: TracePoint::DiskLog,
            read: self.read,
            write: self.write,
            discard: self.discard,
            flushes: self.flushes,
            // virtio-blk has no FUA; the guest's kernel sends flushes instead.
            fua_writes: 0,
            flushes_queued: self.flushes,
            fua_writes_queued: 0,
            q2i: None,
            q2d: None,
            i2d: some(self.i2d),
            d2c: some(self.d2c),
            q2c: some(self.q2c),
            flush_d2c: some(self.flush_d2c),
            size_histogram: self.sizes,
            sequential_share: share(sequential_reads + sequential_writes, reads + writes),
            sequential_read_share: share(sequential_reads, reads),
            sequential_write_share: share(sequential_writes, writes),
            read_times,
            write_times,
            d2d_seeks: self.seeks.finish(),
            timeline: self.spans.finish(),
            service: Some(self.service),
            identity: self.identity,
            dropped_events,
            span_s: last.saturating_sub(first) as f64 / 1e9,
            remarks,
            ..LayerMetrics::new(TracePoint::DiskLog)
        }
    }
}

#[cfg(test)]
mod tests {
    use nestor_disk::log::{Header, Writer};

    use super::*;

    fn record(sequence: u64, operation: Operation, sector: u64, sectors: u32) -> Record {
        let arrival_ns = 1_000_000 + sequence * 10_000_000;
        Record {
            sequence,
            operation,
            sector,
            sectors,
            queue: 0,
            queue_depth: 1,
            arrival_ns,
            service_start_ns: arrival_ns + 1_000_000,
            complete_ns: arrival_ns + 9_100_000,
            model_complete_ns: arrival_ns + 9_000_000,
            seek_ns: 4_000_000,
            rotation_ns: 3_000_000,
            transfer_ns: 600_000,
            overhead_ns: 400_000,
            cache_hit: sequence == 1,
            timed: true,
            failed: false,
        }
    }

    fn write_log(path: &Path) {
        let header = Header {
            disk: "test".to_owned(),
            opened_ns: 0,
            sectors: 1 << 20,
            first_sector: 0,
            records: 0,
            dropped: 0,
        };
        let mut writer = Writer::create(path, header).unwrap();
        writer.push(record(0, Operation::Write, 0, 16));
        writer.push(record(1, Operation::Write, 16, 8));
        writer.push(record(2, Operation::Read, 512, 8));
        writer.push(record(3, Operation::Flush, 0, 0));
        writer.finish().unwrap();
    }

    #[test]
    fn a_log_is_a_layer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.log");
        write_log(&path);
        let m = summarize_disk_log(&path).unwrap();
        assert_eq!((m.write.issued, m.write.issued_bytes, m.read.issued, m.flushes), (2, 12_288, 1, 1));
        assert_eq!(m.size_histogram, [(4096, 2), (8192, 1)].into());
        let p50 = |h: Option<LatencyHistogram>| h.and_then(|h| h.quantile_ns(0.5)).unwrap() / 100_000;
        assert_eq!((p50(m.i2d), p50(m.d2c), p50(m.q2c), p50(m.flush_d2c)), (10, 81, 91, 81));
        let service = m.service.unwrap();
        assert_eq!((service.seek_ns, service.overhead_ns, service.cache_hits), (16_000_000, 1_600_000, 1));
        assert!((m.sequential_share.unwrap() - 1.0 / 3.0).abs() < 1e-9);
        assert!((m.span_s - 0.0391).abs() < 1e-9);
        assert_eq!(m.remarks, [""; 0]);
        assert_eq!((m.sequential_read_share, m.sequential_write_share), (Some(0.0), Some(0.5)));
        assert_eq!(m.write_times.d2c.unwrap().count(), 2);
    }

    #[test]
    fn a_log_has_the_seeks_and_the_time_line_of_a_block_layer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.log");
        write_log(&path);
        let m = summarize_disk_log(&path).unwrap();
        // From 0 to 0..16, on to 16..24 without a gap, then over 488 sectors to 512..520; a flush has no place.
        let seeks = m.d2d_seeks.unwrap();
        assert_eq!((seeks.count, seeks.mode_sectors, seeks.mode_count, seeks.span_sectors), (3, 0, 2, 520));
        assert!((seeks.mean_sectors - 488.0 / 3.0).abs() < 1e-9);
        assert_eq!((seeks.cdf_sectors.first(), seeks.cdf_sectors.last()), (Some(&0), Some(&488)));
        let timeline = m.timeline.unwrap();
        assert_eq!(timeline.start_ns, 1_000_000);
        assert_eq!(
            [&timeline.queued, &timeline.issued, &timeline.completed].map(|c| c.iter().sum::<u64>()),
            [4; 3]
        );
        assert_eq!(timeline.write_bytes.iter().sum::<u64>(), 12_288);
        assert_eq!(timeline.read_bytes.iter().sum::<u64>(), 4096);
        // Each of four requests is there for 9.1 of every 10 ms, the last one to the end.
        let busy_ns: f64 = timeline.depth.iter().map(|depth| depth * timeline.step_ns as f64).sum();
        assert!((busy_ns / 36.4e6 - 1.0).abs() < 0.01, "{busy_ns}");
        assert_eq!(timeline.depth_max.iter().max(), Some(&1));
        assert_eq!(timeline.depth_max.len(), timeline.depth.len());
    }

    #[test]
    fn the_log_as_a_layer_and_as_a_trace_say_the_same_of_seeks_and_depth() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.log");
        write_log(&path);
        let layer = summarize_disk_log(&path).unwrap();
        let trace = crate::decode::open(&[path]).unwrap().remove(0);
        let analysis = crate::analyze(trace, &crate::AnalyzeOptions::default()).unwrap();
        let analyzed = &analysis.layers[0].metrics;
        assert_eq!(analyzed.d2d_seeks, layer.d2d_seeks);
        assert_eq!(analyzed.timeline.as_ref().unwrap().depth, layer.timeline.unwrap().depth);
    }

    #[test]
    fn the_times_of_every_request_add_up_also_where_there_are_none() {
        let identity = |change: fn(&mut Record)| {
            let mut layer = DiskLayer::new();
            for sequence in 0..4 {
                let mut record = record(sequence, Operation::Write, sequence * 16, 16);
                change(&mut record);
                layer.push(&record);
            }
            layer.push(&record(4, Operation::Flush, 0, 0));
            layer.finish(0, Vec::new()).identity
        };
        assert_eq!(identity(|_| {}), Identity { checked: 4, violations: 0 });
        // A disk without timing in virtual time: all happens at one moment.
        let untimed = identity(|r| (r.service_start_ns, r.complete_ns) = (r.arrival_ns, r.arrival_ns));
        assert_eq!(untimed, Identity { checked: 4, violations: 0 });
        let early = identity(|r| r.service_start_ns = r.arrival_ns - r.sequence.min(1));
        assert_eq!(early, Identity { checked: 4, violations: 3 });
        let late = identity(|r| r.service_start_ns = r.complete_ns + 1);
        assert_eq!(late, Identity { checked: 4, violations: 4 });
    }

    #[test]
    fn a_torn_log_is_read_as_far_as_it_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.log");
        write_log(&path);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
        let m = summarize_disk_log(&path).unwrap();
        assert_eq!((m.write.issued, m.read.issued, m.flushes), (2, 1, 0));
        assert_eq!(m.remarks.len(), 1);
        std::fs::write(&path, &bytes[..50]).unwrap();
        assert!(summarize_disk_log(&path).is_err());
    }
}
