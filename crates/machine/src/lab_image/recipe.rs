//! What the lab image is made of, and the hash it is cached by.

use std::fmt;

use nestor_stack::LabPack;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How an image is put together. Raise it when the same recipe, built by changed code, gives another image.
const BUILD_VERSION: u32 = 1;

/// The text that `lab/recipe.toml` had when this program was compiled.
const RECIPE: &str = include_str!("../../../../lab/recipe.toml");

/// The texts that the files in `lab/packs` had when this program was compiled.
const fn pack_text(pack: LabPack) -> &'static str {
    match pack {
        LabPack::Xen => include_str!("../../../../lab/packs/xen.toml"),
        LabPack::Libvirt => include_str!("../../../../lab/packs/libvirt.toml"),
        LabPack::Transfer => include_str!("../../../../lab/packs/transfer.toml"),
        LabPack::VirtualBox => include_str!("../../../../lab/packs/virtualbox.toml"),
    }
}

/// Digits of the hash that name an image's directory.
const SHORT_HASH_DIGITS: usize = 16;

/// Hash of a lab image's recipe: SHA-256, 64 hexadecimal digits. Images are known by it; its first digits alone name only a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(transparent)]
pub struct LabHash(String);

impl LabHash {
    /// The digits that name the image's directory.
    pub fn short(&self) -> &str {
        self.0.get(..SHORT_HASH_DIGITS).unwrap_or(&self.0)
    }
}

impl fmt::Display for LabHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The contents of a lab image, independent of where its packages come from.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Debian's name of the release, such as `bookworm`.
    pub suite: String,
    /// Debian's name of the architecture, such as `amd64`.
    pub architecture: String,
    /// The package that brings the kernel.
    pub kernel_package: String,
    /// Packages besides the essential ones and the kernel, without what they depend on.
    pub packages: Vec<String>,
    /// About how many packages are installed in all; a hint for progress, no part of the hash.
    #[serde(skip_serializing)]
    pub expected_packages: u32,
    /// dpkg's `path-exclude` patterns.
    pub exclude_paths: Vec<String>,
    /// Directories of kernel modules, relative to `kernel/`, that are left out.
    pub exclude_modules: Vec<String>,
    /// Patterns relative to `kernel/` that are kept although a directory of `exclude_modules` holds them.
    pub include_modules: Vec<String>,
    /// Modules loaded before the root is mounted.
    pub boot_modules: Vec<String>,
    /// Modules an image must have with all they depend on.
    pub required_modules: Vec<String>,
    /// A hypervisor that boots before the kernel: its compressed file, relative to the root. The image has it uncompressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// The release that VirtualBox comes from, of an image that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtualbox: Option<Release>,
}

/// A release of Debian besides the image's.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Debian's name of it.
    pub suite: String,
    /// Its parts that are needed.
    pub components: Vec<String>,
}

/// What a pack adds to a recipe.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Addition {
    packages: Vec<String>,
    boot_modules: Vec<String>,
    required_modules: Vec<String>,
    hypervisor: Option<String>,
    virtualbox: Option<Release>,
}

impl Recipe {
    /// The recipe this program was compiled with.
    pub fn built_in() -> Recipe {
        toml::from_str(RECIPE).expect("lab/recipe.toml is checked by a test")
    }

    /// That recipe, with what a pack adds to it.
    pub fn of(pack: Option<LabPack>) -> Recipe {
        let mut recipe = Self::built_in();
        if let Some(pack) = pack {
            let added: Addition = toml::from_str(pack_text(pack)).expect("lab/packs is checked by a test");
            recipe.packages.extend(added.packages);
            recipe.boot_modules.extend(added.boot_modules);
            recipe.required_modules.extend(added.required_modules);
            recipe.hypervisor = added.hypervisor;
            recipe.virtualbox = added.virtualbox;
        }
        recipe
    }

    /// SHA-256 over everything that decides what is in the image.
    ///
    /// The order of the lists does not count (that of the boot modules does: it is the order of loading), nor do
    /// comments, the hint about progress or where packages are fetched from.
    pub fn hash(&self) -> LabHash {
        let mut canonical = self.clone();
        for list in [
            &mut canonical.packages,
            &mut canonical.exclude_paths,
            &mut canonical.exclude_modules,
            &mut canonical.include_modules,
            &mut canonical.required_modules,
        ] {
            list.sort();
            list.dedup();
        }
        let text = serde_json::to_string(&canonical).expect("lists of strings are always valid JSON");
        let mut hasher = Sha256::new();
        hasher.update(format!("nestor lab image {BUILD_VERSION}\n"));
        hasher.update(text);
        LabHash(hex::encode(hasher.finalize()))
    }

    /// The digits of the hash that name the image's directory.
    pub fn short_hash(&self) -> String {
        self.hash().short().to_owned()
    }

    /// Everything to install, the kernel first.
    pub fn install_list(&self) -> Vec<&str> {
        std::iter::once(self.kernel_package.as_str())
            .chain(self.packages.iter().map(String::as_str))
            .collect()
    }

    /// dpkg's options that leave files out, in an order in which exceptions win.
    ///
    /// The kernel's package may name its modules below `/lib` or `/usr/lib`, hence the leading asterisk.
    pub fn path_filters(&self) -> Vec<String> {
        let paths = self.exclude_paths.iter().map(|path| format!("path-exclude={path}"));
        let modules =
            self.exclude_modules.iter().map(|path| format!("path-exclude=*/lib/modules/*/kernel/{path}/*"));
        let wanted =
            self.include_modules.iter().map(|path| format!("path-include=*/lib/modules/*/kernel/{path}"));
        paths.chain(modules).chain(wanted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipe_in_the_repository_is_valid() {
        let recipe = Recipe::built_in();
        assert!(!recipe.packages.contains(&recipe.kernel_package));
        assert!(recipe.packages.iter().all(|name| !name.contains([',', ' ', '/'])));
        let (hash, short) = (recipe.hash().to_string(), recipe.short_hash());
        assert_eq!((hash.len(), short.len()), (64, SHORT_HASH_DIGITS));
        assert!(hash.starts_with(&short));
    }

    #[test]
    fn packs_make_images_of_their_own() {
        let hashes: std::collections::BTreeSet<LabHash> =
            std::iter::once(None).chain(LabPack::ALL.map(Some)).map(|pack| Recipe::of(pack).hash()).collect();
        assert_eq!(hashes.len(), 1 + LabPack::ALL.len());
        assert!(Recipe::of(Some(LabPack::Xen)).hypervisor.is_some());
        assert!(Recipe::of(Some(LabPack::VirtualBox)).virtualbox.is_some());
    }

    #[test]
    fn the_pack_of_transfers_has_what_each_of_them_needs() {
        let has = Recipe::of(Some(LabPack::Transfer)).packages;
        for transfer in nestor_stack::layers::sourced::transfers::TRANSFERS {
            let missing = transfer.packages.iter().find(|package| !has.iter().any(|one| one == **package));
            assert_eq!(missing, None, "{}", transfer.name);
        }
    }

    #[test]
    fn the_hash_is_the_same_for_the_same_contents() {
        let recipe = Recipe::built_in();
        let mut reordered = recipe.clone();
        reordered.packages.reverse();
        reordered.exclude_modules.reverse();
        reordered.expected_packages += 1;
        assert_eq!(reordered.hash(), recipe.hash());
        let with_comment = toml::from_str::<Recipe>(&format!("# another comment\n{RECIPE}")).unwrap();
        assert_eq!(with_comment.hash(), recipe.hash());
    }

    #[test]
    fn the_hash_changes_with_whatever_changes_the_image() {
        let recipe = Recipe::built_in();
        let changes: [fn(&mut Recipe); 8] = [
            |r| r.suite = "trixie".into(),
            |r| r.architecture = "arm64".into(),
            |r| r.kernel_package = "linux-image-cloud-amd64".into(),
            |r| r.packages.push("hello".into()),
            |r| r.exclude_paths.truncate(1),
            |r| r.exclude_modules.truncate(1),
            |r| r.include_modules.clear(),
            |r| r.boot_modules.reverse(),
        ];
        let mut hashes = vec![recipe.hash()];
        for change in changes {
            let mut changed = recipe.clone();
            change(&mut changed);
            hashes.push(changed.hash());
        }
        let count = hashes.len();
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }

    #[test]
    fn an_unknown_key_in_a_recipe_is_refused() {
        let text = RECIPE.replace("suite =", "suit =");
        assert!(toml::from_str::<Recipe>(&text).unwrap_err().to_string().contains("unknown field `suit`"));
    }

    #[test]
    fn exceptions_come_after_what_they_are_exceptions_from() {
        let filters = Recipe::built_in().path_filters();
        let last_exclude = filters.iter().rposition(|f| f.starts_with("path-exclude")).unwrap();
        let first_include = filters.iter().position(|f| f.starts_with("path-include")).unwrap();
        assert!(last_exclude < first_include);
        assert!(filters.contains(&"path-exclude=*/lib/modules/*/kernel/sound/*".to_owned()));
    }
}
