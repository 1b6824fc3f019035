//! The names of trace points, in the files of requests and in everything made from them.

use nestor_correlate::LevelKind;
use nestor_lab::{BlockPoint, BuiltStack, VirtualDisk};
use nestor_stack::{LayerIndex, MachineIndex, MachineName};
use nestor_trace::CallEnd;

/// Layer, kind and machine of a trace point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PointName {
    /// The layer at whose lower edge it lies, as written in the stack.
    pub layer: String,
    /// What was recorded there, as files of requests keep it.
    pub kind: String,
    /// The machine whose clock its times are on, as files of requests keep it.
    pub machine: String,
    /// Whose clock that is.
    pub clock: ClockOf,
}

/// Whose clock a trace point's times are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockOf {
    /// The application's own.
    Application,
    /// A machine of the stack.
    Machine(MachineIndex),
    /// The modelled disk's.
    Medium,
}

impl PointName {
    fn new(layer: String, kind: &LevelKind, machine: &MachineName, clock: ClockOf) -> Self {
        Self { layer, kind: kind.stored(), machine: machine.stored(), clock }
    }

    fn of_machine(built: &BuiltStack, layer: String, kind: &LevelKind, machine: MachineIndex) -> Self {
        Self::new(layer, kind, &built.machines[machine].label.into(), ClockOf::Machine(machine))
    }

    /// The application. fio has its own clock, whose start is only inferred.
    pub fn of_application() -> Self {
        Self::new(
            "application".to_owned(),
            &LevelKind::Application,
            &MachineName::Application,
            ClockOf::Application,
        )
    }

    /// A block device.
    pub fn of_point(built: &BuiltStack, point: &BlockPoint) -> Self {
        // The layer above the device is the one whose lower edge it is.
        let layer = match point.offered_by.above() {
            Some(above) => built.stack.layer(above).label(),
            None => "application".to_owned(),
        };
        let kind = LevelKind::Block(built.machines[point.machine].label);
        Self::of_machine(built, layer, &kind, point.machine)
    }

    /// The calls of a network file system on an image, at one end.
    pub fn of_calls(built: &BuiltStack, layer: LayerIndex, end: CallEnd, machine: MachineIndex) -> Self {
        // The layer at whose lower edge they pass: the network file system's at the client, the link's at the server.
        let layer = match end {
            CallEnd::Client => layer,
            CallEnd::Server => built.stack.link_below(layer).map_or(layer, |(link, _)| link),
        };
        let kind = LevelKind::Calls(built.machines[machine].label);
        Self::of_machine(built, built.stack.layer(layer).label(), &kind, machine)
    }

    /// The requests on a virtual disk.
    pub fn of_virtual_disk(built: &BuiltStack, disk: &VirtualDisk) -> Self {
        let layer = built.stack.layer(disk.layer).label();
        Self::of_machine(built, layer, &LevelKind::Hypervisor, disk.machine)
    }

    /// The requests on the image file of a virtual disk, if it is one of a format of its own.
    pub fn of_image_file(built: &BuiltStack, disk: &VirtualDisk) -> Option<Self> {
        let layer = built.stack.layer(disk.image?).label();
        Some(Self::of_machine(built, layer, &LevelKind::ImageFile, disk.machine))
    }

    /// The modelled disk, which is served on the ground.
    pub fn of_medium(built: &BuiltStack) -> Self {
        Self::new(built.stack.medium().label(), &LevelKind::Medium, &MachineName::Ground, ClockOf::Medium)
    }
}
