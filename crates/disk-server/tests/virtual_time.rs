//! A served disk in virtual time: it answers when its model says, to the nanosecond.

mod support;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use nestor_disk::log::{Operation, Reader};
use nestor_disk::model::{Model, ModelRequest};
use nestor_disk::profiles::PROFILES;
use nestor_disk::{Turn, profile};
use nestor_disk_server::DiskTime;
use nestor_vtime::protocol::{DISK_TIME_SUFFIX, NO_EVENT};
use support::served::{SIZE, Served};
use support::{FrontEnd, SLOTS};
use virtio_bindings::bindings::virtio_blk::{
    VIRTIO_BLK_S_OK, VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
};

/// The machine's side of a disk's time socket.
struct Time(UnixStream);

impl Time {
    /// Says what time it is; when the disk's next event is.
    fn tell(&mut self, now_ns: u64) -> Option<u64> {
        let mut next = [0; 8];
        self.0.write_all(&now_ns.to_le_bytes()).unwrap();
        self.0.read_exact(&mut next).unwrap();
        Some(u64::from_le_bytes(next)).filter(|next| *next != NO_EVENT)
    }
}

fn in_virtual_time(profile: &str) -> Served {
    Served::start(profile, |options| options.time = DiskTime::Virtual)
}

fn time_of(served: &Served) -> Time {
    Time(UnixStream::connect(served.path(&format!("disk.sock{DISK_TIME_SUFFIX}"))).unwrap())
}

/// Four reads, a microsecond after one another; the times at which each was answered.
fn answered_at() -> Vec<(u16, u64)> {
    let served = in_virtual_time("hdd");
    let (mut front_end, mut control) = (served.front_end(), served.control());
    control.start_log(served.path("disk.log")).unwrap();
    let mut time = time_of(&served);
    let mut answered = Vec::new();
    let mut now_ns = 5_000_000;
    for slot in 0..4 {
        front_end.submit(slot, VIRTIO_BLK_T_IN, 3000 * u64::from(slot + 1), 4096, true);
        front_end.kick();
        let next = time.tell(now_ns).expect("a hard disk takes its time");
        assert!(next > now_ns, "slot {slot}: {next} is not after {now_ns}");
        assert_eq!(front_end.poll(), None, "nothing is done in no time");
        now_ns += 1000;
    }
    while answered.len() < 4 {
        let next = time.tell(now_ns);
        answered.extend(std::iter::from_fn(|| front_end.poll()).map(|(slot, _)| (slot, now_ns)));
        now_ns = next.unwrap_or(now_ns);
    }
    assert_eq!(time.tell(now_ns + 1_000_000_000), None, "a disk at rest waits for the next notification");
    control.stop_log().unwrap();
    let records: Vec<_> = Reader::open(served.path("disk.log")).unwrap().collect::<Result<_, _>>().unwrap();
    let logged: Vec<u64> = records.iter().map(|record| record.complete_ns).collect();
    assert!(records.iter().all(|record| record.complete_ns == record.model_complete_ns), "no lag");
    let mut times: Vec<u64> = answered.iter().map(|(_, at_ns)| *at_ns).collect();
    times.sort_unstable();
    assert_eq!(logged, times, "the log and the machine have one clock");
    assert_eq!(control.statistics().unwrap().lag_max_ns, 0);
    answered
}

#[test]
fn in_virtual_time_a_disk_answers_at_exactly_the_times_of_its_model() {
    let first = answered_at();
    assert_eq!(first, answered_at(), "and at the same times again");
}

#[test]
fn in_virtual_time_a_disk_without_timing_answers_in_no_time() {
    let served = in_virtual_time("hdd");
    let (mut front_end, mut control, mut time) = (served.front_end(), served.control(), time_of(&served));
    control.set_timing(false).unwrap();
    front_end.set_data(0, &[5; 4096]);
    front_end.submit(0, VIRTIO_BLK_T_OUT, 8, 4096, false);
    front_end.kick();
    assert_eq!(time.tell(1), None);
    assert_eq!(front_end.poll().map(|(slot, _)| slot), Some(0));
    // Requests in flight complete when timing is switched off, because nothing else would end them while time is stopped.
    control.set_timing(true).unwrap();
    front_end.submit(1, VIRTIO_BLK_T_IN, 8, 4096, true);
    front_end.kick();
    assert!(time.tell(1_000_000).is_some());
    control.set_timing(false).unwrap();
    assert_eq!(front_end.poll().map(|(slot, _)| slot), Some(1));
    assert_eq!((front_end.status(1), front_end.data(1, 4096)), (VIRTIO_BLK_S_OK as u8, vec![5; 4096]));
    assert_eq!(control.statistics().unwrap().in_flight, 0);
}

/// Numbers that look random, the same in each run (SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// A disk that is served, and beside it the same model on its own.
struct Both {
    front_end: FrontEnd,
    time: Time,
    model: Box<dyn Model>,
    now_ns: u64,
    /// When each request that was answered was, served and in the model.
    answered: [BTreeMap<u16, u64>; 2],
}

impl Both {
    /// Advances both to a time; returns the times of their next events.
    fn go_on(&mut self, now_ns: u64) -> [Option<u64>; 2] {
        self.now_ns = now_ns;
        let next_served = self.time.tell(now_ns);
        while let Some((slot, _)) = self.front_end.poll() {
            self.answered[0].insert(slot, now_ns);
        }
        let mut done = Vec::new();
        self.model.advance(now_ns, &mut done);
        self.answered[1].extend(done.iter().map(|done| (done.id as u16, done.complete_ns)));
        [next_served, self.model.next_event_ns()]
    }

    /// Goes from event to event until a time, or until both rest.
    fn go_on_until(&mut self, end_ns: u64, next: [Option<u64>; 2]) {
        let mut next = next;
        loop {
            assert_eq!(next[0], next[1], "at {}", self.now_ns);
            let Some(at_ns) = next[1].filter(|at_ns| *at_ns <= end_ns) else { return };
            next = self.go_on(at_ns);
        }
    }

    fn submit(&mut self, slot: u16, operation: Operation, sector: u64, sectors: u32) {
        let (kind, bytes) = match operation {
            Operation::Read => (VIRTIO_BLK_T_IN, sectors * 512),
            Operation::Write => (VIRTIO_BLK_T_OUT, sectors * 512),
            _ => (VIRTIO_BLK_T_FLUSH, 0),
        };
        self.front_end.submit(slot, kind, sector, bytes, operation == Operation::Read);
        self.front_end.kick();
        self.model.submit(ModelRequest { id: u64::from(slot), operation, sector, sectors }, self.now_ns);
    }
}

/// Reads, writes and flushes of all sizes, some at once and some when the disk rests.
fn served_and_model(name: &str, seed: u64) {
    let turned = Turn::default();
    let served = in_virtual_time(name);
    let mut both = Both {
        front_end: served.front_end(),
        time: time_of(&served),
        model: profile(name).unwrap().model(turned).unwrap(),
        now_ns: 0,
        answered: Default::default(),
    };
    let mut numbers = Numbers(seed);
    for round in 0..20 {
        for slot in 0..SLOTS {
            // From nothing to some disk accesses.
            let pause_ns = match numbers.below(3) {
                0 => 1 + numbers.below(1000),
                1 => numbers.below(1_000_000),
                _ => numbers.below(20_000_000),
            };
            let then_ns = both.now_ns + pause_ns;
            both.go_on_until(then_ns, [both.model.next_event_ns(); 2]);
            both.now_ns = then_ns;
            let sectors = 1 << numbers.below(8);
            let sector = numbers.below(SIZE / 512 - u64::from(sectors));
            let (operation, sector, sectors) = match numbers.below(10) {
                0 => (Operation::Flush, 0, 0),
                1..=5 => (Operation::Read, sector, sectors),
                _ => (Operation::Write, sector, sectors),
            };
            both.submit(slot, operation, sector, sectors);
            let next = both.go_on(then_ns);
            both.go_on_until(then_ns, next);
        }
        let next = both.go_on(both.now_ns);
        both.go_on_until(u64::MAX, next);
        let [served, model] = &both.answered;
        assert_eq!(model.len(), usize::from(SLOTS), "round {round}");
        assert!(served == model, "{name}, round {round}: {served:?} and {model:?}");
        both.answered = Default::default();
    }
}

#[test]
fn a_served_disk_answers_when_the_model_alone_does_to_the_nanosecond() {
    for profile in PROFILES {
        (1..3).for_each(|seed| served_and_model(profile.name, seed));
    }
}
