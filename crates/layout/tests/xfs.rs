//! XFS against its own debugger: every block of file systems that were really used, and every extent of their files.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod lab;
mod trees;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nestor_layout::{Class, Extent, Layout};
use trees::{has_program, is_root, recorded, sparse_file, succeeds, unmount};

/// A file system in an image file.
struct Image {
    directory: tempfile::TempDir,
    path: PathBuf,
    mount_point: PathBuf,
}

/// A mounted image; dropping it unmounts.
struct Mounted<'a>(&'a Image);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        unmount(&self.0.mount_point);
    }
}

impl Image {
    /// An empty file.
    fn new() -> Self {
        // In memory if possible: the exercises synchronise often. An image takes some 100 MiB there.
        let directory =
            tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
        let (path, mount_point) = (directory.path().join("image"), directory.path().join("mounted"));
        fs::create_dir(&mount_point).expect("a directory");
        sparse_file(&path, 320 << 20);
        Self { directory, path, mount_point }
    }

    fn make(options: &[&str]) -> Self {
        let image = Self::new();
        succeeds(Command::new("mkfs.xfs").arg("-q").args(options).arg(&image.path));
        image
    }

    fn mount(&self) -> Mounted<'_> {
        succeeds(Command::new("mount").args(["-o", "loop"]).arg(&self.path).arg(&self.mount_point));
        Mounted(self)
    }

    fn layout(&self) -> Layout {
        nestor_layout::read(&File::open(&self.path).expect("the image")).expect("a layout")
    }

    /// What `xfs_db` answers to commands.
    fn debug(&self, commands: &str) -> String {
        let mut debugger = Command::new("xfs_db")
            .args(["-r", "-f"])
            .arg(&self.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("xfs_db");
        let mut input = debugger.stdin.take().expect("it is piped");
        let commands = format!("{commands}\nquit\n");
        let writer = std::thread::spawn(move || input.write_all(commands.as_bytes()));
        let output = debugger.wait_with_output().expect("it ends");
        writer.join().expect("it ends").expect("it reads");
        String::from_utf8(output.stdout).expect("text").replace("xfs_db> ", "")
    }

    /// Numbers of the superblock.
    fn superblock(&self) -> BTreeMap<String, u64> {
        let text = self.debug("sb 0\nprint");
        let fields = text.lines().filter_map(|line| line.split_once(" = "));
        fields.filter_map(|(name, value)| Some((name.to_owned(), number(value)?))).collect()
    }
}

/// A decimal or hexadecimal number.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Whether the file system of a superblock may share extents between files.
fn shares(superblock: &BTreeMap<String, u64>) -> bool {
    superblock.get("features_ro_compat").is_some_and(|features| features & 4 != 0)
}

/// Whether a test can run here, with root's rights if it mounts; says so if not.
fn can_run(mounts: bool) -> bool {
    let can = has_program("mkfs.xfs") && has_program("xfs_db") && (is_root() || !mounts);
    if !can {
        eprintln!("not tried: this needs xfsprogs{}", if mounts { " and root" } else { "" });
    }
    can
}

/// Uses the file system the way files live: many directories, appending, deleting, renaming, holes, long names and
/// links, attributes, shared extents, space that is used up.
fn exercise(root: &Path) {
    for directory in 0..40 {
        let path = root.join(format!("directory-{directory}"));
        fs::create_dir(&path).expect("a directory");
        for file in 0..60 {
            let name = path.join(format!("a-file-with-a-name-of-some-length-{file:04}"));
            let bytes = vec![7_u8; (file * 397) % 20_000];
            fs::write(&name, bytes).expect("a file");
            match file % 5 {
                0 => fs::remove_file(&name).expect("it was there"),
                1 => fs::rename(&name, path.join(format!("renamed-{file}"))).expect("it was there"),
                2 => File::options()
                    .append(true)
                    .open(&name)
                    .and_then(|mut f| f.write_all(&[1; 9000]))
                    .expect("more"),
                _ => {}
            }
        }
    }
    let large = root.join("a-directory-of-many");
    fs::create_dir(&large).expect("a directory");
    for file in 0..4000 {
        File::create(large.join(format!("one-of-very-many-files-{file:06}"))).expect("a file");
    }
    let fragmented = File::create(root.join("fragmented")).expect("a file");
    for piece in 0..5000_u64 {
        fragmented.write_all_at(&[3; 4096], piece * 12288).expect("a piece");
    }
    fragmented.sync_all().expect("synced");
    std::os::unix::fs::symlink("x".repeat(1000), root.join("long-link")).expect("a link");
    std::os::unix::fs::symlink("short", root.join("short-link")).expect("a link");
    fs::hard_link(root.join("fragmented"), root.join("another-name")).expect("a link");
    let preallocated = File::create(root.join("preallocated")).expect("a file");
    rustix::fs::fallocate(&preallocated, rustix::fs::FallocateFlags::KEEP_SIZE, 0, 20 << 20).expect("space");
    attributes(root);
}

/// Attributes in the inode, in blocks of their own, and so many that a tree finds them.
fn attributes(root: &Path) {
    let set = |path: &Path, name: String, length: usize| {
        let value = vec![9; length];
        rustix::fs::setxattr(path, name, &value, rustix::fs::XattrFlags::empty()).expect("an attribute");
    };
    for (name, length) in [("small", 10), ("medium", 2000), ("large", 60_000)] {
        let path = root.join(format!("attribute-{name}"));
        fs::write(&path, b"contents").expect("a file");
        set(&path, "user.one".into(), length);
    }
    let many = root.join("attributes-many");
    fs::write(&many, b"contents").expect("a file");
    for index in 0..300 {
        set(&many, format!("user.number-{index}"), 3000);
        // In between, so that the attributes' blocks do not lie side by side.
        fs::write(root.join(format!("between-{index}")), vec![1; 5000]).expect("a file");
    }
}

/// Copies that share their extents, one changed afterwards.
fn share(root: &Path) {
    for copy in 0..4 {
        let to = root.join(format!("shared-{copy}"));
        let cp = Command::new("cp").arg("--reflink=always").arg(root.join("fragmented")).arg(&to).status();
        assert!(cp.expect("cp").success());
        let changed = File::options().write(true).open(to).expect("the copy");
        for piece in 0..50 {
            changed.write_all_at(&[5; 4096], piece * 5 * 12288 * (copy + 1)).expect("a piece");
        }
    }
}

/// Uses up the space and frees it again in pieces of seven blocks, too small for the eight of 64 inodes, then makes many
/// inodes.
fn scatter_inodes(root: &Path) {
    // Without the reserve that is kept back, which would have room for many.
    succeeds(Command::new("xfs_io").args(["-x", "-c", "resblks 0"]).arg(root));
    let mut fillers = Vec::new();
    for (bytes, most) in [(8_u64 << 20, 1000), (1 << 20, 200), (28 << 10, 5000)] {
        for index in 0..most {
            let path = root.join(format!("filler-{bytes}-{index}"));
            // Not even an inode may be left.
            let Ok(file) = File::create(&path) else { break };
            if rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes).is_err() {
                drop(file);
                fs::remove_file(&path).expect("it was there");
                break;
            }
            fillers.push((bytes, path));
        }
    }
    let small: Vec<_> = fillers.iter().filter(|(bytes, _)| *bytes == 28 << 10).collect();
    for (_, path) in small.iter().step_by(3) {
        fs::remove_file(path).expect("it was there");
    }
    for index in 0..5000 {
        if File::create(root.join(format!("i{index}"))).is_err() {
            break;
        }
    }
}

/// What `xfs_db` calls a block, in our classes; `None` for free ones.
fn class_of(kind: &str) -> Option<Class> {
    Some(match kind {
        "sb" | "agf" | "agi" | "agfl" => Class::Superblock,
        "btbno" | "btcnt" | "btrmap" | "btrefcnt" | "freelist" | "rtbitmap" | "rtsummary" => {
            Class::AllocationMap
        }
        "btino" | "btfino" | "inode" => Class::Inode,
        "log" => Class::Journal,
        "data" | "rldata" | "cowdata" => Class::FileData,
        "dir" => Class::Directory,
        "attr" | "symlink" | "quota" => Class::OtherMetadata,
        free if free.starts_with("free") => return None,
        other => panic!("xfs_db knows another kind of block: {other}"),
    })
}

/// Compares every block; returns the kinds of blocks there were.
fn compare_blocks(image: &Image, layout: &Layout) -> BTreeSet<String> {
    let sb = image.superblock();
    let (ag_blocks, blocks, block_bytes) = (sb["agblocks"], sb["dblocks"], sb["blocksize"]);
    assert_eq!(layout.total_bytes, blocks * block_bytes);
    let mut commands = String::from("blockget -n\n");
    for ag in 0..sb["agcount"] {
        let count = ag_blocks.min(blocks - ag * ag_blocks);
        commands += &format!("fsblock {}\nblockuse -n -c {count}\n", ag << sb["agblklog"]);
    }
    let said = image.debug(&commands);
    let (mut kinds, mut compared, mut wrong) = (BTreeSet::new(), 0, Vec::new());
    for line in said.lines().filter(|line| line.starts_with("block ")) {
        // block 32770 (1/2) type data inode 131 name
        let mut words = line.split_whitespace();
        let place = words.nth(2).expect("group and block").trim_matches(['(', ')']);
        let (ag, block) = place.split_once('/').expect("group and block");
        let number =
            ag.parse::<u64>().expect("a number") * ag_blocks + block.parse::<u64>().expect("a number");
        let kind = words.nth(1).expect("a type");
        let inode = words.nth(1).map(|inode| inode.parse::<u64>().expect("a number"));
        let pieces: Vec<_> = layout.pieces(number * block_bytes, block_bytes).collect();
        let class = class_of(kind).unwrap_or(Class::Free);
        let ours = pieces[0].extent.and_then(|extent| extent.inode);
        let shared = kind == "rldata" || (class == Class::FileData && shares(&sb));
        let same_owner = ours == inode || shared || kind == "cowdata";
        // To xfs_db, the blocks of a tree of extents are like what the tree leads to; they are compared by themselves.
        let mapping = pieces[0].class == Class::ExtentMap
            && matches!(class, Class::FileData | Class::Directory | Class::OtherMetadata);
        if pieces.len() != 1 || !(mapping || pieces[0].class == class) || !same_owner {
            wrong.push(format!("{line}: {pieces:?}"));
        }
        compared += 1;
        kinds.insert(kind.to_owned());
    }
    assert_eq!(compared, blocks, "xfs_db says what every block is");
    assert!(wrong.is_empty(), "{} blocks differ, such as {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    kinds
}

/// What the extents of an inode are: blocks of its contents with their positions, and those without.
type Owned = BTreeSet<(Option<u64>, u64)>;

/// Compares the blocks of every inode with its forks, and positions in files and directories; returns how many extents
/// there were.
fn compare_extents(image: &Image, layout: &Layout) -> usize {
    let sb = image.superblock();
    let block_bytes = sb["blocksize"];
    let mut ours: BTreeMap<u64, Owned> = BTreeMap::new();
    for extent in layout.extents.iter().filter(|extent| extent.class != Class::ExtentMap) {
        let Extent { start, bytes, inode: Some(inode), file_offset, .. } = *extent else { continue };
        let blocks = (0..bytes).step_by(block_bytes as usize);
        ours.entry(inode)
            .or_default()
            .extend(blocks.map(|at| (file_offset.map(|first| first + at), start + at)));
    }
    let commands: String =
        ours.keys().map(|inode| format!("inode {inode}\nbmap -d\nbmap -a\necho end\n")).collect();
    let said = image.debug(&commands);
    let mut expected: Vec<Owned> = vec![Owned::new()];
    let mut count = 0;
    for line in said.lines() {
        // data offset 0 startblock 10 (0/10) count 1 flag 0
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.trim() == "end" {
            expected.push(Owned::new());
        } else if words.get(1) == Some(&"offset") {
            let number = |text: &str| text.parse::<u64>().expect("a number");
            let (ag, block) = words[5].trim_matches(['(', ')']).split_once('/').expect("group and block");
            let start = number(ag) * sb["agblocks"] + number(block);
            let first = (words[0] == "data").then(|| number(words[2]));
            let blocks = 0..number(words[7]);
            let owned = expected.last_mut().expect("there is always one");
            owned.extend(
                blocks.map(|at| (first.map(|first| (first + at) * block_bytes), (start + at) * block_bytes)),
            );
            count += 1;
        }
    }
    assert_eq!(expected.len(), ours.len() + 1);
    for ((inode, ours), expected) in ours.iter().zip(&expected) {
        let positions = ours.iter().any(|(position, _)| position.is_some());
        let expected: Owned = if positions {
            expected.clone()
        } else {
            expected.iter().map(|(_, block)| (None, *block)).collect()
        };
        // The blocks of a shared extent have one owner here and all of them there.
        let same = if shares(&sb) { ours.is_subset(&expected) } else { *ours == expected };
        assert!(same, "inode {inode}: {ours:?} {expected:?}");
    }
    count
}

/// Whether the debugger finds a block of a tree of extents, and of that inode, wherever we do.
fn compare_extent_maps(image: &Image, layout: &Layout) {
    let sb = image.superblock();
    let block_bytes = sb["blocksize"];
    let maps = layout.extents.iter().filter(|extent| extent.class == Class::ExtentMap);
    let blocks: Vec<_> = maps
        .flat_map(|extent| {
            (extent.start..extent.end()).step_by(block_bytes as usize).map(|at| (at, extent.inode))
        })
        .collect();
    assert!(!blocks.is_empty(), "a file has so many extents that a tree finds them");
    let basic_blocks = blocks.iter().map(|(at, _)| at / 512);
    let commands: String =
        basic_blocks.map(|at| format!("daddr {at}\ntype bmapbtd\nprint magic\nprint owner\n")).collect();
    let said = image.debug(&commands);
    let found =
        |name| said.lines().filter_map(move |line| number(line.strip_prefix(name)?.strip_prefix(" = ")?));
    assert_eq!(found("magic").count(), blocks.len());
    assert!(found("magic").all(|magic| [0x424d_4150, 0x424d_4133].contains(&magic)), "BMAP or BMA3");
    let owners: Vec<_> = blocks.iter().filter_map(|(_, inode)| *inode).collect();
    // Version 4 has no owners there.
    if sb["versionnum"] & 0xf == 5 {
        assert_eq!(found("owner").collect::<Vec<_>>(), owners);
    }
}

/// Compares everything of a file system that was used and unmounted.
fn compare(image: &Image, wanted: &[&str]) {
    let layout = image.layout();
    assert_eq!((layout.file_system.as_str(), &layout.remarks), ("xfs", &Vec::new()));
    let kinds = compare_blocks(image, &layout);
    let missing: Vec<_> = ALWAYS.iter().chain(wanted).filter(|kind| !kinds.contains(**kind)).collect();
    assert!(missing.is_empty(), "the file system has no blocks of {missing:?}, only of {kinds:?}");
    assert!(compare_extents(image, &layout) > 1000);
    compare_extent_maps(image, &layout);
}

/// Kinds of blocks that every file system has which was used.
const ALWAYS: [&str; 11] =
    ["sb", "btbno", "btcnt", "btino", "freelist", "inode", "log", "data", "dir", "attr", "symlink"];

/// Makes, uses and compares a file system; gives it for more.
fn check(options: &[&str], wanted: &[&str], also: fn(&Path)) -> Option<Image> {
    if !can_run(true) {
        return None;
    }
    let image = Image::make(options);
    compare_blocks(&image, &image.layout());
    {
        let mounted = image.mount();
        exercise(&mounted.0.mount_point);
        also(&mounted.0.mount_point);
    }
    compare(&image, wanted);
    Some(image)
}

#[test]
fn every_block_is_what_the_debugger_says_with_defaults() {
    check(&[], &["btfino", "btrefcnt"], share);
}

#[test]
fn every_block_is_what_the_debugger_says_with_reverse_maps_and_small_blocks() {
    check(
        &["-m", "rmapbt=1,reflink=1", "-b", "size=1024", "-i", "nrext64=1"],
        &["btrmap", "btrefcnt"],
        share,
    );
}

#[test]
fn every_block_is_what_the_debugger_says_where_chunks_of_inodes_have_holes() {
    let Some(image) = check(&["-i", "sparse=1", "-m", "reflink=0"], &["btfino"], scatter_inodes) else {
        return;
    };
    // Records are printed as `1:[startino,holemask,count,freecount,free]`, those of the root or of a block below it.
    let root = |ag| format!("agi {ag}\naddr root\n");
    let below = |ag| (1..=3).map(move |block| format!("{}addr ptrs[{block}]\nprint recs\n", root(ag)));
    let groups = 0..image.superblock()["agcount"];
    let commands: String =
        groups.map(|ag| root(ag) + "print recs\n" + &below(ag).collect::<String>()).collect();
    let said = image.debug(&commands);
    let mut chunks = said.split(":[").skip(1).filter_map(|chunk| number(chunk.split(',').nth(1)?));
    assert!(chunks.any(|holes| holes != 0), "{said}");
}

#[test]
fn every_block_of_a_recorded_file_system_without_checksums_is_what_the_debugger_says() {
    if can_run(false) {
        let image = Image::new();
        recorded("xfs-without-checksums.img.gz", &image.path);
        compare(&image, &["quota"]);
    }
}

#[test]
fn a_log_that_is_still_needed_and_one_elsewhere_are_remarked_on() {
    if !can_run(true) {
        return;
    }
    let image = Image::make(&[]);
    assert_eq!(image.layout().remarks, Vec::<String>::new());
    let mounted = image.mount();
    fs::write(image.mount_point.join("file"), vec![1; 100_000]).expect("a file");
    succeeds(Command::new("sync").arg("-f").arg(&image.mount_point));
    let remarks = image.layout().remarks;
    assert!(
        remarks.iter().any(|remark| remark.contains("the log does not end with an unmount")),
        "{remarks:?}"
    );
    drop(mounted);
    assert_eq!(image.layout().remarks, Vec::<String>::new());

    let log = image.directory.path().join("log");
    sparse_file(&log, 100 << 20);
    let elsewhere = Image::make(&["-l", &format!("logdev={}", log.display())]);
    assert_eq!(elsewhere.layout().remarks, ["the log is on another device"]);
    assert!(!elsewhere.layout().summary().contains_key(&Class::Journal));
}

#[test]
#[ignore = "many variants; part of `make test-long`"]
fn every_block_is_what_the_debugger_says_with_other_sizes() {
    check(&["-m", "finobt=0,reflink=0", "-i", "size=1024,sparse=0", "-n", "size=16384"], &[], |_| {});
    check(&["-s", "size=4096", "-m", "rmapbt=1", "-d", "agcount=3"], &["btrmap"], share);
    check(&["-m", "bigtime=0,inobtcount=0,reflink=0", "-b", "size=2048"], &[], scatter_inodes);
    check(&["-d", "agcount=2,su=64k,sw=4", "-l", "su=64k"], &["btrefcnt"], share);
}

#[test]
#[ignore = "boots a machine from the lab image; part of `make test-long`"]
fn every_block_is_what_the_debugger_says_without_checksums() {
    if !can_run(false) {
        return;
    }
    let options: [&[&str]; 3] = [&["size=1024"], &["size=4096", "-i", "size=256"], &["size=512"]];
    let images = options.map(|options| Image::make(&[&["-m", "crc=0", "-b"], options].concat()));
    let paths: Vec<&Path> = images.iter().map(|image| image.path.as_path()).collect();
    if lab::exercise_in_lab("exercise-xfs", &paths).is_some() {
        images.iter().for_each(|image| compare(image, &["quota"]));
    }
}
