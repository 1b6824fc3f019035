//! The contract of EC2, against moto: a server with EC2's interface that starts nothing.

#![allow(clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

use std::thread;
use std::time::{Duration, Instant};

use nestor_manager::{
    Clock, Curl, Ec2, Ec2Login, Ending, InstanceId, ManagedState, Manager, ManagerError, Pace, Phase, Token,
    follow,
};
use support::{Moto, curl_is_missing};

fn ec2(moto: &Moto) -> Ec2<Curl> {
    let login = Ec2Login {
        key: "KEY".to_owned(),
        secret: "secret".to_owned(),
        session_token: Some("token".to_owned()),
        region: "us-east-1".to_owned(),
    };
    Ec2::new(Curl::to(moto.url().parse().unwrap()), login, "ami-12c6146b", Some("t2.micro"))
}

struct Real(Instant);

impl Clock for Real {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap()
    }

    fn wait(&self, ns: u64) -> bool {
        self.pause(ns);
        true
    }

    fn pause(&self, ns: u64) {
        thread::sleep(Duration::from_nanos(ns));
    }
}

#[test]
#[ignore = "needs moto_server (pip install 'moto[server,ec2]'), which takes seconds to start; part of `make test-long`"]
fn an_instance_of_ec2_lives_is_found_and_ends() {
    if curl_is_missing() {
        return;
    }
    let Some(moto) = Moto::start() else { return };
    let ec2 = ec2(&moto);
    let pace = Pace { poll_ns: 100_000_000, limit_ns: 60_000_000_000 };
    let tokens = [(); 3].map(|()| Token::fresh());
    let all = follow(&ec2, &tokens, pace, &Real(Instant::now()), &|_| {}).unwrap();
    assert_eq!(all.iter().map(|followed| followed.token.clone()).collect::<Vec<_>>(), tokens);
    assert!(all[0].id != all[1].id && all[1].id != all[2].id);
    let followed = &all[2];
    let phases: Vec<Phase> = followed.begins.iter().map(|begin| begin.phase).collect();
    assert_eq!(phases, [Phase::Pending, Phase::Running, Phase::Shutdown, Phase::Done]);
    assert!(followed.details.contains(&("type", "t2.micro".to_owned())), "{:?}", followed.details);
    assert!(followed.begins[0].recorded_s.is_some());

    let token = Token::fresh();
    let id = ec2.ask(&token).unwrap();
    assert_eq!(ec2.find(&token).unwrap(), Some(id.clone()));
    ec2.end(&id, Ending::AtOnce).unwrap();
    assert_eq!(ec2.look(&id).unwrap().unwrap().state, ManagedState::In(Phase::Done));
    assert_eq!(ec2.find(&token).unwrap(), None);

    let nobody = InstanceId::read("i-0123456789abcdef0").unwrap();
    assert_eq!(ec2.look(&nobody).unwrap(), None);
    assert!(matches!(ec2.end(&nobody, Ending::AtOnce), Err(ManagerError::NotKnown(_))));
}
