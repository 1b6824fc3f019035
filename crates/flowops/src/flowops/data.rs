//! Reading and writing.
//!
//! Every call says where it goes, so there are no calls that only move a position: one call for each operation.

use std::io::IoSlice;
use std::time::Instant;

use nestor_wml::Value;
use nestor_wml::limits::{MOST_IO_BYTES, WHOLE_FILE_BYTES};
use rustix::io::{Errno, ReadWriteFlags};

use crate::aio::{AsyncWrites, Tag};
use crate::check::{ASYNCHRONOUS_IN_ORDER, MOVES_NOTHING};
use crate::error::FlowError;
use crate::program::Step;
use crate::worker::{Next, Worker};

/// Unwraps the slot of [`Worker::file_of`], or goes on as it says.
macro_rules! file {
    ($worker:expr, $step:expr) => {
        match $worker.file_of($step)? {
            Ok(slot) => slot,
            Err(next) => return Ok(next),
        }
    };
}

impl<'p> Worker<'_, 'p> {
    /// Bytes of one operation; 0 is refused.
    fn io_bytes(&mut self, step: &Step<'p>) -> Result<usize, FlowError> {
        match self.random.value(&step.flowop.io_bytes) {
            0 if matches!(step.flowop.io_bytes, Value::Fixed(_)) => {
                Err(self.wrong(step.flowop, MOVES_NOTHING.to_owned()))
            }
            // A distribution may draw 0, or any number.
            bytes => Ok(bytes.clamp(1, MOST_IO_BYTES) as usize),
        }
    }

    /// The part of the file that random operations go to.
    fn working_set(&mut self, step: &Step<'p>, slot: usize) -> u64 {
        let drawn = match self.own[step.number].working_set {
            Some(drawn) => drawn,
            None => {
                // Places are signed 64-bit numbers (`loff_t`).
                let drawn = self.random.value(&step.flowop.working_set).min(i64::MAX as u64);
                self.own[step.number].working_set = Some(drawn);
                drawn
            }
        };
        if drawn > 0 { drawn } else { self.file_bytes(slot, step) }
    }

    /// A random place: a multiple of the size of the operation.
    fn place(&mut self, step: &Step<'p>, slot: usize, bytes: usize) -> Result<u64, FlowError> {
        let working_set = self.working_set(step, slot);
        let bytes = bytes as u64;
        if bytes > working_set {
            return Err(self.wrong(
                step.flowop,
                format!("has iosize={bytes}, more than the {working_set} bytes of the file: make the file larger or iosize= smaller"),
            ));
        }
        Ok(self.random.below(working_set / bytes) * bytes)
    }

    pub(crate) fn read(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let bytes = self.io_bytes(step)?;
        let slot = file!(self, step);
        let in_order = !step.flowop.random;
        let place = if in_order { self.slots[slot].position } else { self.place(step, slot, bytes)? };
        self.make_room(step.flowop, bytes)?;
        let file = self.slots[slot].file.as_ref().expect("opened by `file_of`");
        let begin = Instant::now();
        match rustix::io::pread(file, &mut self.buffer.bytes_mut()[..bytes], place) {
            Ok(moved) => {
                self.record(step, begin, moved as u64);
                if in_order {
                    // From the beginning again after the end.
                    self.slots[slot].position = if moved == 0 { 0 } else { place + moved as u64 };
                }
                Ok(Next::Step)
            }
            Err(e) => Err(self.failed_in("cannot read", slot, e)),
        }
    }

    pub(crate) fn read_whole_file(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let slot = file!(self, step);
        let bytes = match self.random.value(&step.flowop.io_bytes) {
            0 => self.working_set(step, slot).clamp(1, WHOLE_FILE_BYTES) as usize,
            bytes => bytes.min(MOST_IO_BYTES) as usize,
        };
        self.make_room(step.flowop, bytes)?;
        let file = self.slots[slot].file.as_ref().expect("opened by `file_of`");
        let room = &mut self.buffer.bytes_mut()[..bytes];
        let begin = Instant::now();
        let mut moved = 0;
        let result = loop {
            match rustix::io::pread(file, &mut *room, moved) {
                Ok(0) => break Ok(()),
                Ok(some) => moved += some as u64,
                Err(e) => break Err(e),
            }
            if self.shared.ending.is_over() {
                return Ok(Next::Over);
            }
        };
        self.record(step, begin, moved);
        self.slots[slot].position = moved;
        result.map_err(|e| self.failed_in("cannot read", slot, e))?;
        Ok(Next::Step)
    }

    /// Writes at a place, or at the end of the file, wherever that is by now. Less than asked for is written only when the disk
    /// is full or a limit is reached: the next try says which.
    fn write_all(&mut self, slot: usize, bytes: usize, place: Option<u64>) -> Result<(), Errno> {
        let data = self.shared.data;
        let mut left = bytes;
        while left > 0 {
            let some = data.some(left.min(data.largest()), &mut self.random);
            let file = self.descriptor(slot);
            let written = match place {
                Some(place) => rustix::io::pwrite(file, some, place.saturating_add((bytes - left) as u64)),
                None => rustix::io::pwritev2(file, &[IoSlice::new(some)], 0, ReadWriteFlags::APPEND),
            };
            match written {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(written) => left -= written,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// In a run in little space: where to write instead of further on in a file that grew too large.
    fn kept_small(&self, slot: usize, place: u64) -> u64 {
        match self.shared.growth_limit_bytes {
            Some(limit) if place >= limit && self.slots[slot].entry.is_some() => 0,
            _ => place,
        }
    }

    /// In a run in little space: empties a file that grew too large by appending.
    fn empty_if_large(&mut self, slot: usize) -> Result<(), FlowError> {
        let Some(limit) = self.shared.growth_limit_bytes else { return Ok(()) };
        let file = self.descriptor(slot);
        let emptied = rustix::fs::fstat(file).and_then(|found| {
            if found.st_size as u64 >= limit { rustix::fs::ftruncate(file, 0) } else { Ok(()) }
        });
        emptied.map_err(|e| self.failed_in("cannot empty", slot, e))
    }

    pub(crate) fn write(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let bytes = self.io_bytes(step)?;
        let slot = file!(self, step);
        let in_order = !step.flowop.random;
        let place = if in_order {
            self.kept_small(slot, self.slots[slot].position)
        } else {
            self.place(step, slot, bytes)?
        };
        let begin = Instant::now();
        match self.write_all(slot, bytes, Some(place)) {
            Ok(()) => {
                self.record(step, begin, bytes as u64);
                if in_order {
                    self.slots[slot].position = place.saturating_add(bytes as u64);
                }
            }
            // The end of a device: from the beginning again, as reads do.
            Err(Errno::NOSPC) if in_order && place > 0 && self.slots[slot].entry.is_none() => {
                self.slots[slot].position = 0;
            }
            Err(e) => return Err(self.failed_in("cannot write", slot, e)),
        }
        Ok(Next::Step)
    }

    pub(crate) fn write_whole_file(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let flowop = step.flowop;
        let slot = file!(self, step);
        let source = flowop.source_fd as usize;
        let all = match self.slots.get(source).and_then(|source| source.entry) {
            Some((index, number)) => self.shared.sets[index].tree.file_bytes[number as usize],
            None if source > 0 => {
                return Err(self.wrong(flowop, format!("copies from srcfd={source}, which was never opened")));
            }
            None => self.working_set(step, slot),
        };
        let piece = match self.random.value(&flowop.io_bytes) {
            0 => all,
            bytes => bytes,
        };
        let start = self.kept_small(slot, self.slots[slot].position);
        let begin = Instant::now();
        let mut done = 0;
        while done < all {
            let some = (all - done).min(piece.clamp(1, MOST_IO_BYTES));
            if let Err(e) = self.write_all(slot, some as usize, Some(start.saturating_add(done))) {
                return Err(self.failed_in("cannot write", slot, e));
            }
            done += some;
            if self.shared.ending.is_over() {
                return Ok(Next::Over);
            }
        }
        self.record(step, begin, all);
        self.slots[slot].position = start.saturating_add(all);
        Ok(Next::Step)
    }

    pub(crate) fn append_file(&mut self, step: &Step<'p>, random_size: bool) -> Result<Next, FlowError> {
        let mut bytes = self.io_bytes(step)?;
        if random_size {
            bytes = self.random.below(bytes as u64) as usize;
            if bytes == 0 {
                // Nothing to append is still an operation, as in Filebench.
                self.record(step, Instant::now(), 0);
                return Ok(Next::Step);
            }
        }
        let slot = file!(self, step);
        self.empty_if_large(slot)?;
        let begin = Instant::now();
        match self.write_all(slot, bytes, None) {
            Ok(()) => self.record(step, begin, bytes as u64),
            Err(e) => return Err(self.failed_in("cannot append to", slot, e)),
        }
        Ok(Next::Step)
    }

    pub(crate) fn aio_write(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let bytes = self.io_bytes(step)?;
        if !step.flowop.random {
            return Err(self.wrong(step.flowop, ASYNCHRONOUS_IN_ORDER.to_owned()));
        }
        let slot = file!(self, step);
        let place = self.place(step, slot, bytes)?;
        if self.writes.is_none() {
            let writes = (self.shared.new_writes)();
            self.writes = Some(writes.map_err(|e| {
                FlowError::call("cannot start the thread that waits for", step.flowop.name.clone(), e)
            })?);
        }
        if self.writes.as_ref().is_some_and(AsyncWrites::is_full) {
            self.reap(1)?;
        }
        let data = self.shared.data;
        let some = data.some(bytes.min(data.largest()), &mut self.random);
        let writes = self.writes.as_mut().expect("made above");
        let file = self.slots[slot].file.as_ref().expect("opened by `file_of`");
        let begin = Instant::now();
        // SAFETY: the data live as long as the run, and every write is waited for before the thread ends (`drain`).
        let begun =
            unsafe { writes.begin(file, some, place, Tag { begin, row: step.row, number: step.number }) };
        begun.map_err(|e| FlowError::call("cannot write to", step.flowop.name.clone(), e))?;
        Ok(Next::Step)
    }

    /// Waits for half of what is under way, one write at least.
    pub(crate) fn aio_wait(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let under_way = self.writes.as_ref().map_or(0, AsyncWrites::under_way);
        if under_way > 0 {
            let begin = Instant::now();
            self.reap((under_way / 2).max(1))?;
            self.record(step, begin, 0);
        }
        Ok(Next::Step)
    }

    /// Waits for so many writes and counts all that have ended, each with the time from its beginning to its end.
    fn reap(&mut self, count: usize) -> Result<(), FlowError> {
        let Some(writes) = &mut self.writes else { return Ok(()) };
        let ended = writes
            .wait(count)
            .map_err(|e| FlowError::call("cannot wait for", "asynchronous writes".to_owned(), e))?;
        for write in ended {
            match write.result {
                Ok(bytes) => {
                    let Tag { begin, row, number } = write.tag;
                    self.record_from_to(row, number, begin, write.end, bytes);
                }
                Err(e) => return Err(FlowError::call("cannot write", "asynchronously".to_owned(), e)),
            }
        }
        Ok(())
    }

    /// Waits for all writes under way to the file in a slot, before it is closed: its descriptor's number is another file's then.
    pub(crate) fn settle(&mut self, slot: usize) -> Result<(), FlowError> {
        while let (Some(writes), Some(file)) = (&self.writes, &self.slots[slot].file)
            && writes.has_under_way(file)
        {
            self.reap(1)?;
        }
        Ok(())
    }

    /// Waits for all writes under way: their memory and files must outlive them. Those that had ended when the run did, and
    /// only were not asked for, count.
    pub(crate) fn drain(&mut self) {
        let Some(writes) = &mut self.writes else { return };
        let under_way = writes.under_way();
        // What failed would have been said if the run had gone on.
        let ended = writes.wait(under_way).unwrap_or_default();
        if self.shared.most_operations.is_some() {
            return;
        }
        for write in ended.iter().filter(|write| self.shared.ending.was_before(write.end)) {
            if let Ok(bytes) = write.result {
                self.count(write.tag.row, write.tag.begin, write.end, bytes);
            }
        }
    }
}
