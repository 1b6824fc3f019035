//! Which users other than its owner may write to a file or directory.

use std::fmt::{self, Display};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{fgetxattr, lgetxattr};
use rustix::io::Errno;

/// The extended attribute that holds an access control list.
pub(super) const ACCESS_LIST: &str = "system.posix_acl_access";

/// Which users other than its owner and root may write to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Every user.
    Everybody,
    /// Its group, which may have members other than the owner.
    Group,
    /// The users in its access control list: the mode then shows only the maximum that the list grants.
    AccessList,
}

impl Display for Writers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Everybody => "others may write to it",
            Self::Group => "its group may write to it: `chmod g-w` it",
            Self::AccessList => {
                "its access control list lets others write to it: `setfacl -b` and `chmod g-w` it"
            }
        })
    }
}

/// Which users other than the owner may write to an open file; `None`: none.
///
/// # Errors
/// If the system does not answer.
pub fn of_open(file: &File) -> io::Result<Option<Writers>> {
    Ok(of(&file.metadata()?, || has_list(fgetxattr(file, ACCESS_LIST, &mut [0_u8; 0][..]))))
}

/// Which users other than the owner may write to the file at a path. A link is not followed. `None`: none.
pub fn of_path(path: &Path, metadata: &Metadata) -> Option<Writers> {
    of(metadata, || has_list(lgetxattr(path, ACCESS_LIST, &mut [0_u8; 0][..])))
}

/// Asks only for the size of the list. If the answer is unknown, a list is assumed.
fn has_list(answer: rustix::io::Result<usize>) -> bool {
    !matches!(answer, Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS))
}

fn of(metadata: &Metadata, has_list: impl Fn() -> bool) -> Option<Writers> {
    let (owner, group) = (metadata.uid(), metadata.gid());
    let mode = metadata.mode();
    if mode & 0o002 != 0 {
        Some(Writers::Everybody)
    } else if mode & 0o020 == 0 {
        // With a list this bit is its mask: without it no user in the list may write.
        None
    } else if has_list() {
        Some(Writers::AccessList)
    } else {
        (!is_group_of_one(owner, group)).then_some(Writers::Group)
    }
}

fn is_group_of_one(owner: u32, group: u32) -> bool {
    let [groups, users] = ["/etc/group", "/etc/passwd"].map(|path| match fs::read_to_string(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Some(String::new()),
        read => read.ok(),
    });
    matches!((groups, users), (Some(groups), Some(users)) if is_alone(owner, group, &groups, &users))
}

/// Whether a group has its owner's number, is not root's, and has no other members according to group(5) and passwd(5).
fn is_alone(owner: u32, group: u32, groups: &str, users: &str) -> bool {
    let fields = |line: &'_ str| line.split(':').map(|f| f.trim().to_owned()).collect::<Vec<_>>();
    let number = |field: Option<&String>| field.and_then(|f| f.parse::<u32>().ok());
    let users: Vec<_> = users.lines().map(fields).collect();
    let others_first =
        users.iter().any(|u| number(u.get(3)) == Some(group) && number(u.get(2)) != Some(owner));
    let is_owner = |name: &str| {
        users.iter().any(|u| u[0] == name)
            && users.iter().all(|u| u[0] != name || number(u.get(2)) == Some(owner))
    };
    let others_listed = groups.lines().map(fields).filter(|g| number(g.get(2)) == Some(group)).any(|g| {
        g.get(3).is_some_and(|names| names.split(',').any(|name| !name.is_empty() && !is_owner(name)))
    });
    owner == group && group != 0 && !others_first && !others_listed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_group_of_the_owners_number_with_nobody_else_in_it_is_the_owners_own() {
        let users = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\n";
        let alone = |groups: &str| is_alone(1000, 1000, groups, users);
        assert!(
            alone("") && alone("ann:x:1000:\n") && alone("ann:x:1000:ann\n") && alone("bob:x:1001:ann,bob\n")
        );
        assert!(
            !alone("ann:x:1000:bob\n")
                && !alone("ann:x:1000:ann,bob\n")
                && !alone("ann:x:1000:of-a-directory-service\n")
        );
        assert!(!alone("ann:x:1000:\nalias:x:1000:bob\n"), "two names of one group");
        assert!(!is_alone(1000, 100, "", users));
        assert!(!is_alone(0, 0, "root:x:0:\n", users), "root's group is not for root alone");
        assert!(!is_alone(1000, 1000, "", "ann:x:1000:1000::/:\nbob:x:1001:1000::/:\n"), "bob's first group");
    }

    #[test]
    fn a_group_bit_is_not_believed_where_there_is_a_list() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let found = || of_open(file.as_file()).unwrap();
        assert_eq!(found(), None);
        if crate::lists::let_user_write(file.path()) {
            assert_eq!(found(), Some(Writers::AccessList));
            assert_eq!(of_path(file.path(), &file.as_file().metadata().unwrap()), Some(Writers::AccessList));
        }
    }
}
