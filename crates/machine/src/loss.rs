//! What a machine on a network cannot go on without.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounds::clipped;
use crate::place::MachinePlace;
use crate::refusal::ProgramEnd;

/// What has ended by itself, so that a machine that used it is given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// The server of its link.
    Link {
        /// The process.
        server: u32,
        /// How it ended.
        ended: ProgramEnd,
    },
    /// The machine at the other end of its link.
    Machine {
        /// Which.
        place: MachinePlace,
        /// How it ended, and what it said last.
        said: String,
    },
    /// The kernel's NFS server at the other end of its link: none of its threads is left.
    NfsServer,
}

impl Loss {
    /// With as much of it as a frame may hold.
    pub(crate) fn clipped(self) -> Self {
        match self {
            Self::Machine { place, said } => Self::Machine { place, said: clipped(said) },
            other => other,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link { server, ended } => write!(f, "the server of its link (process {server}) {ended}"),
            Self::Machine { place, said } => {
                write!(f, "the machine `{place}` at the other end of its link has ended{said}")
            }
            Self::NfsServer => f.write_str("the NFS server at the other end of its link has ended"),
        }
    }
}
