//! A daemon of libvirt's on this machine: whether it can be reached.

use std::io;
use std::os::unix::net::UnixStream;

use crate::refusal::{Cause, Refusal};

/// A daemon, and what is said where it cannot be reached.
pub struct Daemon<'a> {
    /// What it serves, as its tool is told.
    pub uri: &'a str,
    /// Where it listens: one for one driver, or the older one for everything.
    pub sockets: [&'a str; 2],
    /// Debian packages with it.
    pub packages: &'a [&'a str],
    /// What does without it.
    pub without: &'a str,
}

impl Daemon<'_> {
    /// Whether one of its sockets can be used: asked before its tool, whose answer is words.
    ///
    /// # Errors
    /// It is not there or not for this user, with what to do.
    pub fn check(&self) -> Result<(), Refusal> {
        let mut why = None;
        for socket in self.sockets {
            match UnixStream::connect(socket) {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::NotFound && why.is_some() => {}
                Err(e) => why = Some((socket, e)),
            }
        }
        let Some((socket, error)) = why else { return Ok(()) };
        let (cause, help) = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                (Cause::NotPermitted, "`adduser $USER libvirt` and a new login permit it".to_owned())
            }
            _ => {
                let packages = self.packages.join(" ");
                let help =
                    format!("`systemctl start libvirtd` starts it; `apt-get install {packages}` installs it");
                (Cause::NotThere, help)
            }
        };
        let (uri, without) = (self.uri, self.without);
        let message = format!(
            "the daemon of {uri} cannot be reached at {socket}: {error}; {help}, and {without} does without it"
        );
        Err(Refusal::new(cause, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'a>(sockets: [&'a str; 2]) -> Daemon<'a> {
        Daemon { uri: "xen:///system", sockets, packages: &["libvirt-daemon-system"], without: "xl" }
    }

    #[test]
    fn a_daemon_that_is_not_there_is_named_with_what_to_do() {
        let refused = at(["/nonexistent/virtxend-sock", "/nonexistent/libvirt-sock"]).check().unwrap_err();
        assert_eq!(refused.cause, Cause::NotThere);
        insta::assert_snapshot!(refused.message, @"the daemon of xen:///system cannot be reached at /nonexistent/virtxend-sock: No such file or directory (os error 2); `systemctl start libvirtd` starts it; `apt-get install libvirt-daemon-system` installs it, and xl does without it");
    }

    #[test]
    fn one_socket_of_two_is_enough() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libvirt-sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let path = path.display().to_string();
        assert_eq!(at(["/nonexistent/virtxend-sock", &path]).check(), Ok(()));
    }
}
