//! Requests through io_uring.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use nestor_trace::Operation;

use super::{Command, Completion, Engine, PUNCH_HOLE};
use crate::clock::now_ns;
use crate::data::{Pool, WriteData, pieces, place};

/// Requests handed over with one call at most.
const SUBMISSION_ENTRIES: u32 = 256;
/// `IORING_MAX_ENTRIES`, `io_uring/io_uring.h`.
const MOST_ENTRIES: usize = 32_768;
/// Numbers of the registered buffers.
const WRITTEN: u16 = 0;
const READ: u16 = 1;

/// A ring, and the memory that the kernel reads and writes.
pub(crate) struct Uring {
    ring: IoUring,
    file: File,
    written: Pool,
    read: Pool,
    registered: bool,
    most_in_flight: usize,
    in_flight: usize,
    /// Pieces of memory of requests that are longer than the pool: the kernel reads them while they are in flight.
    long: HashMap<usize, Vec<libc::iovec>>,
    /// Writes whose flush failed, with the error.
    unflushed: HashMap<usize, i32>,
}

impl Uring {
    /// Makes a ring for a file.
    ///
    /// # Errors
    /// The kernel has no io_uring, forbids it, or has one of before 5.11.
    pub fn new(file: File, data: WriteData, depth: usize) -> io::Result<Self> {
        let most_in_flight = depth.min(MOST_ENTRIES);
        // A write after a flush has two completions.
        let completions = (2 * most_in_flight).next_power_of_two().max(2 * SUBMISSION_ENTRIES as usize);
        let ring = IoUring::builder()
            .setup_clamp()
            .setup_cqsize(u32::try_from(completions).unwrap_or(u32::MAX))
            .build(SUBMISSION_ENTRIES)?;
        let features = ring.params();
        if !features.is_feature_ext_arg() || !features.is_feature_nodrop() {
            let older = "this kernel's io_uring is older than 5.11";
            return Err(io::Error::new(io::ErrorKind::Unsupported, older));
        }
        let (mut written, mut read) = (Pool::new(data), Pool::new(WriteData::Zeros));
        let buffers = [&mut written, &mut read]
            .map(|pool| libc::iovec { iov_base: pool.address().cast(), iov_len: crate::data::POOL_BYTES });
        // SAFETY: the pools are not moved or freed before the ring: see `Drop`.
        let registered = unsafe { ring.submitter().register_buffers(&buffers) }.is_ok();
        Ok(Self {
            ring,
            file,
            written,
            read,
            registered,
            most_in_flight,
            in_flight: 0,
            long: HashMap::new(),
            unflushed: HashMap::new(),
        })
    }

    /// Whether the kernel has pinned the memory once and for all; it refuses to where that may be little
    /// (`RLIMIT_MEMLOCK`).
    pub fn has_registered_buffers(&self) -> bool {
        self.registered
    }

    fn entry(&mut self, command: &Command) -> squeue::Entry {
        let (file, request, number) = (Fd(self.file.as_raw_fd()), &command.request, command.number);
        let (offset, bytes) = (request.offset(), request.bytes());
        // At most 1 GiB, see `plan::LONGEST_DATA_BYTES`.
        let length = bytes as u32;
        let write_flags = if request.is_fua() { libc::RWF_DSYNC } else { 0 };
        let (pool, index) = match request.operation {
            Operation::Flush => return opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
            Operation::Discard => {
                return opcode::Fallocate::new(file, bytes).offset(offset).mode(PUNCH_HOLE).build();
            }
            Operation::Read => (&mut self.read, READ),
            Operation::Write => (&mut self.written, WRITTEN),
        };
        let is_read = request.operation == Operation::Read;
        let address = pool.address();
        match place(number, bytes) {
            Some(at) => {
                let address = address.wrapping_add(at);
                match (is_read, self.registered) {
                    (true, true) => {
                        opcode::ReadFixed::new(file, address, length, index).offset(offset).build()
                    }
                    (true, false) => opcode::Read::new(file, address, length).offset(offset).build(),
                    (false, true) => opcode::WriteFixed::new(file, address, length, index)
                        .offset(offset)
                        .rw_flags(write_flags)
                        .build(),
                    (false, false) => {
                        opcode::Write::new(file, address, length).offset(offset).rw_flags(write_flags).build()
                    }
                }
            }
            None => {
                let pieces = pieces(address, number, bytes);
                let (first, count) = (pieces.as_ptr(), pieces.len() as u32);
                // The vector's memory stays where it is when the vector moves.
                self.long.insert(number, pieces);
                if is_read {
                    opcode::Readv::new(file, first, count).offset(offset).build()
                } else {
                    opcode::Writev::new(file, first, count).offset(offset).rw_flags(write_flags).build()
                }
            }
        }
    }

    /// Hands everything in the submission queue to the kernel.
    fn enter(&mut self) -> io::Result<()> {
        loop {
            match self.ring.submit() {
                Ok(_) => {}
                Err(error) if is_temporary(&error) => std::thread::yield_now(),
                Err(error) => return Err(error),
            }
            if self.ring.submission().is_empty() {
                return Ok(());
            }
        }
    }

    fn push(&mut self, entries: &[squeue::Entry]) -> io::Result<()> {
        let room = {
            let queue = self.ring.submission();
            queue.capacity() - queue.len()
        };
        // What is linked must not be torn.
        if room < entries.len() {
            self.enter()?;
        }
        // SAFETY: what the entries point to lives until they are complete: the pools and `long` are kept until then, and
        // the file is this one's own.
        let pushed = unsafe { self.ring.submission().push_multiple(entries) };
        pushed.map_err(|_| io::Error::other("the submission queue is full although it was emptied"))
    }
}

/// Worth another try.
fn is_temporary(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

/// The number of a request, and whether it is the flush before it.
fn user_data(number: usize, is_flush_before: bool) -> u64 {
    number as u64 * 2 + u64::from(is_flush_before)
}

impl Engine for Uring {
    fn submit(&mut self, commands: &[Command]) -> io::Result<()> {
        for command in commands {
            let entry = self.entry(command).user_data(user_data(command.number, false));
            if command.request.flushes_first() {
                let flush = opcode::Fsync::new(Fd(self.file.as_raw_fd())).flags(FsyncFlags::DATASYNC).build();
                let flush = flush.user_data(user_data(command.number, true)).flags(squeue::Flags::IO_LINK);
                self.push(&[flush, entry])?;
            } else {
                self.push(&[entry])?;
            }
            self.in_flight += 1;
        }
        self.enter()
    }

    fn reap(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        let mut completed_ns = 0;
        for entry in self.ring.completion() {
            if completed_ns == 0 {
                completed_ns = now_ns();
            }
            let (number, result) = ((entry.user_data() / 2) as usize, entry.result());
            if !entry.user_data().is_multiple_of(2) {
                if result < 0 {
                    self.unflushed.insert(number, result);
                }
                continue;
            }
            self.in_flight -= 1;
            self.long.remove(&number);
            let of_flush = self.unflushed.remove(&number).filter(|_| result == -libc::ECANCELED);
            let result = i64::from(of_flush.unwrap_or(result));
            done.push(Completion { number, begun_ns: None, completed_ns, result });
        }
        Ok(())
    }

    fn wait(&mut self, until_ns: u64, done: &mut Vec<Completion>) -> io::Result<()> {
        self.reap(done)?;
        let left_ns = until_ns.saturating_sub(now_ns());
        if !done.is_empty() || left_ns == 0 {
            return Ok(());
        }
        let time = Timespec::new().sec(left_ns / 1_000_000_000).nsec((left_ns % 1_000_000_000) as u32);
        match self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time)) {
            Ok(_) => {}
            Err(error) if is_temporary(&error) || error.raw_os_error() == Some(libc::ETIME) => {}
            Err(error) => return Err(error),
        }
        self.reap(done)
    }

    fn most_in_flight(&self) -> usize {
        self.most_in_flight
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.in_flight > 0 {
            done.clear();
            if self.wait(now_ns() + 100_000_000, &mut done).is_err() {
                break;
            }
        }
        if self.in_flight > 0 {
            // The kernel may still write there, so it must stay.
            mem::forget(mem::replace(&mut self.read, Pool::empty()));
            mem::forget(mem::replace(&mut self.written, Pool::empty()));
            mem::forget(mem::take(&mut self.long));
        }
    }
}
