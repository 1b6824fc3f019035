//! Hypervisors of the user's that are not installed, simulated: their tools as scripts in a directory of the test's, first on the search path.

use std::fs;
use std::path::PathBuf;

use super::{Sandbox, write_program};

const PROGRAMS: [(&str, &str); 3] = [
    ("VBoxManage", include_str!("../simulated/VBoxManage")),
    ("vmrun", include_str!("../simulated/vmrun")),
    ("machine", include_str!("../simulated/machine")),
];

/// The tools of a test.
pub struct Simulated {
    directory: PathBuf,
}

impl Simulated {
    /// Installs them in a sandbox.
    pub fn install(sandbox: &Sandbox) -> Self {
        let directory = sandbox.path("tools");
        fs::create_dir(&directory).expect("the sandbox can be written to");
        for (name, script) in PROGRAMS {
            write_program(&directory.join(name), script);
        }
        Self { directory }
    }

    /// The search path with them.
    pub fn path(&self) -> String {
        format!("{}:{}", self.directory.display(), std::env::var("PATH").expect("there is a search path"))
    }

    /// Spoils a call, or the version: see the scripts.
    pub fn spoil(&self, how: &str, what: &str) {
        fs::write(self.directory.join(how), what).expect("the sandbox can be written to");
    }

    /// The first word that says what to do of every call so far, in order.
    pub fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.directory.join("calls")).unwrap_or_default();
        let word = |line: &str| {
            let mut words = line.split_whitespace().skip_while(|word| ["-T", "ws"].contains(word));
            words.next().unwrap_or("").to_owned()
        };
        calls.lines().map(word).collect()
    }

    /// All of every call so far.
    pub fn lines(&self) -> String {
        fs::read_to_string(self.directory.join("calls")).unwrap_or_default()
    }
}
