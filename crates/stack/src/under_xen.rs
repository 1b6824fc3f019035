//! Where a stack can have Xen: its privileged domain is the machine with the medium, and its guests are inside that.

use crate::layers::hypervisors::XenGuest;
use crate::{Conflict, Crossing, HypervisorKind, Layer, LayerDefinition, LayerIndex, Stack};

/// The domain of Xen in which the application runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XenDomain {
    /// The machine with the medium.
    Privileged,
    /// A guest.
    Guest(XenGuest),
}

impl XenDomain {
    /// What Xen's tools and its users call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Privileged => "dom0",
            Self::Guest(guest) => guest.name(),
        }
    }
}

/// Refuses Xen where Nestor does not run it.
pub(crate) fn check_xen(layers: &[Layer]) -> Result<(), (&Layer, Conflict)> {
    let is_xen = |layer: &Layer| layer.definition().is_under_xen();
    let Some(lowest) = layers.iter().rposition(is_xen) else { return Ok(()) };
    let refuse = |at: usize, message: String, help: &str| {
        Err((&layers[at], Conflict { option: None, message, help: help.to_owned() }))
    };
    let name = layers[lowest].name();
    if layers[lowest + 1..].iter().any(|layer| layer.crossing() != Crossing::None) {
        let help = "put it into the machine with the medium, as in ext3/xen/raw/ext3/hdd or ext3/dom0/hdd";
        return refuse(
            lowest,
            format!("{name} is in a guest or a client, and only the machine with the medium runs Xen"),
            help,
        );
    }
    if let Some(other) = layers[..lowest].iter().rposition(is_xen) {
        let help = match layers[lowest].definition() {
            LayerDefinition::PrivilegedDomain => {
                "omit dom0: the machine around a Xen domain is always Xen's privileged domain"
            }
            _ => "use one of them",
        };
        return refuse(
            other,
            format!("{} and {name} are in one stack, but Xen runs once", layers[other].name()),
            help,
        );
    }
    let elsewhere = layers[..lowest].iter().rposition(|layer| layer.crossing() != Crossing::None);
    if let Some(other) = elsewhere {
        let help = "leave one of them out";
        return refuse(
            other,
            format!(
                "{} needs a machine that Xen does not give it: beside Xen there is nothing else yet",
                layers[other].name()
            ),
            help,
        );
    }
    Ok(())
}

impl LayerDefinition {
    /// Whether it is there only under Xen.
    pub(crate) fn is_under_xen(&self) -> bool {
        match self {
            Self::PrivilegedDomain => true,
            Self::Hypervisor(spec) => spec.kind == HypervisorKind::Xen,
            _ => false,
        }
    }
}

impl Stack {
    /// The lowest layer that is there only under Xen.
    pub fn lowest_under_xen(&self) -> Option<LayerIndex> {
        self.indexed_layers().rev().find(|(_, layer)| layer.definition().is_under_xen()).map(|(at, _)| at)
    }

    /// Whether the machine with the medium runs under Xen, as its privileged domain.
    pub fn is_under_xen(&self) -> bool {
        self.lowest_under_xen().is_some()
    }

    /// The domain of Xen in which the application runs; `None` without Xen.
    pub fn xen_domain(&self) -> Option<XenDomain> {
        let lowest = self.layer(self.lowest_under_xen()?);
        // Nothing else crosses into another machine beside Xen, so its guest is the application's.
        let guest = lowest.hypervisor().and_then(|options| options.disk.xen_guest());
        Some(guest.map_or(XenDomain::Privileged, XenDomain::Guest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_is_in_the_domain_that_is_written() {
        let domain = |text: &str| Stack::parse(text).unwrap().xen_domain().map(XenDomain::name);
        assert_eq!(domain("ext3/dom0/hdd"), Some("dom0"));
        assert_eq!(domain("ext3/xen/raw/ext3/hdd"), Some("pv"));
        assert_eq!(domain("ext3/xen:guest=pvh/hdd"), Some("pvh"));
        assert_eq!(domain("ext3/kvm/raw/ext3/hdd"), None);
        assert_eq!(domain("ext3/hdd"), None);
    }
}
