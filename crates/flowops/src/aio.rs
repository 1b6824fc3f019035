//! Writes that a thread does not wait for: io_uring, or helping threads where the kernel does not allow it.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use io_uring::{IoUring, opcode, squeue, types};

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
///
/// Whatever sends them, another thread waits for their ends and notes when they came: the workload's own thread may be busy
/// elsewhere for long before it asks.
pub(crate) struct AsyncWrites {
    backend: Backend,
    ended: Completions,
    under_way: HashMap<u64, UnderWay>,
    next: u64,
}

/// What is known of a write that has not ended.
struct UnderWay {
    tag: Tag,
    bytes: usize,
    /// The number of its file's descriptor: until the write has ended it must not become another file's.
    file: RawFd,
}

/// What has ended: its number, the kernel's result, and when.
type Completions = Receiver<(u64, i64, Instant)>;

enum Backend {
    Ring(Ring),
    Helpers(Helpers),
    /// Writes only when a caller waits, so that tests know what is in flight.
    #[cfg(test)]
    Lazy {
        queue: std::collections::VecDeque<Write>,
        report: Sender<(u64, i64, Instant)>,
    },
}

impl AsyncWrites {
    /// # Errors
    /// When a thread it needs cannot be started.
    pub(crate) fn new() -> io::Result<Self> {
        match IoUring::new(ENTRIES) {
            Ok(ring) => {
                let (ring, ended) = Ring::new(ring)?;
                Ok(Self::of(Backend::Ring(ring), ended))
            }
            // Switched off by the administrator or a sandbox, or too old a kernel.
            Err(_) => Self::with_helpers(),
        }
    }

    fn with_helpers() -> io::Result<Self> {
        let (helpers, ended) = Helpers::new()?;
        Ok(Self::of(Backend::Helpers(helpers), ended))
    }

    /// Writes that begin only when they are waited for.
    #[cfg(test)]
    pub(crate) fn lazy() -> io::Result<Self> {
        let (report, ended) = channel();
        Ok(Self::of(Backend::Lazy { queue: Default::default(), report }, ended))
    }

    fn of(backend: Backend, ended: Completions) -> Self {
        Self { backend, ended, under_way: HashMap::new(), next: 0 }
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Whether a write to this open file is under way: it must not be closed before.
    pub(crate) fn has_under_way(&self, file: &OwnedFd) -> bool {
        self.under_way.values().any(|write| write.file == file.as_raw_fd())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.under_way.len() >= MOST
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
                let write = opcode::Write::new(types::Fd(file.as_raw_fd()), data.as_ptr(), data.len() as u32);
                // SAFETY: the caller keeps data and file.
                unsafe { ring.push(&write.offset(place).build().user_data(number)) }?;
            }
            Backend::Helpers(helpers) => helpers.send(Write::new(file, data, place, number))?,
            #[cfg(test)]
            Backend::Lazy { queue, .. } => queue.push_back(Write::new(file, data, place, number)),
        }
        self.under_way.insert(number, UnderWay { tag, bytes: data.len(), file: file.as_raw_fd() });
        Ok(())
    }

    /// Waits until `count` writes have ended, and returns all that have.
    pub(crate) fn wait(&mut self, count: usize) -> io::Result<Vec<Ended>> {
        let count = count.min(self.under_way.len());
        let mut ended = Vec::new();
        while ended.len() < count {
            #[cfg(test)]
            if let Backend::Lazy { queue, report } = &mut self.backend {
                let write = queue.pop_front().expect("requests in flight are in the queue");
                report.send((write.number, perform(&write), Instant::now())).expect("its receiver is here");
            }
            let gone = |_| io::Error::other("the thread that waits for writes has ended");
            let mut next = Some(self.ended.recv().map_err(gone)?);
            while let Some((number, result, end)) = next {
                take(&mut self.under_way, number, result, end, &mut ended);
                next = self.ended.try_recv().ok();
            }
        }
        Ok(ended)
    }
}

impl Drop for AsyncWrites {
    /// Also where a thread panics: its files are closed after this.
    fn drop(&mut self) {
        let all = self.under_way.len();
        // There is no caller left for the error.
        let _ = self.wait(all);
    }
}

/// A ring, and the thread that waits for its completions.
struct Ring {
    ring: Arc<IoUring>,
    waiter: Option<JoinHandle<()>>,
    /// A request that could not be handed over is still in the queue: nothing may be handed over any more.
    broken: bool,
}

/// The request that ends the waiter.
const LAST: u64 = u64::MAX;

impl Ring {
    fn new(ring: IoUring) -> io::Result<(Self, Completions)> {
        let ring = Arc::new(ring);
        let (report, ended) = channel();
        let waiter = std::thread::Builder::new().spawn({
            let ring = Arc::clone(&ring);
            move || wait_for_completions(&ring, &report)
        })?;
        Ok((Self { ring, waiter: Some(waiter), broken: false }, ended))
    }

    /// Hands a request over.
    ///
    /// # Safety
    /// What the request points to must stay until it has ended.
    unsafe fn push(&mut self, request: &squeue::Entry) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other("an earlier write could not be submitted"));
        }
        // SAFETY: only the workload's own thread, which has this ring for itself, submits; the waiter only takes completions.
        while unsafe { self.ring.submission_shared().push(request) }.is_err() {
            self.submit_all()?;
        }
        self.submit_all()
    }

    /// Hands everything over: the kernel takes hold of a file only when it gets the request.
    fn submit_all(&mut self) -> io::Result<()> {
        loop {
            match self.ring.submit() {
                // SAFETY: as in `push`.
                Ok(_) if unsafe { self.ring.submission_shared() }.is_empty() => return Ok(()),
                Ok(_) => {}
                Err(e) if matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {
                    std::thread::yield_now();
                }
                Err(e) => {
                    self.broken = true;
                    return Err(e);
                }
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: a request that does nothing points to nothing.
        let told = unsafe { self.push(&opcode::Nop::new().build().user_data(LAST)) };
        if let (Ok(()), Some(waiter)) = (told, self.waiter.take()) {
            // It only waits; it has nothing to say at its end.
            let _ = waiter.join();
        }
    }
}

fn wait_for_completions(ring: &IoUring, report: &Sender<(u64, i64, Instant)>) {
    /// `IORING_ENTER_GETEVENTS` (include/uapi/linux/io_uring.h).
    const GET_EVENTS: u32 = 1;
    loop {
        // SAFETY: nothing is submitted, and no argument is passed.
        let entered = unsafe { ring.submitter().enter::<()>(0, 1, GET_EVENTS, None) };
        let end = Instant::now();
        if matches!(entered, Err(e) if e.kind() != io::ErrorKind::Interrupted) {
            return;
        }
        // SAFETY: this is the only thread that takes completions.
        let completions = unsafe { ring.completion_shared() };
        for completion in completions {
            if completion.user_data() == LAST
                || report.send((completion.user_data(), i64::from(completion.result()), end)).is_err()
            {
                return;
            }
        }
    }
}

fn take(
    under_way: &mut HashMap<u64, UnderWay>,
    number: u64,
    result: i64,
    end: Instant,
    ended: &mut Vec<Ended>,
) {
    let Some(UnderWay { tag, bytes, .. }) = under_way.remove(&number) else { return };
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

impl Write {
    fn new(file: &OwnedFd, data: &[u8], place: u64, number: u64) -> Self {
        Self { file: file.as_raw_fd(), data: data.as_ptr() as usize, length: data.len(), place, number }
    }
}

struct Helpers {
    writes: Option<Sender<Write>>,
    threads: Vec<JoinHandle<()>>,
}

impl Helpers {
    fn new() -> io::Result<(Self, Completions)> {
        let (writes, waiting) = channel::<Write>();
        let (report, ended) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let mut helpers = Self { writes: Some(writes), threads: Vec::new() };
        for _ in 0..HELPERS {
            let (waiting, report) = (Arc::clone(&waiting), report.clone());
            let help = move || {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(write) = next else { return };
                    let result = perform(&write);
                    if report.send((write.number, result, Instant::now())).is_err() {
                        return;
                    }
                }
            };
            // Those that were started end with `helpers`.
            helpers.threads.push(std::thread::Builder::new().spawn(help)?);
        }
        Ok((helpers, ended))
    }

    fn send(&self, write: Write) -> io::Result<()> {
        let gone = || io::Error::other("the helper threads have ended");
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
    // SAFETY: the caller that began the write keeps the data and the file until it has ended (`AsyncWrites::begin`).
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
        writes_arrive(AsyncWrites::new().unwrap());
    }

    #[test]
    fn writes_arrive_through_helpers() {
        writes_arrive(AsyncWrites::with_helpers().unwrap());
    }

    #[test]
    fn a_write_that_nobody_waited_for_ends_before_its_file_is_closed() {
        let file = tempfile::tempfile().unwrap();
        let handle = OwnedFd::from(file.try_clone().unwrap());
        let mut writes = AsyncWrites::lazy().unwrap();
        let tag = Tag { begin: Instant::now(), row: 0, number: 0 };
        // SAFETY: the data live for ever, and the file longer than the writes.
        unsafe { writes.begin(&handle, b"late", 0, tag) }.unwrap();
        assert!(
            writes.has_under_way(&handle) && !writes.has_under_way(&OwnedFd::from(file.try_clone().unwrap()))
        );
        assert_eq!(file.metadata().unwrap().len(), 0);
        drop(writes);
        assert_eq!(file.metadata().unwrap().len(), 4);
    }

    /// What is in the only file of a set.
    fn contents(folder: &std::path::Path, set: &str) -> Vec<u8> {
        std::fs::read(folder.join(set).join("00000001/00000001")).unwrap()
    }

    /// A script whose thread writes to a file of `old`, then does this, then opens one of `new` in the same place.
    fn write_then(what: &str) -> (Vec<u8>, Vec<u8>, tempfile::TempDir, crate::FlowReport) {
        let text = format!(
            "define fileset name=old,path=/x,entries=1,size=64k,dirwidth=5,prealloc\n\
             define fileset name=new,path=/x,entries=1,size=64k,dirwidth=5,prealloc\n\
             define process name=p {{ thread name=t {{\n\
             flowop openfile name=first,filesetname=old,fd=1\n\
             flowop aiowrite name=write,fd=1,iosize=4k,random\n\
             {what}\n\
             flowop openfile name=second,filesetname=new,fd=1\n\
             flowop finishoncount name=end,value=1,target=second\n\
             }} }}\nrun\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let script = nestor_wml::parse(&nestor_wml::Source::new("test.f", &text), &[]).unwrap();
        let run = |only_prepare, prepared| {
            let places = crate::relocate(&script, folder.path());
            let options = crate::FlowOptions {
                places,
                only_prepare,
                prepared,
                lazy_writes: true,
                ..Default::default()
            };
            let source = crate::Source { name: "test.f", text: &text };
            crate::run_script(&script, source, &options, &Deaf).unwrap()
        };
        run(true, false);
        let before = (contents(folder.path(), "old"), contents(folder.path(), "new"));
        let report = run(false, true);
        (before.0, before.1, folder, report)
    }

    struct Deaf;

    impl crate::Listener for Deaf {
        fn say(&self, _line: &str) {}
        fn progress(&self, _what: &str, _share: f64) {}
        fn report(&self, _so_far: &crate::RunReport) {}
        fn is_interrupted(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_write_under_way_when_its_file_is_closed_never_reaches_the_next_file() {
        let (old, new, folder, report) = write_then("flowop closefile name=close,fd=1");
        assert_eq!(report.runs[0].ended, crate::Ended::Done);
        assert!(contents(folder.path(), "new") == new, "the write went to the file opened after it");
        assert!(contents(folder.path(), "old") != old, "the write went nowhere");
        let written = report.runs[0].flowops.iter().find(|flowop| flowop.name == "write").unwrap();
        assert_eq!((written.operations, written.bytes), (1, 4096));
    }

    #[test]
    fn a_write_under_way_when_its_file_is_removed_never_reaches_the_next_file() {
        let what = "flowop deletefile name=delete,fd=1\nflowop closefile name=close,fd=1";
        let (_, new, folder, report) = write_then(what);
        assert_eq!(report.runs[0].ended, crate::Ended::Done);
        assert!(contents(folder.path(), "new") == new, "the write went to the file opened after it");
        assert!(!folder.path().join("old/00000001/00000001").exists());
    }
}
