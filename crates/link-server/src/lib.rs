//! Offers a modelled link to two machines or more, to each as a vhost-user-net network interface.
//!
//! [`serve`] moves the frames; [`nestor_link`] decides when each arrives. In virtual time, the link also holds the times of all
//! machines together ([`together`](self)): none runs further ahead of another than a frame takes to it at least.

mod backend;
pub mod check;
mod checksum;
pub mod control;
mod driver;
mod frame;
mod logging;
#[cfg(test)]
mod played_guest;
mod port;
mod relay;
mod segment;
mod sequence;
mod shared;
mod together;

use std::path::PathBuf;
use std::sync::Arc;

use nestor_link::{PortIndex, Wire};
use nestor_log::LogError;
use nestor_serving::{
    Offer, ServingError, SocketFile, beside, listen, serve_control, serve_front_ends, serve_time,
};
use nestor_stop::StopHandle;
use nestor_vtime::protocol::{LINK_TIME_SUFFIX, NO_EVENT};

use backend::Backend;
pub use control::ControlClient;
use port::Queue;
use relay::relay;
use shared::Shared;

/// Added to the path of an end's socket it is the path of the one behind its relay.
const BEHIND_RELAY: &str = ".behind";

/// What to serve and where.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// The link's figures.
    pub wire: Wire,
    /// Which frames are lost.
    pub seed: u64,
    /// The vhost-user sockets of all machines, by [`PortIndex::index`]; created for their owner only and removed at the end. At least two.
    pub sockets: Vec<PathBuf>,
    /// The control socket, created for its owner only and removed at the end.
    pub control: Option<PathBuf>,
    /// Where frames are logged from the beginning.
    pub log: Option<PathBuf>,
    /// The time that all machines live in.
    pub time: LinkTime,
    /// Ends the server.
    pub stop: StopHandle,
}

/// The time that a link lives in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkTime {
    /// This machine's.
    #[default]
    Real,
    /// The virtual times of all machines, which each sends on a socket beside its own, with
    /// [`nestor_vtime::protocol::LINK_TIME_SUFFIX`] in its name.
    Virtual,
}

/// Serves a link until it is stopped.
///
/// # Errors
/// The sockets cannot be made; then nothing is left behind.
pub fn serve(options: &LinkOptions) -> Result<(), ServingError> {
    let stop = &options.stop;
    let listen_beside = |suffix| {
        options.sockets.iter().map(|socket| listen(&beside(socket, suffix))).collect::<Result<Vec<_>, _>>()
    };
    let machines = || PortIndex::all(options.sockets.len());
    let listeners = listen_beside("")?;
    let behind = listen_beside(BEHIND_RELAY)?;
    let control = options.control.as_deref().map(listen).transpose()?;
    let times = match options.time {
        LinkTime::Real => None,
        LinkTime::Virtual => Some(listen_beside(LINK_TIME_SUFFIX)?),
    };
    let shared = Arc::new(Shared::new(options)?);
    if let Some(path) = &options.log {
        let socket = options.sockets[PortIndex::LOWER.index()].clone();
        let refused = |e: LogError| ServingError::Vhost { socket, reason: e.to_string() };
        shared.start_log(path).map_err(refused)?;
    }
    std::thread::scope(|scope| {
        if let Some((listener, _socket)) = &control {
            let shared = &shared;
            scope.spawn(move || serve_control(listener, stop, shared));
        }
        for (at, (listener, _socket)) in machines().zip(times.iter().flatten()) {
            let shared = &shared;
            scope.spawn(move || {
                serve_time(listener, stop, |[now_ns, quiet_until_ns, notified]| {
                    shared.run_until(at, [now_ns, quiet_until_ns], Queue::at(notified)).unwrap_or(NO_EVENT)
                });
                shared.disconnect(at);
            });
        }
        for ((listener, _socket), (_, inner)) in listeners.iter().zip(&behind) {
            let inner = inner.path().to_owned();
            scope.spawn(move || relay(listener, &inner, stop));
        }
        let serve = |(at, behind)| {
            let served = serve_machine(options, at, behind, &shared);
            // Also for the threads that wait for other sockets.
            stop.stop();
            served
        };
        let serving: Vec<_> =
            machines().zip(behind).map(|of_one| scope.spawn(move || serve(of_one))).collect();
        serving.into_iter().map(|served| served.join().unwrap_or(Ok(()))).fold(Ok(()), Result::and)
    })
}

fn serve_machine(
    options: &LinkOptions,
    at: PortIndex,
    (listener, _socket): (std::os::unix::net::UnixListener, SocketFile),
    shared: &Arc<Shared>,
) -> Result<(), ServingError> {
    let offer =
        Offer { device: "link", socket: &options.sockets[at.index()], once: false, stop: &options.stop };
    let connect = || {
        Backend::new(Arc::clone(shared), at).map_err(ServingError::system("prepare a vhost-user connection"))
    };
    serve_front_ends(&offer, listener, connect, || shared.disconnect(at))
}
