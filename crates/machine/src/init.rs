//! The first process of a lab machine: mounts the lab image's root and becomes the agent.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, PROC_SUPER_MAGIC, fstatfs, open, openat, readlinkat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, fsconfig_create, fsmount, fsopen, mount,
    mount_move,
};
use rustix::system::RebootCommand;

use crate::agent::Agent;
use crate::disks::{self, DiskMark};
use crate::hypervisor::{Hypervisor, hypervisors};
use crate::lab_image::MODULE_TREE;
use crate::message::{Answer, Envelope, PROTOCOL, write_frame};
use crate::terminal;
use crate::ticks::monotonic_ns;

/// How long the kernel may take to see the disk with the root.
const ROOT_LIMIT: Duration = Duration::from_secs(20);

/// The word on the kernel's command line of a lab machine: it makes the first process the machine's agent. It has a
/// dot, so that the kernel does not pass it on to programs (Documentation/admin-guide/kernel-parameters.rst).
pub const GUEST_MARK: &str = "nestor.guest=1";

/// A second list of modules in the initramfs, of machines that need more than others to find their root: names of files in `/modules`.
pub const MORE_MODULES: &str = "/modules/more";

/// Number of the first pid namespace of every kernel: `PROC_PID_INIT_INO` in include/linux/proc_ns.h.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Whether this process is the first one of a lab machine: not of a container, whose first process has number 1 too, and
/// not of a machine that others boot. Nothing is changed to find that out.
pub fn is_first_process() -> bool {
    std::process::id() == 1 && kernel_files().is_some_and(|proc| is_guest(&proc))
}

fn is_guest(proc: &OwnedFd) -> bool {
    let namespace =
        of_kernel(proc, "self/ns", OFlags::DIRECTORY).and_then(|of| readlinkat(of, "pid", Vec::new()).ok());
    command_line(proc).is_some_and(|text| is_marked(&text))
        && namespace.is_some_and(|link| link.to_bytes() == FIRST_PID_NAMESPACE.as_bytes())
}

fn command_line(proc: &OwnedFd) -> Option<String> {
    io::read_to_string(fs::File::from(of_kernel(proc, "cmdline", OFlags::NOFOLLOW)?)).ok()
}

/// A file of the kernel's view of processes, if the kernel made it. A file that a user put or mounted there is on
/// another file system.
fn of_kernel(proc: &OwnedFd, name: &str, flags: OFlags) -> Option<OwnedFd> {
    let opened = openat(proc, name, OFlags::RDONLY | OFlags::CLOEXEC | flags, Mode::empty()).ok()?;
    let is_proc = |fd: &OwnedFd| fstatfs(fd).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC);
    (is_proc(proc) && is_proc(&opened)).then_some(opened)
}

fn is_marked(command_line: &str) -> bool {
    // What follows `--` is for the first process and not for the kernel.
    command_line.split_whitespace().take_while(|&word| word != "--").any(|word| word == GUEST_MARK)
}

/// The kernel's own view of processes: `/proc`, or where nothing is mounted yet, the same without mounting it anywhere.
fn kernel_files() -> Option<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    if Path::new("/proc/cmdline").exists() {
        return open("/proc", flags, Mode::empty()).ok();
    }
    let proc = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    fsconfig_create(&proc).ok()?;
    fsmount(&proc, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).ok()
}

/// Runs as the first process; powers the machine off at the end, whatever happens.
pub fn run() -> ! {
    std::panic::set_hook(Box::new(|info| {
        nestor_terminal::errln!("nestor init: {info}");
    }));
    match std::panic::catch_unwind(start) {
        Ok(Ok(())) => {}
        Ok(Err(e)) => nestor_terminal::errln!("nestor init: {e}"),
        Err(_) => nestor_terminal::errln!("nestor init: the agent panicked"),
    }
    power_off()
}

/// Writes out what is dirty and ends the machine.
pub(crate) fn power_off() -> ! {
    rustix::fs::sync();
    let _ = rustix::system::reboot(RebootCommand::PowerOff);
    // The hypervisor ends a machine that restarts, too. Only a kernel that can do neither gets past this.
    let _ = rustix::system::reboot(RebootCommand::Restart);
    std::process::exit(1)
}

fn start() -> Result<(), String> {
    let begun_ns = monotonic_ns();
    mount_kernel_file_systems("")?;
    load_modules()?;
    let command_line = fs::read_to_string("/proc/cmdline").map_err(|e| format!("/proc/cmdline: {e}"))?;
    if command_line.split_whitespace().any(|word| word == "nestor.probe") {
        return say_hello();
    }
    let module_tree = fs::read_to_string(MODULE_TREE).ok();
    enter_root(&disks::find(&DiskMark::Root, ROOT_LIMIT).map_err(|e| e.message)?)?;
    if let Some(tree) = module_tree {
        mount_module_tree(&tree)?;
    }
    prepare_root();
    let port = open_agent_port()?;
    terminal::make_raw(&port)
        .map_err(|e| format!("the agent's port is a terminal that cannot be made raw: {e}"))?;
    let _ = fs::write("/proc/sys/kernel/printk", least_level_printed(&port));
    let reader = port.try_clone().map_err(|e| format!("the agent's port could not be shared: {e}"))?;
    let agent = Agent::new(Path::new("/run/nestor")).map_err(|e| format!("/run/nestor: {e}"))?;
    let agent = Arc::new(agent.begun_at(begun_ns));
    for problem in agent.serve(reader, port) {
        nestor_terminal::errln!("nestor init: {problem}");
    }
    Ok(())
}

/// Messages of the kernel below this level go to its consoles. A port that is a terminal is a console of the kernel, too
/// (`xen_start_kernel` in arch/x86/xen/enlighten_pv.c), and what it printed there would be taken for the agent's.
fn least_level_printed(port: &fs::File) -> &'static str {
    if rustix::termios::isatty(port) { "0" } else { "4" }
}

fn say_hello() -> Result<(), String> {
    let port = open_agent_port()?;
    let hello = Envelope { number: 0, body: Answer::Hello { protocol: PROTOCOL } };
    write_frame(&port, &hello).map_err(|e| format!("the hello could not be sent: {e}"))?;
    // The machine that booted this one ends it as soon as the hello is there.
    std::thread::sleep(Duration::from_secs(5));
    Ok(())
}

fn mount_kernel_file_systems(root: &str) -> Result<(), String> {
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        let target = format!("{root}{target}");
        let _ = fs::create_dir_all(&target);
        mount_kind(kind, &target).map_err(|e| format!("{kind} could not be mounted: {e}"))?;
    }
    Ok(())
}

fn mount_kind(kind: &str, target: &str) -> rustix::io::Result<()> {
    mount(kind, target, kind, MountFlags::empty(), None)
}

/// Loads the modules that are needed to see the root disk, in the order the lab image's recipe computed.
fn load_modules() -> Result<(), String> {
    let list = fs::read_to_string("/modules/load").map_err(|e| format!("/modules/load: {e}"))?;
    let list = list + &fs::read_to_string(MORE_MODULES).unwrap_or_default();
    for name in list.lines().filter(|line| !line.is_empty()) {
        let path = PathBuf::from("/modules").join(name);
        let file = fs::File::open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        match rustix::system::finit_module(&file, c"", 0) {
            // A driver of devices that only other machines have.
            Ok(()) | Err(rustix::io::Errno::EXIST | rustix::io::Errno::NODEV) => {}
            Err(e) => return Err(format!("the kernel module {} could not be loaded: {e}", path.display())),
        }
    }
    Ok(())
}

/// Mounts the image below a writable layer in memory and makes it the root.
fn enter_root(device: &str) -> Result<(), String> {
    let step = |what: &str, result: rustix::io::Result<()>| result.map_err(|e| format!("{what} failed: {e}"));
    for directory in ["/image", "/memory", "/newroot"] {
        fs::create_dir_all(directory).map_err(|e| format!("{directory}: {e}"))?;
    }
    step("mounting the image", mount(device, "/image", "squashfs", MountFlags::RDONLY, None))?;
    step("mounting memory", mount_kind("tmpfs", "/memory"))?;
    for directory in ["/memory/upper", "/memory/work"] {
        fs::create_dir_all(directory).map_err(|e| format!("{directory}: {e}"))?;
    }
    let options = CString::new("lowerdir=/image,upperdir=/memory/upper,workdir=/memory/work")
        .map_err(|e| format!("overlay options: {e}"))?;
    step(
        "mounting the root",
        mount("overlay", "/newroot", "overlay", MountFlags::empty(), Some(options.as_c_str())),
    )?;
    for directory in ["/proc", "/sys", "/dev"] {
        step(directory, mount_move(directory, format!("/newroot{directory}")))?;
    }
    step("changing directory", rustix::process::chdir("/newroot"))?;
    step("moving the root", mount_move(".", "/"))?;
    step("changing the root", rustix::process::chroot("."))?;
    step("changing directory", rustix::process::chdir("/"))
}

/// Puts the modules of a kernel that is not the image's own where programs look for them.
fn mount_module_tree(tree: &str) -> Result<(), String> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let place = format!("/lib/modules/{release}");
    fs::create_dir_all(&place).map_err(|e| format!("{place}: {e}"))?;
    rustix::mount::mount_bind(tree, &place)
        .map_err(|e| format!("the kernel's modules in {tree} could not be mounted on {place}: {e}"))
}

/// What programs expect of a running system. None of it is needed to answer, so failures show up where they matter.
fn prepare_root() {
    for (kind, target) in [
        ("tmpfs", "/run"),
        ("tmpfs", "/tmp"),
        ("tmpfs", "/var/tmp"),
        ("devpts", "/dev/pts"),
        ("tmpfs", "/dev/shm"),
        ("debugfs", "/sys/kernel/debug"),
        ("tracefs", "/sys/kernel/tracing"),
    ] {
        let _ = fs::create_dir_all(target);
        if let Err(e) = mount_kind(kind, target) {
            nestor_terminal::errln!("nestor init: {kind} on {target}: {e}");
        }
    }
    // No package of the image makes it. Some mkfs look there for what is mounted, and fail where it is missing.
    let _ = std::os::unix::fs::symlink("/proc/self/mounts", "/etc/mtab");
    // SAFETY: no other thread exists yet.
    unsafe {
        std::env::set_var("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        std::env::set_var("HOME", "/root");
        std::env::set_var("LC_ALL", "C");
    }
}

fn open_agent_port() -> Result<fs::File, String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(device) = hypervisors().find_map(Hypervisor::agent_port) {
            return open_port(&device, deadline).map_err(|e| format!("{}: {e}", device.display()));
        }
        if Instant::now() > deadline {
            return Err("no port for the agent appeared".to_owned());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn open_port(device: &Path, deadline: Instant) -> io::Result<fs::File> {
    loop {
        match fs::OpenOptions::new().read(true).write(true).open(device) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_on_the_kernels_part_of_its_command_line_marks_a_guest() {
        assert!(is_marked("console=ttyS0 nestor.guest=1 rdinit=/init"));
        assert!(is_marked("nestor.guest=1\n"));
        for other in
            ["", "console=ttyS0 quiet", "nestor.guest=10", "xnestor.guest=1", "quiet -- nestor.guest=1"]
        {
            assert!(!is_marked(other), "{other}");
        }
    }

    #[test]
    fn this_machine_is_no_guest_whoever_asks() {
        assert!(!kernel_files().is_some_and(|proc| is_guest(&proc)));
    }

    #[test]
    fn what_is_no_kernels_proc_makes_no_guest() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cmdline"), GUEST_MARK).unwrap();
        fs::create_dir_all(folder.path().join("self/ns")).unwrap();
        std::os::unix::fs::symlink(FIRST_PID_NAMESPACE, folder.path().join("self/ns/pid")).unwrap();
        let opened = |path: &Path| open(path, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        assert!(!is_guest(&opened(folder.path())));
        assert!(of_kernel(&opened(folder.path()), "self/ns", OFlags::DIRECTORY).is_none());
        assert!(of_kernel(&opened(Path::new("/proc")), "self/ns", OFlags::DIRECTORY).is_some());
        assert_eq!(command_line(&opened(Path::new("/proc"))), fs::read_to_string("/proc/cmdline").ok());
    }
}
