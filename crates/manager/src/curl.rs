//! Requests carried by curl: it speaks TLS, signs for EC2 (Signature Version 4), and keeps to its times. All that is secret goes through a
//! pipe, and nothing of it is among its arguments, where any user of the machine could read it.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;

use nestor_stack::ManagerUrl;

use crate::ManagerError;

/// The program.
pub const PROGRAM: &str = "curl";

/// Seconds until a request without an answer is given up. A manager that is dead is noticed within this time and one period of polling.
pub(crate) const ANSWER_LIMIT_S: u32 = 20;

/// Seconds for the connection alone.
const CONNECT_LIMIT_S: u32 = 10;

/// Bytes of the longest answer that is read. A list of all instances of a user has some kilobytes for each.
pub(crate) const LONGEST_ANSWER: usize = 16 << 20;

/// Bytes of the longest message of the program that is read.
const LONGEST_MESSAGE: u64 = 4096;

/// Signature Version 4 came with 7.75, and headers are signed since 7.86.
const OLDEST: (u32, u32) = (7, 86);

/// How a request says whose it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// In its body, or not at all.
    InBody,
    /// By a signature.
    Signed {
        /// `aws:amz:REGION:SERVICE`.
        provider: String,
        /// `KEY:SECRET`.
        user: String,
        /// Of a role that is taken for some time.
        session_token: Option<String>,
    },
}

/// One request: a POST.
#[derive(Clone, PartialEq, Eq)]
pub struct Post {
    /// What the body is.
    pub content_type: &'static str,
    /// What is sent. It does not begin with `@`, which would name a file.
    pub body: String,
    /// Whose it is.
    pub login: Login,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status of HTTP.
    pub status: u16,
    /// What was sent; bytes that are no UTF-8 are replaced.
    pub body: String,
}

/// Carries requests to one place.
pub trait Transport {
    /// Where that is.
    fn url(&self) -> &ManagerUrl;

    /// Carries a request there, and its answer back, within a bounded time.
    ///
    /// # Errors
    /// Whatever there is instead of an answer.
    fn post(&self, post: &Post) -> Result<Answer, ManagerError>;
}

/// curl as it is.
#[derive(Clone, Debug)]
pub struct Curl {
    url: ManagerUrl,
}

impl Curl {
    /// Carries requests to a place.
    pub fn to(url: ManagerUrl) -> Self {
        Self { url }
    }
}

impl Transport for Curl {
    fn url(&self) -> &ManagerUrl {
        &self.url
    }

    fn post(&self, post: &Post) -> Result<Answer, ManagerError> {
        let mut child = start()?;
        let ran = talk(&mut child, &configuration(&self.url, post));
        if ran.is_err() {
            let _ = child.kill();
        }
        let status = child.wait().map_err(|e| ManagerError::Program(e.to_string()))?;
        let (out, message) = ran?;
        match status.code() {
            Some(0) => answer(&out),
            code => Err(failed(self.url.as_str(), code, &message)),
        }
    }
}

/// In a process group of its own, so that Ctrl-C does not end the request that ends an instance.
fn start() -> Result<Child, ManagerError> {
    let mut command = Command::new(PROGRAM);
    // The first argument: no configuration file of the user's.
    command.arg("--disable").args(["--silent", "--show-error", "--config", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command.spawn().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => ManagerError::NoProgram,
        _ => ManagerError::Program(e.to_string()),
    })
}

/// Sends the configuration, and reads both outputs to their ends, but not more of them than makes sense.
fn talk(child: &mut Child, configuration: &str) -> Result<(Vec<u8>, String), ManagerError> {
    let missing = || ManagerError::Program("it has no pipe".to_owned());
    let mut input = child.stdin.take().ok_or_else(missing)?;
    let output = child.stdout.take().ok_or_else(missing)?;
    let errors = child.stderr.take().ok_or_else(missing)?;
    let said = thread::spawn(move || {
        let mut said = Vec::new();
        let mut errors = errors;
        let read = errors.by_ref().take(LONGEST_MESSAGE).read_to_end(&mut said);
        let _ = io::copy(&mut errors, &mut io::sink());
        read.map(|_| said)
    });
    // One that ends early says why.
    let _ = input.write_all(configuration.as_bytes());
    drop(input);
    let mut out = Vec::new();
    let read = output.take(LONGEST_ANSWER as u64 + 1).read_to_end(&mut out);
    read.map_err(|e| ManagerError::Program(e.to_string()))?;
    if out.len() > LONGEST_ANSWER {
        return Err(ManagerError::TooLong);
    }
    let said = said.join().unwrap_or_else(|_| Ok(Vec::new())).unwrap_or_default();
    Ok((out, String::from_utf8_lossy(&said).trim().to_owned()))
}

/// A configuration file of curl's (curl(1), `--config`).
fn configuration(url: &ManagerUrl, post: &Post) -> String {
    let mut lines = vec![
        option("url", url.as_str()),
        option("header", &format!("Content-Type: {}", post.content_type)),
        option("proto", "=http,https"),
        option("connect-timeout", &CONNECT_LIMIT_S.to_string()),
        option("max-time", &ANSWER_LIMIT_S.to_string()),
        option("max-filesize", &LONGEST_ANSWER.to_string()),
        option("write-out", "\n%{http_code}"),
        option("data-binary", &post.body),
    ];
    if let Login::Signed { provider, user, session_token } = &post.login {
        lines.push(option("aws-sigv4", provider));
        lines.push(option("user", user));
        lines.extend(
            session_token.iter().map(|token| option("header", &format!("X-Amz-Security-Token: {token}"))),
        );
    }
    lines.concat()
}

/// One line, with its value in quotes.
fn option(name: &str, value: &str) -> String {
    let mut line = format!("{name} = \"");
    for c in value.chars() {
        match c {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            c => line.push(c),
        }
    }
    line.push_str("\"\n");
    line
}

/// The last line is the status.
fn answer(out: &[u8]) -> Result<Answer, ManagerError> {
    let text = String::from_utf8_lossy(out);
    let (body, status) = text.rsplit_once('\n').unwrap_or(("", &text));
    let status = status.parse().map_err(|_| ManagerError::NotUnderstood("it has no status".to_owned()))?;
    Ok(Answer { status, body: body.to_owned() })
}

/// By its exit code (curl(1), EXIT CODES).
fn failed(url: &str, code: Option<i32>, message: &str) -> ManagerError {
    let url = url.to_owned();
    let words = message.strip_prefix("curl: ").unwrap_or(message).to_owned();
    let reason = if words.is_empty() { format!("curl ended with {code:?}") } else { words };
    match code {
        // No such name, no such host, and nobody listens.
        Some(5..=7) => ManagerError::Unreachable { url, reason },
        Some(28) => ManagerError::Silent { url },
        Some(63) => ManagerError::TooLong,
        // It does not know an option or the version has no signatures.
        Some(2 | 4) => ManagerError::Program(reason),
        None => ManagerError::Program("it was killed".to_owned()),
        Some(_) => ManagerError::Broken { url, reason },
    }
}

/// The version of the program of this machine, as `curl 7.88.1`, if it is there and can sign.
///
/// # Errors
/// It is missing or too old.
pub fn curl_is_here() -> Result<String, ManagerError> {
    let run = Command::new(PROGRAM).args(["--disable", "--version"]).stdin(Stdio::null()).output();
    let output = run.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => ManagerError::NoProgram,
        _ => ManagerError::Program(e.to_string()),
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().nth(1).unwrap_or_default();
    let number = |place: usize| version.split('.').nth(place).and_then(|part| part.parse().ok());
    match number(0).zip(number(1)) {
        Some(found) if found >= OLDEST => Ok(format!("{PROGRAM} {version}")),
        _ => Err(ManagerError::Program(format!(
            "it is the version \"{version}\", and requests are signed from {}.{} on",
            OLDEST.0, OLDEST.1
        ))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn post(body: &str) -> Post {
        let login = Login::Signed {
            provider: "aws:amz:eu-1:ec2".to_owned(),
            user: "KEY:se\"cret\\".to_owned(),
            session_token: Some("token".to_owned()),
        };
        Post { content_type: "text/xml", body: body.to_owned(), login }
    }

    #[test]
    fn whatever_is_in_a_value_stays_in_its_quotes() {
        let url: ManagerUrl = "http://127.0.0.1:5000/".parse().unwrap();
        insta::assert_snapshot!(configuration(&url, &post("<a>\n\"b\"\\</a>")), @r#"
        url = "http://127.0.0.1:5000/"
        header = "Content-Type: text/xml"
        proto = "=http,https"
        connect-timeout = "10"
        max-time = "20"
        max-filesize = "16777216"
        write-out = "\n%{http_code}"
        data-binary = "<a>\n\"b\"\\</a>"
        aws-sigv4 = "aws:amz:eu-1:ec2"
        user = "KEY:se\"cret\\"
        header = "X-Amz-Security-Token: token"
        "#);
    }

    #[test]
    fn the_status_is_behind_the_body() {
        assert_eq!(answer(b"<a>\n</a>\n200").unwrap(), Answer { status: 200, body: "<a>\n</a>".to_owned() });
        assert_eq!(answer(b"\n503").unwrap(), Answer { status: 503, body: String::new() });
        assert!(answer(b"").is_err() && answer(b"\nabc").is_err());
    }

    #[test]
    fn how_it_failed_is_told_by_the_exit_code() {
        let of = |code| failed("http://m/", Some(code), "curl: (7) Failed to connect");
        assert!(of(7).is_dead_manager() && !of(7).may_be_done());
        assert_eq!(of(28), ManagerError::Silent { url: "http://m/".to_owned() });
        assert!(of(28).is_dead_manager() && of(28).may_be_done());
        assert!(of(52).is_dead_manager() && of(52).may_be_done());
        assert_eq!(of(63), ManagerError::TooLong);
        assert!(of(7).to_string().contains("cannot be reached: (7) Failed to connect"));
    }

    proptest! {
        #[test]
        fn a_value_is_one_line_whatever_is_in_it(value in any::<String>()) {
            let line = option("user", &value);
            prop_assert_eq!(line.matches('\n').count(), 1);
            // Without escaped characters, the only quotes are the two around it.
            let bare = line.replace("\\\\", "").replace("\\\"", "");
            prop_assert_eq!(bare.matches('"').count(), 2);
        }

        #[test]
        fn no_output_makes_it_panic(out in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = answer(&out);
        }
    }
}
