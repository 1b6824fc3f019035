//! Where a stack is built: the value of `--on`.

use std::fmt;
use std::str::FromStr;

/// Where a stack stands. Its text is what results are kept under; an emulated host in real time is `emulated` there, as it
/// was before there was another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In an emulated host, whose hardware, the disk included, Nestor supplies. Needs no root, touches nothing.
    Emulated(HostTime),
    /// On this machine's own kernel.
    This,
    /// On another machine's own kernel, reached by ssh.
    Ssh(String),
}

impl Place {
    /// The time that the emulated host lives in, if there is one.
    pub fn host_time(&self) -> Option<HostTime> {
        match self {
            Self::Emulated(time) => Some(*time),
            Self::This | Self::Ssh(_) => None,
        }
    }

    /// Whether the host lives in virtual time, so that what is measured there repeats.
    pub fn is_in_virtual_time(&self) -> bool {
        self.host_time() == Some(HostTime::Virtual)
    }

    /// Whether the outermost host is the lab's own virtual machine.
    pub fn is_emulated(&self) -> bool {
        matches!(self, Self::Emulated(_))
    }
}

/// The time that an emulated host lives in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HostTime {
    /// This machine's: how fast the host is depends on this machine and on what else it does.
    #[default]
    Real,
    /// Its own: one instruction is one nanosecond, and its disks live in the same time.
    Virtual,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "emulated" | "emulated:time=real" => Ok(Self::Emulated(HostTime::Real)),
            "emulated:time=virtual" => Ok(Self::Emulated(HostTime::Virtual)),
            "this" => Ok(Self::This),
            _ => match text.strip_prefix("ssh:") {
                Some(host) if !host.is_empty() && !host.starts_with('-') => Ok(Self::Ssh(host.to_owned())),
                _ => Err(format!(
                    "`{text}` is no place to run; there are: emulated, emulated:time=virtual, emulated:time=real, this, ssh:HOST"
                )),
            },
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Emulated(HostTime::Real) => f.write_str("emulated"),
            Self::Emulated(HostTime::Virtual) => f.write_str("emulated:time=virtual"),
            Self::This => f.write_str("this"),
            Self::Ssh(host) => write!(f, "ssh:{host}"),
        }
    }
}

/// What `--on` may say: a place, or an emulated host in whichever time is right on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PlaceWish {
    /// An emulated host: in virtual time where KVM is not usable and QEMU can be joined to it, otherwise in real time.
    #[default]
    EmulatedInRightTime,
    /// This place and no other.
    Exactly(Place),
}

impl FromStr for PlaceWish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "emulated" => Ok(Self::EmulatedInRightTime),
            _ => text.parse().map(Self::Exactly),
        }
    }
}

impl fmt::Display for PlaceWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmulatedInRightTime => f.write_str("emulated"),
            Self::Exactly(Place::Emulated(HostTime::Real)) => f.write_str("emulated:time=real"),
            Self::Exactly(place) => place.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_printed_as_they_are_read() {
        for text in ["emulated", "emulated:time=virtual", "this", "ssh:storage-1", "ssh:me@lab.example"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        for text in ["", "ssh:", "ssh:-oProxyCommand=x", "there"] {
            assert!(
                text.parse::<Place>().unwrap_err().contains(
                    "there are: emulated, emulated:time=virtual, emulated:time=real, this, ssh:HOST"
                )
            );
        }
    }

    #[test]
    fn wishes_are_printed_as_they_are_read() {
        for text in ["emulated", "emulated:time=virtual", "emulated:time=real", "this", "ssh:storage-1"] {
            assert_eq!(text.parse::<PlaceWish>().unwrap().to_string(), text);
        }
        assert_eq!("emulated".parse::<PlaceWish>().unwrap(), PlaceWish::default());
        assert!("there".parse::<PlaceWish>().is_err());
    }
}
