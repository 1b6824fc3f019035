//! The profile of a stack's modelled disk.

use nestor_disk::Profile;
use nestor_stack::{Stack, StackError};

/// The profile of the modelled disk at the bottom of a stack; `None` for the user's own media.
///
/// # Errors
///
/// If the stack names a profile that does not exist or is of another kind of medium. The error points at it.
pub fn medium_profile(stack: &Stack) -> Result<Option<&'static Profile>, StackError> {
    let medium = stack.medium();
    let Some(disk) = medium.modelled_disk() else { return Ok(None) };
    let refuse = |message: String| {
        let at = stack.medium_index();
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
        let said = of("ext4/hdd:ssd-sata").unwrap_err().to_string();
        assert!(said.contains("ssd-sata is a profile of ssd, not of hdd"), "{said}");
    }
}
