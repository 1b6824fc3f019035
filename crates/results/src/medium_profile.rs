//! The profile of a stack's modelled disk.

use nestor_disk::Profile;
use nestor_stack::{LayerIndex, Stack, StackError};

/// The profile of the modelled disk at the bottom of a stack; `None` for the user's own media.
///
/// # Errors
///
/// If the stack names a profile that does not exist or is of another kind of medium. The error points at it.
pub fn medium_profile(stack: &Stack) -> Result<Option<&'static Profile>, StackError> {
    profile_of(stack, stack.medium_index())
}

/// That the modelled disks of a stack have profiles, that of its source too.
///
/// # Errors
///
/// See [`medium_profile`].
pub fn check_profiles(stack: &Stack) -> Result<(), StackError> {
    let last_of_source = stack.indexed_source().next_back().map(|(at, _)| at);
    let media = [Some(stack.medium_index()), last_of_source];
    media.into_iter().flatten().try_for_each(|at| profile_of(stack, at).map(drop))
}

fn profile_of(stack: &Stack, at: LayerIndex) -> Result<Option<&'static Profile>, StackError> {
    let medium = stack.layer(at);
    let Some(disk) = medium.modelled_disk() else { return Ok(None) };
    let refuse = |message: String| {
        Err(StackError::at_option(stack, at, "profile", message, "`nestor disk list` shows them"))
    };
    match nestor_disk::profile(disk.profile.unwrap_or(medium.name())) {
        Err(e) => refuse(e.to_string()),
        Ok(profile) if profile.medium.kind() != medium.name() => {
            let (name, kind) = (profile.name, profile.medium.kind());
            refuse(format!("{name} is a profile of {kind}, not of {}", medium.name()))
        }
        Ok(profile) => Ok(Some(profile)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_to_exist_and_be_of_its_medium() {
        let of = |text: &str| medium_profile(&Stack::parse(text).unwrap());
        assert_eq!(of("ext4/hdd:wd-re3").unwrap().unwrap().name, "wd-re3");
        assert!(of("ext4/hdd").unwrap().is_some() && of("ext4/null").unwrap().is_some());
        assert!(of("dev:/dev/sdb").unwrap().is_none());
        let said = of("ext4/hdd:none-such").unwrap_err().to_string();
        assert!(said.contains("no disk profile is called `none-such`"), "{said}");
        let source = Stack::parse("ext4/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd:none-such").unwrap();
        assert!(medium_profile(&source).is_ok());
        let said = check_profiles(&source).unwrap_err().to_string();
        assert!(said.contains("no disk profile is called `none-such`"), "{said}");
        let said = of("ext4/hdd:ssd-sata").unwrap_err().to_string();
        assert!(said.contains("ssd-sata is a profile of ssd, not of hdd"), "{said}");
    }
}
