//! Short screening designs: which few of many combinations tell most about each factor alone.
//!
//! A design is D-optimal for the additive model (one mean and one effect for each level but the first of each factor):
//! it makes the determinant of the information matrix as large as can be found, so that the effects' joint confidence
//! region is as small as can be. It is searched by coordinate exchange (Meyer and Nachtsheim, The coordinate-exchange
//! algorithm for constructing exact optimal experimental designs, Technometrics 37(1), 1995) from several random starts.

use std::collections::BTreeSet;

use crate::random::SeededOrder;

/// The most combinations that are looked through.
pub const MOST_COMBINATIONS: usize = 200_000;
/// Random starts; the best end is taken. Meyer and Nachtsheim use ten and more.
const STARTS: usize = 20;
/// Added to the diagonal while searching, so that a start without information about a level can still improve.
const RIDGE: f64 = 1e-6;
/// A design has to improve by more than this in the logarithm of its determinant, or the search would go round.
const SMALLEST_GAIN: f64 = 1e-9;

/// A run that was measured before, and the block it was measured in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenRun {
    /// The level of each factor, from 0.
    pub levels: Vec<usize>,
    /// Runs of one block can be compared with each other, runs of different blocks cannot.
    pub block: usize,
}

/// The runs to make, as one block.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// The level of each factor, from 0, of each run; every combination at most once.
    pub runs: Vec<Vec<usize>>,
    /// Natural logarithm of the determinant of the information matrix, with what was given.
    pub log_determinant: f64,
}

/// Why there is no design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDesign {
    /// A factor has no level, or there are more than [`MOST_COMBINATIONS`].
    TooManyCombinations,
    /// Fewer combinations are possible than runs were asked for.
    TooFewCombinations {
        /// How many are possible.
        possible: usize,
    },
    /// Some effect cannot be told from the others with so many runs, whichever they are.
    NotEstimable,
}

/// Unknowns of the additive model: the mean, and one for each level but the first of each factor.
pub fn parameters(level_counts: &[usize]) -> usize {
    1 + level_counts.iter().map(|count| count.saturating_sub(1)).sum::<usize>()
}

/// All combinations that `feasible` allows, the last factor changing fastest.
///
/// # Errors
/// When there are more than [`MOST_COMBINATIONS`], feasible or not.
pub fn combinations(
    level_counts: &[usize],
    feasible: &dyn Fn(&[usize]) -> bool,
) -> Result<Vec<Vec<usize>>, NoDesign> {
    let all = level_counts.iter().try_fold(1_usize, |product, count| product.checked_mul(*count));
    let all = all.filter(|all| (1..=MOST_COMBINATIONS).contains(all)).ok_or(NoDesign::TooManyCombinations)?;
    let nth = |mut index: usize| {
        let mut levels = vec![0; level_counts.len()];
        for (level, count) in levels.iter_mut().zip(level_counts).rev() {
            *level = index % count;
            index /= count;
        }
        levels
    };
    Ok((0..all).map(nth).filter(|levels| feasible(levels)).collect())
}

/// Chooses `runs` different combinations out of `possible` that together with what is `given` tell most.
///
/// The same arguments give the same design. Given runs inform about effects only within their blocks, for a block may be
/// faster or slower than another as a whole. Combinations that were given are chosen only if the others do not do.
///
/// # Errors
/// Why there is none.
pub fn d_optimal(
    level_counts: &[usize],
    possible: &[Vec<usize>],
    runs: usize,
    given: &[GivenRun],
    seed: u64,
) -> Result<Design, NoDesign> {
    let known: BTreeSet<&Vec<usize>> = given.iter().map(|run| &run.levels).collect();
    let fresh: Vec<Vec<usize>> = possible.iter().filter(|levels| !known.contains(levels)).cloned().collect();
    match best_of(level_counts, &fresh, runs, given, seed) {
        // A block of what is new alone may leave its difference to the others untold; a repeat ties them together.
        Err(_) if fresh.len() < possible.len() => best_of(level_counts, possible, runs, given, seed),
        design => design,
    }
}

/// The best end of several searches; of equally good ones the first that uses all levels most equally.
fn best_of(
    level_counts: &[usize],
    candidates: &[Vec<usize>],
    runs: usize,
    given: &[GivenRun],
    seed: u64,
) -> Result<Design, NoDesign> {
    if candidates.len() < runs {
        return Err(NoDesign::TooFewCombinations { possible: candidates.len() });
    }
    let search = Search::new(level_counts, candidates, given);
    let mut best: Option<(Design, usize)> = None;
    for start in 0..STARTS as u64 {
        let runs = search.descend(runs, &mut SeededOrder::for_part(seed, start));
        let Some(log_determinant) = search.log_determinant(&search.information(&runs), 0.0) else { continue };
        let imbalance = imbalance(level_counts, &runs);
        let better = best.as_ref().is_none_or(|(known, known_imbalance)| {
            let gain = log_determinant - known.log_determinant;
            gain > SMALLEST_GAIN || (gain > -SMALLEST_GAIN && imbalance < *known_imbalance)
        });
        if better {
            best = Some((Design { runs, log_determinant }, imbalance));
        }
    }
    best.map(|(design, _)| design).ok_or(NoDesign::NotEstimable)
}

/// Sum over the factors of how often their levels are used, squared: least where all are used equally often.
fn imbalance(level_counts: &[usize], runs: &[Vec<usize>]) -> usize {
    let uses = |factor: usize, level: usize| runs.iter().filter(|run| run[factor] == level).count();
    (0..level_counts.len()).flat_map(|f| (0..level_counts[f]).map(move |l| uses(f, l).pow(2))).sum()
}

/// A square matrix by rows.
type Matrix = Vec<Vec<f64>>;

struct Search<'a> {
    level_counts: &'a [usize],
    candidates: &'a [Vec<usize>],
    allowed: BTreeSet<&'a Vec<usize>>,
    given: Matrix,
}

impl<'a> Search<'a> {
    fn new(level_counts: &'a [usize], candidates: &'a [Vec<usize>], given: &[GivenRun]) -> Self {
        Self {
            level_counts,
            candidates,
            allowed: candidates.iter().collect(),
            given: information_within_blocks(level_counts, given),
        }
    }

    /// From random runs, changes one factor of one run at a time as long as that helps.
    fn descend(&self, runs: usize, random: &mut SeededOrder) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.candidates.len()).collect();
        random.shuffle(&mut order);
        let mut design: Vec<Vec<usize>> =
            order.iter().take(runs).map(|i| self.candidates[*i].clone()).collect();
        let mut information = self.information(&design);
        let mut best = self.log_determinant(&information, RIDGE).unwrap_or(f64::NEG_INFINITY);
        loop {
            let before = best;
            for run in 0..design.len() {
                for factor in 0..self.level_counts.len() {
                    self.exchange(&mut design, run, factor, &mut information, &mut best);
                }
            }
            if best <= before + SMALLEST_GAIN {
                return design;
            }
        }
    }

    /// Gives one factor of one run the level that helps most.
    fn exchange(
        &self,
        design: &mut [Vec<usize>],
        run: usize,
        factor: usize,
        information: &mut Matrix,
        best: &mut f64,
    ) {
        for level in 0..self.level_counts[factor] {
            let mut changed = design[run].clone();
            changed[factor] = level;
            if changed == design[run] || !self.allowed.contains(&changed) || design.contains(&changed) {
                continue;
            }
            let mut trial = information.clone();
            add_outer(&mut trial, &self.row(&design[run]), -1.0);
            add_outer(&mut trial, &self.row(&changed), 1.0);
            let Some(found) = self.log_determinant(&trial, RIDGE) else { continue };
            if found > *best + SMALLEST_GAIN {
                *best = found;
                *information = trial;
                design[run] = changed;
            }
        }
    }

    fn row(&self, levels: &[usize]) -> Vec<f64> {
        coded(self.level_counts, levels)
    }

    fn information(&self, design: &[Vec<usize>]) -> Matrix {
        let mut sum = self.given.clone();
        for levels in design {
            add_outer(&mut sum, &self.row(levels), 1.0);
        }
        sum
    }

    /// By Cholesky's decomposition; `None` if the matrix is singular.
    fn log_determinant(&self, matrix: &Matrix, ridge: f64) -> Option<f64> {
        let size = matrix.len();
        let mut lower = vec![vec![0.0; size]; size];
        let mut sum = 0.0;
        for i in 0..size {
            for j in 0..=i {
                let known: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
                if i == j {
                    let square = matrix[i][i] + ridge - known;
                    // Rounding leaves about 1e-14 of a zero; the smallest true pivot of 0/1 columns is far above.
                    if square < RIDGE * 0.5 {
                        return None;
                    }
                    lower[i][i] = square.sqrt();
                    sum += square.ln();
                } else {
                    lower[i][j] = (matrix[i][j] - known) / lower[j][j];
                }
            }
        }
        Some(sum)
    }
}

/// 1 for the mean, then a 0/1 column for each level but the first of each factor.
fn coded(level_counts: &[usize], levels: &[usize]) -> Vec<f64> {
    let mut row = vec![1.0];
    for (count, level) in level_counts.iter().zip(levels) {
        row.extend((1..*count).map(|column| f64::from(u8::from(column == *level))));
    }
    row
}

/// What runs tell of the effects after each block's own mean has been taken off: X'(I - J/n)X, summed over the blocks.
fn information_within_blocks(level_counts: &[usize], given: &[GivenRun]) -> Matrix {
    let size = parameters(level_counts);
    let mut sum = vec![vec![0.0; size]; size];
    let blocks: BTreeSet<usize> = given.iter().map(|run| run.block).collect();
    for block in blocks {
        let rows: Vec<Vec<f64>> = given
            .iter()
            .filter(|run| run.block == block)
            .map(|run| coded(level_counts, &run.levels))
            .collect();
        let count = rows.len() as f64;
        let mean: Vec<f64> = (0..size).map(|i| rows.iter().map(|row| row[i]).sum::<f64>() / count).collect();
        for row in rows {
            let centred: Vec<f64> = row.iter().zip(&mean).map(|(value, mean)| value - mean).collect();
            add_outer(&mut sum, &centred, 1.0);
        }
    }
    sum
}

fn add_outer(matrix: &mut Matrix, row: &[f64], weight: f64) {
    for (line, left) in matrix.iter_mut().zip(row) {
        for (cell, right) in line.iter_mut().zip(row) {
            *cell += weight * left * right;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(level_counts: &[usize]) -> Vec<Vec<usize>> {
        combinations(level_counts, &|_| true).unwrap()
    }

    fn design(level_counts: &[usize], runs: usize) -> Design {
        d_optimal(level_counts, &all(level_counts), runs, &[], 1).unwrap()
    }

    #[test]
    fn half_of_a_two_level_factorial_is_the_known_orthogonal_array() {
        // The 2^(3-1) fraction (Box, Hunter and Hunter): each pair of factors sees all four pairs of levels once. With
        // 0/1 columns its determinant is 4^4 / 2^6 = 4.
        let found = design(&[2, 2, 2], 4);
        assert!((found.log_determinant - 4_f64.ln()).abs() < 1e-9, "{found:?}");
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            let pairs: BTreeSet<_> = found.runs.iter().map(|run| (run[a], run[b])).collect();
            assert_eq!(pairs.len(), 4, "{found:?}");
        }
    }

    #[test]
    fn seven_two_level_factors_in_eight_runs_reach_the_plackett_burman_bound() {
        // Hadamard's bound n^p with +-1 columns (Plackett and Burman, Biometrika 33, 1946); 0/1 columns halve seven.
        let found = design(&[2; 7], 8);
        let bound = 8.0 * 8_f64.ln() - 14.0 * 2_f64.ln();
        assert!((found.log_determinant - bound).abs() < 1e-9, "{} {bound}", found.log_determinant);
    }

    #[test]
    fn levels_are_used_equally_often_where_that_is_possible() {
        let counts = [2, 2, 4];
        let found = design(&counts, 8);
        for (factor, levels) in counts.iter().enumerate() {
            for level in 0..*levels {
                let uses = found.runs.iter().filter(|run| run[factor] == level).count();
                assert_eq!(uses, 8 / levels, "{found:?}");
            }
        }
    }

    #[test]
    fn no_other_choice_of_nine_out_of_twelve_is_better() {
        let counts = [2, 2, 3];
        let possible = all(&counts);
        let search = Search::new(&counts, &possible, &[]);
        let best = (0_u32..1 << 12)
            .filter(|chosen| chosen.count_ones() == 9)
            .filter_map(|chosen| {
                let runs: Vec<_> =
                    (0..12).filter(|i| chosen >> i & 1 == 1).map(|i| possible[i].clone()).collect();
                search.log_determinant(&search.information(&runs), 0.0)
            })
            .fold(f64::NEG_INFINITY, f64::max);
        assert!((design(&counts, 9).log_determinant - best).abs() < 1e-9);
    }

    #[test]
    fn what_is_known_is_not_measured_again_and_what_is_missing_is() {
        // Given: only level 0 of the second factor, so its level 1 has to be seen beside it in the new block.
        let given = [[0, 0], [1, 0], [2, 0]].map(|levels| GivenRun { levels: levels.into(), block: 0 });
        let found = d_optimal(&[3, 2], &all(&[3, 2]), 3, &given, 1).unwrap();
        let of_level = |level: usize| found.runs.iter().filter(|run| run[1] == level).count();
        assert!(of_level(0) >= 1 && of_level(1) >= 1, "{found:?}");
        // One run alone shows its block and its level together.
        assert_eq!(d_optimal(&[3, 2], &all(&[3, 2]), 1, &given, 1), Err(NoDesign::NotEstimable));
    }

    #[test]
    fn too_few_runs_or_combinations_are_said() {
        let possible = all(&[2, 3]);
        assert_eq!(parameters(&[2, 3]), 4);
        assert_eq!(d_optimal(&[2, 3], &possible, 3, &[], 1), Err(NoDesign::NotEstimable));
        let too_few = Err(NoDesign::TooFewCombinations { possible: 6 });
        assert_eq!(d_optimal(&[2, 3], &possible, 7, &[], 1), too_few);
        assert_eq!(combinations(&[1_000, 1_000], &|_| true), Err(NoDesign::TooManyCombinations));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]
        #[test]
        fn designs_are_feasible_different_and_repeatable(
            counts in proptest::collection::vec(1_usize..4, 1..4),
            forbidden in 0_usize..3,
            extra in 0_usize..3,
            seed in 0_u64..1_000,
        ) {
            // The last factor may not have a level while the first has another.
            let feasible = |levels: &[usize]| levels[0] != 1 || levels[levels.len() - 1] != forbidden;
            let possible = combinations(&counts, &feasible).unwrap();
            let runs = parameters(&counts) + extra;
            match d_optimal(&counts, &possible, runs, &[], seed) {
                Ok(design) => {
                    proptest::prop_assert_eq!(design.runs.len(), runs);
                    proptest::prop_assert!(design.runs.iter().all(|run| possible.contains(run)));
                    let different: BTreeSet<_> = design.runs.iter().collect();
                    proptest::prop_assert_eq!(different.len(), runs);
                    proptest::prop_assert_eq!(d_optimal(&counts, &possible, runs, &[], seed), Ok(design));
                }
                Err(NoDesign::TooFewCombinations { possible: count }) => {
                    proptest::prop_assert!(count < runs && count == possible.len());
                }
                // Forbidding a level together with the only level that allows it makes effects the same.
                Err(NoDesign::NotEstimable) => proptest::prop_assert!(possible.len() < all(&counts).len()),
                Err(other) => proptest::prop_assert!(false, "{other:?}"),
            }
        }
    }
}
