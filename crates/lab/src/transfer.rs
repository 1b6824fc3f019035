//! Copies an image from the repository to the node, and checks what arrived.

use std::fmt;
use std::time::Duration;

use nestor_machine::{Command, Machine, MachineError, ReadySign};
use nestor_stack::layers::sourced::transfers::{
    NODE_NAME, REPOSITORY_NAME, Transfer, TransferEnds, TransferServer,
};
use nestor_stack::{BitRate, Bytes, Layer};

use crate::built::drop_caches;
use crate::link::enable_loopback;
use crate::link_counters::parse_value;
use crate::progressing::Remote;
use crate::server_process::said;
use crate::{BuildError, Lab};

/// How long a server may take to listen.
const SERVER_LIMIT: Duration = Duration::from_secs(30);

/// Milliseconds that a server gets to end by itself.
const GRACE_MS: u64 = 5_000;

/// Seconds that every transfer gets, beside [`TIMES_WIRE`].
const LEAST_LIMIT_S: u64 = 300;

/// A transfer gets so many times what its bytes need on the wire: disks may be slower than that by as much.
const TIMES_WIRE: u64 = 100;

/// Where names of machines are, also of those that belong to the lab.
const HOSTS: &str = "/etc/hosts";

/// Seconds that reading an image for its digest may take.
const DIGEST_LIMIT_S: u64 = 3_600;

/// The way of an image.
pub(crate) struct TransferPath<'a> {
    /// The repository and the node.
    pub(crate) machines: [Machine; 2],
    /// The image at the repository.
    pub(crate) source: &'a str,
    /// Where it goes on the node.
    pub(crate) target: &'a str,
    /// A directory for the transfer's own files, on both.
    pub(crate) own_directory: &'a str,
    pub(crate) remote: &'a Remote,
    /// What the repository calls its interface.
    pub(crate) repository_interface: &'a str,
    pub(crate) link_rate: BitRate,
}

/// What was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transferred {
    /// The length of the image's file.
    bytes: Bytes,
    /// From the start of the program on the node to its end, on the node's clock.
    took: Duration,
}

impl fmt::Display for Transferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs_f64();
        let mb_per_s = self.bytes.get() as f64 / 1e6 / seconds;
        write!(f, "{} MiB in {seconds:.3} s, {mb_per_s:.1} MB/s; SHA-256 equal", self.bytes.get() >> 20)
    }
}

impl TransferPath<'_> {
    fn ends(&self) -> TransferEnds<'_> {
        let (source_directory, source_file) = self.source.rsplit_once('/').unwrap_or(("", self.source));
        TransferEnds {
            repository_address: &self.remote.server_address,
            repository_interface: self.repository_interface,
            node_interface: &self.remote.interface,
            source_directory,
            source_file,
            target: self.target,
            own_directory: self.own_directory,
            link_rate: self.link_rate,
        }
    }

    /// Makes the directories for the transfer's own files, empty, and gives both machines names.
    fn prepare(&self) -> Result<(), MachineError> {
        self.clear()?;
        let Remote { server_address, client_address, .. } = self.remote;
        let names = format!(
            "127.0.0.1 localhost\n{server_address} {REPOSITORY_NAME}\n{client_address} {NODE_NAME}\n"
        );
        self.machines.iter().try_for_each(|machine| {
            machine.write_file(HOSTS, names.as_bytes())?;
            machine.make_directory(self.own_directory)
        })
    }

    /// Removes the transfer's own files.
    pub(crate) fn clear(&self) -> Result<(), MachineError> {
        let remove =
            |machine: &Machine| machine.run_ok(Command::new(["rm", "-rf", "--", self.own_directory]));
        self.machines.iter().try_for_each(|machine| remove(machine).map(drop))
    }

    fn log(&self) -> String {
        format!("{}/server.txt", self.own_directory)
    }
}

impl Lab {
    /// Copies the image, with the timing of disks and link on and empty caches.
    ///
    /// # Errors
    /// A program fails, or does not end in time.
    pub(crate) fn transfer(
        &self,
        layer: &Layer,
        transfer: &Transfer,
        way: &TransferPath<'_>,
    ) -> Result<Transferred, BuildError> {
        (self.progress)(&format!("copying the image by {}", transfer.name));
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        let server = (transfer.server)(layer, &way.ends());
        way.prepare().and_then(|()| hand_out(&server, &way.machines)).map_err(failed)?;
        way.machines.iter().try_for_each(drop_caches).map_err(failed)?;
        self.set_timing(true)?;
        let copied = copy(layer, transfer, way, &server).map_err(failed);
        self.set_timing(false)?;
        copied
    }
}

/// Writes the server's files, runs what comes before it, and gives the node what it needs of that.
fn hand_out(server: &TransferServer, [repository, node]: &[Machine; 2]) -> Result<(), MachineError> {
    for (path, contents) in &server.files {
        repository.write_file(path, contents.as_bytes())?;
    }
    for argv in &server.prepare {
        repository.run_ok(Command::new(argv.clone()))?;
    }
    for path in &server.for_the_node {
        node.write_file(path, &repository.read_file(path)?)?;
        node.run_ok(Command::new(["chmod", "0600", "--", path]))?;
    }
    Ok(())
}

/// Starts the server, copies, and ends the server.
fn copy(
    layer: &Layer,
    transfer: &Transfer,
    way: &TransferPath<'_>,
    server: &TransferServer,
) -> Result<Transferred, MachineError> {
    let [repository, node] = &way.machines;
    let bytes = file_bytes(repository, way.source)?;
    let log = way.log();
    // The server is asked from its own machine whether it listens.
    enable_loopback(repository)?;
    let process = repository.start_process(Command::new(server.command.clone()), &log)?;
    let fetched = server
        .port
        .map_or(Ok(()), |port| repository.await_ready(process, ReadySign::Port(port), SERVER_LIMIT))
        .and_then(|()| fetch(node, (transfer.fetch)(layer, &way.ends()), limit_s(bytes, way.link_rate)));
    // One that ends with the transfer has ended.
    let _ = repository.stop_process(process, GRACE_MS);
    Ok(Transferred { bytes, took: fetched.map_err(|e| e.saying(&said(repository, &log)))? })
}

/// Runs the program that copies; how long it took on its machine's clock.
fn fetch(node: &Machine, argv: Vec<String>, limit_s: u64) -> Result<Duration, MachineError> {
    let finished = node.run(Command::new(argv.clone()).timeout_s(limit_s))?;
    if finished.succeeded() {
        return Ok(Duration::from_nanos(finished.elapsed_ns));
    }
    Err(node.program_error(&argv, &finished, limit_s))
}

/// Seconds that a transfer may take.
fn limit_s(bytes: Bytes, rate: BitRate) -> u64 {
    let wire_s = bytes.get().saturating_mul(8) / rate.get().max(1);
    wire_s.saturating_mul(TIMES_WIRE).saturating_add(LEAST_LIMIT_S)
}

/// The length of a file.
fn file_bytes(machine: &Machine, path: &str) -> Result<Bytes, MachineError> {
    let argv = ["stat", "--format=%s", "--", path];
    let said = machine.run_ok(Command::new(argv))?;
    parse_value(machine, &argv, &said).map(Bytes)
}

/// Compares what arrived with what left.
///
/// # Errors
/// It is not the same, or cannot be read.
pub(crate) fn check_bytes(layer: &Layer, way: &TransferPath<'_>) -> Result<(), BuildError> {
    let [repository, node] = &way.machines;
    let digest = |machine: &Machine, path: &str| {
        let said = machine.run_ok(Command::new(["sha256sum", "--", path]).timeout_s(DIGEST_LIMIT_S));
        said.map(|said| said.split_whitespace().next().unwrap_or_default().to_owned())
            .map_err(|source| BuildError::Layer { layer: layer.label(), source })
    };
    let (sent, arrived) = (digest(repository, way.source)?, digest(node, way.target)?);
    if sent == arrived {
        return Ok(());
    }
    Err(BuildError::OtherBytes { layer: layer.label(), sent, arrived })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_gets_more_time_than_its_bytes_need() {
        let gbit = BitRate(1_000_000_000);
        assert_eq!(limit_s(Bytes(0), gbit), 300);
        assert_eq!(limit_s(Bytes::gib(3), gbit), 300 + 2500);
        assert_eq!(limit_s(Bytes(u64::MAX), BitRate(1)), u64::MAX);
    }

    #[test]
    fn what_was_copied_is_said_with_its_rate() {
        let copied = Transferred { bytes: Bytes::mib(256), took: Duration::from_millis(2_316) };
        assert_eq!(copied.to_string(), "256 MiB in 2.316 s, 115.9 MB/s; SHA-256 equal");
    }
}
