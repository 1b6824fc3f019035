//! The line that says how much to believe of joined traces; it stands on the first screen.

use nestor_correlate::{Correlation, Level, LevelIndex, Origin};
use nestor_stack::MachineName;

use super::LevelName;
use crate::units;

/// `clock guest-host known to 18 us`, `0.3 % of guest requests unmatched`.
pub fn certainty(correlation: &Correlation, names: &[LevelName]) -> Vec<String> {
    let agreement = correlation.agreement.as_ref().map(nestor_correlate::stamps::Agreement::to_text);
    let because = because(correlation, names);
    clocks(correlation)
        .into_iter()
        .chain(unmatched(correlation, names))
        .chain(because)
        .chain(agreement)
        .collect()
}

/// A cause with a smaller share of its level's requests is not told.
const WORTH_TELLING: f64 = 0.0005;

/// Why requests could not be joined: `1.2 % of the host requests (21) are at places outside the image (looked for at
/// vmdk)`.
fn because(correlation: &Correlation, names: &[LevelName]) -> Vec<String> {
    let name = |level: LevelIndex| names.get(level.position()).map(|name| (name.short(), name.layer.clone()));
    let told = correlation.unmatched().into_iter().filter(|unmatched| unmatched.share() >= WORTH_TELLING);
    told.filter_map(|unmatched| {
        let (of, (_, other)) = (name(unmatched.level)?.0, name(unmatched.other)?);
        Some(format!(
            "{} of the {of} requests ({}) {} (looked for at {})",
            units::share(unmatched.share()),
            units::count(unmatched.requests),
            unmatched.why.words(),
            other
        ))
    })
    .collect()
}

/// The bounds of the clocks that are not one and the same.
fn clocks(correlation: &Correlation) -> Option<String> {
    let mut pairs: Vec<([Option<&MachineName>; 2], u64)> = Vec::new();
    for (below, join) in correlation.joins_by_level() {
        let machine = |level| correlation.level(level).map(|level| &level.machine);
        let pair = [join.above, below].map(machine);
        if pair[0] == pair[1] {
            continue;
        }
        match pairs.iter_mut().find(|(known, _)| *known == pair) {
            Some((_, bound)) => *bound = join.clock_bound_ns.max(*bound),
            None => pairs.push((pair, join.clock_bound_ns)),
        }
    }
    let words: Vec<String> = pairs
        .iter()
        .map(|(pair, bound)| {
            (pair.map(|name| name.map_or_else(|| "?".to_owned(), MachineName::to_string)), bound)
        })
        .map(|([above, below], bound)| match *bound {
            0 => format!("{above}-{below} shared"),
            u64::MAX => format!("{above}-{below} not known: no request bounds it"),
            bound => format!("{above}-{below} known to {}", units::duration_ns(bound as f64)),
        })
        .collect();
    (!words.is_empty()).then(|| format!("clock {}", words.join(", ")))
}

/// The largest share of requests that could not be joined, and where.
fn unmatched(correlation: &Correlation, names: &[LevelName]) -> Option<String> {
    let mut shares: Vec<(f64, String)> = Vec::new();
    let named = |index| correlation.level(index).zip(names.get(index.position()));
    for (below, join) in correlation.joins_by_level() {
        let (Some(above), Some(below)) = (named(join.above), named(below)) else { continue };
        let unknown = join.origins.get(&Origin::Unknown).copied().unwrap_or(0);
        let mut add = |part: u64, (level, name): (&Level, &LevelName), what: &str| {
            if level.requests > 0 {
                shares
                    .push((part as f64 / level.requests as f64, format!("{} requests {what}", name.short())));
            }
        };
        add(join.unmatched_above, above, "unmatched");
        add(unknown, below, "unexplained");
    }
    let (share, what) = shares.into_iter().reduce(|most, next| if next.0 > most.0 { next } else { most })?;
    Some(format!("{} of {what}", units::share(share)))
}

#[cfg(test)]
mod tests {
    use nestor_correlate::{Join, LevelKind, Unmatched};
    use nestor_stack::MachineLabel;

    use super::*;
    use crate::view::ShortNames;

    #[test]
    fn each_cause_is_told_with_its_number_the_largest_share_first() {
        let level = |layer: &str, kind: LevelKind, requests| Level {
            layer: layer.to_owned(),
            kind,
            machine: "host".into(),
            requests,
            misaligned: 0,
        };
        let join = Join {
            above: LevelIndex::TOP,
            unmatched_above: 12,
            origins: [(Origin::Parent, 1_200), (Origin::Unknown, 594)].into(),
            unmatched: [
                (Unmatched::NothingBelow, 12),
                (Unmatched::FlushUnasked, 593),
                (Unmatched::OutsideImage, 1),
            ]
            .into(),
            ..Join::default()
        };
        let correlation = Correlation {
            levels: vec![
                level("vmdk", LevelKind::ImageFile, 1_200),
                level("ext4", LevelKind::Block(MachineLabel::Host), 1_800),
            ],
            joins: vec![join],
            ..Correlation::default()
        };
        let names = LevelName::of(&correlation.levels, &ShortNames::default());
        insta::assert_snapshot!(certainty(&correlation, &names).join("\n"), @r"
        33.0 % of host requests unexplained
        32.9 % of the host requests (593) are flushes that no request above waited for (looked for at vmdk)
        1.0 % of the image file requests (12) have nothing below at their place (looked for at ext4)
        0.1 % of the host requests (1) are at places outside the image (looked for at vmdk)
        ");
    }
}
