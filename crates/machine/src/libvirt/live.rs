//! The devices that a running domain has, by its description (`virsh dumpxml`, <https://libvirt.org/formatdomain.html#devices>).

use std::path::PathBuf;

use roxmltree::{Document, Node};

use super::connection::Uri;
use super::virsh;
use crate::agent::process::Spawner;
use crate::refusal::{Cause, Refusal};

/// A device of a running domain; of others than these, nothing is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveDevice {
    /// A disk.
    Disk {
        /// What libvirt calls it.
        target: String,
    },
    /// A controller for disks of SCSI.
    ScsiController,
    /// A port to a program in the machine.
    Port {
        /// Its name in the machine.
        name: String,
        /// What libvirt calls it.
        alias: Option<String>,
        /// Its socket in the machine around.
        socket: Option<PathBuf>,
    },
}

/// What a domain has, of that name or UUID.
///
/// # Errors
/// libvirt has no such domain or does not answer, or its description cannot be read.
pub fn devices(spawner: &Spawner, uri: &Uri, domain: &str) -> Result<Vec<LiveDevice>, Refusal> {
    read(&virsh::run(spawner, uri, &["dumpxml", domain])?).map_err(|e| {
        let message = format!("libvirt's description of the domain {domain} cannot be read: {e}");
        Refusal::new(Cause::Other, message)
    })
}

fn read(description: &str) -> Result<Vec<LiveDevice>, roxmltree::Error> {
    let document = Document::parse(description)?;
    let devices = document.root_element().children().find(|child| child.has_tag_name("devices"));
    Ok(devices.into_iter().flat_map(|devices| devices.children()).filter_map(device).collect())
}

fn device(element: Node<'_, '_>) -> Option<LiveDevice> {
    let attribute = |of: &str, name: &str| {
        let child = element.children().find(|child| child.has_tag_name(of))?;
        child.attribute(name).map(str::to_owned)
    };
    match element.tag_name().name() {
        "disk" => Some(LiveDevice::Disk { target: attribute("target", "dev")? }),
        "controller" => (element.attribute("type") == Some("scsi")).then_some(LiveDevice::ScsiController),
        "channel" => Some(LiveDevice::Port {
            name: attribute("target", "name")?,
            alias: attribute("alias", "name"),
            socket: attribute("source", "path").map(PathBuf::from),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As libvirt 9.0 describes a domain, shortened; with words of devices where they are not ones.
    const DESCRIPTION: &str = "<domain type='kvm' id='3' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>a</name>
  <description>&lt;target dev='vdq'/&gt; and ua-nestor-domain</description>
  <metadata><disk><target dev='vdm'/></disk></metadata>
  <devices>
    <disk type='file' device='disk'><source file='/a&apos;b' index='1'/><target dev=\"vda\" bus='virtio'/></disk>
    <controller type='usb' index='0' model='none'/>
    <controller index='0' type='scsi' model='virtio-scsi'/>
    <channel type='unix'><source mode='bind' path='/run/a&amp;b'/><target type='virtio' name='nestor.domain' state='connected'/>
      <alias name='ua-nestor-domain'/></channel>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <channel type='spicevmc'><target type='virtio'/></channel>
  </devices>
</domain>";

    #[test]
    fn devices_are_found_where_they_stand_and_only_there() {
        let port = |name: &str, alias: Option<&str>, socket: Option<&str>| LiveDevice::Port {
            name: name.to_owned(),
            alias: alias.map(str::to_owned),
            socket: socket.map(PathBuf::from),
        };
        assert_eq!(
            read(DESCRIPTION).unwrap(),
            [
                LiveDevice::Disk { target: "vda".to_owned() },
                LiveDevice::ScsiController,
                port("nestor.domain", Some("ua-nestor-domain"), Some("/run/a&b")),
                port("org.qemu.guest_agent.0", None, None),
            ]
        );
        assert_eq!(read("<domain/>").unwrap(), []);
        assert!(read("error: failed to connect").is_err());
    }
}
