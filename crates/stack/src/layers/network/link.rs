//! `link`: a network cable between the machine below and another beside it.

use super::super::options::{AVAILABLE, CPUS, MEMORY, check_available};
use crate::{
    BitRate, Bytes, Conflict, Layer, LayerDefinition, LayerSpec, OptionKind, OptionSpec, Percentage,
    SizeRule, TimeSpan,
};

const CUT_AFTER: &str = "cut-after";
const CUT_FOR: &str = "cut-for";

pub(super) static LAYER: LayerSpec = LayerSpec {
    name: "link",
    summary: "network link: what this machine has, for another machine beside it",
    options: &[
        OptionSpec {
            name: "rate",
            summary: "how fast each direction carries frames",
            kind: OptionKind::BitRate { min: BitRate(10_000), max: BitRate(100_000_000_000) },
            default: Some("1gbit"),
        },
        OptionSpec {
            name: "delay",
            summary: "how long a frame is under way in each direction, beside the time that the rate takes",
            kind: OptionKind::TimeSpan { min: TimeSpan(1_000), max: TimeSpan(10_000_000_000) },
            default: Some("100us"),
        },
        OptionSpec {
            name: "mtu",
            summary: "largest packet, in bytes; 9000 are jumbo frames",
            // From what every IPv4 host takes (RFC 791, section 3.1) to the longest IPv4 packet.
            kind: OptionKind::Number { min: 576, max: 65_535 },
            default: Some("1500"),
        },
        OptionSpec {
            name: "queue",
            summary: "how many bytes an interface accepts ahead of the wire; the machine keeps the rest in its own memory",
            kind: OptionKind::Size { min: Bytes::kib(2), max: Bytes::mib(64), rule: SizeRule::MultipleOf(1) },
            // The rings of network cards have some hundred frames.
            default: Some("256k"),
        },
        OptionSpec {
            name: "loss",
            summary: "share of the frames that is lost in each direction",
            kind: OptionKind::Percentage { max: Percentage(500_000) },
            default: Some("0"),
        },
        OptionSpec {
            name: CUT_AFTER,
            summary: "when the link is cut, counted from the first frame that has its timing: all frames are lost then",
            kind: OptionKind::TimeSpan { min: TimeSpan(1_000_000), max: TimeSpan(3_600_000_000_000) },
            default: None,
        },
        OptionSpec {
            name: CUT_FOR,
            summary: "how long it is cut",
            kind: OptionKind::TimeSpan { min: TimeSpan(1_000_000), max: TimeSpan(3_600_000_000_000) },
            default: None,
        },
        OptionSpec { summary: "memory of the machine beside", ..MEMORY },
        OptionSpec {
            summary: "how much of its memory the machine beside has for programs and the page cache when the stack is built; the \
                      rest is taken up (unset: what its kernel leaves)",
            ..AVAILABLE
        },
        OptionSpec { summary: "processors of the machine beside", ..CPUS },
    ],
    definition: LayerDefinition::Link,
    packages: &["iproute2"],
    check,
    not_buildable: None,
};

/// What an Ethernet frame has beside its packet: 14 bytes before it and a checksum of 4 behind it (IEEE 802.3, clause 3).
const FRAME_BYTES: u64 = 18;

/// The options of a link, typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOptions {
    /// How fast each direction carries frames.
    pub rate: BitRate,
    /// How long a frame is under way in each direction, beside the time that the rate takes.
    pub delay: TimeSpan,
    /// Largest packet, in bytes.
    pub mtu: u16,
    /// How many bytes of frames wait at each end at most.
    pub queue: Bytes,
    /// Share of the frames that is lost in each direction.
    pub loss: Percentage,
    /// When all frames are lost; `None` for never.
    pub cut: Option<LinkCut>,
    /// Memory of the machine beside.
    pub memory: Bytes,
    /// What programs and the page cache of the machine beside have of its memory; `None` for what its kernel leaves.
    pub available: Option<Bytes>,
    /// Processors of the machine beside.
    pub cpus: u32,
}

/// A time in which a link is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCut {
    /// When it begins, after the first frame that is measured.
    pub after: TimeSpan,
    /// How long it is.
    pub lasts: TimeSpan,
}

impl Layer {
    /// The options of `link`; `None` for other layers.
    pub fn link(&self) -> Option<LinkOptions> {
        let LayerDefinition::Link = self.definition() else { return None };
        Some(LinkOptions {
            rate: self.value("rate")?,
            delay: self.value("delay")?,
            mtu: self.value("mtu")?,
            queue: self.size("queue")?,
            loss: self.value("loss")?,
            cut: self
                .value(CUT_AFTER)
                .zip(self.value(CUT_FOR))
                .map(|(after, lasts)| LinkCut { after, lasts }),
            memory: self.size("memory")?,
            available: self.size(AVAILABLE.name),
            cpus: self.value("cpus")?,
        })
    }
}

/// The default of an option of `link`.
///
/// # Panics
///
/// If it has no such option, or that no default.
pub fn link_default(option: &str) -> &'static str {
    LAYER.option(option).and_then(|option| option.default).expect("a link has the option, and it a default")
}

/// An interface takes whole frames, and a machine has no more memory than it has.
fn check(layer: &Layer, _below: Option<&Layer>) -> Result<(), Conflict> {
    let Some(options) = layer.link() else { return Ok(()) };
    check_available("machine", options.memory, options.available)?;
    if let [Some(given), None] | [None, Some(given)] =
        [CUT_AFTER, CUT_FOR].map(|option| layer.option(option).map(|_| option))
    {
        let other = if given == CUT_FOR { CUT_AFTER } else { CUT_FOR };
        return Err(Conflict {
            option: Some(given),
            message: format!("{given} needs {other} beside it: a cut has a beginning and a length"),
            help: format!("write both, as in link:{CUT_AFTER}=1s:{CUT_FOR}=2s"),
        });
    }
    let frame = Bytes(u64::from(options.mtu) + FRAME_BYTES);
    if options.queue >= frame {
        return Ok(());
    }
    Err(Conflict {
        option: Some("queue"),
        message: format!("a queue of {} has no room for a frame with mtu={}", options.queue, options.mtu),
        help: format!("use queue={frame} or more, or a smaller mtu"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_has_a_beginning_and_a_length() {
        let cut = Layer::parse("link:cut-for=2s:cut-after=1s").unwrap();
        cut.check().unwrap();
        assert_eq!(cut.to_string(), "link:cut-after=1s:cut-for=2s");
        let expected = LinkCut { after: TimeSpan(1_000_000_000), lasts: TimeSpan(2_000_000_000) };
        assert_eq!(cut.link().unwrap().cut, Some(expected));
        assert_eq!(Layer::parse("link").unwrap().link().unwrap().cut, None);
        for (half, other) in [("cut-after", "cut-for"), ("cut-for", "cut-after")] {
            let layer = Layer::parse(&format!("link:{half}=1s")).unwrap();
            let said = layer.check().unwrap_err().to_string();
            assert!(said.contains(&format!("{half} needs {other}")), "{said}");
        }
    }
}
