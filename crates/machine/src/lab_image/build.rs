//! A build from beginning to end: fetch, install into a new root, pack.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use nestor_text::shell_quoted;

use super::LabImage;
use super::cache::{BuildLock, Cache, PartialImage};
use super::environment::{Environment, make_open_directory};
use super::error::LabImageError;
use super::fetch::{self, Fetched};
use super::orphans;
use super::pack;
use super::progress::{LabStage, Tracker};
use super::recipe::Recipe;
use super::sources;
use super::tool::{self, ToolFailure};
use super::virtualbox;

/// How much of the stage is over before the first package is unpacked: packages are copied, essential ones extracted.
const PREPARED_SHARE: f64 = 0.1;

/// How much of the stage is over when the last package is set up; what remains is the archive of the root.
const PACKAGES_SHARE: f64 = 0.93;

/// What every step of a build has at hand.
pub struct Build<'a> {
    /// What to build.
    pub recipe: &'a Recipe,
    /// What the machine offers.
    pub environment: &'a Environment,
    /// Where it is built; removed when this ends, whichever way.
    pub partial: PartialImage,
    /// Where fetched packages are kept.
    pub debs: PathBuf,
    /// The receiver of progress reports.
    pub tracker: Tracker<'a>,
    /// Set when the caller wants the build to stop.
    pub interrupted: &'a AtomicBool,
}

impl Build<'_> {
    /// Runs one of the build's programs.
    pub fn run(&self, command: &mut Command, on_line: &mut dyn FnMut(&str)) -> Result<(), ToolFailure> {
        orphans::mark(command, self.partial.directory());
        tool::run(command, self.interrupted, on_line)
    }
}

/// Builds the image of `recipe` and puts it in place.
pub fn build(
    recipe: &Recipe,
    environment: &Environment,
    cache: &Cache,
    lock: &BuildLock,
    tracker: Tracker,
    interrupted: &AtomicBool,
) -> Result<LabImage, LabImageError> {
    environment.check(&recipe.architecture)?;
    let hash = recipe.short_hash();
    let partial = cache.begin(&hash, lock)?;
    let mut build = Build { recipe, environment, partial, debs: cache.debs(), tracker, interrupted };
    let work = prepare_work_directory(&mut build, &hash)?;
    let settings = fetch::machine_settings(&build);
    let sources = write_sources(&build)?;
    let fetched = match &sources {
        Some(file) => Some(fetch::fetch(&build, file, &settings)?),
        None => None,
    };
    environment.require(if recipe.virtualbox.is_some() { &virtualbox::PROGRAMS } else { &[] })?;
    let root_tar = build.partial.directory().join("root.tar");
    let mut command = mmdebstrap(&build, &work, sources.as_ref(), fetched.as_ref(), &settings);
    command.arg(&recipe.suite).arg(&root_tar).args(&sources);
    let packages = fetched.as_ref().map_or(recipe.expected_packages, |fetched| fetched.packages);
    install(&build, &mut command, packages)?;
    let more = |release: &str| match (&recipe.virtualbox, &fetched, &sources) {
        (Some(of), Some(fetched), Some(sources)) => {
            virtualbox::add(&build, (&fetched.apt, sources, &settings), of, release, &root_tar)
        }
        _ => Ok(BTreeMap::new()),
    };
    pack::pack(&build, &root_tar, &more)?;
    cache.finish(build.partial, &hash)
}

fn prepare_work_directory(build: &mut Build, hash: &str) -> Result<PathBuf, LabImageError> {
    // It may be made in a directory that every user may write to: no other user can know its name before.
    let name = format!("nestor-lab-{hash}-{:016x}", RandomState::new().hash_one(std::process::id()));
    let work = build.environment.work_directory(build.partial.directory(), &name)?;
    build.partial.set_work_directory(&work)?;
    make_open_directory(&work)?;
    Ok(work)
}

/// The chosen package sources as a file, or nothing if mmdebstrap shall choose.
fn write_sources(build: &Build) -> Result<Option<PathBuf>, LabImageError> {
    let environment = build.environment;
    let chosen =
        sources::choose(&build.recipe.suite, &environment.apt_directory, environment.mirror.as_deref());
    // What comes from another release needs an address.
    let public = || build.recipe.virtualbox.as_ref().map(|_| sources::public(&build.recipe.suite));
    let Some(text) = chosen.or_else(public) else { return Ok(None) };
    let path = build.partial.directory().join("nestor.sources");
    fs::write(&path, text).map_err(LabImageError::file("cannot write", &path))?;
    Ok(Some(path))
}

/// The call of mmdebstrap without its positional arguments.
fn mmdebstrap(
    build: &Build,
    work: &PathBuf,
    sources: Option<&PathBuf>,
    fetched: Option<&Fetched>,
    settings: &[String],
) -> Command {
    let mut command = build.environment.mmdebstrap();
    command.env("TMPDIR", work);
    // The kernel's package would have an initramfs made, which is never booted.
    command.env("INITRD", "No");
    command.args(["--variant=essential", "--format=tar", "--verbose"]);
    command.arg(format!("--architectures={}", build.recipe.architecture));
    command.arg(format!("--include={}", build.recipe.install_list().join(",")));
    for filter in build.recipe.path_filters() {
        command.arg(format!("--dpkgopt={filter}"));
    }
    // Whatever a loss of power destroys here is built again.
    command.arg("--dpkgopt=force-unsafe-io");
    for setting in settings {
        command.arg(format!("--aptopt={setting}"));
    }
    if let (Some(_), Some(fetched)) = (sources, fetched) {
        let directories = r#"mkdir -p "$1"/var/cache/apt/archives/partial "$1"/var/lib/apt/lists/partial"#;
        command.arg("--skip=update").arg(format!("--setup-hook={directories}"));
        for (from, to) in
            [(&build.debs, "/var/cache/apt/archives"), (&fetched.apt.lists, "/var/lib/apt/lists")]
        {
            command.arg(format!("--setup-hook=sync-in {} {to}", shell_quoted(&from.to_string_lossy())));
        }
    }
    command
}

fn install(build: &Build, command: &mut Command, packages: u32) -> Result<(), LabImageError> {
    let tell = |within: f64, detail: &str| build.tracker.tell(LabStage::Installing, within, detail);
    tell(0.0, "a new root");
    let steps = f64::from(2 * packages.max(1));
    let mut done = 0.0;
    build
        .run(command, &mut |line| {
            if let Some(package) = package_step(line) {
                done += 1.0;
                tell(
                    PREPARED_SHARE + (PACKAGES_SHARE - PREPARED_SHARE) * f64::min(done / steps, 1.0),
                    package,
                );
            } else if line.starts_with("I: creating tarball") {
                tell(PACKAGES_SHARE, "the archive of the root");
            }
        })
        .map_err(|failure| failure.during_fetch("installing packages", build.partial.directory()))
}

/// The package in dpkg's `Unpacking fio (3.33-3) ...` and `Setting up fio (3.33-3) ...`: two steps for each.
fn package_step(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("Unpacking ").or_else(|| line.strip_prefix("Setting up "))?;
    rest.split([' ', ':']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dpkgs_two_steps_are_counted() {
        assert_eq!(package_step("Unpacking libc6:amd64 (2.36-9) ..."), Some("libc6"));
        assert_eq!(package_step("Setting up fio (3.33-3) ..."), Some("fio"));
        assert_eq!(package_step("Preparing to unpack .../fio_3.33-3_amd64.deb ..."), None);
    }
}
