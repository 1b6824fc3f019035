//! A flash disk: dies that work at the same time, behind channels, a buffer and an interface.
//!
//! Each page of the logical space belongs to one die, in turn (as if the translation layer had placed it there when
//! the disk was filled in order). A read occupies its die for the time to read a page and then the die's channel for
//! the transfer. A write is answered when it is in the buffer; the buffer is programmed into the dies in the
//! background, several pages at a time, as their planes allow. Garbage collection is not modelled: the disk behaves
//! as one that always has erased blocks, which is how its data sheet was measured.

use std::collections::{BTreeMap, VecDeque};

use super::{Completion, FiguresError, Model, ModelRequest, SECTOR_BYTES, ServiceParts};
use crate::log::Operation;

/// What a flash disk is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SsdFigures {
    /// Channels between controller and flash.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Bytes that one logical page maps.
    pub page_bytes: u32,
    /// Time from a read command to a page in the die's register.
    pub read_ns: u64,
    /// Time to program [`Self::program_pages`] pages.
    pub program_ns: u64,
    /// Pages that a die programs at once.
    pub program_pages: u32,
    /// Rate of a channel.
    pub channel_bytes_per_s: f64,
    /// Rate of the interface.
    pub interface_bytes_per_s: f64,
    /// Time that the controller needs for a read before it can take the next command.
    pub read_interval_ns: u64,
    /// The same for any other command.
    pub write_interval_ns: u64,
    /// From then until the flash is asked.
    pub read_overhead_ns: u64,
    /// The same delay for a write, which only has to reach the buffer.
    pub write_overhead_ns: u64,
    /// Buffer for writes.
    pub write_buffer_bytes: u64,
    /// Commands in the disk at most.
    pub queue_depth: u32,
    /// Writes are answered from the buffer.
    pub write_cache: bool,
}

/// When a channel is taken: spans that do not overlap, by their begins. A transfer takes the first gap that it fits into, because a channel
/// does not wait for a die that is not ready while another one is.
#[derive(Clone, Debug, Default)]
struct Channel(BTreeMap<u64, u64>);

impl Channel {
    /// Takes it for so long, not before `from_ns`; returns the end. Nothing is asked for before `now_ns` any more.
    fn take(&mut self, now_ns: u64, from_ns: u64, ns: u64) -> u64 {
        while let Some(first) = self.0.first_entry().filter(|first| *first.get() <= now_ns) {
            first.remove();
        }
        let mut start_ns = from_ns.max(now_ns);
        let before = self.0.range(..=start_ns).next_back().map(|(_, end_ns)| *end_ns);
        start_ns = before.into_iter().fold(start_ns, u64::max);
        for (taken_ns, end_ns) in self.0.range(start_ns..) {
            if start_ns + ns <= *taken_ns {
                break;
            }
            start_ns = *end_ns;
        }
        if ns > 0 {
            self.0.insert(start_ns, start_ns + ns);
        }
        start_ns + ns
    }
}

/// The model of a flash disk.
#[derive(Clone, Debug)]
pub struct SsdModel {
    figures: SsdFigures,
    clock_ns: u64,
    write_cache: bool,
    incoming: VecDeque<ModelRequest>,
    in_disk: u32,
    command_free_ns: u64,
    interface_free_ns: u64,
    die_free_ns: Vec<u64>,
    channels: Vec<Channel>,
    /// Pages collected for each die's next program, not yet begun.
    collected: Vec<u32>,
    /// When the buffer gets bytes back.
    programmed: BTreeMap<(u64, u64), u64>,
    buffered_bytes: u64,
    completions: BTreeMap<(u64, u64), Completion>,
    decided: u64,
}

impl SsdModel {
    /// A disk at rest.
    ///
    /// # Errors
    /// A figure is zero that must not be.
    pub fn new(figures: SsdFigures) -> Result<Self, FiguresError> {
        let dies = figures.channels * figures.dies_per_channel;
        if dies == 0 || u64::from(figures.page_bytes) < SECTOR_BYTES || figures.program_pages == 0 {
            return Err(FiguresError::NoFlash);
        }
        Ok(Self {
            figures,
            clock_ns: 0,
            write_cache: figures.write_cache,
            incoming: VecDeque::new(),
            in_disk: 0,
            command_free_ns: 0,
            interface_free_ns: 0,
            die_free_ns: vec![0; dies as usize],
            channels: vec![Channel::default(); figures.channels as usize],
            collected: vec![0; dies as usize],
            programmed: BTreeMap::new(),
            buffered_bytes: 0,
            completions: BTreeMap::new(),
            decided: 0,
        })
    }

    /// The pages that a request touches.
    fn pages(&self, request: &ModelRequest) -> std::ops::Range<u64> {
        let page = u64::from(self.figures.page_bytes);
        let start = request.sector * SECTOR_BYTES;
        let end = start + u64::from(request.sectors) * SECTOR_BYTES;
        start / page..end.div_ceil(page)
    }

    fn die(&self, page: u64) -> usize {
        (page % self.die_free_ns.len() as u64) as usize
    }

    fn bytes_ns(bytes: u64, bytes_per_s: f64) -> u64 {
        (bytes as f64 / bytes_per_s * 1e9) as u64
    }

    fn interface_ns(&mut self, from_ns: u64, bytes: u64) -> u64 {
        let ns = Self::bytes_ns(bytes, self.figures.interface_bytes_per_s);
        self.interface_free_ns = self.interface_free_ns.max(from_ns) + ns;
        self.interface_free_ns
    }

    fn complete(&mut self, id: u64, start_ns: u64, done_ns: u64, transfer_ns: u64, cache_hit: bool) {
        self.decided += 1;
        let parts = ServiceParts {
            transfer_ns,
            overhead_ns: (done_ns - start_ns) - transfer_ns,
            ..ServiceParts::default()
        };
        let completion =
            Completion { id, service_start_ns: start_ns, complete_ns: done_ns, parts, cache_hit };
        self.completions.insert((done_ns, self.decided), completion);
    }

    fn admit(&mut self, now_ns: u64) {
        while let Some(request) = self.incoming.front().copied() {
            let bytes = u64::from(request.sectors) * SECTOR_BYTES;
            let buffers = request.operation == Operation::Write
                && self.write_cache
                && bytes <= self.figures.write_buffer_bytes / 2;
            let no_room = buffers && self.buffered_bytes + bytes > self.figures.write_buffer_bytes;
            if self.in_disk >= self.figures.queue_depth || no_room {
                return;
            }
            self.incoming.pop_front();
            self.in_disk += 1;
            let reads = request.operation == Operation::Read;
            let interval_ns =
                if reads { self.figures.read_interval_ns } else { self.figures.write_interval_ns };
            self.command_free_ns = self.command_free_ns.max(now_ns) + interval_ns;
            let taken_ns = self.command_free_ns;
            let asked_ns = taken_ns + self.figures.read_overhead_ns;
            match request.operation {
                Operation::Read => self.read(&request, now_ns, asked_ns, bytes),
                Operation::Write => {
                    let start_ns = taken_ns + self.figures.write_overhead_ns;
                    let arrived_ns = self.interface_ns(start_ns, bytes);
                    let done_ns = self.write(&request, arrived_ns, buffers);
                    let answered_ns = if buffers { arrived_ns } else { done_ns };
                    self.complete(request.id, now_ns, answered_ns, answered_ns - arrived_ns, buffers);
                }
                Operation::WriteZeroes | Operation::Discard => {
                    // Both only change the map; flash reads unmapped pages as zeroes.
                    self.complete(request.id, now_ns, asked_ns, 0, false);
                }
                Operation::Flush => {
                    self.program_rests(asked_ns);
                    let last = self.programmed.last_key_value().map_or(0, |((ns, _), _)| *ns);
                    let done_ns = last.max(asked_ns);
                    self.complete(request.id, now_ns, done_ns, done_ns - asked_ns, false);
                }
            }
        }
    }

    /// Reads each page from its die and sends it through the channel; the interface sends them on in order.
    fn read(&mut self, request: &ModelRequest, now_ns: u64, asked_ns: u64, bytes: u64) {
        let page_ns = Self::bytes_ns(u64::from(self.figures.page_bytes), self.figures.channel_bytes_per_s);
        let mut last_ns = asked_ns;
        for page in self.pages(request) {
            let die = self.die(page);
            let channel = die % self.channels.len();
            let sensed_ns = self.die_free_ns[die].max(asked_ns) + self.figures.read_ns;
            let sent_ns = self.channels[channel].take(now_ns, sensed_ns, page_ns);
            self.die_free_ns[die] = sent_ns;
            last_ns = last_ns.max(sent_ns);
        }
        // The interface works while later pages are still read.
        let interface_ns = self.interface_ns(asked_ns, bytes);
        let tail_ns =
            Self::bytes_ns(bytes.min(u64::from(self.figures.page_bytes)), self.figures.interface_bytes_per_s);
        let done_ns = interface_ns.max(last_ns + tail_ns);
        self.complete(request.id, now_ns, done_ns, last_ns - asked_ns, false);
    }

    /// Brings pages to their dies; returns when the last of them is programmed. Cached writes wait in the buffer
    /// until their die has as many pages as it programs at once.
    fn write(&mut self, request: &ModelRequest, arrived_ns: u64, buffers: bool) -> u64 {
        let mut done_ns = arrived_ns;
        for page in self.pages(request) {
            let die = self.die(page);
            self.collected[die] += 1;
            self.buffered_bytes += u64::from(self.figures.page_bytes);
            if self.collected[die] == self.figures.program_pages {
                done_ns = done_ns.max(self.program(die, arrived_ns));
            }
        }
        if !buffers {
            for page in self.pages(request) {
                let die = self.die(page);
                if self.collected[die] > 0 {
                    done_ns = done_ns.max(self.program(die, arrived_ns));
                }
            }
        }
        done_ns
    }

    fn program(&mut self, die: usize, from_ns: u64) -> u64 {
        let bytes = u64::from(std::mem::take(&mut self.collected[die])) * u64::from(self.figures.page_bytes);
        let channel = die % self.channels.len();
        let transfer_ns = Self::bytes_ns(bytes, self.figures.channel_bytes_per_s);
        let sent_ns = self.channels[channel].take(self.clock_ns, from_ns, transfer_ns);
        let done_ns = self.die_free_ns[die].max(sent_ns) + self.figures.program_ns;
        self.die_free_ns[die] = done_ns;
        self.decided += 1;
        self.programmed.insert((done_ns, self.decided), bytes);
        done_ns
    }

    /// Programs what waits for company.
    fn program_rests(&mut self, from_ns: u64) {
        for die in 0..self.collected.len() {
            if self.collected[die] > 0 {
                self.program(die, from_ns);
            }
        }
    }

    /// A full buffer of lone pages would wait for ever.
    fn relieve(&mut self, now_ns: u64) {
        if !self.incoming.is_empty() && self.programmed.is_empty() && self.in_disk < self.figures.queue_depth
        {
            self.program_rests(now_ns);
        }
    }
}

impl Model for SsdModel {
    fn submit(&mut self, request: ModelRequest, now_ns: u64) {
        self.clock_ns = self.clock_ns.max(now_ns);
        self.incoming.push_back(request);
        self.admit(self.clock_ns);
        self.relieve(self.clock_ns);
    }

    fn next_event_ns(&self) -> Option<u64> {
        let completion = self.completions.first_key_value().map(|((ns, _), _)| *ns);
        let programmed = self.programmed.first_key_value().map(|((ns, _), _)| *ns);
        completion.into_iter().chain(programmed).min()
    }

    fn advance(&mut self, now_ns: u64, completions: &mut Vec<Completion>) {
        while let Some(next_ns) = self.next_event_ns().filter(|next| *next <= now_ns) {
            self.clock_ns = self.clock_ns.max(next_ns);
            if self.completions.first_key_value().is_some_and(|((ns, _), _)| *ns <= next_ns) {
                completions.extend(self.completions.pop_first().map(|(_, completion)| completion));
                self.in_disk -= 1;
            } else if let Some((_, bytes)) = self.programmed.pop_first() {
                self.buffered_bytes -= bytes;
            }
            self.admit(next_ns);
            self.relieve(next_ns);
        }
        self.clock_ns = self.clock_ns.max(now_ns);
    }

    fn is_settled(&self) -> bool {
        let collected = self.collected.iter().any(|pages| *pages > 0);
        self.incoming.is_empty() && self.in_disk == 0 && self.programmed.is_empty() && !collected
    }

    fn settle(&mut self, now_ns: u64) {
        self.clock_ns = self.clock_ns.max(now_ns);
        self.program_rests(self.clock_ns);
    }

    fn write_cache(&self) -> bool {
        self.write_cache
    }

    fn set_write_cache(&mut self, on: bool) {
        self.write_cache = on;
    }

    fn reset(&mut self, now_ns: u64) {
        let write_cache = self.write_cache;
        if let Ok(fresh) = Self::new(self.figures) {
            *self = fresh;
        }
        self.write_cache = write_cache;
        self.clock_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::check::run_closed_loop;
    use crate::profile::Medium;
    use crate::profiles::profile;

    fn disk() -> SsdModel {
        let Medium::Ssd(ssd) = &profile("ssd").unwrap().medium else { panic!("the default ssd is one") };
        SsdModel::new(ssd.figures()).unwrap()
    }

    fn requests(operation: Operation, count: u64, step: u64) -> impl Iterator<Item = ModelRequest> {
        (0..count).map(move |id| ModelRequest { id, operation, sector: id * step, sectors: 8 })
    }

    #[test]
    fn dies_work_at_the_same_time_but_each_does_one_thing_at_once() {
        let all_dies = run_closed_loop(&mut disk(), 32, requests(Operation::Read, 3200, 8)).1;
        let one_die = run_closed_loop(&mut disk(), 32, requests(Operation::Read, 3200, 8 * 32)).1;
        assert!(one_die > 4 * all_dies, "{one_die} ns on one die, {all_dies} ns on all");
    }

    #[test]
    fn a_channel_serves_the_die_that_is_ready() {
        let mut channel = Channel::default();
        assert_eq!(channel.take(0, 100, 10), 110);
        assert_eq!(channel.take(0, 20, 10), 30, "before the one that is not ready");
        assert_eq!(channel.take(0, 25, 80), 190, "it does not fit between them");
        assert_eq!(channel.take(0, 85, 15), 100);
        assert_eq!(channel.take(60, 0, 5), 65, "not in the past");
    }

    #[test]
    fn a_flush_waits_for_the_buffer() {
        let mut model = disk();
        for write in requests(Operation::Write, 10, 8) {
            model.submit(write, 0);
        }
        model.submit(ModelRequest { id: 99, operation: Operation::Flush, sector: 0, sectors: 0 }, 0);
        let mut done = Vec::new();
        while let Some(next_ns) = model.next_event_ns() {
            model.advance(next_ns, &mut done);
        }
        assert!(model.is_settled());
        assert_eq!(done.last().unwrap().id, 99);
        assert!(done[10].complete_ns > done[9].complete_ns + model.figures.program_ns / 2);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_parts_add_up(
            mix in prop::collection::vec((0u32..5, 0u64..4_000_000, 1u32..5000, 0u64..200_000), 1..200)
        ) {
            let (mut model, mut done, mut now_ns) = (disk(), Vec::new(), 0);
            for (id, (kind, sector, sectors, pause_ns)) in mix.iter().enumerate() {
                now_ns += pause_ns;
                model.advance(now_ns, &mut done);
                let operation = [
                    Operation::Read,
                    Operation::Write,
                    Operation::Flush,
                    Operation::Discard,
                    Operation::WriteZeroes,
                ][*kind as usize];
                model.submit(ModelRequest { id: id as u64, operation, sector: *sector, sectors: *sectors }, now_ns);
            }
            while let Some(next_ns) = model.next_event_ns() {
                model.advance(next_ns, &mut done);
            }
            prop_assert_eq!(done.len(), mix.len());
            prop_assert!(done.windows(2).all(|pair| pair[0].complete_ns <= pair[1].complete_ns));
            prop_assert!(done.iter().all(|c| c.service_start_ns + c.parts.total_ns() == c.complete_ns));
            model.settle(now_ns);
            while let Some(next_ns) = model.next_event_ns() {
                model.advance(next_ns, &mut done);
            }
            prop_assert!(model.is_settled());
            prop_assert_eq!(model.buffered_bytes, 0);
        }
    }
}
