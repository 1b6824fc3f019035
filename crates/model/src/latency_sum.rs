//! Adds up many stored histograms quickly.
//!
//! Merging decodes each one into a histogram of a quarter of a megabyte. Those of a large study are hundreds of thousands,
//! each of a few hundred counts, so these are added straight from the encoding.
//! The encoding is HdrHistogram's V2: <https://github.com/HdrHistogram/HdrHistogram/blob/master/src/main/java/org/HdrHistogram/AbstractHistogram.java>

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::{Decompress, FlushDecompress, Status};
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as ValueError, StrDeserializer};

use crate::latency::{HIGHEST_LATENCY_NS, LatencyHistogram};

/// Starts a compressed histogram: the V2 cookie with the size of its words.
const COMPRESSED: u32 = 0x1c84_9304 | 0x10;
/// Starts one that is not compressed.
const PLAIN: u32 = 0x1c84_9303 | 0x10;
/// Cookie, length, offset, digits, lowest and highest value, factor.
const HEADER_BYTES: usize = 40;
/// Digits of our histograms.
const DIGITS: u32 = 3;
/// Counts that a histogram of our bounds can have: 2048 for the first two octaves of its digits, 1024 for each further.
const MOST_COUNTS: usize = 64 * 1_024;
/// Bytes that so many counts can take.
const MOST_BYTES: usize = HEADER_BYTES + 9 * MOST_COUNTS;

/// The sum of histograms that were written by [`LatencyHistogram`].
#[derive(Debug, Default)]
pub struct LatencySum {
    counts: Vec<u64>,
    scratch: Scratch,
}

/// Buffers that are used again.
#[derive(Debug, Default)]
struct Scratch {
    compressed: Vec<u8>,
    plain: Vec<u8>,
    inflater: Option<Decompress>,
}

impl LatencySum {
    /// Adds a histogram from the text it is stored as.
    ///
    /// # Errors
    /// What is wrong with the text, in words.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let Scratch { compressed, plain, inflater } = &mut self.scratch;
        compressed.clear();
        BASE64.decode_vec(text, compressed).map_err(|e| e.to_string())?;
        let inflater = inflater.get_or_insert_with(|| Decompress::new(true));
        inflater.reset(true);
        inflate(inflater, compressed, plain)?;
        add_counts(counts_of(plain)?, &mut self.counts)
    }

    /// The sum as a histogram.
    pub fn finish(&self) -> LatencyHistogram {
        let text = BASE64.encode(encode(&self.counts));
        let text: StrDeserializer<'_, ValueError> = text.as_str().into_deserializer();
        LatencyHistogram::deserialize(text).expect("it was encoded here")
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn inflate(inflater: &mut Decompress, compressed: &[u8], plain: &mut Vec<u8>) -> Result<(), String> {
    if word(compressed, 0) != Some(COMPRESSED) {
        return Err("it is not a compressed histogram of version 2".to_owned());
    }
    let length = word(compressed, 4).unwrap_or_default() as usize;
    let body = compressed.get(8..8 + length).ok_or("the histogram is cut off")?;
    plain.clear();
    plain.reserve(16 << 10);
    loop {
        let read = usize::try_from(inflater.total_in()).unwrap_or(usize::MAX);
        let status = inflater
            .decompress_vec(&body[read.min(body.len())..], plain, FlushDecompress::Finish)
            .map_err(|e| e.to_string())?;
        match status {
            Status::StreamEnd => return Ok(()),
            _ if plain.len() == plain.capacity() && plain.len() < MOST_BYTES => plain.reserve(plain.len()),
            _ => return Err("the histogram is cut off".to_owned()),
        }
    }
}

/// The encoded counts, if the bounds are ours.
fn counts_of(plain: &[u8]) -> Result<&[u8], String> {
    let ours = word(plain, 0) == Some(PLAIN)
        && word(plain, 8) == Some(0)
        && word(plain, 12) == Some(DIGITS)
        && plain.get(16..24) == Some(&1_u64.to_be_bytes())
        && plain.get(24..32) == Some(&HIGHEST_LATENCY_NS.to_be_bytes());
    if !ours {
        return Err("the histogram has other bounds than those that are written here".to_owned());
    }
    let length = word(plain, 4).unwrap_or_default() as usize;
    plain.get(HEADER_BYTES..HEADER_BYTES + length).ok_or_else(|| "the histogram is cut off".to_owned())
}

/// Counts are signed numbers of seven bits a byte, the last of nine bytes whole; a negative one is a run of zeros.
fn add_counts(mut bytes: &[u8], counts: &mut Vec<u64>) -> Result<(), String> {
    let mut index = 0_usize;
    while let Some((value, rest)) = number(bytes) {
        bytes = rest;
        if value < 0 {
            index = index.saturating_add(usize::try_from(value.unsigned_abs()).unwrap_or(usize::MAX));
            continue;
        }
        if index >= MOST_COUNTS {
            return Err("the histogram has more counts than its bounds allow".to_owned());
        }
        if index >= counts.len() {
            counts.resize(index + 1, 0);
        }
        counts[index] = counts[index].saturating_add(value.unsigned_abs());
        index += 1;
    }
    if bytes.is_empty() { Ok(()) } else { Err("the histogram ends within a number".to_owned()) }
}

fn number(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut value = 0_u64;
    for (i, byte) in bytes.iter().enumerate().take(9) {
        if i == 8 {
            value |= u64::from(*byte) << 56;
        } else {
            value |= u64::from(byte & 0x7f) << (7 * i);
        }
        if i == 8 || byte & 0x80 == 0 {
            let signed = (value >> 1) as i64 ^ -((value & 1) as i64);
            return Some((signed, &bytes[i + 1..]));
        }
    }
    None
}

/// The counts as a histogram of version 2 that is not compressed.
fn encode(counts: &[u64]) -> Vec<u8> {
    let used = counts.iter().rposition(|c| *c > 0).map_or(0, |last| last + 1);
    let mut body = Vec::new();
    let mut zeros = 0_i64;
    for count in &counts[..used] {
        if *count == 0 {
            zeros += 1;
            continue;
        }
        if zeros > 0 {
            put(&mut body, -zeros);
            zeros = 0;
        }
        put(&mut body, i64::try_from(*count).unwrap_or(i64::MAX));
    }
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend(PLAIN.to_be_bytes());
    bytes.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend(0_u32.to_be_bytes());
    bytes.extend(DIGITS.to_be_bytes());
    bytes.extend(1_u64.to_be_bytes());
    bytes.extend(HIGHEST_LATENCY_NS.to_be_bytes());
    bytes.extend(1.0_f64.to_be_bytes());
    bytes.extend(body);
    bytes
}

fn put(body: &mut Vec<u8>, value: i64) {
    let mut left = ((value << 1) ^ (value >> 63)) as u64;
    for _ in 0..8 {
        if left < 0x80 {
            body.push(left as u8);
            return;
        }
        body.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    body.push(left as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(histogram: &LatencyHistogram) -> String {
        serde_json::to_value(histogram).unwrap().as_str().unwrap().to_owned()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_sum_is_what_merging_gives(
            parts in prop::collection::vec(prop::collection::vec((0_u64..2 << 40, 1_u64..1 << 40), 0..40), 0..6),
        ) {
            let mut merged = LatencyHistogram::default();
            let mut sum = LatencySum::default();
            for part in parts {
                let mut histogram = LatencyHistogram::default();
                part.iter().for_each(|(ns, count)| histogram.record_many_ns(*ns, *count));
                merged.merge(&histogram);
                sum.add(&text(&histogram)).unwrap();
            }
            prop_assert_eq!(sum.finish().summary(), merged.summary());
            prop_assert_eq!(sum.finish(), merged);
        }

        #[test]
        fn no_text_is_too_hostile(text in "\\PC{0,60}", mut bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut sum = LatencySum::default();
            let _ = sum.add(&text);
            let _ = sum.add(&BASE64.encode(&bytes));
            let _ = add_counts(&bytes, &mut Vec::new());
            bytes.splice(0..0, COMPRESSED.to_be_bytes());
            let _ = sum.add(&BASE64.encode(&bytes));
        }
    }

    #[test]
    fn what_is_not_a_histogram_of_ours_is_refused() {
        let whole = text(&{
            let mut h = LatencyHistogram::default();
            h.record_many_ns(5_000, 3);
            h
        });
        let mut sum = LatencySum::default();
        for broken in ["", "AAAA", "no base64!", &whole[..whole.len() / 2 / 4 * 4]] {
            assert!(sum.add(broken).is_err(), "{broken}");
        }
        assert_eq!(sum.finish().count(), 0);
    }
}
