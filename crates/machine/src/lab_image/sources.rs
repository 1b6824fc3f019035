//! Where the image's packages are fetched from: a mirror the user names, else the machine's own sources when it is the same release of Debian, else
//! Debian's usual mirror.
//!
//! Sources: sources.list(5), both formats; only Debian's own archives are taken, however many others a machine uses.

use std::fs;
use std::path::Path;

use super::recipe::Release;

/// The environment variable that names a mirror, as a URI, and takes precedence over the machine's own sources.
pub const MIRROR_VARIABLE: &str = "NESTOR_DEBIAN_MIRROR";

/// The key ring of Debian's archives where Debian installs it.
const DEBIAN_KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Last parts of the path under which mirrors offer Debian's archives, and of the lists of mirrors in Debian's cloud
/// images (`mirror+file:///etc/apt/mirrors/debian.list`).
const DEBIAN_PATHS: [&str; 4] = ["debian", "debian-security", "debian.list", "debian-security.list"];

/// Fields of an entry that are carried over besides the address: they decide on trust and on the clock.
const KEPT_FIELDS: [&str; 5] = ["Signed-By", "Trusted", "Check-Valid-Until", "Check-Date", "By-Hash"];

/// What mmdebstrap takes by itself: the archive and what is appended to the name of a release there.
const USUAL: [(&str, &[&str]); 2] = [
    ("http://deb.debian.org/debian", &["", "-updates"]),
    ("http://deb.debian.org/debian-security", &["-security"]),
];

/// The sources to use, in the deb822 format, or nothing if mmdebstrap shall choose.
pub fn choose(suite: &str, apt_directory: &Path, mirror: Option<&str>) -> Option<String> {
    choose_with(suite, apt_directory, mirror, Path::new(DEBIAN_KEYRING).exists())
}

/// The same where Debian's key ring is installed or not.
fn choose_with(
    suite: &str,
    apt_directory: &Path,
    mirror: Option<&str>,
    with_keyring: bool,
) -> Option<String> {
    match mirror {
        Some(uri) => Some(debian_entry(uri, &[""], suite, with_keyring).to_deb822()),
        None => machine_sources(suite, apt_directory).or_else(|| with_keyring.then(|| usual_sources(suite))),
    }
}

/// Debian's own entries for `suite` in `apt_directory` (`/etc/apt`), or nothing if the release itself is not among them.
fn machine_sources(suite: &str, apt_directory: &Path) -> Option<String> {
    let mut files = vec![apt_directory.join("sources.list")];
    if let Ok(entries) = fs::read_dir(apt_directory.join("sources.list.d")) {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.sort();
    let mut entries = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        match file.extension().and_then(|e| e.to_str()) {
            Some("list") => entries.extend(parse_one_line(&text)),
            Some("sources") => entries.extend(parse_deb822(&text)),
            _ => {}
        }
    }
    let kept: Vec<_> = entries.iter().filter_map(|entry| entry.for_suite(suite)).collect();
    let has_release = kept.iter().any(|entry| entry.suites.iter().any(|s| s == suite));
    has_release.then(|| kept.iter().map(SourceEntry::to_deb822).collect::<Vec<_>>().join("\n"))
}

/// Sources of another release from where these come from, in the deb822 format.
pub fn of_other_release(sources: &str, release: &Release) -> Option<String> {
    let entry = parse_deb822(sources).into_iter().next()?;
    Some(
        SourceEntry { suites: vec![release.suite.clone()], components: release.components.clone(), ..entry }
            .to_deb822(),
    )
}

/// Sources that are there for everybody.
pub fn public(suite: &str) -> String {
    debian_entry(USUAL[0].0, &[""], suite, Path::new(DEBIAN_KEYRING).exists()).to_deb822()
}

/// Debian's usual mirror. Where apt does not trust Debian by itself, as in Ubuntu, mmdebstrap names the key ring only if it finds gpg.
fn usual_sources(suite: &str) -> String {
    let entry = |(uri, kinds): &(&str, &[&str])| debian_entry(uri, kinds, suite, true).to_deb822();
    USUAL.iter().map(entry).collect::<Vec<_>>().join("\n")
}

/// An archive of Debian with these kinds of a release.
fn debian_entry(uri: &str, kinds: &[&str], suite: &str, with_keyring: bool) -> SourceEntry {
    SourceEntry {
        uris: vec![uri.to_owned()],
        suites: kinds.iter().map(|kind| format!("{suite}{kind}")).collect(),
        components: vec!["main".to_owned()],
        kept: with_keyring.then(|| ("Signed-By".to_owned(), DEBIAN_KEYRING.to_owned())).into_iter().collect(),
    }
}

/// One entry for binary packages.
#[derive(Clone, Debug, PartialEq)]
struct SourceEntry {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    /// Fields to carry over; a value may have several lines.
    kept: Vec<(String, String)>,
}

impl SourceEntry {
    /// The part of the entry that is Debian's own archive for `suite`, its updates and its security fixes.
    fn for_suite(&self, suite: &str) -> Option<SourceEntry> {
        let wanted = [suite.to_owned(), format!("{suite}-updates"), format!("{suite}-security")];
        let suites: Vec<_> = self.suites.iter().filter(|s| wanted.contains(s)).cloned().collect();
        let has_main = self.components.iter().any(|c| c == "main");
        let uris: Vec<_> = self.uris.iter().filter(|uri| self.is_debian(uri)).cloned().collect();
        if suites.is_empty() || !has_main || uris.is_empty() {
            return None;
        }
        Some(SourceEntry { uris, suites, components: vec!["main".to_owned()], kept: self.kept.clone() })
    }

    /// A key of its own decides; without one, the address does.
    fn is_debian(&self, uri: &str) -> bool {
        match self.kept.iter().find(|(name, _)| name == "Signed-By") {
            Some((_, key)) if key.trim_start().starts_with('/') => key.contains("debian-archive"),
            // The owner of a key that is written out in the file is not known.
            Some(_) => false,
            None => {
                let last = uri.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                DEBIAN_PATHS.contains(&last)
            }
        }
    }

    fn to_deb822(&self) -> String {
        let mut text = format!(
            "Types: deb\nURIs: {}\nSuites: {}\nComponents: {}\n",
            self.uris.join(" "),
            self.suites.join(" "),
            self.components.join(" ")
        );
        for (name, value) in &self.kept {
            text.push_str(&format!("{name}: {value}\n"));
        }
        text
    }
}

/// Entries of the one-line format: `deb [option=value …] uri suite component …`.
fn parse_one_line(text: &str) -> Vec<SourceEntry> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<SourceEntry> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let rest = line.strip_prefix("deb")?;
    let rest = rest.strip_prefix([' ', '\t', '['].as_slice()).map(|_| rest.trim_start())?;
    let (options, rest) = match rest.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    let uri = words.next()?;
    let suite = words.next()?;
    let options: Vec<_> = options.split_whitespace().filter_map(|option| option.split_once('=')).collect();
    Some(SourceEntry {
        uris: vec![uri],
        suites: vec![suite],
        components: words.collect(),
        kept: kept_fields(|name| {
            let found = options.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.replace(',', " "))
        }),
    })
}

/// Entries of the deb822 format: paragraphs of `Field: value`, continued on lines that begin with a blank.
fn parse_deb822(text: &str) -> Vec<SourceEntry> {
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines.split(|line| line.trim().is_empty()).filter_map(parse_paragraph).collect()
}

fn parse_paragraph(lines: &[&str]) -> Option<SourceEntry> {
    let mut fields: Vec<(&str, String)> = Vec::new();
    for line in lines {
        if line.starts_with([' ', '\t']) {
            let (_, value) = fields.last_mut()?;
            value.push('\n');
            value.push_str(line);
        } else {
            let (name, value) = line.split_once(':')?;
            fields.push((name.trim(), value.trim().to_owned()));
        }
    }
    let value = |wanted: &str| {
        let found = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.clone())
    };
    let words = |wanted: &str| -> Vec<String> {
        value(wanted).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let enabled = value("Enabled").is_none_or(|v| !["no", "false", "0"].contains(&v.to_lowercase().as_str()));
    if !enabled || !words("Types").iter().any(|kind| kind == "deb") {
        return None;
    }
    Some(SourceEntry {
        uris: words("URIs"),
        suites: words("Suites"),
        components: words("Components"),
        kept: kept_fields(value),
    })
}

fn kept_fields(value: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    KEPT_FIELDS.iter().filter_map(|name| value(name).map(|v| (name.to_string(), v))).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn choose_from(files: &[(&str, &str)]) -> String {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("sources.list.d")).unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        choose_with("bookworm", directory.path(), None, false)
            .unwrap_or_else(|| "(mmdebstrap's own)".to_owned())
    }

    const DEBIAN: &str = "\
Types: deb deb-src
# a comment within
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib non-free-firmware
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security/
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
";

    #[test]
    fn the_machines_own_sources_without_backports_and_other_components() {
        assert_snapshot!(choose_from(&[("sources.list.d/debian.sources", DEBIAN)]), @"
        Types: deb
        URIs: http://mirror.example/debian
        Suites: bookworm bookworm-updates
        Components: main
        Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

        Types: deb
        URIs: http://mirror.example/debian-security/
        Suites: bookworm-security
        Components: main
        Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
        ");
    }

    #[test]
    fn another_release_comes_from_where_the_images_own_comes_from() {
        let own = choose_from(&[("sources.list.d/debian.sources", DEBIAN)]);
        let release = Release { suite: "sid".into(), components: vec!["main".into(), "contrib".into()] };
        assert_snapshot!(of_other_release(&own, &release).unwrap(), @"
        Types: deb
        URIs: http://mirror.example/debian
        Suites: sid
        Components: main contrib
        Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
        ");
        assert_eq!(of_other_release("", &release), None);
    }

    #[test]
    fn foreign_sources_for_the_same_release_are_not_used() {
        let inline = "Types: deb\nURIs: http://other.example/debian\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN PGP\n .\n abc\n";
        let text = choose_from(&[
            ("sources.list", "deb http://mirror.example/debian bookworm main\n"),
            (
                "sources.list.d/tool.list",
                "deb [signed-by=/etc/apt/keyrings/tool.gpg] http://tool.example/debian bookworm main\n",
            ),
            ("sources.list.d/database.list", "deb http://database.example/apt bookworm main\n"),
            ("sources.list.d/inline.sources", inline),
            ("sources.list.d/off.sources.disabled", DEBIAN),
            ("sources.list.d/off.sources", &DEBIAN.replace("Types: deb", "Enabled: no\nTypes: deb")),
        ]);
        assert_snapshot!(text, @"
        Types: deb
        URIs: http://mirror.example/debian
        Suites: bookworm
        Components: main
        ");
    }

    #[test]
    fn the_one_line_format_with_options() {
        let text = "# deb http://old.example/debian bookworm main\n\
            deb-src http://mirror.example/debian bookworm main\n\
            deb [ arch=amd64 check-valid-until=no signed-by=/usr/share/keyrings/debian-archive-keyring.gpg ] http://m.example/x bookworm main # ours\n\
            deb mirror+file:///etc/apt/mirrors/debian.list bookworm-updates main non-free\n";
        assert_snapshot!(choose_from(&[("sources.list", text)]), @"
        Types: deb
        URIs: http://m.example/x
        Suites: bookworm
        Components: main
        Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
        Check-Valid-Until: no

        Types: deb
        URIs: mirror+file:///etc/apt/mirrors/debian.list
        Suites: bookworm-updates
        Components: main
        ");
    }

    #[test]
    fn a_machine_of_another_release_without_debians_keys_leaves_the_choice_to_mmdebstrap() {
        let trixie = DEBIAN.replace("bookworm", "trixie");
        assert_eq!(choose_from(&[("sources.list.d/debian.sources", &trixie)]), "(mmdebstrap's own)");
        assert_eq!(choose_from(&[]), "(mmdebstrap's own)");
        let only_updates = "deb http://mirror.example/debian bookworm-updates main\n";
        assert_eq!(choose_from(&[("sources.list", only_updates)]), "(mmdebstrap's own)");
    }

    #[test]
    fn a_machine_of_another_system_takes_debians_usual_mirror_and_names_its_keys() {
        let directory = tempfile::tempdir().unwrap();
        let ubuntu = "deb http://archive.ubuntu.com/ubuntu noble main\n";
        fs::write(directory.path().join("sources.list"), ubuntu).unwrap();
        assert_snapshot!(choose_with("bookworm", directory.path(), None, true).unwrap(), @"
        Types: deb
        URIs: http://deb.debian.org/debian
        Suites: bookworm bookworm-updates
        Components: main
        Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

        Types: deb
        URIs: http://deb.debian.org/debian-security
        Suites: bookworm-security
        Components: main
        Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
        ");
    }

    #[test]
    fn a_mirror_the_user_names_takes_precedence() {
        let entry = debian_entry("http://near.example/debian", &[""], "bookworm", true);
        assert_snapshot!(entry.to_deb822(), @"
        Types: deb
        URIs: http://near.example/debian
        Suites: bookworm
        Components: main
        Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
        ");
        let chosen =
            choose("bookworm", Path::new("/nonexistent"), Some("http://near.example/debian")).unwrap();
        assert!(chosen.contains("URIs: http://near.example/debian\n"));
    }
}
