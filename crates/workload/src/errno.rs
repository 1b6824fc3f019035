//! What to do about an error of the system that a workload met.

/// What to do, to be put behind what happened; empty where nothing is known to help. `errno` as in Linux
/// (`include/uapi/asm-generic/errno-base.h`, `errno.h`).
pub fn remedy(errno: i32) -> &'static str {
    match errno {
        libc::ENOSPC | libc::EDQUOT => {
            ": the file system is full; make the file sets smaller (--scale, --set) or the file system larger"
        }
        libc::EMFILE | libc::ENFILE => ": raise ulimit -n, or use fewer threads",
        libc::ENOENT => ": something else removed it while the workload ran",
        libc::EINVAL => {
            ": direct I/O needs sizes and places that are multiples of the device's block (directio, iosize)"
        }
        libc::EROFS => ": the file system is mounted read-only, or became so after an error (see dmesg)",
        libc::EACCES | libc::EPERM => ": this user does not have the permission",
        libc::EFBIG => {
            ": files of this size are not allowed here; raise ulimit -f, or make the files \
                              smaller"
        }
        libc::EBUSY => ": it is in use; unmount it, or name another one",
        libc::ESTALE => {
            ": the server no longer has the file or directory, or no longer exports it (`exportfs -v` there); mount it again"
        }
        libc::EIO => ": the device below failed (see dmesg)",
        _ => "",
    }
}
