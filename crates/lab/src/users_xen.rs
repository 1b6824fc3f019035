//! Xen on the user's own machine (`--on this`): a stack that says so is built under it, and results of all others say that they were.

use nestor_machine::{XenRole, xen_role, xen_version};
use nestor_stack::{Place, Stack, StackError};

use crate::progressing::Progressing;

/// The setting of results that were made under the user's Xen.
const SETTING: &str = "Xen";

/// Refuses a stack that is to run under the Xen of this machine where there is none. Other places make their Xen, or refuse the stack for itself.
///
/// # Errors
/// The layer that needs it, with what this machine is.
pub fn require_users_xen(stack: &Stack, place: &Place) -> Result<(), StackError> {
    match place {
        Place::This if stack.is_under_xen() => refused(stack, xen_role()).map_or(Ok(()), Err),
        _ => Ok(()),
    }
}

fn refused(stack: &Stack, role: Option<XenRole>) -> Option<StackError> {
    let at = stack.lowest_under_xen()?;
    let name = stack.layer(at).name();
    let (message, help) = match role {
        Some(XenRole::Privileged) => return None,
        Some(XenRole::Guest) => (
            format!("{name} needs Xen's privileged domain, but this machine is another domain of a Xen"),
            "run nestor in the privileged domain, or use `--on emulated` with a modelled disk",
        ),
        None => (
            format!("{name} needs a machine that runs under Xen, but this one does not"),
            "boot it under Xen (on Debian: `apt-get install xen-system-amd64`), omit the layer, or use `--on emulated` with a modelled disk",
        ),
    };
    Some(StackError::at_layer(stack, at, message, help))
}

/// Notes that the user's machine is under Xen, also for a stack that does not say so: it is measured as it is, and no native machine.
pub(crate) fn note(progressing: &mut Progressing<'_>) {
    let version = xen_version().unwrap_or_else(|| "of an unknown version".to_owned());
    if let Some(words) = noted(progressing.stack, xen_role(), &version) {
        progressing.note(SETTING, words);
    }
}

fn noted(stack: &Stack, role: Option<XenRole>, version: &str) -> Option<String> {
    let domain = match role? {
        XenRole::Privileged => "the host is its privileged domain",
        XenRole::Guest => "the host is a domain of it",
    };
    let unsaid = if stack.is_under_xen() { "" } else { ", which the stack does not say" };
    Some(format!("{version}, {domain}{unsaid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(text: &str) -> Stack {
        Stack::parse(text).unwrap()
    }

    #[test]
    fn a_stack_under_xen_is_refused_at_its_layer_where_there_is_none() {
        let said = |text: &str, role| refused(&stack(text), role).map(|refused| refused.to_string());
        let without = said("ext3/dom0/file:/srv/disk", None).unwrap();
        let caret = "  ext3/dom0/file:/srv/disk\n       ^^^^ dom0 needs a machine that runs under Xen, but this one does not\n";
        assert!(without.contains(caret) && without.contains("xen-system-amd64"), "{without}");
        let guest = said("ext3/xen/raw/ext4/dev:/dev/sdb", Some(XenRole::Guest)).unwrap();
        assert!(
            guest.contains("^^^ xen needs Xen's privileged domain, but this machine is another"),
            "{guest}"
        );
        assert_eq!(said("ext3/dom0/file:/srv/disk", Some(XenRole::Privileged)), None);
        assert_eq!(said("ext3/file:/srv/disk", None), None);
    }

    #[test]
    fn results_say_that_a_machine_is_under_xen_whatever_the_stack_says() {
        let said = |text: &str, role| noted(&stack(text), role, "4.17.5");
        let privileged = Some(XenRole::Privileged);
        assert_eq!(said("ext3/file:/srv/disk", None), None);
        assert_eq!(
            said("ext3/dom0/file:/srv/disk", privileged).unwrap(),
            "4.17.5, the host is its privileged domain"
        );
        assert_eq!(
            said("ext3/file:/srv/disk", privileged).unwrap(),
            "4.17.5, the host is its privileged domain, which the stack does not say"
        );
    }
}
