//! One colour for each kind of layer, wherever it is drawn: by what the layer is for in its stack, so that the file system of the
//! guest has the same colour in every picture of every report.

use nestor_correlate::LevelKind;
use nestor_stack::{LayerRole, MachineLabel, MachineName};

use crate::view::{LayerRow, LevelName, RowRole};

/// What has a colour of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerColour {
    Application,
    GuestFileSystem,
    ClientFileSystem,
    HostFileSystem,
    VirtualMachine,
    Image,
    Network,
    Disk,
}

impl LayerColour {
    /// The class in the style sheet, which sets `--layer`.
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Application => "y-application",
            Self::GuestFileSystem => "y-guest-fs",
            Self::ClientFileSystem => "y-client-fs",
            Self::HostFileSystem => "y-host-fs",
            Self::VirtualMachine => "y-machine",
            Self::Image => "y-image",
            Self::Network => "y-network",
            Self::Disk => "y-disk",
        }
    }

    /// Of a row of the table of layers.
    pub(super) fn of_row(row: &LayerRow) -> Self {
        let role = match &row.role {
            RowRole::Engine(_) => return Self::Application,
            RowRole::Layer(role) => role,
        };
        match role {
            LayerRole::Application => Self::Application,
            LayerRole::FileSystem(machine) => Self::file_system(*machine),
            LayerRole::Image(_) | LayerRole::LoopDevice => Self::Image,
            LayerRole::VirtualMachine | LayerRole::PrivilegedDomain => Self::VirtualMachine,
            LayerRole::Link | LayerRole::NetworkFileSystem | LayerRole::NetworkDisk => Self::Network,
            LayerRole::Disk => Self::Disk,
            LayerRole::Partition | LayerRole::Other(_) => Self::of_machine(&row.machine),
        }
    }

    /// Of a trace point: that of the layer whose requests are seen there.
    pub(super) fn of_level(level: &LevelName) -> Self {
        match &level.kind {
            LevelKind::Application => Self::Application,
            LevelKind::Block(machine) => Self::file_system(*machine),
            LevelKind::Calls(_) => Self::Network,
            LevelKind::Hypervisor => Self::VirtualMachine,
            LevelKind::ImageFile => Self::Image,
            LevelKind::Medium => Self::Disk,
            LevelKind::Other(_) => Self::of_machine(&level.machine),
        }
    }

    fn file_system(machine: MachineLabel) -> Self {
        match machine {
            MachineLabel::Host | MachineLabel::OtherHost(_) | MachineLabel::Repository => {
                Self::HostFileSystem
            }
            MachineLabel::Client(_) => Self::ClientFileSystem,
            MachineLabel::Guest(_) => Self::GuestFileSystem,
        }
    }

    fn of_machine(machine: &MachineName) -> Self {
        match machine {
            MachineName::Of(machine) => Self::file_system(*machine),
            MachineName::Application => Self::Application,
            MachineName::Ground | MachineName::Medium => Self::Disk,
            MachineName::Unknown | MachineName::Other(_) => Self::GuestFileSystem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_has_one_colour_in_its_row_and_at_its_trace_point() {
        let row = |role: LayerRole| {
            LayerColour::of_row(&LayerRow { role: RowRole::Layer(role), ..LayerRow::default() })
        };
        let level = |kind: LevelKind| LayerColour::of_level(&LevelName { kind, ..LevelName::default() });
        for machine in
            [MachineLabel::Host, MachineLabel::Guest(1), MachineLabel::Guest(2), MachineLabel::Client(1)]
        {
            assert_eq!(row(LayerRole::FileSystem(machine)), level(LevelKind::Block(machine)));
        }
        assert_eq!(row(LayerRole::VirtualMachine), level(LevelKind::Hypervisor));
        assert_eq!(row(LayerRole::Image("qcow2".to_owned())), level(LevelKind::ImageFile));
        assert_eq!(row(LayerRole::NetworkFileSystem), level(LevelKind::Calls(MachineLabel::Host)));
        assert_eq!(row(LayerRole::Disk), level(LevelKind::Medium));
    }

    #[test]
    fn a_partition_looks_like_its_machine() {
        let partition = |machine: &str| {
            let role = RowRole::Layer(LayerRole::Partition);
            LayerColour::of_row(&LayerRow { role, machine: machine.into(), ..LayerRow::default() })
        };
        assert_eq!(partition("host"), LayerColour::HostFileSystem);
        assert_eq!(partition("client 2"), LayerColour::ClientFileSystem);
        assert_eq!(partition("guest"), LayerColour::GuestFileSystem);
    }
}
