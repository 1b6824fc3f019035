//! VirtualBox for a lab image: of another release of Debian than the image's, so it comes with the libraries of that release in a directory of its
//! own, and its kernel module is compiled for the image's kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::build::Build;
use super::error::LabImageError;
use super::fetch::Apt;
use super::progress::LabStage;
use super::recipe::Release;
use super::sources;
use super::tool::ToolFailure;

/// Programs that a build with it needs besides, and Debian's packages that bring them.
pub const PROGRAMS: [(&str, &str); 5] =
    [("apt-cache", "apt"), ("dpkg-deb", "dpkg"), ("gcc", "gcc"), ("make", "make"), ("strip", "binutils")];

/// Its package, and the one with the sources of its kernel module.
const PACKAGES: [&str; 2] = ["virtualbox", "virtualbox-dkms"];

/// Libraries that its package asks for, and of which only its windows, its web service and its remote display make use.
const NOT_NEEDED: [&str; 6] = ["libgl1", "libgsoap", "libsdl2", "libvncserver", "libx11", "libxt"];

/// Where it is installed, relative to the root.
const INSTALLED: &str = "usr/lib/virtualbox";

/// What is installed there and no lab machine runs.
const NOT_RUN: [&str; 14] = [
    "ExtensionPacks",
    "VBoxAutostart",
    "VBoxDTrace",
    "VBoxDxVk.so",
    "VBoxEFI-amd64.fd",
    "VBoxEFI-arm32.fd",
    "VBoxEFI-arm64.fd",
    "VBoxEFI-x86.fd",
    "VBoxVMMArm.so",
    "VBoxSDL",
    "sdk",
    "vboximg-mount",
    "vboxwebsrv",
    "webtest",
];

/// Where the libraries of a Debian are, relative to the root.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// Where its libraries and its kernel module are in the image, relative to the root.
const BESIDE: &str = "usr/lib/nestor-virtualbox";

/// Its tool, relative to the root.
const TOOL: &str = "usr/bin/VBoxManage";

/// The tool loads the kernel module, and sees the libraries in place of the image's, in a mount namespace that all it starts is in. What is
/// unmounted outside is unmounted there too.
const TOOL_TEXT: &str = r#"#!/bin/sh
[ -c /dev/vboxdrv ] || insmod /usr/lib/nestor-virtualbox/vboxdrv.ko || exit
exec unshare --mount --propagation slave sh -c \
    'mount --bind /usr/lib/nestor-virtualbox/lib /usr/lib/x86_64-linux-gnu && exec "$0" "$@"' /usr/lib/virtualbox/VBoxManage "$@"
"#;

/// Where the build is.
struct Place {
    /// Fetched packages.
    debs: PathBuf,
    /// VirtualBox's packages, unpacked.
    tree: PathBuf,
    /// The kernel's headers, unpacked.
    headers: PathBuf,
    /// What is added to the root.
    added: PathBuf,
}

/// Adds it to the root's archive; the versions of its packages.
pub fn add(
    build: &Build,
    (apt, base_sources, settings): (&Apt, &Path, &[String]),
    of: &Release,
    kernel: &str,
    root_tar: &Path,
) -> Result<BTreeMap<String, String>, LabImageError> {
    let at = |name: &str| build.partial.directory().join("virtualbox").join(name);
    let place = Place { debs: at("debs"), tree: at("tree"), headers: at("headers"), added: at("added") };
    for directory in [&place.debs, &place.tree, &place.headers, &place.added] {
        fs::create_dir_all(directory).map_err(LabImageError::file("cannot create", directory))?;
    }
    let tell = |within: f64, detail: &str| build.tracker.tell(LabStage::Packing, within, detail);
    tell(0.05, "VirtualBox's packages");
    let versions = fetch_virtualbox(build, &place, (base_sources, settings), of, &at("apt"))?;
    tell(0.15, "the kernel's headers");
    fetch_headers(build, &place, apt, kernel)?;
    tell(0.2, "VirtualBox's kernel module");
    compile(build, &place, kernel)?;
    tell(0.25, "VirtualBox");
    arrange(&place)?;
    append(build, &place, root_tar)?;
    let directory = at("");
    fs::remove_dir_all(&directory).map_err(LabImageError::file("cannot remove", &directory))?;
    Ok(versions)
}

fn fetching<'a>(build: &'a Build<'a>) -> impl Fn(ToolFailure) -> LabImageError + 'a {
    |failure| failure.during_fetch("fetching VirtualBox's packages", build.partial.directory())
}

/// Fetches and unpacks its packages and the libraries that it needs, with what those need.
fn fetch_virtualbox(
    build: &Build,
    place: &Place,
    (base_sources, settings): (&Path, &[String]),
    of: &Release,
    directory: &Path,
) -> Result<BTreeMap<String, String>, LabImageError> {
    let text = fs::read_to_string(base_sources).map_err(LabImageError::file("cannot read", base_sources))?;
    let text = sources::of_other_release(&text, of)
        .ok_or_else(|| LabImageError::Unusable("it has no source of packages".to_owned()))?;
    let of_release = build.partial.directory().join("virtualbox.sources");
    fs::write(&of_release, text).map_err(LabImageError::file("cannot write", &of_release))?;
    let apt = Apt::prepare(build, (directory, &place.debs), &of_release, settings)?;
    let failed = fetching(build);
    let quiet = &mut |_: &str| {};
    apt.run(build, ("apt-get", &["update", "-o", "APT::Update::Error-Mode=any"]), &place.debs, quiet)
        .map_err(&failed)?;
    let libraries: Vec<String> =
        needs(build, &apt, PACKAGES[0], &place.debs)?.into_iter().filter(|name| is_needed(name)).collect();
    let mut install = vec!["install", "--yes", "--download-only"];
    install.extend(libraries.iter().map(String::as_str));
    apt.run(build, ("apt-get", &install), &place.debs, quiet).map_err(&failed)?;
    // Without all that they ask for.
    apt.run(build, ("apt-get", &["download", PACKAGES[0], PACKAGES[1]]), &place.debs, quiet)
        .map_err(&failed)?;
    unpack(build, &place.debs, &place.tree)
}

fn is_needed(package: &str) -> bool {
    (package.starts_with("lib") || package.starts_with("zlib"))
        && !NOT_NEEDED.iter().any(|name| package.starts_with(name))
}

/// The packages that a package depends on.
fn needs(
    build: &Build,
    apt: &Apt,
    package: &str,
    directory: &Path,
) -> Result<BTreeSet<String>, LabImageError> {
    let mut needs = BTreeSet::new();
    apt.run(build, ("apt-cache", &["depends", package]), directory, &mut |line| {
        needs.extend(dependency(line).map(str::to_owned));
    })
    .map_err(fetching(build))?;
    Ok(needs)
}

/// In a line of `apt-cache depends`: `  Depends: libc6`, ` |Depends: systemd`, `  Depends: <virtualbox-modules>`.
fn dependency(line: &str) -> Option<&str> {
    let name = line.trim_start_matches([' ', '|']).strip_prefix("Depends: ")?;
    (!name.starts_with('<')).then_some(name)
}

/// Unpacks all packages of a directory, which are then removed; their versions.
fn unpack(build: &Build, debs: &Path, tree: &Path) -> Result<BTreeMap<String, String>, LabImageError> {
    let mut versions = BTreeMap::new();
    for deb in entries(debs)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "deb")) {
        let mut command = build.environment.command("dpkg-deb");
        build.run(command.arg("--extract").arg(&deb).arg(tree), &mut |_| {}).map_err(|failure| {
            failure.during("unpacking VirtualBox's packages", build.partial.directory())
        })?;
        versions.extend(deb.file_name().and_then(|name| name_and_version(name.to_str()?)));
        fs::remove_file(&deb).map_err(LabImageError::file("cannot remove", &deb))?;
    }
    // The libraries are of no interest, and the image has others of the same names.
    versions.retain(|name, _| PACKAGES.contains(&name.as_str()));
    Ok(versions)
}

/// In the name of a package's file, where a colon is written as `%3a`.
fn name_and_version(file: &str) -> Option<(String, String)> {
    let mut parts = file.split('_');
    Some((parts.next()?.to_owned(), parts.next()?.replace("%3a", ":")))
}

fn fetch_headers(build: &Build, place: &Place, apt: &Apt, kernel: &str) -> Result<(), LabImageError> {
    let own = format!("linux-headers-{kernel}");
    // Not the compiler that they ask for: the machine's own is used.
    let is_wanted =
        |name: &String| ["linux-headers-", "linux-kbuild-"].iter().any(|part| name.starts_with(part));
    let all: Vec<String> =
        needs(build, apt, &own, &place.debs)?.into_iter().filter(is_wanted).chain([own]).collect();
    let download: Vec<&str> = ["download"].into_iter().chain(all.iter().map(String::as_str)).collect();
    apt.run(build, ("apt-get", &download), &place.debs, &mut |_| {}).map_err(fetching(build))?;
    unpack(build, &place.debs, &place.headers).map(drop)
}

/// Compiles the module that runs machines; those for networks are not needed.
fn compile(build: &Build, place: &Place, kernel: &str) -> Result<(), LabImageError> {
    let headers = place.headers.join("usr/src").join(format!("linux-headers-{kernel}"));
    // It includes the common headers by the place where they are installed.
    let makefile = headers.join("Makefile");
    let text = fs::read_to_string(&makefile).map_err(LabImageError::file("cannot read", &makefile))?;
    let text = text.replace("/usr/src", &place.headers.join("usr/src").display().to_string());
    fs::write(&makefile, text).map_err(LabImageError::file("cannot write", &makefile))?;
    let module = module_source(place)?.join("vboxdrv");
    let failed = |failure: ToolFailure| {
        failure.during("compiling VirtualBox's kernel module", build.partial.directory())
    };
    let mut make = build.environment.command("make");
    make.arg("-C").arg(&headers).arg(format!("M={}", module.display())).arg("modules");
    build.run(&mut make, &mut |_| {}).map_err(failed)?;
    let compiled = module.join("vboxdrv.ko");
    let mut strip = build.environment.command("strip");
    build.run(strip.arg("--strip-debug").arg(&compiled), &mut |_| {}).map_err(failed)?;
    let to = place.added.join(BESIDE).join("vboxdrv.ko");
    make_parent(&to)?;
    fs::rename(&compiled, &to).map_err(LabImageError::file("cannot take", &compiled))
}

/// The one version of the module's sources.
fn module_source(place: &Place) -> Result<PathBuf, LabImageError> {
    let sources = entries(&place.tree.join("usr/src"))?;
    match &sources[..] {
        [one] => Ok(one.clone()),
        _ => Err(LabImageError::Unusable(format!(
            "the package {} has the sources of {} kernel modules, and one is expected",
            PACKAGES[1],
            sources.len()
        ))),
    }
}

/// Puts what the image needs where it will be.
fn arrange(place: &Place) -> Result<(), LabImageError> {
    let installed = place.tree.join(INSTALLED);
    for name in NOT_RUN {
        let path = installed.join(name);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        // Another version may not have it.
        if let Err(e) = removed
            && e.kind() != std::io::ErrorKind::NotFound
        {
            return Err(LabImageError::file("cannot remove", &path)(e));
        }
    }
    take(&installed, &place.added.join(INSTALLED))?;
    let libraries = place.tree.join(LIBRARIES);
    for path in entries(&libraries)? {
        // Directories have what is loaded by name, such as character sets, which nothing here does.
        if !path.is_dir()
            && let Some(name) = path.file_name()
        {
            take(&path, &place.added.join(BESIDE).join("lib").join(name))?;
        }
    }
    let tool = place.added.join(TOOL);
    make_parent(&tool)?;
    let write = || {
        fs::write(&tool, TOOL_TEXT)?;
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755))
    };
    write().map_err(LabImageError::file("cannot write", &tool))
}

fn take(from: &Path, to: &Path) -> Result<(), LabImageError> {
    make_parent(to)?;
    fs::rename(from, to).map_err(LabImageError::file("cannot take", from))
}

fn append(build: &Build, place: &Place, root_tar: &Path) -> Result<(), LabImageError> {
    let mut command = build.environment.command("tar");
    command.arg("--append").arg("--file").arg(root_tar).arg("--directory").arg(&place.added);
    // VirtualBox runs only what belongs to root and what no other user may write to.
    command.args(["--owner=0", "--group=0", "--mode=u+rw,go+rX,go-w", "--sort=name"]);
    command.args([INSTALLED, BESIDE, TOOL].map(|path| format!("./{path}")));
    build
        .run(&mut command, &mut |_| {})
        .map_err(|failure| failure.during("adding VirtualBox to the root", build.partial.directory()))
}

fn make_parent(path: &Path) -> Result<(), LabImageError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    fs::create_dir_all(parent).map_err(LabImageError::file("cannot create", parent))
}

/// In the order of their names.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, LabImageError> {
    let read = fs::read_dir(directory).and_then(|all| all.map(|entry| Ok(entry?.path())).collect());
    let mut all: Vec<PathBuf> = read.map_err(LabImageError::file("cannot read", directory))?;
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_its_headless_parts_are_taken_from_apts_words() {
        let said = "virtualbox\n  Depends: iproute2\n |Depends: virtualbox-dkms\n  Depends: <virtualbox-modules>\n    virtualbox-dkms\n  \
            Depends: libc6\n  Depends: libgl1\n  Depends: libgsoap-2.8.142\n  Depends: libsdl2-2.0-0\n  Depends: libx11-6\n  \
            Depends: libxml2-16\n  Depends: zlib1g\n  Conflicts: <virtualbox-7.0>\n  Recommends: libother\n";
        let needed: Vec<&str> = said.lines().filter_map(dependency).filter(|name| is_needed(name)).collect();
        assert_eq!(needed, ["libc6", "libxml2-16", "zlib1g"]);
    }

    #[test]
    fn the_name_of_a_packages_file_has_its_version() {
        let of = |file| name_and_version(file).map(|(name, version)| format!("{name} {version}"));
        assert_eq!(of("virtualbox_7.2.22-dfsg-2_amd64.deb").as_deref(), Some("virtualbox 7.2.22-dfsg-2"));
        assert_eq!(of("zlib1g_1%3a1.3_amd64.deb").as_deref(), Some("zlib1g 1:1.3"));
        assert_eq!(of("lock"), None);
    }
}
