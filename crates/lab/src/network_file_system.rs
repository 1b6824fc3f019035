//! Builds NFS: the server exports a directory, the client mounts it. Both are the kernel's.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use nestor_machine::{Cause, Command, EXPORTED, Machine, MachineError, Mounting, NfsExport, ReadySign};
use nestor_stack::layers::network::{NfsOptions, NfsVersion};
use nestor_stack::{Layer, LayerIndex, MachineLabel};

use crate::built::{BuiltFileSystem, BuiltStack, Exported, UndoStep};
use crate::image::free_bytes;
use crate::kernel_link::problem;
use crate::link::enable_loopback;
use crate::link_problem::{LinkProblem, NetworkService};
use crate::progressing::{Offered, Progressing, Remote, Thing};
use crate::server_process::said;
use crate::{BuildError, Lab};

/// Threads of the server (`rpc.nfsd(8)`): as many as Debian starts.
const THREADS: &str = "8";

/// The port at which `rpc.mountd` answers clients of version 3, which otherwise ask a port mapper.
pub(crate) const MOUNT_PORT: u16 = 20048;

/// Where its own machine reaches it.
const MOUNT_ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, MOUNT_PORT);

/// The kernel's name of the file system.
pub(crate) const KIND: &str = "nfs";

/// What starts the port mapper, without which the kernel's server does not start.
const PORT_MAPPER_COMMAND: [&str; 2] = ["rpcbind", "-f"];

/// What starts the server of mounts at [`MOUNT_PORT`].
const MOUNT_COMMAND: [&str; 4] = ["rpc.mountd", "--foreground", "--port", "20048"];

/// The versions that the kernel's server has.
const VERSIONS: &str = "/proc/fs/nfsd/versions";

/// The socket of the port mapper.
const PORT_MAPPER: &str = "/run/rpcbind.sock";

/// How long each program of the server may take to start, in the machine's own time.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Where the kernel's server is controlled.
const CONTROL: &str = "/proc/fs/nfsd";

/// Modules of the kernel's server.
pub const SERVER_MODULES: &[&str] = &["nfsd"];

/// Modules of the kernel's client.
pub const CLIENT_MODULES: &[&str] = &["nfs", "nfsv3", "nfsv4"];

impl Lab {
    /// Exports a directory and mounts it at the other end of the link.
    pub(crate) fn build_network_file_system(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
        offered: Offered,
    ) -> Result<Offered, BuildError> {
        let layer = progressing.stack.layer(index);
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        let (Some(options), Offered { on, thing: Thing::Remote { thing, remote } }) =
            (layer.network_file_system(), offered)
        else {
            return Err(BuildError::refused(layer, "it is not on a link"));
        };
        let Thing::Directory { path: exported, .. } = *thing else {
            return Err(BuildError::refused(
                layer,
                "what is at the other end of the link is not a directory",
            ));
        };
        let (server, client) = (progressing.machine(remote.server), progressing.machine(on));
        self.load_modules(&server, SERVER_MODULES);
        self.load_modules(&client, CLIENT_MODULES);
        serve_directory(progressing, layer, (&server, &remote), &exported, &options)?;
        let target = progressing.mount_point(on, index);
        let source = format!("{}:{}", remote.server_address, exported_as(&options, &exported));
        let mount_options = mount_options(&options, &remote);
        let mounting = Mounting {
            source: source.clone(),
            target: target.clone(),
            file_system: KIND.to_owned(),
            program: None,
            options: mount_options.clone(),
        };
        if let Err(e) = client.mount(mounting.clone()) {
            let export = NfsExport { client: remote.client_address.clone(), path: exported };
            let machine = progressing.machines[remote.server].label;
            let version = || not_offered(&server, (layer.label(), machine), options.version);
            return Err(not_exported(&server, export).or_else(version).map_or_else(|| failed(e), problem));
        }
        progressing.note_undo(on, UndoStep::Unmount(target.clone()));
        let free_bytes = free_bytes(&client, layer, &target)?;
        progressing.file_systems.push(BuiltFileSystem {
            layer: index,
            machine: on,
            mounting,
            exported: Some(Exported {
                machine: remote.server,
                path: exported,
                client: remote.client_address.clone(),
            }),
        });
        Ok(Offered { on, thing: Thing::Directory { path: target, free_bytes } })
    }
}

impl Lab {
    /// The network file systems of a stack that their servers no longer offer, or not to their clients, each with what to do.
    pub fn withdrawn_exports(&self, built: &BuiltStack) -> Vec<String> {
        let of_one = |mounted: &BuiltFileSystem| {
            let Exported { machine, path, client } = mounted.exported.as_ref()?;
            let export = NfsExport { client: client.clone(), path: path.clone() };
            let server = &built.machines[*machine];
            not_exported(&server.machine, export.clone())?;
            Some(told(built, mounted, &format!("the {} no longer exports {export}", server.label)))
        };
        built.file_systems.iter().filter_map(of_one).collect()
    }

    /// What may have become of what the application had open on a network file system, with what to do.
    pub fn stale_exports(&self, built: &BuiltStack) -> Vec<String> {
        let of_one = |mounted: &BuiltFileSystem| {
            let Exported { machine, path, .. } = mounted.exported.as_ref()?;
            let server = built.machines[*machine].label;
            Some(told(built, mounted, &format!("what is in {path} on the {server} was removed or made anew")))
        };
        let withdrawn = self.withdrawn_exports(built);
        if withdrawn.is_empty() { built.file_systems.iter().filter_map(of_one).collect() } else { withdrawn }
    }
}

/// What happened to a mounted file system of a server.
fn told(built: &BuiltStack, mounted: &BuiltFileSystem, what: &str) -> String {
    let (layer, client) = (built.stack.layer(mounted.layer).label(), built.machines[mounted.machine].label);
    format!(
        "the layer `{layer}`: {what} while the {client} had it mounted; run it again, and leave exports and exported files alone meanwhile"
    )
}

/// Whether a mount failed because the server does not list the export; it may have been withdrawn, or be for another client.
fn not_exported(server: &Machine, export: NfsExport) -> Option<LinkProblem> {
    let listed = NfsExport::list(&server.read_text(EXPORTED).ok()?);
    (!listed.contains(&export)).then_some(LinkProblem::NotExported { export, listed })
}

/// What a client calls the exported directory.
pub(crate) fn exported_as<'a>(options: &NfsOptions, path: &'a str) -> &'a str {
    if options.version == NfsVersion::V3 { path } else { "/" }
}

/// Exports a directory by the servers that a client needs, and hears of their end.
pub(crate) fn serve_directory(
    progressing: &mut Progressing<'_>,
    layer: &Layer,
    (server, remote): (&Machine, &Remote),
    exported: &str,
    options: &NfsOptions,
) -> Result<(), BuildError> {
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    start_port_mapper(progressing, server, remote)
        .map_err(|e| not_up(layer.label(), NetworkService::PortMapper, &PORT_MAPPER_COMMAND, e))?;
    export(progressing, server, remote, exported, options).map_err(failed)?;
    start_mount_server(progressing, server, remote)
        .map_err(|e| not_up(layer.label(), NetworkService::Mount, &MOUNT_COMMAND, e))?;
    server.watch_nfs_server().map_err(failed)
}

/// Starts the server, if it does not run, and exports a directory to the client.
fn export(
    progressing: &mut Progressing<'_>,
    server: &Machine,
    remote: &Remote,
    path: &str,
    options: &NfsOptions,
) -> Result<(), MachineError> {
    // The root of what version 4 sees: it would otherwise have to begin with the machine's own root, which lies in memory and has no
    // identity that an export needs.
    let flags = format!("rw,{},no_root_squash,no_subtree_check,insecure,fsid=0", options.export.name());
    let export = NfsExport { client: remote.client_address.clone(), path: path.to_owned() };
    let exporting = Command::new(["exportfs", "-o", &flags, &export.to_string()]);
    // The server outlives its agent, and a machine of the user's may get other exports than ours.
    server.own_nfs_server(export.clone())?;
    progressing.note_undo(remote.server, UndoStep::EndNfsServer(export));
    server.run_ok(exporting)?;
    // Without leases and grace of ten seconds, and their end, the first write of a client waits for up to 90 s.
    server.run_ok(Command::new([
        "rpc.nfsd",
        "--grace-time",
        "10",
        "--lease-time",
        "10",
        "--no-udp",
        THREADS,
    ]))?;
    let _ = server.write_file(&format!("{CONTROL}/v4_end_grace"), b"Y");
    Ok(())
}

/// The kernel's server says its ports of version 3 to a port mapper, and does not start without one.
fn start_port_mapper(
    progressing: &mut Progressing<'_>,
    server: &Machine,
    remote: &Remote,
) -> Result<(), MachineError> {
    enable_loopback(server)?;
    let sign = ReadySign::Socket(PORT_MAPPER.to_owned());
    start_server(progressing, server, remote, (&PORT_MAPPER_COMMAND, sign))
}

/// What clients of version 3 ask for the handle of the directory.
fn start_mount_server(
    progressing: &mut Progressing<'_>,
    server: &Machine,
    remote: &Remote,
) -> Result<(), MachineError> {
    start_server(progressing, server, remote, (&MOUNT_COMMAND, ReadySign::Port(MOUNT_ADDRESS)))
}

/// Starts a program that runs until the stack is taken down, and waits until it is ready. The error has what it printed.
fn start_server(
    progressing: &mut Progressing<'_>,
    server: &Machine,
    remote: &Remote,
    (argv, sign): (&[&str], ReadySign),
) -> Result<(), MachineError> {
    let work_directory = &progressing.machines[remote.server].facts.work_directory;
    let log = format!("{work_directory}/{}.txt", argv.first().unwrap_or(&"server"));
    let process = server.start_process(Command::new(argv.iter().copied()), &log)?;
    progressing.note_undo(remote.server, UndoStep::EndProcess(process));
    server.await_ready(process, sign, START_LIMIT).map_err(|e| e.saying(&said(server, &log)))
}

/// A program of the server that did not come up. One that is not installed, and a machine that is lost, say all themselves.
fn not_up(layer: String, service: NetworkService, argv: &[&str], source: MachineError) -> BuildError {
    match source.cause() {
        Cause::ProgramFailed { .. } | Cause::Other => {
            let (program, source) = (argv.join(" "), Box::new(source));
            problem(LinkProblem::NoServer { layer, service, program, source })
        }
        _ => BuildError::Layer { layer, source },
    }
}

/// Whether a mount failed because the server does not offer the version.
fn not_offered(
    server: &Machine,
    (layer, machine): (String, MachineLabel),
    wanted: NfsVersion,
) -> Option<LinkProblem> {
    let offered = offered_versions(&server.read_text(VERSIONS).ok()?);
    (!offered.contains(&wanted)).then_some(LinkProblem::NoVersion { layer, machine, wanted, offered })
}

/// The versions that a server says it has: `+3 +4 -4.0 +4.1 +4.2`. Version 4.0 is there with 4 if it is not said to be off
/// (`nfsd_print_version_support` in fs/nfsd/nfsctl.c).
fn offered_versions(text: &str) -> Vec<NfsVersion> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_on = |version: &NfsVersion| match version {
        NfsVersion::V4_0 => words.contains(&"+4") && !words.contains(&"-4.0"),
        other => words.iter().any(|word| word.strip_prefix('+') == Some(other.name())),
    };
    use NfsVersion::{V3, V4_0, V4_1, V4_2};
    [V3, V4_0, V4_1, V4_2].into_iter().filter(is_on).collect()
}

/// The options of the kernel's client, which are those of `nfs(5)` and the addresses that `mount.nfs` would add. Without a port mapper and
/// its locks: the server's ports are said, and locks stay in the client.
pub(crate) fn mount_options(options: &NfsOptions, remote: &Remote) -> Vec<String> {
    let (server, client) = (&remote.server_address, &remote.client_address);
    let mut words = vec![format!("vers={}", options.version.name()), "proto=tcp".into(), "hard".into()];
    words.extend([format!("addr={server}"), "port=2049".into()]);
    if options.version == NfsVersion::V3 {
        words.extend([format!("mountaddr={server}"), format!("mountport={MOUNT_PORT}")]);
        words.extend(["mountvers=3".into(), "mountproto=tcp".into(), "nolock".into()]);
    } else {
        words.push(format!("clientaddr={client}"));
    }
    words.extend(options.rsize.map(|size| format!("rsize={}", size.get())));
    words.extend(options.wsize.map(|size| format!("wsize={}", size.get())));
    words.extend(options.sync.then(|| "sync".to_owned()));
    words.extend(options.believed.options().map(|(name, seconds)| format!("{name}={seconds}")));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_mounts_is_where_clients_ask() {
        assert_eq!(MOUNT_COMMAND.last().copied(), Some(MOUNT_PORT.to_string().as_str()));
    }

    #[test]
    fn version_4_0_is_offered_with_4_unless_it_is_off() {
        use NfsVersion::{V3, V4_0, V4_1, V4_2};
        assert_eq!(offered_versions("+3 +4 +4.1 +4.2\n"), [V3, V4_0, V4_1, V4_2]);
        assert_eq!(offered_versions("-3 +4 -4.0 +4.1 +4.2\n"), [V4_1, V4_2]);
        assert_eq!(offered_versions("+3 -4 -4.1 -4.2\n"), [V3]);
        assert_eq!(offered_versions(""), []);
    }
}
