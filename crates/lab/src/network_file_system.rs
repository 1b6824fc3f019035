//! Builds NFS: the server exports a directory, the client mounts it. Both are the kernel's.

use std::time::Duration;

use nestor_machine::{Command, EXPORTED, Machine, MachineError, NfsExport, ReadySign};
use nestor_stack::LayerIndex;
use nestor_stack::layers::network::{NfsOptions, NfsVersion};

use crate::built::{BuiltFileSystem, Exported, UndoStep};
use crate::image::free_bytes;
use crate::kernel_link::problem;
use crate::link_problem::LinkProblem;
use crate::progressing::{Offered, Progressing, Remote, Thing};
use crate::{BuildError, Lab};

/// Threads of the server (`rpc.nfsd(8)`): as many as Debian starts.
const THREADS: &str = "8";

/// The port at which `rpc.mountd` answers clients of version 3, which otherwise ask a port mapper.
pub(crate) const MOUNT_PORT: u16 = 20048;

/// The kernel's name of the file system.
const KIND: &str = "nfs";

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
        export(progressing, &server, &remote, &exported, &options).map_err(failed)?;
        let target = progressing.mount_point(on, index);
        let source = format!("{}:{}", remote.server_address, exported_as(&options, &exported));
        let mount_options = mount_options(&options, &remote);
        if let Err(e) = client.mount(&source, &target, KIND, &mount_options) {
            let export = NfsExport { client: remote.client_address.clone(), path: exported };
            return Err(not_exported(&server, export).map_or_else(|| failed(e), problem));
        }
        progressing.note_undo(on, UndoStep::Unmount(target.clone()));
        let free_bytes = free_bytes(&client, layer, &target)?;
        progressing.file_systems.push(BuiltFileSystem {
            layer: index,
            machine: on,
            device: source,
            mount_point: target.clone(),
            kind: KIND,
            options: mount_options,
            exported: Some(Exported { machine: remote.server, path: exported }),
        });
        Ok(Offered { on, thing: Thing::Directory { path: target, free_bytes } })
    }
}

/// Whether a mount failed because the server does not list the export; it may have been withdrawn, or be for another client.
fn not_exported(server: &Machine, export: NfsExport) -> Option<LinkProblem> {
    let listed = NfsExport::list(&server.read_text(EXPORTED).ok()?);
    (!listed.contains(&export)).then_some(LinkProblem::NotExported { export, listed })
}

/// What a client calls the exported directory.
fn exported_as<'a>(options: &NfsOptions, path: &'a str) -> &'a str {
    if options.version == NfsVersion::V3 { path } else { "/" }
}

/// Starts the server, if it does not run, and exports a directory to the client.
fn export(
    progressing: &mut Progressing<'_>,
    server: &Machine,
    remote: &Remote,
    path: &str,
    options: &NfsOptions,
) -> Result<(), MachineError> {
    start_port_mapper(progressing, server, remote)?;
    // The root of what version 4 sees: it would otherwise have to begin with the machine's own root, which lies in memory and has no
    // identity that an export needs.
    let flags = format!("rw,{},no_root_squash,no_subtree_check,insecure,fsid=0", options.export.name());
    let export = NfsExport { client: remote.client_address.clone(), path: path.to_owned() };
    let exporting = Command::new(["exportfs", "-o", &flags, &export.to_string()]);
    if progressing.alone {
        server.mount("nfsd", CONTROL, "nfsd", &[])?;
        progressing.note_undo(remote.server, UndoStep::Unmount(CONTROL.to_owned()));
        server.run_ok(exporting)?;
        progressing.note_undo(remote.server, UndoStep::EndExports);
    } else {
        // The server outlives its agent, and this machine has other exports than ours.
        server.own_nfs_server(export.clone())?;
        progressing.note_undo(remote.server, UndoStep::EndNfsServer(export));
        server.run_ok(exporting)?;
    }
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
    let log = format!("{}/mountd.txt", progressing.machines[remote.server].facts.work_directory);
    let process = server.start_process(
        Command::new(["rpc.mountd", "--foreground", "--port", &MOUNT_PORT.to_string()]),
        &log,
    )?;
    progressing.note_undo(remote.server, UndoStep::EndProcess(process));
    server.await_ready(process, ReadySign::Port(MOUNT_PORT), START_LIMIT)
}

/// The kernel's server says its ports of version 3 to a port mapper, and does not start without one.
fn start_port_mapper(
    progressing: &mut Progressing<'_>,
    server: &Machine,
    remote: &Remote,
) -> Result<(), MachineError> {
    server.run_ok(Command::new(["ip", "link", "set", "dev", "lo", "up"]))?;
    let log = format!("{}/rpcbind.txt", progressing.machines[remote.server].facts.work_directory);
    let process = server.start_process(Command::new(["rpcbind", "-f"]), &log)?;
    progressing.note_undo(remote.server, UndoStep::EndProcess(process));
    server.await_ready(process, ReadySign::Socket(PORT_MAPPER.to_owned()), START_LIMIT)
}

/// The options of the kernel's client, which are those of `nfs(5)` and the addresses that `mount.nfs` would add. Without a port mapper and
/// its locks: the server's ports are said, and locks stay in the client.
fn mount_options(options: &NfsOptions, remote: &Remote) -> Vec<String> {
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
    words.extend(options.attributes_s.map(|seconds| format!("actimeo={seconds}")));
    words
}

/// Ends the server and all its exports.
pub(crate) fn end_exports(server: &Machine) -> Result<(), MachineError> {
    server.run_ok(Command::new(["exportfs", "-ua"]))?;
    server.run_ok(Command::new(["rpc.nfsd", "0"]))?;
    Ok(())
}
