//! A surface from some of its points, with what it misses.

use serde::{Deserialize, Serialize};

use super::grid::GridPoint;
use crate::gaussian_process::GaussianProcess;
use crate::informative::most_informative;
use crate::simplex;
use crate::summary::HALF_OF_90;
use crate::summary::{Interval, median};

/// Fewer points tell no length scales.
const FEWEST: usize = 6;
/// Values of the likelihood that the search for the scales may ask for.
const EVALUATIONS: usize = 400;
/// Points that the search looks at: it takes the cube of their number.
const SEARCHED: usize = 40;
/// A measurement's own error, as a share: what repeated points of a modelled disk showed.
const USUAL_ERROR: f64 = 0.02;

/// What a surface is at a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SurfaceEstimate {
    /// Requests per second.
    pub requests_per_s: f64,
    /// Where a measurement would be found with 90 % probability.
    pub interval: Interval,
}

/// What a surface misses where it was not measured, by leaving each of its points out once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SurfaceError {
    /// Median of the errors, as a share.
    pub median: f64,
    /// Largest error, as a share.
    pub largest: f64,
    /// Share of the points that lie in their 90 % intervals.
    pub covered: f64,
}

/// A surface through measured points.
pub struct Surface {
    process: GaussianProcess<Coordinates, Covariance>,
    scales: Scales,
    points: Vec<(GridPoint, f64)>,
    /// By how much intervals are wider than the process says, because it was surer of left-out points than it should have been.
    widening: f64,
}

type Covariance = Box<dyn Fn(&Coordinates, &Coordinates) -> f64 + Send + Sync>;

/// A point, each coordinate from 0 to 1.
type Coordinates = [f64; 5];

/// Bytes of a block of the file systems: a smaller write reads the rest of its block first.
const BLOCK_BYTES: u32 = 4096;
/// c of ln(1 + c·w) for the share w of writes that are smaller than a block: already a quarter of them is nearly the whole cost
/// (15 times the time at 25 % writes, 40 times at 100 %: 1 KiB on ext3, a modelled RAID-0).
const PARTIAL_CLIFF: f64 = 300.0;

/// What is fitted: all in logarithms.
#[derive(Clone, Copy, Debug)]
struct Scales {
    /// c of ln(1 + c·r).
    cliff: f64,
    /// Length over which size, reads, randomness and depth lose touch.
    lengths: [f64; 4],
    /// Deviation of what is not a plane.
    height: f64,
    /// Deviation of the slope of the plane in each direction.
    slope: f64,
    /// A measurement's own error, as a share.
    error: f64,
}

impl Scales {
    /// A disk: random requests take a hundred times as long as sequential ones of 4 KiB.
    const USUAL: Self =
        Self { cliff: 80.0, lengths: [1.5, 0.5, 0.7, 0.7], height: 0.5, slope: 2.0, error: USUAL_ERROR };

    fn to_search(self) -> Vec<f64> {
        let [size, reads, random, depth] = self.lengths;
        [self.cliff, size, reads, random, depth, self.height, self.slope, self.error]
            .iter()
            .map(|x| x.ln())
            .collect()
    }

    fn of_search(logs: &[f64]) -> Self {
        // Beyond these nothing changes any more, and the matrix becomes singular.
        let within = |i: usize, low: f64, high: f64| logs[i].exp().clamp(low, high);
        Self {
            cliff: within(0, 0.1, 1e4),
            lengths: [within(1, 0.1, 10.0), within(2, 0.1, 10.0), within(3, 0.1, 10.0), within(4, 0.1, 10.0)],
            height: within(5, 1e-3, 10.0),
            slope: within(6, 1e-3, 10.0),
            // Never surer than repeats are: points without scatter would be taken for a surface that changes between any two.
            error: within(7, USUAL_ERROR, 0.5),
        }
    }

    fn coordinates(&self, point: &GridPoint) -> Coordinates {
        let share = |percent: u8| f64::from(percent) / 100.0;
        // 1 KiB to 16 KiB is the length of the axis in the study.
        let size = (f64::from(point.bytes) / 1024.0).log2() / 4.0;
        let random = (1.0 + self.cliff * share(point.random_percent)).ln() / (1.0 + self.cliff).ln();
        // From 1 to 256.
        let depth = f64::from(point.depth.max(1)).log2() / 8.0;
        // All of it from half a block down; a mean of sizes is hardly ever a whole number of blocks.
        let part = (f64::from(BLOCK_BYTES) / f64::from(point.bytes.max(1))).log2().clamp(0.0, 1.0);
        let writes = share(100 - point.read_percent.min(100));
        let partial = part * (1.0 + PARTIAL_CLIFF * writes).ln() / (1.0 + PARTIAL_CLIFF).ln();
        [size, share(point.read_percent), random, depth, partial]
    }

    fn covariance(self) -> Covariance {
        Box::new(move |a, b| {
            // Partial blocks lose touch over the whole of their axis.
            let lengths = self.lengths.iter().chain([&1.0]);
            let distance: f64 =
                a.iter().zip(b).zip(lengths).map(|((a, b), length)| ((a - b) / length).powi(2)).sum();
            let plane: f64 = a.iter().zip(b).map(|(a, b)| (a - 0.5) * (b - 0.5)).sum();
            self.height.powi(2) * (-0.5 * distance).exp() + self.slope.powi(2) * plane
        })
    }
}

impl Surface {
    /// Fits a surface to requests per second at points, each with a positive rate. What one measurement is off is told by how well
    /// the points go together. `None` with fewer than six points.
    pub fn fit(measured: &[(GridPoint, f64)]) -> Option<Self> {
        if measured.len() < FEWEST || measured.iter().any(|(_, rate)| !rate.is_finite() || *rate <= 0.0) {
            return None;
        }
        let process_of = |scales: Scales, points: &[(GridPoint, f64)]| {
            let coordinates = points.iter().map(|(point, _)| scales.coordinates(point)).collect();
            let times = points.iter().map(|(_, rate)| -rate.ln()).collect();
            let errors = vec![scales.error.powi(2); points.len()];
            GaussianProcess::fit(coordinates, times, &errors, scales.covariance())
        };
        let searched = spread(measured, SEARCHED);
        let misfit = |logs: &[f64]| match process_of(Scales::of_search(logs), &searched) {
            // A faint wish for the usual keeps a few points from running off with the scales.
            Some(process) => -process.log_likelihood() + away_from_usual(logs),
            None => f64::INFINITY,
        };
        let found = simplex::minimise(&Scales::USUAL.to_search(), 0.5, EVALUATIONS, misfit);
        let scales = Scales::of_search(&found);
        let process = process_of(scales, measured)?;
        let widening = needed_widening(&process, measured);
        Some(Self { process, scales, points: measured.to_vec(), widening })
    }

    /// What a measurement at a point would find.
    pub fn at(&self, point: &GridPoint) -> SurfaceEstimate {
        let found = self.process.predict(&self.scales.coordinates(point));
        let deviation = self.widening * (found.variance + self.scales.error.powi(2)).sqrt();
        SurfaceEstimate {
            requests_per_s: (-found.mean).exp(),
            interval: Interval::of_logarithm(-found.mean, deviation),
        }
    }

    /// The points it was fitted to, with their rates.
    pub fn points(&self) -> &[(GridPoint, f64)] {
        &self.points
    }

    /// What it misses.
    pub fn error(&self) -> SurfaceError {
        let misses: Vec<(f64, f64)> = left_out(&self.process, &self.points).collect();
        let errors: Vec<f64> = misses.iter().map(|(miss, _)| miss.exp_m1().abs()).collect();
        let covered =
            misses.iter().filter(|(miss, deviation)| miss.abs() <= HALF_OF_90 * self.widening * deviation);
        SurfaceError {
            median: median(&errors).unwrap_or(f64::NAN),
            largest: errors.iter().copied().fold(0.0, f64::max),
            covered: covered.count() as f64 / misses.len() as f64,
        }
    }
}

/// At most so many of the points, those that tell most of the others.
fn spread(measured: &[(GridPoint, f64)], most: usize) -> Vec<(GridPoint, f64)> {
    if measured.len() <= most {
        return measured.to_vec();
    }
    let all: Vec<GridPoint> = measured.iter().map(|(point, _)| *point).collect();
    let chosen = points_to_measure(&all, &[], most);
    measured.iter().filter(|(point, _)| chosen.contains(point)).copied().collect()
}

/// Each point as the others predict it: by how much that is off, in logarithms, and how much it was said to be.
fn left_out<'a>(
    process: &'a GaussianProcess<Coordinates, Covariance>,
    measured: &'a [(GridPoint, f64)],
) -> impl Iterator<Item = (f64, f64)> + 'a {
    let predicted = process.without_each().into_iter();
    predicted.zip(measured).map(|(found, (_, rate))| (found.mean + rate.ln(), found.variance.sqrt()))
}

/// By how much the deviations have to be larger for nine of ten left-out points to be within 90 %; never smaller than 1.
fn needed_widening(process: &GaussianProcess<Coordinates, Covariance>, measured: &[(GridPoint, f64)]) -> f64 {
    let mut shares: Vec<f64> = left_out(process, measured).map(|(miss, of)| miss.abs() / of).collect();
    shares.sort_by(f64::total_cmp);
    let ninth = ((shares.len() as f64 * 0.9).ceil() as usize).clamp(1, shares.len()) - 1;
    (shares[ninth] / HALF_OF_90).max(1.0)
}

/// The square of how far scales are from the usual ones, in factors of e³.
fn away_from_usual(logs: &[f64]) -> f64 {
    logs.iter().zip(Scales::USUAL.to_search()).map(|(log, usual)| ((log - usual) / 3.0).powi(2)).sum()
}

/// The points of a grid to measure for a surface of all of it, `count` of them, those that tell most first; what was measured
/// already is taken into account. For scales that are usual for disks.
pub fn points_to_measure(grid: &[GridPoint], known: &[GridPoint], count: usize) -> Vec<GridPoint> {
    let all: Vec<GridPoint> =
        known.iter().chain(grid.iter().filter(|p| !known.contains(p))).copied().collect();
    let covariance = Scales::USUAL.covariance();
    let coordinates: Vec<Coordinates> = all.iter().map(|point| Scales::USUAL.coordinates(point)).collect();
    let matrix =
        coordinates.iter().map(|a| coordinates.iter().map(|b| covariance(a, b) + 1.0).collect()).collect();
    let measured: Vec<usize> = (0..known.len()).collect();
    let chosen = most_informative(matrix, USUAL_ERROR * USUAL_ERROR, &measured, |i| i >= known.len(), count);
    chosen.into_iter().map(|index| all[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::study_grid;
    use super::*;

    /// Seconds of a request of a disk that seeks in 8 ms and transfers 60 MB/s, with mixed streams a little slower.
    fn disk(point: &GridPoint) -> f64 {
        let (read, random) = (f64::from(point.read_percent) / 100.0, f64::from(point.random_percent) / 100.0);
        let transfer = f64::from(point.bytes) / 60e6;
        let mixed = 1.0 + 1.2 * read * (1.0 - read);
        (1.0 - random) * (transfer + 0.1e-3) * mixed + random * (8e-3 - 3e-3 * (1.0 - read) + transfer)
    }

    fn measured(points: &[GridPoint]) -> Vec<(GridPoint, f64)> {
        // Errors of up to two per cent that look like chance.
        let wobble = |i: usize| 1.0 + 0.02 * (((i * 37) % 41) as f64 / 20.0 - 1.0);
        points.iter().enumerate().map(|(i, point)| (*point, wobble(i) / disk(point))).collect()
    }

    #[test]
    fn a_third_of_the_grid_tells_the_rest() {
        let grid = study_grid(64);
        let chosen = points_to_measure(&grid, &[], 34);
        let surface = Surface::fit(&measured(&chosen)).unwrap();
        let others: Vec<&GridPoint> = grid.iter().filter(|p| !chosen.contains(p)).collect();
        assert_eq!(others.len(), 66);
        let misses: Vec<f64> =
            others.iter().map(|p| (surface.at(p).requests_per_s * disk(p) - 1.0).abs()).collect();
        assert!(median(&misses).unwrap() < 0.03, "{misses:?}");
        assert!(misses.iter().all(|miss| *miss < 0.25), "{misses:?}");
        let inside = others.iter().filter(|p| surface.at(p).interval.contains(1.0 / disk(p))).count();
        assert!(inside >= 56, "{inside}");
        let stated = surface.error();
        assert!(stated.median < 0.1 && stated.covered >= 0.85, "{stated:?}");
    }

    #[test]
    fn the_points_to_measure_reach_the_corners_and_spare_what_is_known() {
        let grid = study_grid(64);
        let chosen = points_to_measure(&grid, &[], 24);
        for random in [0, 100] {
            assert!(chosen.iter().filter(|p| p.random_percent == random).count() >= 3, "{chosen:?}");
        }
        let more = points_to_measure(&grid, &chosen, 10);
        assert!(more.len() == 10 && more.iter().all(|p| !chosen.contains(p)));
        assert_eq!(points_to_measure(&grid, &grid, 5), []);
    }

    /// Four depths: a queue shortens the way of the arm to two thirds with each doubling, up to 32.
    #[test]
    fn depth_is_a_direction_too() {
        let queued = |p: &GridPoint| {
            let shorter = 0.8_f64.powf(f64::from(p.depth.min(32)).log2());
            disk(p) * (1.0 - f64::from(p.random_percent) / 100.0 * (1.0 - shorter))
        };
        let all: Vec<GridPoint> = [1, 4, 16, 64].into_iter().flat_map(study_grid).collect();
        let chosen = points_to_measure(&all, &[], 60);
        let rates: Vec<(GridPoint, f64)> = chosen.iter().map(|p| (*p, 1.0 / queued(p))).collect();
        let surface = Surface::fit(&rates).unwrap();
        let others = all.iter().filter(|p| !chosen.contains(p));
        let misses: Vec<f64> =
            others.map(|p| (surface.at(p).requests_per_s * queued(p) - 1.0).abs()).collect();
        assert!(median(&misses).unwrap() < 0.05, "{:?}", median(&misses));
    }

    /// Writes of 1 KiB read their block first and hold it meanwhile: they take 30 times as long, and what mixes with them waits.
    #[test]
    fn writes_of_parts_of_a_block_are_a_step_of_their_own() {
        let part = |p: &GridPoint| {
            let writes = 1.0 - f64::from(p.read_percent) / 100.0;
            if p.bytes < 4096 && writes > 0.0 { disk(p) * (5.0 + 25.0 * writes) } else { disk(p) }
        };
        let grid = study_grid(64);
        let chosen = points_to_measure(&grid, &[], 25);
        let rates: Vec<(GridPoint, f64)> = chosen.iter().map(|p| (*p, 1.0 / part(p))).collect();
        let surface = Surface::fit(&rates).unwrap();
        let others = || grid.iter().filter(|p| !chosen.contains(p));
        let mut misses: Vec<f64> =
            others().map(|p| (surface.at(p).requests_per_s * part(p) - 1.0).abs()).collect();
        misses.sort_by(f64::total_cmp);
        assert!(misses[37] < 0.05 && misses[67] < 0.25, "{misses:?}");
        let inside = others().filter(|p| surface.at(p).interval.contains(1.0 / part(p))).count();
        assert!(inside >= 64, "{inside} of 75");
    }

    /// Sizes far apart and no scatter at all: a surface that changes between any two sizes would fit as well, and tell nothing.
    #[test]
    fn a_smooth_surface_is_taken_for_smooth() {
        for depth in [1_u32, 4, 9, 16, 64] {
            let seek_s = 8e-3 * 0.85_f64.powf(f64::from(depth.min(32)).log2());
            let exact =
                |p: &GridPoint| f64::from(p.bytes) / 60e6 + f64::from(p.random_percent) / 100.0 * seek_s;
            let rates: Vec<(GridPoint, f64)> = [4096_u32, 65_536, 1 << 20]
                .into_iter()
                .flat_map(|bytes| [0_u8, 50, 100].map(|read| (bytes, read)))
                .flat_map(|(bytes, read)| [0_u8, 25, 50, 100].map(|random| (bytes, read, random)))
                .map(|(bytes, read_percent, random_percent)| GridPoint {
                    bytes,
                    read_percent,
                    random_percent,
                    depth,
                })
                .map(|point| (point, 1.0 / exact(&point)))
                .collect();
            let surface = Surface::fit(&rates).unwrap();
            // The mean size of a load is no whole number of blocks.
            for (bytes, random_percent) in [(8192, 0), (8185, 0), (8185, 100)] {
                let point = GridPoint { bytes, read_percent: 0, random_percent, depth };
                let (found, truth) = (surface.at(&point), 1.0 / exact(&point));
                let off = (found.requests_per_s / truth).ln().abs();
                let wide = (found.interval.high / found.interval.low).ln();
                assert!(
                    off < 0.4 && wide < 1.0,
                    "{depth}, {bytes}, {random_percent}: {found:?}, truth {truth}"
                );
            }
        }
    }

    #[test]
    fn too_little_or_nonsense_is_no_surface() {
        let points = measured(&study_grid(64)[..5]);
        assert!(Surface::fit(&points).is_none());
        let mut points = measured(&study_grid(64));
        assert!(Surface::fit(&points).is_some());
        points[3].1 = 0.0;
        assert!(Surface::fit(&points).is_none());
    }
}
