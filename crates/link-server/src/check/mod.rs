//! Holds a served link against its model, in virtual time.
//!
//! Two machines are played that do what hypervisors do: they speak vhost-user to the server, on its sockets and through its relay, and tell
//! it their times. When a frame arrives is compared with what the standards say of frames of its length ([`shape`]) at the link's rate and delay:
//! nothing that is expected comes from the model in `nestor-link`. Four machines are played to see what three at the upper end share.

mod machine;
mod rows;
mod shape;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use nestor_link::{End, Wire};
use nestor_serving::ServingError;
use nestor_stop::StopHandle;

use crate::control::{ControlClient, LinkRequest, LinkResponse};
use crate::{LinkOptions, LinkTime, serve};
use machine::{PlayedMachine, Seen, Sending};
pub use rows::{CheckRow, CheckUnit, FrameKind, Quantity, Verdict};
use rows::{delay_row, disorder_row, lost_row, queue_row, rate_row, sendings_for, shared_rate_row};
use shape::Shape;

/// A link that is checked.
#[derive(Clone, Copy, Debug)]
pub struct CheckedLink {
    /// Its figures.
    pub wire: Wire,
    /// The largest packet, in bytes.
    pub mtu: u16,
    /// Which frames are lost.
    pub seed: u64,
}

/// Why a link could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// It cannot be served.
    #[error(transparent)]
    Serving(#[from] ServingError),
    /// Something of the operating system is missing, or a connection broke.
    #[error("the link cannot be checked: {0}")]
    System(#[from] io::Error),
    /// A front end could not connect.
    #[error("the link's server and a front end do not understand each other: {0}")]
    FrontEnd(String),
    /// The server waits for something that does not come.
    #[error("the link's server does not answer")]
    Silent,
}

impl From<vhost::Error> for CheckError {
    fn from(error: vhost::Error) -> Self {
        Self::FrontEnd(error.to_string())
    }
}

impl From<vhost::vhost_user::Error> for CheckError {
    fn from(error: vhost::vhost_user::Error) -> Self {
        Self::FrontEnd(error.to_string())
    }
}

/// How long a server may take until it listens and knows both machines, in real time.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How often to look meanwhile.
const LOOK: Duration = Duration::from_millis(2);

/// Frames that are sent to measure a rate, if enough of them arrive: of segments fewer, because each is some fifty frames.
const RATE_FRAMES: usize = 200;
const RATE_SEGMENTS: usize = 40;
/// Frames that are sent to measure the delay, if enough of them arrive.
const DELAY_FRAMES: usize = 40;
/// Frames on the wire that are sent to count those that are lost, with losses and without.
const LOSS_FRAMES: u64 = 10_000;
const NO_LOSS_FRAMES: u64 = 1000;
/// Frames and segments of all kinds that are sent to see whether they arrive in their order, if enough of them arrive.
const MIXED_FRAMES: usize = 90;
/// A queue of more bytes is filled with segments: frames would be more than a link has under way.
const QUEUE_OF_FRAMES_BYTES: u64 = 4 << 20;

/// Holds a link against its model. `directory` is for its sockets, and is empty.
///
/// # Errors
/// The link cannot be served, or its server does not answer.
pub fn check(link: &CheckedLink, directory: &Path) -> Result<Vec<CheckRow>, CheckError> {
    let mut rows = Vec::new();
    let shapes = [Shape::Shortest, Shape::Longest { mtu: link.mtu }, Shape::Segment { mtu: link.mtu }];
    for shape in shapes {
        let usual = if shape.frames() > 1 { RATE_SEGMENTS } else { RATE_FRAMES };
        let plan = at_once(shape, sendings_for(link, shape, usual));
        let [_, upper] = live(link, directory, [&plan, &[]])?;
        rows.push(rate_row(link, Quantity::Rate, End::Lower, &plan, &upper));
        let [lower, upper] = live(link, directory, [&plan, &plan])?;
        rows.push(rate_row(link, Quantity::RateBothWays, End::Lower, &plan, &upper));
        rows.push(rate_row(link, Quantity::RateBothWays, End::Upper, &plan, &lower));
    }
    if link.wire.loss == 0.0 {
        rows.extend(with_several(link, directory)?);
    }
    let plan = apart(link);
    let seen = live(link, directory, [&plan, &plan])?;
    rows.extend(both_ways(|from, to| delay_row(link, from, &plan, &seen[to.index()])));
    for shape in shapes {
        let frames = if link.wire.loss > 0.0 { LOSS_FRAMES } else { NO_LOSS_FRAMES };
        let sendings = usize::try_from(frames.div_ceil(shape.frames())).unwrap_or(usize::MAX);
        let plan = at_once(shape, sendings);
        let seen = live(link, directory, [&plan, &plan])?;
        rows.extend(both_ways(|from, to| lost_row(link, from, &plan, &seen[to.index()])));
    }
    let plan = more_than_the_queue(link);
    let seen = live(link, directory, [&plan, &plan])?;
    rows.extend(both_ways(|from, _| queue_row(link, from, &plan, &seen[from.index()])));
    let plan: Vec<Sending> = (0..sendings_for(link, Shape::Shortest, MIXED_FRAMES))
        .map(|at| Sending { at_ns: 0, shape: shapes[at % shapes.len()] })
        .collect();
    let seen = live(link, directory, [&plan, &plan])?;
    rows.extend(both_ways(|from, to| disorder_row(link, from, &plan, &seen[to.index()])));
    Ok(rows)
}

/// What several machines share: all of them send at once, and then all are sent the same, as their addresses are not known. What is lost on the way
/// to a switch takes no time behind it, so links that lose frames are not held against this.
fn with_several(link: &CheckedLink, directory: &Path) -> Result<[CheckRow; 2], CheckError> {
    let shape = Shape::Longest { mtu: link.mtu };
    let plan = at_once(shape, RATE_FRAMES);
    let none: &[Sending] = &[];
    let mut seen = live_at(link, directory, &[none, &plan, &plan, &plan])?;
    seen.truncate(1);
    let to_lower = shared_rate_row(link, End::Upper, shape, &seen);
    let seen = live_at(link, directory, &[&plan, none, none, none])?;
    Ok([to_lower, shared_rate_row(link, End::Lower, shape, &seen[1..])])
}

fn both_ways(row: impl Fn(End, End) -> CheckRow) -> [CheckRow; 2] {
    End::BOTH.map(|from| row(from, from.other()))
}

/// Frames that are all there at time zero.
fn at_once(shape: Shape, frames: usize) -> Vec<Sending> {
    vec![Sending { at_ns: 0, shape }; frames]
}

/// Frames of which each finds the wire free.
fn apart(link: &CheckedLink) -> Vec<Sending> {
    let shapes = [Shape::Shortest, Shape::Longest { mtu: link.mtu }];
    let gap_ns = 2 * wire_ns(link, shapes[1].bits()) + 1000;
    let sending = |at: usize| Sending { at_ns: at as u64 * gap_ns, shape: shapes[at % 2] };
    (0..sendings_for(link, Shape::Shortest, DELAY_FRAMES)).map(sending).collect()
}

/// Frames at time zero, of which the queue does not hold all.
fn more_than_the_queue(link: &CheckedLink) -> Vec<Sending> {
    let shape = match link.wire.queue_bytes {
        ..=QUEUE_OF_FRAMES_BYTES => Shape::Longest { mtu: link.mtu },
        _ => Shape::Segment { mtu: link.mtu },
    };
    let held = link.wire.queue_bytes * 8 / shape.bits();
    at_once(shape, usize::try_from(held).unwrap_or(usize::MAX).saturating_add(4))
}

/// What so many bits take on the wire.
fn wire_ns(link: &CheckedLink, bits: u64) -> u64 {
    (bits as f64 * 1e9 / link.wire.rate_bits_per_s as f64).ceil() as u64
}

/// When everything that machines send has arrived for certain, if the link is as it should be: also if all of several send to one.
fn all_there_ns(link: &CheckedLink, plans: &[&[Sending]]) -> u64 {
    let bits = |plan: &[Sending]| plan.iter().map(|sending| sending.shape.bits()).sum::<u64>();
    let begins_ns = plans.iter().filter_map(|plan| Some(plan.last()?.at_ns)).max().unwrap_or(0);
    let (of_lower, of_others) = plans.split_at(1);
    let bits = [of_lower, of_others].map(|plans| plans.iter().map(|plan| bits(plan)).sum::<u64>());
    let last_ns = begins_ns + wire_ns(link, bits.into_iter().max().unwrap_or(0));
    last_ns + last_ns / 10 + 2 * link.wire.delay_ns + 1_000_000
}

/// What two machines see that send what is planned for each over a new link.
fn live(link: &CheckedLink, directory: &Path, plans: [&[Sending]; 2]) -> Result<[Seen; 2], CheckError> {
    live_at(link, directory, &plans)?.try_into().map_err(|_| CheckError::Silent)
}

/// The same of more machines: all but the first are behind a switch.
fn live_at(link: &CheckedLink, directory: &Path, plans: &[&[Sending]]) -> Result<Vec<Seen>, CheckError> {
    let path = |name: &str| directory.join(name);
    let options = LinkOptions {
        wire: link.wire,
        seed: link.seed,
        sockets: (0..plans.len()).map(|at| path(&format!("{at}.sock"))).collect(),
        control: Some(path("control.sock")),
        log: None,
        time: LinkTime::Virtual,
        stop: StopHandle::new()?,
    };
    let until_ns = all_there_ns(link, plans);
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&options));
        let seen = join(&options, &path("control.sock"), || server.is_finished())
            .and_then(|machines| live_together(machines, plans, until_ns));
        options.stop.stop();
        // Why it could not be served is the cause of everything else.
        server.join().map_err(|_| CheckError::Silent)??;
        seen
    })
}

/// Connects all machines, and joins them.
fn join(
    options: &LinkOptions,
    control: &Path,
    has_ended: impl Fn() -> bool,
) -> Result<Vec<PlayedMachine>, CheckError> {
    let deadline = Instant::now() + START_LIMIT;
    let wait = || {
        std::thread::sleep(LOOK);
        if has_ended() || Instant::now() > deadline { Err(CheckError::Silent) } else { Ok(()) }
    };
    let mut control = loop {
        match ControlClient::connect(control) {
            Ok(client) => break client,
            Err(_) => wait()?,
        }
    };
    let machines =
        options.sockets.iter().map(|socket| PlayedMachine::connect(socket)).collect::<Result<Vec<_>, _>>()?;
    while !matches!(control.request(&LinkRequest::Statistics)?, LinkResponse::Statistics(s) if s.connected) {
        wait()?;
    }
    control.join()?;
    Ok(machines)
}

/// What machines see that send what is planned for each. All but the first send the same, at the most.
fn live_together(
    machines: Vec<PlayedMachine>,
    plans: &[&[Sending]],
    until_ns: u64,
) -> Result<Vec<Seen>, CheckError> {
    let of_others = |at: usize| plans[usize::from(at == 0)];
    std::thread::scope(|scope| {
        let living = machines.into_iter().enumerate().map(|(at, mut machine)| {
            // The others do not wait for a machine that is gone: it ends with its thread.
            scope.spawn(move || machine.live(plans[at], of_others(at), until_ns))
        });
        let living: Vec<_> = living.collect();
        living.into_iter().map(|seen| seen.join().map_err(|_| CheckError::Silent)?).collect()
    })
}

#[cfg(test)]
mod tests;
