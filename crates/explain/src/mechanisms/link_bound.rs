//! The link is the limit: its rate, the time that frames are under way, or frames that are lost.

use nestor_text::units;

use super::Mechanism;
use crate::advice::{Proposal, has, has_time_of_files, is_link, is_network_file_system, is_network_mount};
use crate::case::{Case, Left, finding};
use crate::evidence::{Evidence, Part};
use crate::explain::NAMED_FROM;
use crate::finding::{Finding, MechanismName, Number};
use crate::network::{LinkFigures, NetworkEvidence};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::LinkBound,
    summary: "the link's rate, the delay of each way there and back, or waiting for lost frames takes the time",
    acts_in: |stack| has(stack, |layer| layer.link().is_some()),
    find,
};

/// First what only the link fills; then what the medium does while the link carries something.
const PARTS: [Part; 9] = [
    Part::Idle,
    Part::Data,
    Part::DataReadForWrite,
    Part::ImageFormat,
    Part::TopJournal,
    Part::TopMetadata,
    Part::HostJournal,
    Part::HostMetadata,
    Part::Flush,
];

/// What of a link takes the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Bytes over the rate of the direction that has more of them.
    Rate,
    /// Ways there and back, one after the other.
    Delay,
    /// Frames that were lost, until their data was sent again.
    Loss,
}

impl Cause {
    const ALL: [Self; 3] = [Self::Rate, Self::Delay, Self::Loss];

    /// Share of the measured time from which on it is taken for the limit. What is lost holds up everything behind it, so each such time counts.
    const fn limit(self) -> f64 {
        match self {
            Self::Rate | Self::Delay => 0.5,
            Self::Loss => NAMED_FROM,
        }
    }

    /// Time that what was sent takes of a link of such figures, ns.
    fn time_ns(self, sent: &NetworkEvidence, figures: LinkFigures) -> f64 {
        match self {
            Self::Rate => sent.busiest_bytes() * 8e9 / figures.rate_bits_per_s.max(1.0),
            Self::Delay => sent.rounds() * 2.0 * figures.delay_ns,
            // Another link loses others.
            Self::Loss => sent.recovery_ns.min(sent.elapsed_ns),
        }
    }

    /// Time that it took of its own link, ns; 0 where the link's figures are not known.
    fn own_time_ns(self, sent: &NetworkEvidence) -> f64 {
        sent.figures.map_or(0.0, |figures| self.time_ns(sent, figures))
    }

    /// Its share of the measured time.
    fn share(self, e: &Evidence) -> f64 {
        busiest(e, self).map_or(0.0, |sent| self.own_time_ns(sent) / sent.elapsed_ns.max(1.0))
    }

    /// Time for each operation that is due to the link's figures, not to what was sent, ns: that of the same calls over the baseline's link
    /// is taken off.
    fn more_ns(self, case: &Case<'_>) -> f64 {
        let here = busiest(case.here, self);
        match (here, case.baseline.map(|baseline| (baseline, busiest(baseline, self)))) {
            (Some(sent), Some((baseline, Some(other)))) if self == Self::Loss => {
                case.here.per_operation(self.own_time_ns(sent))
                    - baseline.per_operation(self.own_time_ns(other))
            }
            (Some(sent), Some((_, Some(NetworkEvidence { figures: Some(figures), .. })))) => {
                case.here.per_operation(self.own_time_ns(sent) - self.time_ns(sent, *figures))
            }
            (Some(sent), _) => case.here.per_operation(self.own_time_ns(sent)),
            (None, Some((baseline, Some(sent)))) => -baseline.per_operation(self.own_time_ns(sent)),
            (None, _) => 0.0,
        }
    }
}

/// The network of which a link's figure takes most.
fn busiest(e: &Evidence, cause: Cause) -> Option<&NetworkEvidence> {
    let known = e.networks.iter().filter(|network| network.figures.is_some());
    known.max_by(|a, b| cause.own_time_ns(a).total_cmp(&cause.own_time_ns(b)))
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let is_limit = |cause: &Cause| {
        let slower = if cause.more_ns(case) < 0.0 { case.baseline? } else { case.here };
        (cause.share(slower) >= cause.limit()).then_some((*cause, slower))
    };
    let limits = Cause::ALL.iter().filter_map(is_limit);
    let (cause, slower) =
        limits.max_by(|a, b| a.0.more_ns(case).abs().total_cmp(&b.0.more_ns(case).abs()))?;
    // Whatever the medium does meanwhile, an operation takes no less than what the link takes for it.
    let effect = left.claim_of(&PARTS, cause.more_ns(case));
    if effect == 0.0 {
        return None;
    }
    let link = busiest(slower, cause)?;
    let mut found = finding(MechanismName::LinkBound, &link.link, effect, words(cause, slower, link)?);
    found.numbers = numbers(case);
    found.advice = advice(cause, case);
    Some(found)
}

/// What of the link is the limit, and by how much.
fn words(cause: Cause, slower: &Evidence, link: &NetworkEvidence) -> Option<String> {
    let figures = link.figures?;
    let share = units::percent(cause.share(slower).min(1.0));
    Some(match cause {
        Cause::Rate => format!(
            "the rate is the limit: the link carries {:.1} Mbit/s for {share} of the time",
            figures.rate_bits_per_s / 1e6
        ),
        Cause::Delay => format!(
            "the delay is the limit: {:.2} ways there and back for an operation, one after the other, of {:.2} ms each are {share} \
             of the time",
            slower.per_operation(link.rounds()),
            2.0 * figures.delay_ns / 1e6
        ),
        Cause::Loss => format!(
            "lost frames are the limit: waiting until what was in {} is sent again is {share} of the time",
            units::plural_u64(link.lost_frames as u64, "lost frame", "lost frames")
        ),
    })
}

fn numbers(case: &Case<'_>) -> Vec<Number> {
    vec![
        case.number("bytes over the link", "KiB per operation", |e| {
            e.over_networks(NetworkEvidence::busiest_bytes) / 1024.0
        }),
        case.number("time of these bytes at its rate", "% of the time", |e| Cause::Rate.share(e) * 100.0),
        case.number("calls or requests one after the other", "per operation", |e| {
            e.over_networks(NetworkEvidence::rounds)
        }),
        case.number("time of their delays", "% of the time", |e| Cause::Delay.share(e) * 100.0),
        case.number("time until lost frames were sent again", "% of the time", |e| {
            Cause::Loss.share(e) * 100.0
        }),
    ]
}

fn advice(cause: Cause, case: &Case<'_>) -> Option<String> {
    match cause {
        Cause::Loss => case.advice(&[
            Proposal::less("a link that loses less (loss=)", is_link, "loss"),
            Proposal::general(
                "more operations at once, so that acknowledgements of later data tell of a loss before a timer does",
            ),
        ]),
        Cause::Rate => case.advice(&[
            Proposal::more("a faster link (rate=)", is_link, "rate"),
            Proposal::in_stacks(
                "fewer bytes over it: a file system on the side that uses the data",
                is_network_file_system,
            ),
        ]),
        Cause::Delay => case.advice(&[
            Proposal::less("a nearer server (delay=)", is_link, "delay"),
            Proposal::general("more operations at once"),
            Proposal::more("larger reads (rsize=)", is_network_mount, "rsize"),
            Proposal::more("larger writes (wsize=)", is_network_mount, "wsize"),
            Proposal::more("fewer calls for attributes (actimeo=)", is_network_mount, "actimeo"),
            Proposal::more("fewer calls for attributes of files (acregmax=)", has_time_of_files, "acregmax"),
        ]),
    }
}
