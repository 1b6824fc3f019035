//! Managers of a cloud as a user meets them: a small server that speaks EC2, moto, and an OpenNebula.

#![allow(clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

#[allow(dead_code, reason = "a part of it is for the tests of the crate that it is from")]
#[path = "../../manager/tests/support/server.rs"]
mod server;

#[path = "../../manager/tests/support/moto.rs"]
mod moto;

#[path = "../../manager/tests/support/opennebula.rs"]
mod opennebula;

use std::sync::mpsc::channel;
use std::time::Duration;

use moto::Moto;
use opennebula::One;
use rustix::process::Signal;
use serde_json::Value;
use server::{Server, Way};
use support::{Sandbox, alone, has_program, json, refused, signal};

const STACK: &str =
    "ext4/kvm:by=ec2:image=ami-12c6146b:type=t2.micro:poll=100ms/copy:scp/ext4/hdd//link/raw/ext4/hdd";

/// The login of every run here.
const LOGIN: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "KEY"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "us-east-1")];

fn is_missing(program: &str) -> bool {
    let missing = !has_program(program);
    if missing {
        eprintln!("NOT RUN: {program} is not installed");
    }
    missing
}

fn started() -> Way {
    Way::Answer(
        200,
        "<a><instancesSet><item><instanceId>i-1</instanceId></item></instancesSet></a>".to_owned(),
    )
}

fn run<'a>(on: &'a str, store: &'a str) -> [&'a str; 10] {
    run_of(STACK, on, store)
}

fn run_of<'a>(stack: &'a str, on: &'a str, store: &'a str) -> [&'a str; 10] {
    ["run", stack, "life:cycle", "-n", "1", "--json", "--on", on, "--store", store]
}

fn state<'a>(run: &'a Value, name: &str) -> &'a Value {
    let states = run["lives"][0]["states"].as_array().expect("states");
    states.iter().find(|state| state["state"] == name).unwrap_or_else(|| panic!("no {name}: {run}"))
}

#[test]
fn a_life_that_a_manager_tells_is_stored_and_reported_as_declared() {
    if is_missing("curl") {
        return;
    }
    let server = Server::with(|number, request| match number {
        0 => started(),
        1 => Way::described(0, "pending"),
        2 => Way::described(16, "running"),
        3 => {
            assert!(
                request.contains("Action=TerminateInstances") && request.contains("InstanceId.1=i-1"),
                "{request}"
            );
            Way::Answer(200, "<a/>".to_owned())
        }
        4 => Way::described(32, "shutting-down"),
        _ => Way::described(48, "terminated"),
    });
    let sandbox = Sandbox::new();
    let (store, on) = (sandbox.text("results.sqlite"), format!("ec2:{}", server.url()));
    let output = sandbox.nestor(run(&on, &store)).envs(LOGIN).assert().success().get_output().stdout.clone();
    let view = json(&String::from_utf8(output).expect("UTF-8"))[0].clone();
    let names: Vec<&str> =
        view["lives"][0]["states"].as_array().unwrap().iter().filter_map(|s| s["state"].as_str()).collect();
    assert_eq!(names, ["pending", "running", "shutdown"], "{view}");
    assert_eq!(view["lives"][0]["manager"]["product"], "EC2");
    assert_eq!(
        view["lives"][0]["manager"]["not_told_apart"],
        serde_json::json!(["transfer", "boot", "cleanup"])
    );
    assert!(state(&view, "pending")["managed"]["uncertain_s"].as_f64().unwrap() >= 0.1);
    assert!(state(&view, "pending")["pace"].is_null(), "nothing is counted at a manager");
    assert!(view.to_string().contains("declared"), "{view}");
    let text = support::said(&sandbox, &["report", "1", "--store", &store]);
    assert!(text.contains("EC2 does not tell transfer and boot and cleanup from the state before"), "{text}");
    assert!(text.contains("shutting-down"), "{text}");
}

/// Two of EC2's instances: the second is slower by some looks.
#[test]
fn several_instances_of_a_manager_are_asked_for_at_once_and_end_together() {
    if is_missing("curl") {
        return;
    }
    let mut looks = [0; 2];
    let mut started = 0;
    let mut are_ended = [false; 2];
    let server = Server::with(move |_, request| {
        let named = |id: &str| request.contains(&format!("InstanceId.1={id}"));
        if request.contains("Action=RunInstances") {
            started += 1;
            let body = format!(
                "<a><instancesSet><item><instanceId>i-{started}</instanceId></item></instancesSet></a>"
            );
            return Way::Answer(200, body);
        }
        let at = usize::from(named("i-2"));
        assert!(named(["i-1", "i-2"][at]), "{request}");
        if request.contains("Action=TerminateInstances") {
            are_ended[at] = true;
            return Way::Answer(200, "<a/>".to_owned());
        }
        looks[at] += 1;
        let (code, name) = match (are_ended[at], looks[at]) {
            (true, _) => (48, "terminated"),
            (false, looks) if looks > 3 * at => (16, "running"),
            _ => (0, "pending"),
        };
        Way::described_of(["i-1", "i-2"][at], code, name)
    });
    let sandbox = Sandbox::new();
    let (store, on) = (sandbox.text("results.sqlite"), format!("ec2:{}", server.url()));
    let run = ["run", STACK, "life:cycle:count=2", "-n", "1", "--json", "--on", &on, "--store", &store];
    let output = sandbox.nestor(run).envs(LOGIN).assert().success().get_output().stdout.clone();
    let view = json(&String::from_utf8(output).expect("UTF-8"))[0].clone();
    let lives = view["lives"].as_array().unwrap();
    assert_eq!(lives.len(), 2, "{view}");
    let instances: Vec<&str> = lives.iter().filter_map(|life| life["manager"]["instance"].as_str()).collect();
    assert_eq!(instances, ["i-1", "i-2"]);
    let of = |life: &Value, name: &str, what: &str| {
        let states = life["states"].as_array().unwrap();
        let state = states.iter().find(|state| state["state"] == name).unwrap();
        state[what].as_f64().unwrap()
    };
    let [first, second] = [&lives[0], &lives[1]];
    assert!(of(second, "pending", "seconds") > of(first, "pending", "seconds") + 0.2, "{view}");
    assert!(of(first, "running", "waited_s") > 0.2 && of(second, "running", "waited_s") == 0.0, "{view}");
    assert_eq!(view["environment"]["settings"]["instance"], "i-1, i-2");
    let text = support::said(&sandbox, &["report", "1", "--store", &store]);
    for words in ["life of 2 instances", "told to end when the last ran", "EC2 does not tell transfer"] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

#[test]
fn an_interrupt_ends_the_instance_at_the_manager() {
    if is_missing("curl") {
        return;
    }
    let (seen, asked) = channel();
    let mut is_ended = false;
    let server = Server::with(move |number, request| {
        let is_end = request.contains("Action=TerminateInstances");
        let _ = seen.send(is_end);
        is_ended |= is_end;
        match number {
            0 => started(),
            _ if is_end => Way::Answer(200, "<a/>".to_owned()),
            _ if is_ended => Way::described(48, "terminated"),
            _ => Way::described(0, "pending"),
        }
    });
    let sandbox = Sandbox::new();
    let (store, on) = (sandbox.text("results.sqlite"), format!("ec2:{}", server.url()));
    let mut running = sandbox.start(&run(&on, &store), &LOGIN);
    let mut next = || loop {
        match asked.recv_timeout(Duration::from_millis(100)) {
            Ok(is_end) => return is_end,
            Err(_) => assert!(running.is_running(), "it ended before it asked"),
        }
    };
    // It has asked for the instance, and has looked at it once.
    assert!(!next() && !next());
    signal(running.pid(), Signal::INT);
    let ended = running.end();
    assert!(ended.stderr.contains("interrupted; everything was taken down"), "{}", ended.stderr);
    assert!(asked.try_iter().any(|is_end| is_end), "the instance was not ended");
}

#[test]
fn what_a_manager_cannot_do_is_refused_before_it_is_asked() {
    let sandbox = Sandbox::new();
    let nobody = "ec2:http://127.0.0.1:1";
    let refused_on =
        |stack: &str, workload: &str, on: &str| refused(&sandbox, &["run", stack, workload, "--on", on]);
    let said = refused_on(STACK, "life:cycle", "emulated");
    assert!(said.contains("say where it answers: `--on ec2:http://127.0.0.1:5000`"), "{said}");
    let said = refused_on(STACK, "fio:rand-read", nobody);
    assert!(said.contains("use the workload life:cycle"), "{said}");
    let said = refused_on(STACK, "life:cycle:run=fio:rand-read", nobody);
    assert!(said.contains("omit run=: life:cycle"), "{said}");
    let said = refused_on(STACK, "life:cycle:count=2:run=fio:rand-read", nobody);
    assert!(said.contains("omit run=: life:cycle"), "{said}");
    let said = refused_on("ext4/hdd", "fio:rand-read", nobody);
    assert!(said.contains("write who runs the machine: kvm:by=ec2"), "{said}");
    let said = refused_on(STACK, "life:cycle", "ec2:http://key:secret@127.0.0.1:1");
    assert!(said.contains("would be stored with the results"), "{said}");
}

#[test]
fn a_manager_that_is_not_there_fails_the_cell_in_the_state_pending() {
    if is_missing("curl") {
        return;
    }
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let run = run("ec2:http://127.0.0.1:1", &store);
    let output = sandbox.nestor(run).envs(LOGIN).assert().failure().get_output().stdout.clone();
    let said = String::from_utf8(output).expect("UTF-8");
    assert!(
        said.contains("in the state pending: the manager at http://127.0.0.1:1 cannot be reached"),
        "{said}"
    );
}

#[test]
#[ignore = "needs moto_server (pip install 'moto[server,ec2]'), which takes seconds to start; part of `make test-long`"]
fn moto_starts_and_ends_an_instance() {
    if is_missing("curl") {
        return;
    }
    let Some(moto) = Moto::start() else { return };
    let sandbox = Sandbox::new();
    let (store, on) = (sandbox.text("results.sqlite"), format!("ec2:{}", moto.url()));
    let output = sandbox.nestor(run(&on, &store)).envs(LOGIN).assert().success().get_output().stdout.clone();
    let view = json(&String::from_utf8(output).expect("UTF-8"))[0].clone();
    assert_eq!(state(&view, "running")["managed"]["names"], serde_json::json!(["running"]), "{view}");
    assert!(view.to_string().contains("t2.micro"), "{view}");
}

const OF_OPENNEBULA: &str =
    "ext4/kvm:by=opennebula:template=copied:poll=100ms/copy:scp/ext4/hdd//link/raw/ext4/hdd";

#[test]
#[ignore = "needs an OpenNebula that scripts/opennebula made, in ONE_LOCATION, whose scheduler alone waits 15 s; part of `make test-long`"]
fn an_opennebula_copies_an_image_and_starts_and_ends_an_instance_of_it() {
    let _alone = alone();
    let Some(one) = One::start() else { return };
    let sandbox = Sandbox::new();
    let (store, on) = (sandbox.text("results.sqlite"), one.on());
    let run = run_of(OF_OPENNEBULA, &on, &store);
    let output = sandbox.nestor(run).envs(one.variables()).assert().success().get_output().stdout.clone();
    let view = json(&String::from_utf8(output).expect("UTF-8"))[0].clone();
    let transfer = &state(&view, "transfer")["managed"];
    assert_eq!(transfer["names"], serde_json::json!(["ACTIVE/PROLOG"]), "{view}");
    assert!(transfer["recorded_s"].is_u64(), "{view}");
    for known_by_the_log_alone in ["running", "shutdown"] {
        assert!(state(&view, known_by_the_log_alone)["managed"]["recorded_s"].is_u64(), "{view}");
    }
    assert!(state(&view, "cleanup")["seconds"].as_f64().unwrap() > 0.0, "{view}");
    assert_eq!(view["lives"][0]["manager"]["not_told_apart"], serde_json::json!([]));
}

#[test]
#[ignore = "needs an OpenNebula that scripts/opennebula made, in ONE_LOCATION, which is killed; part of `make test-long`"]
fn an_opennebula_that_dies_is_noticed_and_its_instance_named() {
    let _alone = alone();
    let Some(one) = One::start() else { return };
    let sandbox = Sandbox::new();
    let (store, on) = (sandbox.text("results.sqlite"), one.on());
    let variables = one.variables();
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    // Without its scheduler an instance stays in this state.
    one.stop_scheduler();
    let mut running = sandbox.start(&run_of(OF_OPENNEBULA, &on, &store), &variables);
    while one.machines().is_empty() {
        assert!(running.is_running(), "it ended before it asked for an instance");
        std::thread::sleep(Duration::from_millis(100));
    }
    signal(one.daemon(), Signal::KILL);
    let ended = running.end_within(Duration::from_secs(60));
    assert!(!ended.succeeded && ended.stdout.contains("in the state pending"), "{}", ended.stdout);
    assert!(ended.stdout.contains("cannot be reached"), "{}", ended.stdout);
    assert!(ended.stdout.contains("MAY STILL BE THERE"), "{}", ended.stdout);
    one.start_again();
    let machines = one.machines();
    assert_eq!(machines.len(), 1, "the dead manager could not end it");
    // The first of the two commands of the message ends it in this state.
    let on = on.trim_start_matches("opennebula:");
    let first = format!("onevm terminate --hard {} --endpoint {on}", machines[0]);
    assert!(ended.stdout.contains(&format!("{first} || onevm recover --delete")), "{}", ended.stdout);
    let words: Vec<&str> = first.split(' ').skip(1).collect();
    assert!(one.said("onevm", &words).status.success());
    assert!(one.machines().is_empty());
}
