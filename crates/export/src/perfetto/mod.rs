//! Perfetto's own format: a stream of TrackEvent packets
//! (<https://perfetto.dev/docs/reference/synthetic-track-event>).
//!
//! Each trace point is a process with one track for each slot of its queue, on which requests stand as slices that never
//! overlap, and a counter of the requests in flight. Arrows (flows) lead from a request to those it caused below.
//! Every trace point is a packet sequence of its own, in the order of time.

mod fields;
mod flows;
mod names;
mod proto;
mod slots;

use std::io::Write;

use nestor_correlate::{Level, LevelIndex};

use crate::error::ExportError;
use crate::order::{Scan, by_begin};
use crate::trace::{Bounds, Row, Trace};
use crate::written::Written;
use fields::{clock, defaults, event, packet, track};
use flows::Flows;
use names::Names;
use proto::Message;
use slots::Slots;

/// The sequence of the clock; those of the levels follow.
const CLOCK_SEQUENCE: u64 = 1;
/// Numbers of tracks: the level in the upper half, the slot and [`FIRST_SLOT`] in the lower.
const LEVEL_SHIFT: u32 = 32;
const DEPTH_TRACK: u64 = 1;
const FIRST_SLOT: u64 = 2;

/// Writes all requests, level after level. Times are on the topmost level's clock.
///
/// The requests of a level are read twice, and once more if there are links into it: the format wants a level's events
/// in the order of time, and request files are in the order of completion.
///
/// # Errors
/// The requests cannot be read; one took so long that too many others are held until it ends; `out` cannot be written.
pub fn write_perfetto(trace: &Trace, out: &mut dyn Write) -> Result<Written, ExportError> {
    let bounds = trace.bounds()?;
    let mut written = Written::default();
    write_clock(trace, out)?;
    let mut from_above = Flows::default();
    for (number, level) in trace.levels.iter().enumerate() {
        let to_below =
            Flows::into_level(trace, LevelIndex::at(number + 1), bounds, from_above.next_id().max(1))?;
        let mut writer = LevelWriter {
            out: &mut *out,
            base: (number as u64 + 1) << LEVEL_SHIFT,
            sequence: CLOCK_SEQUENCE + 1 + number as u64,
            names: Names::default(),
            message: Message::default(),
            slots: Slots::default(),
            depth: None,
            from_above,
            to_below,
            written,
        };
        writer.describe(&level.level, number)?;
        writer.requests(trace, LevelIndex::at(number), bounds)?;
        (from_above, written) = (writer.to_below, writer.written);
    }
    Ok(written)
}

fn write_packet(out: &mut dyn Write, message: &Message) -> Result<(), ExportError> {
    let bytes = message.as_bytes();
    let mut frame = Message::default();
    frame.header(fields::trace::PACKET, bytes.len());
    out.write_all(frame.as_bytes())?;
    out.write_all(bytes)?;
    Ok(())
}

/// Says that all times are on the monotonic clock, and when that was by the calendar if it is known.
fn write_clock(trace: &Trace, out: &mut dyn Write) -> Result<(), ExportError> {
    let reading = trace.clock.unwrap_or_default();
    let mut message = Message::default();
    message.number(packet::SEQUENCE_ID, CLOCK_SEQUENCE);
    message.message(packet::CLOCK_SNAPSHOT, |snapshot| {
        let mut add = |id: u64, time_ns: u64| {
            snapshot.message(clock::CLOCKS, |one| {
                one.number(clock::CLOCK_ID, id);
                one.number(clock::CLOCK_TIMESTAMP, time_ns);
            });
        };
        add(clock::MONOTONIC, reading.monotonic_ns);
        if let Some(realtime_ns) = reading.realtime_ns {
            add(clock::REALTIME, realtime_ns);
        }
        snapshot.number(clock::PRIMARY, clock::MONOTONIC);
    });
    write_packet(out, &message)
}

/// Writes one trace point.
struct LevelWriter<'a> {
    out: &'a mut dyn Write,
    /// Number of the process's track.
    base: u64,
    sequence: u64,
    names: Names,
    message: Message,
    slots: Slots,
    /// When the depth changed last and what it is since, until that is written.
    depth: Option<(u64, u64)>,
    from_above: Flows,
    to_below: Flows,
    written: Written,
}

impl LevelWriter<'_> {
    fn describe(&mut self, level: &Level, number: usize) -> Result<(), ExportError> {
        let base = self.base;
        self.message.clear();
        self.message.number(packet::SEQUENCE_ID, self.sequence);
        self.message.number(packet::FIRST_ON_SEQUENCE, 1);
        self.message.number(packet::SEQUENCE_FLAGS, packet::STATE_CLEARED);
        self.message.message(packet::DEFAULTS, |m| m.number(defaults::TIMESTAMP_CLOCK, clock::MONOTONIC));
        self.message.message(packet::TRACK_DESCRIPTOR, |descriptor| {
            descriptor.number(track::UUID, base);
            descriptor.message(track::PROCESS, |process| {
                // Processes stand in the order of their numbers, so the topmost level comes first.
                process.number(track::PROCESS_PID, number as u64 + 1);
                process.text(track::PROCESS_NAME, &process_name(level));
            });
            descriptor.number(track::CHILD_ORDERING, track::EXPLICIT);
        });
        write_packet(self.out, &self.message)?;
        self.track(DEPTH_TRACK, "requests in flight", |descriptor| {
            descriptor.message(track::COUNTER, |c| c.number(track::COUNTER_UNIT, track::UNIT_COUNT));
        })
    }

    /// Makes a track of this level.
    fn track(&mut self, number: u64, name: &str, more: impl FnOnce(&mut Message)) -> Result<(), ExportError> {
        let base = self.base;
        self.message.clear();
        self.message.number(packet::SEQUENCE_ID, self.sequence);
        self.message.message(packet::TRACK_DESCRIPTOR, |descriptor| {
            descriptor.number(track::UUID, base + number);
            descriptor.number(track::PARENT, base);
            descriptor.text(track::NAME, name);
            descriptor.number(track::RANK, number);
            more(descriptor);
        });
        write_packet(self.out, &self.message)
    }

    fn requests(&mut self, trace: &Trace, level: LevelIndex, bounds: Bounds) -> Result<(), ExportError> {
        let scan = Scan::of(trace.requests(level, bounds)?)?;
        let layer = &trace.levels[level.position()].level.layer;
        by_begin(trace.requests(level, bounds)?, scan, layer, |request| {
            self.end_until(request.queued_ns)?;
            self.begin(&trace.row(level, request))
        })?;
        self.end_until(u64::MAX)?;
        self.count_until(u64::MAX)
    }

    /// Ends the slices of requests that end at `now_ns` or before.
    fn end_until(&mut self, now_ns: u64) -> Result<(), ExportError> {
        while let Some(ending) = self.slots.ended_by(now_ns) {
            self.count_until(ending.at_ns)?;
            self.depth = Some((ending.at_ns, self.slots.depth() as u64));
            let slot_track = self.base + FIRST_SLOT + u64::from(ending.slot);
            self.start_packet(ending.at_ns);
            self.message.message(packet::TRACK_EVENT, |event| {
                event.number(event::TYPE, event::END);
                event.number(event::TRACK, slot_track);
            });
            write_packet(self.out, &self.message)?;
        }
        Ok(())
    }

    fn begin(&mut self, row: &Row<'_>) -> Result<(), ExportError> {
        let request = &row.request;
        self.count_until(request.queued_ns)?;
        let (slot, new) = self.slots.take(request.completed_ns);
        self.depth = Some((request.queued_ns, self.slots.depth() as u64));
        let number = FIRST_SLOT + u64::from(slot);
        if new {
            self.track(number, &format!("slot {}", slot + 1), |_| {})?;
        }
        let into = row.parents.iter().filter_map(|parent| self.from_above.end(*parent, request.id));
        let mut arrows: Vec<u64> = into.collect();
        self.written.links += arrows.len() as u64;
        self.written.requests += 1;
        arrows.extend(self.to_below.begin(request.id));

        let slot_track = self.base + number;
        self.start_packet(request.queued_ns);
        let texts = self.names.introduce(row, &mut self.message);
        self.message.message(packet::TRACK_EVENT, |event| {
            event.number(event::TYPE, event::BEGIN);
            event.number(event::TRACK, slot_track);
            names::write_slice(texts, request, event);
            for arrow in arrows {
                event.fixed64(event::FLOW_IDS, arrow);
            }
        });
        write_packet(self.out, &self.message)
    }

    fn start_packet(&mut self, at_ns: u64) {
        self.message.clear();
        self.message.number(packet::TIMESTAMP, at_ns);
        self.message.number(packet::SEQUENCE_ID, self.sequence);
        self.message.number(packet::SEQUENCE_FLAGS, packet::NEEDS_STATE);
    }

    /// Writes the depth of the last moment at which something changed, if time has gone on since: the changes of one
    /// moment make one value.
    fn count_until(&mut self, now_ns: u64) -> Result<(), ExportError> {
        let Some((at_ns, depth)) = self.depth.filter(|(at_ns, _)| *at_ns < now_ns) else { return Ok(()) };
        self.depth = None;
        let depth_track = self.base + DEPTH_TRACK;
        self.start_packet(at_ns);
        self.message.message(packet::TRACK_EVENT, |event| {
            event.number(event::TYPE, event::COUNTER);
            event.number(event::TRACK, depth_track);
            event.number(event::COUNTER_VALUE, depth);
        });
        write_packet(self.out, &self.message)
    }
}

fn process_name(level: &Level) -> String {
    let parts = [&level.machine.to_string(), &level.layer, &level.kind.to_string()];
    parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}
