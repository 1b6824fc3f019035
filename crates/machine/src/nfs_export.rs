//! What an NFS server exports, as `exportfs(8)` takes and keeps it.

use std::fmt;

use nestor_kernel::mounts::unescaped;
use serde::{Deserialize, Serialize};

/// What is exported now, a line for each client of a directory (`exportfs(8)`, FILES).
pub const EXPORTED: &str = "/var/lib/nfs/etab";

/// A directory that an NFS server offers to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NfsExport {
    /// The client's address.
    pub client: String,
    /// The directory.
    pub path: String,
}

impl NfsExport {
    /// The lines of [`EXPORTED`]: a directory, a tab, and a client with its options in parentheses (`putexportent` in nfs-utils,
    /// support/nfs/exports.c). Blanks and other special characters of the directory are octal numbers.
    pub fn list(text: &str) -> Vec<Self> {
        let export = |line: &str| {
            let (path, client) = line.split_once('\t')?;
            let client = client.split('(').next()?.trim().to_owned();
            Some(Self { client, path: unescaped(path).display().to_string() })
        };
        text.lines().filter_map(export).collect()
    }
}

impl fmt::Display for NfsExport {
    /// As `exportfs(8)` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(client: &str, path: &str) -> NfsExport {
        NfsExport { client: client.to_owned(), path: path.to_owned() }
    }

    #[test]
    fn an_export_of_another_client_or_directory_is_anothers() {
        let text = "/srv\t*(ro,sync,wdelay)\n/my\\040work/1\t198.18.1.2(rw,sync,fsid=0)\n";
        let exports = NfsExport::list(text);
        assert_eq!(exports, [export("*", "/srv"), export("198.18.1.2", "/my work/1")]);
        assert_eq!(exports[1].to_string(), "198.18.1.2:/my work/1");
        assert_eq!(NfsExport::list(""), []);
    }
}
