//! Throughput over size, share of reads and randomness of requests: the surfaces of the ESX study (Ahmad et al., WWC 2003,
//! §3.1), whole or from some of their points.
//!
//! The study measured each of 100 points for three minutes. A surface is smooth, so fewer points tell it: [`Surface`] is a
//! Gaussian process over the logarithm of the time of a request. That time is about (1 - r)·t_sequential + r·t_random for a
//! share r of random requests, which over r has a cliff at 0; over ln(1 + c·r) with c near t_random / t_sequential it is nearly a
//! line. So r enters in that form, and c is fitted with the length scales.

mod grid;
mod interpolate;

pub use grid::{GridPoint, SHARES_PERCENT, STUDY_BYTES, study_grid};
pub use interpolate::{Surface, SurfaceError, SurfaceEstimate, points_to_measure};
