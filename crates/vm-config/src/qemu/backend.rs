//! What is behind a disk: the nodes of `-blockdev`, or a `-drive`.

use std::path::PathBuf;

use nestor_stack::Bytes;
use nestor_stack::layers::hypervisors::CacheMode;

use super::size_in;
use super::words::CommandLine;
use crate::properties::Properties;
use crate::{CacheSwitches, LeftOut, Store};

/// Longest chain of nodes that is followed.
const LONGEST_CHAIN: usize = 32;

/// What is behind a disk.
#[derive(Clone, Debug)]
pub(super) struct Backend {
    pub store: Store,
    pub format: Option<String>,
    pub cache: CacheSwitches,
    pub aio: String,
    pub discard: bool,
    pub l2_cache: Option<Bytes>,
    /// What is left out, without the disk's name.
    pub left_out: Vec<LeftOut>,
}

/// Drivers that open what is outside QEMU, and are no layer of stacks unless they are a file or device.
const FILES: &[&str] = &["file"];
const DEVICES: &[&str] = &["host_device", "host_cdrom"];
const PROTOCOLS: &[&str] = &[
    "nbd",
    "rbd",
    "iscsi",
    "ssh",
    "http",
    "https",
    "ftp",
    "ftps",
    "gluster",
    "nfs",
    "null-co",
    "null-aio",
    "vvfat",
    "sheepdog",
    "io_uring",
    "nvme-io_uring",
    "virtio-blk-vfio-pci",
    "virtio-blk-vhost-user",
    "virtio-blk-vhost-vdpa",
    "vdpa",
];
/// Drivers through which requests pass.
const FILTERS: &[&str] = &[
    "throttle",
    "copy-on-read",
    "blkdebug",
    "blklogwrites",
    "blkreplay",
    "blkverify",
    "compress",
    "preallocate",
    "quorum",
    "replication",
    "copy-before-write",
    "snapshot-access",
];

impl Backend {
    fn new() -> Self {
        Self {
            store: Store::Other(String::new()),
            format: None,
            cache: CacheSwitches::of(CacheMode::Writeback),
            aio: "threads".to_owned(),
            discard: false,
            l2_cache: None,
            left_out: Vec::new(),
        }
    }

    /// Of a node by its name.
    pub(super) fn of_node(line: &CommandLine<'_>, name: &str) -> Result<Option<Self>, String> {
        let Some(node) = line.nodes.get(name) else { return Ok(None) };
        let mut backend = Self::new();
        backend.discard = true;
        backend.follow(line, node.clone())?;
        Ok(Some(backend))
    }

    fn follow(&mut self, line: &CommandLine<'_>, top: Properties) -> Result<(), String> {
        let mut node = top;
        for _ in 0..LONGEST_CHAIN {
            let driver = node.get("driver").unwrap_or_default().to_owned();
            self.take_settings(&node);
            if self.take_protocol(&driver, &node) {
                return Ok(());
            }
            if FILTERS.contains(&driver.as_str()) {
                self.leave_out(format!("filter {driver}"), "stacks have no filters");
            } else if self.format.is_none() {
                self.take_format(&driver, &node)?;
            } else if driver != "raw" {
                self.leave_out(format!("a second format, {driver}"), "the stack has the upper one");
            }
            node = child(line, &node)?;
        }
        Err(format!("the nodes of -blockdev are more than {LONGEST_CHAIN} deep, or lead back to themselves"))
    }

    /// What every node may say. Requests pass all of them: who ignores flushes ends them, and who ignores discards, these.
    fn take_settings(&mut self, node: &Properties) {
        self.cache.direct = node.switch("cache.direct").unwrap_or(false);
        self.cache.no_flush |= node.switch("cache.no-flush").unwrap_or(false);
        self.discard &= passes_discards(node);
        self.take_limits(node);
    }

    fn take_protocol(&mut self, driver: &str, node: &Properties) -> bool {
        let path = node.get("filename").unwrap_or_default();
        self.store = match driver {
            driver if FILES.contains(&driver) => at_path(path),
            driver if DEVICES.contains(&driver) => Store::Device(PathBuf::from(path)),
            "nvme" => Store::Nvme("a disk by nvme".to_owned()),
            driver if PROTOCOLS.contains(&driver) => Store::Other(format!("a disk by {driver}")),
            _ => return false,
        };
        if let Some(aio) = node.get("aio") {
            self.aio = aio.to_owned();
        }
        if self.format.is_none() {
            self.format = Some("raw".to_owned());
        }
        true
    }

    fn take_format(&mut self, driver: &str, node: &Properties) -> Result<(), String> {
        self.format = Some(driver.to_owned());
        for key in ["l2-cache-size", "cache-size"] {
            if let Some(text) = node.get(key) {
                let size = size_in(text, 1).ok_or_else(|| format!("{key}={text} is no size"))?;
                self.l2_cache = self.l2_cache.or(Some(size));
            }
        }
        if driver == "raw" && (node.get("offset").is_some() || node.get("size").is_some()) {
            self.leave_out("a part of the image".to_owned(), "the stack has all of it");
        }
        Ok(())
    }

    fn take_limits(&mut self, node: &Properties) {
        let is_limit = |key: &str| {
            key.starts_with("throttling.")
                || key.starts_with("bps")
                || key.starts_with("iops")
                || matches!(key, "throttle-group" | "group")
        };
        let limits: Vec<String> = node
            .iter()
            .filter(|(key, _)| is_limit(key))
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        if !limits.is_empty() {
            self.leave_out(limits.join(","), "stacks have no limits");
        }
        for (key, why) in [
            ("read-only", "stacks have disks that can be written"),
            ("readonly", "stacks have disks that can be written"),
            ("snapshot", "writes go to the image and not to a temporary file"),
            ("copy-on-read", "stacks have no filters"),
        ] {
            if node.switch(key) == Some(true) {
                self.leave_out(format!("{key}=on"), why);
            }
        }
        if let Some(mode) = node.get("detect-zeroes").filter(|mode| *mode != "off") {
            self.leave_out(format!("detect-zeroes={mode}"), "writes of zeros are writes");
        }
    }

    /// Of a drive.
    pub(super) fn of_drive(line: &CommandLine<'_>, drive: &Properties) -> Result<Self, String> {
        let mut backend = Self::new();
        let mode = drive.get("cache").unwrap_or("writeback");
        let mode = if mode == "off" { "none" } else { mode };
        let mode = CacheMode::from_name(mode).ok_or_else(|| format!("cache={mode} is no cache mode"))?;
        backend.cache = CacheSwitches::of(mode);
        let file = drive.get("file").or_else(|| drive.get("file.filename")).unwrap_or_default();
        if let Some(json) = file.strip_prefix("json:") {
            let node = Properties::parse_json(json).map_err(|e| format!("file={file}: {e}"))?;
            backend.discard = true;
            backend.follow(line, node)?;
        } else {
            backend.store = match drive.get("file.driver") {
                Some(driver) if !FILES.contains(&driver) && !DEVICES.contains(&driver) => {
                    Store::Other(format!("a disk by {driver}"))
                }
                _ => named(file),
            };
            backend.take_limits(drive);
            let format = drive.get("format").or_else(|| drive.get("driver"));
            backend.format = format.filter(|format| !FILES.contains(format)).map(str::to_owned);
            for key in ["l2-cache-size", "cache-size"] {
                if let Some(text) = drive.get(key) {
                    backend.l2_cache =
                        Some(size_in(text, 1).ok_or_else(|| format!("{key}={text} is no size"))?);
                }
            }
        }
        backend.discard = passes_discards(drive);
        if let Some(aio) = drive.get("aio").or_else(|| drive.get("file.aio")) {
            backend.aio = aio.to_owned();
        }
        backend.cache.write_cache = drive.switch("cache.writeback").unwrap_or(backend.cache.write_cache);
        backend.cache.direct = drive.switch("cache.direct").unwrap_or(CacheSwitches::of(mode).direct);
        backend.cache.no_flush = drive.switch("cache.no-flush").unwrap_or(CacheSwitches::of(mode).no_flush);
        Ok(backend)
    }

    fn leave_out(&mut self, what: String, why: &str) {
        self.left_out.push(LeftOut::new(what, why));
    }
}

fn passes_discards(node: &Properties) -> bool {
    matches!(node.get("discard"), Some("unmap" | "on"))
}

/// What is below a node: an object in it, which has the node's cache settings where it has none of its own, or another node.
fn child(line: &CommandLine<'_>, node: &Properties) -> Result<Properties, String> {
    let inside = node.below("file");
    if !inside.is_empty() {
        let inherited = |inside: Properties, key| inside.or(key, node.get(key));
        let inside = inherited(inherited(inside, "cache.direct"), "cache.no-flush");
        // A format has decided on discards before (block.c, `bdrv_inherited_options`).
        return Ok(inside.or("discard", Some("unmap")));
    }
    let driver = node.get("driver").unwrap_or_default();
    let Some(name) = node.get("file").or_else(|| node.get("children.0")) else {
        return Err(format!("a node of -blockdev with the driver `{driver}` has nothing below it"));
    };
    line.nodes.get(name).cloned().ok_or_else(|| format!("there is no -blockdev with node-name={name}"))
}

/// What a file name of QEMU's means (block.c, `path_has_protocol`).
fn named(file: &str) -> Store {
    let colon = file.find([':', '/']).filter(|at| file[*at..].starts_with(':'));
    match colon.map(|at| &file[..at]) {
        Some("file") => at_path(&file["file:".len()..]),
        Some("host_device") => Store::Device(PathBuf::from(&file["host_device:".len()..])),
        Some(protocol) => Store::Other(format!("a disk by {protocol}")),
        None => at_path(file),
    }
}

fn at_path(path: &str) -> Store {
    if path.is_empty() {
        return Store::Other("a drive without an image".to_owned());
    }
    if path.starts_with("/dev/fdset/") {
        return Store::Other(format!("a file that it was given opened ({path})"));
    }
    if path.starts_with("/dev/") {
        Store::Device(PathBuf::from(path))
    } else {
        Store::File(PathBuf::from(path))
    }
}
