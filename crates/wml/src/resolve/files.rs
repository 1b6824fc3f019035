//! File sets.

use std::collections::HashMap;
use std::sync::Arc;

use super::limits;
use super::random::gamma_with_mean;
use super::values::Attributes;
use super::{Defined, Resolver, Result};
use crate::Span;
use crate::arithmetic::Scalar;
use crate::error::{Fault, Problem};
use crate::limits::{MOST_FILES, MOST_SET_BYTES};
use crate::plan::{FileSet, FileSetKind, RandomVariable, Value};
use crate::syntax::{Attribute, FilesSyntax, attribute};

/// Bytes of a file, width and shape where none are given (`parser_gram.y` of Filebench).
const DEFAULT_FILE_BYTES: u64 = 1024;
const DEFAULT_FILE_WIDTH: u64 = 10;
const DEFAULT_DIRECTORY_GAMMA: f64 = 1500.0;

/// Longest name of a file or directory on Linux (`NAME_MAX`, `include/uapi/linux/limits.h`).
const LONGEST_NAME_BYTES: usize = 255;

/// Why a file set cannot be called this: its files would be elsewhere than in a directory of its own below its path.
fn no_file_name(name: &str) -> Option<&'static str> {
    if name.contains('/') || matches!(name, "." | "..") {
        return Some(
            "it is the name of one directory below path=, so it must not contain / and must not be \
                     . or ..",
        );
    }
    // The engine's own records.
    if name.starts_with(".nestor-") {
        return Some("names that begin with .nestor- are reserved for Nestor's own files");
    }
    (name.len() > LONGEST_NAME_BYTES).then_some("a name has at most 255 bytes")
}

impl Resolver<'_> {
    /// All file sets defined so far. What a loop defines again under the same name takes the place of the former.
    pub(super) fn file_sets(&mut self) -> Result<Vec<FileSet>> {
        self.randoms.clear();
        let mut sets: Vec<FileSet> = Vec::new();
        let mut known: HashMap<(String, String), usize> = HashMap::new();
        for definition in self.files.clone() {
            let span = &definition.syntax.span;
            self.count_work(span)?;
            let set = self.file_set(&definition)?;
            match known.get(&(set.path.clone(), set.name.clone())) {
                Some(&index) if sets[index].span == *span => sets[index] = set,
                Some(_) => {
                    let problem = Problem::Twice(format!("the file set {:?} in {:?}", set.name, set.path));
                    return Err(Fault::new(span, problem, "give one of them another name or path"));
                }
                None => {
                    known.insert((set.path.clone(), set.name.clone()), sets.len());
                    sets.push(set);
                }
            }
        }
        limits::check_file_sets(&sets)?;
        Ok(sets)
    }

    fn file_set(&mut self, definition: &Defined<FilesSyntax>) -> Result<FileSet> {
        let FilesSyntax { kind, attributes: all, span } = &*definition.syntax;
        let attributes = &Attributes { all, scope: &definition.scope };
        let name = self.text(attributes, "name")?.unwrap_or_default();
        if let Some(remedy) = no_file_name(&name) {
            return Err(self.misfit(attributes, "name", &Scalar::Text(name), remedy));
        }
        let path = self.text(attributes, "path")?.unwrap_or_default();
        self.warn_of_variants(all);
        let entries = match kind {
            FileSetKind::File => 1,
            FileSetKind::Tree => self.count_to(attributes, "entries", MOST_FILES)?.unwrap_or(0),
        };
        let leaf_directories = self.count_to(attributes, "leafdirs", MOST_FILES)?.unwrap_or(0);
        let file_bytes = self.file_bytes(attributes, &name)?;
        let is_wide = entries > 1 || leaf_directories > 1;
        let directory_width = self.directory_width(attributes, *kind, is_wide, span)?;
        let directory_gamma = self.directory_gamma(attributes, *kind, span)?;
        let set = FileSet {
            name,
            path,
            kind: *kind,
            entries,
            leaf_directories,
            file_bytes,
            directory_width,
            directory_gamma,
            directory_depth: self.random(attributes, "dirdepthrv")?,
            preallocated_percent: self.percent(attributes, "prealloc")?.unwrap_or(0.0),
            parallel: self.flag(attributes, "paralloc")?,
            reuse: self.flag(attributes, "reuse")?,
            trust_tree: self.flag(attributes, "trusttree")?,
            read_only: self.flag(attributes, "readonly")?,
            write_only: self.flag(attributes, "writeonly")?,
            cached: self.truth(attributes, "cached")?,
            span: span.clone(),
        };
        if set.read_only && set.write_only {
            let remedy = "remove one of them";
            return Err(Fault::misfit(span, "this is both readonly and writeonly", remedy));
        }
        Ok(set)
    }

    /// Warns of attributes that only a variant of Filebench has.
    fn warn_of_variants(&mut self, all: &[Attribute]) {
        for (name, text) in [
            ("datasource", "datasource has no effect here: it belongs to a variant of Filebench"),
            ("entropy", "entropy has no effect here: it belongs to a variant of Filebench"),
            ("namelength", "namelength has no effect here: names are numbers"),
        ] {
            if let Some(attribute) = attribute(all, name) {
                self.warn(&attribute.span, text);
            }
        }
    }

    /// How many entries a directory has. A set with several files or directories, which `is_wide`, should say so.
    fn directory_width(
        &mut self,
        attributes: &Attributes<'_>,
        kind: FileSetKind,
        is_wide: bool,
        span: &Span,
    ) -> Result<Value> {
        let given = self.value(attributes, "dirwidth")?;
        Ok(match (kind, given) {
            (FileSetKind::File, _) => Value::Fixed(DEFAULT_FILE_WIDTH),
            (_, Some(width)) => width,
            (_, None) => {
                if is_wide {
                    let text = "dirwidth is missing: every file gets a directory of its own, as in Filebench";
                    self.warn(span, text);
                }
                Value::Fixed(0)
            }
        })
    }

    /// The shape of the tree: how its depth varies.
    fn directory_gamma(
        &mut self,
        attributes: &Attributes<'_>,
        kind: FileSetKind,
        span: &Span,
    ) -> Result<f64> {
        let gamma = match kind {
            FileSetKind::File => 0.0,
            FileSetKind::Tree => {
                self.double(attributes, "dirgamma")?.unwrap_or(DEFAULT_DIRECTORY_GAMMA) / 1000.0
            }
        };
        if gamma < 0.0 {
            let at = attribute(attributes.all, "dirgamma").map_or(span.clone(), |a| a.span.clone());
            let remedy = "it must be 0 or more: 1500 for a shape of 1.5";
            return Err(Fault::value(&at, "dirgamma", gamma * 1000.0, remedy));
        }
        Ok(gamma)
    }

    /// Size of a file: as given, or with `filesizegamma` (1.4) drawn around it.
    fn file_bytes(&mut self, attributes: &Attributes<'_>, name: &str) -> Result<Value> {
        let size =
            self.value_to(attributes, "size", MOST_SET_BYTES)?.unwrap_or(Value::Fixed(DEFAULT_FILE_BYTES));
        let Some(gamma) = self.double(attributes, "filesizegamma")?.filter(|gamma| *gamma != 0.0) else {
            return Ok(size);
        };
        let span =
            attribute(attributes.all, "filesizegamma").map_or(0..0, |attribute| attribute.span.clone());
        match size {
            Value::Fixed(mean) => {
                let distribution = gamma_with_mean(gamma / 1000.0, mean as f64, 0.0, &span)?;
                let name = format!("size of {name}");
                let drawn = RandomVariable { name, distribution, min: Some(0.0), max: None, round: 0.0 };
                Ok(Value::Drawn(Arc::new(drawn)))
            }
            drawn @ Value::Drawn(_) => {
                self.warn(&span, "filesizegamma has no effect here: size is a random variable already");
                Ok(drawn)
            }
        }
    }
}
