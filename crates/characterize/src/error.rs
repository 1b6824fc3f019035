//! Why there is no profile.

use nestor_trace::TraceError;
use nestor_trace::event::Device;
use thiserror::Error;

use crate::collector::TooLittle;

/// Why there is no profile of a trace.
#[derive(Debug, Error)]
pub enum CharacterizeError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Its requests have no times.
    #[error(
        "{trace} does not say {}, which a profile needs; record with `nestor trace record`, or run `nestor \
         characterize --for 60s`",
        if *.says_when { "how long requests took" } else { "when requests arrived" }
    )]
    NoTimes {
        /// Which trace.
        trace: String,
        /// Whether it says when requests arrived.
        says_when: bool,
    },
    /// It has requests of several devices.
    #[error(
        "the requests belong to several devices: {devices}; {}",
        if *.can_choose {
            "name one with --device"
        } else {
            "these recordings do not number their devices: give one file, of one device"
        }
    )]
    SeveralDevices {
        /// The devices, with the number of their requests.
        devices: String,
        /// Whether one can be named.
        can_choose: bool,
    },
    /// It has none of the device that was named.
    #[error("it has no requests of device {device}; it has {there}")]
    OtherDevices {
        /// The device.
        device: Device,
        /// Those that it has.
        there: String,
    },
    /// It has too few.
    #[error("{longer}")]
    TooLittle {
        /// What to do.
        longer: String,
        /// How few there are.
        source: TooLittle,
    },
}
