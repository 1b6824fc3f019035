use nestor_stack::MachineIndex;

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::unix::net::UnixListener;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use super::*;
use crate::place::MachinePlace;

fn started(agent: &Agent, script: &str, root: &Path) -> u32 {
    let output = root.join("output.txt").display().to_string();
    match agent.start_process(&Command::new(["sh", "-c", script]), &output) {
        Ok(Answer::Started { process }) => process,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_awaited_until_its_program_has_made_it_or_ended_without() {
    let root = tempfile::tempdir().unwrap();
    let agent = Agent::new(&root.path().join("work")).unwrap();
    let path = root.path().join("ready");
    let file = ReadySign::File(path.display().to_string());
    let long_ms = 600_000;
    let maker = started(&agent, &format!("touch '{}'; sleep 600", path.display()), root.path());
    assert!(matches!(agent.await_ready(maker, &file, long_ms), Ok(Answer::Done)));

    let none = ReadySign::File(root.path().join("none").display().to_string());
    let ended = started(&agent, "exit 3", root.path());
    let refusal = agent.await_ready(ended, &none, long_ms).unwrap_err();
    assert!(matches!(refusal.cause, Cause::ProgramFailed { ended: ProgramEnd::Code(3), .. }), "{refusal:?}");
    assert_eq!(agent.await_ready(maker, &none, 0).unwrap_err().cause, Cause::TimedOut);
    assert_eq!(
        agent.await_ready(0, &file, long_ms).unwrap_err().cause,
        Cause::Other,
        "nobody started process 0"
    );
    agent.finish();
    assert_eq!(agent.await_ready(maker, &file, long_ms).unwrap_err().cause, Cause::TakenDown);
    assert_eq!(agent.obey_unless_closed(Request::Facts).unwrap_err().cause, Cause::TakenDown);
}

#[test]
fn a_program_is_ready_when_it_takes_connections_not_when_its_socket_is_there() {
    let root = tempfile::tempdir().unwrap();
    let agent = Agent::new(&root.path().join("work")).unwrap();
    let sleeper = started(&agent, "sleep 600", root.path());
    let path = root.path().join("socket");
    let socket = ReadySign::Socket(path.display().to_string());
    // It never listens: a child that another test starts at this moment would hold a listener that was closed, until it has become its program.
    let bound = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&bound, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    assert!(path.exists() && agent.await_ready(sleeper, &socket, 0).is_err());
    fs::remove_file(&path).unwrap();
    let _listening = UnixListener::bind(&path).unwrap();
    assert!(agent.await_ready(sleeper, &socket, 0).is_ok());

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = ReadySign::Port(SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port()));
    assert!(agent.await_ready(sleeper, &port, 0).is_ok());
    agent.finish();
}

#[test]
fn what_is_asked_of_a_machine_that_is_gone_says_so_in_its_type() {
    let root = tempfile::tempdir().unwrap();
    let agent = Agent::new(&root.path().join("work")).unwrap();
    let machine = MachinePlace::Guest(MachineIndex::OUTERMOST);
    let request = Request::Forward { machine, timeout_ms: 1, request: Box::new(Request::Facts) };
    assert_eq!(agent.obey(request).unwrap_err().cause, Cause::MachineLost);
    let command = Command::new(["no-such-program-anywhere"]);
    let refusal = agent.obey(Request::Run(command)).unwrap_err();
    assert_eq!(refusal.cause, Cause::NotInstalled { program: "no-such-program-anywhere".into() });
    agent.finish();
}
