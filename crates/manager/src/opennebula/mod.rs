//! OpenNebula: its XML-RPC.

mod log;
mod pools;
mod rpc;
mod states;
mod vm;

use std::path::{Path, PathBuf};

use nestor_stack::{ManagerKind, ManagerUrl};

pub use log::{begins_in_log, log_file};
pub use pools::{template_named, vms_named};
pub use rpc::reply_of;
pub use states::state_of;
pub use vm::{VmSeen, vm_of};

use crate::curl::{Answer, Login, Post, Transport};
use crate::{Ending, InstanceId, Manager, ManagerError, Phase, Recorded, Sight, Token};
use rpc::{Code, Reply, Value};

/// Objects that the user may use (`-2` in the reference of `one.templatepool.info`).
const ALL: i32 = -2;

/// Objects of the user alone.
const OWN: i32 = -3;

/// From the first to the last.
const NO_END: i32 = -1;

/// Virtual machines in every state but DONE.
const NOT_DONE: i32 = -1;

/// What `one.vm.recover` does with a virtual machine that nothing else ends.
const DELETE: i32 = 3;

/// Who asks: `USER:PASSWORD`.
#[derive(Clone, PartialEq, Eq)]
pub struct OneLogin(String);

impl OneLogin {
    /// Where the login is, as OpenNebula's own programs find it.
    pub fn file(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let of_home = || Some(Path::new(&given("HOME")?).join(".one/one_auth"));
        given("ONE_AUTH").map(PathBuf::from).or_else(of_home)
    }

    /// Of the content of such a file.
    ///
    /// # Errors
    /// It is no user and password.
    pub fn read(content: &str) -> Result<Self, ManagerError> {
        let line = content.trim();
        let is_login =
            line.split_once(':').is_some_and(|(user, password)| !user.is_empty() && !password.is_empty());
        if !is_login || line.chars().any(char::is_control) {
            return Err(ManagerError::Login(
                "the file with the login of OpenNebula is not one line USER:PASSWORD".to_owned(),
            ));
        }
        Ok(Self(line.to_owned()))
    }
}

/// OpenNebula at one place.
pub struct OpenNebula<T> {
    transport: T,
    login: OneLogin,
    template: String,
    /// What the manager has logged of a machine, if that can be read here.
    logged: Option<Logged>,
}

/// What the manager has logged of a machine; nothing if there is no log.
pub type Logged = Box<dyn Fn(&InstanceId) -> Recorded>;

impl<T: Transport> OpenNebula<T> {
    /// Instances of a template, by its name or its number.
    pub fn new(transport: T, login: OneLogin, template: &str) -> Self {
        Self { transport, login, template: template.to_owned(), logged: None }
    }

    /// Also reads the manager's log. Where its records and its log say the same, the records count.
    #[must_use]
    pub fn with_log(self, logged: Logged) -> Self {
        Self { logged: Some(logged), ..self }
    }

    /// Calls a method with the session and more; its answer, or why it refused.
    fn call(&self, method: &str, more: &[Value<'_>]) -> Result<Reply, (Code, ManagerError)> {
        let other = |e| (Code::Other, e);
        let session = [Value::Text(&self.login.0)];
        let post = Post {
            content_type: "text/xml",
            body: rpc::request(method, session.iter().chain(more)),
            login: Login::InBody,
        };
        let Answer { status, body } = self.transport.post(&post).map_err(other)?;
        if status != 200 {
            let said = format!("status {status} of HTTP: {}", crate::xml::beginning(&body));
            return Err(other(ManagerError::NotUnderstood(said)));
        }
        reply_of(method, &body).map_err(other)?.map_err(|refusal| (refusal.code, refusal.into_error(method)))
    }

    fn ask_for(&self, method: &str, more: &[Value<'_>]) -> Result<Reply, ManagerError> {
        self.call(method, more).map_err(|(_, e)| e)
    }

    /// The number of the template.
    fn template(&self) -> Result<i32, ManagerError> {
        if let Ok(number) = self.template.parse() {
            return Ok(number);
        }
        let all = [Value::Number(ALL), Value::Number(NO_END), Value::Number(NO_END)];
        let pool = self.ask_for("one.templatepool.info", &all)?.text()?;
        template_named(&pool, &self.template)
    }
}

impl<T: Transport> Manager for OpenNebula<T> {
    fn kind(&self) -> ManagerKind {
        ManagerKind::OpenNebula
    }

    fn phases(&self) -> &'static [Phase] {
        &[Phase::Pending, Phase::Transfer, Phase::Boot, Phase::Running, Phase::Shutdown, Phase::Cleanup]
    }

    fn version(&self) -> Result<Option<String>, ManagerError> {
        let version = self.ask_for("one.system.version", &[])?.text()?;
        Ok(Some(crate::xml::beginning(&version)))
    }

    fn ask(&self, token: &Token) -> Result<InstanceId, ManagerError> {
        let template = self.template()?;
        let more = [
            Value::Number(template),
            Value::Text(token.as_str()),
            Value::Truth(false),
            Value::Text(""),
            Value::Truth(false),
        ];
        let number = self.ask_for("one.template.instantiate", &more)?.number()?;
        let id = InstanceId::read(&number.to_string()).filter(|_| number >= 0);
        id.ok_or_else(|| ManagerError::NotUnderstood(format!("{number} is no number of a virtual machine")))
    }

    fn find(&self, token: &Token) -> Result<Option<InstanceId>, ManagerError> {
        let own = [OWN, NO_END, NO_END, NOT_DONE].map(Value::Number);
        let pool = self.ask_for("one.vmpool.info", &own)?.text()?;
        Ok(vms_named(&pool, token.as_str())?.into_iter().next())
    }

    fn look(&self, id: &InstanceId) -> Result<Option<Sight>, ManagerError> {
        match self.call("one.vm.info", &[number_of(id)?]) {
            Ok(reply) => {
                let vm = vm_of(&reply.text()?)?;
                if vm.id != *id {
                    return Err(ManagerError::NotUnderstood(format!("it is about {} and not {id}", vm.id)));
                }
                let mut sight = vm.sight()?;
                if let Some(logged) = &self.logged {
                    sight.recorded = sight.recorded.or(&logged(id));
                }
                Ok(Some(sight))
            }
            Err((Code::NoSuchObject, _)) => Ok(None),
            Err((_, e)) => Err(e),
        }
    }

    fn end(&self, id: &InstanceId, how: Ending) -> Result<(), ManagerError> {
        let number = number_of(id)?;
        let action = match how {
            Ending::Usual => "terminate",
            Ending::AtOnce => "terminate-hard",
        };
        match (how, self.call("one.vm.action", &[Value::Text(action), number])) {
            (_, Ok(_)) => Ok(()),
            // In the middle of a prolog nothing but this ends it.
            (Ending::AtOnce, Err((Code::WrongState, _))) => {
                self.ask_for("one.vm.recover", &[number, Value::Number(DELETE)]).map(drop)
            }
            (_, Err((Code::NoSuchObject, e))) => Err(ManagerError::NotKnown(e.to_string())),
            (_, Err((_, e))) => Err(e),
        }
    }

    fn by_hand(&self, id: &InstanceId) -> String {
        // In the middle of a prolog, a boot or an epilog only the second ends it, which users without the right to administer may not do.
        let url = self.transport.url();
        format!(
            "onevm terminate --hard {id} --endpoint {url} || onevm recover --delete {id} --endpoint {url}"
        )
    }

    fn find_by_hand(&self, token: &Token) -> String {
        format!("onevm list --filter NAME={token} --endpoint {}", self.transport.url())
    }
}

impl<T: Transport> OpenNebula<T> {
    /// Its address.
    pub fn url(&self) -> &ManagerUrl {
        self.transport.url()
    }
}

fn number_of(id: &InstanceId) -> Result<Value<'static>, ManagerError> {
    id.as_str()
        .parse()
        .map(Value::Number)
        .map_err(|_| ManagerError::NotUnderstood(format!("{id} is no number of a virtual machine")))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    struct Told {
        url: ManagerUrl,
        asked: RefCell<Vec<String>>,
        answers: RefCell<Vec<String>>,
    }

    impl Transport for Told {
        fn url(&self) -> &ManagerUrl {
            &self.url
        }

        fn post(&self, post: &Post) -> Result<Answer, ManagerError> {
            self.asked.borrow_mut().push(post.body.clone());
            Ok(Answer { status: 200, body: self.answers.borrow_mut().remove(0) })
        }
    }

    fn one(template: &str, answers: &[String]) -> OpenNebula<Told> {
        let url = "http://m:2633/RPC2".parse().unwrap();
        let told = Told { url, asked: RefCell::default(), answers: RefCell::new(answers.to_vec()) };
        OpenNebula::new(told, OneLogin::read("oneadmin:secret\n").unwrap(), template)
    }

    fn reply(is_done: bool, value: &str, code: i32) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n<methodResponse>\r\n<params>\r\n<param><value><array><data>\r\n\
             <value><boolean>{}</boolean></value>\r\n<value>{value}</value>\r\n<value><i4>{code}</i4></value>\r\n\
             </data></array></value></param>\r\n</params>\r\n</methodResponse>\r\n",
            i32::from(is_done)
        )
    }

    #[test]
    fn an_instance_of_a_template_is_asked_for_by_the_templates_name() {
        let pool = "<string>&lt;VMTEMPLATE_POOL&gt;&lt;VMTEMPLATE&gt;&lt;ID&gt;3&lt;/ID&gt;&lt;NAME&gt;small&lt;/NAME&gt;&lt;/VMTEMPLATE&gt;&lt;/VMTEMPLATE_POOL&gt;</string>";
        let one = one("small", &[reply(true, pool, 0), reply(true, "<i4>42</i4>", 0)]);
        assert_eq!(one.ask(&Token::of(7)).unwrap().as_str(), "42");
        let asked = one.transport.asked.borrow();
        assert!(asked[0].contains("<methodName>one.templatepool.info</methodName>"));
        insta::assert_snapshot!(asked[1], @r#"<?xml version="1.0"?><methodCall><methodName>one.template.instantiate</methodName><params><param><value><string>oneadmin:secret</string></value></param><param><value><i4>3</i4></value></param><param><value><string>nestor-00000000000000000000000000000007</string></value></param><param><value><boolean>0</boolean></value></param><param><value><string></string></value></param><param><value><boolean>0</boolean></value></param></params></methodCall>"#);
    }

    #[test]
    fn what_cannot_be_terminated_is_deleted_when_it_has_to_end_at_once() {
        let wrong = reply(false, "<string>[VirtualMachineAction] wrong state PROLOG</string>", 0x0800);
        let id = InstanceId::read("42").unwrap();
        let at_once = one("3", &[wrong.clone(), reply(true, "<i4>42</i4>", 0)]);
        at_once.end(&id, Ending::AtOnce).unwrap();
        let asked = at_once.transport.asked.borrow();
        assert!(asked[0].contains("<string>terminate-hard</string>"));
        assert!(asked[1].contains("one.vm.recover") && asked[1].contains("<i4>3</i4>"));
        let usual = one("3", &[wrong]);
        assert_eq!(
            usual.end(&id, Ending::Usual).unwrap_err().to_string(),
            "the manager refused one.vm.action: [VirtualMachineAction] wrong state PROLOG (0x800 ACTION)"
        );
    }

    #[test]
    fn the_command_that_ends_a_machine_does_so_in_every_state() {
        let said = one("3", &[]).by_hand(&InstanceId::read("42").unwrap());
        insta::assert_snapshot!(said, @"onevm terminate --hard 42 --endpoint http://m:2633/RPC2 || onevm recover --delete 42 --endpoint http://m:2633/RPC2");
    }

    #[test]
    fn a_machine_that_is_not_there_is_not_known() {
        let none =
            reply(false, "<string>[VirtualMachineInfo] Error getting virtual machine [42].</string>", 0x0400);
        let id = InstanceId::read("42").unwrap();
        assert_eq!(one("3", std::slice::from_ref(&none)).look(&id), Ok(None));
        assert!(matches!(one("3", &[none]).end(&id, Ending::Usual), Err(ManagerError::NotKnown(_))));
    }

    #[test]
    fn a_login_is_one_line_with_both_parts() {
        assert!(OneLogin::read("user:token:with:colons\n").is_ok());
        for text in ["", "user", "user:", ":password", "a:b\nc:d"] {
            assert!(OneLogin::read(text).is_err(), "{text:?}");
        }
        let file = |auth: Option<&str>| {
            OneLogin::file(|name| match name {
                "ONE_AUTH" => auth.map(str::to_owned),
                "HOME" => Some("/home/me".to_owned()),
                _ => None,
            })
        };
        assert_eq!(file(Some("/etc/auth")), Some(PathBuf::from("/etc/auth")));
        assert_eq!(file(None), Some(PathBuf::from("/home/me/.one/one_auth")));
    }
}
