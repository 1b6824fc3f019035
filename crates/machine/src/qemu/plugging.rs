//! Plugging disks and network interfaces into a running QEMU, and out of it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use nestor_stop::lock;
use serde_json::{Value, json};

use super::arguments;
use super::disk::DiskObjects;
use super::prefetch;
use super::qmp::{Qmp, QmpError, Reason, UndoCommand};
use crate::hypervisor::OwnDisk;
use crate::refusal::{Cause, Refusal};
use crate::spec::{DiskAttachment, DiskBackend, InterfaceAttachment, InterfaceBackend};

/// Commands, with their arguments, that undo what was done.
type Undo = Vec<UndoCommand>;

/// Takes steps, and undoes those that were taken if one fails.
fn or_undo(
    qmp: &mut Qmp,
    steps: impl FnOnce(&mut Qmp, &mut Undo) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut undo = Undo::new();
    let result = steps(qmp, &mut undo);
    if result.is_err() {
        for (command, arguments) in undo.into_iter().rev() {
            let _ = qmp.execute(command, &arguments);
        }
    }
    result
}

/// A connection to a server of devices.
fn add_connection(qmp: &mut Qmp, id: &str, socket: &str, undo: &mut Undo) -> Result<(), Refusal> {
    let address = json!({ "type": "unix", "data": { "path": socket } });
    let backend = json!({ "type": "socket", "data": { "addr": address, "server": false } });
    qmp.execute("chardev-add", &json!({ "id": id, "backend": backend }))?;
    undo.push(("chardev-remove", json!({ "id": id })));
    Ok(())
}

/// Plugs a network interface in.
///
/// # Errors
/// QEMU's reason; what was already added is removed again.
pub fn attach_interface(qmp: &mut Qmp, interface: &InterfaceAttachment) -> Result<(), Refusal> {
    or_undo(qmp, |qmp, undo| attach_interface_steps(qmp, interface, undo))
}

/// Plugs a disk in.
///
/// # Errors
/// As [`attach_interface`].
pub fn attach_disk(qmp: &mut Qmp, disk: &DiskAttachment) -> Result<(), Refusal> {
    or_undo(qmp, |qmp, undo| attach_disk_steps(qmp, disk, undo))
}

/// Unplugs a network interface and waits until the machine has released it; meanwhile time has to pass in it.
///
/// # Errors
/// QEMU's reason, or the machine does not release it.
pub fn detach_interface(
    qmp: &Mutex<Qmp>,
    interface: &InterfaceAttachment,
    let_time_pass: impl Fn(),
) -> Result<(), Refusal> {
    let id = &interface.name;
    detach_device(qmp, &format!("{id}-device"), let_time_pass)?;
    remove_when_free(qmp, "netdev_del", &json!({ "id": id }))?;
    match interface.backend {
        InterfaceBackend::Link { .. } => remove_when_free(qmp, "chardev-remove", &json!({ "id": id })),
        InterfaceBackend::Tap { .. } => Ok(()),
    }
}

/// Unplugs a disk, in the same way.
///
/// # Errors
/// As [`detach_interface`].
pub fn detach_disk(qmp: &Mutex<Qmp>, disk: &DiskAttachment, let_time_pass: impl Fn()) -> Result<(), Refusal> {
    match &disk.backend {
        DiskBackend::Server { .. } => {
            detach_device(qmp, &format!("{}-device", disk.serial), let_time_pass)?;
            remove_when_free(qmp, "chardev-remove", &json!({ "id": disk.serial }))
        }
        DiskBackend::Own(OwnDisk::Qemu(DiskObjects { nodes, devices, prefetched })) => {
            if prefetched.is_some() {
                prefetch::end(qmp, &disk.serial)?;
            }
            for id in devices.iter().rev().filter_map(|device| device["id"].as_str()) {
                detach_device(qmp, id, &let_time_pass)?;
            }
            nodes.iter().rev().try_for_each(|node| {
                remove_when_free(qmp, "blockdev-del", &json!({ "node-name": node["node-name"] }))
            })
        }
        DiskBackend::Own(OwnDisk::Xen(_) | OwnDisk::Libvirt(_) | OwnDisk::Hosted(_)) => {
            Err(of_another_hypervisor())
        }
    }
}

fn of_another_hypervisor() -> Refusal {
    Refusal::new(Cause::NotSupported, "a machine of QEMU has no disks of another hypervisor")
}

fn attach_interface_steps(
    qmp: &mut Qmp,
    interface: &InterfaceAttachment,
    undo: &mut Undo,
) -> Result<(), Refusal> {
    let InterfaceAttachment { name, backend, mac } = interface;
    let frames = match backend {
        InterfaceBackend::Link { socket } => {
            add_connection(qmp, name, socket, undo)?;
            json!({ "type": "vhost-user", "id": name, "chardev": name })
        }
        InterfaceBackend::Tap { interface } => {
            json!({ "type": "tap", "id": name, "ifname": interface, "script": "no", "downscript": "no" })
        }
    };
    qmp.execute("netdev_add", &frames)?;
    undo.push(("netdev_del", json!({ "id": name })));
    qmp.execute("device_add", &arguments::network_interface(name, mac))?;
    Ok(())
}

fn attach_disk_steps(qmp: &mut Qmp, disk: &DiskAttachment, undo: &mut Undo) -> Result<(), Refusal> {
    match &disk.backend {
        DiskBackend::Server { socket, queues } => {
            add_connection(qmp, &disk.serial, socket, undo)?;
            qmp.execute("device_add", &arguments::vhost_user_device(&disk.serial, *queues, &disk.serial))?;
        }
        DiskBackend::Own(OwnDisk::Qemu(DiskObjects { nodes, devices, prefetched })) => {
            for node in nodes {
                qmp.execute("blockdev-add", node)?;
                undo.push(("blockdev-del", json!({ "node-name": node["node-name"] })));
            }
            if let Some(node) = prefetched {
                undo.push(prefetch::begin(qmp, &disk.serial, node)?);
            }
            for device in devices {
                qmp.execute("device_add", device)?;
                undo.push(("device_del", json!({ "id": device["id"] })));
            }
        }
        DiskBackend::Own(OwnDisk::Xen(_) | OwnDisk::Libvirt(_) | OwnDisk::Hosted(_)) => {
            return Err(of_another_hypervisor());
        }
    }
    Ok(())
}

/// Asks the machine repeatedly to release a device: a request that comes while the machine is still busy
/// with the plugging is lost.
fn detach_device(qmp: &Mutex<Qmp>, id: &str, let_time_pass: impl Fn()) -> Result<(), Refusal> {
    for _ in 0..20 {
        // Not held while time passes: what waits for the machine's progress asks the monitor for it.
        let asked = lock(qmp).execute("device_del", &json!({ "id": id }));
        match asked {
            Ok(_) | Err(QmpError::Refused { reason: Reason::Unplugging, .. }) => {}
            Err(QmpError::Refused { reason: Reason::NotFound, .. }) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        let_time_pass();
        let gone = |data: &Value| data["device"].as_str() == Some(id);
        if lock(qmp).wait_event("DEVICE_DELETED", Duration::from_secs(1), gone).is_ok() {
            return Ok(());
        }
    }
    Err(Refusal::new(Cause::MachineSilent, format!("the guest did not release the device {id}")))
}

/// Removes what a device used; QEMU frees it a moment after the device is gone.
fn remove_when_free(qmp: &Mutex<Qmp>, command: &str, arguments: &Value) -> Result<(), Refusal> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let asked = lock(qmp).execute(command, arguments);
        match asked {
            Err(QmpError::Refused { reason: Reason::InUse, .. }) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            result => return Ok(result.map(|_| ())?),
        }
    }
}
