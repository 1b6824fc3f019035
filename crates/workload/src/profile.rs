//! A load in a few numbers: what was observed of an application, in a small file that can be read, run and predicted from.
//!
//! `nestor characterize` writes it. [`Profile::workload`] is a closed load of fio that behaves alike: so many workers, each with
//! its requests and its think time between them, as the ESX study modelled a mail server (Ahmad et al., WWC 2003, §5.2).

use serde::{Deserialize, Serialize};

use crate::{Value, Workload, WorkloadError};

/// What the load of a profile is made of.
const LOAD: &str = "iometer:mail";

/// Upper limit for the think time between two requests.
pub const LONGEST_THINK_MS: f64 = 6e4;

/// A profile's load on a longer file than this is not run unless its size is named: laying it out takes minutes, and room.
pub const LARGEST_UNNAMED_FILE_BYTES: u64 = 8 << 30;

/// What was observed of a load. Shares are from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Profile {
    /// A name for lists.
    pub name: String,
    /// Where it was observed, in words: a device, a process, a trace.
    #[serde(default)]
    pub observed_on: String,
    /// What is asked for.
    pub requests: Requests,
    /// Who asks, and how much at once.
    pub concurrency: Concurrency,
    /// How fast it was there.
    pub rates: Rates,
    /// What it used of the processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<Processor>,
    /// What does not fit into these numbers, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// What requests are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Requests {
    /// Share of requests that read.
    pub read_share: f64,
    /// Share of requests that do not go on where an earlier one ended.
    pub random_share: f64,
    /// Mean size in bytes.
    pub mean_bytes: f64,
    /// Sizes with the share of requests that have them, the most frequent first; they add up to 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<SizeShare>,
    /// Flushes, and writes that wait for the medium, as a share of the writes.
    #[serde(default)]
    pub flush_share: f64,
    /// Bytes that were touched while it was observed, each counted once.
    pub working_set_bytes: u64,
    /// How far apart they are: from the offset that 2 % of the requests are below to the one that 2 % are above.
    #[serde(default)]
    pub span_bytes: u64,
}

/// A size and how many of the requests have it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeShare {
    /// Size in bytes.
    pub bytes: u64,
    /// Share of the requests.
    pub share: f64,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Concurrency {
    /// Workers that each have one request at a time.
    pub workers: u32,
    /// Milliseconds that a worker does something else between requests, mean.
    pub think_ms: f64,
    /// Requests under way, mean over the time.
    pub outstanding: f64,
    /// Variance over mean of the requests that came in each second: 1 by chance, 0 in step, more in bursts.
    #[serde(default)]
    pub burstiness: f64,
}

/// How fast it was where it was observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rates {
    /// Seconds that it was observed.
    pub seconds: f64,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean time of a request in milliseconds.
    pub response_ms: f64,
    /// Its 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_p99_ms: Option<f64>,
    /// What the application itself counts, per second, if that is known: transactions, messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_per_s: Option<f64>,
}

/// Shares of one processor: 2 is two whole processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Processor {
    /// In the application's own code.
    pub user: f64,
    /// In the kernel for it.
    pub system: f64,
}

/// A file that is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// It is not TOML, or has other fields.
    #[error("{0}")]
    Unreadable(String),
    /// A number that cannot be.
    #[error("{field} is {found}; it must be {wanted}")]
    Impossible {
        /// The field, as in the file.
        field: &'static str,
        /// What stands there.
        found: String,
        /// What could.
        wanted: &'static str,
    },
}

/// Sizes that a load of fio gets: further ones are counted with the nearest of these.
const MOST_SIZES: usize = 16;
/// O_DIRECT needs whole sectors.
const SECTOR_BYTES: u64 = 512;
/// A smaller file would be in a disk's own cache.
const SMALLEST_FILE_BYTES: u64 = 64 << 20;
/// No disk is larger.
const LARGEST_FILE_BYTES: u64 = 1 << 56;
/// Seconds that a load runs unless it is told otherwise.
const RUN_S: f64 = 10.0;
/// More workers than fio's load has.
const MOST_WORKERS: u32 = 256;

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// When the text is not one, or says what cannot be.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text).map_err(|e| ProfileError::Unreadable(e.to_string()))?;
        profile.check()?;
        Ok(profile)
    }

    /// The profile as a file's text.
    pub fn to_toml(&self) -> String {
        // Nothing in it has no form in TOML.
        toml::to_string_pretty(self).unwrap_or_default()
    }

    fn check(&self) -> Result<(), ProfileError> {
        let r = &self.requests;
        for (field, share) in [
            ("requests.read-share", r.read_share),
            ("requests.random-share", r.random_share),
            ("requests.flush-share", r.flush_share),
        ] {
            ensure(field, share, "a share from 0 to 1", (0.0..=1.0).contains(&share))?;
        }
        ensure(
            "requests.mean-bytes",
            r.mean_bytes,
            "at least 1",
            r.mean_bytes >= 1.0 && r.mean_bytes < 1e12,
        )?;
        for size in &r.sizes {
            ensure(
                "a size's bytes",
                size.bytes as f64,
                "from 1 to 1 GiB",
                (1..=1 << 30).contains(&size.bytes),
            )?;
            ensure("a size's share", size.share, "a share from 0 to 1", (0.0..=1.0).contains(&size.share))?;
        }
        let c = &self.concurrency;
        ensure("concurrency.workers", f64::from(c.workers), "at least 1", c.workers >= 1)?;
        ensure(
            "concurrency.think-ms",
            c.think_ms,
            "from 0 to 60 000",
            (0.0..=LONGEST_THINK_MS).contains(&c.think_ms),
        )?;
        ensure("concurrency.outstanding", c.outstanding, "0 or more", c.outstanding >= 0.0)?;
        let rates = &self.rates;
        for (field, rate) in [
            ("rates.seconds", rates.seconds),
            ("rates.requests-per-s", rates.requests_per_s),
            ("rates.response-ms", rates.response_ms),
        ] {
            ensure(field, rate, "more than 0", rate > 0.0 && rate.is_finite())?;
        }
        Ok(())
    }

    /// The sizes of a load that behaves alike: whole sectors, at most sixteen, with whole weights.
    pub fn weighted_sizes(&self) -> Vec<(u64, u64)> {
        let sectors = |bytes: f64| ((bytes / SECTOR_BYTES as f64).round() as u64).max(1) * SECTOR_BYTES;
        let mut sizes: Vec<SizeShare> = self.requests.sizes.clone();
        if sizes.is_empty() {
            return vec![(sectors(self.requests.mean_bytes), 1)];
        }
        sizes.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.bytes.cmp(&b.bytes)));
        let (kept, others) = sizes.split_at(sizes.len().min(MOST_SIZES));
        let mut weights: std::collections::BTreeMap<u64, f64> = std::collections::BTreeMap::new();
        for size in kept {
            *weights.entry(sectors(size.bytes as f64)).or_default() += size.share;
        }
        for size in others {
            let wanted = sectors(size.bytes as f64);
            let nearest = weights.keys().copied().min_by_key(|known| known.abs_diff(wanted));
            *weights.entry(nearest.unwrap_or(wanted)).or_default() += size.share;
        }
        let total: f64 = weights.values().sum();
        weights
            .into_iter()
            .map(|(bytes, share)| (bytes, ((share / total * 1000.0).round() as u64).max(1)))
            .collect()
    }

    /// The sizes with their shares; none where only the mean is known.
    pub fn weighted_shares(&self) -> Vec<(u64, f64)> {
        self.requests.sizes.iter().map(|size| (size.bytes, size.share)).collect()
    }

    /// A file as long as the requests are apart, so that seeks are as long.
    pub fn file_bytes(&self) -> u64 {
        const WHOLE: u64 = 1 << 20;
        let bytes = self.requests.span_bytes.max(self.requests.working_set_bytes).max(SMALLEST_FILE_BYTES);
        bytes.min(LARGEST_FILE_BYTES).div_ceil(WHOLE) * WHOLE
    }

    /// Requests for four times the rate of the observation; a run that ends for want of requests is none.
    fn operations(&self) -> u64 {
        let wanted = (self.rates.requests_per_s * 4.0 * RUN_S).ceil();
        (wanted as u64).clamp(20_000, 1_000_000)
    }

    /// The same load as a workload of Nestor, on a file of `file_bytes`.
    ///
    /// # Errors
    ///
    /// The file is larger than a workload's may be.
    pub fn workload(&self, file_bytes: u64) -> Result<Workload, WorkloadError> {
        let per_cent = |share: f64| Value::Count((share * 100.0).round() as u64);
        let sizes = self.weighted_sizes();
        let largest = sizes.iter().map(|(bytes, _)| *bytes).max().unwrap_or(SECTOR_BYTES);
        let sizes = match sizes.as_slice() {
            [(bytes, _)] => ("bs", Value::Bytes(*bytes)),
            _ => ("sizes", Value::Sizes(sizes)),
        };
        Workload::parse(LOAD)?.with([
            sizes,
            ("read", per_cent(self.requests.read_share)),
            ("random", per_cent(self.requests.random_share)),
            ("workers", Value::Count(self.model_workers().into())),
            ("think", Value::Milliseconds(thousandths(self.concurrency.think_ms))),
            ("size", Value::Bytes(file_bytes.max(largest))),
            ("operations", Value::Count(self.operations())),
        ])
    }

    /// Workers of that workload: those of the profile, up to the engine's limit.
    pub fn model_workers(&self) -> u32 {
        self.concurrency.workers.min(MOST_WORKERS)
    }
}

fn ensure(field: &'static str, found: f64, wanted: &'static str, holds: bool) -> Result<(), ProfileError> {
    if holds { Ok(()) } else { Err(ProfileError::Impossible { field, found: found.to_string(), wanted }) }
}

/// The nearest whole number of thousandths, as a decimal with three places is rounded: exactly, where a product of floating-point numbers
/// would round before.
fn thousandths(value: f64) -> u64 {
    let digits: String = format!("{value:.3}").chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The mail server of the ESX study (table 3, §5.2).
    fn mail() -> Profile {
        Profile {
            name: "mail".to_owned(),
            requests: Requests {
                read_share: 0.64,
                random_share: 1.0,
                mean_bytes: 10_990.0,
                working_set_bytes: 512 << 20,
                ..Requests::default()
            },
            concurrency: Concurrency { workers: 50, think_ms: 50.0, outstanding: 9.5, burstiness: 1.0 },
            rates: Rates {
                seconds: 180.0,
                requests_per_s: 792.0,
                bytes_per_s: 8.5e6,
                response_ms: 12.0,
                ..Rates::default()
            },
            ..Profile::default()
        }
    }

    #[test]
    fn the_file_is_small_and_reads_as_it_was_written() {
        let text = mail().to_toml();
        assert!(text.lines().count() < 30, "{text}");
        assert_eq!(Profile::parse(&text).unwrap(), mail());
    }

    #[test]
    fn it_becomes_a_workload() {
        let workload = mail().workload(512 << 20).unwrap();
        let written =
            "iometer:mail:bs=10752:read=64:random=100:workers=50:think=50:size=536870912:operations=31680";
        assert_eq!(workload, Workload::parse(written).unwrap());
    }

    #[test]
    fn sizes_are_whole_sectors_and_few() {
        let mut profile = mail();
        let size = |bytes, share| SizeShare { bytes, share };
        profile.requests.sizes = vec![size(4096, 0.5), size(8000, 0.3), size(8192, 0.1), size(100, 0.1)];
        assert_eq!(profile.weighted_sizes(), [(512, 100), (4096, 500), (8192, 400)]);
        let workload = profile.workload(1 << 30).unwrap();
        assert!(workload.to_string().contains(":sizes=512/100+4k/500+8k/400:"), "{workload}");
        profile.requests.sizes = (1..100).map(|i| size(i * 512, 0.01)).collect();
        assert_eq!(profile.weighted_sizes().len(), MOST_SIZES);
    }

    #[test]
    fn a_think_time_of_minus_zero_is_none() {
        let mut profile = mail();
        profile.concurrency.think_ms = -0.0;
        let think = |profile: &Profile| profile.workload(1 << 30).unwrap().value("think");
        assert_eq!(think(&profile), Some(Value::Milliseconds(0)));
        profile.concurrency.think_ms = 43.1334;
        assert_eq!(think(&profile), Some(Value::Milliseconds(43_133)));
    }

    proptest! {
        #[test]
        fn what_is_read_also_runs(
            (read, random, mean) in (edges(1.0), edges(1.0), 1.0..1e12_f64),
            sizes in proptest::collection::vec((1_u64..=1 << 30, edges(1.0)), 0..40),
            (workers, think) in (1..=u32::MAX, edges(LONGEST_THINK_MS)),
            (rate, span) in (f64::MIN_POSITIVE..f64::MAX, any::<u64>()),
        ) {
            let mut profile = mail();
            let r = &mut profile.requests;
            (r.read_share, r.random_share, r.mean_bytes, r.span_bytes) = (read, random, mean, span);
            r.sizes = sizes.into_iter().map(|(bytes, share)| SizeShare { bytes, share }).collect();
            (profile.concurrency.workers, profile.concurrency.think_ms) = (workers, think);
            profile.rates.requests_per_s = rate;
            let read = Profile::parse(&profile.to_toml()).unwrap();
            let workload = read.workload(read.file_bytes()).unwrap();
            prop_assert_eq!(Workload::parse(&workload.to_string()).unwrap(), workload);
        }
    }

    /// From 0 to `largest`; both ends, either zero and what is just above it more often than by chance.
    fn edges(largest: f64) -> impl Strategy<Value = f64> {
        prop_oneof![Just(-0.0), Just(0.0), Just(f64::MIN_POSITIVE), Just(largest), 0.0..=largest]
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |change: fn(&mut Profile)| {
            let mut profile = mail();
            change(&mut profile);
            Profile::parse(&profile.to_toml()).unwrap_err().to_string()
        };
        assert_eq!(
            refused(|p| p.requests.read_share = 1.5),
            "requests.read-share is 1.5; it must be a share from 0 to 1"
        );
        assert_eq!(refused(|p| p.concurrency.workers = 0), "concurrency.workers is 0; it must be at least 1");
        assert_eq!(
            refused(|p| p.rates.requests_per_s = 0.0),
            "rates.requests-per-s is 0; it must be more than 0"
        );
        assert!(Profile::parse("name = 'x'").unwrap_err().to_string().contains("missing field `requests`"));
        assert!(Profile::parse("nmae = 'x'").unwrap_err().to_string().contains("nmae"));
    }
}
