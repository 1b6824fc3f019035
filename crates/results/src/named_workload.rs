//! A workload by its name: in the notation, or the file of a profile.

use std::fs;
use std::io;

use nestor_stack::{Bytes, ParseBytesError};
use nestor_workload::profile::LARGEST_UNNAMED_FILE_BYTES;
use nestor_workload::{Profile, ProfileError, Workload, WorkloadError};
use thiserror::Error;

/// The end of the name of a file that holds a profile of `nestor characterize`.
const PROFILE: &str = ".toml";

/// Why a name is not a workload.
#[derive(Debug, Error)]
pub enum WorkloadNameError {
    /// It is written wrongly.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The braces do not match.
    #[error(transparent)]
    Braces(#[from] nestor_stack::StackError),
    /// The text is empty.
    #[error(
        "a workload is empty\n  write an engine and a case, as in fio:seq-write; `nestor workloads` lists them"
    )]
    Empty,
    /// The profile's file cannot be read.
    #[error("cannot read the profile {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{file} is not a profile of `nestor characterize`: {source}")]
    Profile {
        /// The file.
        file: String,
        /// What is wrong with it.
        source: ProfileError,
    },
    /// The size behind the file's name.
    #[error(transparent)]
    Size(#[from] ParseBytesError),
}

/// A workload, and what its user should know of it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedWorkload {
    /// The workload.
    pub workload: Workload,
    /// What is not as the profile has it.
    pub remark: Option<String>,
}

/// The file of a profile, and the size of the file that its load is to work on if that is named: `mail.toml:size=64G`.
pub fn profile_named(text: &str) -> Option<(&str, Option<&str>)> {
    match text.rsplit_once(":size=") {
        Some((file, size)) if file.ends_with(PROFILE) => Some((file, Some(size))),
        _ => text.ends_with(PROFILE).then_some((text, None)),
    }
}

/// The workloads that a text with alternatives in braces stands for, each in the notation or the file of a profile.
///
/// # Errors
///
/// If one of them is neither.
pub fn written_workloads(text: &str) -> Result<Vec<NamedWorkload>, WorkloadNameError> {
    let texts = nestor_stack::expand(text)?;
    if texts.is_empty() {
        return Err(WorkloadNameError::Empty);
    }
    texts.iter().map(|text| NamedWorkload::read(text)).collect()
}

impl NamedWorkload {
    /// The workload that is written so, without alternatives in braces.
    ///
    /// # Errors
    ///
    /// If it is neither in the notation nor the file of a profile.
    pub fn read(text: &str) -> Result<Self, WorkloadNameError> {
        let Some((file, size)) = profile_named(text) else {
            return Ok(Self { workload: Workload::parse(text)?, remark: None });
        };
        let profile = read_profile(file)?;
        let file_bytes = match size {
            Some(size) => size.parse::<Bytes>()?.get(),
            None => profile.file_bytes().min(LARGEST_UNNAMED_FILE_BYTES),
        };
        let is_shorter = size.is_none() && profile.file_bytes() > file_bytes;
        let remark = is_shorter.then(|| {
            format!(
                "the requests of {file} span {:.0} GB, and the file of the load is {:.1} GB, so seeks are shorter than in the \
                 profile; {file}:size=64G makes the file larger",
                profile.file_bytes() as f64 / 1e9,
                file_bytes as f64 / 1e9
            )
        });
        Ok(Self { workload: profile.workload(file_bytes)?, remark })
    }
}

/// Reads the profile in a file.
///
/// # Errors
///
/// If it cannot be read or is not a profile.
pub fn read_profile(file: &str) -> Result<Profile, WorkloadNameError> {
    let text = fs::read_to_string(file)
        .map_err(|source| WorkloadNameError::Read { file: file.to_owned(), source })?;
    Profile::parse(&text).map_err(|source| WorkloadNameError::Profile { file: file.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profiles_file_may_have_a_size() {
        assert_eq!(profile_named("a/mail.toml"), Some(("a/mail.toml", None)));
        assert_eq!(profile_named("mail.toml:size=64G"), Some(("mail.toml", Some("64G"))));
        assert_eq!(profile_named("fio:seq-read:size=1G"), None);
    }

    #[test]
    fn workloads_have_alternatives_too() {
        let names = |text| {
            let named = written_workloads(text)?;
            Ok::<_, WorkloadNameError>(named.iter().map(|n| n.workload.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(names("fio:{seq,rand}-read").unwrap(), ["fio:seq-read", "fio:rand-read"]);
        assert!(names("fio:seq-reed").unwrap_err().to_string().contains("seq-read"));
    }
}
