//! Why figures of a disk make no model.

/// Why figures of a disk make no model.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum FiguresError {
    /// Something that turns is missing.
    #[error("a disk needs heads, zones and a rotation")]
    NothingTurns,
    /// Rates rise inwards.
    #[error("inner tracks cannot be faster than outer ones")]
    RatesRiseInwards,
    /// An inner track is empty.
    #[error("at these rates no sector fits on an inner track")]
    EmptyTrack,
    /// More than an arm can count.
    #[error("too many cylinders")]
    TooManyCylinders,
    /// A longer way is not slower.
    #[error("seeks of {single_ms}, {average_ms} and {full_ms} ms do not grow with the distance")]
    SeeksDoNotGrow {
        /// Over one cylinder.
        single_ms: f64,
        /// In the mean.
        average_ms: f64,
        /// Over all cylinders.
        full_ms: f64,
    },
    /// No curve of the model's form has this average.
    #[error(
        "an average seek of {average_ms} ms does not fit {single_ms} ms for one cylinder and {full_ms} ms \
         for all; it must be between {least_ms:.2} and {most_ms:.2} ms"
    )]
    AverageSeek {
        /// Over one cylinder.
        single_ms: f64,
        /// The average that does not fit.
        average_ms: f64,
        /// Over all cylinders.
        full_ms: f64,
        /// The smallest average that would.
        least_ms: f64,
        /// The largest average that would.
        most_ms: f64,
    },
    /// Flash without anything to write to.
    #[error("a flash disk needs dies and pages")]
    NoFlash,
    /// An array without chunks, or with fewer disks than its layout takes.
    #[error("an array needs disks and chunks")]
    ArrayTooSmall,
}
