//! Reading and writing.

use std::time::Instant;

use nestor_wml::Value;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::aio::{AsyncWrites, Tag};
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
                Err(self.wrong(step.flowop, "moves nothing: give it iosize=".to_owned()))
            }
            // A distribution may draw 0.
            bytes => Ok(bytes.max(1) as usize),
        }
    }

    /// The part of the file that random operations go to.
    fn working_set(&mut self, step: &Step<'p>, slot: usize) -> u64 {
        let drawn = match self.own[step.number].working_set {
            Some(drawn) => drawn,
            None => {
                let drawn = self.random.value(&step.flowop.working_set);
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
        let place = if step.flowop.random { Some(self.place(step, slot, bytes)?) } else { None };
        self.room(bytes);
        let file = self.slots[slot].file.as_ref().expect("opened by `file_of`");
        let room = &mut self.buffer.bytes_mut()[..bytes];
        let begin = Instant::now();
        let moved = match place {
            Some(place) => rustix::io::pread(file, room, place),
            None => rustix::io::read(file, room),
        };
        match moved {
            Ok(moved) => {
                self.record(step, begin, moved as u64);
                if moved == 0 {
                    seek(self.descriptor(slot), SeekFrom::Start(0)).map_err(|e| self.failed_in("cannot rewind", slot, e))?;
                }
                Ok(Next::Step)
            }
            Err(e) => Err(self.failed_in("cannot read", slot, e)),
        }
    }

    pub(crate) fn read_whole_file(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let slot = file!(self, step);
        let bytes = match self.random.value(&step.flowop.io_bytes) {
            0 => self.working_set(step, slot).max(1) as usize,
            bytes => bytes as usize,
        };
        self.room(bytes);
        let file = self.slots[slot].file.as_ref().expect("opened by `file_of`");
        let room = &mut self.buffer.bytes_mut()[..bytes];
        let begin = Instant::now();
        let mut moved = 0;
        let result = seek(file, SeekFrom::Start(0)).and_then(|_| {
            loop {
                match rustix::io::read(file, &mut *room)? {
                    0 => return Ok(()),
                    some => moved += some as u64,
                }
                if self.shared.ending.is_over() {
                    return Ok(());
                }
            }
        });
        self.record(step, begin, moved);
        result.map_err(|e| self.failed_in("cannot read", slot, e))?;
        Ok(Next::Step)
    }

    /// Writes at the file's position. Less than asked for is written only when the disk is full or a limit is reached: the
    /// next try says which.
    fn write_all(&mut self, slot: usize, bytes: usize, place: Option<u64>) -> Result<(), Errno> {
        let data = self.shared.data;
        let largest = data.largest();
        let mut left = bytes;
        while left > 0 {
            let some = data.some(left.min(largest), &mut self.random);
            let file = self.descriptor(slot);
            let written = match place {
                Some(place) => rustix::io::pwrite(file, some, place + (bytes - left) as u64),
                None => rustix::io::write(file, some),
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

    /// In a run in little space: begins the file again that would grow too large.
    fn keep_small(&mut self, slot: usize, from_end: bool) -> Result<(), FlowError> {
        let Some(limit) = self.shared.growth_limit_bytes else { return Ok(()) };
        if self.slots[slot].entry.is_none() {
            return Ok(());
        }
        let file = self.descriptor(slot);
        let from = if from_end { SeekFrom::End(0) } else { SeekFrom::Current(0) };
        let begun = seek(file, from).and_then(|position| {
            if position >= limit && from_end {
                rustix::fs::ftruncate(file, 0)?;
            }
            if position >= limit { seek(file, SeekFrom::Start(0)).map(|_| ()) } else { Ok(()) }
        });
        begun.map_err(|e| self.failed_in("cannot begin again", slot, e))
    }

    pub(crate) fn write(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let bytes = self.io_bytes(step)?;
        let slot = file!(self, step);
        let place = if step.flowop.random { Some(self.place(step, slot, bytes)?) } else { None };
        if place.is_none() {
            self.keep_small(slot, false)?;
        }
        let begin = Instant::now();
        match self.write_all(slot, bytes, place) {
            Ok(()) => self.record(step, begin, bytes as u64),
            // The end of a device: from the beginning again, as reads do.
            Err(Errno::NOSPC) if place.is_none() && self.slots[slot].entry.is_none() => {
                seek(self.descriptor(slot), SeekFrom::Start(0)).map_err(|e| self.failed_in("cannot rewind", slot, e))?;
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
        self.keep_small(slot, false)?;
        let begin = Instant::now();
        let mut left = all;
        while left > 0 {
            let some = left.min(piece.max(1));
            if let Err(e) = self.write_all(slot, some as usize, None) {
                return Err(self.failed_in("cannot write", slot, e));
            }
            left -= some;
            if self.shared.ending.is_over() {
                return Ok(Next::Over);
            }
        }
        self.record(step, begin, all);
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
        self.keep_small(slot, true)?;
        let begin = Instant::now();
        let written = seek(self.descriptor(slot), SeekFrom::End(0)).and_then(|_| self.write_all(slot, bytes, None));
        match written {
            Ok(()) => self.record(step, begin, bytes as u64),
            Err(e) => return Err(self.failed_in("cannot append to", slot, e)),
        }
        Ok(Next::Step)
    }

    pub(crate) fn aio_write(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let bytes = self.io_bytes(step)?;
        if !step.flowop.random {
            return Err(self.wrong(step.flowop, "writes asynchronously in order, which has no meaning: add random".to_owned()));
        }
        let slot = file!(self, step);
        let place = self.place(step, slot, bytes)?;
        if self.writes.is_none() {
            self.writes = Some(AsyncWrites::new());
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
        let begun = unsafe { writes.begin(file, some, place, Tag { begin, row: step.row, number: step.number }) };
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
        let ended = writes.wait(count).map_err(|e| FlowError::call("cannot wait for", "asynchronous writes".to_owned(), e))?;
        for write in ended {
            match write.result {
                Ok(bytes) => {
                    let Tag { begin, row, number } = write.tag;
                    self.record_from_to(row, number, begin, write.end, bytes);
                },
                Err(e) => return Err(FlowError::call("cannot write", "asynchronously".to_owned(), e)),
            }
        }
        Ok(())
    }

    /// Waits for all writes under way: their memory and files must outlive them.
    pub(crate) fn drain(&mut self) {
        if let Some(writes) = &mut self.writes {
            let under_way = writes.under_way();
            // What failed would have been said if the run had gone on.
            let _ = writes.wait(under_way);
        }
    }
}
