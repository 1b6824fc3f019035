//! An OpenNebula that `scripts/opennebula` made, in the directory that ONE_LOCATION names. It is started for a test, and ended with it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

pub struct One {
    location: PathBuf,
}

impl One {
    /// `None`, and says so, where there is none.
    pub fn start() -> Option<Self> {
        let location = env::var_os("ONE_LOCATION").map(PathBuf::from);
        let Some(location) = location.filter(|location| location.join("port").is_file()) else {
            eprintln!("NOT RUN: ONE_LOCATION names no OpenNebula that scripts/opennebula made");
            return None;
        };
        let one = Self { location };
        one.start_again();
        Some(one)
    }

    /// Its address, as `--on` takes it.
    pub fn on(&self) -> String {
        format!("opennebula:http://127.0.0.1:{}/RPC2", self.file("port"))
    }

    /// What its user's programs read.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        let auth = self.location.join("auth");
        [("ONE_LOCATION", self.location.display().to_string()), ("ONE_AUTH", auth.display().to_string())]
    }

    /// The process of its daemon.
    pub fn daemon(&self) -> u32 {
        self.file("var/oned.session").parse().expect("a process")
    }

    /// Ends what is left of it, and starts it again.
    pub fn start_again(&self) {
        assert!(self.script("start"), "scripts/opennebula start failed");
    }

    /// Ends its scheduler, which nothing starts again but a start of it all.
    pub fn stop_scheduler(&self) {
        let mut kill = Command::new("kill");
        assert!(kill.arg(self.file("var/sched.session")).status().is_ok_and(|status| status.success()));
    }

    /// The numbers of its virtual machines that have not ended.
    pub fn machines(&self) -> Vec<String> {
        let listed = self.said("onevm", &["list", "--list", "ID", "--csv", "--no-header"]);
        String::from_utf8_lossy(&listed.stdout).split_whitespace().map(str::to_owned).collect()
    }

    /// One of its user's programs, as a person calls it.
    pub fn said(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.location.join("bin").join(program));
        let url = ("ONE_XMLRPC", self.on().replacen("opennebula:", "", 1));
        command.args(arguments).envs(self.variables()).envs([url]).output().expect("the program runs")
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.location.join(name)).expect(name).trim().to_owned()
    }

    /// Whether the script did it. Its words go nowhere: what it starts would hold a pipe open.
    fn script(&self, what: &str) -> bool {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/opennebula");
        let mut command = Command::new(script);
        command.arg(what).arg(&self.location).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

impl Drop for One {
    fn drop(&mut self) {
        let ended = self.script("stop");
        // A second panic would hide the first.
        assert!(ended || std::thread::panicking(), "scripts/opennebula stop failed");
    }
}
