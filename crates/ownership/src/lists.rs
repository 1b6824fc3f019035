//! Access control lists for tests.

use std::path::Path;

use rustix::fs::{XattrFlags, setxattr};

use super::writers::ACCESS_LIST;

/// Lets user 4321 write to something by a list, as `setfacl -m u:4321:rwx` does. `false`: the file system has no lists.
pub fn let_user_write(path: &Path) -> bool {
    // Version 2, then tag, permissions and number of each entry: acl(5), include/uapi/linux/posix_acl_xattr.h.
    const NOBODY: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] =
        [(0x01, 7, NOBODY), (0x02, 7, 4321), (0x04, 5, NOBODY), (0x10, 7, NOBODY), (0x20, 5, NOBODY)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, number) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(number.to_le_bytes());
    }
    setxattr(path, ACCESS_LIST, &list, XattrFlags::empty()).is_ok()
}
