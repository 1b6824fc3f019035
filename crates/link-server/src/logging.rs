//! The log of a link's frames.

use std::path::Path;

use nestor_link::log::{Ended, FrameHeader, FrameLog, FrameRecord, LogClock, LogEnd, LogSummary};
use nestor_link::{End, LinkStatistics, PortIndex};
use nestor_log::{Behind, Limits, LogError, Writer};

use crate::shared::{Link, Shared, Time};

/// Records of a log at most: 256 MiB.
const MOST_RECORDS: u64 = 1 << 22;

impl Shared {
    /// Starts a log of frames; one that is open already is closed. What was counted until the log began.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn start_log(&self, path: &Path) -> Result<LinkStatistics, LogError> {
        self.stop_log()?;
        let (header, behind) = {
            let link = self.lock();
            let is_told = !matches!(link.time, Time::Real);
            (link.header(), if is_told { Behind::Wait } else { Behind::Drop })
        };
        let limits = Limits { behind, most_records: MOST_RECORDS };
        // In real time, frames do not wait for the file.
        let log = Writer::limited(path, header, limits)?;
        let mut link = self.lock();
        link.log = Some(log);
        Ok(link.statistics())
    }

    /// Ends the log of frames; what is under way is logged as such. How the log ended and what was counted until then.
    ///
    /// # Errors
    /// Some of it could not be written.
    pub fn stop_log(&self) -> Result<LogEnd, LogError> {
        let (log, statistics) = {
            let mut link = self.lock();
            let under_way: Vec<FrameRecord> =
                link.ports.iter_mut().flat_map(|port| port.take_under_way().collect::<Vec<_>>()).collect();
            let header = link.header();
            let mut log = link.log.take();
            if let Some(log) = &mut log {
                under_way.into_iter().for_each(|record| log.push(record));
                // Both machines may have told their times since it began.
                log.header = header;
            }
            (log, link.statistics())
        };
        // The link does not wait for the file.
        let log = log.map_or(Ok(LogSummary::default()), Writer::<FrameLog>::finish)?;
        Ok(LogEnd { log, statistics })
    }
}

impl Link {
    fn header(&self) -> FrameHeader {
        let zero_ns = |end: End| match &self.time {
            Time::Together(together) => together.zero_ns(end.into()).unwrap_or(0),
            Time::Real | Time::Apart { .. } => 0,
        };
        FrameHeader {
            clock: match self.time {
                Time::Real => LogClock::Monotonic,
                Time::Apart { .. } | Time::Together(_) => LogClock::Common(End::BOTH.map(zero_ns)),
            },
            rate_bits_per_s: self.wire.rate_bits_per_s,
            delay_ns: self.wire.delay_ns,
            summary: LogSummary::default(),
        }
    }

    /// Logs what a machine was given, or not.
    pub(crate) fn log_ended(&mut self, at: PortIndex) {
        let ended = self.ports[at.index()].take_ended();
        if let Some(log) = &mut self.log {
            ended.into_iter().for_each(|record| log.push(record));
        }
    }

    /// Logs a frame, if frames are logged.
    pub(crate) fn log_record(&mut self, record: FrameRecord) {
        if let Some(log) = &mut self.log {
            log.push(record);
        }
    }

    /// Logs what could not be taken from a machine at that time.
    pub(crate) fn log_not_taken(&mut self, from: PortIndex, count: u64, taken_ns: u64) {
        for _ in 0..count {
            self.log_record(FrameRecord {
                from: from.end(),
                ended: Ended::NotTaken,
                frames: 1,
                bytes: 0,
                wire_bytes: 0,
                tcp_bytes: 0,
                tcp_again_bytes: 0,
                taken_ns,
                begins_ns: taken_ns,
                leaves_ns: taken_ns,
                arrives_ns: 0,
                delivered_ns: 0,
            });
        }
    }
}
