//! A drive of Proxmox VE's: `local-lvm:vm-100-disk-0,cache=writeback,iothread=1,size=32G`.

use std::path::PathBuf;

use nestor_stack::layers::hypervisors::CacheMode;

use super::storages::Storage;
use super::{STORAGE_CFG, Storages};
use crate::{CacheSwitches, Disk, LeftOut, Store};

/// A drive's line, taken apart.
pub(super) struct Drive<'a> {
    /// `scsi0`.
    pub key: &'a str,
    volume: &'a str,
    options: Vec<(&'a str, &'a str)>,
}

/// Options that change nothing that a stack would have.
const OF_NO_ACCOUNT: &[&str] = &[
    "size",
    "ssd",
    "backup",
    "replicate",
    "serial",
    "wwn",
    "model",
    "werror",
    "rerror",
    "shared",
    "product",
    "vendor",
    "cyls",
    "heads",
    "secs",
    "trans",
    "media",
    "import-from",
    "format",
    "cache",
    "aio",
    "iothread",
    "discard",
    "file",
    "volume",
];

impl<'a> Drive<'a> {
    /// Takes a value apart.
    pub(super) fn parse(key: &'a str, value: &'a str) -> Result<Self, String> {
        let mut volume = None;
        let mut options = Vec::new();
        for item in value.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match item.split_once('=') {
                Some(("file" | "volume", name)) => volume = Some(name),
                Some((option, value)) => options.push((option, value)),
                None if volume.is_none() => volume = Some(item),
                None => {
                    return Err(format!("{key}: `{item}` is neither a volume nor an option with a value"));
                }
            }
        }
        let volume = volume.ok_or_else(|| format!("{key}: it names no volume"))?;
        Ok(Self { key, volume, options })
    }

    fn option(&self, wanted: &str) -> Option<&'a str> {
        self.options.iter().rev().find(|(option, _)| *option == wanted).map(|(_, value)| *value)
    }

    /// Whether it is no hard disk.
    pub(super) fn is_disc(&self) -> bool {
        self.option("media") == Some("cdrom") || matches!(self.volume, "none" | "cdrom" | "cloudinit")
    }

    /// The disk. `controller` is that of stacks.
    pub(super) fn disk(
        &self,
        line: usize,
        controller: Option<&'static str>,
        storages: Option<&Storages>,
    ) -> Result<Disk, String> {
        let mut left_out = Vec::new();
        let cache = self.cache()?;
        let (storage, volume) = self.storage(storages, &mut left_out)?;
        let store = match &storage {
            Some(storage) => storage.place(volume),
            None if volume.starts_with("/dev/") => Store::Device(PathBuf::from(volume)),
            None => Store::File(PathBuf::from(volume)),
        };
        if let Some(between) = storage.as_ref().and_then(Storage::layer_between) {
            left_out.push(self.left_out(between, "the stack has the disk itself"));
        }
        let format = self.option("format").map_or_else(
            || storage.as_ref().map_or_else(|| "raw".to_owned(), |storage| storage.format(volume)),
            str::to_owned,
        );
        let uses_io_uring = storage.as_ref().is_none_or(|storage| storage.uses_io_uring(cache.direct));
        let aio = self.aio(uses_io_uring, cache)?;
        self.note_the_rest(&mut left_out);
        Ok(Disk {
            name: self.key.to_owned(),
            line: Some(line),
            controller,
            store,
            format: Some(format),
            cache,
            aio,
            iothread: self.switch("iothread")?,
            discard: self.discards()?,
            l2_cache: None,
            backing: None,
            left_out,
        })
    }

    fn cache(&self) -> Result<CacheSwitches, String> {
        // Proxmox VE's own default, other than QEMU's.
        let name = self.option("cache").unwrap_or("none");
        let mode = CacheMode::from_name(name)
            .ok_or_else(|| format!("{}: cache={name} is no cache mode", self.key))?;
        Ok(CacheSwitches::of(mode))
    }

    fn aio(&self, uses_io_uring: bool, cache: CacheSwitches) -> Result<String, String> {
        match self.option("aio") {
            Some(aio @ ("io_uring" | "native" | "threads")) => Ok(aio.to_owned()),
            Some(other) => Err(format!("{}: aio={other} is neither io_uring, native nor threads", self.key)),
            None if uses_io_uring => Ok("io_uring".to_owned()),
            None if cache.direct => Ok("native".to_owned()),
            None => Ok("threads".to_owned()),
        }
    }

    fn switch(&self, option: &str) -> Result<bool, String> {
        match self.option(option) {
            None => Ok(false),
            Some(value) => {
                switch(value).ok_or_else(|| format!("{}: {option}={value} is neither 0 nor 1", self.key))
            }
        }
    }

    fn discards(&self) -> Result<bool, String> {
        match self.option("discard") {
            None | Some("ignore") => Ok(false),
            Some("on") => Ok(true),
            Some(other) => Err(format!("{}: discard={other} is neither ignore nor on", self.key)),
        }
    }

    /// The storage and the volume's name in it; no storage if it is a path.
    fn storage(
        &self,
        storages: Option<&Storages>,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<(Option<Storage>, &'a str), String> {
        if self.volume.starts_with('/') {
            return Ok((None, self.volume));
        }
        let Some((id, volume)) = self.volume.split_once(':') else {
            return Err(format!(
                "{}: `{}` is neither a path nor a volume such as local-lvm:vm-100-disk-0",
                self.key, self.volume
            ));
        };
        match storages {
            Some(storages) => match storages.get(id) {
                Some(storage) => Ok((Some(storage.clone()), volume)),
                None => Err(format!(
                    "{}: {} has no storage `{id}`; it has {}",
                    self.key,
                    storages.source_name,
                    storages.names()
                )),
            },
            None => {
                let kind = if volume.contains('/') { "a directory" } else { "a block device" };
                let why = format!(
                    "there is no {STORAGE_CFG} here; by its volume's name it is {kind} (--storages FILE)"
                );
                left_out.push(self.left_out(&format!("storage {id}"), &why));
                Ok((Some(Storage::guessed(id, volume)), volume))
            }
        }
    }

    fn left_out(&self, what: &str, why: &str) -> LeftOut {
        LeftOut::new(format!("{}: {what}", self.key), why)
    }

    fn note_the_rest(&self, left_out: &mut Vec<LeftOut>) {
        for (option, value) in &self.options {
            let why = match *option {
                option if OF_NO_ACCOUNT.contains(&option) => continue,
                "detect_zeroes" if *value == "0" || *value == "off" => continue,
                "detect_zeroes" => "writes of zeros are writes",
                "ro" | "snapshot" | "scsiblock" if *value == "0" => continue,
                "ro" => "stacks have disks that can be written",
                "snapshot" => "writes go to the image and not to a temporary file",
                "scsiblock" => "the stack has a disk that QEMU emulates",
                "queues" => "the stack has QEMU's own number, one for each processor",
                _ if ["mbps", "iops", "bps"].iter().any(|limit| option.starts_with(limit)) => {
                    "stacks have no limits"
                }
                _ => "not known to Nestor",
            };
            left_out.push(self.left_out(&format!("{option}={value}"), why));
        }
    }
}

/// A switch as Proxmox VE writes it.
pub(super) fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" => Some(false),
        _ => None,
    }
}
