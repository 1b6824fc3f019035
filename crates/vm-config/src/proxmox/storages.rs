//! The storages of a Proxmox VE: `storage.cfg`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{ConfigError, Store};

/// What `storage.cfg` has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storages {
    /// The file's name.
    pub(super) source_name: String,
    by_id: BTreeMap<String, Storage>,
}

/// A storage: its type and its properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Storage {
    /// `dir`, `lvmthin`, …
    pub kind: String,
    id: String,
    properties: BTreeMap<String, String>,
}

/// What stands for the type of a storage of which only that it has block devices is known.
const BLOCK: &str = "block";

const HELP: &str = "a storage is `TYPE: ID`, and below it indented lines, each of a property and its value, as in \
                    /etc/pve/storage.cfg";

impl Storages {
    /// Reads `storage.cfg`.
    ///
    /// # Errors
    /// A line that is none of such a file.
    pub fn parse(source_name: &str, text: &str) -> Result<Self, ConfigError> {
        let mut by_id: BTreeMap<String, Storage> = BTreeMap::new();
        let mut current: Option<Storage> = None;
        for (index, line) in text.lines().enumerate() {
            let wrong = |message| ConfigError::new(source_name, Some(index + 1), message, HELP);
            let words = line.trim();
            if words.is_empty() || words.starts_with('#') {
                continue;
            }
            if line.starts_with([' ', '\t']) {
                let Some(storage) = &mut current else {
                    return Err(wrong(format!("`{words}` is a property of no storage")));
                };
                let (key, value) = words.split_once([' ', '\t']).unwrap_or((words, "1"));
                storage.properties.insert(key.to_owned(), value.trim().to_owned());
                continue;
            }
            let Some((kind, id)) = words.split_once(':') else {
                return Err(wrong(format!("`{words}` is neither a storage nor a property of one")));
            };
            by_id.extend(current.take().map(|storage| (storage.id.clone(), storage)));
            let [kind, id] = [kind, id].map(|word| word.trim().to_owned());
            if id.is_empty() {
                return Err(wrong(format!("the storage of type `{kind}` has no name")));
            }
            current = Some(Storage { kind, id, properties: BTreeMap::new() });
        }
        by_id.extend(current.map(|storage| (storage.id.clone(), storage)));
        // Proxmox VE has this one unless the file says something else of it.
        by_id.entry("local".to_owned()).or_insert_with(Storage::local);
        Ok(Self { source_name: source_name.to_owned(), by_id })
    }

    /// The storage of a name.
    pub(super) fn get(&self, id: &str) -> Option<&Storage> {
        self.by_id.get(id)
    }

    /// Their names.
    pub(super) fn names(&self) -> String {
        self.by_id.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

impl Storage {
    fn local() -> Self {
        let properties = [("path".to_owned(), "/var/lib/vz".to_owned())].into();
        Self { kind: "dir".to_owned(), id: "local".to_owned(), properties }
    }

    /// A storage of which only the name is known: a volume in a folder is a file, any other a block device. That is so of all types of
    /// storages that a host has itself.
    pub(super) fn guessed(id: &str, volume: &str) -> Self {
        if id == "local" {
            return Self::local();
        }
        let kind = if volume.contains('/') { "dir" } else { BLOCK };
        Self { kind: kind.to_owned(), id: id.to_owned(), properties: BTreeMap::new() }
    }

    /// Where a volume of it is.
    pub(super) fn place(&self, volume: &str) -> Store {
        let property = |key: &str| self.properties.get(key).map_or("", String::as_str);
        let mounted = match property("path") {
            "" => format!("/mnt/pve/{}", self.id),
            path => path.trim_end_matches('/').to_owned(),
        };
        let device = |path: String| Store::Device(PathBuf::from(path));
        match self.kind.as_str() {
            "btrfs" if volume.ends_with(".raw") => {
                let image = volume.trim_end_matches(".raw");
                Store::File(PathBuf::from(format!("{mounted}/images/{image}/disk.raw")))
            }
            "dir" | "btrfs" => Store::File(PathBuf::from(format!("{mounted}/images/{volume}"))),
            "nfs" => Store::FileOnServer(PathBuf::from(format!("{mounted}/images/{volume}"))),
            "lvm" | "lvmthin" | BLOCK => {
                let group = match property("vgname") {
                    "" => &self.id,
                    group => group,
                };
                device(format!("/dev/{group}/{volume}"))
            }
            "zfspool" => device(format!("/dev/zvol/{}/{volume}", property("pool"))),
            other => Store::Other(format!("a volume of a storage of the type {other}")),
        }
    }

    /// What the storage has between a volume and a disk and stacks have not.
    pub(super) fn layer_between(&self) -> Option<&'static str> {
        match self.kind.as_str() {
            "lvm" => Some("LVM"),
            "lvmthin" => Some("LVM's thin provisioning"),
            "zfspool" => Some("ZFS"),
            _ => None,
        }
    }

    /// Whether QEMU uses io_uring unless it is told otherwise (PVE/QemuServer.pm, `storage_allows_io_uring_default`).
    pub(super) fn uses_io_uring(&self, is_direct: bool) -> bool {
        let has_krbd = self.properties.get("krbd").is_some_and(|value| value == "1");
        match self.kind.as_str() {
            "cifs" => false,
            "lvm" => is_direct,
            "rbd" => !has_krbd || is_direct,
            _ => true,
        }
    }

    /// The format of a volume: what its name ends with.
    pub(super) fn format(&self, volume: &str) -> String {
        let ending = volume.rsplit_once('/').and_then(|(_, name)| name.rsplit_once('.'));
        ending.map_or_else(|| "raw".to_owned(), |(_, ending)| ending.to_owned())
    }
}
