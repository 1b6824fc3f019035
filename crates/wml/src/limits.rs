//! How much a script may ask for. What is beyond would end in want of memory, or of another thing that no machine has.

/// Threads of a run, in all processes. The stack of each takes two of the 65 530 memory mappings that Linux gives a process
/// (`vm.max_map_count`), and the counters need some too.
pub const MOST_THREADS: u64 = 16_384;

/// Flowops of different names or kinds in a run, and definitions of threads. Each has counters of its own, of 250 KB of
/// address space at least.
pub const MOST_COUNTED: usize = 4096;

/// Threads of a run times the flowops that each goes through, and times the file sets of the run. A thread remembers about
/// 80 bytes of each.
pub const MOST_STEPS: u64 = 4 << 20;

/// Largest `fd` and `srcfd`. A thread has room for all smaller ones; Filebench has 128.
pub const LARGEST_FD: u32 = 4095;

/// Threads of a run times their descriptors, of 40 bytes each.
pub const MOST_DESCRIPTORS: u64 = 4 << 20;

/// Descriptors that a thread with `opennext` goes through: Filebench's `THREADFLOW_MAXFD`.
pub const ROTATING_FDS: u32 = 128;

/// Bytes of one operation. Linux moves less than 2 GiB with one call (`MAX_RW_COUNT`, `include/linux/fs.h`).
pub const MOST_IO_BYTES: u64 = 1 << 30;

/// Memory that all threads of a run together read into.
pub const MOST_BUFFER_BYTES: u64 = 16 << 30;

/// `memsize` of all threads of a run together. Nothing is kept there, but a script that says more was written for no machine.
pub const MOST_THREAD_BYTES: u64 = 64 << 30;

/// `readwholefile` without `iosize` reads a larger file in several calls.
pub const WHOLE_FILE_BYTES: u64 = 16 << 20;

/// Files and leaf directories of all file sets of a run. About 60 bytes are kept of each, with its directory: 2 GiB.
pub const MOST_FILES: u64 = 1 << 25;

/// Bytes of all files of a run, by the mean size: more than any file system here holds (ext4 ends at 2⁶⁰), and little enough
/// for sums of 64 bits.
pub const MOST_SET_BYTES: u64 = 1 << 60;

/// Seconds of a run, a pause, or between two reports: ten years. Clocks end somewhere.
pub const MOST_SECONDS: f64 = 10.0 * 365.0 * 24.0 * 3600.0;

/// Events per second: one each nanosecond.
pub const MOST_EVENTS_PER_S: f64 = 1e9;
