//! The studies that come with the program: the files in `studies/`.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use nestor_results::Study;
use nestor_text::nearest;

/// A study that is part of this program.
pub struct OwnStudy {
    /// What it is called, also in its file.
    pub name: &'static str,
    /// Who published what it repeats, and where; `None` for a study that repeats none.
    pub source: Option<&'static str>,
    /// Its file in the source tree: the name that errors give.
    pub file: &'static str,
    /// The text of the file.
    pub text: &'static str,
}

/// One study by its name, which is that of its file, and what it repeats.
macro_rules! own {
    ($name:literal, $source:expr) => {
        OwnStudy {
            name: $name,
            source: $source,
            file: concat!("studies/", $name, ".toml"),
            text: include_str!(concat!("../../../studies/", $name, ".toml")),
        }
    };
}

/// All of them: first the first look, then those that were published, in the order in which they are listed.
pub const OWN_STUDIES: &[OwnStudy] = &[
    own!("quick", None),
    own!(
        "nested-fs",
        Some("Le, Huang, Wang: Understanding Performance Implications of Nested File Systems, FAST 2012")
    ),
    own!(
        "esx-disk",
        Some(
            "Ahmad and others: An Analysis of Disk Performance in VMware ESX Server Virtual Machines, WWC 2003"
        )
    ),
    own!(
        "virtual-nas",
        Some(
            "Hildebrand and others: Revisiting the Storage Stack in Virtualized NAS Environments, WIOV 2011"
        )
    ),
    own!(
        "type2-postmark",
        Some(
            "Đorđević, Timčenko: A performance comparison of Linux filesystems in hypervisor type 2 virtualized environment"
        )
    ),
    own!("paravirtual-io", Some(ARMSTRONG_DJEMAME)),
    own!("image-propagation", Some(ARMSTRONG_DJEMAME)),
    own!("instances-at-once", None),
];

const ARMSTRONG_DJEMAME: &str = "Armstrong, Djemame: A Performance Evaluation of Virtual Image Propagation & I/O Paravirtualization, CLOSER 2011";

/// Those that repeat something published.
pub fn published() -> impl Iterator<Item = &'static OwnStudy> {
    OWN_STUDIES.iter().filter(|study| study.source.is_some())
}

/// Reads a study by what the command line calls it: a file if there is one of that path, else one that comes with the program.
///
/// # Errors
/// There is neither, or something in it is wrong.
pub fn study_called(name: &Path, scale: Option<&str>) -> Result<Study> {
    let own = OWN_STUDIES.iter().find(|own| Path::new(own.name) == name);
    match own {
        Some(own) if !is_a_file(name) => Ok(Study::parse(own.file, own.text, scale)?),
        _ => Study::read(name, scale).map_err(|error| match is_a_file(name) {
            true => error.into(),
            false => {
                let meant = name.to_str().and_then(|name| nearest(name, names()));
                let meant = meant.map(|meant| format!("\n  did you mean {meant}?")).unwrap_or_default();
                anyhow!("{error}\n  studies that come with Nestor: {}{meant}", names().join(", "))
            }
        }),
    }
}

/// A directory is no study, whatever it is called.
fn is_a_file(path: &Path) -> bool {
    path.exists() && !path.is_dir()
}

fn names() -> Vec<&'static str> {
    OWN_STUDIES.iter().map(|own| own.name).collect()
}

/// The title of a study that comes with the program.
///
/// # Errors
/// Never, if the tests of this file pass.
pub fn title(own: &OwnStudy) -> Result<String> {
    Ok(Study::parse(own.file, own.text, None).with_context(|| own.file)?.title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_study_is_there_under_its_own_name() {
        let mut listed: Vec<String> = OWN_STUDIES.iter().map(|own| own.file.to_owned()).collect();
        for own in OWN_STUDIES {
            assert_eq!(Study::parse(own.file, own.text, None).unwrap().name, own.name);
            assert!(!title(own).unwrap().is_empty());
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| format!("studies/{}", entry.unwrap().file_name().to_str().unwrap()))
            .collect();
        listed.sort();
        files.sort();
        assert_eq!(listed, files);
    }

    #[test]
    fn a_file_of_that_path_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("quick");
        let text = OWN_STUDIES[0].text.replace("name = \"quick\"", "name = \"mine\"");
        std::fs::write(&path, text).unwrap();
        assert_eq!(study_called(&path, None).unwrap().name, "mine");
        assert_eq!(study_called(Path::new("quick"), None).unwrap().name, "quick");
        let said = study_called(&folder.path().join("other"), None).unwrap_err().to_string();
        assert!(said.contains("studies that come with Nestor: quick, nested-fs"), "{said}");
    }
}
