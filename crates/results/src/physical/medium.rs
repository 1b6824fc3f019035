//! The medium of a run: what it is, what it can do and what it did.

use nestor_disk::{HddProfile, Medium, Profile};
use nestor_stack::{DeviceKind, MediumClass, MediumKind, Stack};
use nestor_text::units;
use nestor_trace::{LayerMetrics, TracePoint};

use super::limits::Limits;
use crate::Environment;
use crate::record::Measured;
use crate::{checks, medium_profile};

/// What is known of a medium.
pub(super) struct MediumFacts<'a> {
    /// What it did: its own log, or the block device in front of it.
    pub metrics: Option<&'a LayerMetrics>,
    /// What it can do at best, where that is known.
    pub limits: Option<Limits>,
    /// Whether it answers writes before they are on stable storage; `None` where that is not known.
    pub write_cache: Option<bool>,
    profile: Option<&'static Profile>,
    /// The class of a medium of the user's, as its kernel said when the stack was built.
    class: Option<MediumClass>,
    /// Whether it is a file of the user's.
    is_file: bool,
    /// Its name in the stack.
    layer: Option<&'a str>,
}

impl<'a> MediumFacts<'a> {
    /// Of a run. `stack` is `None` where its notation is no longer understood.
    pub fn of(stack: Option<&Stack>, measured: &'a Measured, environment: &Environment) -> Self {
        let profile = stack.and_then(|stack| medium_profile(stack).ok().flatten());
        let user_medium = environment.known_user_medium().filter(|_| profile.is_none());
        let class = user_medium.map(|medium| medium.class);
        let last = measured.layers.last();
        // A medium of the user's has no log of its own; then the device above it, in the same machine, is the last that
        // is seen.
        let traced = checks::traced_below_application(measured).last();
        let metrics = traced.filter(|(layer, m)| {
            let at_medium = m.trace_point == TracePoint::DiskLog;
            at_medium || last.is_some_and(|l| l.machine == layer.machine)
        });
        Self {
            metrics: metrics.map(|(_, m)| m),
            limits: profile.map_or_else(|| class.and_then(Limits::of_class), Limits::of_profile),
            write_cache: match profile {
                Some(profile) => write_cache(stack, profile),
                None => user_medium.and_then(|medium| medium.write_cache),
            },
            profile,
            class,
            is_file: stack.is_some_and(|stack| {
                matches!(stack.medium().medium_kind(), Some(MediumKind::File | MediumKind::Directory))
            }),
            layer: last.map(|l| l.layer.as_str()).filter(|_| measured.layers.len() > 1),
        }
    }

    /// Whether the medium itself was recorded. Nothing records the file system that holds a user's file, nor the
    /// machine that provides a virtual disk.
    pub fn is_seen(&self) -> bool {
        self.metrics.is_some() && !self.is_file && !self.is_virtual()
    }

    fn is_virtual(&self) -> bool {
        self.class.is_some_and(|class| class.kind == DeviceKind::Virtual)
    }

    /// What was seen of it.
    pub fn words(&self) -> String {
        match self.metrics {
            Some(metrics) if self.is_seen() => self.at_work(metrics),
            Some(_) if self.is_virtual() => {
                format!("nothing was recorded behind the {}", self.name())
            }
            Some(_) => format!("nothing was recorded below the {}", self.name()),
            None => "nothing was recorded at the medium".to_owned(),
        }
    }

    /// `disk (wd-7200-1tb)`, or as the stack calls it: `medium (dev:/dev/sdb, hard disk of 7200 rpm)`.
    pub fn name(&self) -> String {
        match (self.profile, self.layer) {
            (Some(profile), _) => format!("disk ({})", profile.name),
            (None, Some(layer)) => match self.class {
                Some(class) if class.kind == DeviceKind::Unknown => {
                    format!("medium ({layer}, of unknown class)")
                }
                Some(class) => format!("medium ({layer}, {class})"),
                None => format!("medium ({layer})"),
            },
            (None, None) => "medium".to_owned(),
        }
    }

    /// Whether it is modelled without timing.
    pub fn takes_no_time(&self) -> bool {
        self.profile.is_some_and(|p| p.medium == Medium::Null)
    }

    /// Random 4 KiB reads a second, one at a time: of a hard disk 1 over mean seek, half a revolution and overhead (the
    /// transfer is below a tenth of a millisecond); of an array each request goes to one disk.
    fn random_reads_per_s(&self) -> Option<f64> {
        let random_reads = |hdd: &HddProfile| {
            let turn_ms = 60e3 / hdd.rpm.value();
            1e3 / (hdd.average_seek_ms.value() + turn_ms / 2.0 + hdd.command_overhead_us.value() / 1e3)
        };
        match &self.profile?.medium {
            Medium::Null => None,
            Medium::Hdd(hdd) => Some(random_reads(hdd)),
            Medium::Array(raid) => Some(random_reads(&raid.member)),
            Medium::Ssd(ssd) => Some(ssd.read_iops_1.value()),
        }
    }

    /// Share of the time that the arm of a modelled hard disk was at work, 0 to 1. Array and flash work on several requests at once,
    /// so the sum of their times is not a share.
    pub fn busy_share(&self) -> Option<f64> {
        let metrics = self.metrics.filter(|m| m.span_s > 0.0)?;
        let is_one_disk = self.profile.is_some_and(|p| matches!(p.medium, Medium::Hdd(_)));
        let arms = metrics.arm_work().filter(|_| is_one_disk)?;
        Some((arms.busy_s() / metrics.span_s).min(1.0))
    }

    /// `304 requests/s on a disk (wd-7200-1tb) that does 75 random reads a second one at a time, 40 % sequential`.
    fn at_work(&self, metrics: &LayerMetrics) -> String {
        let rate = if metrics.span_s > 0.0 { metrics.issued() as f64 / metrics.span_s } else { 0.0 };
        let mut words = format!("{rate:.0} requests/s on a {}", self.name());
        if let Some(random) = self.random_reads_per_s() {
            words += &format!(" that does {random:.0} random reads a second one at a time");
        }
        if let Some(sequential) = metrics.sequential_share {
            words += &format!(", {} sequential", units::percent(sequential));
        }
        if let Some(service) = metrics.service.filter(|s| s.cache_hits > 0 && metrics.issued() > 0) {
            let share = (service.cache_hits as f64 / metrics.issued() as f64).min(1.0);
            words += &format!(", {} in its own cache", units::percent(share));
        }
        if let Some(busy) = self.busy_share() {
            words += &format!(", arm and platters busy {}", units::percent(busy));
        }
        words
    }
}

/// Whether a modelled disk answers writes from its buffer: as the stack says, else as its profile has it.
fn write_cache(stack: Option<&Stack>, profile: &Profile) -> Option<bool> {
    let given = stack.and_then(|stack| stack.layers().last()?.modelled_disk()?.write_cache);
    let usual = |hdd: &HddProfile| Some(hdd.write_cache.value() != 0.0);
    given.or_else(|| match &profile.medium {
        Medium::Hdd(hdd) => usual(hdd),
        Medium::Array(raid) => usual(&raid.member),
        Medium::Ssd(_) | Medium::Null => None,
    })
}
