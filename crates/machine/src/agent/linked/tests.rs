use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use nestor_stack::{MachineIndex, Machines, Relation};

use super::*;
use crate::connection::NoAnswer;
use crate::message::{Answer, Request};
use crate::refusal::Refusal;
use crate::spec::DiskAttachment;

/// A machine that is only there, and has perhaps ended.
#[derive(Default)]
struct Played {
    has_ended: AtomicBool,
    given_up: Mutex<Option<Loss>>,
}

impl RunningMachine for Played {
    fn kind(&self) -> &'static str {
        "a machine that is played"
    }

    fn request(&self, _request: Request, _limit: Duration) -> Result<Answer, NoAnswer> {
        Err(NoAnswer::Gone("it is played".to_owned()))
    }

    fn attach(&self, _disk: &DiskAttachment) -> Result<(), Refusal> {
        Ok(())
    }

    fn detach(&self, _disk: &DiskAttachment) -> Result<(), Refusal> {
        Ok(())
    }

    fn tick_offset(&self) -> Result<i64, Refusal> {
        Ok(0)
    }

    fn stop(&self) {}

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    fn give_up(&self, loss: Loss) {
        lock(&self.given_up).get_or_insert(loss);
    }

    fn loss(&self) -> Option<Loss> {
        lock(&self.given_up).clone()
    }

    fn last_words(&self) -> String {
        "; it was played".to_owned()
    }
}

/// Two machines and a server, which runs until it is killed.
struct Linkage {
    host: Arc<Played>,
    client: Arc<Played>,
    programs: Arc<Programs>,
    server: u32,
}

impl Linkage {
    fn new() -> Self {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let server = child.id();
        let programs: Arc<Programs> = Arc::default();
        lock(&programs).insert(server, (0, child));
        Self { host: Arc::default(), client: Arc::default(), programs, server }
    }

    fn linked(&self) -> Linked {
        let mut indices = Machines::default();
        let outermost = indices.push(Relation::Outermost, ());
        let beside = indices.push(Relation::Beside(outermost), ());
        let machines: Vec<(MachinePlace, Arc<dyn RunningMachine>)> = vec![
            (MachinePlace::Root(outermost), Arc::clone(&self.host) as Arc<dyn RunningMachine>),
            (MachinePlace::Root(beside), Arc::clone(&self.client) as Arc<dyn RunningMachine>),
        ];
        Linked::new(&machines, self.server, Arc::clone(&self.programs))
    }

    /// Kills the server, which stays in the list of programs.
    fn kill_server(&self) {
        if let Some((_, child)) = lock(&self.programs).get_mut(&self.server) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn given_up(&self) -> [Option<Loss>; 2] {
        [&self.host, &self.client].map(|machine| lock(&machine.given_up).clone())
    }
}

impl Drop for Linkage {
    fn drop(&mut self) {
        self.kill_server();
    }
}

#[test]
fn while_all_are_there_nothing_is_given_up() {
    let linkage = Linkage::new();
    assert!(!linkage.linked().is_over());
    assert_eq!(linkage.given_up(), [None, None]);
}

#[test]
fn without_the_server_of_the_link_both_machines_are_given_up() {
    let linkage = Linkage::new();
    let linked = linkage.linked();
    linkage.kill_server();
    assert!(linked.is_over());
    let loss = Some(Loss::Link { server: linkage.server, ended: ProgramEnd::Signal(9) });
    assert_eq!(linkage.given_up(), [loss.clone(), loss]);
}

#[test]
fn without_one_machine_the_other_is_given_up() {
    let linkage = Linkage::new();
    let linked = linkage.linked();
    linkage.host.has_ended.store(true, Ordering::Relaxed);
    assert!(linked.is_over());
    let [host, client] = linkage.given_up();
    assert_eq!(host, None, "what it says of itself is said by its own end");
    let place = MachinePlace::Root(MachineIndex::OUTERMOST);
    assert_eq!(client, Some(Loss::Machine { place, said: "; it was played".to_owned() }));
}

#[test]
fn what_a_machine_says_it_has_lost_the_other_has_lost_too() {
    let linkage = Linkage::new();
    let linked = linkage.linked();
    linkage.host.give_up(Loss::NfsServer);
    assert!(linked.is_over());
    assert_eq!(linkage.given_up(), [Some(Loss::NfsServer), Some(Loss::NfsServer)]);
}

#[test]
fn what_is_stopped_as_it_should_be_is_no_loss() {
    let linkage = Linkage::new();
    let linked = linkage.linked();
    // As when its program is asked to end: it is in the list no more.
    let stopped = lock(&linkage.programs).remove(&linkage.server);
    assert!(linked.is_over());
    assert_eq!(linkage.given_up(), [None, None]);
    let (_, mut child) = stopped.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();

    let linked = Linkage::new().linked();
    assert!(linked.is_over(), "its machines are not there any more");
}
