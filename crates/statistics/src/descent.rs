//! The lowest point of a smooth function of a few dozen numbers, with its derivatives (Broyden, Fletcher, Goldfarb and Shanno:
//! Nocedal and Wright, Numerical Optimization, 2006, §6.1).

/// A step is halved so often at most before the search gives up.
const HALVINGS: usize = 25;
/// A step has to gain this share of what the slope promises (Armijo).
const GAIN: f64 = 1e-4;
/// No number changes by more in one step: what is searched are logarithms.
const LONGEST: f64 = 2.0;
/// Gains below this share of the value are none.
const NOTHING: f64 = 1e-8;

/// A value with its derivatives; `None` where the function has none.
pub type Slope = Option<(f64, Vec<f64>)>;

/// Looks for a minimum from `start` in at most `steps` steps. The place of the lowest value seen; `start` itself where the function
/// has no value there.
pub fn minimise(start: &[f64], steps: usize, mut f: impl FnMut(&[f64]) -> Slope) -> Vec<f64> {
    let mut place = start.to_vec();
    let Some((mut value, mut slope)) = f(&place).filter(|(value, _)| value.is_finite()) else { return place };
    let mut inverse = identity(start.len());
    for _ in 0..steps {
        let mut step: Vec<f64> = inverse.iter().map(|row| -dot(row, &slope)).collect();
        if dot(&step, &slope) >= 0.0 {
            // Rounding has spoiled the curvature.
            inverse = identity(start.len());
            step = slope.iter().map(|d| -d).collect();
        }
        let longest = step.iter().fold(0.0_f64, |most, s| most.max(s.abs()));
        if longest > LONGEST {
            step.iter_mut().for_each(|s| *s *= LONGEST / longest);
        }
        let promised = dot(&step, &slope);
        let Some((share, lower, lower_slope)) = shortened(&place, value, &step, promised, &mut f) else {
            break;
        };
        let moved: Vec<f64> = step.iter().map(|s| s * share).collect();
        let turned: Vec<f64> = lower_slope.iter().zip(&slope).map(|(new, old)| new - old).collect();
        place.iter_mut().zip(&moved).for_each(|(x, m)| *x += m);
        update(&mut inverse, &moved, &turned);
        let gained = value - lower;
        (value, slope) = (lower, lower_slope);
        if gained <= NOTHING * (1.0 + value.abs()) {
            break;
        }
    }
    place
}

/// The longest of a step's halves that gains enough, with what is found there.
fn shortened(
    place: &[f64],
    value: f64,
    step: &[f64],
    promised: f64,
    f: &mut impl FnMut(&[f64]) -> Slope,
) -> Option<(f64, f64, Vec<f64>)> {
    let mut share = 1.0;
    for _ in 0..HALVINGS {
        let there: Vec<f64> = place.iter().zip(step).map(|(x, s)| x + share * s).collect();
        if let Some((found, slope)) = f(&there)
            && found <= value + GAIN * share * promised
            && slope.iter().all(|d| d.is_finite())
        {
            return Some((share, found, slope));
        }
        share /= 2.0;
    }
    None
}

/// The inverse of the curvature, after a step along which the derivatives turned.
fn update(inverse: &mut [Vec<f64>], moved: &[f64], turned: &[f64]) {
    let along = dot(moved, turned);
    if along <= 1e-12 {
        return;
    }
    let pulled: Vec<f64> = inverse.iter().map(|row| dot(row, turned)).collect();
    let scale = (1.0 + dot(turned, &pulled) / along) / along;
    for (i, row) in inverse.iter_mut().enumerate() {
        for (j, element) in row.iter_mut().enumerate() {
            *element += scale * moved[i] * moved[j] - (pulled[i] * moved[j] + moved[i] * pulled[j]) / along;
        }
    }
}

fn identity(size: usize) -> Vec<Vec<f64>> {
    (0..size).map(|i| (0..size).map(|j| if i == j { 1.0 } else { 0.0 }).collect()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rosenbrock's valley, whose lowest point is at (1, 1).
    #[test]
    fn a_bent_valley_is_followed_to_its_end() {
        let f = |x: &[f64]| {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            Some((a * a + 100.0 * b * b, vec![-2.0 * a - 400.0 * x[0] * b, 200.0 * b]))
        };
        let found = minimise(&[-1.2, 1.0], 200, f);
        assert!(found.iter().all(|x| (x - 1.0).abs() < 1e-3), "{found:?}");
    }

    #[test]
    fn where_there_is_no_value_it_stays() {
        assert_eq!(minimise(&[3.0], 10, |_| None), [3.0]);
        // A function that ends at 2.
        let found = minimise(&[5.0], 100, |x| (x[0] > 2.0).then(|| (x[0], vec![1.0])));
        assert!(found[0] > 2.0 && found[0] < 2.1, "{found:?}");
    }
}
