//! Histograms.

use std::io::BufRead;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::decode::ReadWarnings;
use crate::decode::lines::Lines;
use crate::error::TraceError;

/// How many observations are above the limit of the bucket before, up to this one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Greatest value in it; `None` for the last bucket, of all that is greater.
    pub limit: Option<i64>,
    /// How many there were.
    pub count: u64,
}

/// A distribution of one quantity of one virtual disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VscsiHistogram {
    /// What was counted, in the tool's words (`IO lengths of commands`, `latency of Read IOs in Microseconds (us)`).
    pub quantity: String,
    /// The virtual machine's group of worlds, if named.
    pub world_group: Option<u64>,
    /// The virtual disk's handle, if named.
    pub handle: Option<u64>,
    /// The virtual disk's place (`scsi0:0`), if named.
    pub disk: Option<String>,
    /// Least value.
    pub min: Option<i64>,
    /// Greatest value.
    pub max: Option<i64>,
    /// Mean value, as printed: whole.
    pub mean: Option<i64>,
    /// Observations.
    pub count: u64,
    /// The distribution, lowest first.
    pub buckets: Vec<Bucket>,
}

/// Histograms of one file: a few of each of a thousand disks.
const MOST_HISTOGRAMS: usize = 1 << 14;

/// Buckets of one histogram; vscsiStats has up to twenty.
const MOST_BUCKETS: usize = 64;

/// Bytes of a title's parts that are kept.
const LONGEST_NAME: usize = 128;

/// What a histogram begins with.
pub(in crate::decode) const TITLE: &str = "Histogram:";

/// Reads the histograms of all disks, from text or CSV, and what was odd.
///
/// # Errors
/// The text cannot be read, has become something else or has more histograms than any host has.
pub fn read_histograms(
    source: impl BufRead,
    path: impl Into<PathBuf>,
) -> Result<(Vec<VscsiHistogram>, ReadWarnings), TraceError> {
    let mut lines = Lines::new(source, path);
    let mut warnings = ReadWarnings::default();
    let mut histograms: Vec<VscsiHistogram> = Vec::new();
    while lines.advance()? {
        let text = lines.text().trim().trim_matches('"').to_owned();
        if let Some(title) = text.strip_prefix(TITLE) {
            if histograms.len() == MOST_HISTOGRAMS {
                return Err(lines.error(format!(
                    "more than {MOST_HISTOGRAMS} histograms: this is not vscsiStats' output"
                )));
            }
            histograms.push(parse_title(title));
        } else if !understand(&text, histograms.last_mut()) {
            warnings.skipped_lines += 1;
            continue;
        }
        lines.accept();
    }
    histograms.iter_mut().for_each(finish);
    Ok((histograms, warnings))
}

/// `IO lengths of commands for virtual machine worldGroupID : 1234, virtual disk handleID : 8193 (scsi0:0) {`, in CSV with
/// commas instead of `for` and colons.
fn parse_title(title: &str) -> VscsiHistogram {
    let title = title.trim().trim_end_matches('{').trim();
    let number_after = |word: &str| {
        let (_, rest) = title.split_once(word)?;
        let digits = rest.trim_start_matches([' ', ':', ',', '=']);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok()
    };
    let disk = title.split_once("handleID").and_then(|(_, rest)| {
        let (_, disk) = rest.split_once('(')?;
        Some(shortened(disk.split_once(')')?.0))
    });
    let quantity = title.split_once("virtual machine").map_or(title, |(quantity, _)| quantity);
    let quantity = quantity.trim_end().trim_end_matches("for").trim_end_matches([',', ' ']);
    VscsiHistogram {
        quantity: shortened(quantity),
        world_group: number_after("worldGroupID"),
        handle: number_after("handleID"),
        disk,
        ..VscsiHistogram::default()
    }
}

fn shortened(name: &str) -> String {
    name[..name.floor_char_boundary(LONGEST_NAME)].to_owned()
}

/// Reads a line within a histogram; `false` if it is not one.
fn understand(text: &str, histogram: Option<&mut VscsiHistogram>) -> bool {
    if matches!(text, "" | "{" | "}") || text.starts_with("Frequency") {
        return true;
    }
    let Some(histogram) = histogram else { return false };
    if let Some((name, value)) = text.split_once([':', ','])
        && let Ok(value) = value.trim().parse::<i64>()
        && let Some(slot) = match name.trim() {
            "min" => Some(&mut histogram.min),
            "max" => Some(&mut histogram.max),
            "mean" => Some(&mut histogram.mean),
            _ => None,
        }
    {
        *slot = Some(value);
        return true;
    }
    if let Some((name, value)) = text.split_once([':', ','])
        && name.trim() == "count"
        && let Ok(value) = value.trim().parse()
    {
        histogram.count = value;
        return true;
    }
    match parse_bucket(text) {
        Some(bucket) if histogram.buckets.len() < MOST_BUCKETS => histogram.buckets.push(bucket),
        _ => return false,
    }
    true
}

/// `12   (<=   4096)`, `3   (> 524288)`; in CSV `12,4096`, `3,>524288`.
fn parse_bucket(text: &str) -> Option<Bucket> {
    let (count, limit) = text.split_once(['(', ','])?;
    let count = count.trim().parse().ok()?;
    let limit = limit.trim().trim_matches('"').trim_end_matches(')').trim();
    if let Some(greater) = limit.strip_prefix('>') {
        greater.trim().parse::<i64>().ok()?;
        return Some(Bucket { limit: None, count });
    }
    let limit = limit.strip_prefix("<=").unwrap_or(limit).trim().parse().ok()?;
    Some(Bucket { limit: Some(limit), count })
}

/// In CSV, the last bucket repeats the limit that its values exceed.
fn finish(histogram: &mut VscsiHistogram) {
    if let [.., before, last] = histogram.buckets.as_mut_slice()
        && last.limit.is_some()
        && before.limit == last.limit
    {
        last.limit = None;
    }
}
