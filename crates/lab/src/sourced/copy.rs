//! Copies an image from the repository to the node.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use nestor_machine::{Cause, Command, Machine, MachineError, ReadySign, Refusal};
use nestor_stack::layers::sourced::transfers::{Reach, Transfer, TransferEnds, TransferServer};
use nestor_stack::{BitRate, Bytes, Layer};

use super::{ImageNode, SourcedImage, TransferMachine};
use crate::built::{Undo, UndoStep};
use crate::link::enable_loopback;
use crate::progressing::Progressing;
use crate::server_process::said;

/// How long a server may take to listen.
const SERVER_LIMIT: Duration = Duration::from_secs(30);

/// Milliseconds that a server gets to end by itself.
const GRACE_MS: u64 = 5_000;

/// Seconds that every transfer gets, beside [`TIMES_WIRE`].
const LEAST_LIMIT_S: u64 = 300;

/// A transfer gets so many times what its bytes need on the wire: disks may be slower than that by as much.
const TIMES_WIRE: u64 = 100;

/// The server of a program that copies.
pub(crate) struct CopyServer {
    transfer: &'static Transfer,
    process: u32,
}

impl CopyServer {
    /// Ends it; one that ends with the transfer has ended.
    pub(super) fn end(&self, progressing: &mut Progressing<'_>, image: &SourcedImage) {
        let repository = &image.repository.end;
        let _ = repository.machine.stop_process(self.process, GRACE_MS);
        let is_it =
            |undo: &Undo| matches!(undo.step, UndoStep::EndProcess(process) if process == self.process);
        progressing.undo.retain(|undo| undo.on != repository.index || !is_it(undo));
    }
}

impl SourcedImage {
    /// At which of its addresses the repository is asked whether its server listens.
    fn listening_address(&self) -> Ipv4Addr {
        let own = match self.reach {
            Reach::Lab => None,
            Reach::Users => self.nodes.first().and_then(|node| node.remote.server_address.parse().ok()),
        };
        own.unwrap_or(Ipv4Addr::LOCALHOST)
    }

    /// Those of the transfer to one target on a node, for the machine that has this directory for it.
    fn ends<'a>(&'a self, node: &'a ImageNode, target: &'a str, own_directory: &'a str) -> TransferEnds<'a> {
        let (source_directory, source_file) = self.source.rsplit_once('/').unwrap_or(("", &self.source));
        TransferEnds {
            reach: self.reach,
            repository_address: &node.remote.server_address,
            node_address: &node.remote.client_address,
            repository_interface: &self.repository.interface,
            node_interface: &node.remote.interface,
            source_directory,
            source_file,
            target,
            own_directory,
            link_rate: self.link_rate,
            copies: self.instances,
        }
    }
}

/// Starts the server and waits until it takes connections.
pub(super) fn serve(
    progressing: &mut Progressing<'_>,
    image: &SourcedImage,
    layer: &Layer,
    transfer: &'static Transfer,
) -> Result<CopyServer, MachineError> {
    let TransferMachine { machine: repository, own_directory, index, .. } = &image.repository.end;
    let [node, ..] = &image.nodes[..] else { return Err(nowhere(repository)) };
    // The server does not know where the copies go.
    let server = (transfer.server)(layer, &image.ends(node, "", own_directory));
    hand_out(&server, image)?;
    let log = image.server_log();
    // The server is asked from its own machine whether it listens.
    enable_loopback(repository)?;
    let process = repository.start_process(Command::new(server.command), &log)?;
    progressing.note_undo(*index, UndoStep::EndProcess(process));
    let serving = CopyServer { transfer, process };
    let ready = server.port.map_or(Ok(()), |port| {
        let at = SocketAddrV4::new(image.listening_address(), port);
        repository.await_ready(process, ReadySign::Port(at), SERVER_LIMIT)
    });
    ready.map(|()| serving).map_err(|e| e.saying(&said(repository, &image.server_log())))
}

/// An image for no node.
fn nowhere(repository: &Machine) -> MachineError {
    let refusal = Refusal::new(Cause::NotThere, "the image goes to no machine");
    MachineError::Refused { machine: repository.label().to_owned(), refusal }
}

/// Writes the server's files, runs what comes before it, and gives the nodes what they need of that.
fn hand_out(server: &TransferServer, image: &SourcedImage) -> Result<(), MachineError> {
    let repository = &image.repository.end.machine;
    for (path, contents) in &server.files {
        repository.write_file(path, contents.as_bytes())?;
    }
    for argv in &server.prepare {
        repository.run_ok(Command::new(argv.clone()))?;
    }
    for name in &server.for_the_node {
        let own = |end: &TransferMachine| format!("{}/{name}", end.own_directory);
        let contents = repository.read_file(&own(&image.repository.end))?;
        for ImageNode { end, .. } in &image.nodes {
            let to = own(end);
            end.machine.write_file(&to, &contents)?;
            end.machine.run_ok(Command::new(["chmod", "0600", "--", &to]))?;
        }
    }
    Ok(())
}

/// The commands that copy on the nodes, one for each instance.
pub(super) fn commands(image: &SourcedImage, layer: &Layer, server: &CopyServer) -> Vec<Vec<String>> {
    let of_instance = |instance: u32| {
        let (node, target) = image.of_instance(instance as usize)?;
        Some((server.transfer.fetch)(layer, &image.ends(node, target, &node.end.own_directory)))
    };
    (0..image.instances).filter_map(of_instance).collect()
}

/// Seconds that the transfer of one copy may take.
pub(super) fn limit_s(image: &SourcedImage) -> u64 {
    limit_of(image.bytes, image.link_rate)
}

fn limit_of(bytes: Bytes, rate: BitRate) -> u64 {
    let wire_s = bytes.get().saturating_mul(8) / rate.get().max(1);
    wire_s.saturating_mul(TIMES_WIRE).saturating_add(LEAST_LIMIT_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_gets_more_time_than_its_bytes_need() {
        let gbit = BitRate(1_000_000_000);
        assert_eq!(limit_of(Bytes(0), gbit), 300);
        assert_eq!(limit_of(Bytes::gib(3), gbit), 300 + 2500);
        assert_eq!(limit_of(Bytes(u64::MAX), BitRate(1)), u64::MAX);
    }
}
