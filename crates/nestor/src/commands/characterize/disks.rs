//! Which block device is meant.

use std::path::PathBuf;

use anyhow::{Result, bail};
use nestor_kernel::disks::{all, of_processes};
use nestor_kernel::processes::Who;

/// The device to watch: the one named, the one that the processes have files on, or the only one there is.
///
/// # Errors
/// When it is not clear which.
pub fn device(named: Option<&str>, who: &Who) -> Result<PathBuf> {
    if let Some(named) = named {
        return Ok(PathBuf::from(named));
    }
    let (candidates, whose) = match who {
        Who::Everybody => (all(), "this machine has".to_owned()),
        _ => (of_processes(&who.processes()), format!("{} has files on", who.in_words())),
    };
    match candidates.len() {
        1 => Ok(candidates.into_iter().next().unwrap_or_default()),
        0 => {
            bail!(
                "{whose} no disk that can be identified: name it with --device, as `findmnt` or `lsblk` \
                   shows it"
            )
        }
        _ => {
            let list: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
            bail!("{whose} several disks: name one with --device: {}", list.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_named_device_is_taken_and_none_is_an_error() {
        assert_eq!(device(Some("/dev/sdx"), &Who::Everybody).unwrap(), Path::new("/dev/sdx"));
        // A process without any file: itself gone.
        let error = device(None, &Who::Process(u32::MAX)).unwrap_err().to_string();
        assert!(error.ends_with("name it with --device, as `findmnt` or `lsblk` shows it"), "{error}");
    }
}
