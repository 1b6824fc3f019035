//! Requests by threads that wait for them: where there is no io_uring.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nestor_stop::lock;
use nestor_trace::Operation;

use super::{Command, Completion, Engine, PUNCH_HOLE};
use crate::clock::now_ns;
use crate::data::{Pool, WriteData, pieces};

/// Threads at most, whatever depth is asked for.
const MOST_THREADS: usize = 256;
/// Their stacks: they call the kernel and little else.
const STACK_BYTES: usize = 128 << 10;

/// Threads that are there from the beginning; more are started when all are busy, so that few take turns where few suffice.
const FIRST_THREADS: usize = 8;

/// Threads and what they share.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    most: usize,
}

/// A thread that panics leaves nothing half done in what is locked here.
struct Shared {
    file: File,
    orders: Mutex<Orders>,
    ordered: Condvar,
    done: Mutex<Vec<Completion>>,
    finished: Condvar,
    /// Length of `done`, for those who look often.
    ready: AtomicUsize,
    memory: Mutex<[Pool; 2]>,
}

#[derive(Default)]
struct Orders {
    waiting: VecDeque<Command>,
    idle: usize,
    ended: bool,
}

impl Threads {
    /// Starts some threads; there will be as many as requests are in flight, but not too many.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn new(file: File, data: WriteData, depth: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            file,
            orders: Mutex::default(),
            ordered: Condvar::new(),
            done: Mutex::default(),
            finished: Condvar::new(),
            ready: AtomicUsize::new(0),
            memory: Mutex::new([Pool::new(data), Pool::new(WriteData::Zeros)]),
        });
        let most = depth.clamp(1, MOST_THREADS);
        let mut engine = Self { shared, threads: Vec::new(), most };
        for _ in 0..most.min(FIRST_THREADS) {
            engine.start_thread()?;
        }
        Ok(engine)
    }

    fn start_thread(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let builder = std::thread::Builder::new().name("replay".to_owned()).stack_size(STACK_BYTES);
        self.threads.push(builder.spawn(move || serve(&shared))?);
        Ok(())
    }

    fn take(&self, ready: &mut Vec<Completion>, done: &mut Vec<Completion>) {
        done.append(ready);
        self.shared.ready.store(0, Ordering::Relaxed);
    }
}

/// Carries out orders until there will be no more.
fn serve(shared: &Shared) {
    let file = shared.file.as_raw_fd();
    let addresses = lock(&shared.memory).each_mut().map(|pool| pool.address());
    loop {
        let (command, begun_ns) = {
            let mut orders = lock(&shared.orders);
            let command = loop {
                match orders.waiting.pop_front() {
                    Some(command) => break command,
                    None if orders.ended => return,
                    None => {
                        orders.idle += 1;
                        orders = shared.ordered.wait(orders).unwrap_or_else(PoisonError::into_inner);
                        orders.idle -= 1;
                    }
                }
            };
            // With the lock held, so that the order of beginning is that of the trace.
            (command, now_ns())
        };
        let result = carry_out(file, &command, addresses);
        let completion =
            Completion { number: command.number, begun_ns: Some(begun_ns), completed_ns: now_ns(), result };
        let mut done = lock(&shared.done);
        done.push(completion);
        shared.ready.store(done.len(), Ordering::Release);
        shared.finished.notify_one();
    }
}

/// Carries out one request: bytes, or a negative errno.
fn carry_out(file: RawFd, command: &Command, [written, read]: [*mut u8; 2]) -> i64 {
    let request = &command.request;
    let (Ok(offset), Ok(bytes)) = (i64::try_from(request.offset()), i64::try_from(request.bytes())) else {
        return -i64::from(libc::EINVAL);
    };
    // SAFETY: it takes no memory.
    let flush = || call(|| unsafe { libc::fdatasync(file) } as isize);
    match request.operation {
        Operation::Flush => flush(),
        // SAFETY: it takes no memory.
        Operation::Discard => call(|| unsafe { libc::fallocate(file, PUNCH_HOLE, offset, bytes) } as isize),
        Operation::Read => {
            let pieces = pieces(read, command.number, request.bytes());
            // SAFETY: the pieces lie in a pool that is kept until all threads have ended, of which no part of this program
            // looks at the contents.
            call(|| unsafe { libc::preadv(file, pieces.as_ptr(), pieces.len() as i32, offset) })
        }
        Operation::Write => {
            if request.flushes_first() {
                let flushed = flush();
                if flushed < 0 {
                    return flushed;
                }
            }
            let flags = if request.is_fua() { libc::RWF_DSYNC } else { 0 };
            let pieces = pieces(written, command.number, request.bytes());
            // SAFETY: the pieces lie in a pool that is kept until all threads have ended, and that is never written to.
            call(|| unsafe { libc::pwritev2(file, pieces.as_ptr(), pieces.len() as i32, offset, flags) })
        }
    }
}

fn call(mut system_call: impl FnMut() -> isize) -> i64 {
    loop {
        let result = system_call();
        if result >= 0 {
            return result as i64;
        }
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        if errno != libc::EINTR {
            return -i64::from(errno);
        }
    }
}

impl Engine for Threads {
    fn submit(&mut self, commands: &[Command]) -> io::Result<()> {
        let missing = {
            let mut orders = lock(&self.shared.orders);
            orders.waiting.extend(commands);
            orders.waiting.len().saturating_sub(orders.idle)
        };
        for _ in 0..missing.min(self.most - self.threads.len()) {
            if self.start_thread().is_err() {
                // Those that there are do the work, a little later.
                self.most = self.threads.len();
                break;
            }
        }
        match commands {
            [_] => self.shared.ordered.notify_one(),
            _ => self.shared.ordered.notify_all(),
        }
        Ok(())
    }

    fn reap(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        if self.shared.ready.load(Ordering::Acquire) > 0 {
            self.take(&mut lock(&self.shared.done), done);
        }
        Ok(())
    }

    fn wait(&mut self, until_ns: u64, done: &mut Vec<Completion>) -> io::Result<()> {
        let left = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
        let mut ready = lock(&self.shared.done);
        if ready.is_empty() && !left.is_zero() {
            let waited = self.shared.finished.wait_timeout(ready, left);
            ready = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.take(&mut ready, done);
        Ok(())
    }

    fn most_in_flight(&self) -> usize {
        self.most
    }

    fn wants_the_processor(&self) -> bool {
        true
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        lock(&self.shared.orders).ended = true;
        self.shared.ordered.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}
