//! A matrix of guests and hosts under a load: the cells that were not measured, and which of them to measure next.

use std::collections::BTreeMap;
use std::fmt;

use nestor_stack::Layer;
use nestor_statistics::prediction::{Completion, MeasuredCell};
use nestor_statistics::{Interval, SeededOrder, median};
use serde::{Serialize, Serializer};

/// The file system of a guest, with its options; none where the application works on the disk itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestFs(pub Option<Layer>);

impl fmt::Display for GuestFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |file_system| file_system.fmt(f))
    }
}

impl Serialize for GuestFs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What the image of a guest's disk is on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostFs {
    /// No file system and no image: the guest has the medium itself.
    RawDisk,
    /// A file system, with its options.
    On(Layer),
}

impl HostFs {
    /// By what columns are sorted: the raw disk is beside the file systems that begin with R. Which cells are tried first follows the
    /// columns' order.
    pub(crate) fn sort_key(&self) -> String {
        match self {
            Self::RawDisk => "raw".to_owned(),
            Self::On(file_system) => file_system.label(),
        }
    }
}

impl fmt::Display for HostFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RawDisk => f.write_str("raw disk"),
            Self::On(file_system) => file_system.fmt(f),
        }
    }
}

impl Serialize for HostFs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A matrix with what was measured of it.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    /// The rows: guests.
    pub rows: Vec<GuestFs>,
    /// The columns: hosts.
    pub columns: Vec<HostFs>,
    /// Rates by row and column.
    pub measured: BTreeMap<(usize, usize), f64>,
}

/// What can be said of a cell with next to no effort.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct MatrixNulls {
    /// As all others are in the mean: what N0 is to a question.
    pub mean_of_all: f64,
    /// The mean of its row times that of its column, relative to that of all: what N1 is to a question. A row or a column of which
    /// nothing was measured is as all are.
    pub row_by_column: f64,
}

/// One cell, measured or told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MatrixCell {
    /// Its row.
    pub row: GuestFs,
    /// Its column.
    pub column: HostFs,
    /// The rate.
    pub rate: f64,
    /// Where a measurement would be found with 90 % probability; none where there is one.
    pub interval: Option<Interval>,
    /// Whether its row and its column were measured with others; otherwise it is not known.
    pub is_told: bool,
    /// What null models say of it; none where it was measured.
    pub nulls: Option<MatrixNulls>,
}

/// All cells.
#[derive(Clone, Debug, Serialize)]
pub struct MatrixAnswer {
    /// By row, then by column.
    pub cells: Vec<MatrixCell>,
    /// Row and column of those most worth measuring next, the best first.
    pub suggested: Vec<(GuestFs, HostFs)>,
}

/// What completing from a part missed of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CompletionScore {
    /// Cells that were looked at.
    pub from: usize,
    /// Of so many.
    pub of: usize,
    /// Choices of the first cells that were tried.
    pub tries: usize,
    /// Median of the errors of the others, as a share.
    pub median: f64,
    /// Nine of ten are below it.
    pub p90: f64,
    /// Share of them within their 90 % intervals.
    pub coverage: f64,
    /// Medians of the errors of the null models in the same cells.
    pub nulls: MatrixNulls,
}

/// Cells that the others of a matrix are told from to see how well that goes, and how often that is tried with other cells.
pub const SCORED_FROM: usize = 12;
/// See [`SCORED_FROM`].
pub const SCORE_TRIES: usize = 10;
/// Cells that have to be known before the others can be chosen.
const FIRST: usize = 6;

impl Matrix {
    /// Completes it; `None` with fewer than four cells.
    pub fn complete(&self, suggestions: usize) -> Option<MatrixAnswer> {
        let completion = self.completion()?;
        let means = Means::of(&self.measured)?;
        let mut cells = Vec::new();
        for (row, guest) in self.rows.iter().enumerate() {
            for (column, host) in self.columns.iter().enumerate() {
                let found = completion.predict(&[row, column])?;
                let known = self.measured.get(&(row, column));
                cells.push(MatrixCell {
                    row: guest.clone(),
                    column: host.clone(),
                    rate: known.copied().unwrap_or(found.rate),
                    interval: known.is_none().then_some(found.interval),
                    is_told: known.is_some() || found.is_told,
                    nulls: known.is_none().then(|| means.nulls((row, column))),
                });
            }
        }
        let suggested = completion.suggest(suggestions).into_iter();
        let suggested =
            suggested.map(|levels| (self.rows[levels[0]].clone(), self.columns[levels[1]].clone()));
        Some(MatrixAnswer { cells, suggested: suggested.collect() })
    }

    /// How well `from` of its cells tell the others: the first six by chance, but so that every row and column is met as early
    /// as possible, the next as [`Completion::suggest`] says. `None` if that many were not measured.
    pub fn score(&self, from: usize, tries: usize) -> Option<CompletionScore> {
        let all: Vec<(usize, usize)> = self.measured.keys().copied().collect();
        if from < FIRST || all.len() <= from {
            return None;
        }
        let (mut errors, mut inside) = (Vec::new(), 0_usize);
        let (mut of_mean, mut of_product) = (Vec::new(), Vec::new());
        for seed in 0..tries as u64 {
            let chosen = self.chosen(&all, from, seed)?;
            let completion = chosen.completion()?;
            let means = Means::of(&chosen.measured)?;
            for cell in all.iter().filter(|cell| !chosen.measured.contains_key(*cell)) {
                let found = completion.predict(&[cell.0, cell.1])?;
                let truth = self.measured[cell];
                errors.push((found.rate / truth - 1.0).abs());
                let nulls = means.nulls(*cell);
                of_mean.push((nulls.mean_of_all / truth - 1.0).abs());
                of_product.push((nulls.row_by_column / truth - 1.0).abs());
                inside += usize::from(found.interval.contains(truth));
            }
        }
        errors.sort_by(f64::total_cmp);
        let p90 = *errors.get((errors.len() * 9 / 10).min(errors.len().saturating_sub(1)))?;
        Some(CompletionScore {
            from,
            of: all.len(),
            tries,
            median: median(&errors)?,
            p90,
            coverage: inside as f64 / errors.len() as f64,
            nulls: MatrixNulls { mean_of_all: median(&of_mean)?, row_by_column: median(&of_product)? },
        })
    }

    /// The matrix with `from` of its cells.
    fn chosen(&self, all: &[(usize, usize)], from: usize, seed: u64) -> Option<Self> {
        let mut order = all.to_vec();
        SeededOrder::new(seed).shuffle(&mut order);
        let mut part = Self { measured: BTreeMap::new(), ..self.clone() };
        while part.measured.len() < FIRST {
            let fresh = |cell: &(usize, usize)| {
                let met = |same: fn(&(usize, usize), &(usize, usize)) -> bool| {
                    part.measured.keys().any(|known| same(known, cell))
                };
                usize::from(!met(|a, b| a.0 == b.0)) + usize::from(!met(|a, b| a.1 == b.1))
            };
            let left = order.iter().filter(|cell| !part.measured.contains_key(*cell));
            // Of equals the first in the order of chance.
            let next = left.rev().max_by_key(|cell| fresh(cell)).copied()?;
            part.measured.insert(next, self.measured[&next]);
        }
        while part.measured.len() < from {
            let suggested = part.completion()?.suggest(self.rows.len() * self.columns.len());
            let known = suggested.into_iter().map(|levels| (levels[0], levels[1]));
            let next = known.into_iter().find(|cell| self.measured.contains_key(cell))?;
            part.measured.insert(next, self.measured[&next]);
        }
        Some(part)
    }

    fn completion(&self) -> Option<Completion> {
        let cells: Vec<MeasuredCell> = self
            .measured
            .iter()
            .map(|((row, column), rate)| MeasuredCell { levels: vec![*row, *column], rate: *rate })
            .collect();
        Completion::fit(&[self.rows.len(), self.columns.len()], &cells)
    }
}

/// Means of logarithms: of all that was measured, of each row and of each column.
struct Means {
    all: f64,
    rows: BTreeMap<usize, f64>,
    columns: BTreeMap<usize, f64>,
}

impl Means {
    /// `None` where nothing was measured.
    fn of(measured: &BTreeMap<(usize, usize), f64>) -> Option<Self> {
        let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
        let means = |line: fn(&(usize, usize)) -> usize| {
            let mut logs: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
            measured.iter().for_each(|(cell, rate)| logs.entry(line(cell)).or_default().push(rate.ln()));
            logs.into_iter().map(|(line, logs)| (line, mean(&logs))).collect()
        };
        let logs: Vec<f64> = measured.values().map(|rate| rate.ln()).collect();
        (!logs.is_empty()).then(|| Self {
            all: mean(&logs),
            rows: means(|(row, _)| *row),
            columns: means(|(_, column)| *column),
        })
    }

    fn nulls(&self, (row, column): (usize, usize)) -> MatrixNulls {
        let mean_of =
            |means: &BTreeMap<usize, f64>, line: usize| means.get(&line).copied().unwrap_or(self.all);
        let product = mean_of(&self.rows, row) + mean_of(&self.columns, column) - self.all;
        MatrixNulls { mean_of_all: self.all.exp(), row_by_column: product.exp() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(name: &str) -> Layer {
        Layer::parse(name).unwrap()
    }

    /// Six guests on seven hosts, each with an effect, and two per cent that no one knows.
    fn matrix() -> Matrix {
        let names = ["btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "xfs"].map(layer);
        let mut order = SeededOrder::new(3);
        let mut uniform = |width: f64| (order.unit() - 0.5) * width;
        let guests: Vec<f64> = (0..6).map(|_| uniform(0.8)).collect();
        let hosts: Vec<f64> = (0..7).map(|_| uniform(1.0)).collect();
        let mut measured = BTreeMap::new();
        for (row, guest) in guests.iter().enumerate() {
            for (column, host) in hosts.iter().enumerate() {
                measured.insert((row, column), (3.0 + guest + host + uniform(0.04)).exp());
            }
        }
        let rows = names[..6].iter().map(|name| GuestFs(Some(name.clone()))).collect();
        Matrix { rows, columns: names.map(HostFs::On).to_vec(), measured }
    }

    #[test]
    fn twelve_of_forty_two_cells_tell_the_others() {
        let score = matrix().score(12, 5).unwrap();
        assert_eq!((score.from, score.of), (12, 42));
        assert!(score.median < 0.05 && score.coverage > 0.8, "{score:?}");
        // Means over so few cells are of others than the cell that is asked for.
        let nulls = score.nulls;
        assert!(nulls.mean_of_all > nulls.row_by_column, "{score:?}");
        assert!(nulls.row_by_column > 2.0 * score.median, "{score:?}");
    }

    #[test]
    fn null_models_stand_beside_what_is_told() {
        let names = ["ext3", "xfs", "jfs"].map(layer);
        let measured = [((0, 0), 100.0), ((0, 1), 400.0), ((1, 0), 200.0), ((1, 2), 200.0)];
        let matrix = Matrix {
            rows: names.iter().map(|name| GuestFs(Some(name.clone()))).collect(),
            columns: names.map(HostFs::On).to_vec(),
            measured: BTreeMap::from(measured),
        };
        let answer = matrix.complete(0).unwrap();
        let nulls = |row: &str, column: &str| {
            let cell = answer
                .cells
                .iter()
                .find(|c| c.row.to_string() == row && c.column.to_string() == column)
                .unwrap();
            cell.nulls.map(|nulls| (nulls.mean_of_all.round(), nulls.row_by_column.round()))
        };
        assert_eq!(nulls("ext3", "ext3"), None);
        // Both rows are at 200 in the mean, as all is.
        assert_eq!(nulls("xfs", "xfs"), Some((200.0, 400.0)));
        assert_eq!(nulls("ext3", "jfs"), Some((200.0, 200.0)));
        // Of this guest nothing was measured.
        assert_eq!(nulls("jfs", "ext3"), Some((200.0, 141.0)));
    }

    #[test]
    fn what_was_measured_stays_and_suggestions_are_new() {
        let mut matrix = matrix();
        matrix.measured.retain(|(row, column), _| (row + column) % 3 == 0);
        let answer = matrix.complete(3).unwrap();
        assert_eq!((answer.cells.len(), answer.suggested.len()), (42, 3));
        let known = |row: &GuestFs, column: &HostFs| {
            let cell = answer.cells.iter().find(|cell| cell.row == *row && cell.column == *column).unwrap();
            cell.interval.is_none()
        };
        let (guest, hosts) = (&matrix.rows[0], &matrix.columns);
        assert!(known(guest, &hosts[0]) && !known(guest, &hosts[1]));
        assert!(answer.suggested.iter().all(|(row, column)| !known(row, column)));
    }

    #[test]
    fn too_few_cells_tell_nothing() {
        let mut matrix = matrix();
        matrix.measured.retain(|(row, _), _| *row == 9);
        assert!(matrix.complete(1).is_none() && matrix.score(12, 1).is_none());
    }
}
