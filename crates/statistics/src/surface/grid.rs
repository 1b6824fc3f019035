//! The points of a surface.

use serde::{Deserialize, Serialize};

/// Bytes of the requests in the ESX study (§3.1).
pub const STUDY_BYTES: [u32; 4] = [1 << 10, 4 << 10, 8 << 10, 16 << 10];
/// Shares of reads, and of random requests, in the ESX study (§3.1).
pub const SHARES_PERCENT: [u8; 5] = [0, 25, 50, 75, 100];

/// A load of requests of one size; reads and seeks are drawn by chance for each (row A-14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GridPoint {
    /// Bytes of each request.
    pub bytes: u32,
    /// Share of requests that read, in per cent.
    pub read_percent: u8,
    /// Share of requests that seek, in per cent.
    pub random_percent: u8,
    /// Requests under way at once.
    pub depth: u32,
}

/// The study's grid, by size, then reads, then randomness: 4 × 5 × 5 points (row A-7), all with so many requests at once.
pub fn study_grid(depth: u32) -> Vec<GridPoint> {
    let mut points = Vec::new();
    for bytes in STUDY_BYTES {
        for read_percent in SHARES_PERCENT {
            for random_percent in SHARES_PERCENT {
                points.push(GridPoint { bytes, read_percent, random_percent, depth });
            }
        }
    }
    points
}
