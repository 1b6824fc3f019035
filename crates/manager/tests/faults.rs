//! Managers that are not there, die, forget, or answer anything, over real connections with the real curl.

#![allow(clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

use std::cell::Cell;

use nestor_manager::{
    Clock, Curl, Ec2, Ec2Login, Fault, FaultCause, Followed, InstanceId, Left, Manager, ManagerError, Pace,
    Phase, Token, follow,
};
use support::{Server, Way, curl_is_missing};

const SECRET: &str = "s3cr3t/of+the\"test\\";

/// A clock that waits for nothing: what is waited passes at once.
#[derive(Default)]
struct Hasty(Cell<u64>);

impl Clock for Hasty {
    fn now_ns(&self) -> u64 {
        self.0.set(self.0.get() + 1_000_000);
        self.0.get()
    }

    fn wait(&self, ns: u64) -> bool {
        self.pause(ns);
        true
    }

    fn pause(&self, ns: u64) {
        self.0.set(self.0.get() + ns);
    }
}

fn login() -> Ec2Login {
    Ec2Login {
        key: "KEY".to_owned(),
        secret: SECRET.to_owned(),
        session_token: None,
        region: "eu-1".to_owned(),
    }
}

fn ec2(url: &str) -> Ec2<Curl> {
    Ec2::new(Curl::to(url.parse().unwrap()), login(), "ami-1", None)
}

fn goes(url: &str) -> Result<Followed, Box<Fault>> {
    let pace = Pace { poll_ns: 1_000_000_000, limit_ns: 60_000_000_000 };
    follow(&ec2(url), &[Token::of(1)], pace, &Hasty::default(), &|_| {}).map(|mut all| all.remove(0))
}

const STARTED: &str = "<RunInstancesResponse><instancesSet><item><instanceId>i-1</instanceId></item></instancesSet></RunInstancesResponse>";

const ENDING: &str = "<TerminateInstancesResponse><instancesSet/></TerminateInstancesResponse>";

const FORGOTTEN: &str = "<Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code><Message>no i-1</Message></Error></Errors></Response>";

fn answer(body: &str) -> Way {
    Way::Answer(200, body.to_owned())
}

#[test]
fn a_life_is_gone_through_and_ends() {
    if curl_is_missing() {
        return;
    }
    let server = Server::with(|number, body| match (number, body) {
        (_, body) if body.contains("RunInstances") => answer(STARTED),
        (_, body) if body.contains("TerminateInstances") => answer(ENDING),
        (..=2, _) => Way::described(0, "pending"),
        (3, _) => Way::described(16, "running"),
        (5, _) => Way::described(32, "shutting-down"),
        _ => Way::described(48, "terminated"),
    });
    let followed = goes(server.url()).unwrap();
    let phases: Vec<Phase> = followed.begins.iter().map(|begin| begin.phase).collect();
    assert_eq!(phases, [Phase::Pending, Phase::Running, Phase::Shutdown, Phase::Done]);
}

#[test]
fn one_that_is_not_there_is_noticed_and_nothing_is_left() {
    if curl_is_missing() {
        return;
    }
    let url = Server::with(|_, _| answer(STARTED)).end();
    let fault = goes(&url).unwrap_err();
    assert_eq!((fault.phase, &fault.left), (Phase::Pending, &Left::Nothing));
    assert!(matches!(fault.cause, FaultCause::Manager(ManagerError::Unreachable { .. })), "{fault}");
}

#[test]
fn one_that_dies_is_noticed_and_the_instance_named() {
    if curl_is_missing() {
        return;
    }
    let server = Server::with(|number, _| match number {
        0 => answer(STARTED),
        1 => Way::described(0, "pending"),
        _ => Way::Die,
    });
    let fault = goes(server.url()).unwrap_err();
    assert_eq!(fault.phase, Phase::Pending);
    let said = fault.to_string();
    assert!(said.contains("instance i-1 MAY STILL BE THERE"), "{said}");
    assert!(said.contains("ec2 terminate-instances --instance-ids i-1"), "{said}");
}

#[test]
fn one_that_forgets_an_instance_is_named_with_the_state() {
    if curl_is_missing() {
        return;
    }
    let server = Server::with(|number, body| match (number, body) {
        (0, _) => answer(STARTED),
        (1, _) => Way::described(0, "pending"),
        (2, _) => Way::described(16, "running"),
        (3, body) if body.contains("TerminateInstances") => answer(ENDING),
        _ => Way::Answer(400, FORGOTTEN.to_owned()),
    });
    let fault = goes(server.url()).unwrap_err();
    assert_eq!((fault.phase, &fault.cause), (Phase::Shutdown, &FaultCause::Forgotten));
    assert!(matches!(fault.left, Left::NotKnown { .. }), "{fault}");
}

#[test]
fn what_is_no_answer_is_refused() {
    if curl_is_missing() {
        return;
    }
    let look = |way: fn() -> Way| {
        let server = Server::with(move |_, _| way());
        ec2(server.url()).look(&InstanceId::read("i-1").unwrap()).unwrap_err()
    };
    for way in [
        (|| answer("<html>welcome</html>")) as fn() -> Way,
        || answer("\u{0}\u{1}\u{2}"),
        || answer(""),
        || Way::Answer(500, "oops".to_owned()),
        || Way::Answer(302, String::new()),
    ] {
        let said = look(way);
        assert!(matches!(said, ManagerError::NotUnderstood(_)), "{said}");
    }
    assert!(matches!(
        look(|| Way::Raw(b"SSH-2.0-nonsense\r\n".to_vec())),
        ManagerError::Broken { .. } | ManagerError::NotUnderstood(_)
    ));
    assert!(matches!(look(|| Way::BreakOff), ManagerError::Broken { .. }));
    // One says how long its answer is, and the other only sends it.
    assert_eq!(look(|| Way::Huge { with_length: true }), ManagerError::TooLong);
    assert_eq!(look(|| Way::Huge { with_length: false }), ManagerError::TooLong);
}

#[test]
fn a_secret_is_in_no_argument_and_the_signature_is_there() {
    if curl_is_missing() {
        return;
    }
    let server = Server::with(|_, body| {
        // While the request is under way.
        let arguments = support::arguments_of_children();
        let is_clean = !arguments.is_empty() && !arguments.contains("s3cr3t") && !body.contains("s3cr3t");
        // Only what is sent may be signed: curl also signs a header that it was told not to send.
        let is_signed = body.contains("Authorization: AWS4-HMAC-SHA256 Credential=KEY/")
            && body.contains("/eu-1/ec2/aws4_request, SignedHeaders=content-type;host;x-amz-date,");
        if is_clean && is_signed { answer(STARTED) } else { Way::Answer(400, format!("{arguments}\n{body}")) }
    });
    assert_eq!(ec2(server.url()).ask(&Token::of(1)).unwrap().as_str(), "i-1");
}

#[test]
#[ignore = "takes 20 s: it waits until a silent manager is given up; part of `make test-long`"]
fn one_that_is_silent_is_noticed_within_thirty_seconds() {
    if curl_is_missing() {
        return;
    }
    let server = Server::with(|_, _| Way::Silent);
    let began = std::time::Instant::now();
    let said = ec2(server.url()).version().and_then(|_| ec2(server.url()).ask(&Token::of(1))).unwrap_err();
    assert!(matches!(said, ManagerError::Silent { .. }), "{said}");
    assert!(began.elapsed().as_secs() < 30);
}
