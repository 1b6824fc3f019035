//! What all claims and figures of a study may keep together, which a report then draws and writes out.

use std::collections::BTreeSet;

use super::query::Found;
use super::{ClaimResult, Figure, FigureQuery, FigureRow, FigureX, Finding, SeriesLine};

/// Claims of a study. The largest that comes with the program has 48.
pub(super) const MOST_CLAIMS: usize = 500;
/// Figures of a study. The largest that comes with the program has 21.
pub(super) const MOST_FIGURES: usize = 250;
/// Findings of a study.
pub(super) const MOST_FINDINGS: usize = 50;
/// Sentences of a finding.
const MOST_SENTENCES: usize = 50;
/// Their total size: values, texts and numbers of runs.
const MOST_BYTES: usize = 32 << 20;
/// Characters of a name: of a panel, a series, a place on an axis, a part.
const MOST_NAME: usize = 300;
/// Characters of a figure's own texts, which each of its panels repeats.
const MOST_LABEL: usize = 1_000;
/// Panels of a figure, each with a legend of all its series.
const MOST_PANELS: usize = 50;
/// Series of a figure.
const MOST_SERIES: usize = 100;
/// Panels times series of a figure.
const MOST_LEGENDS: usize = 1_000;
/// Parts of a claim.
pub(super) const MOST_PARTS: usize = 1_000;

/// Why a claim or figure is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooMuch {
    /// A name in a row.
    #[error(
        "`{column}` of row {row} has {characters} characters, and a name may have {MOST_NAME}; shorten it with substr"
    )]
    Name {
        /// The column.
        column: &'static str,
        /// The row, from 1.
        row: usize,
        /// How many it has.
        characters: usize,
    },
    /// A text of a figure in the study file.
    #[error(
        "its `{key}` has {characters} characters, but at most {MOST_LABEL} are allowed; shorten it in the study"
    )]
    Label {
        /// Its key.
        key: &'static str,
        /// How many it has.
        characters: usize,
    },
    /// Different values of a column.
    #[error(
        "it returns {count} different values of `{column}`, but at most {most} are allowed; split it into several"
    )]
    Names {
        /// The column.
        column: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// Legends of all panels.
    #[error(
        "it has {panels} panels with a legend of {series} series each, but at most {MOST_LEGENDS} names are allowed; split it into several"
    )]
    Legends {
        /// Its panels.
        panels: usize,
        /// Its series.
        series: usize,
    },
    /// The total size of all results.
    #[error(
        "with its {bytes} bytes the claims and figures of the study would keep over {} MiB; aggregate in the query (GROUP BY, median, avg), or split the study in two",
        MOST_BYTES >> 20
    )]
    Bytes {
        /// Bytes of this one.
        bytes: usize,
    },
    /// The number of claims.
    #[error("a study may have {MOST_CLAIMS} claims; remove some, or split the study in two")]
    Claims,
    /// The number of figures.
    #[error("a study may have {MOST_FIGURES} figures; remove some, or split the study in two")]
    Figures,
    /// The number of findings.
    #[error("a study may have {MOST_FINDINGS} findings; remove some, or split the study in two")]
    Findings,
    /// The number of sentences.
    #[error(
        "it returns {sentences} sentences, but at most {MOST_SENTENCES} are allowed; return only what matters"
    )]
    Sentences {
        /// How many it gives.
        sentences: usize,
    },
    /// A sentence.
    #[error("its sentence {row} has {characters} characters, but at most {MOST_LABEL} are allowed")]
    Sentence {
        /// Which one, from 1.
        row: usize,
        /// How many it has.
        characters: usize,
    },
}

/// Counts what the claims and figures of a study keep.
#[derive(Default)]
pub(super) struct Kept {
    bytes: usize,
}

impl Kept {
    /// Counts one more claim's result, or refuses it.
    pub fn add_claim(&mut self, result: &ClaimResult) -> Result<(), TooMuch> {
        let texts = result.doubts.iter().chain(&result.why).map(|text| text_bytes(text)).sum::<usize>();
        self.add(result.reason.len() + texts + result.runs.len() * size_of::<i64>())
    }

    /// Counts one more figure's values, or refuses them.
    pub fn add_figure(&mut self, figure: &Figure) -> Result<(), TooMuch> {
        let rows = figure.rows.iter().map(row_bytes).sum::<usize>();
        let of_line = |line: &SeriesLine| size_of::<SeriesLine>() + line.panel.len() + line.series.len();
        let lines = figure.lines.iter().map(of_line).sum::<usize>();
        self.add(rows + lines + figure.left_out.iter().map(|text| text_bytes(text)).sum::<usize>())
    }

    /// Counts one more finding's sentences, or refuses them.
    pub fn add_finding(&mut self, finding: &Finding) -> Result<(), TooMuch> {
        self.add(finding.sentences.iter().map(|text| text_bytes(text)).sum())
    }

    /// Counts bytes, or refuses them.
    pub fn add(&mut self, bytes: usize) -> Result<(), TooMuch> {
        let together = self.bytes.saturating_add(bytes);
        if together > MOST_BYTES {
            return Err(TooMuch::Bytes { bytes });
        }
        self.bytes = together;
        Ok(())
    }
}

fn text_bytes(text: &str) -> usize {
    size_of::<String>() + text.len()
}

fn row_bytes(row: &FigureRow) -> usize {
    let x = match &row.x {
        FigureX::Text(text) => text.len(),
        FigureX::Number(_) => 0,
    };
    size_of::<FigureRow>() + row.panel.len() + row.series.len() + x
}

/// Refuses names that are too long.
pub(super) fn check_names(found: &Found, columns: &[&'static str]) -> Result<(), TooMuch> {
    let present: Vec<&'static str> = columns.iter().copied().filter(|column| found.has(column)).collect();
    for (index, row) in found.rows().enumerate() {
        for column in present.iter().copied() {
            let Some(rusqlite::types::Value::Text(name)) = row.value(column) else { continue };
            // No text has more characters than bytes.
            if name.len() > MOST_NAME && name.chars().count() > MOST_NAME {
                return Err(TooMuch::Name { column, row: index + 1, characters: name.chars().count() });
            }
        }
    }
    Ok(())
}

/// Refuses too many sentences, and sentences that are too long.
pub(super) fn check_sentences(found: &Found) -> Result<(), TooMuch> {
    if found.len() > MOST_SENTENCES {
        return Err(TooMuch::Sentences { sentences: found.len() });
    }
    for (index, row) in found.rows().enumerate() {
        let characters = row.text("sentence").map_or(0, |text| text.chars().count());
        if characters > MOST_LABEL {
            return Err(TooMuch::Sentence { row: index + 1, characters });
        }
    }
    Ok(())
}

/// Refuses texts of a figure that are too long.
pub(super) fn check_labels(query: &FigureQuery) -> Result<(), TooMuch> {
    for (key, text) in [("title", &query.title), ("x", &query.x), ("y", &query.y)] {
        let characters = text.chars().count();
        if characters > MOST_LABEL {
            return Err(TooMuch::Label { key, characters });
        }
    }
    Ok(())
}

/// Refuses more panels and series than fit into a picture.
pub(super) fn check_panels(rows: &[FigureRow]) -> Result<(), TooMuch> {
    let panels = check_count("panel", MOST_PANELS, rows.iter().map(|row| row.panel.as_str()))?;
    let series = check_count("series", MOST_SERIES, rows.iter().map(|row| row.series.as_str()))?;
    if panels * series > MOST_LEGENDS { Err(TooMuch::Legends { panels, series }) } else { Ok(()) }
}

/// Counts the different values of a column, and refuses more than `most`.
pub(super) fn check_count<'a>(
    column: &'static str,
    most: usize,
    names: impl Iterator<Item = &'a str>,
) -> Result<usize, TooMuch> {
    let count = names.collect::<BTreeSet<_>>().len();
    if count > most { Err(TooMuch::Names { column, count, most }) } else { Ok(count) }
}

/// A value as it is shown; a long one is cut.
pub(super) fn told(value: String) -> String {
    match value.char_indices().nth(MOST_NAME) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value,
    }
}
