//! `xen`: a domain of the Xen under which the machine around it runs.

use super::super::options::{AVAILABLE, CPUS, MEMORY, MERGES, READAHEAD, SCHED};
use super::managed::{self, IMAGE, POLL, TEMPLATE, TYPE};
use super::options::{HOST_MEMORY, check_memory};
use super::run_by::BY;
use crate::{
    Accelerator, Conflict, HypervisorKind, HypervisorSpec, Layer, LayerDefinition, LayerSpec, OptionKind,
    OptionSpec,
};

/// Debian packages of the privileged domain.
pub(in crate::layers) const PACKAGES: &[&str] =
    &["xen-hypervisor-4.17-amd64", "xen-utils-4.17", "xenstore-utils"];

/// How Xen runs a domain (`type` in xl.cfg(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XenGuest {
    /// Its kernel asks Xen for what only privileged instructions do.
    Pv,
    /// In a container of the processor's support for virtual machines, with paravirtual devices and no emulated ones.
    Pvh,
}

impl XenGuest {
    const ALL: [Self; 2] = [Self::Pv, Self::Pvh];

    /// Its name in the option, and in xl.cfg(5).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pv => "pv",
            Self::Pvh => "pvh",
        }
    }

    pub(super) fn of(layer: &Layer) -> Option<Self> {
        let name = layer.option(GUEST)?;
        Self::ALL.into_iter().find(|guest| guest.name() == name)
    }
}

const GUEST: &str = "guest";

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "xen",
    summary: "Xen domain with one disk of blkfront and blkback; the machine around it is Xen's privileged domain",
    options: &[
        OptionSpec {
            name: GUEST,
            summary: "how Xen runs it: paravirtualised (pv), or with the processor's support for virtual machines (pvh)",
            kind: OptionKind::Choice(&[XenGuest::Pv.name(), XenGuest::Pvh.name()]),
            default: Some(XenGuest::Pv.name()),
        },
        MEMORY,
        AVAILABLE,
        HOST_MEMORY,
        CPUS,
        SCHED,
        READAHEAD,
        MERGES,
        BY,
        IMAGE,
        TYPE,
        TEMPLATE,
        POLL,
    ],
    definition: LayerDefinition::Hypervisor(HypervisorSpec {
        kind: HypervisorKind::Xen,
        accelerator: Accelerator::Xen,
        hosted: None,
    }),
    packages: PACKAGES,
    check,
    not_buildable: None,
};

/// blkback opens block devices and, through a loop device, raw images.
fn check(layer: &Layer, below: Option<&Layer>) -> Result<(), Conflict> {
    let Some(options) = layer.hypervisor() else { return Ok(()) };
    if let Some(image) = below.filter(|below| below.image_format().is_some_and(|format| format.map.is_some()))
    {
        return Err(Conflict {
            option: None,
            message: format!(
                "Xen's block back end reads raw images only, and {} has tables of its own",
                image.name()
            ),
            help: "use raw, or a block device".to_owned(),
        });
    }
    managed::check(layer)?;
    check_memory(&options)
}
