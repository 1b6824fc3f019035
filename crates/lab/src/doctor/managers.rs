//! What managers of a cloud need on this machine.

use std::fs;

use nestor_manager::{Ec2Login, ManagerError, OneLogin, curl_is_here};
use nestor_stack::ManagerKind;

use super::{Finding, State, finding};

/// Where it is said how a person gets an OpenNebula.
const HOW: &str =
    "to make an OpenNebula to try of its source: scripts/opennebula (docs/propagate.md, Managers)";

/// What is there of each manager's.
pub(super) fn findings() -> Vec<Finding> {
    let variable = |name: &str| std::env::var(name).ok();
    let one = OneLogin::file(variable).map(|file| {
        let content = fs::read_to_string(&file).map_err(|e| {
            ManagerError::Login(format!("the login of OpenNebula cannot be read: {}: {e}", file.display()))
        });
        content.and_then(|content| OneLogin::read(&content)).map(|_| format!("login in {}", file.display()))
    });
    let one = one.unwrap_or_else(|| Err(ManagerError::Login("neither ONE_AUTH nor HOME is set".to_owned())));
    let ec2 =
        Ec2Login::of(variable).map(|login| format!("login of {} in the region {}", login.key, login.region));
    let carrier = curl_is_here();
    vec![of(ManagerKind::Ec2, &carrier, ec2), of(ManagerKind::OpenNebula, &carrier, one)]
}

fn of(
    kind: ManagerKind,
    carrier: &Result<String, ManagerError>,
    login: Result<String, ManagerError>,
) -> Finding {
    let subject = format!("manager {kind}");
    let purpose = format!("by={kind} with --on {kind}:URL");
    match (carrier, login) {
        (Ok(carrier), Ok(login)) => finding(&subject, State::Ok, format!("{login}; {carrier}"), purpose),
        (Err(e), _) => finding(
            &subject,
            State::Limited,
            e.to_string(),
            format!("apt-get install curl   (for {purpose})"),
        ),
        (Ok(_), Err(e)) => {
            let how = match kind {
                ManagerKind::Ec2 => "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION".to_owned(),
                ManagerKind::OpenNebula => {
                    format!("write USER:PASSWORD into it, or name another file with ONE_AUTH; {HOW}")
                }
            };
            finding(&subject, State::Limited, e.to_string(), format!("{how}   (for {purpose})"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_what_to_do() {
        let login = || ManagerError::Login("AWS_REGION is not set".to_owned());
        let here = Ok("curl 7.88.1".to_owned());
        let missing = of(ManagerKind::Ec2, &here, Err(login()));
        assert_eq!((missing.state, missing.found.as_str()), (State::Limited, "AWS_REGION is not set"));
        assert!(missing.advice.starts_with("set AWS_ACCESS_KEY_ID"), "{}", missing.advice);
        let without = of(ManagerKind::OpenNebula, &Err(ManagerError::NoProgram), Ok("login".to_owned()));
        assert!(without.advice.contains("apt-get install curl"));
        let one = of(ManagerKind::OpenNebula, &here, Err(login()));
        assert!(one.advice.contains("docs/propagate.md"));
        let fine = of(ManagerKind::OpenNebula, &here, Ok("login in f".to_owned()));
        assert_eq!((fine.state, fine.found.as_str()), (State::Ok, "login in f; curl 7.88.1"));
    }
}
