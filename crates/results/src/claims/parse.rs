//! Reading `[[claim]]`, `[[figure]]` and `[[finding]]` of a study file.
//!
//! ```toml
//! [[claim]]
//! id = "L-27"                          # needed, each once
//! title = "..."                        # needed: the claim in our own words
//! place = "§4.2, Fig 7B"               # where it is printed
//! paper = "+34 %"                      # as printed
//! kind = "ratio"                       # or "predicate", "constant", "setup"
//! expected = { change = "+34 %" }      # ratio: or { low = "-15 %", high = "-5 %" }, or "19 x"
//! # expected = "less"                  # predicate: or "more", "alike", "not-less"
//! # expected = { within = 0.5 }        # constant: largest difference; equal if left out
//! margin = "5 %"                       # smallest difference that matters: of a direction 5 %, of likeness 10 % if left out
//! band = { low = "-60 %", high = "-30 %" } # ratio: what counts as of the published size; half to twice it if left out
//! sql = "SELECT ..."                   # or not_testable = "why"
//! note = "..."                         # what has to be known with it
//!
//! [[figure]]
//! id = "fig-4"
//! title = "..."
//! kind = "bars"                        # or "heat", "line", "fit", "surface", "table"
//! x = "host file system"
//! y = "coefficient of variation, %"
//! sql = "SELECT ..."
//!
//! [[finding]]
//! id = "fsync"
//! title = "..."
//! sql = "SELECT printf('...') AS sentence"
//! ```

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::kept::{MOST_CLAIMS, MOST_FIGURES, MOST_FINDINGS};
use super::{Better, Claim, ClaimKind, Expected, FigureKind, FigureQuery, FindingQuery};
use crate::complaint::{Complaint, Complaints, Source};

const CLAIM_KEYS: [&str; 11] =
    ["id", "title", "place", "paper", "kind", "expected", "margin", "band", "sql", "not_testable", "note"];
const FIGURE_KEYS: [&str; 8] = ["id", "title", "kind", "x", "y", "alike", "better", "sql"];
const FINDING_KEYS: [&str; 3] = ["id", "title", "sql"];
pub(super) const CLAIM_KINDS: [(&str, ClaimKind); 4] = [
    ("setup", ClaimKind::Setup),
    ("constant", ClaimKind::Constant),
    ("ratio", ClaimKind::Ratio),
    ("predicate", ClaimKind::Predicate),
];
pub(super) const FIGURE_KINDS: [(&str, FigureKind); 6] = [
    ("bars", FigureKind::Bars),
    ("heat", FigureKind::Heat),
    ("line", FigureKind::Line),
    ("fit", FigureKind::Fit),
    ("table", FigureKind::Table),
    ("surface", FigureKind::Surface),
];
const BETTER: [(&str, Better); 2] = [("more", Better::More), ("less", Better::Less)];
pub(super) const DIRECTIONS: [(&str, Expected); 4] = [
    ("less", Expected::Less),
    ("more", Expected::More),
    ("alike", Expected::Alike),
    ("not-less", Expected::NotLess),
];

type Value<'a> = Spanned<DeValue<'a>>;

/// The claims of a study file; `value` is its key `claim`, if it has one.
/// Of each that is wrong, `wrong` gets the first thing.
pub(crate) fn parse_claims(
    source: &Source<'_>,
    value: Option<&Value<'_>>,
    wrong: &mut Complaints,
) -> Vec<Claim> {
    let mut ids = BTreeSet::new();
    let Some(entries) = wrong.take(entries(source, value, "claim", &CLAIM_KEYS, MOST_CLAIMS)) else {
        return Vec::new();
    };
    entries.iter().filter_map(|entry| wrong.take(entry.claim(&mut ids))).collect()
}

/// The figures of a study file; `value` is its key `figure`, if it has one.
/// Of each that is wrong, `wrong` gets the first thing.
pub(crate) fn parse_figures(
    source: &Source<'_>,
    value: Option<&Value<'_>>,
    wrong: &mut Complaints,
) -> Vec<FigureQuery> {
    let mut ids = BTreeSet::new();
    let Some(entries) = wrong.take(entries(source, value, "figure", &FIGURE_KEYS, MOST_FIGURES)) else {
        return Vec::new();
    };
    entries.iter().filter_map(|entry| wrong.take(entry.figure(&mut ids))).collect()
}

/// The findings of a study file; `value` is its key `finding`, if it has one.
/// Of each that is wrong, `wrong` gets the first thing.
pub(crate) fn parse_findings(
    source: &Source<'_>,
    value: Option<&Value<'_>>,
    wrong: &mut Complaints,
) -> Vec<FindingQuery> {
    let mut ids = BTreeSet::new();
    let Some(entries) = wrong.take(entries(source, value, "finding", &FINDING_KEYS, MOST_FINDINGS)) else {
        return Vec::new();
    };
    entries.iter().filter_map(|entry| wrong.take(entry.finding(&mut ids))).collect()
}

/// One table of an array of tables.
struct Entry<'a> {
    source: &'a Source<'a>,
    /// `claim`, `figure` or `finding`.
    what: &'static str,
    table: &'a DeTable<'a>,
    span: Range<usize>,
}

fn entries<'a>(
    source: &'a Source<'a>,
    value: Option<&'a Value<'a>>,
    what: &'static str,
    keys: &[&str],
    most: usize,
) -> Result<Vec<Entry<'a>>, Complaint> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let not_tables = |span| {
        source
            .complain(span, format!("a {what} is a table"))
            .help(format!("write [[{what}]] and its keys below it"))
    };
    let list = value.get_ref().as_array().ok_or_else(|| not_tables(value.span()))?;
    if let Some(beyond) = list.get(most) {
        let complaint = source
            .complain(beyond.span(), format!("this is {what} {}; a study has at most {most}", most + 1));
        return Err(complaint.help("remove some, or split the study in two"));
    }
    let entry = |item: &'a Value<'a>| {
        let table = item.get_ref().as_table().ok_or_else(|| not_tables(item.span()))?;
        let entry = Entry { source, what, table, span: item.span() };
        entry.refuse_unknown_keys(keys)?;
        Ok(entry)
    };
    list.iter().map(entry).collect()
}

/// A number of TOML, whole or not; `None` for anything else and for what is not finite.
fn number(value: &Value<'_>) -> Option<f64> {
    let value = value.get_ref();
    let text = value.as_float().map(|f| f.as_str()).or_else(|| Some(value.as_integer()?.as_str()))?;
    text.parse::<f64>().ok().filter(|n| n.is_finite())
}

impl<'a> Entry<'a> {
    fn claim(&self, ids: &mut BTreeSet<String>) -> Result<Claim, Complaint> {
        let id = self.id(ids)?;
        let kind = self.choice("kind", &CLAIM_KINDS)?;
        let claim = Claim {
            id,
            title: self.text("title")?.to_owned(),
            place: self.optional("place")?.unwrap_or_default().to_owned(),
            paper: self.optional("paper")?.unwrap_or_default().to_owned(),
            kind,
            expected: self.table.get("expected").map(|value| self.expected(value, kind)).transpose()?,
            margin: self.table.get("margin").map(|value| self.margin(value, kind)).transpose()?,
            band: self.table.get("band").map(|value| self.band(value, kind)).transpose()?,
            sql: self.optional("sql")?.map(|sql| sql.trim().to_owned()),
            not_testable: self.optional("not_testable")?.map(str::to_owned),
            note: self.optional("note")?.map(str::to_owned),
        };
        self.require_a_way_to_judge(&claim)?;
        Ok(claim)
    }

    fn figure(&self, ids: &mut BTreeSet<String>) -> Result<FigureQuery, Complaint> {
        Ok(FigureQuery {
            id: self.id(ids)?,
            title: self.text("title")?.to_owned(),
            kind: self.choice("kind", &FIGURE_KINDS)?,
            x: self.text("x")?.to_owned(),
            y: self.text("y")?.to_owned(),
            alike: self.table.get("alike").map(|value| self.positive(value)).transpose()?,
            better: match self.table.get("better") {
                Some(value) => self.choice_of(value, "better", &BETTER)?,
                None => Better::default(),
            },
            sql: self.text("sql")?.trim().to_owned(),
        })
    }

    fn finding(&self, ids: &mut BTreeSet<String>) -> Result<FindingQuery, Complaint> {
        let (id, title) = (self.id(ids)?, self.text("title")?.to_owned());
        Ok(FindingQuery { id, title, sql: self.text("sql")?.trim().to_owned() })
    }

    fn require_a_way_to_judge(&self, claim: &Claim) -> Result<(), Complaint> {
        let id = &claim.id;
        match (&claim.sql, &claim.not_testable) {
            (None, None) => {
                return Err(self
                    .complain(format!("claim {id} has neither `sql` nor `not_testable`"))
                    .help("`sql` is the query that tests it; `not_testable` says why it cannot be tested"));
            }
            (Some(_), Some(_)) => {
                return Err(self
                    .complain(format!("claim {id} has both `sql` and `not_testable`"))
                    .help("keep one of them"));
            }
            (None, Some(_)) => return Ok(()),
            (Some(_), None) => {}
        }
        let help = match (claim.kind, claim.expected.is_some()) {
            (ClaimKind::Ratio, false) => {
                "a ratio is judged by the published change: expected = { change = \"+34 %\" }"
            }
            (ClaimKind::Predicate, false) => {
                "a predicate is judged by its direction: expected = \"less\", \"more\", \"alike\" or \"not-less\""
            }
            _ => return Ok(()),
        };
        Err(self.complain(format!("claim {id} has no `expected`")).help(help))
    }

    fn expected(&self, value: &'a Value<'a>, kind: ClaimKind) -> Result<Expected, Complaint> {
        match kind {
            ClaimKind::Predicate => self.choice_of(value, "expected", &DIRECTIONS),
            ClaimKind::Ratio => self.change(value),
            ClaimKind::Constant => self.tolerance(value),
            ClaimKind::Setup => Err(self
                .source
                .complain(value.span(), "a claim about the set-up has no `expected`")
                .help("its query has the columns what, found and published")),
        }
    }

    fn change(&self, value: &'a Value<'a>) -> Result<Expected, Complaint> {
        let wrong = || {
            self.source
                .complain(value.span(), "the expected value of a ratio is a change")
                .help("write { change = \"+34 %\" }, or both ends: { low = \"-15 %\", high = \"-5 %\" }")
        };
        let table = value.get_ref().as_table().ok_or_else(wrong)?;
        let ratio_at = |key: &str| table.get(key).map(|v| self.ratio(v)).transpose();
        match (ratio_at("change")?, ratio_at("low")?, ratio_at("high")?, table.len()) {
            (Some(change), None, None, 1) => Ok(Expected::Change { low: change, high: change }),
            (None, Some(low), Some(high), 2) if low <= high => Ok(Expected::Change { low, high }),
            _ => Err(wrong()),
        }
    }

    /// `5 %` is 0.05.
    fn margin(&self, value: &'a Value<'a>, kind: ClaimKind) -> Result<f64, Complaint> {
        self.only_of_measured("margin", value, kind)?;
        let text = value.get_ref().as_str().unwrap_or_default().trim();
        let share = text.strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok()).map(|n| n / 100.0);
        share.filter(|share| *share > 0.0 && *share < 1.0).ok_or_else(|| {
            self.source
                .complain(value.span(), "this is not a margin")
                .help("write the smallest difference that matters, above 0 and below 100 %: \"5 %\"")
        })
    }

    fn band(&self, value: &'a Value<'a>, kind: ClaimKind) -> Result<(f64, f64), Complaint> {
        self.only_of_measured("band", value, kind)?;
        match self.change(value)? {
            Expected::Change { low, high } if low < high && (high < 1.0 || low > 1.0) => Ok((low, high)),
            _ => Err(self
                .source
                .complain(value.span(), "a band has two ends on one side of no change")
                .help("write { low = \"-60 %\", high = \"-30 %\" }")),
        }
    }

    fn only_of_measured(&self, key: &str, value: &'a Value<'a>, kind: ClaimKind) -> Result<(), Complaint> {
        if kind.is_measured() {
            return Ok(());
        }
        Err(self
            .source
            .complain(value.span(), format!("only a ratio or a predicate has a `{key}`"))
            .help("remove it; constants have { within = ... }"))
    }

    /// `+34 %` is 1.34, `19.4 x` is 19.4.
    fn ratio(&self, value: &'a Value<'a>) -> Result<f64, Complaint> {
        let text = value.get_ref().as_str().unwrap_or_default().trim().replace('\u{2212}', "-");
        let (number, is_change) = match (text.strip_suffix('%'), text.strip_suffix('x')) {
            (Some(number), _) => (number, true),
            (None, Some(number)) => (number, false),
            (None, None) => ("", true),
        };
        let ratio = number.trim().parse::<f64>().ok().map(|n| if is_change { 1.0 + n / 100.0 } else { n });
        ratio.filter(|ratio| *ratio > 0.0 && ratio.is_finite()).ok_or_else(|| {
            self.source
                .complain(value.span(), "this is not a change")
                .help("write a change in per cent above -100: \"-40 %\", or a factor: \"19.4 x\"")
        })
    }

    /// The value of a figure that means no difference.
    fn positive(&self, value: &'a Value<'a>) -> Result<f64, Complaint> {
        number(value).filter(|n| *n > 0.0).ok_or_else(|| {
            self.source
                .complain(value.span(), "the value that means no difference is a number above 0")
                .help("write alike = 100 for per cent of a baseline, alike = 1 for a ratio")
        })
    }

    fn tolerance(&self, value: &'a Value<'a>) -> Result<Expected, Complaint> {
        let number = value
            .get_ref()
            .as_table()
            .filter(|table| table.len() == 1)
            .and_then(|table| number(table.get("within")?).filter(|n| *n >= 0.0));
        let tolerance = number.ok_or_else(|| {
            self.source
                .complain(value.span(), "the expected value of a constant is a tolerance")
                .help("write { within = 0.5 }, in the constant's unit, or leave it out for equality")
        })?;
        Ok(Expected::Within { tolerance })
    }

    fn id(&self, ids: &mut BTreeSet<String>) -> Result<String, Complaint> {
        let id = self.text("id")?;
        let Some(value) = self.table.get("id") else { return Ok(id.to_owned()) };
        if !id.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return Err(self
                .source
                .complain(value.span(), format!("`{id}` cannot be the id of a {}", self.what))
                .help("an id consists of letters, digits, `-`, `_` and `.`, such as L-27"));
        }
        if !ids.insert(id.to_owned()) {
            return Err(self
                .source
                .complain(value.span(), format!("two {}s have the id `{id}`", self.what))
                .help("give each its own id"));
        }
        Ok(id.to_owned())
    }

    fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T, Complaint> {
        self.text(key)?;
        match self.table.get(key) {
            Some(value) => self.choice_of(value, key, choices),
            None => Err(self.complain(format!("the entry has no `{key}`"))),
        }
    }

    fn choice_of<T: Copy>(
        &self,
        value: &'a Value<'a>,
        key: &str,
        choices: &[(&str, T)],
    ) -> Result<T, Complaint> {
        let written = value.get_ref().as_str().unwrap_or_default();
        choices.iter().find(|(name, _)| *name == written).map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.source
                .complain(value.span(), format!("`{key}` has an unknown value"))
                .help(format!("use one of {}", names.join(", ")))
        })
    }

    fn text(&self, key: &str) -> Result<&'a str, Complaint> {
        self.optional(key)?.ok_or_else(|| {
            let name = self.table.get("id").and_then(|v| v.get_ref().as_str());
            let which = name.map_or_else(|| format!("a {}", self.what), |id| format!("{} {id}", self.what));
            self.complain(format!("{which} has no `{key}`"))
        })
    }

    fn optional(&self, key: &str) -> Result<Option<&'a str>, Complaint> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let text = value.get_ref().as_str().filter(|text| !text.trim().is_empty());
        text.map(Some).ok_or_else(|| {
            self.source.complain(value.span(), format!("`{key}` must be a non-empty text in quotes"))
        })
    }

    /// Complains about the whole, at its first line.
    fn complain(&self, message: String) -> Complaint {
        self.source.complain(self.span.clone(), message)
    }

    fn refuse_unknown_keys(&self, keys: &[&str]) -> Result<(), Complaint> {
        let unknown = self.table.iter().map(|(key, _)| key).filter(|k| !keys.contains(&k.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else { return Ok(()) };
        let written = key.get_ref();
        Err(self
            .source
            .complain(key.span(), format!("a {} has no key `{written}`", self.what))
            .help(format!("its keys are {}", keys.join(", "))))
    }
}
