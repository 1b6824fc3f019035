//! A moto of a test's own: a server with EC2's interface that starts nothing.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What it needs until it answers, at most. The first answer of each kind takes seconds: it reads its descriptions of the interface.
const START_LIMIT: Duration = Duration::from_secs(300);

/// What a test asks first.
const WARM_UP: [&str; 2] = ["DescribeInstances", "RunInstances&ImageId=ami-12c6146b&MinCount=1&MaxCount=1"];

pub struct Moto {
    child: Child,
    url: String,
}

impl Moto {
    /// `None`, and says so, where it is not installed.
    pub fn start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("moto_server");
        command
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            eprintln!("NOT RUN: moto_server is not installed: pip install 'moto[server,ec2]'");
            return None;
        };
        let moto = Self { child, url: format!("http://127.0.0.1:{port}") };
        let began = Instant::now();
        for action in WARM_UP {
            while !moto.answers(action) {
                assert!(began.elapsed() < START_LIMIT, "moto does not answer");
                thread::sleep(Duration::from_millis(100));
            }
        }
        Some(moto)
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    fn answers(&self, action: &str) -> bool {
        let body = format!("Action={action}&Version=2016-11-15");
        let login = ["--aws-sigv4", "aws:amz:us-east-1:ec2", "--user", "KEY:secret"];
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--fail", "--output", "/dev/null"])
            .args(login)
            .args(["--data", &body, &self.url]);
        curl.status().unwrap().success()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
