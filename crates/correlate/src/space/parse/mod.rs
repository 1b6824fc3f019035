//! Extents of an image file as other programs print them.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use nestor_layout::{Class, Layout};
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::{ExtentError, ExtentMap, MappedExtent};
use crate::error::CorrelateError;

/// What a layout file begins with.
const LAYOUT_MAGIC: &[u8] = b"NSTLAY01";
/// Longest line of a text: no extent's line comes near it.
const LONGEST_LINE_BYTES: u64 = 4096;
/// Bytes of a text: some ten million extents.
const LONGEST_TEXT_BYTES: u64 = 1 << 30;
/// Bytes of a JSON object, of which more is kept than the extents.
const LONGEST_OBJECT_BYTES: u64 = 32 << 20;
/// `xfs_bmap` counts in these (xfs_bmap(8): "units of 512-byte blocks").
const XFS_BMAP_BLOCK: u64 = 512;

/// Reads where the contents of an image file lie on its device: the output of `filefrag -v`, of `xfs_bmap` (also
/// `-v`, `-p`, `-l`), of `qemu-img map --output=json`; JSON or CSV with the columns upper offset, lower offset and
/// bytes; or a layout of `nestor trace layout`, of which `inode` is the image file (not needed where only one file is
/// marked as an image).
///
/// # Errors
/// The file cannot be read, is none of these, or contradicts itself; the line is named.
pub fn read_extents(path: &Path, inode: Option<u64>) -> Result<ExtentMap, CorrelateError> {
    let file = File::open(path).map_err(|source| CorrelateError::Io { path: path.to_path_buf(), source })?;
    read_extents_from(file, path, inode)
}

/// [`read_extents`] from anything that can be read; `path` is its name in errors.
///
/// # Errors
/// As [`read_extents`].
pub fn read_extents_from(
    from: impl Read,
    path: &Path,
    inode: Option<u64>,
) -> Result<ExtentMap, CorrelateError> {
    let io = |source| CorrelateError::Io { path: path.to_path_buf(), source };
    let mut reader = BufReader::with_capacity(1 << 16, from.take(LONGEST_TEXT_BYTES));
    let start = reader.fill_buf().map_err(io)?;
    let wrong = |line, reason| CorrelateError::Map { path: path.to_path_buf(), line, reason };
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace()).copied();
    let extents = if start.starts_with(LAYOUT_MAGIC) {
        let layout = Layout::read_from(&mut reader).map_err(io)?;
        of_layout(&layout, inode).map_err(|reason| wrong(None, reason))?
    } else if first == Some(b'[') {
        let list: ExtentList = serde_json::from_reader(&mut reader)
            .map_err(|e| wrong(Some(e.line()), format!("this is not a list of extents: {e}")))?;
        list.0
    } else if first == Some(b'{') {
        let mut text = Vec::new();
        reader.take(LONGEST_OBJECT_BYTES + 1).read_to_end(&mut text).map_err(io)?;
        if text.len() as u64 > LONGEST_OBJECT_BYTES {
            let reason = format!(
                "it is longer than {LONGEST_OBJECT_BYTES} bytes; give a list [...] of extents or a layout of `nestor trace layout`"
            );
            return Err(wrong(None, reason));
        }
        let value: Value = serde_json::from_slice(&text)
            .map_err(|e| wrong(Some(e.line()), format!("this is not JSON: {e}")))?;
        drop(text);
        of_json(value, inode).map_err(|reason| wrong(None, reason))?
    } else {
        of_text(&mut reader).map_err(|failure| match failure {
            TextFailure::Io(source) => io(source),
            TextFailure::Line(line, reason) => wrong(line, reason),
        })?
    };
    ExtentMap::new(extents).map_err(|error| match error {
        ExtentError::None => CorrelateError::NoExtents { path: path.to_path_buf() },
        error => wrong(None, error.to_string()),
    })
}

fn of_layout(layout: &Layout, inode: Option<u64>) -> Result<Vec<MappedExtent>, String> {
    let inode = match inode {
        Some(inode) => inode,
        None => {
            let images =
                layout.extents.iter().filter(|e| e.class == Class::ImageData).filter_map(|e| e.inode);
            let mut images: Vec<u64> = images.collect();
            images.sort_unstable();
            images.dedup();
            match images[..] {
                [only] => only,
                _ => {
                    return Err(format!(
                        "the layout has {} files marked as images; name the image's inode (`stat -c %i IMAGE`)",
                        images.len()
                    ));
                }
            }
        }
    };
    let ranges = layout.file(inode);
    if ranges.is_empty() {
        return Err(format!("the layout has no contents of inode {inode}"));
    }
    Ok(ranges.into_iter().map(|(upper, lower, bytes)| MappedExtent { upper, lower, bytes }).collect())
}

fn of_json(mut value: Value, inode: Option<u64>) -> Result<Vec<MappedExtent>, String> {
    if value.get("file_system").is_some() {
        let layout: Layout = serde_json::from_value(value).map_err(|e| e.to_string())?;
        return of_layout(&layout, inode);
    }
    let list = value.get_mut("extents").map(Value::take).ok_or("a list of extents is expected")?;
    serde_json::from_value::<ExtentList>(list).map(|list| list.0).map_err(|e| e.to_string())
}

/// Extents one after the other, as they come: no more is kept of one than its three numbers.
struct ExtentList(Vec<MappedExtent>);

impl<'de> Deserialize<'de> for ExtentList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self(Vec::new()))
    }
}

impl<'de> Visitor<'de> for ExtentList {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of extents")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Self, A::Error> {
        let mut number = 0_u64;
        while let Some(item) = list.next_element::<Item>()? {
            match (item.upper, item.lower, item.bytes) {
                (Some(upper), Some(lower), Some(bytes)) => {
                    self.0.push(MappedExtent { upper, lower, bytes });
                }
                // What `qemu-img map` prints of a range without data has no offset.
                (Some(_), None, Some(_)) if item.is_qemu => {}
                _ => {
                    return Err(de::Error::custom(format!(
                        "extent {number} does not have the three numbers upper, lower and bytes (or start, \
                         offset and length)"
                    )));
                }
            }
            number += 1;
        }
        Ok(self)
    }
}

/// One of them: an object, or a list of the three numbers.
#[derive(Default)]
struct Item {
    upper: Option<u64>,
    lower: Option<u64>,
    bytes: Option<u64>,
    is_qemu: bool,
}

/// A whole number that is not negative, or something else that is passed over.
struct Number(Option<u64>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Option<u64>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a value")
            }
            fn visit_u64<E>(self, number: u64) -> Result<Option<u64>, E> {
                Ok(Some(number))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Option<u64>, E> {
                Ok(u64::try_from(number).ok())
            }
            fn visit_f64<E>(self, _: f64) -> Result<Option<u64>, E> {
                Ok(None)
            }
            fn visit_bool<E>(self, _: bool) -> Result<Option<u64>, E> {
                Ok(None)
            }
            fn visit_str<E>(self, _: &str) -> Result<Option<u64>, E> {
                Ok(None)
            }
            fn visit_unit<E>(self) -> Result<Option<u64>, E> {
                Ok(None)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<u64>, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(None)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<u64>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(None)
            }
        }
        deserializer.deserialize_any(Any).map(Self)
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemVisitor;
        impl<'de> Visitor<'de> for ItemVisitor {
            type Value = Item;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an extent: an object, or a list of three numbers")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Item, A::Error> {
                let mut number = || Ok(list.next_element::<Number>()?.and_then(|number| number.0));
                let item = Item { upper: number()?, lower: number()?, bytes: number()?, is_qemu: false };
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(item)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Item, A::Error> {
                let mut item = Item::default();
                // The form's own names count before those of other programs.
                let mut ranks = [usize::MAX; 3];
                while let Some(name) = map.next_key::<String>()? {
                    item.is_qemu |= name == "data";
                    let value = map.next_value::<Number>()?.0;
                    let fields = [&mut item.upper, &mut item.lower, &mut item.bytes];
                    for ((field, names), rank) in fields.into_iter().zip(NAMES).zip(&mut ranks) {
                        match names.iter().position(|known| *known == name) {
                            Some(found) if found <= *rank => (*field, *rank) = (value, found),
                            _ => {}
                        }
                    }
                }
                Ok(item)
            }
        }
        deserializer.deserialize_any(ItemVisitor)
    }
}

/// What the three numbers of an extent are called: by us, by filefrag's and other JSON, by `qemu-img map`.
const NAMES: [&[&str]; 3] = [
    &["upper", "file_offset", "logical", "start"],
    &["lower", "device_offset", "physical", "offset"],
    &["bytes", "length", "len"],
];

enum TextFailure {
    Io(std::io::Error),
    Line(Option<usize>, String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `filefrag -v`, in blocks of so many bytes.
    Filefrag(u64),
    XfsBmap,
    Csv,
}

fn of_text(reader: &mut impl BufRead) -> Result<Vec<MappedExtent>, TextFailure> {
    let mut extents = Vec::new();
    let mut form = None;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.take(LONGEST_LINE_BYTES).read_until(b'\n', &mut line).map_err(TextFailure::Io)?;
        if read == 0 {
            break;
        }
        let failed = |reason: &str| {
            let shown: String = String::from_utf8_lossy(&line).trim().chars().take(60).collect();
            TextFailure::Line(Some(number), format!("{reason}: {shown}"))
        };
        let Ok(text) = std::str::from_utf8(&line) else { return Err(failed("this is not text")) };
        let text = text.trim();
        if let Some(block) = filefrag_block(text) {
            form = Some(Form::Filefrag(block));
            continue;
        }
        if form.is_none() {
            form = form_of(text);
        }
        let extent = match form {
            Some(Form::Filefrag(block)) => filefrag_line(text, block),
            Some(Form::XfsBmap) => xfs_bmap_line(text),
            Some(Form::Csv) => csv_line(text),
            None => Ok(None),
        };
        extents.extend(extent.map_err(|reason| failed(&reason))?);
    }
    if form.is_none() {
        let reason = "no extents were recognised in it; give the output of `filefrag -v IMAGE` or `xfs_bmap \
                      -v IMAGE`, \
                      or lines `image offset,device offset,bytes`";
        return Err(TextFailure::Line(None, reason.to_owned()));
    }
    Ok(extents)
}

/// Of a first line of extents, which program printed it.
fn form_of(line: &str) -> Option<Form> {
    if line.split(',').count() == 3 && line.starts_with(|c: char| c.is_ascii_digit()) {
        return Some(Form::Csv);
    }
    (xfs_bmap_parts(line).is_some()).then_some(Form::XfsBmap)
}

/// `File size of F is N (M blocks of 4096 bytes)`.
fn filefrag_block(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("File size of ")?;
    let (_, tail) = rest.rsplit_once(" of ")?;
    tail.strip_suffix(" bytes)")?.parse().ok().filter(|block| *block > 0)
}

/// `   0:        0..    1023:   40446976..  40447999:   1024:    2584: last,eof`
fn filefrag_line(line: &str, block: u64) -> Result<Option<MappedExtent>, String> {
    let parts: Vec<&str> = line.split(':').map(str::trim).collect();
    let [number, logical, physical, length, rest @ ..] = parts.as_slice() else { return Ok(None) };
    if number.parse::<u64>().is_err() {
        return Ok(None);
    }
    // Such extents are not, or not as they stand, on the device (filefrag(8), FIEMAP flags).
    let elsewhere = ["unknown_loc", "delalloc", "inline", "not_aligned", "encoded", "encrypted"];
    if rest.iter().any(|part| part.split(',').any(|flag| elsewhere.contains(&flag))) {
        return Ok(None);
    }
    let first = |range: &str| range.split("..").next().and_then(|text| text.trim().parse::<u64>().ok());
    let numbers = (first(logical), first(physical), length.parse::<u64>().ok());
    let (Some(upper), Some(lower), Some(length)) = numbers else {
        return Err("this is not an extent of filefrag".to_owned());
    };
    in_bytes([upper, lower, length], block).map(Some)
}

/// `   0: [0..8191]:       192..8383         0 (192..8383)       8192 000000`, as file and device range.
fn xfs_bmap_parts(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.split_once(": [")?;
    number.trim().parse::<u64>().ok()?;
    let (file, device) = rest.split_once("]:")?;
    Some((file, device.split_whitespace().next()?))
}

fn xfs_bmap_line(line: &str) -> Result<Option<MappedExtent>, String> {
    let Some((file, device)) = xfs_bmap_parts(line) else { return Ok(None) };
    if device == "hole" || device == "delalloc" {
        return Ok(None);
    }
    let range = |text: &str| {
        let (first, last) = text.split_once("..")?;
        let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        Some((first, last.checked_sub(first)?.checked_add(1)?))
    };
    let (Some((upper, bytes)), Some((lower, below))) = (range(file), range(device)) else {
        return Err("this is not an extent of xfs_bmap".to_owned());
    };
    if bytes != below {
        return Err("the two ranges of this extent differ in length".to_owned());
    }
    in_bytes([upper, lower, bytes], XFS_BMAP_BLOCK).map(Some)
}

/// `upper,lower,bytes`; lines without a digit (headings, comments, empty ones) are passed over.
fn csv_line(line: &str) -> Result<Option<MappedExtent>, String> {
    if line.starts_with('#') || !line.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    let numbers: Vec<Option<u64>> = line.split(',').map(|text| text.trim().parse().ok()).collect();
    match numbers[..] {
        [Some(upper), Some(lower), Some(bytes)] => Ok(Some(MappedExtent { upper, lower, bytes })),
        _ => Err("three numbers are expected, image offset, device offset and bytes".to_owned()),
    }
}

fn in_bytes(blocks: [u64; 3], block: u64) -> Result<MappedExtent, String> {
    let [Some(upper), Some(lower), Some(bytes)] = blocks.map(|count| count.checked_mul(block)) else {
        return Err("this extent goes beyond 2^64 bytes".to_owned());
    };
    Ok(MappedExtent { upper, lower, bytes })
}

#[cfg(test)]
mod tests;
