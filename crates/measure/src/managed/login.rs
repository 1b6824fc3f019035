//! Who asks a manager: from where its own programs read it.

use std::io::Read as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::{env, fs};

use jiff::tz::TimeZone;
use nestor_manager::{Ec2Login, Logged, ManagerError, OneLogin, Recorded, begins_in_log, log_file};
use nestor_stack::ManagerUrl;

fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// From the environment.
pub(crate) fn of_ec2() -> Result<Ec2Login, ManagerError> {
    Ec2Login::of(variable)
}

/// Whether a manager is on this machine, so that its log may be.
pub(crate) fn is_here(url: &ManagerUrl) -> bool {
    let authority =
        url.as_str().split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Bytes of a log that are read; one of a life has some kilobytes.
const LONGEST_LOG: u64 = 1 << 20;

/// What an OpenNebula of this machine has logged of a machine; nothing of one that is not there, or may not be read.
pub(crate) fn log_of_opennebula() -> Logged {
    let location = variable("ONE_LOCATION").filter(|location| !location.is_empty()).map(PathBuf::from);
    Box::new(move |id| {
        let mut bytes = Vec::new();
        let read = fs::File::open(log_file(location.as_deref(), id))
            .and_then(|file| file.take(LONGEST_LOG).read_to_end(&mut bytes));
        match read {
            Ok(_) => begins_in_log(&String::from_utf8_lossy(&bytes), &TimeZone::system()),
            Err(_) => Recorded::default(),
        }
    })
}

/// From the file that `ONE_AUTH` names, or `~/.one/one_auth`.
pub(crate) fn of_opennebula() -> Result<OneLogin, ManagerError> {
    let file = OneLogin::file(variable);
    let file = file.ok_or_else(|| ManagerError::Login("neither ONE_AUTH nor HOME is set".to_owned()))?;
    let content = fs::read_to_string(&file).map_err(|e| {
        let file = file.display();
        ManagerError::Login(format!("the login of OpenNebula cannot be read: {file}: {e}\n  write USER:PASSWORD into it, or name another with ONE_AUTH"))
    })?;
    OneLogin::read(&content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_machine_is_known() {
        let here = |text: &str| is_here(&text.parse().unwrap());
        assert!(
            here("http://127.0.0.1:2633/RPC2") && here("http://localhost/RPC2") && here("http://[::1]:80")
        );
        assert!(
            !here("http://one.example:2633/RPC2")
                && !here("http://10.0.0.1")
                && !here("http://localhost.example")
        );
    }
}
