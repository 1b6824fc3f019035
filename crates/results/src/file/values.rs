//! The values of a study file's keys, each checked for its type and range.

use std::path::Path;
use std::time::Duration;

use nestor_text::nearest;
use nestor_text::quantities::{TIME_FORM, parse_whole_seconds};

use super::{KEYS, MOST_REPLICATIONS, Reader, Value};
use crate::TraceMode;
use crate::complaint::{Complaint, Complaints};

impl<'a> Reader<'a> {
    pub(super) fn looks(&self) -> Result<Option<Vec<u32>>, Complaint> {
        let Some(value) = self.table.get("looks") else { return Ok(None) };
        let what = "a list of numbers of pairs, each larger than the one before, from 2 on, such as [3, 4, 6, 8, 12]";
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong_type(value, what))?;
        let mut looks: Vec<u32> = Vec::new();
        for item in list.iter() {
            let integer =
                item.get_ref().as_integer().ok_or_else(|| self.wrong_type(item, "a whole number"))?;
            match u32::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(look)
                    if look >= 2
                        && i64::from(look) <= MOST_REPLICATIONS
                        && looks.last().is_none_or(|l| *l < look) =>
                {
                    looks.push(look);
                }
                _ => return Err(self.source.complain(item.span(), format!("`looks` is {what}"))),
            }
        }
        if looks.is_empty() {
            return Err(self.source.complain(value.span(), format!("`looks` is {what}")));
        }
        Ok(Some(looks))
    }

    pub(super) fn needed(&self, key: &str, what: &str) -> Result<&'a Value<'a>, Complaint> {
        self.value(key).ok_or_else(|| {
            let end = self.source.text.len();
            let at = self.source.text.trim_end().len().min(end);
            self.source
                .complain(at..at, format!("the study has no `{key}`"))
                .help(format!("`{key}` is {what}"))
        })
    }

    pub(super) fn wrong_type(&self, value: &Value<'_>, what: &str) -> Complaint {
        let found = value.get_ref().type_str();
        let article = if found.starts_with(['a', 'i']) { "an" } else { "a" };
        self.source.complain(value.span(), format!("{what} is needed here, but this is {article} {found}"))
    }

    pub(super) fn text(&self, value: &'a Value<'a>) -> Result<&'a str, Complaint> {
        let text = value.get_ref().as_str().ok_or_else(|| self.wrong_type(value, "a text in quotes"))?;
        if text.trim().is_empty() {
            return Err(self.source.complain(value.span(), "this text is empty"));
        }
        Ok(text)
    }

    pub(super) fn truth(&self, value: &Value<'_>) -> Result<bool, Complaint> {
        value.get_ref().as_bool().ok_or_else(|| self.wrong_type(value, "true or false"))
    }

    pub(super) fn number(&self, key: &str, least: i64, most: i64) -> Result<Option<i64>, Complaint> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let what = format!("a whole number from {least} to {most}");
        let integer = value.get_ref().as_integer().ok_or_else(|| self.wrong_type(value, &what))?;
        match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(self.source.complain(value.span(), format!("`{key}` is {what}"))),
        }
    }

    pub(super) fn trace(&self) -> Result<Option<TraceMode>, Complaint> {
        let Some(value) = self.value("trace") else { return Ok(None) };
        let text = self.text(value)?;
        text.parse().map(Some).map_err(|message: String| {
            self.source.complain(value.span(), message).help(
                "full: every request through all layers; layers: the numbers of each layer; none: nothing",
            )
        })
    }

    pub(super) fn name(&self) -> Result<String, Complaint> {
        let value = self.needed("name", "a short name, such as \"quick\"")?;
        let name = self.text(value)?;
        if name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return Ok(name.to_owned());
        }
        let complaint = self.source.complain(value.span(), format!("`{name}` is not a name"));
        Err(complaint
            .help("a name consists of letters, digits, `-`, `_` and `.`; put the long form into `title`"))
    }

    /// The study's, or the name of its file without directories and ending.
    pub(super) fn title(&self) -> Result<String, Complaint> {
        match self.value("title") {
            Some(value) => self.text(value).map(str::to_owned),
            None => {
                let stem = Path::new(self.source.file).file_stem();
                Ok(stem
                    .map_or_else(|| self.source.file.to_owned(), |stem| stem.to_string_lossy().into_owned()))
            }
        }
    }

    pub(super) fn budget(&self) -> Result<Option<Duration>, Complaint> {
        let Some(value) = self.value("budget") else { return Ok(None) };
        let text = self.text(value)?;
        parse_whole_seconds(text).map(Some).ok_or_else(|| {
            let complaint = self.source.complain(value.span(), format!("`{text}` is not a time"));
            complaint.help(format!("write {TIME_FORM}"))
        })
    }

    /// The list of a key, each text with its alternatives; `None` if there is none, or a text in it is wrong. A list that has a
    /// misspelt key was complained about there.
    pub(super) fn expanded<T: PartialEq, E: ToString>(
        &self,
        key: &str,
        what: &str,
        expand: impl Fn(&str) -> Result<Vec<T>, E>,
        wrong: &mut Complaints,
    ) -> Option<Vec<T>> {
        if self.value(key).is_none() && self.has_misspelt(key) {
            return None;
        }
        let value = wrong.take(self.needed(key, what))?;
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong_type(value, "a list of texts"));
        let list = wrong.take(list)?;
        let expanded: Vec<Option<Vec<T>>> = list
            .iter()
            .map(|item| {
                let text = wrong.take(self.text(item))?;
                wrong.take(self.understood(item, expand(text)))
            })
            .collect();
        let mut found: Vec<T> = Vec::new();
        for one in expanded.into_iter().collect::<Option<Vec<_>>>()?.into_iter().flatten() {
            if !found.contains(&one) {
                found.push(one);
            }
        }
        if found.is_empty() {
            let complaint = self.source.complain(value.span(), format!("`{key}` is empty"));
            return wrong.take(Err(complaint.help(format!("it is {what}"))));
        }
        Some(found)
    }

    /// Whether a key that does not exist is this one misspelt.
    fn has_misspelt(&self, key: &str) -> bool {
        let written = self.table.iter().map(|(written, _)| written.get_ref().as_ref());
        let mut unknown = written.filter(|written| !KEYS.contains(written));
        unknown.any(|written| nearest(written, KEYS) == Some(key))
    }

    /// Puts the message of a stack's or workload's own error beneath the line that holds it.
    pub(super) fn understood<T, E: ToString>(
        &self,
        value: &Value<'_>,
        result: Result<T, E>,
    ) -> Result<T, Complaint> {
        result.map_err(|error| {
            let message = error.to_string();
            let (first, rest) = message.split_once('\n').unwrap_or((&message, ""));
            let complaint = self.source.complain(value.span(), first);
            if rest.is_empty() { complaint } else { complaint.help(rest) }
        })
    }
}
