//! What can keep a lab image from being built, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::sources::MIRROR_VARIABLE;
use nestor_ownership::Distrust;
use nestor_text::units;

/// Why the lab image is not available.
#[derive(Debug, thiserror::Error)]
pub enum LabImageError {
    /// The image is made for another architecture than this machine's.
    #[error("the lab image supports only {wanted} machines; this machine is {found}")]
    Architecture {
        /// Debian's name of the image's architecture.
        wanted: String,
        /// This machine's, as Rust names it.
        found: String,
    },
    /// Programs the build needs are not installed.
    #[error(
        "the lab image cannot be built without {}; install what is missing: apt-get install {}",
        .programs.join(", "), .packages.join(" ")
    )]
    MissingPrograms {
        /// Names of the programs.
        programs: Vec<String>,
        /// Debian's packages that bring them.
        packages: Vec<String>,
    },
    /// An ordinary user has no range of subordinate ids to build with.
    #[error(
        "an ordinary user builds the lab image with a range of subordinate ids, and {user} has none in {file}; \
         as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
    )]
    SubordinateIds {
        /// The user's name, or number where it has no name.
        user: String,
        /// The file that was searched.
        file: PathBuf,
    },
    /// The kernel refuses user namespaces to ordinary users.
    #[error(
        "this machine does not let ordinary users make user namespaces, which building the lab image needs ({detail}); \
         build it as root, or allow them: sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000"
    )]
    UserNamespaces {
        /// What the attempt said.
        detail: String,
    },
    /// Packages could not be fetched.
    #[error(
        "could not fetch packages for the lab image: {detail}; \
         check the network, or set {MIRROR_VARIABLE} to the address of a mirror of Debian"
    )]
    Network {
        /// The first complaint of apt.
        detail: String,
    },
    /// Too little space before anything was begun.
    #[error(
        "building the lab image needs {needed_mib} MiB, but {} has only {free_mib} MiB free; \
         free some space, or set NESTOR_CACHE to a directory with more",
        .directory.display()
    )]
    NotEnoughSpace {
        /// The directory that lies on the full file system.
        directory: PathBuf,
        /// MiB that are needed.
        needed_mib: u64,
        /// MiB that are free.
        free_mib: u64,
    },
    /// Space ran out while the image was being built.
    #[error(
        "the disk became full while the lab image was being built in {}; only the fetched packages \
         were kept. Free some space, or set NESTOR_CACHE to a directory with more",
        .directory.display()
    )]
    DiskFull {
        /// The directory that lies on the full file system.
        directory: PathBuf,
    },
    /// No directory that the user namespace of an ordinary user's build can enter.
    #[error(
        "an ordinary user's build needs a directory that every user may enter, with {needed_mib} MiB free; none of \
         {} qualifies; set TMPDIR to such a directory",
        units::listed(.tried.iter().map(|d| d.display()))
    )]
    NoWorkDirectory {
        /// The directories that were looked at.
        tried: Vec<PathBuf>,
        /// MiB that are needed.
        needed_mib: u64,
    },
    /// A program of the build did not succeed.
    #[error("{what} failed: `{program}` {ended}{output}")]
    Program {
        /// What was being done.
        what: &'static str,
        /// The program's name.
        program: String,
        /// `ended with exit code 1`, `was ended by signal 9`, `could not be started: …`.
        ended: String,
        /// The last lines it printed, each on a line of its own, or nothing.
        output: String,
    },
    /// The packages installed do not bring what stacks need.
    #[error(
        "the kernel {release} that was installed lacks modules that the lab needs: {}; \
         lab/recipe.toml excludes them or names them wrongly",
        .modules.join(", ")
    )]
    MissingModules {
        /// The kernel's release.
        release: String,
        /// The modules' names.
        modules: Vec<String>,
    },
    /// The tree that was installed is not what the build expects.
    #[error("the lab image that was built is not usable: {0}")]
    Unusable(String),
    /// A file that was to be added as a kernel.
    #[error("{} cannot be added to the lab: {reason}", .file.display())]
    UnusableKernel {
        /// The file.
        file: PathBuf,
        /// What it lacks.
        reason: String,
    },
    /// A file that was to be added as a QEMU.
    #[error("{} cannot be added to the lab as a QEMU: {reason}", .file.display())]
    UnusableQemu {
        /// The file.
        file: PathBuf,
        /// What it lacks.
        reason: String,
    },
    /// Another user can change the image.
    #[error(
        "the cache of the lab image was not used: {cause}. Set NESTOR_CACHE to a directory of your own, or, if no other user \
         wrote to it, run `chmod go-w` on it"
    )]
    NotTrusted {
        /// What, and who can.
        cause: Distrust,
    },
    /// The image is another than the one that was made.
    #[error(
        "{} is not what was recorded when the lab image was made: a user or a fault changed it since; remove {}, then \
         run `nestor lab build`",
        .path.display(), .path.parent().unwrap_or(.path).display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The caller asked to stop.
    #[error("the build of the lab image was interrupted; the packages fetched so far are kept")]
    Interrupted,
    /// A file operation failed.
    #[error("{what} {}: {source}", .path.display())]
    File {
        /// What was tried: `cannot create`, `cannot read`, ….
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl LabImageError {
    /// A failed file operation; a full disk has its own variant.
    pub(super) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LabImageError {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                LabImageError::DiskFull { directory: path.parent().map(Path::to_owned).unwrap_or(path) }
            }
            _ => LabImageError::File { what, path, source },
        }
    }
}
