//! A layout as a file.
//!
//! `NSTLAY01`, then numbers as LEB128 (seven bits a byte, lowest first) and texts with their length before them:
//! file system, block bytes, total bytes, remarks; then each extent as its distance from the end of the one before,
//! its length, and a byte with its class and whether an inode and a position in it follow (the inode as itself, the
//! position as it is). Extents are stored in order and without overlap, so a distance is never negative.

use std::io::{self, Read, Write};

use crate::layout::{Class, Extent, Layout};

const MAGIC: &[u8; 8] = b"NSTLAY01";
const HAS_INODE: u8 = 0x10;
const HAS_OFFSET: u8 = 0x20;
/// Longer texts are not read; no name or remark comes near it.
const MAX_TEXT: u64 = 1 << 16;
/// More remarks are not read; a reader of layouts keeps at most 100.
const MAX_REMARKS: u64 = 1000;

impl Layout {
    /// Writes it in a compact form: about 8 bytes an extent. Give it a buffered writer.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn write_to(&self, writer: &mut impl Write) -> io::Result<()> {
        writer.write_all(MAGIC)?;
        write_text(writer, &self.file_system)?;
        write_number(writer, self.block_bytes)?;
        write_number(writer, self.total_bytes)?;
        write_number(writer, self.remarks.len() as u64)?;
        for remark in &self.remarks {
            write_text(writer, remark)?;
        }
        write_number(writer, self.extents.len() as u64)?;
        let mut end = 0;
        for extent in &self.extents {
            let distance = extent.start.checked_sub(end).ok_or_else(|| invalid("extents overlap"))?;
            write_extent(writer, extent, distance)?;
            end = extent.end();
        }
        Ok(())
    }

    /// Reads what [`Self::write_to`] wrote. Give it a buffered reader.
    ///
    /// # Errors
    /// When the reader fails or ends, or what it gives is no layout: then of the kind `InvalidData`.
    pub fn read_from(reader: &mut impl Read) -> io::Result<Self> {
        let mut magic = [0; 8];
        reader.read_exact(&mut magic)?;
        if magic != *MAGIC {
            return Err(invalid("it is not a layout written by `nestor trace layout`"));
        }
        let file_system = read_text(reader)?;
        let block_bytes = read_number(reader)?;
        let total_bytes = read_number(reader)?;
        let count = read_number(reader)?;
        if count > MAX_REMARKS {
            return Err(invalid("it has too many remarks"));
        }
        let remarks = (0..count).map(|_| read_text(reader)).collect::<io::Result<Vec<_>>>()?;
        let count = read_number(reader)?;
        // Not `with_capacity`: the number is not to be believed before as many were read.
        let mut extents = Vec::new();
        let mut end = 0;
        for _ in 0..count {
            let extent = read_extent(reader, end)?;
            end = extent.end();
            extents.push(extent);
        }
        Ok(Self { file_system, block_bytes, total_bytes, extents, remarks })
    }
}

fn write_extent(writer: &mut impl Write, extent: &Extent, distance: u64) -> io::Result<()> {
    let inode = if extent.inode.is_some() { HAS_INODE } else { 0 };
    let offset = if extent.file_offset.is_some() { HAS_OFFSET } else { 0 };
    writer.write_all(&[extent.class as u8 | inode | offset])?;
    write_number(writer, distance)?;
    write_number(writer, extent.bytes)?;
    [extent.inode, extent.file_offset]
        .into_iter()
        .flatten()
        .try_for_each(|number| write_number(writer, number))
}

fn read_extent(reader: &mut impl Read, previous_end: u64) -> io::Result<Extent> {
    let mut tag = [0];
    reader.read_exact(&mut tag)?;
    let class = Class::from_number(tag[0] & 0xf).filter(|_| tag[0] & 0xc0 == 0);
    let class = class.ok_or_else(|| invalid("it names a class that does not exist"))?;
    let start = previous_end.checked_add(read_number(reader)?);
    let bytes = read_number(reader)?;
    let start = start.filter(|start| bytes > 0 && start.checked_add(bytes).is_some());
    let start = start.ok_or_else(|| invalid("an extent goes beyond the largest possible device"))?;
    let inode = if tag[0] & HAS_INODE != 0 { Some(read_number(reader)?) } else { None };
    let file_offset = if tag[0] & HAS_OFFSET != 0 { Some(read_number(reader)?) } else { None };
    Ok(Extent { start, bytes, class, inode, file_offset })
}

fn write_number(writer: &mut impl Write, mut number: u64) -> io::Result<()> {
    let mut bytes = [0; 10];
    let mut length = 0;
    loop {
        bytes[length] = (number & 0x7f) as u8 | if number > 0x7f { 0x80 } else { 0 };
        length += 1;
        number >>= 7;
        if number == 0 {
            return writer.write_all(&bytes[..length]);
        }
    }
}

fn read_number(reader: &mut impl Read) -> io::Result<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        reader.read_exact(&mut byte)?;
        let bits = u64::from(byte[0] & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        number |= bits << shift;
        if byte[0] & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(invalid("a number has more than 64 bits"))
}

fn write_text(writer: &mut impl Write, text: &str) -> io::Result<()> {
    write_number(writer, text.len() as u64)?;
    writer.write_all(text.as_bytes())
}

fn read_text(reader: &mut impl Read) -> io::Result<String> {
    let length = read_number(reader)?;
    if length > MAX_TEXT {
        return Err(invalid("one of its texts is too long"));
    }
    let mut bytes = Vec::new();
    reader.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    String::from_utf8(bytes).map_err(|_| invalid("one of its texts is not UTF-8"))
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the layout cannot be read: {reason}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layouts() -> impl Strategy<Value = Layout> {
        let optional = || prop::option::of(prop_oneof![0_u64..1000, any::<u64>()]);
        let extent = (0_u64..1 << 40, 1_u64..1 << 40, 0_u8..13, optional(), optional());
        let texts = prop::collection::vec(".{0,20}", 0..4);
        let extents = prop::collection::vec(extent, 0..50);
        ("[a-z0-9]{0,8}", any::<u64>(), any::<u64>(), texts, extents).prop_map(
            |(file_system, block_bytes, total_bytes, remarks, parts)| {
                let mut extents: Vec<Extent> = Vec::new();
                for (gap, bytes, class, inode, file_offset) in parts {
                    let start = extents.last().map_or(0, Extent::end) + gap;
                    let class = Class::from_number(class).unwrap();
                    extents.push(Extent { start, bytes, class, inode, file_offset });
                }
                Layout { file_system, block_bytes, total_bytes, extents, remarks }
            },
        )
    }

    fn stored(layout: &Layout) -> Vec<u8> {
        let mut bytes = Vec::new();
        layout.write_to(&mut bytes).unwrap();
        bytes
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(layout in layouts()) {
            let bytes = stored(&layout);
            prop_assert_eq!(Layout::read_from(&mut &bytes[..]).unwrap(), layout);
            for length in 0..bytes.len() {
                let error = Layout::read_from(&mut &bytes[..length]).unwrap_err();
                prop_assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            }
        }

        #[test]
        fn anything_else_is_refused_or_still_a_layout(
            layout in layouts(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        ) {
            let mut bytes = stored(&layout);
            for (place, byte) in damage {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            if let Ok(layout) = Layout::read_from(&mut &bytes[..]) {
                prop_assert!(layout.extents.windows(2).all(|pair| pair[0].end() <= pair[1].start));
                prop_assert_eq!(Layout::read_from(&mut &stored(&layout)[..]).unwrap(), layout);
            }
        }
    }

    #[test]
    fn a_number_of_extents_is_not_believed() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([0, 0, 0, 0]);
        bytes.extend([0xff; 9]);
        bytes.push(1);
        assert_eq!(Layout::read_from(&mut &bytes[..]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(
            Layout::read_from(&mut &b"something else"[..]).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
