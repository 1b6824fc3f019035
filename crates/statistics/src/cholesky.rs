//! The Cholesky decomposition of a symmetric positive definite matrix (Golub and Van Loan, Matrix Computations, §4.2).
//!
//! The matrices here have a few hundred rows, and nothing but a factor, solutions and the determinant is asked of them.

/// A pivot below this share of its diagonal element is what rounding left of zero.
const ZERO: f64 = 1e-13;

/// A matrix A = L·Lᵀ by its lower triangle L.
#[derive(Clone, Debug, PartialEq)]
pub struct Cholesky {
    /// Row `i` has `i + 1` elements.
    rows: Vec<Vec<f64>>,
}

impl Cholesky {
    /// Decomposes a matrix of which only the lower triangle is read: row `i` has at least `i + 1` elements. `None` if it is not
    /// positive definite.
    pub fn of(matrix: &[Vec<f64>]) -> Option<Self> {
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(matrix.len());
        for (i, given) in matrix.iter().enumerate() {
            let mut row = Vec::with_capacity(i + 1);
            for j in 0..=i {
                let done: &[f64] = if j == i { &row } else { &rows[j][..j] };
                let sum: f64 = row[..j].iter().zip(done).map(|(a, b)| a * b).sum();
                let rest = given[j] - sum;
                if j < i {
                    row.push(rest / rows[j][j]);
                } else if rest > given[j] * ZERO && rest.is_finite() {
                    row.push(rest.sqrt());
                } else {
                    return None;
                }
            }
            rows.push(row);
        }
        Some(Self { rows })
    }

    /// Solves L·x = b.
    pub fn solve_lower(&self, b: &[f64]) -> Vec<f64> {
        let mut x = Vec::with_capacity(b.len());
        for (row, value) in self.rows.iter().zip(b) {
            let sum: f64 = row.iter().zip(&x).map(|(a, x)| a * x).sum();
            x.push((value - sum) / row[x.len()]);
        }
        x
    }

    /// Solves A·x = b.
    pub fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = self.solve_lower(b);
        for i in (0..x.len()).rev() {
            x[i] /= self.rows[i][i];
            let (before, rest) = x.split_at_mut(i);
            before.iter_mut().zip(&self.rows[i]).for_each(|(x, l)| *x -= l * rest[0]);
        }
        x
    }

    /// Logarithm of the determinant of A.
    pub fn log_determinant(&self) -> f64 {
        2.0 * self.rows.iter().enumerate().map(|(i, row)| row[i].ln()).sum::<f64>()
    }

    /// The lower triangle of the inverse of A: row `i` has `i + 1` elements.
    pub fn inverse(&self) -> Vec<Vec<f64>> {
        let size = self.rows.len();
        // The columns of the inverse of L, each from its diagonal on; A⁻¹ = L⁻ᵀ·L⁻¹ is made of their products.
        let columns: Vec<Vec<f64>> = (0..size).map(|column| self.inverse_column(column)).collect();
        let product = |i: usize, j: usize| -> f64 {
            columns[i].iter().zip(&columns[j][i - j..]).map(|(a, b)| a * b).sum()
        };
        (0..size).map(|i| (0..=i).map(|j| product(i, j)).collect()).collect()
    }

    /// A column of the inverse of L, from its diagonal on: above it there is nothing.
    fn inverse_column(&self, column: usize) -> Vec<f64> {
        let mut x: Vec<f64> = Vec::with_capacity(self.rows.len() - column);
        for (i, row) in self.rows.iter().enumerate().skip(column) {
            let one = if i == column { 1.0 } else { 0.0 };
            let sum: f64 = row[column..i].iter().zip(&x).map(|(l, x)| l * x).sum();
            x.push((one - sum) / row[i]);
        }
        x
    }

    /// The diagonal of the inverse of A.
    pub fn inverse_diagonal(&self) -> Vec<f64> {
        (0..self.rows.len()).map(|i| self.inverse_column(i).iter().map(|x| x * x).sum()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_matrix_solved_by_hand() {
        let found = Cholesky::of(&[vec![4.0], vec![2.0, 5.0]]).unwrap();
        assert_eq!(found.rows, [vec![2.0], vec![1.0, 2.0]]);
        assert_eq!(found.solve(&[8.0, 9.0]), [1.375, 1.25]);
        assert!((found.log_determinant() - 16.0_f64.ln()).abs() < 1e-12);
        assert_eq!(found.inverse_diagonal(), [5.0 / 16.0, 0.25]);
    }

    #[test]
    fn what_is_not_positive_definite_is_refused() {
        assert_eq!(Cholesky::of(&[vec![1.0], vec![2.0, 1.0]]), None);
        assert_eq!(Cholesky::of(&[vec![f64::NAN]]), None);
    }

    proptest! {
        #[test]
        fn a_solution_solves(factor in proptest::collection::vec(proptest::collection::vec(-1.0_f64..1.0, 6), 6)) {
            let matrix: Vec<Vec<f64>> = (0..6)
                .map(|i| {
                    let dot = |j: usize| factor[i].iter().zip(&factor[j]).map(|(a, b)| a * b).sum::<f64>();
                    (0..6).map(|j| dot(j) + if i == j { 0.5 } else { 0.0 }).collect()
                })
                .collect();
            let b = [1.0, -2.0, 3.0, 0.5, 0.0, 7.0];
            let found = Cholesky::of(&matrix).unwrap();
            let x = found.solve(&b);
            for (row, b) in matrix.iter().zip(b) {
                let product: f64 = row.iter().zip(&x).map(|(a, x)| a * x).sum();
                prop_assert!((product - b).abs() < 1e-9);
            }
            for (i, found) in found.inverse_diagonal().iter().enumerate() {
                let unit: Vec<f64> = (0..6).map(|j| if i == j { 1.0 } else { 0.0 }).collect();
                let column = Cholesky::of(&matrix).unwrap().solve(&unit);
                prop_assert!((column[i] - found).abs() < 1e-9);
                let inverse = Cholesky::of(&matrix).unwrap().inverse();
                prop_assert!((0..=i).all(|j| (inverse[i][j] - column[j]).abs() < 1e-9));
            }
        }
    }
}
