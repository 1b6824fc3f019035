//! What docs/design.md says of the crates is what their manifests say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

type Crates = BTreeMap<String, BTreeSet<String>>;

/// The words in backquotes.
fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The table of crates and of what each depends on.
fn documented(design: &str) -> Crates {
    let rows = design.lines().skip_while(|line| *line != "| crate | depends on |").skip(2);
    let mut crates = Crates::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let mut cells = row.split('|').skip(1);
        let (names, on) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        for name in quoted(names) {
            crates.insert(name, quoted(on));
        }
    }
    crates
}

/// Crates of ours in the manifests' `[dependencies]`.
fn in_manifests() -> Crates {
    let folders = fs::read_dir(Path::new(ROOT).join("crates")).expect("the crates").flatten();
    folders
        .map(|folder| {
            let manifest = fs::read_to_string(folder.path().join("Cargo.toml")).expect("a manifest");
            let manifest: toml::Table = manifest.parse().expect("TOML");
            let names = manifest.get("dependencies").and_then(toml::Value::as_table);
            let ours = names.into_iter().flat_map(toml::Table::keys);
            let ours = ours.filter_map(|name| Some(name.strip_prefix("nestor-")?.to_owned())).collect();
            (folder.file_name().to_string_lossy().into_owned(), ours)
        })
        .collect()
}

#[test]
fn the_table_of_crates_is_that_of_the_manifests() {
    let design = fs::read_to_string(Path::new(ROOT).join("docs/design.md")).expect("docs/design.md");
    let (documented, manifests) = (documented(&design), in_manifests());
    assert_eq!(documented.keys().collect::<Vec<_>>(), manifests.keys().collect::<Vec<_>>());
    // The program wires all others but the named ones.
    let others: BTreeSet<String> = manifests.keys().filter(|name| *name != "nestor").cloned().collect();
    assert_eq!(documented.get("nestor"), Some(&others.difference(&manifests["nestor"]).cloned().collect()));
    for (name, on) in manifests.iter().filter(|(name, _)| *name != "nestor") {
        assert_eq!(
            documented.get(name),
            Some(on),
            "what `{name}` depends on, in docs/design.md and in its manifest"
        );
    }
}
