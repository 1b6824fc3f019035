//! What the machine at hand offers to a build: programs, rights, room.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use nestor_ownership::place_for_temporary;

use super::error::LabImageError;
use super::sources::MIRROR_VARIABLE;

/// MiB a build takes at its peak: the unpacked root with its packages beside its archive. Measured: 1 230.
pub const NEEDED_MIB: u64 = 1_600;

/// Programs of a build and Debian's packages that bring them.
const PROGRAMS: [(&str, &str); 4] =
    [("mmdebstrap", "mmdebstrap"), ("apt-get", "apt"), ("sqfstar", "squashfs-tools"), ("tar", "tar")];

/// Programs an ordinary user's build needs as well.
const USER_PROGRAMS: [(&str, &str); 3] =
    [("newuidmap", "uidmap"), ("newgidmap", "uidmap"), ("unshare", "util-linux")];

/// Directories of programs that an ordinary user's search path may lack.
const SYSTEM_DIRECTORIES: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The circumstances of a build; tests make up their own.
pub struct Environment {
    /// Directories that programs are searched in.
    pub search_path: OsString,
    /// Where the machine's own package sources are described.
    pub apt_directory: PathBuf,
    /// A mirror the user names.
    pub mirror: Option<String>,
    /// Whether the build runs as root.
    pub is_root: bool,
    /// Whether mmdebstrap gets a mount namespace, which only root can give it.
    pub own_mounts: bool,
}

impl Environment {
    /// That of this process.
    pub fn of_this_process() -> Environment {
        let own = env::var_os("PATH").unwrap_or_default();
        let directories = env::split_paths(&own).chain(SYSTEM_DIRECTORIES.map(PathBuf::from));
        let is_root = rustix::process::geteuid().is_root();
        Environment {
            search_path: env::join_paths(directories).unwrap_or(own),
            apt_directory: PathBuf::from("/etc/apt"),
            mirror: env::var(MIRROR_VARIABLE).ok().filter(|uri| !uri.is_empty()),
            is_root,
            own_mounts: is_root,
        }
    }

    /// A call of one of the build's programs, in a language this program can read.
    pub fn command(&self, program: &str) -> Command {
        let found = self.find(program).unwrap_or_else(|| PathBuf::from(program));
        let mut command = Command::new(found);
        command
            .env("PATH", &self.search_path)
            .env("LC_ALL", "C.UTF-8")
            .env("DEBIAN_FRONTEND", "noninteractive");
        command.env_remove("APT_CONFIG").env_remove("TAR_OPTIONS").stdin(std::process::Stdio::null());
        command
    }

    /// A call of mmdebstrap.
    ///
    /// Root's would mount the new root's file systems where the whole machine sees them, and leave them there when it is
    /// killed; in a mount namespace of its own they end with it. An ordinary user's makes itself one.
    pub fn mmdebstrap(&self) -> Command {
        let mut command = self.command("mmdebstrap");
        command.arg(if self.is_root { "--mode=root" } else { "--mode=unshare" });
        if self.own_mounts {
            // SAFETY: between fork and exec the closure only makes two system calls, neither of which allocates or locks,
            // and the child has no other thread that could share what is unshared.
            unsafe {
                command.pre_exec(|| {
                    unshare_unsafe(UnshareFlags::NEWNS)?;
                    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
                    Ok(())
                });
            }
        }
        command
    }

    fn find(&self, program: &str) -> Option<PathBuf> {
        env::split_paths(&self.search_path).map(|directory| directory.join(program)).find(|path| {
            fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0)
        })
    }

    /// Looks for programs, each with Debian's package that brings it.
    pub fn require(&self, programs: &[(&str, &str)]) -> Result<(), LabImageError> {
        let missing: Vec<_> = programs.iter().filter(|(program, _)| self.find(program).is_none()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let programs = missing.iter().map(|(program, _)| program.to_string()).collect();
        let mut packages: Vec<_> = missing.iter().map(|(_, package)| package.to_string()).collect();
        packages.dedup();
        Err(LabImageError::MissingPrograms { programs, packages })
    }

    /// Looks for everything that can be known before the build begins.
    pub fn check(&self, architecture: &str) -> Result<(), LabImageError> {
        let own = match env::consts::ARCH {
            "x86_64" => "amd64",
            other => other,
        };
        if own != architecture {
            return Err(LabImageError::Architecture {
                wanted: architecture.to_owned(),
                found: own.to_owned(),
            });
        }
        let user_programs: &[_] = if self.is_root { &[] } else { &USER_PROGRAMS };
        self.require(&[&PROGRAMS, user_programs].concat())?;
        if self.is_root { Ok(()) } else { self.check_user_namespaces() }
    }

    fn check_user_namespaces(&self) -> Result<(), LabImageError> {
        let uid = rustix::process::getuid().as_raw();
        let name = user_name(uid, &fs::read_to_string("/etc/passwd").unwrap_or_default());
        for file in ["/etc/subuid", "/etc/subgid"] {
            if !has_range(&fs::read_to_string(file).unwrap_or_default(), uid, name.as_deref()) {
                let user = name.unwrap_or_else(|| uid.to_string());
                return Err(LabImageError::SubordinateIds { user, file: PathBuf::from(file) });
            }
        }
        let attempt = self.command("unshare").args(["--user", "--mount", "true"]).output();
        match attempt {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(LabImageError::UserNamespaces {
                detail: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            }),
            Err(e) => Err(LabImageError::UserNamespaces { detail: e.to_string() }),
        }
    }

    /// Where the new root is unpacked: beside the image if possible, which for an ordinary user it often is not, because
    /// the namespace's root is another user who has to be able to get there. `name` is the directory's name elsewhere.
    pub fn work_directory(&self, partial: &Path, name: &str) -> Result<PathBuf, LabImageError> {
        let inside = partial.join("work");
        if self.is_root || everybody_may_enter(partial) {
            return match free_mib(partial) {
                Some(free_mib) if free_mib < NEEDED_MIB => Err(LabImageError::NotEnoughSpace {
                    directory: partial.to_owned(),
                    needed_mib: NEEDED_MIB,
                    free_mib,
                }),
                _ => Ok(inside),
            };
        }
        let own = env::var_os("TMPDIR").map(PathBuf::from);
        let mut candidates = vec![place_for_temporary()];
        candidates.extend(own.into_iter().chain(["/var/tmp", "/tmp"].map(PathBuf::from)));
        candidates.dedup();
        let fits = |directory: &&PathBuf| {
            everybody_may_enter(directory) && free_mib(directory).is_some_and(|free| free >= NEEDED_MIB)
        };
        match candidates.iter().find(fits) {
            Some(directory) => Ok(directory.join(name)),
            None => Err(LabImageError::NoWorkDirectory { tried: candidates, needed_mib: NEEDED_MIB }),
        }
    }
}

/// Makes a directory that every user may enter, regardless of this process's umask.
pub fn make_open_directory(directory: &Path) -> Result<(), LabImageError> {
    let made = fs::create_dir(directory);
    made.and_then(|()| fs::set_permissions(directory, fs::Permissions::from_mode(0o755)))
        .map_err(LabImageError::file("cannot create", directory))
}

fn everybody_may_enter(directory: &Path) -> bool {
    let Ok(path) = directory.canonicalize() else { return false };
    path.ancestors().all(|part| fs::metadata(part).is_ok_and(|metadata| metadata.mode() & 0o001 != 0))
}

fn free_mib(directory: &Path) -> Option<u64> {
    let facts = rustix::fs::statvfs(directory).ok()?;
    Some(facts.f_bavail.saturating_mul(facts.f_frsize) >> 20)
}

fn user_name(uid: u32, passwd: &str) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// Whether subuid(5) or subgid(5) gives the user, named or numbered, as many ids as a Debian system has.
fn has_range(file: &str, uid: u32, name: Option<&str>) -> bool {
    const ENOUGH: u64 = 65_536;
    file.lines().any(|line| {
        let fields: Vec<_> = line.split(':').collect();
        match fields[..] {
            [owner, _, count] => {
                (Some(owner) == name || owner.parse() == Ok(uid))
                    && count.trim().parse().is_ok_and(|n: u64| n >= ENOUGH)
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_by_name_and_by_number() {
        let text = "alice:100000:65536\n1001:165536:65536\ncarol:231072:10\n";
        assert!(has_range(text, 1000, Some("alice")));
        assert!(has_range(text, 1001, None));
        assert!(!has_range(text, 1002, Some("carol")));
        assert!(!has_range(text, 1003, Some("dave")));
    }

    #[test]
    fn the_users_name_is_that_of_its_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n";
        assert_eq!(user_name(1000, passwd).as_deref(), Some("alice"));
        assert_eq!(user_name(7, passwd), None);
    }

    #[test]
    fn missing_programs_are_named_with_their_packages() {
        let environment = Environment {
            search_path: "/nonexistent".into(),
            apt_directory: "/nonexistent".into(),
            mirror: None,
            is_root: false,
            own_mounts: false,
        };
        let error = environment.check("amd64").unwrap_err();
        insta::assert_snapshot!(error, @"the lab image cannot be built without mmdebstrap, apt-get, sqfstar, tar, newuidmap, newgidmap, unshare; install what is missing: apt-get install mmdebstrap apt squashfs-tools tar uidmap util-linux");
        let error = environment.check("arm64").unwrap_err();
        insta::assert_snapshot!(error, @"the lab image supports only arm64 machines; this machine is amd64");
    }

    #[test]
    fn a_private_directory_is_not_for_everybody() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let inside = directory.path().join("inside");
        make_open_directory(&inside).unwrap();
        assert!(!everybody_may_enter(&inside));
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o711)).unwrap();
        assert_eq!(everybody_may_enter(&inside), everybody_may_enter(directory.path().parent().unwrap()));
    }
}
