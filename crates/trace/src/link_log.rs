//! A link's log of frames: its numbers as a layer, and its frames as requests.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use nestor_layout::Class;
use nestor_link::log::{Ended, FrameReader, FrameRecord};
use nestor_link::{End, Sent};
use nestor_statistics::LatencyHistogram;
use serde::{Deserialize, Serialize};

use crate::error::TraceError;
use crate::event::Flags;
use crate::request::{Operation, Request};

/// The numbers of a link, over the measured time only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkMetrics {
    /// What the client's machine, above the link, has sent.
    pub to_server: FrameMetrics,
    /// What the server's machine has sent.
    pub to_client: FrameMetrics,
    /// The link's rate.
    pub rate_bits_per_s: u64,
    /// Seconds from the first frame that was taken to the last that left or was delivered.
    pub span_s: f64,
    /// What did not fit into the log, or could not be written in time; any number above zero makes counts lower bounds.
    pub dropped: u64,
    /// What is wrong with the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// The numbers of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FrameMetrics {
    /// Frames and bytes, as the link counts them.
    pub sent: Sent,
    /// What the machine sent at once: frames, or TCP segments that became several. A segment of which frames were lost counts as the runs of
    /// frames that arrive or are lost together.
    pub sendings: u64,
    /// Bytes with preambles, check sequences and gaps.
    pub wire_bytes: u64,
    /// Data of TCP segments.
    pub tcp_bytes: u64,
    /// Of that, what its connection had sent before; nothing in logs of earlier versions.
    #[serde(default, skip_serializing_if = "crate::rpc::is_zero")]
    pub tcp_again_bytes: u64,
    /// Nanoseconds in which data of TCP that was lost had not been sent again, so that the receiver could pass on nothing behind it; overlapping
    /// times count once.
    #[serde(default, skip_serializing_if = "crate::rpc::is_zero")]
    pub recovery_ns: u64,
    /// Nanoseconds in which the wire was taken.
    pub busy_ns: u64,
    /// Waiting in the interface for what was sent before, for each sending; absent without any.
    pub queue: Option<LatencyHistogram>,
    /// From the first bit on the wire to the last.
    pub wire: Option<LatencyHistogram>,
    /// From the last bit's arrival until the machine was given it.
    pub delivery: Option<LatencyHistogram>,
}

impl FrameMetrics {
    /// Bits on the wire in a second of `span_s`; `None` in no time.
    pub fn rate_bits_per_s(&self, span_s: f64) -> Option<f64> {
        (span_s > 0.0).then(|| self.wire_bytes as f64 * 8.0 / span_s)
    }
}

impl LinkMetrics {
    /// Condenses a log of frames.
    ///
    /// # Errors
    /// The log cannot be read or is damaged. A log that ends within a record is read up to there and remarked on.
    pub fn of_log(path: &Path) -> Result<Self, TraceError> {
        let mut reader = FrameReader::open(path)?;
        let header = *reader.header();
        let mut ways: [Way; 2] = Default::default();
        let mut span: Option<(u64, u64)> = None;
        let (mut records, mut remarks) = (0, Vec::new());
        for record in &mut reader {
            match record {
                Ok(record) => {
                    records += 1;
                    ways[record.from.index()].push(&record);
                    if record.was_on_wire() {
                        let last_ns = record.leaves_ns.max(record.delivered_ns);
                        let (begin, end) = span.unwrap_or((record.taken_ns, last_ns));
                        span = Some((begin.min(record.taken_ns), end.max(last_ns)));
                    }
                }
                Err(error) if records > 0 => remarks.push(error.to_string()),
                Err(error) => return Err(error.into()),
            }
        }
        if header.summary.records == 0 && records > 0 {
            remarks.push("the log was never closed: its last frames are missing".to_owned());
        }
        let [of_lower, of_upper] = ways.map(Way::finish);
        Ok(Self {
            to_server: of_upper,
            to_client: of_lower,
            rate_bits_per_s: header.rate_bits_per_s,
            span_s: span.map_or(0.0, |(begin, end)| end.saturating_sub(begin) as f64 / 1e9),
            dropped: header.summary.dropped,
            remarks,
        })
    }

    /// Seconds over which its rate and its share of the time are of the load, which was measured for `measured_s`: the log begins before and
    /// ends after it, when hardly anything goes over the link. No less than the wire was taken.
    pub fn loaded_s(&self, measured_s: f64) -> f64 {
        measured_s.max(self.to_server.busy_ns.max(self.to_client.busy_ns) as f64 / 1e9)
    }

    /// What an end's machine has sent.
    pub fn sent_by(&self, end: End) -> &FrameMetrics {
        match end {
            End::Lower => &self.to_client,
            End::Upper => &self.to_server,
        }
    }
}

/// One direction while its log is read.
#[derive(Default)]
struct Way {
    metrics: FrameMetrics,
    recovery: Recovery,
    queue: LatencyHistogram,
    wire: LatencyHistogram,
    delivery: LatencyHistogram,
}

impl Way {
    fn push(&mut self, record: &FrameRecord) {
        record.count(&mut self.metrics.sent);
        if !record.was_on_wire() {
            return;
        }
        self.metrics.sendings += 1;
        self.metrics.wire_bytes += u64::from(record.wire_bytes);
        self.metrics.tcp_bytes += u64::from(record.tcp_bytes);
        self.metrics.tcp_again_bytes += u64::from(record.tcp_again_bytes);
        self.metrics.busy_ns = self.metrics.busy_ns.saturating_add(record.wire_ns());
        self.recovery.push(record);
        self.queue.record_ns(record.queue_ns());
        self.wire.record_ns(record.wire_ns());
        if record.ended == Ended::Delivered {
            self.delivery.record_ns(record.delivered_ns.saturating_sub(record.arrives_ns));
        }
    }

    fn finish(self) -> FrameMetrics {
        let some = |histogram: LatencyHistogram| (histogram.count() > 0).then_some(histogram);
        let Self { metrics, recovery, queue, wire, delivery } = self;
        FrameMetrics {
            recovery_ns: recovery.total_ns,
            queue: some(queue),
            wire: some(wire),
            delivery: some(delivery),
            ..metrics
        }
    }
}

/// What was lost of one direction's data and not sent again yet. Which data a frame has is not in the log: what is sent again is taken for what
/// was lost first.
#[derive(Default)]
struct Recovery {
    /// When what was lost had been sent, and how many bytes of it are not sent again yet.
    lost: VecDeque<(u64, u64)>,
    /// Until when times are counted already.
    counted_until_ns: u64,
    total_ns: u64,
}

impl Recovery {
    fn push(&mut self, record: &FrameRecord) {
        let mut again = u64::from(record.tcp_again_bytes);
        while let Some((sent_ns, bytes)) = self.lost.front_mut().filter(|_| again > 0) {
            let begin = (*sent_ns).max(self.counted_until_ns);
            self.total_ns += record.taken_ns.saturating_sub(begin);
            self.counted_until_ns = self.counted_until_ns.max(record.taken_ns);
            let recovered = again.min(*bytes);
            (*bytes, again) = (*bytes - recovered, again - recovered);
            if *bytes == 0 {
                self.lost.pop_front();
            }
        }
        if record.ended == Ended::Lost && record.tcp_bytes > 0 {
            self.lost.push_back((record.taken_ns, u64::from(record.tcp_bytes)));
        }
    }
}

/// A link's frames as requests, in the order of the log and in constant memory: what goes to the server is written, what goes to the client is
/// read. An offset is how many bytes went the same way before. What was not delivered ends when it leaves. What never was on the wire is left out.
pub struct LinkLogRequests {
    reader: FrameReader<BufReader<File>>,
    next_id: u64,
    bytes: [u64; 2],
}

impl LinkLogRequests {
    /// Opens a log.
    ///
    /// # Errors
    /// The log cannot be read, or is not a log.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        Ok(Self { reader: FrameReader::open(path)?, next_id: 0, bytes: [0; 2] })
    }

    fn request(&mut self, record: &FrameRecord) -> Request {
        let (id, bytes) = (self.next_id, u64::from(record.bytes));
        self.next_id += 1;
        let offset = self.bytes[record.from.index()];
        self.bytes[record.from.index()] += bytes;
        Request {
            id,
            operation: match record.from {
                End::Lower => Operation::Read,
                End::Upper => Operation::Write,
            },
            flags: Flags::default(),
            class: Class::Unknown,
            offset,
            bytes,
            queued_ns: record.taken_ns,
            issued_ns: record.begins_ns,
            completed_ns: record.leaves_ns.max(record.delivered_ns),
            bios: record.frames,
            pid: 0,
        }
    }
}

impl Iterator for LinkLogRequests {
    type Item = Result<(End, Request), TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.reader.next()? {
                Ok(record) if record.was_on_wire() => {
                    return Some(Ok((record.from, self.request(&record))));
                }
                Ok(_) => {}
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nestor_link::log::{FrameHeader, FrameLog, LogClock, LogSummary};
    use nestor_log::{Limits, Writer};

    use super::*;

    fn record(from: End, ended: Ended, taken_ns: u64) -> FrameRecord {
        FrameRecord {
            from,
            ended,
            frames: 2,
            bytes: 3000,
            wire_bytes: 3048,
            tcp_bytes: 2868,
            tcp_again_bytes: 1448,
            taken_ns,
            begins_ns: taken_ns + 1000,
            leaves_ns: taken_ns + 25_384,
            arrives_ns: if ended == Ended::Lost { 0 } else { taken_ns + 125_384 },
            delivered_ns: if ended == Ended::Delivered { taken_ns + 125_484 } else { 0 },
        }
    }

    fn log(path: &Path, most_records: u64) -> [FrameRecord; 6] {
        let header = FrameHeader {
            clock: LogClock::Monotonic,
            rate_bits_per_s: 1_000_000_000,
            delay_ns: 100_000,
            summary: LogSummary::default(),
        };
        let limits = Limits { most_records, ..Limits::default() };
        let mut writer = Writer::<FrameLog>::limited(path, header, limits).unwrap();
        let records = [
            record(End::Upper, Ended::Delivered, 1_000_000),
            record(End::Upper, Ended::NotTaken, 0),
            record(End::Upper, Ended::Lost, 2_000_000),
            record(End::Lower, Ended::Refused, 3_000_000),
            record(End::Lower, Ended::Delivered, 4_000_000),
            record(End::Lower, Ended::UnderWay, 5_000_000),
        ];
        records.iter().for_each(|record| writer.push(*record));
        writer.finish().unwrap();
        records
    }

    #[test]
    fn a_log_of_frames_is_condensed_to_numbers_of_both_directions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link.frames");
        log(&path, u64::MAX);
        let m = LinkMetrics::of_log(&path).unwrap();
        assert_eq!(m.to_server.sent, Sent { frames: 4, bytes: 6000, lost: 2, refused: 2 });
        assert_eq!(m.to_client.sent, Sent { frames: 6, bytes: 9000, lost: 0, refused: 2 });
        assert_eq!((m.to_server.sendings, m.to_server.wire_bytes, m.to_server.tcp_bytes), (2, 6096, 5736));
        assert_eq!(m.to_client.busy_ns, 3 * 24_384);
        let mean = |h: &Option<LatencyHistogram>| h.as_ref().unwrap().summary().unwrap().mean_ns.round();
        assert!((mean(&m.to_server.queue) - 1000.0).abs() < 10.0);
        assert!((mean(&m.to_client.wire) - 24_384.0).abs() < 100.0);
        assert!((mean(&m.to_client.delivery) - 100.0).abs() < 1.0);
        assert!((m.span_s - 0.004_025_384).abs() < 1e-12);
        let rate = m.to_server.rate_bits_per_s(m.span_s).unwrap();
        assert!((rate - 6096.0 * 8.0 / m.span_s).abs() < 1e-6 && m.to_server.rate_bits_per_s(0.0).is_none());
        assert_eq!((m.dropped, m.remarks.len()), (0, 0));
        assert_eq!(m.sent_by(End::Upper), &m.to_server);
    }

    #[test]
    fn what_was_lost_holds_up_its_direction_until_it_is_sent_again() {
        let sent = |ended, taken_ns, tcp_bytes, tcp_again_bytes| FrameRecord {
            tcp_bytes,
            tcp_again_bytes,
            ..record(End::Upper, ended, taken_ns)
        };
        let mut recovery = Recovery::default();
        // A probe for losses repeats what nobody lost.
        recovery.push(&sent(Ended::Delivered, 500, 100, 100));
        recovery.push(&sent(Ended::Lost, 1_000, 1_448, 0));
        recovery.push(&sent(Ended::Lost, 1_500, 1_448, 0));
        recovery.push(&sent(Ended::Delivered, 2_000, 1_448, 0));
        assert_eq!(recovery.total_ns, 0);
        recovery.push(&sent(Ended::Delivered, 5_000, 1_448, 1_448));
        assert_eq!(recovery.total_ns, 4_000);
        // The second one is sent again twice: the first of these is lost, too.
        recovery.push(&sent(Ended::Lost, 6_000, 1_448, 1_448));
        assert_eq!(recovery.total_ns, 5_000);
        recovery.push(&sent(Ended::Delivered, 9_000, 1_448, 1_448));
        assert_eq!(recovery.total_ns, 8_000);
        // A lost frame without data is asked for by nobody.
        recovery.push(&sent(Ended::Lost, 10_000, 0, 0));
        recovery.push(&sent(Ended::Delivered, 20_000, 1_448, 1_448));
        assert_eq!(recovery.total_ns, 8_000);
    }

    #[test]
    fn a_full_or_torn_log_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link.frames");
        log(&path, 4);
        let m = LinkMetrics::of_log(&path).unwrap();
        assert_eq!((m.dropped, m.to_client.sendings), (2, 1));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let torn = LinkMetrics::of_log(&path).unwrap();
        assert_eq!((torn.to_client.sendings, torn.remarks.len()), (0, 1));
        std::fs::write(&path, &bytes[..60]).unwrap();
        assert!(LinkMetrics::of_log(&path).is_err());
    }

    #[test]
    fn frames_are_requests_of_which_each_direction_has_its_own_offsets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link.frames");
        log(&path, u64::MAX);
        let requests: Vec<_> = LinkLogRequests::open(&path).unwrap().collect::<Result<_, _>>().unwrap();
        let places: Vec<_> = requests.iter().map(|(_, r)| (r.id, r.operation, r.offset)).collect();
        let expected = [
            (0, Operation::Write, 0),
            (1, Operation::Write, 3000),
            (2, Operation::Read, 0),
            (3, Operation::Read, 3000),
            (4, Operation::Read, 6000),
        ];
        assert_eq!(places, expected);
        let ends: Vec<u64> = requests.iter().map(|(_, r)| r.completed_ns - r.issued_ns).collect();
        assert_eq!(ends, [124_484, 24_384, 24_384, 124_484, 24_384]);
        // The same as a trace of any kind: a device for each direction.
        let trace = crate::decode::open(&[path]).unwrap().remove(0);
        assert_eq!(trace.format, crate::decode::Format::LinkLog);
        let analysis = crate::analyze(trace, &crate::AnalyzeOptions::default()).unwrap();
        let layers: Vec<_> =
            analysis.layers.iter().map(|l| l.metrics.read.issued + l.metrics.write.issued).collect();
        assert_eq!(layers, [2, 3]);
    }
}
