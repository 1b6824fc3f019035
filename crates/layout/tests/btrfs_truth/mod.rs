//! What the tool and the kernel say of a Btrfs file system, as one use for each sector.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use nestor_layout::{Class, Layout};

use crate::trees::succeeds;

const SECTOR: u64 = 4096;

/// `dump-tree`, and what it needs to know where on a device an address is.
#[derive(Debug, Default)]
pub struct Dump {
    chunks: Vec<Chunk>,
    node_bytes: u64,
    device_bytes: BTreeMap<u64, u64>,
    /// Class of each node by its address.
    nodes: BTreeMap<u64, Class>,
    /// Addresses of nodes that log trees consist of, and extents of data they refer to.
    log_nodes: BTreeSet<u64>,
    log_data: Vec<(u64, u64)>,
    /// The extent tree: address, bytes, is it a node.
    extents: Vec<(u64, u64, bool)>,
    /// Extents of the free space cache: those of files in the tree of roots.
    caches: BTreeSet<u64>,
}

#[derive(Debug, Default)]
struct Chunk {
    start: u64,
    bytes: u64,
    profile: String,
    stripes: Vec<(u64, u64)>,
}

impl Chunk {
    /// Where an address of it is: (device, position).
    fn places(&self, address: u64) -> Vec<(u64, u64)> {
        const UNIT: u64 = 64 << 10;
        let (offset, count) = (address - self.start, self.stripes.len() as u64);
        let (unit, within) = (offset / UNIT, offset % UNIT);
        let at = |stripe: u64, row: u64| {
            let (device, start) = self.stripes[stripe as usize];
            (device, start + row * UNIT + within)
        };
        match self.profile.as_str() {
            "RAID0" => vec![at(unit % count, unit / count)],
            "RAID10" => {
                let pairs = count / 2;
                (0..2).map(|copy| at(unit % pairs * 2 + copy, unit / pairs)).collect()
            }
            "RAID5" | "RAID6" => {
                let data = if self.profile == "RAID5" { count - 1 } else { count - 2 };
                let row = unit / data;
                vec![at((row + unit % data) % count, row)]
            }
            _ => self.stripes.iter().map(|(device, start)| (*device, start + offset)).collect(),
        }
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

/// The word after `label`.
fn after<'a>(line: &'a str, label: &str) -> Option<&'a str> {
    line.split_once(label)?.1.split_whitespace().next()
}

fn number_after(line: &str, label: &str) -> Option<u64> {
    number(after(line, label)?)
}

/// `item 3 key (257 EXTENT_DATA 4096) itemoff …` → object, kind, offset.
fn key(line: &str) -> Option<(&str, &str, &str)> {
    let inside = line.split_once(" key (")?.1.split_once(')')?.0;
    let mut words = inside.split_whitespace();
    Some((words.next()?, words.next()?, words.next()?))
}

impl Dump {
    pub fn of(device: &Path) -> Self {
        let superblock = succeeds(Command::new("btrfs").args(["inspect-internal", "dump-super"]).arg(device));
        let superblock = String::from_utf8_lossy(&superblock.stdout).into_owned();
        let line = superblock.lines().find(|line| line.starts_with("nodesize")).expect("a node size");
        let mut dump = Self { node_bytes: number_after(line, "nodesize").unwrap(), ..Self::default() };
        let text = succeeds(Command::new("btrfs").args(["inspect-internal", "dump-tree"]).arg(device));
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let starts = |index: &usize| {
            let line = lines[*index];
            (line.starts_with("leaf ") || line.starts_with("node ")) && line.contains(" owner ")
        };
        let blocks: Vec<usize> = (0..lines.len()).filter(starts).collect();
        for (which, &begin) in blocks.iter().enumerate() {
            let end = blocks.get(which + 1).copied().unwrap_or(lines.len());
            dump.node(&lines[begin..end]);
        }
        dump
    }

    fn node(&mut self, lines: &[&str]) {
        let is_leaf = lines[0].starts_with("leaf ");
        let address = number(lines[0].split_whitespace().nth(1).unwrap()).unwrap();
        let owner = after(lines[0], " owner ").unwrap();
        let items: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].starts_with("\titem ")).collect();
        let mut kinds = BTreeSet::new();
        for (which, &begin) in items.iter().enumerate() {
            let end = items.get(which + 1).copied().unwrap_or(lines.len());
            let body = &lines[begin..end];
            kinds.insert(self.item(owner, key(body[0]).expect("a key"), body));
        }
        let class = match owner {
            "ROOT_TREE" | "CHUNK_TREE" | "DEV_TREE" => Class::Superblock,
            "EXTENT_TREE" | "FREE_SPACE_TREE" | "BLOCK_GROUP_TREE" => Class::AllocationMap,
            "TREE_LOG" => Class::Journal,
            "CSUM_TREE" | "UUID_TREE" | "QUOTA_TREE" => Class::OtherMetadata,
            _ if !is_leaf || kinds.len() != 1 => Class::MixedMetadata,
            _ => kinds.pop_first().unwrap(),
        };
        if owner == "TREE_LOG" {
            self.log_nodes.insert(address);
        }
        self.nodes.insert(address, class);
    }

    /// Notes what an item says; returns its class where it is of a tree of files.
    fn item(&mut self, owner: &str, (object, kind, offset): (&str, &str, &str), body: &[&str]) -> Class {
        let find = |label: &str| body.iter().find_map(|line| number_after(line, label));
        match kind {
            "CHUNK_ITEM" => self.chunk(offset, body),
            "DEV_ITEM" => {
                let line = body.iter().find(|line| line.contains("total_bytes")).expect("a device's size");
                self.device_bytes
                    .insert(number_after(line, "devid").unwrap(), number_after(line, "total_bytes").unwrap());
            }
            "METADATA_ITEM" => self.extents.push((number(object).unwrap(), self.node_bytes, true)),
            "EXTENT_ITEM" => {
                let is_node = body.iter().any(|line| line.contains("flags TREE_BLOCK"));
                self.extents.push((number(object).unwrap(), number(offset).unwrap(), is_node));
            }
            "EXTENT_DATA" => {
                let disk = find("data disk byte ").filter(|&address| address != 0);
                if let Some(address) = disk {
                    let encoded = find("extent compression ").unwrap_or(0) != 0;
                    let whole = body
                        .iter()
                        .find(|line| line.contains("disk byte"))
                        .and_then(|l| number_after(l, " nr "));
                    let part = body.iter().find(|line| line.contains("data offset")).expect("a part");
                    if owner == "ROOT_TREE" {
                        self.caches.insert(address);
                    } else if owner == "TREE_LOG" && encoded {
                        self.log_data.push((address, whole.unwrap()));
                    } else if owner == "TREE_LOG" {
                        let skipped = number_after(part, "data offset ").unwrap();
                        self.log_data.push((address + skipped, number_after(part, " nr ").unwrap()));
                    }
                }
                let inline = body.iter().any(|line| line.contains("(inline)"));
                return if inline { Class::MixedMetadata } else { Class::ExtentMap };
            }
            "INODE_ITEM" | "INODE_REF" | "INODE_EXTREF" | "ORPHAN_ITEM" => return Class::Inode,
            "DIR_ITEM" | "DIR_INDEX" => return Class::Directory,
            _ => {}
        }
        Class::OtherMetadata
    }

    fn chunk(&mut self, offset: &str, body: &[&str]) {
        let line = body.iter().find(|line| line.contains("length ")).expect("a length");
        let kind = after(line, " type ").unwrap();
        let mut chunk = Chunk {
            start: number(offset).unwrap(),
            bytes: number_after(line, "length ").unwrap(),
            profile: kind.rsplit('|').next().unwrap().to_owned(),
            stripes: Vec::new(),
        };
        for line in body.iter().filter(|line| line.trim_start().starts_with("stripe ")) {
            chunk
                .stripes
                .push((number_after(line, "devid ").unwrap(), number_after(line, "offset ").unwrap()));
        }
        self.chunks.push(chunk);
    }

    /// Every copy of the sector at an address.
    pub fn places(&self, address: u64) -> Vec<(u64, u64)> {
        let chunk =
            self.chunks.iter().find(|chunk| (chunk.start..chunk.start + chunk.bytes).contains(&address));
        chunk.map(|chunk| chunk.places(address)).unwrap_or_else(|| panic!("{address} is in no chunk"))
    }

    /// Each sector of a device that is in use.
    fn sectors(&self, device: u64) -> BTreeMap<u64, Class> {
        let mut sectors = BTreeMap::new();
        let mut claim = |address: u64, bytes: u64, class: Class| {
            for sector in (address..address + bytes).step_by(SECTOR as usize) {
                for (_, place) in self.places(sector).into_iter().filter(|place| place.0 == device) {
                    let before = sectors.insert(place, class);
                    assert!(before.is_none_or(|before| before == class), "{place} is {class} and {before:?}");
                }
            }
        };
        for &(address, bytes, is_node) in &self.extents {
            let class = match is_node {
                true => *self.nodes.get(&address).unwrap_or(&Class::MixedMetadata),
                false if self.caches.contains(&address) => Class::AllocationMap,
                false => Class::FileData,
            };
            claim(address, bytes, class);
        }
        self.log_nodes.iter().for_each(|&address| claim(address, self.node_bytes, Class::Journal));
        self.log_data.iter().for_each(|&(address, bytes)| claim(address, bytes, Class::FileData));
        for superblock in [64 << 10, 64 << 20, 256_u64 << 30] {
            if superblock + SECTOR <= self.device_bytes[&device] {
                assert_eq!(sectors.insert(superblock, Class::Superblock), None);
            }
        }
        sectors
    }

    /// Every sector has the class that the tool says, and none else is in use.
    pub fn assert_agrees(&self, layout: &Layout, device: u64) {
        assert_eq!(layout.total_bytes, self.device_bytes[&device]);
        let mut found = BTreeMap::new();
        for extent in &layout.extents {
            assert_eq!((extent.start % SECTOR, extent.bytes % SECTOR), (0, 0), "{extent:?}");
            for place in (extent.start..extent.end()).step_by(SECTOR as usize) {
                found.insert(place, extent.class);
            }
        }
        let truth = self.sectors(device);
        for place in found.keys().chain(truth.keys()) {
            let (found, truth) = (found.get(place), truth.get(place));
            assert_eq!(
                found, truth,
                "at {place} of device {device}; left: the layout, right: the tool; {:?}",
                layout.remarks
            );
        }
        let trouble = |remark: &&String| {
            !["several subvolumes", " devices: ", "parity"].iter().any(|w| remark.contains(w))
        };
        let remarks: Vec<_> = layout.remarks.iter().filter(trouble).collect();
        assert!(remarks.is_empty(), "{remarks:?}");
    }
}

/// What FIEMAP says: for each address the inodes and positions it is contents of.
#[derive(Debug, Default)]
pub struct Positions {
    plain: BTreeMap<u64, BTreeSet<(u64, u64)>>,
}

impl Positions {
    pub fn of(directory: &Path) -> Self {
        let mut positions = Self::default();
        positions.directory(directory);
        positions
    }

    fn directory(&mut self, directory: &Path) {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let kind = fs::symlink_metadata(&path).expect("it is there");
            if kind.is_dir() {
                self.directory(&path);
            } else if kind.is_file() && kind.blocks() > 0 {
                self.file(&path, kind.ino());
            }
        }
    }

    /// `  0:        0..       2:       3328..      3330:      3:       3331: shared`
    fn file(&mut self, path: &Path, inode: u64) {
        let output = succeeds(Command::new("filefrag").args(["-v", "-b4096"]).arg(path));
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let fields: Vec<&str> = line.split(':').map(str::trim).collect();
            let first =
                |field: &str| field.split("..").next().and_then(|text| text.trim().parse::<u64>().ok());
            let [_, logical, physical, length, ..] = fields[..] else { continue };
            let (Some(logical), Some(physical), Ok(length)) =
                (first(logical), first(physical), length.parse::<u64>())
            else {
                continue;
            };
            if line.contains("encoded") || line.contains("inline") || line.contains("unknown_loc") {
                continue;
            }
            for block in 0..length {
                let uses = self.plain.entry((physical + block) * SECTOR).or_default();
                uses.insert((inode, (logical + block) * SECTOR));
            }
        }
    }

    /// Every position in a file is that of the layout, in every copy, and the layout names no other.
    pub fn assert_agrees(&self, layout: &Layout, dump: &Dump, device: u64) {
        let mut known = BTreeMap::new();
        for (&address, uses) in &self.plain {
            for (_, place) in dump.places(address).into_iter().filter(|place| place.0 == device) {
                known.insert(place, uses);
            }
        }
        for (place, uses) in &known {
            let piece = layout.pieces(*place, SECTOR).next().expect("a piece");
            let extent = piece.extent.unwrap_or_else(|| panic!("{place} is free by the layout"));
            let found = extent.inode.zip(extent.file_offset.map(|offset| offset + place - extent.start));
            assert!(
                found.is_some_and(|found| uses.contains(&found)),
                "{place}: {extent:?}, but the kernel {uses:?}"
            );
        }
        for extent in layout.extents.iter().filter(|extent| extent.file_offset.is_some()) {
            for place in (extent.start..extent.end()).step_by(SECTOR as usize) {
                assert!(known.contains_key(&place), "{extent:?}, but the kernel knows of no file at {place}");
            }
        }
    }
}
