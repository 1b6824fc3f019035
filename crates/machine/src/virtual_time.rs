//! A machine in virtual time, from its controller's side: time stops from the agent's last answer to the next request.
//!
//! The machine's hypervisor stops the processor whenever the agent has written something, and reports the number of bytes. The controller
//! knows their meaning: if they end in the middle of a frame, or a request is still unanswered, the machine continues; otherwise it stops
//! until the controller sends the next request.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nestor_link::PortIndex;
use nestor_link_server::ControlClient;
use nestor_processor::{InstructionCounts, InstructionMarks, WhyNotCounted};
use nestor_stop::lock;

use crate::connection::Watch;

/// What a hypervisor does for a machine that stands. If the machine is gone, the caller that waits for it gets that error elsewhere, so
/// neither of these fails.
pub trait Standing: Send + fmt::Debug {
    /// Lets it go on; this many bytes of requests were sent so far, which it is to be given first.
    fn go_on(&mut self, sent: u64);
    /// Stops it for good.
    fn stop(&mut self);
}

/// What is known of both directions of the stream to an agent.
#[derive(Debug)]
struct Stream {
    /// Bytes of requests that were sent.
    sent: u64,
    /// Bytes of requests that its hypervisor has read.
    given: u64,
    /// Bytes of answers that were read.
    received: u64,
    /// The reader waits for more.
    is_waiting: bool,
    /// Some bytes of a frame were read, and not all.
    is_in_frame: bool,
    /// Requests without an answer. The greeting counts as one.
    unanswered: i64,
    /// The machine has stopped after this many bytes of answers.
    held_at: Option<u64>,
    /// It is to be stopped for good.
    is_to_stop: bool,
    instructions: InstructionMarks,
    /// `None` before the hypervisor is heard, and after.
    hypervisor: Option<Box<dyn Standing>>,
}

impl Stream {
    /// The machine stands, and all that it has answered was read.
    fn stands(&self) -> bool {
        self.held_at.is_some_and(|written| self.received >= written) && self.is_waiting
    }

    /// Something is to come from it. Nothing comes from one that is gone, whatever it owes.
    fn is_busy(&self) -> bool {
        self.hypervisor.is_some() && (self.is_in_frame || self.unanswered > 0)
    }

    /// It is there, and nothing is to come from it.
    fn can_come_to_rest(&self) -> bool {
        self.hypervisor.is_some() && !self.is_busy()
    }

    /// Whether it has all that was sent to it, or gets it before it goes on. One that is gone gets nothing more.
    fn has_its_requests(&self) -> bool {
        self.hypervisor.is_none() || self.held_at.is_some() || self.given >= self.sent
    }

    /// Ends that it stands.
    fn end_standing(&mut self, act: impl FnOnce(&mut dyn Standing, u64)) {
        self.held_at = None;
        if let Some(hypervisor) = &mut self.hypervisor {
            act(&mut **hypervisor, self.sent);
        }
    }
}

/// Machines that run and stand together: one, or those that a link joins.
#[derive(Debug)]
struct Company {
    /// In the order in which they are at the link.
    streams: Vec<Stream>,
    /// The link between them.
    link: Option<Arc<Mutex<ControlClient>>>,
}

impl Company {
    /// Lets machines that have stopped continue, if any of them is to.
    ///
    /// While one of several linked machines works on a request, the others have to run, too. A machine that waits for another at the link is
    /// given its request before that one goes on, after which it would go on without it.
    fn decide(&mut self) {
        let is_busy = self.streams.iter().any(Stream::is_busy);
        let are_given = self.streams.iter().all(Stream::has_its_requests);
        for stream in self.streams.iter_mut().filter(|stream| stream.stands()) {
            if is_busy && are_given {
                stream.end_standing(|hypervisor, sent| hypervisor.go_on(sent));
            } else if !is_busy && stream.is_to_stop {
                stream.end_standing(|hypervisor, _| hypervisor.stop());
            }
        }
    }
}

/// Where a machine is in its company.
#[derive(Debug)]
struct Place {
    company: Arc<Mutex<Company>>,
    index: usize,
}

/// Keeps one machine's time.
#[derive(Clone, Debug)]
pub struct TimeKeeper(Arc<Mutex<Place>>);

/// How often it is looked whether a machine of the company stands.
const LOOK: Duration = Duration::from_millis(1);

impl TimeKeeper {
    /// One for a machine that boots: its agent will greet.
    pub fn new() -> Self {
        Self::with_unanswered(1)
    }

    /// One for a machine whose state is loaded: its agent has greeted before that was kept.
    pub fn of_loaded() -> Self {
        Self::with_unanswered(0)
    }

    fn with_unanswered(unanswered: i64) -> Self {
        let stream = Stream {
            sent: 0,
            given: 0,
            received: 0,
            is_waiting: false,
            is_in_frame: false,
            unanswered,
            held_at: None,
            is_to_stop: false,
            instructions: InstructionMarks::default(),
            hypervisor: None,
        };
        let company = Company { streams: vec![stream], link: None };
        Self(Arc::new(Mutex::new(Place { company: Arc::new(Mutex::new(company)), index: 0 })))
    }

    /// Does something with the company and the machine's stream in it.
    fn with<T>(&self, act: impl FnOnce(&mut Company, usize) -> T) -> T {
        let place = lock(&self.0);
        act(&mut lock(&place.company), place.index)
    }

    /// Changes the machine's stream, and decides who runs then.
    fn change(&self, change: impl FnOnce(&mut Stream)) {
        self.with(|company, index| {
            change(&mut company.streams[index]);
            company.decide();
        });
    }

    /// The hypervisor is heard from now on. `why_not`: why it cannot count instructions.
    pub fn begin(&self, hypervisor: Box<dyn Standing>, why_not: Option<WhyNotCounted>) {
        self.with(|company, index| {
            let stream = &mut company.streams[index];
            stream.hypervisor = Some(hypervisor);
            stream.instructions.why_not = why_not;
        });
    }

    /// The machine has stopped after this many bytes of answers.
    pub fn held(&self, written: u64, is_counted: bool) {
        self.change(|stream| {
            if !is_counted && stream.instructions.why_not.is_none() {
                stream.instructions.why_not = Some(WhyNotCounted::NotLoaded);
            }
            stream.held_at = Some(written);
        });
    }

    /// A program in the machine has marked what was counted since the mark before.
    pub fn marked(&self, counts: InstructionCounts) {
        self.change(|stream| stream.instructions.marks.push(counts));
    }

    /// The hypervisor has read this many bytes of requests.
    pub fn given(&self, read: u64) {
        self.change(|stream| stream.given = read);
    }

    /// Nothing more comes from the hypervisor, and the other machine must not wait for this one.
    pub fn end(&self) {
        self.change(|stream| stream.hypervisor = None);
    }

    /// Stops the machine for good: now, or as soon as it has answered every request.
    pub fn stop(&self) {
        self.change(|stream| stream.is_to_stop = true);
    }

    /// Gives this machine, which is at the lower end of a link, and all others of it, in their order there, one time. They run and stand together
    /// from now on.
    ///
    /// # Errors
    /// One of them does not stand before the deadline, is joined already, or the link's server does not answer.
    pub fn join(&self, others: &[&Self], link: &Path, deadline: Instant) -> io::Result<()> {
        for keeper in [self].iter().chain(others) {
            keeper.await_standing(deadline)?;
        }
        let mut control = ControlClient::connect(link).map_err(io::Error::other)?;
        let lower = lock(&self.0);
        let mut others: Vec<_> = others.iter().map(|other| lock(&other.0)).collect();
        let mut company = lock(&lower.company);
        let is_alone = |company: &Company| company.streams.len() == 1;
        {
            let mut companies: Vec<_> = others.iter().map(|other| lock(&other.company)).collect();
            if !is_alone(&company) || !companies.iter().all(|company| is_alone(company)) {
                return Err(io::Error::other("one of the machines is joined to another already"));
            }
            control.join().map_err(io::Error::other)?;
            companies.iter_mut().for_each(|other| company.streams.append(&mut other.streams));
        }
        company.link = Some(Arc::new(Mutex::new(control)));
        for (index, other) in (1..).zip(&mut others) {
            other.index = index;
            other.company = Arc::clone(&lower.company);
        }
        Ok(())
    }

    /// Waits until the machine stands.
    fn await_standing(&self, deadline: Instant) -> io::Result<()> {
        while !self.with(|company, index| company.streams[index].stands()) {
            if Instant::now() >= deadline {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "a machine that is to be joined does not stand",
                ));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Waits until neither this machine nor those that it is joined to execute anything: one stands, and the others do, too, or wait for it at
    /// the link, one delay later. What comes for any of them then comes at a certain time. At once if one of them has something to do, or is
    /// gone. Whether they came to rest before the deadline.
    pub fn await_rest(&self, deadline: Instant) -> bool {
        loop {
            let resting = self.with(|company, _| {
                if company.streams.len() == 1
                    || company.streams.iter().any(|stream| !stream.can_come_to_rest())
                {
                    return Some(None);
                }
                let are_there = PortIndex::all(company.streams.len()).zip(&company.streams);
                let on_their_way: Vec<_> =
                    are_there.filter(|(_, stream)| !stream.stands()).map(|(at, _)| at).collect();
                let does_one_stand = on_their_way.len() < company.streams.len();
                match &company.link {
                    Some(link) if !on_their_way.is_empty() => {
                        does_one_stand.then(|| Some((on_their_way, Arc::clone(link))))
                    }
                    _ => Some(None),
                }
            });
            let is_at_rest = match resting {
                None => false,
                Some(None) => true,
                // Asked without the company's lock, which whoever hears that the machine stands needs. If the link's server is gone, so
                // are the machines soon.
                Some(Some((waiting, link))) => lock(&link).wake(waiting).unwrap_or(true),
            };
            if is_at_rest || Instant::now() >= deadline {
                return is_at_rest;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// What programs in the machine have marked since the last call. Every request is answered, so the machine stops
    /// soon, and its earlier marks arrive before that.
    pub fn take_instructions(&self, deadline: Instant) -> InstructionMarks {
        loop {
            let taken = self.with(|company, index| {
                // Whoever waits at a link has executed all that it can.
                let stands = company.streams.iter().any(|stream| stream.held_at.is_some());
                let stream = &mut company.streams[index];
                let is_last = stands || stream.hypervisor.is_none() || Instant::now() >= deadline;
                is_last.then(|| {
                    let why_not = stream.instructions.why_not;
                    let nothing = InstructionMarks { why_not, marks: Vec::new() };
                    std::mem::replace(&mut stream.instructions, nothing)
                })
            });
            match taken {
                Some(taken) => return taken,
                None => std::thread::sleep(LOOK),
            }
        }
    }
}

impl Watch for TimeKeeper {
    fn asked(&self, bytes: usize) {
        self.change(|stream| {
            stream.sent += bytes as u64;
            stream.unanswered += 1;
        });
    }

    fn answered(&self) {
        // The reader decides when it waits again.
        self.with(|company, index| {
            let stream = &mut company.streams[index];
            stream.unanswered -= 1;
            stream.is_in_frame = false;
        });
    }
}

/// The answers' side of the stream to the agent.
pub struct Watched<R> {
    reader: R,
    keeper: TimeKeeper,
}

impl<R> Watched<R> {
    /// Watches what is read.
    pub fn new(reader: R, keeper: TimeKeeper) -> Self {
        Self { reader, keeper }
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.keeper.change(|stream| stream.is_waiting = true);
        let read = self.reader.read(buffer);
        self.keeper.with(|company, index| {
            let stream = &mut company.streams[index];
            stream.is_waiting = false;
            if let Ok(bytes @ 1..) = read {
                stream.received += bytes as u64;
                stream.is_in_frame = true;
            }
        });
        read
    }
}
