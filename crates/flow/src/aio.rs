//! Writes that a thread does not wait for: io_uring, or helping threads where the kernel does not allow it.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use io_uring::{IoUring, opcode, types};

/// Writes that can be under way at once, for one thread.
const MOST: usize = 4096;
/// Entries of a ring; what does not fit is handed over in several calls.
const ENTRIES: u32 = 256;
/// Threads that help where there is no ring.
const HELPERS: usize = 8;

/// What is remembered of a write.
#[derive(Clone, Copy)]
pub(crate) struct Tag {
    pub(crate) begin: Instant,
    /// The flowop it is counted for.
    pub(crate) row: usize,
    /// Its step in the thread.
    pub(crate) number: usize,
}

/// A write that has ended.
pub(crate) struct Ended {
    pub(crate) tag: Tag,
    pub(crate) end: Instant,
    /// Bytes written.
    pub(crate) result: io::Result<u64>,
}

/// A thread's writes under way.
pub(crate) struct AsyncWrites {
    backend: Backend,
    tags: HashMap<u64, (Tag, usize)>,
    next: u64,
}

enum Backend {
    Ring(Box<IoUring>),
    Helpers(Helpers),
}

impl AsyncWrites {
    pub(crate) fn new() -> Self {
        let backend = match IoUring::new(ENTRIES) {
            Ok(ring) => Backend::Ring(Box::new(ring)),
            // Switched off by the administrator or a sandbox, or too old a kernel.
            Err(_) => Backend::Helpers(Helpers::new()),
        };
        Self { backend, tags: HashMap::new(), next: 0 }
    }

    #[cfg(test)]
    fn with_helpers() -> Self {
        Self { backend: Backend::Helpers(Helpers::new()), tags: HashMap::new(), next: 0 }
    }

    pub(crate) fn under_way(&self) -> usize {
        self.tags.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.tags.len() >= MOST
    }

    /// Begins a write.
    ///
    /// # Safety
    /// `data` and the open file must stay until the write has ended, which [`Self::wait`] says.
    pub(crate) unsafe fn begin(
        &mut self,
        file: &OwnedFd,
        data: &[u8],
        place: u64,
        tag: Tag,
    ) -> io::Result<()> {
        let number = self.next;
        self.next += 1;
        match &mut self.backend {
            Backend::Ring(ring) => {
                let write = opcode::Write::new(types::Fd(file.as_raw_fd()), data.as_ptr(), data.len() as u32)
                    .offset(place)
                    .build()
                    .user_data(number);
                // SAFETY: the caller keeps data and file.
                while unsafe { ring.submission().push(&write) }.is_err() {
                    ring.submit()?;
                }
                ring.submit()?;
            }
            Backend::Helpers(helpers) => helpers.send(Write {
                file: file.as_raw_fd(),
                data: data.as_ptr() as usize,
                length: data.len(),
                place,
                number,
            })?,
        }
        self.tags.insert(number, (tag, data.len()));
        Ok(())
    }

    /// Waits until `count` writes have ended, and returns all that have.
    pub(crate) fn wait(&mut self, count: usize) -> io::Result<Vec<Ended>> {
        let count = count.min(self.tags.len());
        let mut ended = Vec::new();
        while ended.len() < count {
            match &mut self.backend {
                Backend::Ring(ring) => {
                    match ring.submit_and_wait(1) {
                        Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                        _ => {}
                    }
                    let end = Instant::now();
                    for completion in ring.completion() {
                        take(
                            &mut self.tags,
                            completion.user_data(),
                            i64::from(completion.result()),
                            end,
                            &mut ended,
                        );
                    }
                }
                Backend::Helpers(helpers) => {
                    let mut next = helpers.ended.recv().ok();
                    while let Some((number, result, end)) = next {
                        take(&mut self.tags, number, result, end, &mut ended);
                        next = helpers.ended.try_recv().ok();
                    }
                }
            }
        }
        Ok(ended)
    }
}

fn take(
    tags: &mut HashMap<u64, (Tag, usize)>,
    number: u64,
    result: i64,
    end: Instant,
    ended: &mut Vec<Ended>,
) {
    let Some((tag, bytes)) = tags.remove(&number) else { return };
    let result = match result {
        written if written == bytes as i64 => Ok(written as u64),
        // Part of it: the rest found no room.
        written if written >= 0 => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
        error => Err(io::Error::from_raw_os_error(-error as i32)),
    };
    ended.push(Ended { tag, end, result });
}

/// A write handed to a helper; addresses as numbers, for pointers do not go to other threads.
struct Write {
    file: RawFd,
    data: usize,
    length: usize,
    place: u64,
    number: u64,
}

struct Helpers {
    writes: Option<Sender<Write>>,
    ended: Receiver<(u64, i64, Instant)>,
    threads: Vec<JoinHandle<()>>,
}

impl Helpers {
    fn new() -> Self {
        let (writes, waiting) = channel::<Write>();
        let (report, ended) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let help = |_| {
            let (waiting, report) = (Arc::clone(&waiting), report.clone());
            std::thread::spawn(move || {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(write) = next else { return };
                    let result = perform(&write);
                    if report.send((write.number, result, Instant::now())).is_err() {
                        return;
                    }
                }
            })
        };
        Self { writes: Some(writes), ended, threads: (0..HELPERS).map(help).collect() }
    }

    fn send(&self, write: Write) -> io::Result<()> {
        let gone = || io::Error::other("the helping threads have ended");
        self.writes.as_ref().ok_or_else(gone)?.send(write).map_err(|_| gone())
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.writes = None;
        for thread in self.threads.drain(..) {
            // A helper only writes; it has nothing to say at its end.
            let _ = thread.join();
        }
    }
}

fn perform(write: &Write) -> i64 {
    // SAFETY: whoever began the write keeps the data and the file until it has ended (`AsyncWrites::begin`).
    let written = unsafe {
        libc::pwrite64(write.file, write.data as *const libc::c_void, write.length, write.place as i64)
    };
    if written < 0 {
        -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    } else {
        written as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn writes_arrive(mut writes: AsyncWrites) {
        let file = tempfile::tempfile().unwrap();
        let handle = OwnedFd::from(file.try_clone().unwrap());
        let blocks: Vec<[u8; 512]> = (0..100).map(|n| [n as u8; 512]).collect();
        for (number, block) in blocks.iter().enumerate() {
            let tag = Tag { begin: Instant::now(), row: number, number };
            // SAFETY: blocks and file live until all writes were waited for.
            unsafe { writes.begin(&handle, block, number as u64 * 512, tag) }.unwrap();
        }
        let mut rows = Vec::new();
        while writes.under_way() > 0 {
            let half = (writes.under_way() / 2).max(1);
            let ended = writes.wait(half).unwrap();
            assert!(ended.len() >= half);
            rows.extend(ended.iter().map(|write| write.tag.row));
            assert!(
                ended.iter().all(|write| write.end >= write.tag.begin && matches!(write.result, Ok(512)))
            );
        }
        rows.sort_unstable();
        assert_eq!(rows, (0..100).collect::<Vec<_>>());
        for (number, block) in blocks.iter().enumerate() {
            let mut read = [0; 512];
            file.read_exact_at(&mut read, number as u64 * 512).unwrap();
            assert_eq!(&read, block);
        }
        let nowhere = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let tag = Tag { begin: Instant::now(), row: 0, number: 0 };
        // SAFETY: as above; the file is open for reading only.
        unsafe { writes.begin(&nowhere, &blocks[0], 0, tag) }.unwrap();
        assert!(writes.wait(1).unwrap()[0].result.is_err());
    }

    #[test]
    fn writes_arrive_through_the_ring_where_there_is_one() {
        writes_arrive(AsyncWrites::new());
    }

    #[test]
    fn writes_arrive_through_helpers() {
        writes_arrive(AsyncWrites::with_helpers());
    }
}
