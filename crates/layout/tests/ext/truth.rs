//! What e2fsprogs says each block of a file system is for.

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};

use nestor_layout::Class;

/// What one block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    pub class: Class,
    pub inode: Option<u64>,
    /// In blocks; of contents only.
    pub logical: Option<u64>,
}

/// By block; `None` for those that e2fsprogs calls free.
pub struct Truth {
    pub blocks: Vec<Option<Use>>,
    /// Whether each is in the list of free blocks.
    pub free: Vec<bool>,
    pub block_bytes: u64,
    pub clusters: bool,
}

/// Runs a tool and returns what it printed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output =
        Command::new(program).args(arguments).stdin(Stdio::null()).output().expect("e2fsprogs is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

impl Truth {
    /// Asks dumpe2fs for the groups and debugfs for each inode in use.
    pub fn ask(image: &Path) -> Self {
        let path = image.to_str().unwrap();
        let groups = run("dumpe2fs", &[path]);
        let number = |name: &str| {
            let line = groups.lines().find_map(|line| line.strip_prefix(name));
            line.map(|rest| rest.trim().parse::<u64>().unwrap())
        };
        let blocks = number("Block count:").unwrap() as usize;
        let block_bytes = number("Block size:").unwrap();
        let clusters = number("Cluster size:").is_some_and(|bytes| bytes != block_bytes);
        let mut truth = Self { blocks: vec![None; blocks], free: vec![false; blocks], block_bytes, clusters };
        if block_bytes == 1024 {
            truth.set(0..=0, Use { class: Class::Superblock, inode: None, logical: None });
        }
        if let Some(block) = number("MMP block number:") {
            truth.set(block..=block, Use { class: Class::OtherMetadata, inode: None, logical: None });
        }
        let mut free_inodes = Vec::new();
        // The header before has lines of the same names.
        let (_, listing) = groups.split_once("\nGroup 0:").unwrap();
        for line in listing.lines() {
            truth.group_line(line, &mut free_inodes);
        }
        let special = [
            ("Journal inode:", Class::Journal),
            ("User quota inode:", Class::OtherMetadata),
            ("Group quota inode:", Class::OtherMetadata),
            ("Project quota inode:", Class::OtherMetadata),
            ("Orphan file inode:", Class::OtherMetadata),
        ];
        let special: Vec<_> =
            special.into_iter().filter_map(|(name, class)| Some((number(name)?, class))).collect();
        let used = (1..=number("Inode count:").unwrap())
            .filter(|inode| !free_inodes.iter().any(|r| r.contains(inode)));
        let used: Vec<u64> = used.collect();
        let requests: String = used.iter().map(|inode| format!("stat <{inode}>\n")).collect();
        let request_file = image.with_extension("requests");
        std::fs::write(&request_file, requests).unwrap();
        let answers = run("debugfs", &["-f", request_file.to_str().unwrap(), path]);
        for answer in
            answers.split("\ndebugfs: stat <").chain(answers.strip_prefix("debugfs: stat <")).skip(1)
        {
            truth.inode(answer, &special);
        }
        truth
    }

    fn set(&mut self, range: RangeInclusive<u64>, used: Use) {
        for (index, block) in range.enumerate() {
            let slot = &mut self.blocks[block as usize];
            let logical = used.logical.map(|logical| logical + index as u64);
            let one = Use { logical, ..used };
            // Blocks of extended attributes belong to several inodes; the copies of descriptors to the resize inode.
            if slot.is_none() {
                *slot = Some(one);
            } else if !matches!(slot.unwrap().class, Class::OtherMetadata | Class::Superblock) {
                panic!("block {block} is {slot:?} and {one:?}");
            }
        }
    }

    /// `  Block bitmap at 66 (+65)`, `  Primary superblock at 1, Group descriptors at 2-2`, `  Free blocks: 1-5, 7`.
    fn group_line(&mut self, line: &str, free_inodes: &mut Vec<RangeInclusive<u64>>) {
        let line = line.trim();
        if let Some(ranges) = line.strip_prefix("Free blocks: ") {
            for block in ranges.split(", ").filter(|range| !range.is_empty()).flat_map(range) {
                self.free[block as usize] = true;
            }
            return;
        }
        if let Some(ranges) = line.strip_prefix("Free inodes: ") {
            free_inodes.extend(ranges.split(", ").filter(|range| !range.is_empty()).map(range));
            return;
        }
        for part in line.split(", ") {
            let Some((what, place)) = part.split_once(" at ") else { continue };
            let class = match what {
                "Primary superblock"
                | "Backup superblock"
                | "Group descriptors"
                | "Group descriptor"
                | "Reserved GDT blocks" => Class::Superblock,
                "Block bitmap" | "Inode bitmap" => Class::AllocationMap,
                "Inode table" => Class::Inode,
                _ => continue,
            };
            let place = place.split(' ').next().unwrap();
            self.set(range(place), Use { class, inode: None, logical: None });
        }
    }

    /// What `stat` prints, after `stat <`.
    fn inode(&mut self, answer: &str, special: &[(u64, Class)]) {
        let inode: u64 = answer.split('>').next().unwrap().parse().unwrap();
        let after = |name: &str| answer.split_once(name).map(|(_, rest)| rest.trim_start());
        let acl: u64 = after("File ACL:").unwrap().split_whitespace().next().unwrap().parse().unwrap();
        if acl != 0 {
            self.set(acl..=acl, Use { class: Class::OtherMetadata, inode: Some(inode), logical: None });
        }
        let flags = after("Flags:").unwrap().split_whitespace().next().unwrap();
        let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap();
        let kind = after("Type:").unwrap();
        let class = if let Some((_, class)) = special.iter().find(|(number, _)| *number == inode) {
            *class
        } else if kind.starts_with("directory") {
            Class::Directory
        } else if kind.starts_with("symlink") || flags & 0x20_0000 != 0 {
            Class::OtherMetadata
        } else {
            Class::FileData
        };
        let Some(list) = after("\nBLOCKS:\n").or_else(|| after("\nEXTENTS:\n")) else { return };
        for entry in
            list.lines().next().unwrap_or_default().split(", ").filter(|entry| entry.starts_with('('))
        {
            let (what, place) = entry[1..].split_once("):").unwrap();
            let blocks = range(place);
            if inode == 7 && !what.starts_with("DIND") {
                continue;
            }
            let used = if what.starts_with(|c: char| c.is_ascii_digit()) {
                let logical = what.split(['-', '[']).next().unwrap().parse().unwrap();
                Use { class, inode: Some(inode), logical: Some(logical) }
            } else {
                Use { class: Class::ExtentMap, inode: Some(inode), logical: None }
            };
            self.set(blocks, used);
        }
    }
}

fn range(text: &str) -> RangeInclusive<u64> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    first.parse().expect(text)..=last.parse().expect(text)
}
