//! A real Slurm on this machine: its controller and two nodes, with ports and files of their own, and no other authentication than
//! that of the machine's users.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{LIMIT, has_program, signal};
use rustix::process::Signal;

/// The nodes.
pub const NODES: [&str; 2] = ["n1", "n2"];

/// A cluster of two nodes, each with one core. It ends with this value.
pub struct SlurmCluster {
    directory: PathBuf,
    controller: Child,
    nodes: Vec<Child>,
}

/// Whether Debian's Slurm is there; says so if not.
pub fn has_slurm() -> bool {
    let programs = ["slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo"];
    let missing: Vec<&str> = programs.into_iter().filter(|program| !has_program(program)).collect();
    if !missing.is_empty() {
        // `make test` installs it first.
        assert!(std::env::var_os("NESTOR_TEST_BINARY").is_none(), "not installed: {missing:?}");
        eprintln!("not tried: these programs of Slurm are not installed: {missing:?}");
    }
    missing.is_empty()
}

impl SlurmCluster {
    /// Starts it, with its files in `directory`, and waits until both nodes are idle.
    pub fn start(directory: PathBuf) -> Self {
        let ports = free_ports();
        for part in ["state", "n1", "n2"] {
            fs::create_dir_all(directory.join(part)).expect("the sandbox can be written to");
        }
        let user = rustix::process::geteuid().as_raw();
        let configuration = configuration(&directory, user, ports);
        fs::write(directory.join("slurm.conf"), configuration).expect("the sandbox can be written to");
        let controller = daemon(&directory, "slurmctld", &["-D", "-c"]);
        let nodes = NODES.iter().map(|node| daemon(&directory, "slurmd", &["-D", "-N", node])).collect();
        let cluster = Self { directory, controller, nodes };
        cluster.wait_until("both nodes are idle", |cluster| {
            cluster
                .said("sinfo", &["--noheader", "--Node", "--format=%t"])
                .lines()
                .filter(|l| *l == "idle")
                .count()
                == 2
        });
        cluster
    }

    /// The variable by which Slurm's programs find it.
    pub fn variable(&self) -> (&'static str, String) {
        ("SLURM_CONF", self.configuration_file().display().to_string())
    }

    fn configuration_file(&self) -> PathBuf {
        self.directory.join("slurm.conf")
    }

    /// What one of Slurm's programs prints.
    pub fn said(&self, program: &str, arguments: &[&str]) -> String {
        let (name, value) = self.variable();
        let output = Command::new(program).args(arguments).env(name, value).output();
        String::from_utf8_lossy(&output.expect("Slurm is installed").stdout).into_owned()
    }

    /// Kills a node as a power cut does: its daemon, and everything that it runs. Slurm is told, as a monitor of the hardware would,
    /// because it waits for minutes before it gives a silent node up.
    pub fn kill(&mut self, node: &str) {
        let place = NODES.iter().position(|name| *name == node).expect("a node of this cluster");
        let tasks = processes(&format!("SLURMD_NODENAME={node}"));
        let keepers = tasks.iter().filter_map(|pid| parent(*pid)).filter(|pid| is_keeper(*pid));
        let keepers: Vec<u32> = keepers.collect();
        signal(self.nodes[place].id(), Signal::KILL);
        let _ = self.nodes[place].wait();
        for pid in keepers.into_iter().chain(tasks) {
            kill(pid);
        }
        self.said("scontrol", &["update", &format!("NodeName={node}"), "State=DOWN", "Reason=killed"]);
    }

    /// Waits until no job is left.
    pub fn wait_until_idle(&self) {
        self.wait_until("no job is left", |cluster| {
            cluster.said("squeue", &["--noheader"]).trim().is_empty()
        });
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "never: {what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn log(&self) -> String {
        let names = ["slurmctld.log", "n1.log", "n2.log"];
        names.map(|name| fs::read_to_string(self.directory.join(name)).unwrap_or_default()).join("\n")
    }
}

impl Drop for SlurmCluster {
    fn drop(&mut self) {
        let mark = format!("SLURM_CONF={}", self.configuration_file().display());
        for child in self.nodes.iter_mut().chain([&mut self.controller]) {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Tasks, and what keeps them.
        processes(&mark).into_iter().for_each(kill);
    }
}

/// Three ports that nobody uses now.
fn free_ports() -> [u16; 3] {
    let bound = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port is free"));
    bound.map(|listener| listener.local_addr().expect("it is bound").port())
}

/// slurm.conf(5). Without accounting, control groups and munge.
fn configuration(directory: &Path, user: u32, [controller, first, second]: [u16; 3]) -> String {
    let place = directory.display();
    format!(
        "ClusterName=test\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={controller}\n\
         AuthType=auth/none\nCredType=cred/none\nSlurmUser={user}\nSlurmdUser={user}\n\
         StateSaveLocation={place}/state\nSlurmdSpoolDir={place}/%n\n\
         SlurmctldPidFile={place}/slurmctld.pid\nSlurmdPidFile={place}/%n.pid\n\
         SlurmctldLogFile={place}/slurmctld.log\nSlurmdLogFile={place}/%n.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
         AccountingStorageType=accounting_storage/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
         SwitchType=switch/none\nMpiDefault=none\nReturnToService=0\nKillWait=30\n\
         SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1\n\
         NodeName=n1 NodeAddr=127.0.0.1 NodeHostname=localhost Port={first} CPUs=1 RealMemory=8000\n\
         NodeName=n2 NodeAddr=127.0.0.1 NodeHostname=localhost Port={second} CPUs=1 RealMemory=8000\n\
         PartitionName=both Nodes=n1,n2 Default=YES State=UP\n"
    )
}

fn daemon(directory: &Path, program: &str, arguments: &[&str]) -> Child {
    let path = ["/usr/sbin", "/sbin"].map(|place| Path::new(place).join(program));
    let path = path.iter().find(|path| path.exists()).expect("it is installed");
    Command::new(path)
        .args(arguments)
        .env("SLURM_CONF", directory.join("slurm.conf"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts")
}

/// Processes with this variable in their environment.
fn processes(variable: &str) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    let has = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    pids.filter(|pid| *pid != std::process::id()).filter(has).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

/// Whether it is the process of Slurm that keeps a task.
fn is_keeper(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("slurmstepd"))
}

/// It may have ended by itself.
fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}
