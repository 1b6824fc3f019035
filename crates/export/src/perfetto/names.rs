//! Texts that many slices share: each is written once on a sequence, with a number that stands for it from then on.

use nestor_correlate::Origin;
use nestor_layout::Class;
use nestor_trace::event::Flags;
use nestor_trace::{Operation, Request};

use super::fields::{annotation, event, interned, packet};
use super::proto::Message;
use crate::trace::Row;
use crate::words;

/// Numbers of interned texts are below this in each of the tables.
const MOST: usize = 160;
/// Where origins and flags begin among the texts of annotations; classes come before.
const ORIGINS: u64 = 32;
const FLAGS: u64 = 64;

/// The annotations of a slice; their numbers are their places here, from 1.
const ANNOTATIONS: [&str; 10] =
    ["id", "offset", "bytes", "queued_for_ns", "served_for_ns", "bios", "pid", "class", "origin", "flags"];

/// What has been written on a sequence.
#[derive(Debug)]
pub(super) struct Names {
    seen: [[bool; MOST]; 3],
    annotations_written: bool,
}

impl Default for Names {
    fn default() -> Self {
        Self { seen: [[false; MOST]; 3], annotations_written: false }
    }
}

/// A slice's texts by their numbers; they are the same on every sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct SliceTexts {
    name: u64,
    category: u64,
    class: u64,
    origin: Option<u64>,
    flags: Option<u64>,
}

fn flag_bits(flags: Flags) -> u64 {
    let all = [Flags::FLUSH, Flags::FUA, Flags::SYNC, Flags::META, Flags::AHEAD, Flags::PASSTHROUGH];
    all.iter().enumerate().map(|(bit, flag)| u64::from(flags.contains(*flag)) << bit).sum()
}

fn origin_number(origin: Origin) -> u64 {
    ORIGINS + origin as u64
}

impl SliceTexts {
    fn of(row: &Row<'_>) -> Self {
        let (operation, class) = (row.request.operation as u64, row.request.class as u64);
        let flags = flag_bits(row.request.flags);
        Self {
            name: 1 + operation * 16 + class,
            category: 1 + row.origin.map_or(0, |origin| 1 + origin as u64),
            class: 1 + class,
            origin: row.origin.map(origin_number),
            flags: (flags > 0).then_some(FLAGS + flags),
        }
    }
}

impl Names {
    /// Writes the texts of a slice that are new on this sequence, and what numbers the slice's texts have.
    pub(super) fn introduce(&mut self, row: &Row<'_>, message: &mut Message) -> SliceTexts {
        let texts = SliceTexts::of(row);
        let Self { seen: [names, categories, strings], annotations_written } = self;
        let is_new =
            |seen: &mut [bool; MOST], number: u64| !std::mem::replace(&mut seen[number as usize], true);
        let mut new: Vec<(u32, u64, String)> = Vec::new();
        if is_new(names, texts.name) {
            new.push((interned::NAMES, texts.name, slice_name(&row.request)));
        }
        if is_new(categories, texts.category) {
            let category = row.origin.map_or("request", words::origin);
            new.push((interned::CATEGORIES, texts.category, category.to_owned()));
        }
        if is_new(strings, texts.class) {
            new.push((interned::ANNOTATION_STRINGS, texts.class, row.request.class.name().to_owned()));
        }
        if let (Some(number), Some(origin)) = (texts.origin, row.origin)
            && is_new(strings, number)
        {
            new.push((interned::ANNOTATION_STRINGS, number, words::origin(origin).to_owned()));
        }
        if let Some(number) = texts.flags.filter(|number| is_new(strings, *number)) {
            new.push((interned::ANNOTATION_STRINGS, number, words::flags(row.request.flags)));
        }
        if !std::mem::replace(annotations_written, true) {
            let numbered = ANNOTATIONS.iter().zip(1..);
            new.extend(
                numbered.map(|(name, number)| (interned::ANNOTATION_NAMES, number, (*name).to_owned())),
            );
        }
        if !new.is_empty() {
            message.message(packet::INTERNED_DATA, |data| {
                for (table, number, text) in &new {
                    data.message(*table, |entry| {
                        entry.number(interned::IID, *number);
                        entry.text(interned::TEXT, text);
                    });
                }
            });
        }
        texts
    }
}

/// What stands on a slice, and what viewers colour it by: operation and class.
fn slice_name(request: &Request) -> String {
    let operation = words::operation(request.operation);
    match request.class {
        Class::Unknown => operation.to_owned(),
        Class::Flush if request.operation == Operation::Flush => operation.to_owned(),
        class => format!("{operation} {}", class.label()),
    }
}

/// Writes a slice's name, category and annotations.
pub(super) fn write_slice(texts: SliceTexts, request: &Request, event: &mut Message) {
    event.number(event::NAME_IID, texts.name);
    event.number(event::CATEGORY_IIDS, texts.category);
    let numbers = [
        request.id,
        request.offset,
        request.bytes,
        request.issued_ns - request.queued_ns,
        request.completed_ns - request.issued_ns,
        request.bios.into(),
        request.pid.into(),
    ];
    let values = numbers.map(|value| Some((annotation::UINT, value)));
    let strings =
        [Some(texts.class), texts.origin, texts.flags].map(|t| t.map(|t| (annotation::STRING_IID, t)));
    for (value, name) in values.into_iter().chain(strings).zip(1..) {
        let Some((field, value)) = value else { continue };
        event.message(event::DEBUG_ANNOTATIONS, |annotation| {
            annotation.number(annotation::NAME_IID, name);
            annotation.number(field, value);
        });
    }
}
