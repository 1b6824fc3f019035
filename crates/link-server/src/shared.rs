//! A link's state, which both ends and the control socket share.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use nestor_link::log::{Ended, FrameLog, FrameRecord};
use nestor_link::{Direction, End, Fate, LinkStatistics, Run, Sent, Wire};
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
    /// By [`End::index`] of the sender.
    directions: [Direction; 2],
    pub ports: [Port; 2],
    sent: [Sent; 2],
    /// How far the TCP connections of each have come.
    sequences: [Sequences; 2],
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
        // Each direction loses frames of its own.
        let seeds = [options.seed, !options.seed];
        let time = match options.time {
            LinkTime::Real => Time::Real,
            LinkTime::Virtual => Time::Apart { delay_ns: options.wire.delay_ns },
        };
        let link = Link {
            wire: options.wire,
            directions: seeds.map(|seed| Direction::new(options.wire, seed)),
            ports: [Port::new()?, Port::new()?],
            sent: Default::default(),
            sequences: Default::default(),
            time,
            log: None,
        };
        Ok(Self { link: Mutex::new(link), changed: Condvar::new(), stop: options.stop.clone() })
    }

    /// Changes something about one end.
    pub fn with_port<T>(&self, end: End, act: impl FnOnce(&mut Port) -> T) -> T {
        let changed = act(&mut self.lock().ports[end.index()]);
        self.changed.notify_all();
        changed
    }

    /// An end's guest is gone.
    pub fn disconnect(&self, end: End) {
        self.with_port(end, Port::disconnect);
        self.lock().log_ended(end);
    }

    /// Whether the machines tell the time.
    pub fn is_told(&self) -> bool {
        !matches!(self.lock().time, Time::Real)
    }

    /// From now on both machines have a common time, and what they send arrives. Both must stand; their own times at this moment are
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
        link.time = Time::Together(Together::new(delay_ns));
        self.changed.notify_all();
        Ok(())
    }

    /// Whether an end's machine waits for the other, which stands, or they are not joined. It is about to be given something to do.
    pub fn wake(&self, end: End) -> bool {
        let mut link = self.lock();
        match (link.bound_ns(end), &mut link.time) {
            (Some(bound_ns), Time::Together(together)) => together.wake(end, bound_ns),
            _ => true,
        }
    }

    /// Switches the times of frames and their losses, with nothing of either machine left to do: in virtual time once one has come as far as the
    /// other, which stands, lets it. So it depends on nothing real what is sent before.
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

    /// A turn in real time: takes what an end sends, gives it what has arrived, and sets both alarms. `notified` is the queue of which its
    /// guest has said something.
    pub fn run(&self, end: End, notified: Option<Queue>) {
        let mut link = self.lock();
        link.ports[end.index()].alarm.acknowledge();
        let now_ns = Clock::Real.now_ns();
        link.take(end, now_ns, notified);
        link.deliver(end, now_ns);
        for port in &mut link.ports {
            let next_ns = port.next_event_ns();
            port.alarm.set(next_ns);
        }
    }

    /// A machine tells its time, until when it has nothing to do by itself, and the queue that its guest has just notified; returns the time
    /// of the next event for it. Comes back when the other machine has come far enough.
    ///
    /// When a machine tells its time without an event may depend on real time. It then sees nothing of that: frames are taken and given only at
    /// events.
    pub fn run_until(
        &self,
        end: End,
        [own_ns, quiet_until_ns]: [u64; 2],
        notified: Option<Queue>,
    ) -> Option<u64> {
        let mut link = self.lock();
        // The first notification may arrive here before the vhost-user library knows the queues.
        while !link.ports[end.index()].is_connected() && !self.stop.is_stopped() {
            if link.ports[end.index()].is_gone() {
                return None;
            }
            link = self.wait(link);
        }
        let Time::Together(together) = &mut link.time else {
            link.take_in_vain(end, notified);
            return None;
        };
        let now_ns = together.common_ns(end, own_ns);
        let quiet_until_ns = now_ns.saturating_add(quiet_until_ns.saturating_sub(own_ns));
        link.take(end, now_ns, notified);
        link.promise(end, now_ns, quiet_until_ns);
        self.changed.notify_all();
        let mut bound_ns = link.bound_ns(end);
        while bound_ns.is_some_and(|bound_ns| bound_ns <= now_ns) && !self.stop.is_stopped() {
            link.set_waits(end, true);
            link = self.wait(link);
            bound_ns = link.bound_ns(end);
        }
        link.set_waits(end, false);
        if link.deliver(end, now_ns) {
            link.promise(end, now_ns, now_ns);
        }
        let next_ns = link.ports[end.index()].next_event_ns();
        let Time::Together(together) = &link.time else { return None };
        let tells_ns = bound_ns.map(|bound_ns| together.tells_ns(end, bound_ns));
        next_ns.into_iter().chain(tells_ns).min().map(|next_ns| together.own_ns(end, next_ns))
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
    /// Whether one machine waits for the other, which stands; in real time nothing stands, and nothing has to.
    fn stands(&mut self) -> bool {
        let bounds = End::BOTH.map(|end| (end, self.bound_ns(end)));
        let Time::Together(together) = &self.time else { return true };
        bounds
            .into_iter()
            .any(|(end, bound_ns)| bound_ns.is_some_and(|bound_ns| together.rests(end, bound_ns)))
    }

    /// What was done so far.
    pub(crate) fn statistics(&mut self) -> LinkStatistics {
        let [lower, upper] = [End::Lower, End::Upper].map(|end| {
            let refused = self.ports[end.index()].not_taken + self.ports[end.other().index()].not_given;
            Sent { refused, ..self.sent[end.index()].clone() }
        });
        let zero_ns = |end| match &self.time {
            Time::Together(together) => together.zero_ns(end),
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

    /// Takes what an end's guest has announced as far as its interface has room, and notes when it has room for the rest. A guest may have
    /// put frames into its queue and be about to announce them: they are not taken before.
    fn take(&mut self, end: End, now_ns: u64, notified: Option<Queue>) {
        let sender = end.index();
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
            self.log_not_taken(end, self.ports[sender].not_taken - refused, now_ns);
            let Some(frame) = frame else { break None };
            taken += 1;
            self.send(end, now_ns, frame);
        };
        if taken > 0 {
            self.ports[sender].notify_sender();
        }
    }

    /// Puts what an end sends at that time onto the wire, in frames if the other end's guest takes no segments.
    fn send(&mut self, from: End, taken_ns: u64, frame: Frame) {
        if frame.is_to_be_cut() && !self.ports[from.other().index()].takes_segments() {
            let frames = (0..frame.frames()).map(|at| frame.part(&(at..at + 1)));
            frames.for_each(|frame| self.put_on_wire(from, taken_ns, frame));
        } else {
            self.put_on_wire(from, taken_ns, frame);
        }
    }

    fn put_on_wire(&mut self, from: End, taken_ns: u64, frame: Frame) {
        let runs = self.directions[from.index()].send(taken_ns, frame.on_the_wire());
        match runs.as_slice() {
            [whole] => self.on_wire(from, taken_ns, whole, frame),
            parts => {
                parts.iter().for_each(|run| self.on_wire(from, taken_ns, run, frame.part(&run.frames)));
            }
        }
    }

    /// What an end has sent is on the wire, and its fate is known.
    fn on_wire(&mut self, from: End, taken_ns: u64, run: &Run, frame: Frame) {
        let frames = run.frames.len() as u64;
        let sent = &mut self.sent[from.index()];
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
            from,
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
            Fate::Arrives { .. } => {
                let is_logged = self.log.is_some();
                self.ports[from.other().index()].expect(Arriving { frame, record, is_logged });
                self.log_ended(from.other());
            }
            Fate::Lost { .. } => {
                self.sent[from.index()].lost += frames;
                self.log_record(record);
            }
        }
    }

    /// Gives an end's guest what has arrived by then; whether there was anything.
    fn deliver(&mut self, end: End, now_ns: u64) -> bool {
        let any = self.ports[end.index()].deliver(now_ns);
        self.log_ended(end);
        any
    }

    /// Takes what an end sends while nothing is at the other.
    fn take_in_vain(&mut self, end: End, notified: Option<Queue>) {
        let port = &mut self.ports[end.index()];
        if notified != Some(Queue::Transmit) {
            return;
        }
        let before = port.not_taken;
        let taken = std::iter::from_fn(|| port.next_frame()).take(QUEUE_SIZE).count();
        port.not_taken += taken as u64;
        port.notify_sender();
        let not_taken = port.not_taken - before;
        // There is no time that both machines have in common.
        self.log_not_taken(end, not_taken, 0);
    }

    /// An end's machine has nothing to do by itself until then, and sends what waits for room in its interface.
    fn promise(&mut self, end: End, now_ns: u64, quiet_until_ns: u64) {
        let sends_ns = self.ports[end.index()].room_ns.into_iter().fold(quiet_until_ns, u64::min);
        if let Time::Together(together) = &mut self.time {
            together.promise(end, now_ns, sends_ns);
        }
    }

    /// Up to when an end's machine may run; `None` if there is no other.
    fn bound_ns(&mut self, end: End) -> Option<u64> {
        let is_whole = self.is_whole();
        let Time::Together(together) = &self.time else { return None };
        let arrives_ns = self.ports[end.other().index()].next_arrival_ns();
        is_whole.then(|| together.bound_ns(end, arrives_ns))
    }

    fn set_waits(&mut self, end: End, waits: bool) {
        if let Time::Together(together) = &mut self.time {
            together.set_waits(end, waits);
        }
    }

    /// Both ends have their machine.
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
