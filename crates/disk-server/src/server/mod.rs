//! Serving a modelled medium as a vhost-user-blk disk.

mod answering;
mod backend;
mod core;
mod execute;
pub(crate) mod manage;
pub mod request;
mod stamping;
mod store;

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use nestor_serving::{
    Clock, Offer, ServingError, SocketFile, beside, listen, serve_control, serve_front_ends, serve_time,
};
use nestor_vtime::protocol::{DISK_TIME_SUFFIX, NO_EVENT};

use self::backend::Backend;
use self::core::{Core, CoreParts};
use self::execute::Target;
use self::manage::{Shared, close_log, close_stamps};
use self::request::ID_BYTES;
use self::store::Store;
use crate::priority::Priority;
use nestor_disk::DiskError;
use nestor_disk::model::{SECTOR_BYTES, Turn};
use nestor_disk::{Medium, Profile};
use nestor_stop::StopHandle;

/// What to serve and where.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The medium.
    pub profile: String,
    /// Bytes that the guest sees; a multiple of 512.
    pub size_bytes: u64,
    /// Where they begin on the modelled medium (outer tracks come first); a multiple of 512.
    pub offset_bytes: u64,
    /// The vhost-user socket, created for its owner only and removed at the end.
    pub socket: PathBuf,
    /// The data: a sparse file, created if missing, kept at the end. `None`: a file without a name, which is gone with the process.
    pub data: Option<PathBuf>,
    /// The control socket, created for its owner only and removed at the end.
    pub control: Option<PathBuf>,
    /// Write a request log from the start.
    pub log: Option<PathBuf>,
    /// Note the stamps in the data from the start. For tests of truth: it takes time that the model does not know of.
    pub stamps: Option<PathBuf>,
    /// The medium's write cache; `None` leaves it as the profile has it.
    pub write_cache: Option<bool>,
    /// How far the platters have turned at time zero of [`Self::time`]. No effect for media without platters.
    pub turned: Turn,
    /// Timing is on from the start.
    pub timing: bool,
    /// A flush waits until the data file is on the host's own storage, as a real disk's data would survive a power
    /// failure of the host. Takes time that the model does not know of.
    pub durable: bool,
    /// What the guest reads as the disk's serial number; 20 bytes at most.
    pub serial: String,
    /// End when the first connection closes; otherwise the next one is waited for.
    pub once: bool,
    /// End when the thread that started this process ends.
    pub end_with_parent: bool,
    /// The time that the disk lives in.
    pub time: DiskTime,
    /// The data file is only read, as long as it is; other programs may read it too.
    pub read_only: bool,
    /// Ends the server.
    pub stop: StopHandle,
}

/// The time that a disk lives in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskTime {
    /// This machine's.
    #[default]
    Real,
    /// The virtual time of the machine that uses the disk, which sends it on a socket beside the disk's
    /// own, with [`nestor_vtime::protocol::DISK_TIME_SUFFIX`] in its name.
    Virtual,
}

/// Why a disk could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Its options, its data or its log.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Its sockets.
    #[error(transparent)]
    Serving(#[from] ServingError),
}

/// Serves a disk until it is stopped.
///
/// # Errors
/// The options do not fit the medium, or the files and sockets cannot be made; then nothing is left behind.
pub fn serve(options: ServeOptions) -> Result<(), ServeError> {
    if options.end_with_parent {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
            .map_err(|e| DiskError::system("make the disk end with its parent")(e.into()))?;
    }
    let profile = check(&options)?;
    let (listener, _socket) = listen(&options.socket)?;
    let control = options.control.as_deref().map(listen).transpose()?;
    let time = match options.time {
        DiskTime::Real => None,
        DiskTime::Virtual => Some(listen(&beside(&options.socket, DISK_TIME_SUFFIX))?),
    };
    let shared = Arc::new(Shared::new(build(&options, profile)?, options.stop.clone()));
    if let Some(log) = &options.log {
        shared.manage().start_log(log)?;
    }
    if let Some(stamps) = &options.stamps {
        shared.manage().start_stamps(stamps)?;
    }
    let result = serve_until_stopped(&options, listener, &[control, time], &shared);
    let (log, stamps) = {
        let mut core = shared.manage();
        (core.take_log(), core.take_stamps())
    };
    let closed = (close_log(log), close_stamps(stamps));
    result?;
    closed.0?;
    closed.1?;
    Ok(())
}

/// Serves the disk itself, its control socket and its time socket.
fn serve_until_stopped(
    options: &ServeOptions,
    listener: UnixListener,
    [control, time]: &[Option<(UnixListener, SocketFile)>; 2],
    shared: &Arc<Shared>,
) -> Result<(), ServingError> {
    let stop = &options.stop;
    std::thread::scope(|scope| {
        if let Some((listener, _socket)) = control {
            scope.spawn(move || serve_control(listener, stop, shared));
        }
        if let Some((listener, _socket)) = time {
            scope.spawn(move || {
                serve_time(listener, stop, |[now_ns]| shared.run_until(now_ns).unwrap_or(NO_EVENT));
            });
        }
        let offer = Offer { device: "disk", socket: &options.socket, once: options.once, stop };
        let connect = || {
            Backend::new(Arc::clone(shared)).map_err(ServingError::system("prepare a vhost-user connection"))
        };
        let result = serve_front_ends(&offer, listener, connect, || shared.manage().disconnect());
        // Also for the threads that wait for the control socket or to shut a connection.
        stop.stop();
        result
    })
}

/// Finds the profile and checks that the region is on it.
fn check(options: &ServeOptions) -> Result<&'static Profile, DiskError> {
    let profile = nestor_disk::profile(&options.profile)?;
    let (size, offset) = (options.size_bytes, options.offset_bytes);
    let end = offset.checked_add(size).filter(|end| *end <= profile.capacity_bytes);
    if end.is_none()
        || size == 0
        || !size.is_multiple_of(SECTOR_BYTES)
        || !offset.is_multiple_of(SECTOR_BYTES)
    {
        let capacity = profile.capacity_bytes;
        return Err(DiskError::Region { profile: profile.name.to_owned(), size, offset, capacity });
    }
    Ok(profile)
}

/// Puts the disk together.
fn build(options: &ServeOptions, profile: &Profile) -> Result<Core, ServeError> {
    let mut model = profile.model(options.turned)?;
    if let Some(on) = options.write_cache {
        model.set_write_cache(on);
    }
    let mut serial = [0; ID_BYTES as usize];
    for (to, from) in serial.iter_mut().zip(options.serial.bytes()) {
        *to = from;
    }
    Ok(Core::new(CoreParts {
        target: Target {
            store: match &options.data {
                Some(path) if options.read_only => Store::open_read_only(path, options.size_bytes)?,
                Some(path) => Store::open(path, options.size_bytes)?,
                None => Store::unnamed(options.size_bytes)?,
            },
            serial,
            durable: options.durable,
        },
        profile: profile.name.to_owned(),
        first_sector: options.offset_bytes / SECTOR_BYTES,
        model,
        model_takes_time: profile.medium != Medium::Null,
        timing: options.timing,
        priority: match profile.medium {
            Medium::Null => Priority::Ordinary,
            // Some completion of a flash disk is always near; waiting for it in real time would take a whole CPU.
            Medium::Ssd(_) => Priority::ShortSlices,
            Medium::Hdd(_) | Medium::Array(_) => Priority::RealTime,
        },
        clock: match options.time {
            DiskTime::Real => Clock::Real,
            DiskTime::Virtual => Clock::Told { now_ns: 0 },
        },
    })?)
}
