//! What has gone over a link that is of kernels of machines and not of the lab's own: the counters of the interfaces at its ends.

use nestor_link::{LinkStatistics, Sent};
use nestor_machine::{Cause, Command, Machine, MachineError, Refusal};
use nestor_stack::{LayerIndex, MachineIndex};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::progressing::Remote;

/// An end of a link.
pub(crate) struct LinkEnd {
    pub(crate) machine: Machine,
    /// What the machine calls its interface.
    pub(crate) interface: String,
    /// The network address.
    pub(crate) address: String,
}

/// A link of kernels.
pub(crate) struct KernelLink {
    pub(crate) index: LayerIndex,
    /// The lower and the upper end.
    pub(crate) ends: [LinkEnd; 2],
}

impl KernelLink {
    /// The way to the machine at the lower end, and what that calls its interface.
    pub(crate) fn to_server(&self, server: MachineIndex, mtu: u16) -> (Remote, String) {
        let [lower, upper] = &self.ends;
        let remote = Remote {
            server,
            server_address: lower.address.clone(),
            client_address: upper.address.clone(),
            interface: upper.interface.clone(),
            mtu,
        };
        (remote, lower.interface.clone())
    }

    /// What each end has sent since it was made, from the interfaces' counters.
    ///
    /// # Errors
    /// A machine does not answer.
    pub(crate) fn statistics(&self) -> Result<LinkStatistics, MachineError> {
        let [lower, upper] = &self.ends;
        let [of_lower, of_upper] = [counters(lower)?, counters(upper)?];
        Ok(LinkStatistics {
            connected: true,
            joined: true,
            from_lower: sent(&of_lower, &of_upper, lost(lower)?),
            from_upper: sent(&of_upper, &of_lower, lost(upper)?),
            ..LinkStatistics::default()
        })
    }
}

/// What one end has sent: what its interface has passed on, and what netem had dropped before that.
fn sent(own: &Counters, peer: &Counters, lost: u64) -> Sent {
    Sent { frames: own.tx.packets + lost, bytes: own.tx.bytes, lost, refused: peer.rx.dropped }
}

/// The counters of an interface, as `ip -s -json link` prints them (iproute2, `print_stats64` in ip/ipaddress.c).
#[derive(Default, Deserialize)]
struct Counters {
    rx: Direction,
    tx: Direction,
}

#[derive(Default, Deserialize)]
struct Direction {
    bytes: u64,
    packets: u64,
    #[serde(default)]
    dropped: u64,
}

#[derive(Deserialize)]
struct Interface {
    stats64: Counters,
}

/// A qdisc as `tc -s -json qdisc` prints it.
#[derive(Deserialize)]
struct Qdisc {
    #[serde(default)]
    drops: u64,
}

fn counters(LinkEnd { machine, interface, .. }: &LinkEnd) -> Result<Counters, MachineError> {
    let argv = ["ip", "-statistics", "-json", "link", "show", "dev", interface];
    let found: Vec<Interface> = from_json(machine, &argv)?;
    found
        .into_iter()
        .next()
        .map(|found| found.stats64)
        .ok_or_else(|| not_understood(machine, &argv, "nothing"))
}

fn lost(LinkEnd { machine, interface, .. }: &LinkEnd) -> Result<u64, MachineError> {
    let argv = ["tc", "-statistics", "-json", "qdisc", "show", "dev", interface, "root"];
    let found: Vec<Qdisc> = from_json(machine, &argv)?;
    Ok(found.iter().map(|qdisc| qdisc.drops).sum())
}

/// What a program of iproute2 prints as JSON: nothing where there is nothing.
pub(crate) fn from_json<T: DeserializeOwned>(
    machine: &Machine,
    argv: &[&str],
) -> Result<Vec<T>, MachineError> {
    let said = machine.run_ok(Command::new(argv.iter().copied()))?;
    parse_json(machine, argv, &said)
}

/// The same, of what it has printed.
pub(crate) fn parse_json<T: DeserializeOwned>(
    machine: &Machine,
    argv: &[&str],
    said: &str,
) -> Result<Vec<T>, MachineError> {
    if said.trim().is_empty() { Ok(Vec::new()) } else { parse_value(machine, argv, said) }
}

/// The same of a program that prints one value.
pub(crate) fn parse_value<T: DeserializeOwned>(
    machine: &Machine,
    argv: &[&str],
    said: &str,
) -> Result<T, MachineError> {
    serde_json::from_str(said.trim()).map_err(|e| not_understood(machine, argv, &e.to_string()))
}

fn not_understood(machine: &Machine, argv: &[&str], why: &str) -> MachineError {
    let refusal =
        Refusal::new(Cause::Other, format!("`{}` gave an unexpected answer: {why}", argv.join(" ")));
    MachineError::Refused { machine: machine.label().to_owned(), refusal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_sent_what_its_interface_passed_on_and_what_was_lost() {
        let printed = r#"[{"ifname":"eth0","stats64":{"rx":{"bytes":66,"packets":1,"errors":0,"dropped":2},
            "tx":{"bytes":1514,"packets":1,"errors":0,"dropped":0}}}]"#;
        let own: Vec<Interface> = serde_json::from_str(printed).unwrap();
        let (own, peer) = (&own[0].stats64, Counters::default());
        assert_eq!(sent(own, &peer, 3), Sent { frames: 4, bytes: 1514, lost: 3, refused: 0 });
        assert_eq!(sent(&peer, own, 0), Sent { refused: 2, ..Sent::default() });
        let qdisc: Vec<Qdisc> = serde_json::from_str(r#"[{"kind":"netem","drops":7},{}]"#).unwrap();
        assert_eq!(qdisc.iter().map(|qdisc| qdisc.drops).sum::<u64>(), 7);
    }
}
