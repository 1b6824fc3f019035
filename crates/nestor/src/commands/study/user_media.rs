//! What of the user's a study would write to, and whether the command line allows it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, bail};
use nestor_results::WrittenStack;
use nestor_stack::MediumKind;
use nestor_text::shell_quoted as quoted;
use serde::{Serialize, Serializer};

/// Something of the user's that a stack has as its medium.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WrittenMedium {
    /// The device, file or directory.
    pub path: String,
    /// Whether it is a directory, in which only a new one is written to; everything on other media is lost.
    pub is_directory: bool,
}

/// As its path.
impl Serialize for WrittenMedium {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.path)
    }
}

/// Devices, files and directories of the user's that stacks have as media, each once.
///
/// # Errors
/// For a stack that this version does not know: what it writes to is not known either.
pub fn written_media<'a>(stacks: impl IntoIterator<Item = &'a WrittenStack>) -> Result<Vec<WrittenMedium>> {
    let mut media = BTreeSet::new();
    for written in stacks {
        let Some(stack) = written.value() else {
            bail!(
                "this version does not know the stack {written}, so it cannot tell what that writes to; nothing was begun\n  \
                 write the stack as `nestor stack` shows stacks, or use the version that wrote it"
            );
        };
        for medium in [Some(stack.medium()), stack.source().last()].into_iter().flatten() {
            let Some(kind) = medium.medium_kind().filter(|kind| !kind.is_modelled()) else { continue };
            let is_directory = kind == MediumKind::Directory;
            let paths = medium.path().map(|path| path.display().to_string());
            media.extend(paths.map(|path| WrittenMedium { path, is_directory }));
        }
    }
    Ok(media.into_iter().collect())
}

/// A line of a plan for each medium.
pub fn plan_lines(media: &[WrittenMedium]) -> String {
    let line = |WrittenMedium { path, is_directory }: &WrittenMedium| match is_directory {
        true => format!("  writes to {path}: into a new directory, which is removed at the end\n"),
        false => format!("  writes to {path}: destroys everything on it\n"),
    };
    media.iter().map(line).collect()
}

/// Refuses a study whose file names devices or files that the command line does not.
///
/// # Errors
/// With the words to type.
pub fn require_allowed<'a>(
    stacks: impl IntoIterator<Item = &'a WrittenStack>,
    allowed: &[PathBuf],
) -> Result<()> {
    let mut missing = written_media(stacks)?;
    missing.retain(|medium| !allowed.iter().any(|allowed| allowed.as_os_str() == medium.path.as_str()));
    if missing.is_empty() {
        return Ok(());
    }
    let paths: Vec<&str> = missing.iter().map(|medium| medium.path.as_str()).collect();
    let words: Vec<String> = paths.iter().map(|path| format!("--allow {}", quoted(path))).collect();
    let condition = if missing.iter().all(|medium| medium.is_directory) {
        "if it may"
    } else {
        "if you can lose everything on it"
    };
    bail!(
        "the study writes to {}, which its file names and the command line does not; nothing was begun\n  \
         {condition}, add {}",
        paths.join(" and "),
        words.join(" ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACKS: [&str; 4] =
        ["ext4/file:/srv/b.img", "xfs/file:/srv/b.img", "ext4/kvm/dev:/dev/sdb", "ext3/kvm/raw/ext4/hdd"];

    fn written(stacks: &[&str]) -> Vec<WrittenStack> {
        stacks.iter().map(|stack| (*stack).into()).collect()
    }

    fn paths(stacks: &[&str]) -> Vec<String> {
        written_media(&written(stacks)).unwrap().into_iter().map(|medium| medium.path).collect()
    }

    #[test]
    fn a_directory_keeps_what_is_in_it() {
        let stacks = written(&["ext4/kvm/raw/dir:/srv/lab"]);
        let lines = plan_lines(&written_media(&stacks).unwrap());
        assert_eq!(lines, "  writes to /srv/lab: into a new directory, which is removed at the end\n");
        let refused = require_allowed(&stacks, &[]).unwrap_err().to_string();
        assert!(refused.contains("if it may, add --allow /srv/lab"), "{refused}");
        require_allowed(&stacks, &[PathBuf::from("/srv/lab")]).unwrap();
    }

    #[test]
    fn a_stack_that_is_not_known_is_refused() {
        let stacks = written(&["ext4/hdd", "zfs:of=2031/dev:/dev/sdb"]);
        let refused = require_allowed(&stacks, &[PathBuf::from("/dev/sdb")]).unwrap_err().to_string();
        assert!(refused.contains("does not know the stack zfs:of=2031/dev:/dev/sdb"), "{refused}");
        assert!(refused.contains("nothing was begun"), "{refused}");
    }

    #[test]
    fn only_media_of_the_users_are_written_to() {
        assert_eq!(paths(&STACKS), ["/dev/sdb", "/srv/b.img"]);
        assert!(paths(&["ext4/hdd", "ext3/kvm/null"]).is_empty());
    }

    #[test]
    fn the_medium_of_a_repository_is_written_to_as_well() {
        let sourced = ["ext4/kvm/copy:scp/ext4/file:/srv/a.img//link/raw/ext4/dev:/dev/sdb"];
        assert_eq!(paths(&sourced), ["/dev/sdb", "/srv/a.img"]);
    }

    #[test]
    fn every_path_has_to_be_allowed_by_itself() {
        let allow = |paths: &[&str]| {
            let allowed: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            require_allowed(&written(&STACKS), &allowed)
                .map_or_else(|e| e.to_string(), |()| "allowed".to_owned())
        };
        assert_eq!(allow(&["/srv/b.img", "/dev/sdb"]), "allowed");
        insta::assert_snapshot!(allow(&["/srv", "/srv/./b.img"]), @r"
        the study writes to /dev/sdb and /srv/b.img, which its file names and the command line does not; nothing was begun
          if you can lose everything on it, add --allow /dev/sdb --allow /srv/b.img
        ");
        insta::assert_snapshot!(allow(&["/dev/sdb"]), @r"
        the study writes to /srv/b.img, which its file names and the command line does not; nothing was begun
          if you can lose everything on it, add --allow /srv/b.img
        ");
    }

    #[test]
    fn the_words_to_type_are_for_a_shell() {
        assert_eq!(quoted("/srv/a.img"), "/srv/a.img");
        assert_eq!(quoted("/srv/it's $HOME; rm"), r"'/srv/it'\''s $HOME; rm'");
    }
}
