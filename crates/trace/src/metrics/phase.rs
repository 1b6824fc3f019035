//! The intervals of a request's life by btt's names.

use std::fmt;

/// An interval of the life of a bio or a request, as btt defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Queue to queue: from one bio to the next.
    Q2Q,
    /// Queue to remap.
    Q2A,
    /// Queue to get request.
    Q2G,
    /// Sleep to get request.
    S2G,
    /// Get request to insert.
    G2I,
    /// Queue to merge.
    Q2M,
    /// Insert to issue.
    I2D,
    /// Merge to issue.
    M2D,
    /// Issue to complete.
    D2C,
    /// Queue to complete.
    Q2C,
    /// Queue to insert, of requests only.
    Q2I,
    /// Queue to issue, of requests only.
    Q2D,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Q2Q => "Q2Q",
            Self::Q2A => "Q2A",
            Self::Q2G => "Q2G",
            Self::S2G => "S2G",
            Self::G2I => "G2I",
            Self::Q2M => "Q2M",
            Self::I2D => "I2D",
            Self::M2D => "M2D",
            Self::D2C => "D2C",
            Self::Q2C => "Q2C",
            Self::Q2I => "Q2I",
            Self::Q2D => "Q2D",
        })
    }
}
