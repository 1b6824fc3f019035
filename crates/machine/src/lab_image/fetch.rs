//! Fetching the packages with the machine's apt, into a directory that outlives the build: an interrupted build continues
//! where it stopped, and what fails here is the network and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use super::build::Build;
use super::error::LabImageError;
use super::progress::LabStage;
use super::tool::ToolFailure;

/// How much of the stage is the fetching of the package lists.
const LISTS_SHARE: f64 = 0.2;

/// Settings of the machine's apt that reach its mirrors in the first place: proxies, certificates, a wrong clock.
const KEPT_SETTINGS: [&str; 6] = [
    "Acquire::http",
    "Acquire::https",
    "Acquire::Check-Valid-Until ",
    "Acquire::Check-Date ",
    "Acquire::ForceIPv",
    "Acquire::Retries ",
];

/// What has been fetched.
pub struct Fetched {
    /// What fetched it.
    pub apt: Apt,
    /// How many packages will be installed.
    pub packages: u32,
}

/// An apt of the build's own.
pub struct Apt {
    /// Its settings.
    configuration: PathBuf,
    /// The directory of its package lists.
    pub lists: PathBuf,
}

impl Apt {
    /// One that knows only these `sources`. It keeps what it needs in `directory`, and fetched packages in `debs`.
    pub fn prepare(
        build: &Build,
        (directory, debs): (&Path, &Path),
        sources: &Path,
        settings: &[String],
    ) -> Result<Self, LabImageError> {
        let lists = prepare_directories((directory, debs), sources)?;
        let configuration = directory.join("apt.conf");
        fs::write(&configuration, configuration_text(build, (directory, debs), settings))
            .map_err(LabImageError::file("cannot write", &configuration))?;
        Ok(Self { configuration, lists })
    }

    /// Has one of its programs do something in a directory.
    pub fn run(
        &self,
        build: &Build,
        (program, arguments): (&str, &[&str]),
        directory: &Path,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), ToolFailure> {
        let mut command = build.environment.command(program);
        command.env("APT_CONFIG", &self.configuration).args(arguments).current_dir(directory);
        build.run(&mut command, on_line)
    }
}

/// Fetches every package of the recipe, with all they depend on, from `sources`.
pub fn fetch(build: &Build, sources: &Path, settings: &[String]) -> Result<Fetched, LabImageError> {
    let apt = build.partial.directory().join("apt");
    let apt = Apt::prepare(build, (&apt, &build.debs), sources, settings)?;
    let apt_get = |arguments: &[&str], on_line: &mut dyn FnMut(&str)| {
        apt.run(build, ("apt-get", arguments), build.partial.directory(), on_line)
    };
    let tell = |within: f64, detail: &str| build.tracker.tell(LabStage::Fetching, within, detail);
    let failed = |failure: ToolFailure| failure.during_fetch("fetching packages", &build.debs);

    tell(0.0, "package lists");
    apt_get(&["update", "-o", "APT::Update::Error-Mode=any", "-o", "APT::Status-Fd=1"], &mut |line| {
        if let Some((fraction, _)) = parse_status(line) {
            tell(LISTS_SHARE * fraction, "package lists");
        }
    })
    .map_err(failed)?;

    let mut install =
        vec!["install", "--yes", "--download-only", "-o", "APT::Status-Fd=1", "?essential", "usrmerge"];
    install.extend(build.recipe.install_list());
    let mut packages = None;
    apt_get(&install, &mut |line| {
        packages = packages.or_else(|| newly_installed(line));
        if let Some((fraction, detail)) = parse_status(line) {
            tell(LISTS_SHARE + (1.0 - LISTS_SHARE) * fraction, detail);
        }
    })
    .map_err(failed)?;
    // This only frees space; a failure does not stop the build.
    if let Err(ToolFailure::Interrupted) = apt_get(&["autoclean"], &mut |_| {}) {
        return Err(LabImageError::Interrupted);
    }
    Ok(Fetched { apt, packages: packages.unwrap_or(build.recipe.expected_packages) })
}

fn prepare_directories((apt, debs): (&Path, &Path), sources: &Path) -> Result<PathBuf, LabImageError> {
    let lists = apt.join("lists");
    for directory in [
        &lists.join("partial"),
        &apt.join("cache"),
        &apt.join("etc/apt.conf.d"),
        &apt.join("etc/preferences.d"),
        &apt.join("etc/sources.list.d"),
        &debs.join("partial"),
    ] {
        fs::create_dir_all(directory).map_err(LabImageError::file("cannot create", directory))?;
    }
    let status = apt.join("status");
    fs::write(&status, "").map_err(LabImageError::file("cannot write", &status))?;
    let own_sources = apt.join("etc/sources.list.d/nestor.sources");
    fs::copy(sources, &own_sources).map_err(LabImageError::file("cannot write", &own_sources))?;
    Ok(lists)
}

/// An apt of its own: it knows no installed package, none of the machine's other sources, and writes nowhere else.
fn configuration_text(build: &Build, (apt, debs): (&Path, &Path), settings: &[String]) -> String {
    let (apt, debs) = (apt.display(), debs.display());
    let architecture = &build.recipe.architecture;
    format!(
        r#"Dir "{apt}";
Dir::State "{apt}";
Dir::State::Lists "lists";
Dir::State::Status "{apt}/status";
Dir::Cache "cache";
Dir::Cache::Archives "{debs}";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Etc "etc";
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "sources.list.d";
Dir::Etc::Parts "apt.conf.d";
Dir::Etc::PreferencesParts "preferences.d";
Dir::Etc::Trusted "/etc/apt/trusted.gpg";
Dir::Etc::TrustedParts "/etc/apt/trusted.gpg.d";
APT::Architecture "{architecture}";
APT::Architectures "{architecture}";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
APT::Keep-Downloaded-Packages "true";
Acquire::Languages "none";
Acquire::GzipIndexes "true";
Acquire::http::Timeout "30";
pkgCacheGen::ForceEssential ",";
{}
"#,
        settings.join("\n")
    )
}

/// The settings of the machine's own apt that fetching needs, in apt's syntax.
pub fn machine_settings(build: &Build) -> Vec<String> {
    let output = build.environment.command("apt-config").arg("dump").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    kept_settings(&text)
}

fn kept_settings(dump: &str) -> Vec<String> {
    dump.lines()
        .filter(|line| {
            KEPT_SETTINGS.iter().any(|prefix| line.starts_with(prefix)) && !line.ends_with(" \"\";")
        })
        .map(str::to_owned)
        .collect()
}

/// Progress as apt reports it: `dlstatus:<number>:<percent>:<what it does>`.
fn parse_status(line: &str) -> Option<(f64, &str)> {
    let mut fields = line.strip_prefix("dlstatus:")?.splitn(3, ':');
    let percent: f64 = fields.nth(1)?.parse().ok()?;
    Some((percent / 100.0, fields.next()?))
}

/// The number in `0 upgraded, 227 newly installed, 0 to remove and 0 not upgraded.`
fn newly_installed(line: &str) -> Option<u32> {
    line.split_once(" upgraded, ")?.1.split_once(" newly installed")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apts_own_words_are_understood() {
        assert_eq!(
            parse_status("dlstatus:227:62.5000:Retrieving file 227 of 227"),
            Some((0.625, "Retrieving file 227 of 227"))
        );
        assert_eq!(parse_status("Get:1 http://mirror.example/debian bookworm InRelease [151 kB]"), None);
        assert_eq!(
            newly_installed("0 upgraded, 227 newly installed, 0 to remove and 0 not upgraded."),
            Some(227)
        );
        assert_eq!(newly_installed("Reading package lists..."), None);
    }

    #[test]
    fn only_settings_that_fetching_needs_are_taken_over() {
        let dump = "Acquire \"\";\nAcquire::http \"\";\nAcquire::http::Proxy \"http://proxy.example:3128\";\n\
            Acquire::Check-Date \"false\";\nAcquire::Languages \"de\";\nDPkg::Post-Invoke:: \"rm\";\n";
        assert_eq!(
            kept_settings(dump),
            ["Acquire::http::Proxy \"http://proxy.example:3128\";", "Acquire::Check-Date \"false\";"]
        );
    }
}
