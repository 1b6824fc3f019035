//! The recommendations: the answer, how sure, why, what to do.

use super::{WIDTH, held_fixed, physical, wrapped};
use crate::advice::{Advice, Confirmation, Recommendation};
use crate::nas::Failure;
use nestor_results::WrittenStack;
use nestor_text::Table;
use nestor_text::units::{self, digits, listed, plural};

use crate::numbers::{change, change_of, interval};

/// So many recommendations are shown, and yours wherever it is.
const SHOWN: usize = 6;
/// So many of those that are not physical are shown with their reasons: who misses a fast one shall find it.
const NOT_PHYSICAL_SHOWN: usize = 3;
/// Probability below which the additive model is said not to fit.
const UNLIKELY: f64 = 0.05;

/// Everything that is said to someone who asks which stack to take.
pub fn advice_text(advice: &Advice) -> String {
    let mut text = format!("{}  on {}\n", advice.workload, advice.ground);
    text.push_str(&physical(advice.physical.as_deref()));
    text.push('\n');
    if advice.recommendations.is_empty() {
        let words = "nothing is known about any of these stacks; measure some with --numbers both";
        text.push_str(&wrapped("  ", words));
        text.push_str(&doubts(advice));
        return text;
    }
    text.push_str(&ranking(advice));
    text.push_str(&held_fixed(&advice.held_fixed));
    text.push('\n');
    text.push_str(&not_physical(advice));
    text.push_str(&prices(advice));
    text.push_str(&effects(advice));
    text.push_str(&mechanisms(advice));
    text.push_str(&confirmation(&advice.confirmation));
    text.push_str(&what_is_left(advice));
    text
}

fn shown(advice: &Advice) -> Vec<&Recommendation> {
    let mut not_physical = 0;
    let is_shown = |one: &&Recommendation| {
        not_physical += usize::from(one.not_physical.is_some());
        one.place <= SHOWN
            || one.is_yours
            || (one.not_physical.is_some() && not_physical <= NOT_PHYSICAL_SHOWN)
    };
    advice.recommendations.iter().filter(is_shown).collect()
}

/// The numbers of a few runs, or how many there are.
fn runs(numbers: &[i64]) -> String {
    match numbers {
        [one] => format!("run {one}"),
        [_, _] | [_, _, _] => format!("runs {}", listed(numbers)),
        many => plural(many.len(), "run"),
    }
}

fn ranking(advice: &Advice) -> String {
    let unit = advice.unit;
    let mut rows = vec![["", "stack", unit.name(), "", "vs yours", "by"].map(str::to_owned).to_vec()];
    let mut last = 0;
    for one in shown(advice) {
        if one.place > last + 1 {
            rows.push(vec!["…".to_owned()]);
        }
        last = one.place;
        let mut by = if one.measured { runs(&one.evidence) } else { "predicted".to_owned() };
        if one.not_physical.is_some() {
            by.push_str(", not plausible");
        }
        rows.push(vec![
            one.place.to_string(),
            one.stack.to_string(),
            digits(one.rate.value / unit.scale()),
            interval(one.rate.interval, unit.scale()),
            if one.is_yours {
                "yours".to_owned()
            } else {
                one.vs_yours.as_ref().map_or_else(|| "-".to_owned(), change)
            },
            by,
        ]);
    }
    if advice.recommendations.len() > last {
        rows.push(vec!["…".to_owned()]);
    }
    let wide = Table::of(&rows, &[0, 2]).text();
    if wide.lines().all(|line| line.chars().count() <= WIDTH) {
        return wide;
    }
    // Long stacks get lines of their own.
    let mut text = String::new();
    for row in rows.iter().skip(1) {
        match row.as_slice() {
            [place, stack, numbers @ ..] => {
                let unit = advice.unit.name();
                let (rate, rest) =
                    numbers.split_first().map_or((String::new(), numbers), |(a, b)| (a.clone(), b));
                let rest: Vec<&str> =
                    rest.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
                text.push_str(&format!("  {place:>2}  {stack}\n      {rate} {unit}  {}\n", rest.join("  ")));
            }
            _ => text.push_str("   …\n"),
        }
    }
    text
}

/// Which numbers are no reason to take a stack, and why.
fn not_physical(advice: &Advice) -> String {
    let shown = shown(advice);
    let reasons: Vec<(usize, &str)> =
        shown.iter().filter_map(|one| Some((one.place, one.not_physical.as_deref()?))).collect();
    let all = advice.recommendations.iter().all(|one| one.not_physical.is_some());
    match (reasons.is_empty(), all) {
        (true, _) => String::new(),
        (_, true) => format!(
            "  none of these numbers is plausible, so nothing is recommended\n{}\n",
            by_place(&reasons)
        ),
        _ => format!("  not plausible, so not recommended, however fast\n{}\n", by_place(&reasons)),
    }
}

/// What each costs.
fn prices(advice: &Advice) -> String {
    let (over_network, local): (Vec<_>, Vec<_>) =
        shown(advice).into_iter().partition(|one| !one.losses.is_empty());
    let mut text = String::new();
    for failure in Failure::ALL {
        let lost = over_network.iter().filter_map(|one| {
            let loss = one.losses.iter().find(|loss| loss.failure == failure)?;
            Some((one.place, loss.words.as_str()))
        });
        let lost: Vec<(usize, &str)> = lost.collect();
        if !lost.is_empty() {
            text.push_str(&format!("  what {} loses\n{}", failure.words(), by_place(&lost)));
        }
    }
    let prices: Vec<(usize, &str)> = local.iter().map(|one| (one.place, one.price.words.as_str())).collect();
    if !prices.is_empty() {
        text.push_str(&format!("  what a power cut loses\n{}", by_place(&prices)));
    }
    text
}

/// A sentence for each place, the same sentence once.
fn by_place(said: &[(usize, &str)]) -> String {
    let mut sentences: Vec<(&str, Vec<String>)> = Vec::new();
    for (place, sentence) in said {
        match sentences.iter_mut().find(|(words, _)| words == sentence) {
            Some((_, places)) => places.push(place.to_string()),
            None => sentences.push((sentence, vec![place.to_string()])),
        }
    }
    let mut text = String::new();
    let places: Vec<String> = sentences.iter().map(|(_, places)| places.join(", ")).collect();
    let width = places.iter().map(String::len).max().unwrap_or(0).max(3);
    for (places, (words, _)) in places.iter().zip(sentences) {
        text.push_str(&wrapped(&format!("  {places:>width$}  "), words));
    }
    text
}

fn effects(advice: &Advice) -> String {
    let Some(fit) = &advice.fit else { return String::new() };
    if advice.effects.is_empty() {
        return String::new();
    }
    let mut factors: Vec<(&str, Vec<String>)> = Vec::new();
    for effect in &advice.effects {
        let words = format!("{} {}", effect.level, change_of(effect.ratio, effect.interval));
        match factors.iter_mut().find(|(name, _)| *name == effect.factor.name()) {
            Some((_, levels)) => levels.push(words),
            None => factors.push((effect.factor.name(), vec![words])),
        }
    }
    let mut text = "\n  effect of each level alone, against the mean of its factor\n".to_owned();
    for (name, levels) in factors {
        text.push_str(&wrapped(&format!("    {name:<15}"), &levels.join(", ")));
    }
    let spread = match fit.residual {
        Some(share) => format!("the effects alone miss a run by {}", units::share(share)),
        None => "the effects needed every run, so there are no intervals".to_owned(),
    };
    let left_out = match fit.left_out {
        0 => String::new(),
        _ => format!(" ({} left out: not settled or not plausible)", plural(fit.left_out, "run")),
    };
    text.push_str(&wrapped("    ", &format!("from {}{left_out}; {spread}", plural(fit.runs, "run"))));
    if fit.untrusted > 0 {
        let words = format!(
            "less certain than it looks: {} of these runs had not settled or are not plausible, but without \
             them there are too few",
            fit.untrusted
        );
        text.push_str(&wrapped("    ", &words));
    }
    if let Some(lack) = fit.lack_of_fit.filter(|lack| lack.probability < UNLIKELY) {
        let words = format!(
            "less certain than it looks: the effects miss more than repeats differ ({}; p = {:.3}), so \
             some factors interact and predictions may be off",
            units::share(lack.between_repeats),
            lack.probability
        );
        text.push_str(&wrapped("    ", &words));
    }
    text
}

fn mechanisms(advice: &Advice) -> String {
    let found: Vec<String> = shown(advice)
        .iter()
        .filter_map(|one| Some(wrapped(&format!("  {:>3}  ", one.place), one.mechanism.as_ref()?)))
        .collect();
    if found.is_empty() { String::new() } else { format!("\n  why, against yours\n{}", found.concat()) }
}

fn confirmation(confirmation: &Confirmation) -> String {
    let words = match confirmation {
        Confirmation::Confirmed { stack, ratio, runs } => {
            let (pairs, change) = (plural(ratio.pairs, "pair"), change(ratio));
            let ends = runs.iter().min().zip(runs.iter().max());
            let numbers = ends.map_or_else(String::new, |(from, to)| format!(" (runs {from} to {to})"));
            format!("confirmed by {pairs} of fresh runs: {stack} {change}{numbers}")
        }
        Confirmation::NotConfirmed { stack, ratio: Some(ratio), .. } => format!(
            "not confirmed: {} of fresh runs give {} for {stack}, which does not show that it is faster",
            plural(ratio.pairs, "pair"),
            change(ratio)
        ),
        Confirmation::NotConfirmed { stack, ratio: None, .. } => {
            format!("not confirmed: no fresh pair of {stack} and yours has both numbers")
        }
        Confirmation::NotPhysical { stack, reason, .. } => {
            format!("not confirmed: in fresh runs of {stack} and yours, numbers are not plausible: {reason}")
        }
        Confirmation::NotTried { reason } => format!("not confirmed: {reason}"),
    };
    format!("\n{}", wrapped("  ", &words))
}

fn what_is_left(advice: &Advice) -> String {
    let mut text = String::new();
    if !advice.worth_measuring.is_empty() {
        let stacks: Vec<&str> = advice.worth_measuring.iter().take(3).map(WrittenStack::as_str).collect();
        let more = advice.worth_measuring.len() - stacks.len();
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        text.push_str(&wrapped(
            "  ",
            &format!("worth measuring, because it may be the best: {}{more}", stacks.join(", ")),
        ));
    }
    if !advice.unknown.is_empty() {
        let words = format!(
            "nothing is known about {}, such as {}",
            plural(advice.unknown.len(), "stack"),
            advice.unknown[0]
        );
        text.push_str(&wrapped("  ", &words));
    }
    text.push_str(&doubts(advice));
    // Other tools make the disk of a virtual machine.
    if advice.recommendations.iter().all(|one| one.losses.is_empty()) {
        text.push_str("  ready to paste: nestor advise … --as libvirt, qemu or mkfs\n");
    }
    text
}

fn doubts(advice: &Advice) -> String {
    if advice.doubts.is_empty() {
        return String::new();
    }
    let lines: String = advice.doubts.iter().map(|doubt| wrapped("    ", doubt)).collect();
    format!("  less certain than it looks:\n{lines}")
}

#[cfg(test)]
mod tests {
    use nestor_statistics::{Interval, LackOfFit, Ratio};
    use nestor_workload::RateUnit;

    use super::*;
    use crate::factors::{FactorName, HeldFixed};
    use crate::price::{Price, PriceKind};
    use crate::ranking::{Estimate, FactorEffect, FitSummary};

    fn span(low: f64, high: f64) -> Option<Interval> {
        Some(Interval { low, high })
    }

    fn one(place: usize, stack: &str, rate: (f64, f64, f64), runs: &[i64], price: &str) -> Recommendation {
        Recommendation {
            place,
            stack: stack.into(),
            is_yours: false,
            measured: !runs.is_empty(),
            rate: Estimate { value: rate.0, interval: span(rate.1, rate.2) },
            vs_yours: Some(Ratio {
                value: rate.0 / 88.0,
                interval: span(rate.1 / 88.0, rate.2 / 88.0),
                pairs: 4,
            }),
            not_physical: None,
            mechanism: None,
            evidence: runs.to_vec(),
            price: Price { kind: PriceKind::NothingFlushed, words: price.to_owned(), runs: vec![4] },
            losses: Vec::new(),
            confirmed: None,
        }
    }

    fn advice() -> Advice {
        let reach =
            "nothing that was flushed: flushes reach the disk (seen: 120 at the disk for 120 of the guest's)";
        let best = "ext4/kvm/raw/xfs/hdd";
        let mut first = one(1, best, (142.0, 138.0, 146.0), &[12, 31], reach);
        let yours = "ext4/kvm:cache=writethrough/raw/ext4/hdd";
        first.mechanism =
            Some(format!("flushes: 1.00 flushes for each operation at the medium of {yours}, 0.10 here"));
        let mut last = one(
            8,
            yours,
            (88.0, 86.0, 91.0),
            &[10, 30],
            "nothing that was written: every write is flushed (seen: 1.02 flushes per guest write)",
        );
        (last.is_yours, last.vs_yours) = (true, None);
        last.not_physical = Some("of 4.0 MiB that the application wrote, 0 % reached the disk".to_owned());
        let predicted = one(
            2,
            "ext4/kvm:cache=writeback/raw/xfs/hdd",
            (141.0, 120.0, 165.0),
            &[],
            "not known: it has no traced run",
        );
        let ratio = Ratio { value: 1.58, interval: span(1.51, 1.66), pairs: 6 };
        let effect = |level: &str, ratio: f64| FactorEffect {
            factor: FactorName::Cache,
            level: level.to_owned(),
            ratio,
            interval: span(ratio * 0.97, ratio * 1.03),
        };
        first.confirmed = Some(ratio);
        Advice {
            workload: "wml:mailserver".into(),
            ground: "emulated".into(),
            unit: RateUnit::OperationsPerSecond,
            physical: Some(vec![
                "yes: 142 IOPS on a disk that can do 118 random, 40 % sequential".to_owned(),
            ]),
            yours: yours.into(),
            recommendations: vec![first, predicted, last],
            effects: vec![effect("none", 1.21), effect("writethrough", 0.79)],
            fit: Some(FitSummary {
                runs: 9,
                untrusted: 2,
                left_out: 1,
                degrees_of_freedom: 4,
                residual: Some(0.031),
                lack_of_fit: Some(LackOfFit {
                    between_repeats: 0.01,
                    f: 9.0,
                    degrees: (3, 4),
                    probability: 0.03,
                }),
            }),
            confirmation: Confirmation::Confirmed { stack: best.into(), ratio, runs: vec![30, 31] },
            worth_measuring: vec!["ext4/kvm:cache=writeback/raw/xfs/hdd".into()],
            unknown: Vec::new(),
            doubts: vec!["the processor was emulated".to_owned()],
            held_fixed: [
                FactorName::Guest,
                FactorName::Device,
                FactorName::Scheduler,
                FactorName::HostScheduler,
            ]
            .into_iter()
            .zip(["ext4", "virtio-blk", "default", "default"])
            .map(|(factor, level)| HeldFixed {
                factor,
                level: level.to_owned(),
                option: Some(factor.option()),
            })
            .collect(),
        }
    }

    #[test]
    fn the_answer_comes_first_and_nothing_is_left_out() {
        insta::assert_snapshot!(advice_text(&advice()), @"
        wml:mailserver  on emulated
        physically plausible? yes: 142 IOPS on a disk that can do 118 random, 40 % sequential

           1  ext4/kvm/raw/xfs/hdd
              142 IOPS  [138, 146]  +61.4 % [+56.8, +65.9]  runs 12, 31
           2  ext4/kvm:cache=writeback/raw/xfs/hdd
              141 IOPS  [120, 165]  +60.2 % [+36.4, +87.5]  predicted
           …
           8  ext4/kvm:cache=writethrough/raw/ext4/hdd
              88.0 IOPS  [86.0, 91.0]  yours  runs 10, 30, not plausible
          held fixed (give the option more levels to vary it): --guest ext4, --device-model virtio-blk, --scheduler
          default, --host-scheduler default

          not plausible, so not recommended, however fast
            8  of 4.0 MiB that the application wrote, 0 % reached the disk

          what a power cut loses
            1  nothing that was flushed: flushes reach the disk (seen: 120 at the disk for 120 of the guest's)
            2  not known: it has no traced run
            8  nothing that was written: every write is flushed (seen: 1.02 flushes per guest write)

          effect of each level alone, against the mean of its factor
            cache          none +21.0 % [+17.4, +24.6], writethrough -21.0 % [-23.4, -18.6]
            from 9 runs (1 run left out: not settled or not plausible); the effects alone miss a run by 3.1 %
            less certain than it looks: 2 of these runs had not settled or are not plausible, but without them there
            are too few
            less certain than it looks: the effects miss more than repeats differ (1.0 %; p = 0.030), so some factors
            interact and predictions may be off

          why, against yours
            1  flushes: 1.00 flushes for each operation at the medium of ext4/kvm:cache=writethrough/raw/ext4/hdd,
               0.10 here

          confirmed by 6 pairs of fresh runs: ext4/kvm/raw/xfs/hdd +58.0 % [+51.0, +66.0] (runs 30 to 31)
          worth measuring, because it may be the best: ext4/kvm:cache=writeback/raw/xfs/hdd
          less certain than it looks:
            the processor was emulated
          ready to paste: nestor advise … --as libvirt, qemu or mkfs
        ");
    }

    #[test]
    fn nothing_untested_is_called_confirmed() {
        let mut advice = advice();
        advice.confirmation =
            Confirmation::NotTried { reason: "--numbers store measures nothing".to_owned() };
        let text = advice_text(&advice);
        assert!(text.contains("not confirmed: --numbers store measures nothing"), "{text}");
        assert!(!text.contains(" confirmed by"), "{text}");
        let slower = Ratio { value: 1.02, interval: span(0.97, 1.07), pairs: 6 };
        advice.confirmation = Confirmation::of(&"ext4/kvm/raw/xfs/hdd".into(), Some(slower), vec![1]);
        assert!(
            advice_text(&advice).contains("not confirmed: 6 pairs of fresh runs give +2.0 % [-3.0, +7.0]")
        );
        advice.confirmation =
            Confirmation::NotPhysical { stack: "a".into(), reason: "a: a cache".to_owned(), runs: vec![1] };
        assert!(advice_text(&advice).contains("not confirmed: in fresh runs of a"));
        for one in &mut advice.recommendations {
            one.not_physical = Some("a cache".to_owned());
        }
        assert!(
            advice_text(&advice).contains("none of these numbers is plausible, so nothing is recommended")
        );
        advice.recommendations.clear();
        assert!(advice_text(&advice).contains("nothing is known about any of these stacks"));
    }

    #[test]
    fn long_stacks_get_lines_of_their_own() {
        let mut advice = advice();
        advice.recommendations[0].stack = format!(
            "ext4/kvm:memory=1G/qcow2/{}/hdd",
            "xfs:mount=noatime+nodiratime+logbufs=8+logbsize=256k"
        )
        .into();
        let text = advice_text(&advice);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("142 IOPS  [138, 146]  +61.4 %"), "{text}");
    }
}
