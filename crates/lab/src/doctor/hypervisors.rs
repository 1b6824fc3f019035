//! What of other hypervisors is on this machine.

use nestor_machine::{Cause, Refusal, XenRole, libvirt_here, xen_here, xen_role};
use nestor_stack::LabPack;
use nestor_stack::layers::hypervisors::RunBy;

use super::{Finding, State, finding};

/// Debian packages of Xen's tools, of whichever Xen runs.
const XEN_TOOLS: [&str; 3] = ["xen-system-amd64", "xen-utils-common", "xenstore-utils"];

/// Whether `by=libvirt` works with `--on this`. Emulated hosts have a libvirt of their own.
pub(super) fn libvirt() -> Finding {
    libvirt_finding(libvirt_here())
}

fn libvirt_finding(here: Result<String, Refusal>) -> Finding {
    const SUBJECT: &str = "libvirt";
    match here {
        Ok(found) => finding(SUBJECT, State::Ok, found, "by=libvirt with --on this"),
        Err(Refusal { cause: Cause::NotInstalled { .. }, message }) => {
            let advice = format!(
                "apt-get install {} libvirt-daemon-system   (for by=libvirt with --on this; for emulated hosts: nestor lab pack {})",
                RunBy::Libvirt.packages().join(" "),
                LabPack::Libvirt.name()
            );
            finding(SUBJECT, State::Limited, message, advice)
        }
        Err(Refusal { message, .. }) => {
            finding(SUBJECT, State::Limited, message, "by=libvirt with --on this needs it")
        }
    }
}

/// Whether `dom0` and `xen` work with `--on this`. Emulated hosts have a Xen of their own.
pub(super) fn xen() -> Finding {
    xen_finding(xen_role(), xen_here())
}

fn xen_finding(role: Option<XenRole>, here: Result<String, Refusal>) -> Finding {
    const SUBJECT: &str = "xen";
    match (role, here) {
        (_, Ok(found)) => finding(SUBJECT, State::Ok, found, "dom0 and xen with --on this"),
        (None, Err(Refusal { message, .. })) => {
            let advice = format!(
                "dom0 and xen with --on this need it; for emulated hosts: nestor lab pack {}",
                LabPack::Xen.name()
            );
            finding(SUBJECT, State::Ok, message, advice)
        }
        (_, Err(Refusal { cause: Cause::NotInstalled { .. }, message })) => {
            let advice = format!("apt-get install {}   (for xen with --on this)", XEN_TOOLS.join(" "));
            finding(SUBJECT, State::Missing, message, advice)
        }
        (_, Err(Refusal { message, .. })) => {
            finding(SUBJECT, State::Limited, message, "xen with --on this needs it")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_libvirt_that_is_missing_comes_with_its_package() {
        let program = "virsh".to_owned();
        let missing =
            libvirt_finding(Err(Refusal::new(Cause::NotInstalled { program }, "virsh is not installed")));
        assert_eq!(missing.state, State::Limited);
        assert!(missing.advice.contains("libvirt-clients"), "{}", missing.advice);
        let refused = libvirt_finding(Err(Refusal::new(Cause::NotPermitted, "its socket is root's")));
        assert_eq!(refused.found, "its socket is root's");
    }

    #[test]
    fn what_xen_lacks_is_said_and_a_machine_without_xen_lacks_nothing() {
        let refused = |cause, words: &str| Err(Refusal::new(cause, words));
        let without = xen_finding(None, refused(Cause::NotSupported, "this machine does not run under Xen"));
        assert_eq!(without.state, State::Ok);
        assert!(without.advice.contains("nestor lab pack xen"), "{}", without.advice);
        let privileged = Some(XenRole::Privileged);
        let missing = xen_finding(
            privileged,
            refused(Cause::NotInstalled { program: "xl".to_owned() }, "xl is not installed"),
        );
        assert_eq!(missing.state, State::Missing);
        assert!(missing.advice.contains("apt-get install xen-system-amd64"), "{}", missing.advice);
        let silent = xen_finding(privileged, refused(Cause::NotThere, "xenstored does not run"));
        assert_eq!((silent.state, silent.found.as_str()), (State::Limited, "xenstored does not run"));
    }
}
