//! The values of a study file's keys, each checked for its type and range.

use std::time::Duration;

use nestor_text::quantities::parse_time;

use super::{MOST_REPLICATIONS, Reader, Value};
use crate::TraceMode;
use crate::complaint::Complaint;

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

    pub(super) fn budget(&self) -> Result<Option<Duration>, Complaint> {
        let Some(value) = self.value("budget") else { return Ok(None) };
        let text = self.text(value)?;
        parse_duration(text).map(Some).ok_or_else(|| {
            self.source
                .complain(value.span(), format!("`{text}` is not a time"))
                .help("write hours, minutes and seconds: \"90s\", \"5m\", \"1h30m\"")
        })
    }

    pub(super) fn expanded<T: PartialEq, E: ToString>(
        &self,
        key: &str,
        what: &str,
        expand: impl Fn(&str) -> Result<Vec<T>, E>,
    ) -> Result<Vec<T>, Complaint> {
        let value = self.needed(key, what)?;
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong_type(value, "a list of texts"))?;
        let mut found: Vec<T> = Vec::new();
        for item in list.iter() {
            let text = self.text(item)?;
            for one in self.understood(item, expand(text))? {
                if !found.contains(&one) {
                    found.push(one);
                }
            }
        }
        if found.is_empty() {
            return Err(self
                .source
                .complain(value.span(), format!("`{key}` is empty"))
                .help(format!("it is {what}")));
        }
        Ok(found)
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

/// `90s`, `5m`, `1h30m`, `5 min`; `None` for anything else, for a number without a unit, and for no time at all.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let time = parse_time(text).filter(|time| !time.is_zero() && time.subsec_nanos() == 0)?;
    text.trim_end().ends_with(char::is_alphabetic).then_some(time)
}
