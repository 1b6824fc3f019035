//! Serving one hypervisor after the other on a vhost-user socket.

use std::os::fd::{AsFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use nestor_stop::{StopHandle, Woken, lock};
use vhost::vhost_user::{Error as VhostUserError, Listener};
use vhost_user_backend::bitmap::BitmapMmapRegion;
use vhost_user_backend::{Error as BackendError, ShutdownHandle, VhostUserBackend, VhostUserDaemon};
use vm_memory::GuestMemoryAtomic;
use vmm_sys_util::epoll::EventSet;

use crate::{GuestMemory, ServingError, Vring};

/// How a device is offered.
#[derive(Debug)]
pub struct Offer<'a> {
    /// What it is in messages: `disk`.
    pub device: &'static str,
    /// The socket's path.
    pub socket: &'a Path,
    /// End when the first connection closes; otherwise the next one is waited for.
    pub once: bool,
    /// Ends the server, and is told when the server ends by itself.
    pub stop: &'a StopHandle,
}

/// A device for one connection.
pub trait Connected: VhostUserBackend<Bitmap = BitmapMmapRegion, Vring = Vring> + 'static {
    /// Its alarm, and the number under which it hears of it.
    fn alarm(&self) -> Option<(RawFd, u64)>;
}

/// Serves one front end after the other, each with a device that `connect` makes; `disconnected` hears when one has gone.
///
/// # Errors
/// The socket cannot be used, or the vhost-user library cannot serve on it.
pub fn serve_front_ends<D: Connected>(
    offer: &Offer<'_>,
    listener: UnixListener,
    connect: impl Fn() -> Result<D, ServingError>,
    disconnected: impl Fn(),
) -> Result<(), ServingError> {
    let waiter = listener.try_clone().map_err(ServingError::io("listen on", offer.socket))?;
    let mut listener = Listener::from(listener);
    let current: Mutex<Option<ShutdownHandle>> = Mutex::new(None);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            offer.stop.wait();
            if let Some(handle) = lock(&current).as_ref() {
                handle.shutdown();
            }
        });
        let result = loop {
            if offer.stop.wait_with(Some(waiter.as_fd()), None) == Woken::Stopped {
                break Ok(());
            }
            let served = connect().and_then(|device| serve_front_end(offer, &mut listener, device, &current));
            disconnected();
            if served.is_err() || offer.once {
                break served;
            }
        };
        offer.stop.stop();
        result
    })
}

/// Serves the front end that is waiting to be accepted, until it disconnects or the server is stopped.
fn serve_front_end<D: Connected>(
    offer: &Offer<'_>,
    listener: &mut Listener,
    device: D,
    current: &Mutex<Option<ShutdownHandle>>,
) -> Result<(), ServingError> {
    let failed = |error: BackendError| ServingError::Vhost {
        socket: offer.socket.to_owned(),
        reason: error.to_string(),
    };
    let device = Arc::new(device);
    let memory = GuestMemoryAtomic::new(GuestMemory::new());
    let mut daemon =
        VhostUserDaemon::new("vhost-user".to_owned(), Arc::clone(&device), memory).map_err(failed)?;
    if let Some((alarm, number)) = device.alarm() {
        for handler in daemon.get_epoll_handlers() {
            let watched = handler.register_listener(alarm, EventSet::IN, number);
            watched.map_err(ServingError::system("watch the device's timer"))?;
        }
    }
    daemon.start(listener).map_err(failed)?;
    *lock(current) = daemon.shutdown_handle();
    if offer.stop.is_stopped() {
        daemon.request_shutdown();
    }
    let result = daemon.wait();
    *lock(current) = None;
    match result {
        // Front ends go away in many ways: QEMU quits, is killed, or resets in the middle of a message.
        Ok(())
        | Err(BackendError::HandleRequest(
            VhostUserError::Disconnected | VhostUserError::PartialMessage | VhostUserError::SocketBroken(_),
        )) => Ok(()),
        // An invalid message of one front end does not end the device for the next.
        Err(BackendError::HandleRequest(error)) => {
            let (device, socket) = (offer.device, offer.socket.display());
            nestor_terminal::errln!("{device} on {socket}: the front end was dropped: {error}");
            Ok(())
        }
        Err(error) => Err(failed(error)),
    }
}
