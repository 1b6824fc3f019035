//! A made-up machine, for tests of what programs are told of one.

use std::path::PathBuf;

use nestor_stack::{MachineIndex, Stack};

use super::{HostedDisk, HostedIdentity, Plan, disk_of_layer};
use crate::hypervisor::{DiskSource, OwnDisk};
use crate::place::MachinePlace;
use crate::spec::{DiskBackend, FeaturesLeftOut, HardwareTrial, MachineSpec, MachineTime, RootDisk};

/// What is made of the plan of a stack's topmost machine, whose disk is an image of the program's own format.
pub fn with_plan<T>(stack: &str, medium: &str, make: impl FnOnce(&Plan<'_>) -> T) -> T {
    let stack = Stack::parse(stack).unwrap();
    let layer = &stack.layers()[0];
    let options = layer.hypervisor().unwrap();
    let source = DiskSource::Image { path: medium, layer: &stack.layers()[1], prefetch: false };
    let attachment = disk_of_layer(options.kind, layer, "nestor-disk", source).unwrap();
    let DiskBackend::Own(OwnDisk::Hosted(disk)) = &attachment.backend else { panic!("{layer:?}") };
    let disk: &HostedDisk = disk;
    let identity = HostedIdentity {
        kind: options.kind,
        name: "nestor-guest-0a1b2c3d".into(),
        uuid: "0a1b2c3d-0000-4000-8000-000000000001".into(),
        directory: PathBuf::from("/w/guest"),
    };
    let spec = MachineSpec {
        place: MachinePlace::Guest(MachineIndex::OUTERMOST),
        memory_bytes: options.memory.get(),
        cpus: options.cpus,
        hypervisor: options.kind,
        qemu: None,
        accelerator: Some(options.accelerator),
        under_xen: None,
        left_out: FeaturesLeftOut::default(),
        xen_guest: None,
        kernel: "/lab/vmlinuz".into(),
        modules_cpio: "/lab/modules.cpio".into(),
        root: RootDisk::Opened { path: "/lab/root".into() },
        time: MachineTime::Real,
        kept_state: None,
        shared_memory: false,
        disk_thread: true,
        disks_at_start: vec![attachment.clone()],
        hardware_trial: HardwareTrial::Probe,
        probe_timeout_ms: 1,
        boot_timeout_ms: 1,
    };
    let at = |name: &str| identity.directory.join(name);
    make(&Plan {
        identity: &identity,
        spec: &spec,
        disc: at("boot.iso"),
        root: at("root.vmdk"),
        disk,
        medium: PathBuf::from(medium),
    })
}
