//! XML-RPC as OpenNebula uses it: each method takes the session and a few values, and answers with a list of whether it was done, a value
//! or the message, and an error code.

use roxmltree::Node;

use crate::ManagerError;
use crate::xml::{at, beginning, children, parse};

/// A value of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Text(&'a str),
    Number(i32),
    Truth(bool),
}

/// A request.
pub(super) fn request<'a>(method: &str, values: impl Iterator<Item = &'a Value<'a>>) -> String {
    let parameter = |value: &Value<'_>| {
        let value = match value {
            Value::Text(text) => format!("<string>{}</string>", escaped(text)),
            Value::Number(number) => format!("<i4>{number}</i4>"),
            Value::Truth(truth) => format!("<boolean>{}</boolean>", u8::from(*truth)),
        };
        format!("<param><value>{value}</value></param>")
    };
    let parameters: String = values.map(parameter).collect();
    format!(
        "<?xml version=\"1.0\"?><methodCall><methodName>{method}</methodName><params>{parameters}</params></methodCall>"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// What a method answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A document, or words.
    Text(String),
    /// The number of an object.
    Number(i64),
}

impl Reply {
    pub(super) fn text(self) -> Result<String, ManagerError> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Number(number) => {
                Err(ManagerError::NotUnderstood(format!("it is the number {number} and no document")))
            }
        }
    }

    pub(super) fn number(self) -> Result<i64, ManagerError> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Text(text) => {
                Err(ManagerError::NotUnderstood(format!("it is no number: {}", beginning(&text))))
            }
        }
    }
}

/// Why a method was not done (`Request::ErrorCode` in OpenNebula's include/Request.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// There is no such object.
    NoSuchObject,
    /// Not in this state.
    WrongState,
    /// Anything else, or something that is no answer of a method.
    Other,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub code: Code,
    /// Its number.
    pub number: i64,
    /// In words.
    pub message: String,
}

impl Refusal {
    pub(super) fn into_error(self, method: &str) -> ManagerError {
        let name = match self.number {
            0x0100 => " AUTHENTICATION",
            0x0200 => " AUTHORIZATION",
            0x0400 => " NO_EXISTS",
            0x0800 => " ACTION",
            0x1000 => " XML_RPC_API",
            0x2000 => " INTERNAL",
            0x4000 => " ALLOCATE",
            0x8000 => " LOCKED",
            0x1_0000 => " REPLICATION",
            _ => "",
        };
        let code = format!("0x{:x}{name}", self.number);
        ManagerError::Refused { action: method.to_owned(), code, message: self.message, request: None }
    }
}

fn value_of(value: Node<'_, '_>) -> Option<Reply> {
    let Some(typed) = value.children().find(Node::is_element) else {
        // Without a type it is a string.
        return Some(Reply::Text(value.text().unwrap_or_default().to_owned()));
    };
    let text = typed.text().unwrap_or_default();
    match typed.tag_name().name() {
        "string" => Some(Reply::Text(text.to_owned())),
        "int" | "i4" | "i8" | "boolean" => text.trim().parse().ok().map(Reply::Number),
        _ => None,
    }
}

fn not_understood(what: &str, body: &str) -> ManagerError {
    ManagerError::NotUnderstood(format!("{what}: {}", beginning(body)))
}

/// What a method answered, or why it refused.
///
/// # Errors
/// It is no answer of a method of OpenNebula.
pub fn reply_of(method: &str, body: &str) -> Result<Result<Reply, Refusal>, ManagerError> {
    let document = parse(body)?;
    let root = document.root_element();
    if at(root, &["fault"]).is_some() {
        let words: Vec<&str> =
            root.descendants().filter(Node::is_text).filter_map(|node| node.text()).collect();
        return Err(not_understood(&format!("{method} is a fault"), &words.join(" ")));
    }
    let data = at(root, &["params", "param", "value", "array", "data"]);
    let data = data.ok_or_else(|| not_understood("it is no list of values", body))?;
    let mut values = children(data, "value").map(value_of);
    let mut next = || values.next().flatten();
    let is_done = match next() {
        Some(Reply::Number(number)) => number != 0,
        _ => return Err(not_understood("it does not say whether it was done", body)),
    };
    let value = next().ok_or_else(|| not_understood("it has no value", body))?;
    if is_done {
        return Ok(Ok(value));
    }
    let number = match next() {
        Some(Reply::Number(number)) => number,
        _ => 0,
    };
    let code = match number {
        0x0400 => Code::NoSuchObject,
        0x0800 => Code::WrongState,
        _ => Code::Other,
    };
    let message = match value {
        Reply::Text(text) => beginning(&text),
        Reply::Number(number) => number.to_string(),
    };
    Ok(Err(Refusal { code, number, message }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::xml::tests::mangled;

    const DONE: &str = "<methodResponse><params><param><value><array><data><value><boolean>1</boolean></value>\
                        <value><i4>7</i4></value><value><i4>0</i4></value></data></array></value></param></params></methodResponse>";

    #[test]
    fn a_value_without_a_type_is_a_string() {
        let plain = DONE.replace("<i4>7</i4>", "6.6.3");
        assert_eq!(reply_of("m", &plain).unwrap().unwrap(), Reply::Text("6.6.3".to_owned()));
        assert_eq!(reply_of("m", DONE).unwrap().unwrap(), Reply::Number(7));
    }

    #[test]
    fn a_fault_is_no_refusal() {
        let fault = "<methodResponse><fault><value><struct><member><name>faultCode</name><value><i4>-506</i4></value></member>\
                     <member><name>faultString</name><value><string>Method 'm' not defined</string></value></member></struct></value></fault></methodResponse>";
        let said = reply_of("m", fault).unwrap_err().to_string();
        assert!(said.contains("m is a fault: faultCode -506 faultString Method 'm' not defined"), "{said}");
    }

    #[test]
    fn what_is_in_a_text_stays_in_it() {
        let said = request("m", [Value::Text("a<b>&c")].iter());
        assert!(said.contains("<string>a&lt;b&gt;&amp;c</string>"));
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(at in 0..DONE.len(), byte in any::<u8>(), cut in 0..DONE.len()) {
            for text in mangled(DONE, at, byte, cut) {
                let _ = reply_of("m", &text);
            }
        }
    }
}
