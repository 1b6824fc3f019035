//! Where a stack is built: the value of `--on`.

use std::fmt;
use std::str::FromStr;

use nestor_processor::ProcessorSpeed;

use crate::{ManagerKind, ManagerUrl};

/// Where a stack is built. Results are stored under its text. An emulated host in real time is stored as `emulated`, its
/// name from before virtual time existed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In an emulated host, whose hardware, the disk included, Nestor supplies. Needs no root, touches nothing.
    Emulated(HostTime),
    /// On this machine's own kernel.
    This,
    /// On another machine's own kernel, reached by ssh.
    Ssh(String),
    /// In a virtual machine of this machine that libvirt runs, on its own kernel: by its name.
    Domain(String),
    /// On the kernels of two other machines, reached by ssh, with the wire between them as the link of the stack.
    SshPair {
        /// The machine above the link: the node of a stack with a source.
        client: String,
        /// The machine below it: the repository of a stack with a source; of others it has the medium.
        server: String,
    },
    /// At a manager of a cloud, which starts an instance on whichever of its nodes it likes. Nothing of the stack is built: it is what the
    /// user says of that cloud.
    Manager {
        /// Which interface it has.
        kind: ManagerKind,
        /// Where it answers.
        url: ManagerUrl,
    },
}

impl Place {
    /// The time in which the emulated host runs, if the place has one.
    pub fn host_time(&self) -> Option<HostTime> {
        match self {
            Self::Emulated(time) => Some(*time),
            Self::This | Self::Ssh(_) | Self::Domain(_) | Self::SshPair { .. } | Self::Manager { .. } => None,
        }
    }

    /// Whether the host runs in virtual time, so that measurements repeat.
    pub fn is_in_virtual_time(&self) -> bool {
        self.host_time().is_some_and(HostTime::is_virtual)
    }

    /// The speed of the modelled processor, if that is what the place has.
    pub fn modelled_processor(&self) -> Option<ProcessorSpeed> {
        match self {
            Self::Emulated(HostTime::Virtual(speed)) => Some(*speed),
            Self::Emulated(HostTime::Real)
            | Self::This
            | Self::Ssh(_)
            | Self::Domain(_)
            | Self::SshPair { .. }
            | Self::Manager { .. } => None,
        }
    }

    /// Whether the outermost host is the lab's own virtual machine.
    pub fn is_emulated(&self) -> bool {
        matches!(self, Self::Emulated(_))
    }
}

/// The time that an emulated host lives in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HostTime {
    /// This machine's: how fast the host is depends on this machine and on what else it does.
    #[default]
    Real,
    /// Its own: a fixed number of instructions takes a nanosecond, and its disks follow the same clock.
    Virtual(ProcessorSpeed),
}

impl HostTime {
    /// Virtual time with the default processor.
    pub const VIRTUAL: Self = Self::Virtual(ProcessorSpeed::USUAL);

    /// Whether it is its own.
    pub fn is_virtual(self) -> bool {
        matches!(self, Self::Virtual(_))
    }
}

/// What may be said of an emulated host; each at most once, in any order.
#[derive(Clone, Copy, Default)]
struct EmulatedOptions {
    is_virtual: Option<bool>,
    speed: Option<ProcessorSpeed>,
}

impl EmulatedOptions {
    /// Reads the text after `emulated`; `None` if it is not a list of options. The inner error is about a known option with
    /// an invalid value.
    fn parse(text: &str) -> Option<Result<Self, String>> {
        let mut options = Self::default();
        let list = text.strip_prefix(':').map(|list| list.split(':'));
        if list.is_none() && !text.is_empty() {
            return None;
        }
        for option in list.into_iter().flatten() {
            let is_new = match option.split_once('=')? {
                ("time", "virtual") => options.is_virtual.replace(true).is_none(),
                ("time", "real") => options.is_virtual.replace(false).is_none(),
                ("cpu", speed) => match speed.parse() {
                    Ok(speed) => options.speed.replace(speed).is_none(),
                    Err(e) => return Some(Err(e)),
                },
                _ => return None,
            };
            if !is_new {
                return Some(Err(format!("`emulated{text}` sets an option twice")));
            }
        }
        Some(options.check())
    }

    fn check(self) -> Result<Self, String> {
        match (self.is_virtual, self.speed) {
            (Some(false), Some(speed)) => Err(format!(
                "`cpu={speed}` needs time=virtual: in real time, this machine sets the speed of the processor"
            )),
            _ => Ok(self),
        }
    }

    /// The time that is asked for, if one is: only virtual time has a speed.
    fn time(self) -> Option<HostTime> {
        match (self.is_virtual, self.speed) {
            (Some(false), _) => Some(HostTime::Real),
            (None, None) => None,
            (_, speed) => Some(HostTime::Virtual(speed.unwrap_or_default())),
        }
    }
}

/// A real machine with an option of the emulated host: the machine, and the option.
fn option_of_a_real_machine(text: &str) -> Option<(&str, &str)> {
    if text != "this" && !text.starts_with("this:") && !text.starts_with("ssh:") {
        return None;
    }
    let at = ["time=", "cpu="].iter().filter_map(|option| text.find(&format!(":{option}"))).min()?;
    Some((&text[..at], &text[at + 1..]))
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(options) = text.strip_prefix("emulated").and_then(EmulatedOptions::parse) {
            return options.map(|options| Self::Emulated(options.time().unwrap_or_default()));
        }
        if let Some((place, option)) = option_of_a_real_machine(text) {
            return Err(format!(
                "`{place}` runs in real time on its own processors; `{option}` needs an emulated host: \
                 `emulated:{option}`"
            ));
        }
        if let Some(manager) = at_manager(text) {
            return manager;
        }
        match text {
            "this" => Ok(Self::This),
            _ => in_domain(text).or_else(|| over_ssh(text)).ok_or_else(|| {
                format!(
                    "`{text}` is not a place to run; the places are: emulated, emulated:time=virtual, \
                     emulated:time=real, this, ssh:HOST, ssh:CLIENT,ssh:SERVER, domain:NAME, ec2:URL, opennebula:URL; \
                     in virtual time with another processor: emulated:cpu=4000mips"
                )
            }),
        }
    }
}

/// A domain of libvirt's. Its name is an argument of a program, and no option of it.
fn in_domain(text: &str) -> Option<Place> {
    let name = text.strip_prefix("domain:")?;
    (!name.is_empty() && !name.starts_with('-')).then(|| Place::Domain(name.to_owned()))
}

/// A manager; the inner error is about its address.
fn at_manager(text: &str) -> Option<Result<Place, String>> {
    let (name, url) = text.split_once(':')?;
    let kind = ManagerKind::ALL.into_iter().find(|kind| kind.name() == name)?;
    Some(url.parse().map(|url| Place::Manager { kind, url }))
}

/// One machine, or the client and the server of a link.
fn over_ssh(text: &str) -> Option<Place> {
    let mut hosts = text.split(',').map(|place| {
        place
            .strip_prefix("ssh:")
            .filter(|host| !host.is_empty() && !host.starts_with('-'))
            .map(str::to_owned)
    });
    match (hosts.next()??, hosts.next(), hosts.next()) {
        (host, None, _) => Some(Place::Ssh(host)),
        (client, Some(Some(server)), None) => Some(Place::SshPair { client, server }),
        _ => None,
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Emulated(HostTime::Real) => f.write_str("emulated"),
            Self::Emulated(HostTime::Virtual(ProcessorSpeed::USUAL)) => f.write_str("emulated:time=virtual"),
            Self::Emulated(HostTime::Virtual(speed)) => write!(f, "emulated:time=virtual:cpu={speed}"),
            Self::This => f.write_str("this"),
            Self::Ssh(host) => write!(f, "ssh:{host}"),
            Self::Domain(name) => write!(f, "domain:{name}"),
            Self::SshPair { client, server } => write!(f, "ssh:{client},ssh:{server}"),
            Self::Manager { kind, url } => write!(f, "{kind}:{url}"),
        }
    }
}

/// What `--on` may say: a place, or an emulated host in whichever time is right on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PlaceWish {
    /// An emulated host: in virtual time where KVM is not usable and QEMU can be joined to it, otherwise in real time.
    #[default]
    EmulatedInRightTime,
    /// Only this place.
    Exactly(Place),
}

impl FromStr for PlaceWish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "emulated" => Ok(Self::EmulatedInRightTime),
            _ => text.parse().map(Self::Exactly),
        }
    }
}

impl fmt::Display for PlaceWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmulatedInRightTime => f.write_str("emulated"),
            Self::Exactly(Place::Emulated(HostTime::Real)) => f.write_str("emulated:time=real"),
            Self::Exactly(place) => place.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_printed_as_they_are_read() {
        for text in [
            "emulated",
            "emulated:time=virtual",
            "emulated:time=virtual:cpu=4000mips",
            "this",
            "ssh:storage-1",
            "ssh:me@lab.example",
            "ssh:client-1,ssh:root@storage-1",
            "domain:mail server",
            "ec2:http://127.0.0.1:5000",
            "opennebula:https://one.example:2633/RPC2",
        ] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "ssh:",
            "ssh:-oProxyCommand=x",
            "ssh:client,",
            "ssh:client,server",
            "ssh:client,ssh:-oProxyCommand=x",
            "ssh:client,ssh:server,ssh:third",
            "this,ssh:server",
            "there",
            "domain:",
            "domain:--all",
            "emulated:",
            "emulatedtime=real",
            "emulated:time=virtual,cpu=4000mips",
        ] {
            assert!(text.parse::<Place>().unwrap_err().contains(
                "the places are: emulated, emulated:time=virtual, emulated:time=real, this, ssh:HOST"
            ));
        }
    }

    #[test]
    fn a_manager_has_an_address_without_a_secret() {
        for (text, why) in [
            ("ec2:", "begins with http:// or https://"),
            ("ec2:127.0.0.1:5000", "begins with http:// or https://"),
            ("opennebula:http://oneadmin:secret@host/RPC2", "would be stored with the results"),
        ] {
            let said = text.parse::<PlaceWish>().unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn a_real_machine_has_no_virtual_time_and_the_message_says_who_has() {
        for text in ["this:time=virtual", "ssh:foo:time=virtual", "ssh:me@foo:cpu=4000mips"] {
            let said = text.parse::<Place>().unwrap_err();
            assert!(said.contains("needs an emulated host: `emulated:"), "{said}");
        }
        assert!("ssh:time".parse::<Place>().is_ok(), "a host may be called so");
    }

    #[test]
    fn a_speed_means_virtual_time_and_the_usual_one_is_not_written() {
        for (text, written) in [
            ("emulated:cpu=4000mips", "emulated:time=virtual:cpu=4000mips"),
            ("emulated:cpu=4000mips:time=virtual", "emulated:time=virtual:cpu=4000mips"),
            ("emulated:cpu=1000mips", "emulated:time=virtual"),
            ("emulated:time=virtual:cpu=1000mips", "emulated:time=virtual"),
            ("emulated:time=real", "emulated"),
        ] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), written);
            let wish: PlaceWish = text.parse().unwrap();
            assert!(matches!(wish, PlaceWish::Exactly(_)), "{text}");
        }
        let fast: Place = "emulated:cpu=4000mips".parse().unwrap();
        assert_eq!(fast.modelled_processor().map(ProcessorSpeed::mips), Some(4000));
        assert!(fast.is_in_virtual_time() && fast.is_emulated());
        assert_eq!(Place::Emulated(HostTime::Real).modelled_processor(), None);
    }

    #[test]
    fn speeds_that_are_not_possible_are_refused_with_the_reason() {
        for (text, why) in [
            ("emulated:cpu=1500mips", "in thousands, up to 16000mips"),
            ("emulated:time=virtual:cpu=fast", "`fast` is not a speed"),
            ("emulated:time=real:cpu=4000mips", "needs time=virtual"),
            ("emulated:cpu=1000mips:time=real", "needs time=virtual"),
            ("emulated:cpu=2000mips:cpu=4000mips", "sets an option twice"),
        ] {
            for refusal in [text.parse::<Place>().unwrap_err(), text.parse::<PlaceWish>().unwrap_err()] {
                assert!(refusal.contains(why), "{refusal}");
            }
        }
    }

    #[test]
    fn wishes_are_printed_as_they_are_read() {
        for text in [
            "emulated",
            "emulated:time=virtual",
            "emulated:time=virtual:cpu=2000mips",
            "emulated:time=real",
            "this",
            "ssh:storage-1",
        ] {
            assert_eq!(text.parse::<PlaceWish>().unwrap().to_string(), text);
        }
        assert_eq!("emulated".parse::<PlaceWish>().unwrap(), PlaceWish::default());
        assert!("there".parse::<PlaceWish>().is_err());
    }
}
