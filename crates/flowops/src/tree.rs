//! The tree of a file set: which directories and files it has, how large they are, and which exist from the beginning.
//!
//! Nothing here touches a disk. The shape is Filebench's (`fileset.c`): directories are filled depth first, each with a number of entries
//! drawn around the mean width, down to a depth drawn around `log(entries) / log(width)`, until there are enough files; names are
//! numbers of eight digits. So a tree that Filebench has left can be used again.

use nestor_wml::limits::{MOST_FILES, MOST_SET_BYTES};
use nestor_wml::{FileSet, FileSetKind, Value};
use rand_distr::{Distribution, Gamma};

use crate::error::FlowError;
use crate::random::Stream;

/// Deeper trees are no file sets anyone wants: their paths are longer than a system call takes.
const DEEPEST: u32 = 400;

/// Directories for each entry: more means that most are empty.
const DIRECTORIES_FOR_EACH: usize = 100;
/// Directories of a tree: of each its path is kept.
pub(crate) const MOST_DIRECTORIES: usize = 2 * MOST_FILES as usize;

/// The stream of a seed from which the order of making is drawn; those of the run's threads are counted from 0.
const ORDER: u64 = 1 << 61;

/// A tree.
pub(crate) struct Tree {
    /// Paths of directories, relative to the file set's own, in the order in which they are made; the first is "".
    pub(crate) directories: Vec<Box<str>>,
    pub(crate) files: Vec<Entry>,
    pub(crate) leaf_directories: Vec<Entry>,
    /// Bytes of each file when it is made.
    pub(crate) file_bytes: Vec<u64>,
    /// Whether a file exists from the beginning.
    pub(crate) preallocated: Vec<bool>,
    /// The same for leaf directories.
    pub(crate) leaf_preallocated: Vec<bool>,
}

/// A file, or an empty directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Index of its directory.
    directory: u32,
    /// Its name, as a number.
    number: u32,
}

impl Tree {
    /// Plans the tree of a file set; `seed` and the set's own number decide all that is random.
    pub(crate) fn plan(set: &FileSet, seed: u64, number: u64) -> Result<Self, FlowError> {
        let mut tree = Self {
            directories: Vec::new(),
            files: Vec::new(),
            leaf_directories: Vec::new(),
            file_bytes: Vec::new(),
            preallocated: Vec::new(),
            leaf_preallocated: Vec::new(),
        };
        let mut random = Stream::new(seed, number << 32);
        let shape = Shape::of(set).map_err(|why| FlowError::Tree { set: set.name.clone(), why })?;
        shape.grow(set, &mut tree, &mut random)?;
        let bytes = |_| random.value(&set.file_bytes).min(MOST_SET_BYTES);
        tree.file_bytes = tree.files.iter().map(bytes).collect();
        let share = set.preallocated_percent / 100.0;
        tree.preallocated = tree.files.iter().map(|_| random.fraction() < share).collect();
        tree.leaf_preallocated = tree.leaf_directories.iter().map(|_| random.fraction() < share).collect();
        Ok(tree)
    }

    /// The order in which files are made: a random one, so that neighbours in the tree are not neighbours on the disk. Another
    /// seed than the tree's decides it: the same files may lie elsewhere.
    pub(crate) fn order(&self, seed: u64) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.files.len() as u32).collect();
        Stream::new(seed, ORDER).shuffle(&mut order);
        order
    }

    /// Bytes of the files that exist from the beginning.
    pub(crate) fn preallocated_bytes(&self) -> u64 {
        self.file_bytes
            .iter()
            .zip(&self.preallocated)
            .filter(|(_, made)| **made)
            .fold(0, |sum, (bytes, _)| sum.saturating_add(*bytes))
    }

    /// Bytes of all files, when all exist.
    pub(crate) fn bytes(&self) -> u64 {
        self.file_bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Writes an entry's path, relative to the file set's own, with a final NUL.
    pub(crate) fn path_of(&self, entry: Entry, path: &mut Vec<u8>) {
        path.clear();
        let directory = &self.directories[entry.directory as usize];
        if !directory.is_empty() {
            path.extend_from_slice(directory.as_bytes());
            path.push(b'/');
        }
        write_number(entry.number, path);
        path.push(0);
    }

    /// Index of the directory an entry is in.
    pub(crate) fn directory_of(entry: Entry) -> usize {
        entry.directory as usize
    }
}

/// Eight digits, or as many as it takes.
fn write_number(number: u32, path: &mut Vec<u8>) {
    let mut digits = [b'0'; 10];
    let mut rest = number;
    let mut start = digits.len();
    while rest > 0 || start > 2 {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if start == 0 {
            break;
        }
    }
    path.extend_from_slice(&digits[start..]);
}

/// The means of a tree.
struct Shape {
    mean_depth: f64,
    mean_width: f64,
}

/// A directory that is being filled.
struct Open {
    directory: u32,
    depth: u32,
    is_leaf: bool,
    /// How many entries it may have of each kind; the root has no limit.
    width: f64,
    /// Entries of the kind that is being made.
    entries: u32,
    /// Number of the last entry. Filebench begins anew with leaf directories; then a set with files too has two of one name.
    number: u32,
    /// Entries are files first; when there are enough, leaf directories.
    leaf_directories_begun: bool,
}

impl Shape {
    fn of(set: &FileSet) -> Result<Self, String> {
        let mean_width = match &set.directory_width {
            Value::Fixed(width) => *width as f64,
            Value::Drawn(variable) => variable.mean(),
        };
        let count = set.entries.saturating_add(set.leaf_directories);
        let entries = count as f64;
        let impossible = Err;
        // Scripts say less; but they can be made larger.
        if count > MOST_FILES {
            return impossible(format!("has {count} entries, but at most {MOST_FILES} are allowed"));
        }
        let bytes = match &set.file_bytes {
            Value::Fixed(bytes) => *bytes as f64,
            Value::Drawn(variable) => variable.mean(),
        } * set.entries as f64;
        if bytes > MOST_SET_BYTES as f64 {
            return impossible(format!(
                "has files of {bytes:.0} bytes in all, but at most {MOST_SET_BYTES} are allowed"
            ));
        }
        if entries == 0.0 {
            return impossible(
                "has no files and no leaf directories: give it entries= or leafdirs=".to_owned(),
            );
        }
        if mean_width != 0.0 && mean_width < 2.0 && entries > 1.0 {
            return impossible(format!(
                "has directories of {mean_width} entries each, which cannot form a tree of {entries} files: \
                 give it dirwidth= of at least 2"
            ));
        }
        // Without a width (0) every file has a directory of its own.
        let mean_depth =
            if entries <= 1.0 || mean_width == 0.0 { 0.0 } else { entries.ln() / mean_width.ln() };
        Ok(Self { mean_depth, mean_width })
    }

    /// Fills directories depth first. A stack instead of recursion: trees can be deep.
    fn grow(&self, set: &FileSet, tree: &mut Tree, random: &mut Stream) -> Result<(), FlowError> {
        let (files, leaves) = (set.entries as usize, set.leaf_directories as usize);
        // A variable may draw widths of nothing, and then no number of directories is enough.
        let most_directories = (DIRECTORIES_FOR_EACH * (files + leaves) + 1000).min(MOST_DIRECTORIES);
        let mut stack = vec![self.open(set, tree, random, None, 0)?];
        while let Some(open) = stack.last_mut() {
            let is_root = open.depth == 1;
            let files_missing = tree.files.len() < files;
            if !files_missing && !open.leaf_directories_begun {
                open.leaf_directories_begun = true;
                open.entries = 0;
            }
            let missing = files_missing || tree.leaf_directories.len() < leaves;
            if !missing || (!is_root && f64::from(open.entries + 1) >= open.width + 1.0) {
                stack.pop();
                continue;
            }
            open.entries += 1;
            open.number += 1;
            let entry = Entry { directory: open.directory, number: open.number };
            if !is_root && open.is_leaf {
                if files_missing { &mut tree.files } else { &mut tree.leaf_directories }.push(entry);
            } else {
                let depth = open.depth;
                if depth >= DEEPEST {
                    return Err(FlowError::Tree {
                        set: set.name.clone(),
                        why: format!(
                            "is a tree of more than {DEEPEST} levels of directories: make \
                                      dirwidth= larger"
                        ),
                    });
                }
                if tree.directories.len() >= most_directories {
                    return Err(FlowError::Tree {
                        set: set.name.clone(),
                        why: format!(
                            "has {most_directories} directories before it has all its files: make dirwidth= or dirgamma= larger"
                        ),
                    });
                }
                let inner = self.open(set, tree, random, Some(entry), depth)?;
                stack.push(inner);
            }
        }
        Ok(())
    }

    fn open(
        &self,
        set: &FileSet,
        tree: &mut Tree,
        random: &mut Stream,
        entry: Option<Entry>,
        depth: u32,
    ) -> Result<Open, FlowError> {
        let directory = tree.directories.len() as u32;
        let path = match entry {
            None => String::new(),
            Some(entry) => {
                let mut path = Vec::new();
                tree.path_of(entry, &mut path);
                path.pop();
                String::from_utf8(path).expect("digits and slashes")
            }
        };
        tree.directories.push(path.into_boxed_str());
        let drawn_depth = match &set.directory_depth {
            Some(variable) => {
                // Its mean becomes the mean depth, whatever was written.
                let mean = variable.mean();
                if mean > 0.0 { variable.draw(random) * self.mean_depth / mean } else { self.mean_depth }
            }
            None => around(self.mean_depth, set.directory_gamma, random),
        };
        let drawn_width = match &set.directory_width {
            Value::Drawn(variable) => variable.draw(random),
            Value::Fixed(_) => around(self.mean_width, set.directory_gamma, random),
        };
        let not_zero = |number: f64| if number == 0.0 { 1.0 } else { number };
        let depth = depth + 1;
        Ok(Open {
            directory,
            depth,
            is_leaf: f64::from(depth) >= not_zero(drawn_depth.trunc()),
            width: not_zero(drawn_width),
            entries: 0,
            number: 0,
            leaf_directories_begun: false,
        })
    }
}

/// Whether a set can become a tree at all; the error is what it has or is, and what to do.
pub(crate) fn check_shape(set: &FileSet) -> Result<(), String> {
    Shape::of(set).map(drop)
}

/// A draw of a gamma distribution with this mean; the mean itself if `gamma` is 0.
fn around(mean: f64, gamma: f64, random: &mut Stream) -> f64 {
    match Gamma::new(gamma, mean / gamma) {
        Ok(distribution) if gamma > 0.0 && mean > 0.0 => distribution.sample(random),
        _ => mean,
    }
}

/// What a file set is called in messages.
pub(crate) fn kind_of(set: &FileSet) -> &'static str {
    match set.kind {
        FileSetKind::File => "file",
        FileSetKind::Tree => "fileset",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn set(entries: u64, width: u64, gamma: f64) -> FileSet {
        FileSet {
            name: "set".to_owned(),
            path: "/tmp".to_owned(),
            kind: FileSetKind::Tree,
            entries,
            leaf_directories: 0,
            file_bytes: Value::Fixed(1024),
            directory_width: Value::Fixed(width),
            directory_gamma: gamma,
            directory_depth: None,
            preallocated_percent: 100.0,
            parallel: false,
            reuse: false,
            trust_tree: false,
            read_only: false,
            write_only: false,
            cached: None,
            span: 0..0,
        }
    }

    fn path(tree: &Tree, entry: Entry) -> String {
        let mut path = Vec::new();
        tree.path_of(entry, &mut path);
        assert_eq!(path.pop(), Some(0));
        String::from_utf8(path).unwrap()
    }

    proptest! {
        #[test]
        fn a_tree_has_the_files_asked_for_each_once(
            entries in 1u64..2000, width in 2u64..300, gamma in prop_oneof![Just(0.0), Just(1.5)], seed: u64,
            leaves in 0u64..50,
        ) {
            let mut set = set(entries, width, gamma);
            set.leaf_directories = leaves;
            let tree = Tree::plan(&set, seed, 0).unwrap();
            prop_assert_eq!(tree.files.len() as u64, entries);
            prop_assert_eq!(tree.leaf_directories.len() as u64, leaves);
            let mut paths: Vec<String> =
                tree.files.iter().chain(&tree.leaf_directories).map(|e| path(&tree, *e)).collect();
            paths.extend(tree.directories.iter().map(ToString::to_string));
            let count = paths.len();
            paths.sort();
            paths.dedup();
            prop_assert_eq!(paths.len(), count, "two entries of one name");
            for entry in &tree.files {
                prop_assert!(Tree::directory_of(*entry) > 0, "files are never in the root");
            }
            let mut order = tree.order(seed);
            prop_assert!(entries < 9 || order != tree.order(seed ^ 1));
            order.sort_unstable();
            prop_assert!(order.iter().enumerate().all(|(i, &n)| i as u32 == n));
        }
    }

    #[test]
    fn one_file_is_two_levels_down() {
        let tree = Tree::plan(&set(1, 10, 0.0), 1, 0).unwrap();
        assert_eq!(path(&tree, tree.files[0]), "00000001/00000001");
    }

    #[test]
    fn widths_decide_how_many_directories_there_are() {
        let directories = |width| Tree::plan(&set(100_000, width, 0.0), 1, 0).unwrap().directories.len();
        // All in one directory below the root, as dirwidth=1000000 is meant; 20 in each, three levels above the files.
        assert_eq!(directories(1_000_000), 2);
        assert!((5000..5600).contains(&directories(20)), "{}", directories(20));
    }

    #[test]
    fn a_share_exists_from_the_beginning() {
        let mut set = set(10_000, 20, 1.5);
        set.preallocated_percent = 80.0;
        let tree = Tree::plan(&set, 3, 0).unwrap();
        let made = tree.preallocated.iter().filter(|made| **made).count();
        assert!((7800..8200).contains(&made), "{made}");
        assert_eq!(tree.preallocated_bytes(), made as u64 * 1024);
        assert_eq!(tree.bytes(), 10_000 * 1024);
    }

    #[test]
    fn impossible_trees_are_refused() {
        let refusal = |set: &FileSet| Tree::plan(set, 1, 0).err().unwrap().to_string();
        assert!(refusal(&set(100, 1, 0.0)).contains("dirwidth= of at least 2"));
        assert!(refusal(&set(0, 20, 0.0)).contains("give it entries="));
        assert_eq!(Tree::plan(&set(7, 0, 1.5), 1, 0).unwrap().directories.len(), 8);
    }

    #[test]
    fn names_are_numbers_of_eight_digits_or_more() {
        let written = |number| {
            let mut path = Vec::new();
            write_number(number, &mut path);
            String::from_utf8(path).unwrap()
        };
        assert_eq!(written(1), "00000001");
        assert_eq!(written(12_345_678), "12345678");
        assert_eq!(written(4_294_967_295), "4294967295");
    }
}
