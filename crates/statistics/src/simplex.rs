//! The lowest point of a function of a few numbers, without derivatives (Nelder and Mead, Computer Journal 7, 1965).

/// Looks for a minimum from `start`, with first steps of `step`, by at most `evaluations` values of `f`. Values that are not
/// numbers count as infinitely high. The place of the lowest value seen.
pub fn minimise(start: &[f64], step: f64, evaluations: usize, mut f: impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    let mut left = evaluations;
    let mut value_at = |place: &[f64]| {
        left = left.saturating_sub(1);
        let value = f(place);
        (if value.is_nan() { f64::INFINITY } else { value }, left > 0)
    };
    let mut corners: Vec<(f64, Vec<f64>)> = vec![(value_at(start).0, start.to_vec())];
    for i in 0..start.len() {
        let mut corner = start.to_vec();
        corner[i] += step;
        corners.push((value_at(&corner).0, corner));
    }
    let mut going = !start.is_empty();
    while going {
        corners.sort_by(|a, b| a.0.total_cmp(&b.0));
        let worst = corners.len() - 1;
        if (corners[worst].0 - corners[0].0).abs() <= 1e-9 * (1.0 + corners[0].0.abs()) {
            break;
        }
        let middle: Vec<f64> = (0..start.len())
            .map(|i| corners[..worst].iter().map(|c| c.1[i]).sum::<f64>() / worst as f64)
            .collect();
        let along = |share: f64| -> Vec<f64> {
            middle.iter().zip(&corners[worst].1).map(|(m, w)| m + share * (m - w)).collect()
        };
        let (reflected, mirrored) = (along(1.0), along(2.0));
        let (value, more) = value_at(&reflected);
        going = more;
        if value < corners[0].0 {
            let (further, more) = value_at(&mirrored);
            going &= more;
            corners[worst] = if further < value { (further, mirrored) } else { (value, reflected) };
        } else if value < corners[worst - 1].0 {
            corners[worst] = (value, reflected);
        } else {
            let nearer = if value < corners[worst].0 { along(0.5) } else { along(-0.5) };
            let (inside, more) = value_at(&nearer);
            going &= more;
            if inside < value.min(corners[worst].0) {
                corners[worst] = (inside, nearer);
            } else {
                going &= shrink(&mut corners, &mut value_at);
            }
        }
    }
    corners.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map(|corner| corner.1).unwrap_or_default()
}

/// Pulls all corners half-way to the best; whether there is more to spend.
fn shrink(corners: &mut [(f64, Vec<f64>)], value_at: &mut impl FnMut(&[f64]) -> (f64, bool)) -> bool {
    let best = corners[0].1.clone();
    let mut going = true;
    for corner in &mut corners[1..] {
        corner.1.iter_mut().zip(&best).for_each(|(x, b)| *x = (*x + b) / 2.0);
        let (value, more) = value_at(&corner.1);
        corner.0 = value;
        going &= more;
    }
    going
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_valley_of_rosenbrock_is_found() {
        let f = |x: &[f64]| (1.0 - x[0]).powi(2) + 100.0 * (x[1] - x[0] * x[0]).powi(2);
        let found = minimise(&[-1.2, 1.0], 0.5, 1000, f);
        assert!((found[0] - 1.0).abs() < 1e-3 && (found[1] - 1.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn what_is_no_number_is_avoided_and_the_budget_kept() {
        let mut calls = 0;
        let found = minimise(&[2.0], 1.0, 60, |x| {
            calls += 1;
            (x[0] - 0.5).sqrt()
        });
        assert!(found[0] >= 0.5 && found[0] < 0.6, "{found:?}");
        assert!(calls <= 62, "{calls}");
        assert!(minimise(&[], 1.0, 10, |_| 0.0).is_empty());
    }
}
