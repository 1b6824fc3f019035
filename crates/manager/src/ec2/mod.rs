//! EC2: the Query API (version 2016-11-15) of Amazon and of whatever has the same.

mod answers;

use nestor_stack::{ManagerKind, ManagerUrl};

pub use answers::{InstanceSeen, instances_of, started_of};

use crate::curl::{Answer, Login, Post, Transport};
use crate::{Ending, InstanceId, Manager, ManagerError, Phase, Sight, Token};

/// The version of the API.
const VERSION: &str = "2016-11-15";

/// The error code of an instance that is not there.
const NOT_FOUND: &str = "InvalidInstanceID.NotFound";

/// Pages of a list that are read; each has up to a thousand instances.
const MOST_PAGES: usize = 100;

/// Who asks, and where.
#[derive(Clone, PartialEq, Eq)]
pub struct Ec2Login {
    /// `AWS_ACCESS_KEY_ID`.
    pub key: String,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret: String,
    /// `AWS_SESSION_TOKEN`.
    pub session_token: Option<String>,
    /// `AWS_REGION`, or `AWS_DEFAULT_REGION`.
    pub region: String,
}

impl Ec2Login {
    /// From variables of the environment, as Amazon's own programs read them.
    ///
    /// # Errors
    /// One is missing, or is not what such a thing can be.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ManagerError> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let wanted = |names: &[&str]| {
            let found = names.iter().find_map(|name| given(name)).ok_or_else(|| {
                ManagerError::Login(format!(
                    "{} is not set, and by=ec2 needs it in the environment",
                    names[0]
                ))
            })?;
            if found.chars().any(|c| c.is_control() || c.is_whitespace()) {
                return Err(ManagerError::Login(format!("{} has white space in it", names[0])));
            }
            Ok(found)
        };
        let login = Self {
            key: wanted(&["AWS_ACCESS_KEY_ID"])?,
            secret: wanted(&["AWS_SECRET_ACCESS_KEY"])?,
            session_token: given("AWS_SESSION_TOKEN").map(|_| wanted(&["AWS_SESSION_TOKEN"])).transpose()?,
            region: wanted(&["AWS_REGION", "AWS_DEFAULT_REGION"])?,
        };
        // Both are parts of what curl reads up to a colon.
        for (name, value) in [("AWS_ACCESS_KEY_ID", &login.key), ("AWS_REGION", &login.region)] {
            if value.contains(':') {
                return Err(ManagerError::Login(format!("{name} has a colon in it")));
            }
        }
        Ok(login)
    }
}

/// EC2 at one place.
pub struct Ec2<T> {
    transport: T,
    login: Ec2Login,
    image: String,
    instance_type: Option<String>,
}

impl<T: Transport> Ec2<T> {
    /// Instances of an image, and of a type or of the endpoint's usual one.
    pub fn new(transport: T, login: Ec2Login, image: &str, instance_type: Option<&str>) -> Self {
        Self { transport, login, image: image.to_owned(), instance_type: instance_type.map(str::to_owned) }
    }

    /// Its address.
    pub fn url(&self) -> &ManagerUrl {
        self.transport.url()
    }

    fn call(&self, action: &str, parameters: &[(&str, &str)]) -> Result<String, ManagerError> {
        let all = [("Action", action), ("Version", VERSION)];
        let post = Post {
            content_type: "application/x-www-form-urlencoded; charset=utf-8",
            body: form(all.iter().chain(parameters)),
            login: Login::Signed {
                provider: format!("aws:amz:{}:ec2", self.login.region),
                user: format!("{}:{}", self.login.key, self.login.secret),
                session_token: self.login.session_token.clone(),
            },
        };
        let Answer { status, body } = self.transport.post(&post)?;
        match status {
            200 => Ok(body),
            _ => Err(answers::refusal(action, status, &body)),
        }
    }

    fn by_cli(&self, command: &str) -> String {
        let (url, region) = (self.transport.url(), &self.login.region);
        format!("aws --endpoint-url {url} --region {region} ec2 {command}")
    }
}

/// `application/x-www-form-urlencoded`, with all but the unreserved characters of RFC 3986 (section 2.3) encoded.
fn form<'a>(parameters: impl Iterator<Item = &'a (&'a str, &'a str)>) -> String {
    let encoded = |text: &str| {
        let byte = |byte: u8| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        };
        text.bytes().map(byte).collect::<String>()
    };
    parameters
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
        .collect::<Vec<_>>()
        .join("&")
}

impl<T: Transport> Manager for Ec2<T> {
    fn kind(&self) -> ManagerKind {
        ManagerKind::Ec2
    }

    /// What is between the request and running is one state to it, and so is the end.
    fn phases(&self) -> &'static [Phase] {
        &[Phase::Pending, Phase::Running, Phase::Shutdown]
    }

    fn version(&self) -> Result<Option<String>, ManagerError> {
        Ok(None)
    }

    fn ask(&self, token: &Token) -> Result<InstanceId, ManagerError> {
        let mut parameters = vec![
            ("ImageId", self.image.as_str()),
            ("MinCount", "1"),
            ("MaxCount", "1"),
            ("ClientToken", token.as_str()),
            ("InstanceInitiatedShutdownBehavior", "terminate"),
        ];
        parameters.extend(self.instance_type.as_deref().map(|of| ("InstanceType", of)));
        started_of(&self.call("RunInstances", &parameters)?)
    }

    fn find(&self, token: &Token) -> Result<Option<InstanceId>, ManagerError> {
        let mut next: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let page: Vec<_> = next.iter().map(|next| ("NextToken", next.as_str())).collect();
            let body = self.call("DescribeInstances", &page)?;
            let found = instances_of(&body)?
                .into_iter()
                .find(|seen| seen.token.as_deref() == Some(token.as_str()) && !seen.has_ended());
            if let Some(seen) = found {
                return Ok(Some(seen.id));
            }
            next = answers::next_page(&body)?;
            if next.is_none() {
                return Ok(None);
            }
        }
        Err(ManagerError::NotUnderstood(format!("its list of instances has more than {MOST_PAGES} pages")))
    }

    fn look(&self, id: &InstanceId) -> Result<Option<Sight>, ManagerError> {
        match self.call("DescribeInstances", &[("InstanceId.1", id.as_str())]) {
            Ok(body) => {
                let seen = instances_of(&body)?.into_iter().find(|seen| seen.id == *id);
                seen.map(InstanceSeen::sight).transpose()
            }
            Err(ManagerError::NotKnown(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn end(&self, id: &InstanceId, _how: Ending) -> Result<(), ManagerError> {
        self.call("TerminateInstances", &[("InstanceId.1", id.as_str())]).map(drop)
    }

    fn by_hand(&self, id: &InstanceId) -> String {
        self.by_cli(&format!("terminate-instances --instance-ids {id}"))
    }

    fn find_by_hand(&self, token: &Token) -> String {
        self.by_cli(&format!("describe-instances --filters Name=client-token,Values={token}"))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Answers what is put into it, and keeps what it was asked.
    struct Told {
        url: ManagerUrl,
        asked: RefCell<Vec<Post>>,
        answers: RefCell<Vec<Answer>>,
    }

    impl Transport for Told {
        fn url(&self) -> &ManagerUrl {
            &self.url
        }

        fn post(&self, post: &Post) -> Result<Answer, ManagerError> {
            self.asked.borrow_mut().push(post.clone());
            Ok(self.answers.borrow_mut().remove(0))
        }
    }

    fn login() -> Ec2Login {
        Ec2Login::of(|name| match name {
            "AWS_ACCESS_KEY_ID" => Some("KEY".to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some("secret".to_owned()),
            "AWS_DEFAULT_REGION" => Some("eu-1".to_owned()),
            _ => None,
        })
        .unwrap()
    }

    fn ec2(answers: &[(u16, &str)]) -> Ec2<Told> {
        let answers =
            answers.iter().map(|(status, body)| Answer { status: *status, body: (*body).to_owned() });
        let url = "http://m:5000".parse().unwrap();
        let told = Told { url, asked: RefCell::default(), answers: RefCell::new(answers.collect()) };
        Ec2::new(told, login(), "ami-1&2", Some("t2.micro"))
    }

    #[test]
    fn what_is_asked_for_is_written_so_that_nothing_in_it_is_another_parameter() {
        let ec2 =
            ec2(&[(200, "<a><instancesSet><item><instanceId>i-1</instanceId></item></instancesSet></a>")]);
        assert_eq!(ec2.ask(&Token::of(7)).unwrap().as_str(), "i-1");
        let asked = ec2.transport.asked.borrow();
        insta::assert_snapshot!(asked[0].body, @"Action=RunInstances&Version=2016-11-15&ImageId=ami-1%262&MinCount=1&MaxCount=1&ClientToken=nestor-00000000000000000000000000000007&InstanceInitiatedShutdownBehavior=terminate&InstanceType=t2.micro");
        assert!(!asked[0].body.contains("secret"));
        let Login::Signed { provider, user, session_token } = &asked[0].login else { panic!("not signed") };
        assert_eq!(
            (provider.as_str(), user.as_str(), session_token),
            ("aws:amz:eu-1:ec2", "KEY:secret", &None)
        );
    }

    #[test]
    fn a_lost_instance_is_found_by_its_token_on_whichever_page_unless_it_has_ended() {
        let item = |id: &str, token: &str, state: u32| {
            format!(
                "<item><instancesSet><item><instanceId>{id}</instanceId><clientToken>{token}</clientToken><instanceState><code>{state}</code><name>x</name></instanceState></item></instancesSet></item>"
            )
        };
        let token = Token::of(7);
        let first = format!(
            "<a><reservationSet>{}{}</reservationSet><nextToken>more</nextToken></a>",
            item("i-1", "other", 16),
            item("i-2", token.as_str(), 48)
        );
        let second = format!("<a><reservationSet>{}</reservationSet></a>", item("i-3", token.as_str(), 0));
        let found = ec2(&[(200, &first), (200, &second)]);
        assert_eq!(found.find(&token).unwrap().unwrap().as_str(), "i-3");
        assert!(found.transport.asked.borrow()[1].body.ends_with("&NextToken=more"));
        let none = ec2(&[(200, "<a><reservationSet/></a>")]);
        assert_eq!(none.find(&token).unwrap(), None);
    }

    #[test]
    fn what_is_missing_of_a_login_is_named() {
        let without = |missing: &'static str, value: &'static str| {
            let login = Ec2Login::of(|name| match name {
                name if name == missing => Some(value.to_owned()),
                "AWS_SESSION_TOKEN" | "AWS_DEFAULT_REGION" => None,
                _ => Some("x".to_owned()),
            });
            login.err().unwrap().to_string()
        };
        assert_eq!(
            without("AWS_SECRET_ACCESS_KEY", ""),
            "AWS_SECRET_ACCESS_KEY is not set, and by=ec2 needs it in the environment"
        );
        assert_eq!(
            without("AWS_REGION", ""),
            "AWS_REGION is not set, and by=ec2 needs it in the environment"
        );
        assert_eq!(without("AWS_SECRET_ACCESS_KEY", "a\nb"), "AWS_SECRET_ACCESS_KEY has white space in it");
        assert_eq!(without("AWS_SESSION_TOKEN", "a b"), "AWS_SESSION_TOKEN has white space in it");
        assert_eq!(without("AWS_ACCESS_KEY_ID", "a:b"), "AWS_ACCESS_KEY_ID has a colon in it");
    }

    #[test]
    fn a_person_is_told_a_command_that_ends_it() {
        let ec2 = ec2(&[]);
        let id = InstanceId::read("i-1").unwrap();
        assert_eq!(
            ec2.by_hand(&id),
            "aws --endpoint-url http://m:5000 --region eu-1 ec2 terminate-instances --instance-ids i-1"
        );
    }
}
