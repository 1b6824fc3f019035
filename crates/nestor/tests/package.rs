//! What a Debian package of the program has in it.

#![allow(clippy::print_stderr)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Sandbox, binary, has_program};

/// What a command prints; it has to succeed.
fn printed(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text is UTF-8")
}

/// Makes the package in a directory.
fn made_in(directory: &Path) -> PathBuf {
    std::fs::create_dir_all(directory).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/make-deb");
    // Not compressed: a debug build is large.
    let mut command = Command::new(script);
    command.arg(binary()).arg(directory).envs([
        ("SOURCE_DATE_EPOCH", "1700000000"),
        ("DEB_MAINTAINER", "Somebody <somebody@example.org>"),
        ("DEB_COMPRESSION", "none"),
    ]);
    printed(&mut command).trim().into()
}

#[test]
fn a_package_has_the_program_its_pages_completions_studies_and_licences() {
    for tool in ["dpkg-deb", "strip", "git"] {
        if !has_program(tool) {
            eprintln!("not tried: there is no {tool}");
            return;
        }
    }
    let sandbox = Sandbox::new();
    let package = made_in(&sandbox.path("first"));
    let field = |name: &str| {
        printed(Command::new("dpkg-deb").arg("--field").arg(&package).arg(name)).trim().to_owned()
    };
    assert_eq!(field("Version"), format!("{}-1", env!("CARGO_PKG_VERSION")));
    assert_eq!(field("Maintainer"), "Somebody <somebody@example.org>");
    assert_eq!(field("Depends"), "debian-archive-keyring, mmdebstrap, qemu-system-x86, squashfs-tools");
    assert!(field("Suggests").ends_with("reiserfsprogs, xfsprogs"), "{}", field("Suggests"));
    let contents = printed(Command::new("dpkg-deb").arg("--contents").arg(&package));
    for (mode, file) in [
        ("-rwxr-xr-x", "usr/bin/nestor"),
        ("-rw-r--r--", "usr/share/man/man1/nestor.1.gz"),
        ("-rw-r--r--", "usr/share/man/man1/nestor-run.1.gz"),
        ("-rw-r--r--", "usr/share/man/man1/nestor-disk-check.1.gz"),
        ("-rw-r--r--", "usr/share/bash-completion/completions/nestor"),
        ("-rw-r--r--", "usr/share/zsh/vendor-completions/_nestor"),
        ("-rw-r--r--", "usr/share/fish/vendor_completions.d/nestor.fish"),
        ("-rw-r--r--", "usr/share/nestor/studies/quick.toml"),
        ("-rw-r--r--", "usr/share/nestor/workloads/fileserver.f"),
        ("-rw-r--r--", "usr/share/doc/nestor/README.md"),
        ("-rw-r--r--", "usr/share/doc/nestor/copyright"),
        ("-rw-r--r--", "usr/share/doc/nestor/linked-licences.gz"),
        ("-rw-r--r--", "usr/share/doc/nestor/changelog.gz"),
        ("-rw-r--r--", "usr/share/doc/nestor/changelog.Debian.gz"),
    ] {
        let is_it = |line: &&str| line.ends_with(&format!(" ./{file}"));
        let line = contents.lines().find(is_it).unwrap_or_else(|| panic!("{file} is not in\n{contents}"));
        assert!(line.starts_with(&format!("{mode} root/root")), "{line}");
    }
    let root = sandbox.path("root");
    printed(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&root));
    let licences = root.join("usr/share/doc/nestor/linked-licences.gz");
    let licences = printed(Command::new("gzip").arg("-dc").arg(licences));
    assert!(licences.contains("\nclap v") && !licences.contains("\nnestor"), "{licences}");
    // What was stripped still runs.
    let version = printed(Command::new(root.join("usr/bin/nestor")).arg("--version"));
    assert_eq!(version.trim(), format!("nestor {}", env!("CARGO_PKG_VERSION")));
    // The same again.
    let second = made_in(&sandbox.path("second"));
    assert!(printed(Command::new("cmp").arg(&package).arg(&second)).is_empty());
}
