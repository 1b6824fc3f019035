//! Directories that a script's paths become below one that the user names: made without leaving it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use nestor_wml::Script;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use crate::error::FlowError;
use crate::options::file_sets;
use crate::source::Source;

/// Makes the directories of [`crate::relocate`] below `directory`, which exists. No link in it is followed.
///
/// # Errors
/// When one cannot be made, or something stands in its way that is no directory.
pub fn make_places(
    script: &Script,
    source: Source<'_>,
    places: &BTreeMap<String, PathBuf>,
    directory: &Path,
) -> Result<(), FlowError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for (written, place) in places {
        let set = || file_sets(script).find(|set| set.path == *written);
        let leads_out = |path: PathBuf| FlowError::LeadsOut {
            set: set().map_or_else(String::new, |set| set.name.clone()),
            line: set().map_or(0, |set| source.line_of(&set.span)),
            path,
        };
        let failed =
            |path: &Path, e: Errno| FlowError::call("cannot create", path.display().to_string(), e.into());
        let below = place.strip_prefix(directory).map_err(|_| leads_out(place.clone()))?;
        let mut path = directory.to_owned();
        let mut at = openat(CWD, directory, flags, Mode::empty()).map_err(|e| failed(directory, e))?;
        for part in below.components() {
            let Component::Normal(name) = part else { return Err(leads_out(place.clone())) };
            path.push(name);
            match mkdirat(&at, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(failed(&path, e)),
            }
            at = match openat(&at, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(inner) => inner,
                Err(Errno::LOOP | Errno::NOTDIR) => return Err(leads_out(path)),
                Err(e) => return Err(failed(&path, e)),
            };
        }
    }
    Ok(())
}
