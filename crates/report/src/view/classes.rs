//! What the bytes of a layer are for.

use nestor_layout::Class;
use nestor_trace::LayerMetrics;
use nestor_trace::metrics::ClassMetrics;
use serde::Serialize;

use crate::units;

/// The bytes of a layer that are for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClassShare {
    /// The purpose.
    pub class: Class,
    /// Requests of which most bytes are for it.
    pub requests: u64,
    /// Bytes read and written for it.
    pub bytes: u64,
    /// Of all bytes of the layer, 0 to 1.
    pub share: f64,
    /// Of the bytes, those at places where nothing was any more when the layout was read.
    pub deleted_bytes: u64,
}

/// What a class is called where people read it.
pub fn class_words(class: Class) -> &'static str {
    match class {
        Class::Unknown => "not classified",
        Class::Free => "unused space",
        class => class.label(),
    }
}

/// What a class is called in the last column of a narrow table.
fn short_words(class: Class) -> &'static str {
    match class {
        Class::Inode => "inodes",
        Class::Directory => "directories",
        Class::AllocationMap => "maps",
        Class::ExtentMap => "extent maps",
        class => class_words(class),
    }
}

/// The classes of a layer that have bytes, in the order of their numbers, which ends with those of no known class.
pub(super) fn shares(metrics: &LayerMetrics) -> Vec<ClassShare> {
    let whole: u64 = metrics.classes.values().map(ClassMetrics::bytes).sum();
    let with_bytes = metrics.classes.iter().filter(|(_, class)| class.bytes() > 0);
    with_bytes
        .map(|(class, counts)| ClassShare {
            class: *class,
            requests: counts.requests,
            bytes: counts.bytes(),
            share: counts.bytes() as f64 / whole.max(1) as f64,
            deleted_bytes: counts.deleted_bytes,
        })
        .collect()
}

/// What is not contents of files, the largest first: `journal 14.0 MiB, inodes 3.1 MiB, maps 1.0 MiB`. What is less than a thousandth is left out, but never that something was not classified.
pub(super) fn extra_words(shares: &[ClassShare]) -> Option<String> {
    let mut extra: Vec<&ClassShare> = shares
        .iter()
        .filter(|s| !s.class.is_data() && (s.share >= 0.001 || s.class == Class::Unknown))
        .collect();
    extra.sort_by_key(|s| std::cmp::Reverse(s.bytes));
    // Each with its unit: a bare number would be read as a count.
    let words = extra.iter().map(|s| format!("{} {}", short_words(s.class), units::bytes(s.bytes)));
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join(", "))
}
