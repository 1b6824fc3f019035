//! What EC2 answers.

use jiff::Timestamp;
use roxmltree::{Document, Node};

use super::NOT_FOUND;
use crate::xml::{at, beginning, children, parse, text};
use crate::{InstanceId, ManagedState, ManagerError, Phase, Recorded, Sight};

/// One instance of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceSeen {
    /// Its name.
    pub id: InstanceId,
    /// The token it was asked for with.
    pub token: Option<String>,
    /// Code of its state; the low byte says which (`InstanceState` in the API's reference).
    pub state_code: Option<u32>,
    /// What the state is called.
    pub state_name: String,
    /// Why it is in that state.
    pub reason: Option<String>,
    /// When it was launched, by the endpoint's clock.
    pub launched_s: Option<u64>,
    /// What else is said of it.
    pub details: Vec<(&'static str, String)>,
}

/// What of an instance's description is kept.
const DETAILS: [(&str, &[&str]); 4] = [
    ("image", &["imageId"]),
    ("type", &["instanceType"]),
    ("zone", &["placement", "availabilityZone"]),
    ("hypervisor", &["hypervisor"]),
];

impl InstanceSeen {
    fn read(item: Node<'_, '_>) -> Result<Self, ManagerError> {
        let owned = |path: &[&str]| text_of(item, path);
        let id = owned(&["instanceId"]).and_then(|id| InstanceId::read(&id));
        let id = id.ok_or_else(|| ManagerError::NotUnderstood("an instance has no instanceId".to_owned()))?;
        // Of a running instance, the message is an empty element.
        let reason = owned(&["stateReason", "message"]).or_else(|| owned(&["reason"]));
        let launched: Option<Timestamp> = owned(&["launchTime"]).and_then(|time| time.parse().ok());
        let detail = |(name, path): &(&'static str, &[&str])| Some((*name, owned(path)?));
        Ok(Self {
            id,
            token: owned(&["clientToken"]),
            state_code: owned(&["instanceState", "code"]).and_then(|code| code.parse().ok()),
            state_name: owned(&["instanceState", "name"]).unwrap_or_default(),
            reason,
            launched_s: launched.and_then(|time| u64::try_from(time.as_second()).ok()),
            details: DETAILS.iter().filter_map(detail).collect(),
        })
    }

    /// Whether it is at its end.
    pub fn has_ended(&self) -> bool {
        matches!(self.state(), Ok(ManagedState::In(Phase::Done)))
    }

    /// By the low byte of the code; the high one is the service's own.
    fn state(&self) -> Result<ManagedState, ManagerError> {
        let stopped = || ManagedState::Failed {
            message: format!("it was stopped by somebody else ({})", self.state_name),
        };
        match self.state_code.map(|code| code & 0xff) {
            Some(0) => Ok(ManagedState::In(Phase::Pending)),
            Some(16) => Ok(ManagedState::In(Phase::Running)),
            Some(32) => Ok(ManagedState::In(Phase::Shutdown)),
            Some(48) => Ok(ManagedState::In(Phase::Done)),
            Some(64 | 80) => Ok(stopped()),
            _ => Err(ManagerError::NotUnderstood(format!(
                "the state of {} is \"{}\", which the interface does not have",
                self.id,
                beginning(&self.state_name)
            ))),
        }
    }

    /// The same as any manager's.
    ///
    /// # Errors
    /// A state that there is not.
    pub fn sight(self) -> Result<Sight, ManagerError> {
        Ok(Sight {
            state: self.state()?,
            recorded: Recorded::default().with(Phase::Pending, self.launched_s),
            name: beginning(&self.state_name),
            reason: self.reason,
            details: self.details,
        })
    }
}

fn text_of(item: Node<'_, '_>, path: &[&str]) -> Option<String> {
    text(item, path).map(beginning)
}

fn set<'a, 'input: 'a>(
    document: &'a Document<'input>,
    name: &'a str,
) -> Result<Node<'a, 'input>, ManagerError> {
    at(document.root_element(), &[name])
        .ok_or_else(|| ManagerError::NotUnderstood(format!("it has no {name}")))
}

/// The instance that was started, of an answer to `RunInstances`.
///
/// # Errors
/// It is no such answer.
pub fn started_of(body: &str) -> Result<InstanceId, ManagerError> {
    let document = parse(body)?;
    let item = children(set(&document, "instancesSet")?, "item").next();
    let item = item.ok_or_else(|| ManagerError::NotUnderstood("no instance was started".to_owned()))?;
    let id = text(item, &["instanceId"]).and_then(InstanceId::read);
    id.ok_or_else(|| {
        ManagerError::NotUnderstood("the instance that was started has no instanceId".to_owned())
    })
}

/// All instances of an answer to `DescribeInstances`.
///
/// # Errors
/// It is no such answer.
pub fn instances_of(body: &str) -> Result<Vec<InstanceSeen>, ManagerError> {
    let document = parse(body)?;
    let reservations = children(set(&document, "reservationSet")?, "item");
    let instances = reservations.filter_map(|reservation| at(reservation, &["instancesSet"]));
    instances.flat_map(|set| children(set, "item")).map(InstanceSeen::read).collect()
}

/// How the next page of a list is asked for; `None` of the last.
pub(super) fn next_page(body: &str) -> Result<Option<String>, ManagerError> {
    let document = parse(body)?;
    Ok(text(document.root_element(), &["nextToken"]).map(str::to_owned))
}

/// What is said in place of an answer. Endpoints differ in what is around the error.
pub(super) fn refusal(action: &str, status: u16, body: &str) -> ManagerError {
    let said = || format!("status {status} of HTTP: {}", beginning(body));
    let Ok(document) = parse(body) else { return ManagerError::NotUnderstood(said()) };
    let error = document.descendants().find(|node| node.tag_name().name() == "Error");
    let part = |name: &str| text_of(error?, &[name]);
    let request = document
        .descendants()
        .find(|node| ["RequestID", "RequestId", "requestId"].contains(&node.tag_name().name()))
        .and_then(|node| node.text())
        .map(beginning);
    match part("Code") {
        Some(code) if code == NOT_FOUND => ManagerError::NotKnown(part("Message").unwrap_or(code)),
        Some(code) => ManagerError::Refused {
            action: action.to_owned(),
            message: part("Message").unwrap_or_else(said),
            code,
            request,
        },
        None => ManagerError::NotUnderstood(said()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::xml::tests::mangled;

    /// What moto 5 answered, without networks and disks.
    const RUNNING: &str = include_str!("../../tests/data/ec2-running.xml");

    const TERMINATED: &str = include_str!("../../tests/data/ec2-terminated.xml");

    const NO_SUCH: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15"><Errors><Error><Code>InvalidInstanceID.NotFound</Code><Message>The instance ID 'i-0123456789abcdef0' does not exist</Message></Error></Errors><RequestID>request-id</RequestID></Response>"#;

    fn sight(body: &str) -> Sight {
        instances_of(body).unwrap().remove(0).sight().unwrap()
    }

    #[test]
    fn a_running_instance_is_told_with_what_the_endpoint_says_of_it() {
        let sight = sight(RUNNING);
        assert_eq!(sight.state, ManagedState::In(Phase::Running));
        assert_eq!((sight.name.as_str(), sight.reason), ("running", None));
        // 2026-11-29T06:00:02Z
        assert_eq!(sight.recorded.begin_s(Phase::Pending), Some(1_795_932_002));
        let details: Vec<_> = sight.details.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(details, ["image=ami-12c6146b", "type=t2.micro", "zone=us-east-1a", "hypervisor=xen"]);
    }

    #[test]
    fn an_ended_instance_says_why() {
        let sight = sight(TERMINATED);
        assert_eq!(sight.state, ManagedState::In(Phase::Done));
        assert_eq!(sight.reason.unwrap(), "Client.UserInitiatedShutdown: User initiated shutdown");
    }

    #[test]
    fn every_state_of_the_interface_is_one_of_ours_whatever_its_high_byte() {
        let state = |code: &str| {
            let body = RUNNING.replace("<code>16</code>", &format!("<code>{code}</code>"));
            instances_of(&body).unwrap().remove(0).sight().map(|sight| sight.state)
        };
        assert_eq!(state("0"), Ok(ManagedState::In(Phase::Pending)));
        assert_eq!(state("272"), Ok(ManagedState::In(Phase::Running)));
        assert_eq!(state("32"), Ok(ManagedState::In(Phase::Shutdown)));
        assert!(matches!(state("64"), Ok(ManagedState::Failed { .. })));
        assert!(matches!(state("80"), Ok(ManagedState::Failed { .. })));
        assert!(state("7").is_err() && state("x").is_err());
    }

    #[test]
    fn a_refusal_is_told_by_its_code() {
        let refused = refusal("DescribeInstances", 400, NO_SUCH);
        assert_eq!(
            refused.to_string(),
            "the manager knows no such instance (The instance ID 'i-0123456789abcdef0' does not exist)"
        );
        let other = NO_SUCH.replace(NOT_FOUND, "UnauthorizedOperation");
        assert_eq!(
            refusal("RunInstances", 403, &other).to_string(),
            "the manager refused RunInstances: The instance ID 'i-0123456789abcdef0' does not exist \
             (UnauthorizedOperation, request request-id)"
        );
        let gateway = refusal("RunInstances", 502, "<html><body>Bad gateway</body>");
        assert_eq!(
            gateway.to_string(),
            "the manager's answer is not understood: status 502 of HTTP: <html><body>Bad gateway</body>"
        );
    }

    #[test]
    fn an_answer_of_something_else_is_not_understood() {
        for body in ["", "null", "<html/>", "{}", "<a><instancesSet/></a>"] {
            assert!(matches!(started_of(body), Err(ManagerError::NotUnderstood(_))), "{body}");
            assert!(matches!(instances_of(body), Err(ManagerError::NotUnderstood(_))), "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(at in 0..RUNNING.len(), byte in any::<u8>(), cut in 0..RUNNING.len()) {
            for text in mangled(RUNNING, at, byte, cut) {
                let _ = started_of(&text);
                let _ = instances_of(&text).map(|seen| seen.into_iter().map(InstanceSeen::sight).collect::<Vec<_>>());
                let _ = refusal("x", 400, &text).to_string();
            }
        }
    }
}
