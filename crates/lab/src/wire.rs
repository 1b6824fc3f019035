//! The wire between two machines of the user's (`--on ssh:CLIENT,ssh:SERVER`) as the link of a stack. Nothing of it is made or changed: it has
//! the rate, the delay and the loss that it has, and other traffic.

use nestor_link::End;
use nestor_machine::{Command, Machine, MachineError};
use nestor_stack::{Accelerator, LayerIndex, MachineIndex, Relation};
use serde::Deserialize;

use crate::built::UndoStep;
use crate::kernel_link::{in_order, problem};
use crate::link_counters::{KernelLink, LinkEnd, from_json, parse_json};
use crate::link_problem::LinkProblem;
use crate::progressing::Progressing;
use crate::standing::Standing;
use crate::{BuildError, Lab};

impl Lab {
    /// Takes the client of a stack and its wire to the server, or the repository and its wire to the node.
    pub(crate) fn prepare_wire(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
        host: &Machine,
    ) -> Result<(), BuildError> {
        let stack = progressing.stack;
        let beside_index = stack.machine_across(index).unwrap_or(MachineIndex::OUTERMOST);
        let label = stack.machines()[beside_index].label;
        let Some(beside) = self.ground_beside(stack).map(|ground| ground.machine().clone()) else {
            return Err(BuildError::refused(stack.layer(index), "its other end was not connected"));
        };
        let beside = beside.labelled(&label.to_string());
        let [server, client] = in_order(stack, host.clone(), beside.clone());
        self.check_services(stack, [&server, &client])?;
        let ends = self.find_ends(&server, &client)?;
        let standing = Standing {
            facts: beside.facts()?,
            machine: beside,
            accelerator: Accelerator::Hardware,
            greeted_ns: None,
            booted: None,
        };
        self.machines.insert(beside_index, Relation::Beside(MachineIndex::OUTERMOST), standing);
        progressing.note_undo(beside_index, UndoStep::Stop);
        let [lower, upper] = ends.each_ref().map(|end| format!("{} ({})", end.interface, end.address));
        progressing
            .settings
            .push(("link".to_owned(), format!("the wire from {upper} to {lower}, with all that is on it")));
        self.kernel_links.push(KernelLink { index, ends });
        Ok(())
    }

    /// The ends of the shortest way from the client to the server.
    fn find_ends(&self, server: &Machine, client: &Machine) -> Result<[LinkEnd; 2], BuildError> {
        let argv = ["ip", "-json", "-4", "address", "show", "scope", "global", "up"];
        let interfaces: Vec<Interface> = from_json(server, &argv)?;
        let addresses = addresses(interfaces);
        let mut ways = Vec::new();
        for (interface, address) in &addresses {
            if let Some(route) = route(client, address)? {
                ways.push(Way { interface, address, route });
            }
        }
        let Some(Way { interface, address, route: Route { dev, prefsrc, .. } }) = shortest(ways) else {
            let [server, client] = End::BOTH.map(|end| self.name_of_end(end));
            let addresses = addresses.into_iter().map(|(_, address)| address).collect();
            return Err(problem(LinkProblem::NoRoute { client, server, addresses }));
        };
        let lower =
            LinkEnd { machine: server.clone(), interface: interface.to_owned(), address: address.to_owned() };
        Ok([lower, LinkEnd { machine: client.clone(), interface: dev, address: prefsrc }])
    }
}

/// An interface, as `ip -json address` prints it (iproute2, `print_addrinfo` in ip/ipaddress.c).
#[derive(Deserialize)]
struct Interface {
    ifname: String,
    addr_info: Vec<AddressInfo>,
}

#[derive(Deserialize)]
struct AddressInfo {
    local: String,
}

fn addresses(interfaces: Vec<Interface>) -> Vec<(String, String)> {
    let of_one = |Interface { ifname, addr_info }: Interface| {
        addr_info.into_iter().map(move |info| (ifname.clone(), info.local))
    };
    interfaces.into_iter().flat_map(of_one).collect()
}

/// A route, as `ip -json route get` prints it (iproute2, `print_route` in ip/iproute.c).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Route {
    /// The kind, if it is not usual: `local` to an address of the machine itself.
    #[serde(rename = "type")]
    kind: Option<String>,
    gateway: Option<String>,
    dev: String,
    /// The address that the machine sends from.
    prefsrc: String,
}

/// How a machine reaches an address; `None` if it does not, or has the address itself.
fn route(machine: &Machine, address: &str) -> Result<Option<Route>, MachineError> {
    let argv = ["ip", "-json", "-4", "route", "get", address];
    let asked = machine.run(Command::new(argv))?;
    if !asked.succeeded() {
        return Ok(None);
    }
    let routes: Vec<Route> = parse_json(machine, &argv, &asked.stdout_text())?;
    Ok(routes.into_iter().find(|route| route.kind.is_none()))
}

/// A way from the client to an address of an interface of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Way<'a> {
    interface: &'a str,
    address: &'a str,
    route: Route,
}

/// The first in the same network, otherwise the first of all.
fn shortest(ways: Vec<Way<'_>>) -> Option<Way<'_>> {
    ways.into_iter().min_by_key(|way| way.route.gateway.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The routes of a client, as `ip` printed them.
    fn found(printed: &str) -> Route {
        serde_json::from_str::<Vec<Route>>(printed).unwrap().remove(0)
    }

    #[test]
    fn addresses_come_with_their_interfaces() {
        let printed = r#"[{"ifindex":2,"ifname":"ens3","addr_info":[{"family":"inet","local":"192.0.2.7","prefixlen":24},
            {"family":"inet","local":"198.51.100.1","prefixlen":24}]},{"ifname":"docker0","addr_info":[]}]"#;
        let found = addresses(serde_json::from_str(printed).unwrap());
        let pair = |address: &str| ("ens3".to_owned(), address.to_owned());
        assert_eq!(found, [pair("192.0.2.7"), pair("198.51.100.1")]);
    }

    #[test]
    fn the_way_without_a_gateway_is_the_shortest() {
        let far = found(
            r#"[{"dst":"203.0.113.9","gateway":"192.0.2.1","dev":"ens3","prefsrc":"192.0.2.8","flags":[],"uid":0,"cache":[]}]"#,
        );
        let near = found(r#"[{"dst":"192.0.2.7","dev":"ens4","prefsrc":"192.0.2.9","flags":[],"cache":[]}]"#);
        let way = |interface, route: &Route| Way { interface, address: "", route: route.clone() };
        let ways = vec![way("ens5", &far), way("ens6", &near), way("ens7", &near)];
        assert_eq!(shortest(ways).unwrap().interface, "ens6");
        assert_eq!(shortest(vec![way("ens5", &far)]).unwrap().route.prefsrc, "192.0.2.8");
        assert_eq!(shortest(Vec::new()), None);
    }

    #[test]
    fn an_address_of_the_client_itself_is_no_way_to_the_server() {
        let own = found(
            r#"[{"type":"local","dst":"172.17.0.1","dev":"lo","prefsrc":"172.17.0.1","flags":[],"cache":["local"]}]"#,
        );
        assert_eq!(own.kind.as_deref(), Some("local"));
    }
}
