//! From how many bytes read on an image that was copied is the better one.

use nestor_statistics::summary::CONFIDENCE;
use nestor_statistics::{CrossingSet, Interval, crossing_apart};
use serde::Serialize;

use super::Way;
use super::lines::{Lines, beyond};

/// Whose whole life is the shorter one, by what the instance reads of its image.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CrossOver {
    /// The image is left at the repository.
    pub overlay: Way,
    /// The image is copied.
    pub copy: Way,
    /// The workload that reads, without its size.
    pub pattern: String,
    /// Which is done earlier.
    #[serde(flatten)]
    pub earlier: Earlier,
}

/// Which of the two is done earlier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "earlier")]
pub enum Earlier {
    /// The overlay, if the instance reads less than that; if more, the copy.
    OverlayBelow {
        /// The bytes.
        bytes: f64,
        /// Their 95 % interval.
        interval: Interval,
        /// How many times further than measured that is, where it is more than twice.
        extrapolated: Option<f64>,
    },
    /// The copy, if the instance reads less than that; if more, the overlay.
    CopyBelow {
        /// The bytes.
        bytes: f64,
        /// Their 95 % interval.
        interval: Interval,
        /// How many times further than measured that is, where it is more than twice.
        extrapolated: Option<f64>,
    },
    /// The overlay, whatever the instance reads.
    Overlay {
        /// Below so many bytes read the two are not told apart; 0 if they always are.
        told_apart_from_bytes: f64,
    },
    /// The copy, whatever the instance reads.
    Copy {
        /// Below so many bytes read the two are not told apart; 0 if they always are.
        told_apart_from_bytes: f64,
    },
    /// Not known: it was measured with fewer than three sizes of images or of reads.
    TooFewSizes,
    /// Not known: how much longer a life takes for each byte read is not told apart.
    SlopesNotToldApart,
}

/// The lines of one way.
pub(super) struct LifeLines<'a> {
    pub way: &'a Way,
    /// Over the image's size.
    pub transfer: &'a Lines<'a>,
    /// Over the bytes read.
    pub rest: &'a Lines<'a>,
}

impl CrossOver {
    /// Of an image of that size.
    pub(super) fn of(overlay: &LifeLines<'_>, copy: &LifeLines<'_>, pattern: &str, image_bytes: f64) -> Self {
        Self {
            overlay: overlay.way.clone(),
            copy: copy.way.clone(),
            pattern: pattern.to_owned(),
            earlier: earlier(overlay, copy, image_bytes).unwrap_or(Earlier::TooFewSizes),
        }
    }
}

/// `None` with too few sizes.
fn earlier(overlay: &LifeLines<'_>, copy: &LifeLines<'_>, image_bytes: f64) -> Option<Earlier> {
    let (left, copied) = (overlay.rest.of_seconds()?, copy.rest.of_seconds()?);
    let head = overlay.transfer.mean_at(image_bytes)?.minus(copy.transfer.mean_at(image_bytes)?);
    let crossing = crossing_apart(left, copied, head, CONFIDENCE);
    let CrossingSet::Within(interval) = crossing.may_be? else {
        return Some(Earlier::SlopesNotToldApart);
    };
    let is_overlay_steeper = left.slope() > copied.slope();
    let bytes = crossing.at?;
    if bytes <= 0.0 {
        let told_apart_from_bytes = interval.high.max(0.0);
        return Some(match is_overlay_steeper {
            true => Earlier::Copy { told_apart_from_bytes },
            false => Earlier::Overlay { told_apart_from_bytes },
        });
    }
    let interval = Interval { low: interval.low.max(0.0), ..interval };
    let ranges = [overlay.rest.range(bytes)?, copy.rest.range(bytes)?];
    let extrapolated = ranges
        .iter()
        .filter_map(|range| beyond(range.smallest_bytes, range.largest_bytes, bytes))
        .reduce(f64::max);
    Some(match is_overlay_steeper {
        true => Earlier::OverlayBelow { bytes, interval, extrapolated },
        false => Earlier::CopyBelow { bytes, interval, extrapolated },
    })
}
