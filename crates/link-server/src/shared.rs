//! A link's state, which both ends and the control socket share.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use nestor_link::{Direction, End, Fate};
use nestor_serving::{Clock, ServingError};
use nestor_stop::StopHandle;

use crate::control::{LinkStatistics, Sent};
use crate::port::Port;
use crate::together::Together;
use crate::{LinkOptions, LinkTime};

/// How often to look whether the server is to end while a machine is waited for.
const LOOK: Duration = Duration::from_millis(100);

/// A link.
pub struct Shared {
    link: Mutex<Link>,
    /// Told when a guest's queues have become known, and when a barrier was passed.
    changed: Condvar,
    stop: StopHandle,
}

struct Link {
    /// By [`End::index`] of the sender.
    directions: [Direction; 2],
    ports: [Port; 2],
    sent: [Sent; 2],
    time: Time,
}

enum Time {
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
            directions: seeds.map(|seed| Direction::new(options.wire, seed)),
            ports: [Port::new()?, Port::new()?],
            sent: Default::default(),
            time,
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

    /// Whether an end's machine waits at the barrier for the other, or they are not joined. It is about to be given something to do.
    pub fn wake(&self, end: End) -> bool {
        let mut link = self.lock();
        let is_whole = link.is_whole();
        match &mut link.time {
            Time::Together(together) if is_whole => together.wake(end),
            _ => true,
        }
    }

    /// What was done so far.
    pub fn statistics(&self) -> LinkStatistics {
        let link = self.lock();
        let [lower, upper] = [End::Lower, End::Upper].map(|end| {
            let refused = link.ports[end.index()].refused;
            Sent { refused, ..link.sent[end.index()].clone() }
        });
        LinkStatistics {
            connected: link.ports.iter().all(Port::is_connected),
            joined: !matches!(link.time, Time::Apart { .. }),
            from_lower: lower,
            from_upper: upper,
        }
    }

    /// A turn in real time: takes what an end sends, gives it what has arrived, and sets both alarms.
    pub fn run(&self, end: End) {
        let mut link = self.lock();
        link.ports[end.index()].alarm.acknowledge();
        let now_ns = Clock::Real.now_ns();
        link.take(end, now_ns);
        link.ports[end.index()].deliver(now_ns);
        for port in &mut link.ports {
            let next_ns = port.next_event_ns();
            port.alarm.set(next_ns);
        }
    }

    /// A machine tells its time and until when it has nothing to do by itself; returns the time of the next event for it. Comes back when
    /// the other machine has come far enough.
    pub fn run_until(&self, end: End, own_ns: u64, quiet_until_ns: u64) -> Option<u64> {
        let mut link = self.lock();
        // The first notification may arrive here before the vhost-user library knows the queues.
        while !link.ports[end.index()].is_connected() && !self.stop.is_stopped() {
            if link.ports[end.index()].is_gone() {
                return None;
            }
            link = self.wait(link);
        }
        let Time::Together(together) = &mut link.time else {
            link.take_in_vain(end);
            return None;
        };
        let now_ns = together.common_ns(end, own_ns);
        let quiet_until_ns = now_ns.saturating_add(quiet_until_ns.saturating_sub(own_ns));
        link.take(end, now_ns);
        if link.is_at_barrier(now_ns) {
            link.arrive(end, quiet_until_ns);
            self.changed.notify_all();
            while link.is_at_barrier(now_ns) && link.is_whole() && !self.stop.is_stopped() {
                link = self.wait(link);
            }
        }
        link.ports[end.index()].deliver(now_ns);
        let next_ns = link.ports[end.index()].next_event_ns();
        let Time::Together(together) = &link.time else { return None };
        let barrier_ns = link.is_whole().then(|| together.barrier_ns());
        next_ns.into_iter().chain(barrier_ns).min().map(|next_ns| together.own_ns(end, next_ns))
    }

    fn wait<'a>(&self, link: MutexGuard<'a, Link>) -> MutexGuard<'a, Link> {
        let waited = self.changed.wait_timeout(link, LOOK);
        waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    fn lock(&self) -> MutexGuard<'_, Link> {
        // At worst, a thread that panicked has left a frame half moved; the link stays usable.
        self.link.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Link {
    /// Takes what an end has to send as far as its interface has room, and notes when it has room for the rest.
    fn take(&mut self, end: End, now_ns: u64) {
        let (sender, receiver) = (end.index(), end.other().index());
        let mut any = false;
        self.ports[sender].room_ns = loop {
            let room_ns = self.directions[sender].room_at_ns(now_ns);
            if room_ns > now_ns {
                break self.ports[sender].has_frames().then_some(room_ns);
            }
            let Some(frame) = self.ports[sender].next_frame() else { break None };
            any = true;
            let (mut pieces, mut bytes) = (0, 0);
            let on_the_wire =
                frame.on_the_wire().inspect(|piece| (pieces, bytes) = (pieces + 1, bytes + piece));
            let fate = self.directions[sender].send(now_ns, on_the_wire);
            let sent = &mut self.sent[sender];
            sent.frames += pieces;
            sent.bytes += bytes;
            match fate {
                Fate::Arrives { at_ns, .. } => self.ports[receiver].expect(at_ns, frame),
                Fate::Lost { .. } => sent.lost += pieces,
            }
        };
        if any {
            self.ports[sender].notify_sender();
        }
    }

    /// Takes what an end sends while nothing is at the other.
    fn take_in_vain(&mut self, end: End) {
        let port = &mut self.ports[end.index()];
        while port.next_frame().is_some() {
            port.refused += 1;
        }
        port.notify_sender();
    }

    fn is_at_barrier(&self, now_ns: u64) -> bool {
        matches!(&self.time, Time::Together(together) if together.barrier_ns() <= now_ns)
    }

    /// An end's machine has come to the barrier and has nothing to do by itself until then.
    fn arrive(&mut self, end: End, quiet_until_ns: u64) {
        let sends_ns = self.ports[end.index()].room_ns.into_iter().fold(quiet_until_ns, u64::min);
        let arrives_ns = self.ports.iter().filter_map(Port::next_arrival_ns).min();
        if let Time::Together(together) = &mut self.time {
            together.arrive(end, sends_ns, arrives_ns);
        }
    }

    /// Both ends have their machine.
    fn is_whole(&self) -> bool {
        self.ports.iter().all(Port::is_connected)
    }
}
