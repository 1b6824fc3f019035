//! An agent inside a domain of the user's that runs: its stream is a port that is plugged in for it and unplugged again, and the guest agent of
//! QEMU starts it. The domain needs no network, and nothing of its own is changed.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::connection::{URI_VARIABLE, Uri};
use super::live::LiveDevice;
use super::xml::Element;
use super::{live, virsh};
use crate::agent::process::{OWN_BINARY, Spawner};
use crate::refusal::{Cause, Refusal};
use crate::transport::{AGENT_COMMAND, TAKE_DOWN_LIMIT};

/// The port's name inside.
const PORT: &str = "nestor.domain";

/// What libvirt calls it; names that users may give begin so (<https://libvirt.org/formatdomain.html#devices>).
const ALIAS: &str = "ua-nestor-domain";

/// How long the port may take to be gone.
const UNPLUG_LIMIT: Duration = Duration::from_secs(20);

/// How often it is looked whether something has ended.
const POLL: Duration = Duration::from_millis(200);

/// Exit codes of the script inside, and what they mean.
const FAULTS: [(i64, &str); 3] = [
    (3, "the port of the agent did not appear in it; it needs a kernel with virtio_console"),
    (4, "no directory could be made in its /var/tmp"),
    (5, "the program did not arrive whole in it"),
];

/// The states of a domain that `virsh domstate` names so (`virshDomainStateToString` in tools/virsh-domain-monitor.c).
const RUNNING: &str = "running";
const PAUSED: &str = "paused";

/// A domain that runs, and its port for the agent, which is unplugged when this is dropped.
struct Domain<'a> {
    name: &'a str,
    uri: Uri,
    spawner: Spawner,
    has_port: bool,
}

/// Starts an agent in a domain, and passes bytes between it and this process until `input` ends; then the agent takes everything down.
///
/// # Errors
/// libvirt, the domain or its guest agent is not there or does not answer, or the agent did not start.
pub fn serve(
    name: &str,
    mut input: impl Read + Send + 'static,
    mut output: impl Write + Send + 'static,
) -> Result<(), Refusal> {
    let mut domain =
        Domain { name, uri: Uri::here(Path::new("/"))?, spawner: Spawner::new(), has_port: false };
    domain.uri.make_ready(&domain.spawner)?;
    domain.must_be_usable()?;
    let program = std::fs::read(OWN_BINARY)
        .map_err(|e| Refusal::of_io("the program could not read itself to copy it into the domain", &e))?;
    let mut stream = domain.plug_port()?;
    let agent = domain.start(&program)?;
    let lost = |e: io::Error| Refusal::of_io(&format!("the port of the domain {name} broke"), &e);
    // A script that ends before it has read all of it has an exit code for that.
    let _ = stream.write_all(&program);
    let (mut from_agent, mut to_agent) =
        (stream.try_clone().map_err(lost)?, stream.try_clone().map_err(lost)?);
    // It is left to itself when the stream ends from the other side; the process ends then.
    std::thread::spawn(move || {
        let _ = copy(&mut input, &mut to_agent);
        // The end of its input is what an agent ends at.
        let _ = to_agent.shutdown(Shutdown::Both);
    });
    let _ = copy(&mut from_agent, &mut output);
    let _ = stream.shutdown(Shutdown::Both);
    domain.await_end(agent)
}

/// Passes bytes on at once.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            bytes => to.write_all(&buffer[..bytes]).and_then(|()| to.flush())?,
        }
    }
}

impl Domain<'_> {
    fn virsh(&self, words: &[&str]) -> Result<String, Refusal> {
        virsh::run(&self.spawner, &self.uri, words)
    }

    /// Only one that runs and has a guest agent that answers can be used; nothing is started for it.
    fn must_be_usable(&self) -> Result<(), Refusal> {
        let (name, uri) = (self.name, &self.uri);
        let state = self.virsh(&["domstate", name]).map_err(|e| {
            let help = format!(
                "`virsh --connect {uri} list --all` shows them, {URI_VARIABLE} names another libvirt"
            );
            let Refusal { cause, message } = e.within(&format!("there is no domain {name} at {uri}"));
            Refusal::new(cause, format!("{message}; {help}"))
        })?;
        if state != RUNNING {
            let command = if state == PAUSED { "resume" } else { "start" };
            let message = format!(
                "the domain {name} does not run ({state}), and Nestor does not start what is yours: `virsh --connect {uri} {command} {name}`"
            );
            return Err(Refusal::new(Cause::NotThere, message));
        }
        self.ask_guest("guest-ping", &json!({})).map_err(|e| {
            let help = "install qemu-guest-agent in it, and give it the channel org.qemu.guest_agent.0";
            let Refusal { cause, message } =
                e.within(&format!("the guest agent in the domain {name} does not answer"));
            Refusal::new(cause, format!("{message}; {help}, or use `--on ssh:HOST`"))
        })?;
        if self.has_port_of_run()? {
            let message = format!(
                "another run uses the domain {name}, or was killed in it: `virsh --connect {uri} detach-device-alias {name} {ALIAS}` \
                 removes what it left"
            );
            return Err(Refusal::new(Cause::InUse, message));
        }
        Ok(())
    }

    /// Whether the domain has the port of a run, of this or of another.
    fn has_port_of_run(&self) -> Result<bool, Refusal> {
        let is_it = |device: &LiveDevice| matches!(device, LiveDevice::Port { alias: Some(alias), .. } if alias == ALIAS);
        Ok(self.devices()?.iter().any(is_it))
    }

    fn devices(&self) -> Result<Vec<LiveDevice>, Refusal> {
        live::devices(&self.spawner, &self.uri, self.name)
    }

    /// Plugs the port in; the end of it that is here. libvirt decides where its socket is, so that QEMU may use it.
    fn plug_port(&mut self) -> Result<UnixStream, Refusal> {
        let port = Element::new("channel").with("type", "unix").holding([
            Element::new("source").with("mode", "bind"),
            Element::new("target").with("type", "virtio").with("name", PORT),
            Element::new("alias").with("name", ALIAS),
        ]);
        let file =
            described(&port).map_err(|e| Refusal::of_io("the port could not be described to libvirt", &e))?;
        self.has_port = true;
        self.virsh(&["attach-device", self.name, &file.path().display().to_string(), "--live"])?;
        let path = self.devices()?.into_iter().find_map(socket_of_port).ok_or_else(|| {
            Refusal::new(
                Cause::Other,
                format!("libvirt does not say where the port of the domain {} is", self.name),
            )
        })?;
        UnixStream::connect(&path).map_err(|e| {
            Refusal::of_io(&format!("the port's socket {} could not be opened", path.display()), &e)
        })
    }

    /// Starts the script that takes the program from the port and runs it: its number inside.
    fn start(&self, program: &[u8]) -> Result<i64, Refusal> {
        let script = script(program);
        let arguments = json!({ "path": "/bin/sh", "arg": ["-c", script], "capture-output": false });
        let said = self.ask_guest("guest-exec", &arguments)?;
        said["pid"].as_i64().ok_or_else(|| self.not_understood(&said))
    }

    /// Waits for the end of what was started, whose stream has ended.
    fn await_end(&self, program: i64) -> Result<(), Refusal> {
        let deadline = Instant::now() + TAKE_DOWN_LIMIT;
        loop {
            let said = self.ask_guest("guest-exec-status", &json!({ "pid": program }))?;
            if said["exited"].as_bool().ok_or_else(|| self.not_understood(&said))? {
                return self.ended(&said);
            }
            if Instant::now() >= deadline {
                let message = format!("the agent in the domain {} did not end", self.name);
                return Err(Refusal::new(Cause::MachineSilent, message));
            }
            std::thread::sleep(POLL);
        }
    }

    fn ended(&self, said: &Value) -> Result<(), Refusal> {
        let code = said["exitcode"].as_i64();
        let Some((_, fault)) = FAULTS.into_iter().find(|(fault, _)| Some(*fault) == code) else {
            return Ok(());
        };
        Err(Refusal::new(
            Cause::NotStarted,
            format!("no agent could be started in the domain {}: {fault}", self.name),
        ))
    }

    /// Asks QEMU's guest agent.
    fn ask_guest(&self, command: &str, arguments: &Value) -> Result<Value, Refusal> {
        let request = json!({ "execute": command, "arguments": arguments }).to_string();
        let said = self.virsh(&["qemu-agent-command", self.name, &request, "--timeout", "20"])?;
        let answer: Value = serde_json::from_str(&said).unwrap_or_default();
        match answer.get("return") {
            Some(value) => Ok(value.clone()),
            None => Err(self.not_understood(&answer)),
        }
    }

    fn not_understood(&self, said: &Value) -> Refusal {
        let message = format!("the guest agent in the domain {} answers something else: {said}", self.name);
        Refusal::new(Cause::Other, message)
    }

    fn unplug_port(&self) -> Result<(), Refusal> {
        let deadline = Instant::now() + UNPLUG_LIMIT;
        loop {
            let asked = self.virsh(&["detach-device-alias", self.name, ALIAS, "--live"]);
            if !self.has_port_of_run()? {
                return Ok(());
            }
            if Instant::now() >= deadline {
                asked?;
                return Err(Refusal::new(Cause::MachineSilent, "the guest does not release it".to_owned()));
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Domain<'_> {
    fn drop(&mut self) {
        if !self.has_port {
            return;
        }
        if let Err(e) = self.unplug_port() {
            nestor_terminal::errln!(
                "warning: the port of the agent is still in the domain {name}: {e}; run `virsh --connect {} detach-device-alias {name} {ALIAS}`",
                self.uri,
                name = self.name
            );
        }
    }
}

fn described(element: &Element) -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(element.to_string().as_bytes())?;
    Ok(file)
}

/// Where libvirt has put the socket of the port, if this is the port.
fn socket_of_port(device: LiveDevice) -> Option<PathBuf> {
    match device {
        LiveDevice::Port { name, socket, .. } if name == PORT => socket,
        _ => None,
    }
}

/// Takes the program from the port, looks whether it is whole, runs it on the port, and removes it; the agent's work directory is in `/var/tmp`, and
/// nothing is removed of it that is not empty. The kernel knows the port before any program
/// has made a link to it.
fn script(program: &[u8]) -> String {
    let (bytes, sha256) = (program.len(), hex::encode(Sha256::digest(program)));
    format!(
        r#"umask 077; unset HOME XDG_CACHE_HOME NESTOR_WORK; p=; for i in 1 2 3 4 5 6 7 8 9 10; do p=$(grep -lx {PORT} /sys/class/virtio-ports/*/name 2>/dev/null | head -n 1); test -n "$p" && break; sleep 1; done; test -n "$p" || exit 3; p=${{p%/name}}; exec 3<>"/dev/${{p##*/}}"; t=$(mktemp -d /var/tmp/nestor.XXXXXXXXXX) || exit 4; trap 'rm -f "$t/nestor"; rmdir "$t" "/var/tmp/nestor-$(id -u)" 2>/dev/null' EXIT; head -c {bytes} <&3 >"$t/nestor"; test "$(sha256sum <"$t/nestor")" = "{sha256}  -" || exit 5; chmod 700 "$t/nestor"; "$t/nestor" {AGENT_COMMAND} <&3 >&3"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_that_of_the_port() {
        let port = |name: &str| LiveDevice::Port {
            name: name.to_owned(),
            alias: None,
            socket: Some(PathBuf::from("/run/a")),
        };
        assert_eq!(socket_of_port(port(PORT)), Some(PathBuf::from("/run/a")));
        assert_eq!(socket_of_port(port("org.qemu.guest_agent.0")), None);
    }

    #[test]
    fn the_script_names_what_has_to_arrive() {
        let script = script(b"abc");
        assert!(script.contains("head -c 3 "), "{script}");
        assert!(
            script.contains("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            "{script}"
        );
        assert!(FAULTS.iter().all(|(code, _)| script.contains(&format!("exit {code}"))), "{script}");
    }
}
