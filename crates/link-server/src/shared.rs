//! A link's state, which all machines at it and the control socket share.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use nestor_link::log::{Ended, FrameLog, FrameRecord};
use nestor_link::{Addresses, Direction, End, Fate, LinkStatistics, Outlet, PortIndex, Run, Sent, Wire};
use nestor_log::Writer;
use nestor_serving::{Clock, ServingError};
use nestor_stop::StopHandle;

use crate::frame::Frame;
use crate::port::{Arriving, Port, QUEUE_SIZE, Queue};
use crate::sequence::Sequences;
use crate::together::Together;
use crate::{LinkOptions, LinkTime};

/// How often to look whether the server is to end while a machine is waited for.
const LOOK: Duration = Duration::from_millis(100);

/// A link.
pub struct Shared {
    link: Mutex<Link>,
    /// Told when a guest's queues have become known, and when a machine has promised something.
    changed: Condvar,
    stop: StopHandle,
}

pub(crate) struct Link {
    pub wire: Wire,
    /// The wire from each machine, by [`PortIndex::index`].
    directions: Vec<Direction>,
    pub ports: Vec<Port>,
    /// What the switch knows, if there is one.
    addresses: Addresses,
    /// By [`End::index`] of the sender.
    sent: [Sent; 2],
    /// How far the TCP connections of each machine have come.
    sequences: Vec<Sequences>,
    pub time: Time,
    /// Of the frames, if they are logged.
    pub log: Option<Writer<FrameLog>>,
}

pub(crate) enum Time {
    Real,
    /// The machines tell it, and are not joined: what they send is lost.
    Apart {
        delay_ns: u64,
    },
    Together(Together),
}

impl Shared {
    /// A link at rest.
    ///
    /// # Errors
    /// The kernel gives no timer.
    pub fn new(options: &LinkOptions) -> Result<Self, ServingError> {
        let machines = options.sockets.len();
        // Each direction loses frames of its own.
        let seeds = (0..machines as u64).map(|machine| match machine {
            0 => options.seed,
            _ => !options.seed.wrapping_add(machine - 1),
        });
        let time = match options.time {
            LinkTime::Real => Time::Real,
            LinkTime::Virtual => Time::Apart { delay_ns: options.wire.delay_ns },
        };
        let link = Link {
            wire: options.wire,
            directions: seeds.map(|seed| Direction::new(options.wire, seed)).collect(),
            ports: (0..machines).map(|_| Port::new(Outlet::new(&options.wire))).collect::<Result<_, _>>()?,
            addresses: Addresses::default(),
            sent: Default::default(),
            sequences: (0..machines).map(|_| Sequences::default()).collect(),
            time,
            log: None,
        };
        Ok(Self { link: Mutex::new(link), changed: Condvar::new(), stop: options.stop.clone() })
    }

    /// Changes something about one machine.
    pub fn with_port<T>(&self, at: impl Into<PortIndex>, act: impl FnOnce(&mut Port) -> T) -> T {
        let changed = act(&mut self.lock().ports[at.into().index()]);
        self.changed.notify_all();
        changed
    }

    /// A machine is gone.
    pub fn disconnect(&self, at: impl Into<PortIndex>) {
        let at = at.into();
        self.with_port(at, Port::disconnect);
        self.lock().log_ended(at);
    }

    /// Whether the machines tell the time.
    pub fn is_told(&self) -> bool {
        !matches!(self.lock().time, Time::Real)
    }

    /// From now on all machines have a common time, and what they send arrives. All must stand; their own times at this moment are
    /// those that they tell next.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn join(&self) -> Result<(), &'static str> {
        let mut link = self.lock();
        if !link.is_whole() {
            return Err("the interface of one of the machines is not up");
        }
        let Time::Apart { delay_ns } = link.time else {
            return Err("the machines have one time already");
        };
        link.time = Time::Together(Together::new(delay_ns, link.ports.len()));
        self.changed.notify_all();
        Ok(())
    }

    /// Whether each of some machines waits for another, all of which stand, or they are not joined. One of them is about to be given something
    /// to do.
    pub fn wake(&self, waiting: &[PortIndex]) -> bool {
        let mut link = self.lock();
        let bounds: Vec<_> = waiting.iter().map(|at| (*at, link.bound_ns(*at))).collect();
        let Time::Together(together) = &mut link.time else { return true };
        let rests = |(at, bound_ns): &(PortIndex, Option<u64>)| {
            bound_ns.is_none_or(|bound_ns| together.rests(*at, bound_ns))
        };
        let all_rest = bounds.iter().all(rests);
        if all_rest {
            waiting.iter().for_each(|at| together.wake(*at));
        }
        all_rest
    }

    /// Switches the times of frames and their losses, with nothing of any machine left to do: in virtual time once all have come as far as the
    /// one that stands lets them. So it depends on nothing real what is sent before.
    pub fn set_timed(&self, is_timed: bool) {
        let mut link = self.lock();
        while !link.stands() && !self.stop.is_stopped() {
            link = self.wait(link);
        }
        link.directions.iter_mut().for_each(|direction| direction.set_timed(is_timed));
    }

    /// What was done so far.
    pub fn statistics(&self) -> LinkStatistics {
        self.lock().statistics()
    }

    /// A turn in real time: takes what a machine sends, gives it what has arrived, and sets all alarms. `notified` is the queue of which its
    /// guest has said something.
    pub fn run(&self, at: impl Into<PortIndex>, notified: Option<Queue>) {
        let (at, mut link) = (at.into(), self.lock());
        link.ports[at.index()].alarm.acknowledge();
        let now_ns = Clock::Real.now_ns();
        link.take(at, now_ns, notified);
        link.deliver(at, now_ns);
        for port in &mut link.ports {
            let next_ns = port.next_event_ns();
            port.alarm.set(next_ns);
        }
    }

    /// A machine tells its time, until when it has nothing to do by itself, and the queue that its guest has just notified; returns the time
    /// of the next event for it. Comes back when the other machines have come far enough.
    ///
    /// When a machine tells its time without an event may depend on real time. It then sees nothing of that: frames are taken and given only at
    /// events.
    pub fn run_until(
        &self,
        at: impl Into<PortIndex>,
        [own_ns, quiet_until_ns]: [u64; 2],
        notified: Option<Queue>,
    ) -> Option<u64> {
        let (at, mut link) = (at.into(), self.lock());
        // The first notification may arrive here before the vhost-user library knows the queues.
        while !link.ports[at.index()].is_connected() && !self.stop.is_stopped() {
            if link.ports[at.index()].is_gone() {
                return None;
            }
            link = self.wait(link);
        }
        let Time::Together(together) = &mut link.time else {
            link.take_in_vain(at, notified);
            return None;
        };
        let now_ns = together.common_ns(at, own_ns);
        let quiet_until_ns = now_ns.saturating_add(quiet_until_ns.saturating_sub(own_ns));
        link.take(at, now_ns, notified);
        link.promise(at, now_ns, quiet_until_ns);
        self.changed.notify_all();
        let mut bound_ns = link.bound_ns(at);
        while bound_ns.is_some_and(|bound_ns| bound_ns <= now_ns) && !self.stop.is_stopped() {
            link.set_waits(at, true);
            link = self.wait(link);
            bound_ns = link.bound_ns(at);
        }
        link.set_waits(at, false);
        if link.deliver(at, now_ns) {
            link.promise(at, now_ns, now_ns);
        }
        let next_ns = link.ports[at.index()].next_event_ns();
        let Time::Together(together) = &link.time else { return None };
        let tells_ns = bound_ns.map(|bound_ns| together.tells_ns(at, bound_ns));
        next_ns.into_iter().chain(tells_ns).min().map(|next_ns| together.own_ns(at, next_ns))
    }

    fn wait<'a>(&self, link: MutexGuard<'a, Link>) -> MutexGuard<'a, Link> {
        let waited = self.changed.wait_timeout(link, LOOK);
        waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Link> {
        // At worst, a thread that panicked has left a frame half moved; the link stays usable.
        nestor_stop::lock(&self.link)
    }
}

impl Link {
    /// Whether all machines but one wait for that one, which stands; in real time nothing stands, and nothing has to.
    fn stands(&mut self) -> bool {
        let bounds: Vec<_> = self.machines().map(|at| (at, self.bound_ns(at))).collect();
        let Time::Together(together) = &self.time else { return true };
        let rests = |(at, bound_ns): &(PortIndex, Option<u64>)| {
            bound_ns.is_some_and(|bound_ns| together.rests(*at, bound_ns))
        };
        bounds.iter().filter(|bound| rests(bound)).count() + 1 >= bounds.len()
    }

    /// All machines.
    fn machines(&self) -> impl Iterator<Item = PortIndex> + use<> {
        PortIndex::all(self.ports.len())
    }

    /// What was done so far.
    pub(crate) fn statistics(&mut self) -> LinkStatistics {
        let [lower, upper] = End::BOTH.map(|end| {
            let refused = self
                .machines()
                .zip(&self.ports)
                .map(|(at, port)| if at.end() == end { port.not_taken } else { port.not_given });
            Sent { refused: refused.sum(), ..self.sent[end.index()].clone() }
        });
        let zero_ns = |end: End| match &self.time {
            Time::Together(together) => together.zero_ns(end.into()),
            Time::Real | Time::Apart { .. } => None,
        };
        LinkStatistics {
            lower_zero_ns: zero_ns(End::Lower),
            upper_zero_ns: zero_ns(End::Upper),
            connected: self.is_whole(),
            joined: !matches!(self.time, Time::Apart { .. }),
            from_lower: lower,
            from_upper: upper,
        }
    }

    /// Takes what a machine's guest has announced as far as its interface has room, and notes when it has room for the rest. A guest may have
    /// put frames into its queue and be about to announce them: they are not taken before.
    fn take(&mut self, at: PortIndex, now_ns: u64, notified: Option<Queue>) {
        let sender = at.index();
        if notified == Some(Queue::Receive) {
            self.ports[sender].has_buffers();
        }
        let has_room = self.ports[sender].room_ns.is_some_and(|room_ns| room_ns <= now_ns);
        if !has_room && notified != Some(Queue::Transmit) {
            return;
        }
        let mut taken = 0;
        self.ports[sender].room_ns = loop {
            // In real time, a guest adds frames while others are taken. The other end has its turn before the rest.
            if taken == QUEUE_SIZE {
                break self.ports[sender].has_frames().then_some(now_ns);
            }
            let room_ns = self.directions[sender].room_at_ns(now_ns);
            if room_ns > now_ns {
                break self.ports[sender].has_frames().then_some(room_ns);
            }
            let refused = self.ports[sender].not_taken;
            let frame = self.ports[sender].next_frame();
            self.log_not_taken(at, self.ports[sender].not_taken - refused, now_ns);
            let Some(frame) = frame else { break None };
            taken += 1;
            self.send(at, now_ns, frame);
        };
        if taken > 0 {
            self.ports[sender].notify_sender();
        }
    }

    /// Puts what a machine sends at that time onto its wire, in frames if a guest that it goes to takes no segments.
    fn send(&mut self, from: PortIndex, taken_ns: u64, frame: Frame) {
        let to = self.addresses.ways(from, self.ports.len(), frame.ethernet());
        if frame.is_to_be_cut() && !to.iter().all(|to| self.ports[to.index()].takes_segments()) {
            let frames = (0..frame.frames()).map(|at| frame.part(&(at..at + 1)));
            frames.for_each(|frame| self.put_on_wire((from, &to), taken_ns, frame));
        } else {
            self.put_on_wire((from, &to), taken_ns, frame);
        }
    }

    fn put_on_wire(&mut self, (from, to): (PortIndex, &[PortIndex]), taken_ns: u64, frame: Frame) {
        let runs = self.directions[from.index()].send(taken_ns, frame.on_the_wire());
        match runs.as_slice() {
            [whole] => self.on_wire((from, to), taken_ns, whole, frame),
            parts => {
                parts.iter().for_each(|run| self.on_wire((from, to), taken_ns, run, frame.part(&run.frames)));
            }
        }
    }

    /// What a machine has sent is on its wire, and its fate there is known.
    fn on_wire(&mut self, (from, to): (PortIndex, &[PortIndex]), taken_ns: u64, run: &Run, frame: Frame) {
        let frames = run.frames.len() as u64;
        let sent = &mut self.sent[from.end().index()];
        sent.frames += frames;
        sent.bytes += run.bytes;
        let (tcp_bytes, tcp_again_bytes) = frame.tcp_segment().map_or((0, 0), |segment| {
            let again = self.sequences[from.index()].sent_before(&segment);
            (segment.bytes as u64, again as u64)
        });
        let (ended, [begins_ns, leaves_ns, arrives_ns]) = match run.fate {
            Fate::Arrives { begins_ns, leaves_ns, at_ns } => (Ended::UnderWay, [begins_ns, leaves_ns, at_ns]),
            Fate::Lost { begins_ns, leaves_ns } => (Ended::Lost, [begins_ns, leaves_ns, 0]),
        };
        let record = FrameRecord {
            from: from.end(),
            ended,
            frames: capped(frames),
            bytes: capped(run.bytes),
            wire_bytes: capped(run.wire_bytes),
            tcp_bytes: capped(tcp_bytes),
            tcp_again_bytes: capped(tcp_again_bytes),
            taken_ns,
            begins_ns,
            leaves_ns,
            arrives_ns,
            delivered_ns: 0,
        };
        match run.fate {
            Fate::Arrives { .. } => self.pass_on(from, to, frame, record),
            Fate::Lost { .. } => {
                self.sent[from.end().index()].lost += frames;
                self.log_record(record);
            }
        }
    }

    /// A frame goes on to those it is for. It is logged once: what became of it at the first.
    fn pass_on(&mut self, from: PortIndex, to: &[PortIndex], frame: Frame, record: FrameRecord) {
        let mut is_logged = self.log.is_some();
        for to in to {
            let arriving = Arriving { frame: frame.clone(), record, is_logged };
            self.ports[to.index()].expect(from, arriving);
            self.log_ended(*to);
            is_logged = false;
        }
    }

    /// Gives a machine's guest what has arrived by then; whether there was anything.
    fn deliver(&mut self, at: PortIndex, now_ns: u64) -> bool {
        let any = self.ports[at.index()].deliver(now_ns);
        self.log_ended(at);
        any
    }

    /// Takes what a machine sends while it has no time in common with the others.
    fn take_in_vain(&mut self, at: PortIndex, notified: Option<Queue>) {
        let port = &mut self.ports[at.index()];
        if notified != Some(Queue::Transmit) {
            return;
        }
        let before = port.not_taken;
        let taken = std::iter::from_fn(|| port.next_frame()).take(QUEUE_SIZE).count();
        port.not_taken += taken as u64;
        port.notify_sender();
        let not_taken = port.not_taken - before;
        // There is no time that the machines have in common.
        self.log_not_taken(at, not_taken, 0);
    }

    /// A machine has nothing to do by itself until then, and sends what waits for room in its interface.
    fn promise(&mut self, at: PortIndex, now_ns: u64, quiet_until_ns: u64) {
        let sends_ns = self.ports[at.index()].room_ns.into_iter().fold(quiet_until_ns, u64::min);
        if let Time::Together(together) = &mut self.time {
            together.promise(at, now_ns, sends_ns);
        }
    }

    /// Up to when a machine may run; `None` if not all others are there.
    fn bound_ns(&mut self, at: PortIndex) -> Option<u64> {
        let is_whole = self.is_whole();
        let Time::Together(together) = &self.time else { return None };
        let arrives_ns: Vec<_> = self.ports.iter().map(Port::next_arrival_ns).collect();
        is_whole.then(|| together.bound_ns(at, &arrives_ns))
    }

    fn set_waits(&mut self, at: PortIndex, waits: bool) {
        if let Time::Together(together) = &mut self.time {
            together.set_waits(at, waits);
        }
    }

    /// All machines are there.
    fn is_whole(&mut self) -> bool {
        self.ports.iter_mut().all(Port::is_connected)
    }
}

/// A number that is far below what 32 bits hold: what is at most some ten thousand frames has at most as many KiB.
fn capped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
