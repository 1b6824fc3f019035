//! Which domain it is that outlives the agent, for whoever ends it: also a later process, which knows it from the ledger.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::tools::{self, XL};
use super::toolstack::Toolstack;
use crate::agent::process::Spawner;
use crate::agent::{loop_device, random};
use crate::libvirt::{XenUri, virsh};
use crate::not_undone::NotUndone;
use crate::refusal::Refusal;

/// How long the end of a domain may take: Xen frees its memory page by page.
const END_LIMIT: Duration = Duration::from_secs(60);

/// How often it is looked whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A domain of ours on a user's Xen, or by libvirt on any, and what its disks are made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedDomain {
    /// Its name, for people.
    pub name: String,
    /// Drawn for it: Xen keeps it with the domain from the moment at which that exists, before it has a name.
    pub uuid: String,
    /// Who told Xen of it. Ledgers of older versions have domains of `xl`'s only.
    #[serde(default)]
    pub by: Toolstack,
    /// The loop device of the lab image's root, where that is a file.
    pub root: Option<DiskLoop>,
    /// The loop device of its own disk, if that is made of an image. Which image, comes later.
    pub disk_mark: String,
}

/// A loop device by the mark that the kernel keeps with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskLoop {
    /// The file that it is made of.
    pub file: String,
    /// The mark.
    pub mark: String,
}

impl NotedDomain {
    /// Of a machine at a place, which is to be made from a root in this file, or from a block device.
    ///
    /// # Errors
    /// There is nothing random.
    pub fn new(by: Toolstack, place: &str, root: Option<&str>) -> Result<Self, Refusal> {
        let failed = |e| Refusal::of_io("a name for the domain could not be drawn", &e);
        let uuid = random::uuid().map_err(failed)?.to_string();
        // Several runs may have a machine of this place.
        let name = format!("nestor-{place}-{}{}", &uuid[..8], &uuid[9..13]);
        let mark = || loop_device::new_mark().map_err(failed);
        let root = match root {
            Some(file) => Some(DiskLoop { file: file.to_owned(), mark: mark()? }),
            None => None,
        };
        Ok(Self { name, uuid, by, root, disk_mark: mark()? })
    }

    /// Xen's number of it; `None` if there is no such domain.
    ///
    /// # Errors
    /// Xen's tool is not there, does not answer, or what it said.
    pub fn number(&self, spawner: &Spawner) -> Result<Option<u32>, Refusal> {
        tools::run(spawner, &[XL, "vm-list"]).map(|listed| number_of(&listed, &self.uuid))
    }

    /// Whether it may still be there.
    pub fn may_be_there(&self, spawner: &Spawner) -> bool {
        !matches!(self.number(spawner), Ok(None))
    }

    /// Ends it and detaches what its disks were made of; succeeds when there is nothing (any more) to end.
    ///
    /// # Errors
    /// It is still there, or a loop device is.
    pub fn end(&self, spawner: &Spawner) -> Result<(), NotUndone> {
        let ended = self.destroy(spawner);
        // What the domain still has open, the kernel detaches when it closes it.
        let of_root = self.root.iter().map(|root| (&root.mark, root.file.as_str()));
        let detached: Vec<Result<(), NotUndone>> = of_root
            .chain([(&self.disk_mark, "")])
            .map(|(mark, file)| loop_device::detach(mark, file))
            .collect();
        ended.map_err(|said| NotUndone::XenDomain { name: self.name.clone(), said })?;
        detached.into_iter().collect()
    }

    /// Has Xen end it, and waits until it is gone; what was said if it is not.
    fn destroy(&self, spawner: &Spawner) -> Result<(), String> {
        // It may be making the domain still. That there is none is no failure, and the same to its tool; one that does not answer keeps no domain
        // alive.
        if self.by == Toolstack::Libvirt {
            let _ = virsh::run(spawner, &XenUri, &["destroy", &self.uuid]);
        }
        let deadline = Instant::now() + END_LIMIT;
        let mut said = None;
        while let Some(number) = self.number(spawner).map_err(|e| e.message)? {
            let last = said.get_or_insert_with(|| {
                let destroyed = tools::run(spawner, &[XL, "destroy", &number.to_string()]);
                destroyed.map_or_else(|e| e.message, |_| "Xen says that it ends it".to_owned())
            });
            if Instant::now() >= deadline {
                return Err(last.clone());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

/// The number of the domain with this UUID in what `xl vm-list` prints: UUID, number and name of each.
fn number_of(listed: &str, uuid: &str) -> Option<u32> {
    listed.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == uuid).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Xen 4.17 lists domains; the last one is being made and has no name yet.
    const LISTED: &str = "UUID                                  ID    name
00000000-0000-0000-0000-000000000000  0    Domain-0
6c35a1b2-0d52-4c7e-9d5e-000000000001  3    mail server 
6c35a1b2-0d52-4c7e-9d5e-000000000002  17    (null)
";

    #[test]
    fn a_domain_is_known_by_its_uuid_whatever_its_name() {
        let of = |last| number_of(LISTED, &format!("6c35a1b2-0d52-4c7e-9d5e-00000000000{last}"));
        assert_eq!((of(1), of(2), of(3)), (Some(3), Some(17), None));
        assert_eq!(number_of("", "6c35a1b2-0d52-4c7e-9d5e-000000000001"), None);
        assert_eq!(number_of(LISTED, "Domain-0"), None);
    }

    #[test]
    fn each_has_a_name_and_marks_of_its_own() {
        let made = || NotedDomain::new(Toolstack::Xl, "guest", Some("/lab/root.squashfs")).unwrap();
        let mark = |of: &NotedDomain| of.root.as_ref().unwrap().mark.clone();
        let (one, other) = (made(), made());
        assert!(one.name.starts_with("nestor-guest-") && one.name.len() == "nestor-guest-".len() + 12);
        for (a, b) in [
            (&one.name, &other.name),
            (&one.uuid, &other.uuid),
            (&mark(&one), &mark(&other)),
            (&one.disk_mark, &mark(&one)),
        ] {
            assert_ne!(a, b);
        }
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<NotedDomain>(&text).unwrap(), one);
    }

    #[test]
    fn a_domain_of_an_older_versions_ledger_is_of_xl() {
        let older =
            r#"{"name":"nestor-guest-1","uuid":"u","root":{"file":"/lab/root","mark":"m"},"disk_mark":"d"}"#;
        let read: NotedDomain = serde_json::from_str(older).unwrap();
        assert_eq!((read.by, read.root.map(|root| root.mark)), (Toolstack::Xl, Some("m".to_owned())));
    }
}
