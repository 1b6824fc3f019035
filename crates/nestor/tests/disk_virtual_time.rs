//! A disk in virtual time for a QEMU that the user starts with Nestor's library.

mod support;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::{Sandbox, binary, has_program};

/// How long a firmware may take until it reads a disk, however busy this machine is.
const LIMIT: Duration = Duration::from_secs(300);

/// Ends a program however the test ends.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_qemu_of_the_users_reads_a_disk_in_its_own_virtual_time() {
    if !has_program("qemu-system-x86_64") {
        return;
    }
    let sandbox = Sandbox::new();
    let [library, socket, control] = ["vtime.so", "d.sock", "c.sock"].map(|name| sandbox.text(name));
    sandbox.nestor(["disk", "library", &library]).assert().success();
    sandbox.nestor(["disk", "library", &library]).assert().failure();
    let serve = ["disk", "serve", "wd-re3", "--time", "virtual", "--socket", &socket, "--control", &control];
    let mut server = Command::new(binary());
    let _server = Started(server.args(serve).args(["--size", "64M"]).spawn().unwrap());
    let statistics =
        || sandbox.nestor(["disk", "control", "--control", &control, "statistics"]).output().unwrap();
    let begun = Instant::now();
    let wait = |what: &str, holds: &dyn Fn() -> bool| {
        while !holds() {
            assert!(begun.elapsed() < LIMIT, "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait("the disk answers", &|| statistics().status.success());

    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-nodefaults", "-nographic", "-accel", "tcg", "-icount", "shift=0,sleep=off", "-smp", "1"]);
    qemu.args(["-object", "memory-backend-memfd,id=m,size=64M,share=on", "-machine", "pc,memory-backend=m"]);
    qemu.args(["-m", "64M", "-chardev", &format!("socket,id=d,path={socket}")]);
    qemu.args(["-device", "vhost-user-blk-pci,chardev=d,bootindex=0"]).env("LD_PRELOAD", &library);
    let _qemu = Started(qemu.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    // The firmware reads the boot sector, and goes on when it has it.
    wait("the firmware reads the disk", &|| {
        let said: serde_json::Value = serde_json::from_slice(&statistics().stdout).unwrap_or_default();
        said["read"]["requests"].as_u64().is_some_and(|requests| requests > 0)
    });
    let said: serde_json::Value = serde_json::from_slice(&statistics().stdout).expect("statistics in JSON");
    assert_eq!((&said["lag_max_ns"], &said["lag_total_ns"]), (&0.into(), &0.into()), "{said}");
}
