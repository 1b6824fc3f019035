//! File systems with a few bytes changed: an input is a list of changes, for a file system itself is megabytes.
//!
//! A change is a number of a block that is not all zeros (16 bits), a place in it (16 bits), a length (8 bits) and the new
//! bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;

use nestor_layout::ReadAt;

const BLOCK_BYTES: usize = 4096;

type Blocks = BTreeMap<u64, [u8; BLOCK_BYTES]>;

/// A device of which only the blocks that are not zero are kept.
struct Image {
    bytes: u64,
    blocks: Blocks,
    /// Their numbers.
    numbers: Vec<u64>,
}

/// A device with changes.
struct Changed<'a> {
    image: &'a Image,
    blocks: Blocks,
}

static IMAGE: OnceLock<Option<Image>> = OnceLock::new();

/// Changes the file system's image in `NESTOR_FUZZ_IMAGES` and reads its layout; does nothing where there is no image.
pub fn read_patched(file_system: &str, data: &[u8]) {
    let image = IMAGE.get_or_init(|| {
        let directory = std::env::var_os("NESTOR_FUZZ_IMAGES")?;
        let path = Path::new(&directory).join(file_system);
        Image::load(&path).inspect_err(|error| eprintln!("{}: {error}", path.display())).ok()
    });
    let Some(image) = image else { return };
    if let Ok(layout) = nestor_layout::read(&image.changed(data)) {
        assert!(layout.extents.is_sorted_by(|a, b| a.end() <= b.start), "extents overlap");
    }
}

impl Image {
    fn load(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut image = Self { bytes: file.metadata()?.len(), blocks: Blocks::new(), numbers: Vec::new() };
        let mut buffer = vec![0; 256 * BLOCK_BYTES];
        let mut number = 0;
        loop {
            let read = read_full(&mut file, &mut buffer)?;
            for block in buffer[..read].chunks(BLOCK_BYTES) {
                if block.iter().any(|byte| *byte != 0) {
                    let mut whole = [0; BLOCK_BYTES];
                    whole[..block.len()].copy_from_slice(block);
                    image.blocks.insert(number, whole);
                    image.numbers.push(number);
                }
                number += 1;
            }
            if read < buffer.len() {
                return Ok(image);
            }
        }
    }

    fn changed(&self, mut data: &[u8]) -> Changed<'_> {
        let mut blocks = Blocks::new();
        while let Some((&[b0, b1, p0, p1, length], rest)) = data.split_first_chunk::<5>() {
            let number = usize::from(u16::from_le_bytes([b0, b1])) % self.numbers.len().max(1);
            let place = usize::from(u16::from_le_bytes([p0, p1])) % BLOCK_BYTES;
            let length = usize::from(length).min(rest.len()).min(BLOCK_BYTES - place);
            let (new, rest) = rest.split_at(length);
            if let Some(number) = self.numbers.get(number) {
                let block = blocks.entry(*number).or_insert_with(|| self.blocks[number]);
                block[place..place + length].copy_from_slice(new);
            }
            data = rest;
        }
        Changed { image: self, blocks }
    }
}

impl ReadAt for Changed<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.image.bytes);
        end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let place = (at % BLOCK_BYTES as u64) as usize;
            let length = rest.len().min(BLOCK_BYTES - place);
            let (part, after) = rest.split_at_mut(length);
            let number = at / BLOCK_BYTES as u64;
            match self.blocks.get(&number).or_else(|| self.image.blocks.get(&number)) {
                Some(block) => part.copy_from_slice(&block[place..place + length]),
                None => part.fill(0),
            }
            at += length as u64;
            rest = after;
        }
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.image.bytes)
    }
}

fn read_full(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}
