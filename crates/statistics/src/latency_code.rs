//! Reading stored or received histograms: HdrHistogram's V2 encoding, as base64 text.
//!
//! Nothing is allocated by a number in the text, and nothing that is read here can fail later. The encoding is described by
//! <https://github.com/HdrHistogram/HdrHistogram/blob/master/src/main/java/org/HdrHistogram/AbstractHistogram.java>.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::{Decompress, FlushDecompress, Status};

use crate::histogram_error::HistogramError;
use crate::latency_bounds::{HIGHEST_LATENCY_NS, MOST_LATENCIES};

/// Starts a compressed histogram: the V2 cookie with the size of its words.
const COMPRESSED: u32 = 0x1c84_9304 | 0x10;
/// Starts one that is not compressed.
const PLAIN: u32 = 0x1c84_9303 | 0x10;
/// Cookie, length, offset, digits, lowest and highest value, factor.
const HEADER_BYTES: usize = 40;
/// Significant digits of our histograms.
pub(crate) const DIGITS: u8 = 3;
/// Counters of a histogram of our bounds: 2048 for the first 2048 durations, 1024 for each further octave up to the one of
/// [`HIGHEST_LATENCY_NS`].
pub(crate) const MOST_COUNTS: usize = 32 * 1024;
/// Bytes that so many counts can take: nine each.
pub(crate) const MOST_BYTES: usize = HEADER_BYTES + 9 * MOST_COUNTS;
/// Characters that so many bytes can take where compressing made them no shorter.
pub(crate) const MOST_TEXT_BYTES: usize = 2 * MOST_BYTES;
/// Significant digits that any histogram can have.
const MOST_DIGITS: u32 = 5;

/// Decodes texts, with buffers that are used again.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    compressed: Vec<u8>,
    plain: Vec<u8>,
    inflater: Option<Decompress>,
    counts: Vec<(usize, u64)>,
}

/// A histogram's counts.
#[derive(Debug)]
pub(crate) struct Decoded<'a> {
    /// Index and count of each counter that is not 0, ascending.
    pub counts: &'a [(usize, u64)],
    /// What the indices mean.
    pub bounds: Bounds,
}

/// What a histogram tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    digits: u32,
    lowest: u64,
    highest: u64,
}

impl Bounds {
    /// Those of [`LatencyHistogram`](crate::LatencyHistogram).
    pub const OURS: Self = Self { digits: DIGITS as u32, lowest: 1, highest: HIGHEST_LATENCY_NS };

    /// The lowest duration that is counted at an index; `None` beyond all durations.
    pub fn value_at(self, index: usize) -> Option<u64> {
        // Half the counters of the first octaves, as a power of two: at least 10^digits of them.
        let half = (2 * 10_u64.pow(self.digits)).next_power_of_two().ilog2() - 1;
        let octave = index >> half;
        let within = (index & ((1 << half) - 1)) as u64;
        // The first half has a counter for each unit from 0 on; every other half begins anew at its middle.
        let (mantissa, shift) = match octave {
            0 => (within, 0),
            octave => (within + (1 << half), u32::try_from(octave - 1).ok()?),
        };
        let shift = shift.checked_add(self.lowest.ilog2())?;
        let value = mantissa.checked_shl(shift)?;
        (value >> shift == mantissa).then_some(value)
    }
}

impl Decoder {
    /// Reads a text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(&mut self, text: &str) -> Result<Decoded<'_>, HistogramError> {
        if text.len() > MOST_TEXT_BYTES {
            return Err(HistogramError::LongText(text.len()));
        }
        self.compressed.clear();
        BASE64.decode_vec(text, &mut self.compressed)?;
        let plain = if word(&self.compressed, 0) == Some(PLAIN) {
            &self.compressed
        } else {
            let inflater = self.inflater.get_or_insert_with(|| Decompress::new(true));
            inflater.reset(true);
            inflate(inflater, &self.compressed, &mut self.plain)?;
            &self.plain
        };
        let bounds = bounds_of(plain)?;
        let end = read_counts(body_of(plain, HEADER_BYTES, 4)?, &mut self.counts)?;
        if bounds == Bounds::OURS && end > MOST_COUNTS {
            return Err(HistogramError::ManyCounts(end));
        }
        Ok(Decoded { counts: &self.counts, bounds })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn long_word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// The bytes from `start` on, as many as the word at `length_at` says.
fn body_of(bytes: &[u8], start: usize, length_at: usize) -> Result<&[u8], HistogramError> {
    let length = word(bytes, length_at).and_then(|length| usize::try_from(length).ok());
    length.and_then(|length| bytes.get(start..)?.get(..length)).ok_or(HistogramError::Truncated)
}

fn inflate(inflater: &mut Decompress, compressed: &[u8], plain: &mut Vec<u8>) -> Result<(), HistogramError> {
    if word(compressed, 0) != Some(COMPRESSED) {
        return Err(HistogramError::OtherVersion);
    }
    let body = body_of(compressed, 8, 4)?;
    plain.clear();
    plain.reserve(16 << 10);
    loop {
        let read = usize::try_from(inflater.total_in()).unwrap_or(usize::MAX);
        let status = inflater
            // Not `Finish`, which takes the room that there is for all that is needed and fails for good without it.
            .decompress_vec(&body[read.min(body.len())..], plain, FlushDecompress::None)?;
        match status {
            Status::StreamEnd => return Ok(()),
            _ if plain.len() < plain.capacity() => return Err(HistogramError::Truncated),
            _ if plain.len() < MOST_BYTES => plain.reserve(plain.len()),
            _ => return Err(HistogramError::ManyBytes),
        }
    }
}

fn bounds_of(plain: &[u8]) -> Result<Bounds, HistogramError> {
    if word(plain, 0) != Some(PLAIN) {
        return Err(HistogramError::OtherVersion);
    }
    let header = || {
        let bounds = Bounds {
            digits: word(plain, 12)?,
            lowest: long_word(plain, 16)?,
            highest: long_word(plain, 24)?,
        };
        Some((word(plain, 8)?, bounds, f64::from_bits(long_word(plain, 32)?)))
    };
    let (offset, bounds, factor) = header().ok_or(HistogramError::Truncated)?;
    // Written so that a factor that is no number is refused.
    if offset != 0 || !(factor == 1.0) {
        return Err(HistogramError::Scaled { offset, factor });
    }
    if bounds.digits > MOST_DIGITS || bounds.lowest == 0 || bounds.highest / 2 < bounds.lowest {
        let Bounds { digits, lowest, highest } = bounds;
        return Err(HistogramError::Bounds { digits, lowest, highest });
    }
    Ok(bounds)
}

/// Counts are signed numbers of seven bits a byte, the last of nine bytes whole; a negative one is a run of zeros. Returns
/// the index after the last.
fn read_counts(mut bytes: &[u8], counts: &mut Vec<(usize, u64)>) -> Result<usize, HistogramError> {
    counts.clear();
    let mut index = 0_usize;
    let mut total = 0_u64;
    while let Some((value, rest)) = number(bytes) {
        bytes = rest;
        match u64::try_from(value) {
            Ok(0) => index = index.saturating_add(1),
            Ok(count) => {
                total = total.saturating_add(count);
                if total > MOST_LATENCIES {
                    return Err(HistogramError::ManyOperations);
                }
                // Not more than bytes, of which there are not more than [`MOST_BYTES`].
                counts.push((index, count));
                index = index.saturating_add(1);
            }
            Err(_) => {
                index = index.saturating_add(usize::try_from(value.unsigned_abs()).unwrap_or(usize::MAX));
            }
        }
    }
    if bytes.is_empty() { Ok(index) } else { Err(HistogramError::TruncatedNumber) }
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer as _, V2Serializer};
    use proptest::prelude::*;

    /// A histogram that is not compressed, with anything in its header, as base64.
    pub(crate) fn crafted(length: u32, bounds: (u32, u64, u64), factor: f64, body: &[u8]) -> String {
        let mut bytes = PLAIN.to_be_bytes().to_vec();
        bytes.extend(length.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(bounds.0.to_be_bytes());
        bytes.extend(bounds.1.to_be_bytes());
        bytes.extend(bounds.2.to_be_bytes());
        bytes.extend(factor.to_be_bytes());
        bytes.extend(body);
        BASE64.encode(bytes)
    }

    /// The same, compressed.
    pub(crate) fn compressed(plain: &str) -> String {
        use std::io::Write as _;
        let mut body = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        body.write_all(&BASE64.decode(plain).unwrap()).unwrap();
        let body = body.finish().unwrap();
        let length = u32::try_from(body.len()).unwrap();
        BASE64.encode([&COMPRESSED.to_be_bytes()[..], &length.to_be_bytes(), &body].concat())
    }

    #[test]
    fn a_histogram_of_our_bounds_has_as_many_counters_as_are_read() {
        let ours: Histogram<u64> = Histogram::new_with_bounds(1, HIGHEST_LATENCY_NS, DIGITS).unwrap();
        assert_eq!(ours.distinct_values(), MOST_COUNTS);
        assert_eq!(Bounds::OURS.value_at(MOST_COUNTS - 1), Some(2047 << 30));
        assert_eq!(Bounds { digits: 0, lowest: 1, highest: 2 }.value_at(usize::MAX), None);
    }

    #[test]
    fn a_text_that_unpacks_to_more_than_a_histogram_can_have_is_refused() {
        let ours = (3, 1, HIGHEST_LATENCY_NS);
        let bomb = compressed(&crafted(8 << 20, ours, 1.0, &vec![0; 8 << 20]));
        assert!(bomb.len() < MOST_TEXT_BYTES);
        let mut decoder = Decoder::default();
        let error = decoder.decode(&bomb).unwrap_err();
        assert_eq!(error.to_string(), "the histogram has over 294952 bytes");
        assert!(decoder.plain.capacity() <= 4 * MOST_BYTES, "{}", decoder.plain.capacity());
        let longer = decoder.decode(&"A".repeat(MOST_TEXT_BYTES + 1)).unwrap_err();
        assert!(matches!(longer, HistogramError::LongText(589_905)), "{longer}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn counts_are_found_at_the_durations_they_were_counted_at(
            (digits, lowest) in (0_u8..4, 1_u64..5_000),
            counted in prop::collection::vec((0_u64..1 << 40, 1_u64..1 << 40), 0..30),
        ) {
            let mut histogram: Histogram<u64> =
                Histogram::new_with_bounds(lowest, HIGHEST_LATENCY_NS, digits).unwrap();
            counted.iter().for_each(|(ns, count)| histogram.saturating_record_n(*ns, *count));
            let mut bytes = Vec::new();
            V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
            let plain = BASE64.encode(bytes);
            for text in [compressed(&plain), plain] {
                let mut decoder = Decoder::default();
                let decoded = decoder.decode(&text).unwrap();
                for (index, count) in decoded.counts {
                    let value = decoded.bounds.value_at(*index).unwrap();
                    prop_assert_eq!(histogram.lowest_equivalent(value), value);
                    prop_assert_eq!(histogram.count_at(value), *count);
                }
                let all: u64 = decoded.counts.iter().map(|(_, count)| count).sum();
                prop_assert_eq!(all, histogram.len());
            }
        }

        #[test]
        fn no_text_is_too_hostile(text in "\\PC{0,60}", mut bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut decoder = Decoder::default();
            let _ = decoder.decode(&text);
            let _ = decoder.decode(&BASE64.encode(&bytes));
            let _ = read_counts(&bytes, &mut Vec::new());
            bytes.splice(0..0, COMPRESSED.to_be_bytes());
            let _ = decoder.decode(&BASE64.encode(&bytes));
        }
    }
}
