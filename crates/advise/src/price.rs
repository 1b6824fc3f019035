//! What a power cut loses, by what was seen of flushes: traced, not looked up.
//!
//! A guest's flush promises that what was written before is on the medium. Whether it is can be seen by counting the flushes
//! that left the guest and those that arrived at the medium, in one run. What was written and not yet seen below at the end
//! of the run was in memory of the host.

use std::cmp::Reverse;
use std::fmt;

use nestor_stack::Export;
use nestor_stack::layers::hypervisors::CacheMode;
use serde::{Deserialize, Serialize};

use nestor_results::{WrittenStack, WrittenWorkload};
use nestor_text::units::{bytes, digits};

/// A short workload that flushes after every eighth write, so that a flush for each write and one for each guest's flush can
/// be told apart. Each write waits for the one before.
pub const FLUSH_PROBE: &str = "fio:rand-write:size=4M:files=1:engine=psync:fsync=8";

/// At least so many flushes at the medium for each of the guest's, or for each write, count as all: a trace may lose the
/// last one to its end.
const ALL_FROM: f64 = 0.9;
/// At most so many count as none: journals below flush now and then by themselves.
const NONE_UP_TO: f64 = 0.05;
/// Fewer flushes, or writes, tell nothing: some belong to what was before and after the run.
const FEWEST: u64 = 8;
/// Less than this share of the written bytes missing below, or less than [`LEAST_HELD_BYTES`], is the trace's end.
const HELD_FROM: f64 = 0.01;
/// See [`HELD_FROM`].
const LEAST_HELD_BYTES: u64 = 64 << 10;

/// What of a stack decides how far flushes reach: where it is alike, one stack shows the price of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Promise {
    /// Cache mode of the topmost virtual machine.
    cache: Option<CacheMode>,
    /// When a server says that data are stored, and whether its client waits for every write.
    network: Option<(Export, bool)>,
    /// How a server opens what it serves as a network disk.
    network_disk: Option<CacheMode>,
    /// Loop devices through a page cache, each of which has to pass flushes on.
    loops: usize,
    /// Whether the application uses the server itself, and not a disk of its virtual machine.
    is_beside: bool,
}

impl Promise {
    /// Of a stack; of one that this version does not know, nothing.
    pub fn of(stack: &WrittenStack) -> Self {
        let layers = stack.value().map_or(&[][..], |stack| stack.layers());
        Self {
            cache: crate::cache_mode(stack),
            network: layers
                .iter()
                .find_map(|layer| layer.network_file_system())
                .map(|nfs| (nfs.export, nfs.sync)),
            network_disk: layers.iter().find_map(|layer| layer.network_disk()).map(|disk| disk.block.cache),
            loops: layers.iter().filter(|layer| layer.is_cached_loop_device()).count(),
            is_beside: stack.value().is_some_and(|stack| stack.is_beside()),
        }
    }
}

/// Who flushes, in a [`FlushTrace`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flusher {
    /// A guest flushes its disk.
    #[default]
    Guest,
    /// A client flushes its network disk.
    ClientDisk,
    /// A client of NFS calls COMMIT (RFC 1813, section 3.3.21). What one WRITE holds it writes with FILE_SYNC instead, so that no COMMIT is
    /// needed (section 3.3.7; `FLUSH_COND_STABLE` in fs/nfs/pagelist.c).
    Client,
}

/// What a run showed of writes and flushes at its two ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlushTrace {
    /// The run's number in the store.
    pub run: i64,
    /// The stack.
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// Who flushes: where it is a client, its COMMITs stand for the guest's flushes, its WRITEs for the guest's writes.
    #[serde(default)]
    pub flusher: Flusher,
    /// Flushes and FUA writes that the guest's file system asked its block layer for.
    pub guest_asked: u64,
    /// Flushes and FUA writes that left the guest; none where its disk says it has no write cache.
    pub guest_sent: u64,
    /// Write requests that left the guest.
    pub guest_writes: u64,
    /// Their bytes.
    pub guest_write_bytes: u64,
    /// Where the lower end is: the layer's name.
    pub medium: String,
    /// Flushes and FUA writes that arrived there.
    pub medium_flushes: u64,
    /// Bytes written there.
    pub medium_write_bytes: u64,
}

/// How far the guest's flushes reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reach", content = "flushes")]
pub enum Reach {
    /// To the medium; so many flushes there for each of the guest's.
    PerFlush(f64),
    /// Every write is flushed, whether the guest asks or not; so many flushes at the medium for each write.
    PerWrite(f64),
    /// There are fewer at the medium than the guest sent; so many for each. One may answer several.
    Partly(f64),
    /// They do not.
    Lost,
    /// The guest flushed too rarely to tell.
    NeverAsked,
}

impl FlushTrace {
    /// The guest's flushes: those that left it, or where none had to leave those that were asked for.
    pub fn guest_flushes(&self) -> u64 {
        if self.guest_sent > 0 { self.guest_sent } else { self.guest_asked }
    }

    /// Flushes at the medium for each write of the guest.
    pub fn per_write(&self) -> Option<f64> {
        (self.guest_writes > 0).then(|| self.medium_flushes as f64 / self.guest_writes as f64)
    }

    /// Flushes at the medium for each flush of the guest.
    pub fn per_flush(&self) -> Option<f64> {
        let flushes = self.guest_flushes();
        (flushes > 0).then(|| self.medium_flushes as f64 / flushes as f64)
    }

    /// How far the guest's flushes reach.
    pub fn reach(&self) -> Reach {
        let per_write = self.per_write().unwrap_or(0.0);
        // Where the guest flushes nearly every write itself, the two cannot be told apart, and need not be.
        let flushes_by_itself = self.guest_sent as f64 > 0.5 * self.guest_writes as f64;
        if self.guest_writes >= FEWEST && per_write >= ALL_FROM && !flushes_by_itself {
            return Reach::PerWrite(per_write);
        }
        let Some(per_flush) = self.per_flush().filter(|_| self.guest_flushes() >= FEWEST) else {
            return Reach::NeverAsked;
        };
        match per_flush {
            none if none <= NONE_UP_TO => Reach::Lost,
            // A guest that need not flush is told so by a disk that writes through; several writes may share a flush.
            _ if self.guest_sent == 0 => Reach::PerWrite(per_write),
            all if all >= ALL_FROM => Reach::PerFlush(all),
            some => Reach::Partly(some),
        }
    }

    /// Bytes that the guest had written and that had not been seen at the medium when the run ended: at least so many were
    /// in memory of the host, for what was seen there may be the host's own.
    pub fn held_bytes(&self) -> Option<u64> {
        let held = self.guest_write_bytes.saturating_sub(self.medium_write_bytes);
        let enough = held >= LEAST_HELD_BYTES && held as f64 >= HELD_FROM * self.guest_write_bytes as f64;
        enough.then_some(held)
    }
}

/// What a trace showed of flushes, beside an answer about the stack `on`.
pub(crate) struct Seen<'a> {
    /// The trace.
    pub trace: &'a FlushTrace,
    /// The stack that the answer is about.
    pub on: &'a str,
}

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (medium, above) = (self.trace.medium_flushes, self.trace.guest_flushes());
        match self.trace.flusher {
            Flusher::Guest => write!(f, "(seen: {medium} at the disk for {above} of the guest's")?,
            Flusher::ClientDisk => write!(f, "(seen: {medium} at the disk for {above} of the client's")?,
            Flusher::Client => {
                let writes = self.trace.guest_writes;
                write!(
                    f,
                    "(seen: {medium} flushes at the disk for {writes} WRITEs and {above} COMMITs of the client"
                )?;
            }
        }
        if self.trace.stack.as_str() != self.on {
            write!(f, ", on {}", self.trace.stack)?;
        }
        f.write_str(")")
    }
}

/// What a power cut loses, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriceKind {
    /// Nothing that the guest was told is written.
    NothingWritten,
    /// Nothing that the guest flushed; what it did not flush was not seen to be kept back.
    NothingFlushed,
    /// Nothing that the guest flushed; what it did not flush was in memory of the host.
    Unflushed,
    /// Perhaps something that the guest flushed.
    PerhapsFlushed,
    /// Also what the guest flushed.
    Flushed,
    /// Not known.
    NotKnown,
}

/// What a power cut loses on a stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// In one word.
    pub kind: PriceKind,
    /// In a sentence, with what was seen.
    pub words: String,
    /// Runs that showed it.
    pub runs: Vec<i64>,
}

/// The first of the traces that is wanted: of the stack itself, of the probe, the latest.
fn own_first<'a>(
    stack: &WrittenStack,
    traces: &'a [FlushTrace],
    wanted: impl Fn(&FlushTrace) -> bool,
) -> Option<&'a FlushTrace> {
    let wanted = traces.iter().filter(|trace| wanted(trace));
    wanted.min_by_key(|trace| (trace.stack != *stack, trace.workload != FLUSH_PROBE, Reverse(trace.run)))
}

/// The trace that tells best how far flushes reach on a stack: of the stack itself, else of others (with the same [`Promise`], which is for
/// the caller to see to).
pub fn best_trace<'a>(stack: &WrittenStack, traces: &'a [FlushTrace]) -> Option<&'a FlushTrace> {
    own_first(stack, traces, |trace| trace.reach() != Reach::NeverAsked)
}

/// The price of a stack from the traces at hand: best of the stack itself, else of others (with the same [`Promise`], which is
/// for the caller to see to), which is said.
pub fn price(stack: &WrittenStack, traces: &[FlushTrace]) -> Price {
    let own_first = |wanted: &dyn Fn(&FlushTrace) -> bool| own_first(stack, traces, wanted);
    let flushed = best_trace(stack, traces);
    let held = own_first(&|trace| trace.stack == *stack && trace.held_bytes().is_some());
    let Some(flushed) = flushed else {
        let words = match own_first(&|_| true) {
            Some(trace) => {
                let times = trace.guest_flushes();
                format!("not known: in run {} the guest flushed {times} times, too rarely to tell", trace.run)
            }
            None => "not known: it has no traced run".to_owned(),
        };
        return Price { kind: PriceKind::NotKnown, words: with_held(words, held), runs: Vec::new() };
    };
    let (kind, words) = lost(stack, flushed, held);
    let mut runs = vec![flushed.run];
    runs.extend(held.map(|trace| trace.run).filter(|run| *run != flushed.run));
    Price { kind, words, runs }
}

/// What a power cut loses, in one word and in a sentence, where flushes were seen.
fn lost(stack: &WrittenStack, flushed: &FlushTrace, held: Option<&FlushTrace>) -> (PriceKind, String) {
    let seen = Seen { trace: flushed, on: stack.as_str() };
    match flushed.reach() {
        Reach::PerWrite(rate) => (
            PriceKind::NothingWritten,
            format!(
                "nothing that was written: every write is flushed (seen: {} flushes per guest write)",
                digits(rate)
            ),
        ),
        Reach::PerFlush(_) if held.is_some() => (
            PriceKind::Unflushed,
            with_held(format!("what the guest has not flushed; flushes reach the disk {seen}"), held),
        ),
        Reach::PerFlush(_) => {
            (PriceKind::NothingFlushed, format!("nothing that was flushed: flushes reach the disk {seen}"))
        }
        Reach::Partly(_) => (
            PriceKind::PerhapsFlushed,
            format!(
                "perhaps some of what was flushed: fewer flushes reach the disk {seen}; one may answer several"
            ),
        ),
        Reach::Lost | Reach::NeverAsked => {
            (PriceKind::Flushed, format!("also what was flushed: flushes do not reach the disk {seen}"))
        }
    }
}

fn with_held(words: String, held: Option<&FlushTrace>) -> String {
    match held.and_then(|trace| Some((trace, trace.held_bytes()?))) {
        Some((trace, held)) => format!(
            "{words}; unflushed data stay in host memory (seen: {} of {} had not reached the disk at the \
             end of run {})",
            bytes(held),
            bytes(trace.guest_write_bytes),
            trace.run
        ),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: &str = "ext4/kvm/raw/xfs/hdd";

    /// 512 writes of 8 KiB with 64 flushes.
    fn trace(guest_sent: u64, medium_flushes: u64) -> FlushTrace {
        FlushTrace {
            run: 7,
            stack: STACK.into(),
            workload: FLUSH_PROBE.into(),
            flusher: Flusher::Guest,
            guest_asked: 64,
            guest_sent,
            guest_writes: 512,
            guest_write_bytes: 4 << 20,
            medium: "hdd".to_owned(),
            medium_flushes,
            medium_write_bytes: 4 << 20,
        }
    }

    fn words(traces: &[FlushTrace]) -> String {
        price(&STACK.into(), traces).words
    }

    #[test]
    fn what_was_seen_decides() {
        insta::assert_snapshot!(words(&[trace(64, 66)]), @"nothing that was flushed: flushes reach the disk (seen: 66 at the disk for 64 of the guest's)");
        insta::assert_snapshot!(words(&[trace(0, 520)]), @"nothing that was written: every write is flushed (seen: 1.02 flushes per guest write)");
        insta::assert_snapshot!(words(&[trace(64, 0)]), @"also what was flushed: flushes do not reach the disk (seen: 0 at the disk for 64 of the guest's)");
        insta::assert_snapshot!(words(&[trace(64, 30)]), @"perhaps some of what was flushed: fewer flushes reach the disk (seen: 30 at the disk for 64 of the guest's); one may answer several");
        insta::assert_snapshot!(words(&[]), @"not known: it has no traced run");
    }

    #[test]
    fn writing_through_is_told_from_flushing_when_asked() {
        assert_eq!(trace(0, 512).reach(), Reach::PerWrite(1.0));
        // NVMe: the guest flushes although every write is flushed already.
        assert_eq!(trace(64, 512).reach(), Reach::PerWrite(1.0));
        assert_eq!(trace(64, 64).reach(), Reach::PerFlush(1.0));
        // Nothing is flushed at all, although the guest was told that it need not.
        assert_eq!(trace(0, 0).reach(), Reach::Lost);
        // The guest flushes each write by itself: both would look the same.
        assert_eq!(FlushTrace { guest_sent: 512, ..trace(0, 512) }.reach(), Reach::PerFlush(1.0));
        // Deep queues let several writes share a flush.
        assert_eq!(trace(0, 256).reach(), Reach::PerWrite(0.5));
    }

    #[test]
    fn data_in_host_memory_are_said_beside_the_flushes() {
        let unflushed = FlushTrace {
            run: 9,
            guest_asked: 0,
            guest_sent: 0,
            guest_write_bytes: 9 << 20,
            medium_write_bytes: 6 << 20,
            ..trace(0, 0)
        };
        insta::assert_snapshot!(words(&[trace(64, 64), unflushed.clone()]), @"what the guest has not flushed; flushes reach the disk (seen: 64 at the disk for 64 of the guest's); unflushed data stay in host memory (seen: 3.00 MiB of 9.00 MiB had not reached the disk at the end of run 9)");
        insta::assert_snapshot!(words(&[unflushed]), @"not known: in run 9 the guest flushed 0 times, too rarely to tell; unflushed data stay in host memory (seen: 3.00 MiB of 9.00 MiB had not reached the disk at the end of run 9)");
    }

    #[test]
    fn another_stack_may_stand_in_and_is_named() {
        let other = FlushTrace { stack: "ext4/kvm/raw/ext4/hdd".into(), ..trace(64, 64) };
        assert!(words(std::slice::from_ref(&other)).contains("on ext4/kvm/raw/ext4/hdd"));
        assert!(words(&[other, trace(64, 0)]).starts_with("also what was flushed"));
    }

    proptest::proptest! {
        #[test]
        fn flushes_that_are_lost_are_never_free(sent in 1_u64..1_000, arrived in 0_u64..1_000, writes in 1_u64..5_000) {
            let trace = FlushTrace { guest_sent: sent, medium_flushes: arrived, guest_writes: writes, ..trace(0, 0) };
            let kind = price(&STACK.into(), &[trace]).kind;
            if arrived * 20 <= sent {
                proptest::prop_assert!(matches!(kind, PriceKind::Flushed | PriceKind::NothingWritten));
                // Only a flush for nearly every write can make up for that.
                proptest::prop_assert!(kind == PriceKind::Flushed || arrived * 10 >= writes * 9);
            }
            if matches!(kind, PriceKind::NothingFlushed) {
                proptest::prop_assert!(arrived * 10 >= sent * 9);
            }
        }
    }
}
