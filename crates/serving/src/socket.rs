//! The sockets of a served device.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nestor_ownership as ownership;
use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen as net_listen, socket_with,
};

use crate::ServingError;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// A socket that is removed when it is no longer needed.
pub struct SocketFile {
    path: PathBuf,
    /// Device and number of the file: a later file of the same name may be another user's.
    file: (u64, u64),
}

impl SocketFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_it = |found: fs::Metadata| (found.dev(), found.ino()) == self.file;
        if fs::symlink_metadata(&self.path).is_ok_and(is_it) {
            // A failure cannot be reported here.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens on a new socket for its owner only. Replaces a socket that a dead server of this user's left, but neither a live one
/// nor any other file.
///
/// # Errors
/// Something else is there, the socket cannot be made, or on the way there is something that another user could lead elsewhere.
pub fn listen(path: &Path) -> Result<(UnixListener, SocketFile), ServingError> {
    ownership::open_above(path).map_err(|e| ServingError::io("create the socket", path)(e.into()))?;
    remove_dead_socket(path)?;
    let listener = bind_private(path).map_err(ServingError::io("create the socket", path))?;
    let found = fs::symlink_metadata(path).map_err(ServingError::io("find the socket", path))?;
    let file = SocketFile { path: path.to_owned(), file: (found.dev(), found.ino()) };
    listener.set_nonblocking(true).map_err(ServingError::io("listen on", path))?;
    Ok((listener, file))
}

/// A socket that is never open to other users: the file gets the mode that the socket has when it is bound, less the umask
/// (`unix_bind_bsd` in the kernel's net/unix/af_unix.c).
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let address = SocketAddrUnix::new(path)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &address)?;
    net_listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

fn remove_dead_socket(path: &Path) -> Result<(), ServingError> {
    let refused = |reason: &str| ServingError::Vhost { socket: path.to_owned(), reason: reason.to_owned() };
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(ServingError::io("look at", path)(e)),
    };
    if !found.file_type().is_socket() {
        return Err(refused("the file there is not a socket and was not changed; choose another path"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(refused("another server listens there; stop it, or choose another path")),
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
            if found.uid() != rustix::process::geteuid().as_raw() {
                return Err(refused("another user's dead server left this socket; choose another path"));
            }
            fs::remove_file(path).map_err(ServingError::io("remove the dead socket", path))
        }
        Err(e) => Err(ServingError::io("find out whether a server listens on", path)(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_made_private_even_without_a_umask() {
        use std::os::unix::process::CommandExt as _;
        const INSIDE: &str = "NESTOR_TEST_WITHOUT_UMASK";
        if std::env::var_os(INSIDE).is_some() {
            let folder = tempfile::tempdir().unwrap();
            assert_eq!(folder.path().metadata().unwrap().mode() & 0o777, 0o777, "there is no umask");
            let path = folder.path().join("disk.sock");
            let bound = bind_private(&path).unwrap();
            assert_eq!(path.symlink_metadata().unwrap().mode() & 0o777, 0o600);
            UnixStream::connect(&path).unwrap();
            bound.accept().unwrap();
            return;
        }
        // The umask is the whole process's.
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "socket::tests::a_socket_is_made_private_even_without_a_umask";
        again.args(["--exact", name]).env(INSIDE, "1");
        // SAFETY: umask(2) is async-signal-safe and cannot fail.
        unsafe {
            again.pre_exec(|| {
                libc::umask(0);
                Ok(())
            });
        }
        let output = again.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn only_a_dead_socket_gives_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.sock");
        let reason = |path: &Path| listen(path).map(|_| ()).unwrap_err().to_string();
        let live = UnixListener::bind(&path).unwrap();
        assert!(reason(&path).contains("another server listens there"));
        drop(live);
        let (listener, file) = listen(&path).expect("what a dead server left is replaced");
        assert!(reason(&path).contains("another server listens there"), "it is ours now");
        drop((listener, file));
        assert!(!path.exists());
    }

    /// Needs root, because only root can change an owner.
    #[test]
    fn a_socket_is_not_made_through_another_users_link() {
        let folder = tempfile::tempdir().unwrap();
        let [real, link] = ["real", "link"].map(|name| folder.path().join(name));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        drop(listen(&link.join("disk.sock")).expect("a link of one's own"));
        if std::os::unix::fs::lchown(&link, Some(4321), None).is_err() {
            return;
        }
        let refused = listen(&link.join("disk.sock")).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("link is a link of user 4321"), "{refused}");
        assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
    }

    #[test]
    fn what_is_no_socket_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, directory] = ["thesis.odt", "link", "folder"].map(|name| folder.path().join(name));
        fs::write(&file, "three years of work").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        fs::create_dir(&directory).unwrap();
        for path in [&file, &link, &directory] {
            let error = listen(path).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("is not a socket and was not changed"), "{error}");
            assert!(path.symlink_metadata().is_ok());
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "three years of work");
    }

    #[test]
    fn a_socket_that_another_server_made_in_the_meantime_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.sock");
        let (listener, file) = listen(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop((listener, file));
        assert!(path.exists());
    }
}
