//! Which measurements would tell most of all that is not measured.
//!
//! Of values with known covariances, measuring one lowers the variance of every other by what the two share. The one with the
//! largest sum is taken, then the next given the first (Cohn, Neural Networks 9, 1996: active learning of the mean error;
//! Seo et al., IJCNN 2000, for Gaussian processes).

/// Indices of the `count` candidates worth measuring, the most informative first. `covariance` is that of all values, square and
/// symmetric; what is in `known` is measured already, and is not chosen again. Each measurement has an error of
/// `error_variance`. `is_candidate` says which may be chosen; the others count as what is to be known.
pub fn most_informative(
    mut covariance: Vec<Vec<f64>>,
    error_variance: f64,
    known: &[usize],
    is_candidate: impl Fn(usize) -> bool,
    count: usize,
) -> Vec<usize> {
    let mut open: Vec<bool> = (0..covariance.len()).map(is_candidate).collect();
    for index in known {
        condition_on(&mut covariance, error_variance, *index);
        open[*index] = false;
    }
    let mut chosen = Vec::new();
    while chosen.len() < count {
        let gain = |index: &usize| {
            let row = &covariance[*index];
            row.iter().map(|shared| shared * shared).sum::<f64>() / (row[*index] + error_variance)
        };
        let left = (0..covariance.len()).filter(|index| open[*index]);
        // Of equals the first, whatever `max_by` prefers.
        let best = left.rev().max_by(|a, b| gain(a).total_cmp(&gain(b)));
        let Some(best) = best else { break };
        condition_on(&mut covariance, error_variance, best);
        open[best] = false;
        chosen.push(best);
    }
    chosen
}

/// The covariances that are left when one value is known but for the error of measuring it.
fn condition_on(covariance: &mut [Vec<f64>], error_variance: f64, index: usize) {
    let row = covariance[index].clone();
    let total = row[index] + error_variance;
    if total <= 0.0 {
        return;
    }
    for (i, line) in covariance.iter_mut().enumerate() {
        let share = row[i] / total;
        line.iter_mut().zip(&row).for_each(|(value, shared)| *value -= share * shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points on a line, near ones alike.
    fn line(size: usize) -> Vec<Vec<f64>> {
        let near = |a: usize, b: usize| (-((a as f64 - b as f64) / 3.0).powi(2)).exp();
        (0..size).map(|a| (0..size).map(|b| near(a, b)).collect()).collect()
    }

    #[test]
    fn the_middle_tells_most_and_then_the_sides() {
        let found = most_informative(line(11), 0.01, &[], |_| true, 3);
        assert_eq!(found[0], 5);
        let mut sides = found[1..].to_vec();
        sides.sort_unstable();
        assert!(sides[0] <= 2 && sides[1] >= 8, "{found:?}");
    }

    #[test]
    fn what_is_known_is_not_chosen_and_neither_are_its_neighbours() {
        let found = most_informative(line(11), 0.01, &[5], |_| true, 2);
        assert!(!found.contains(&5) && found.iter().all(|i| *i <= 3 || *i >= 7), "{found:?}");
    }

    #[test]
    fn only_candidates_are_chosen_and_no_more_than_there_are() {
        let mut found = most_informative(line(6), 0.01, &[0], |i| i % 2 == 0, 10);
        found.sort_unstable();
        assert_eq!(found, [2, 4]);
    }
}
