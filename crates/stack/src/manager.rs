//! Managers of a cloud that are there: which, and where.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The interface of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ManagerKind {
    /// Amazon's EC2, its Query API, which others have too.
    Ec2,
    /// OpenNebula's XML-RPC.
    #[serde(rename = "opennebula")]
    OpenNebula,
}

impl ManagerKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Ec2, Self::OpenNebula];

    /// Its name in `by=` and in `--on`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::OpenNebula => "opennebula",
        }
    }

    /// As it calls itself.
    pub const fn product(self) -> &'static str {
        match self {
            Self::Ec2 => "EC2",
            Self::OpenNebula => "OpenNebula",
        }
    }

    /// A place of it, for messages.
    pub const fn usual_place(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2:http://127.0.0.1:5000",
            Self::OpenNebula => "opennebula:http://127.0.0.1:2633/RPC2",
        }
    }
}

impl fmt::Display for ManagerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a manager answers: an address of HTTP without anything secret in it, since results are stored under it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ManagerUrl(String);

impl ManagerUrl {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ManagerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = |why: &str| Err(format!("`{text}` is no address of a manager: {why}"));
        let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else {
            return refuse("it begins with http:// or https://");
        };
        let authority = rest.split('/').next().unwrap_or_default();
        if rest.contains(['?', '#'])
            || !rest.chars().all(|c| c.is_ascii_graphic() && !"\"'\\<>{}[]`,".contains(c) || "[]".contains(c))
        {
            return refuse("it is a host, a port and a path, without a question or white space");
        }
        if authority.contains('@') {
            return refuse(
                "a name and a password would be stored with the results; they are read from the environment",
            );
        }
        if authority.is_empty() || authority.starts_with(':') || authority.starts_with('-') {
            return refuse("it has no host");
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ManagerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_a_port_and_a_path() {
        for text in ["http://127.0.0.1:5000", "https://ec2.eu-1.example/", "http://[::1]:2633/RPC2"] {
            assert_eq!(text.parse::<ManagerUrl>().unwrap().to_string(), text);
        }
        let cases = [
            ("127.0.0.1:5000", "begins with http"),
            ("ftp://host/", "begins with http"),
            ("file:///etc/passwd", "begins with http"),
            ("http://", "has no host"),
            ("http://:80/", "has no host"),
            ("http://key:secret@host/", "would be stored with the results"),
            ("http://host/?Action=x", "without a question"),
            ("http://host/a b", "without a question"),
            ("http://host\n", "without a question"),
            ("http://{a,b}/", "without a question"),
        ];
        for (text, why) in cases {
            let said = text.parse::<ManagerUrl>().unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
