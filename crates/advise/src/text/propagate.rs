//! Which way an image should come to its node.

use nestor_statistics::Interval;
use nestor_text::Table;
use nestor_text::units::{self, digits, listed, percent, plural};

use super::wrapped;
use crate::propagate::{
    AtOnce, Bottleneck, Choice, Compared, CrossOver, Earlier, Estimate, Lack, MeasuredRange, Missing,
    PropagationAdvice, RepositoryLoss, Way, WayAnswer,
};

/// The ways in a table, which to take and why, and what is not known.
pub fn propagation_text(advice: &PropagationAdvice) -> String {
    let question = &advice.question;
    let mut text = format!(
        "image of {}, {} over a link of {}{}  on {}\n",
        units::size(question.image_bytes),
        plural(question.instances as usize, "instance"),
        question.link_rate,
        question.reads_bytes.map_or_else(String::new, |bytes| format!(", reads of {}", units::size(bytes))),
        advice.place
    );
    text.push_str(&wrapped("  measured: ", &advice.setup.to_string()));
    if !advice.other_setups.is_empty() {
        text.push_str(&wrapped("  not compared with these: ", &listed(&advice.other_setups)));
    }
    text.push('\n');
    text.push_str(&tables(advice));
    if question.instances > 1 {
        text.push_str(&bounds(question.instances));
    }
    text.push_str(&advice.choice.as_ref().map_or_else(no_choice, |choice| chosen(choice, advice)));
    for cross_over in &advice.cross_overs {
        text.push_str(&crossed(cross_over, question.instances));
    }
    text.push_str(&losses(&advice.ways));
    text.push_str(&extrapolated(&advice.ways));
    advice.missing.iter().for_each(|missing| text.push_str(&lacking(missing)));
    text
}

/// Transfers, and whole lives if those are asked for.
fn tables(advice: &PropagationAdvice) -> String {
    let transfers = advice.ways.iter().map(|way| (&way.way, &way.transfer, &way.transfer_of));
    let lives =
        advice.ways.iter().filter_map(|way| Some((&way.way, way.life.as_ref()?, way.life_of.as_ref()?)));
    let instances = advice.question.instances;
    table("transfer", "images measured", instances, transfers)
        + &table("whole life", "reads measured", instances, lives)
}

fn table<'a>(
    of: &str,
    measured: &str,
    instances: u32,
    ways: impl Iterator<Item = (&'a Way, &'a AtOnce, &'a MeasuredRange)>,
) -> String {
    let at_once = (instances > 1).then(|| format!("{instances} at once"));
    let heading = ["way", of].map(str::to_owned).into_iter().chain(at_once);
    let mut rows: Vec<Vec<String>> =
        vec![heading.chain(["busiest of one", measured].map(str::to_owned)).collect()];
    for (way, time, of) in ways {
        let mut row = vec![way.to_string(), estimate(&time.one)];
        row.extend((instances > 1).then(|| between(&time.all_s)));
        row.push(time.bottleneck.as_ref().map_or_else(|| "-".to_owned(), bottleneck));
        row.push(range(of));
        rows.push(row);
    }
    if rows.len() > 1 { Table::of(&rows, &[]).text() + "\n" } else { String::new() }
}

/// `3.71 s [3.66, 3.76]`.
fn estimate(estimate: &Estimate) -> String {
    let interval = estimate.interval.map_or_else(String::new, |interval| format!(" {}", ends(&interval)));
    format!("{} s{interval}", digits(estimate.seconds))
}

fn ends(interval: &Interval) -> String {
    format!("[{}, {}]", digits(interval.low), digits(interval.high))
}

/// `12.1 to 15.0 s`.
fn between(interval: &Interval) -> String {
    format!("{} to {} s", digits(interval.low), digits(interval.high))
}

fn bottleneck(bottleneck: &Bottleneck) -> String {
    format!("{}, {}", bottleneck.resource, percent(bottleneck.share))
}

/// `4 sizes, 48 MiB to 336 MiB, 8 runs`.
fn range(range: &MeasuredRange) -> String {
    let (smallest, largest) = (units::size(range.smallest_bytes), units::size(range.largest_bytes));
    let sizes = match range.sizes {
        1 => format!("1 size, {smallest}"),
        several => format!("{several} sizes, {smallest} to {largest}"),
    };
    format!("{sizes}, {}", plural(range.runs.len(), "run"))
}

fn bounds(instances: u32) -> String {
    wrapped(
        "  ",
        &format!(
            "{instances} at once are bounds, not estimates (asymptotic bounds of operational analysis, Denning and Buzen 1978): \
             on one node, link, processors and the node's disk serve all {instances}, and the repository's disk is read at least \
             once; one after another takes longest. They hold as long as {instances} do not ask more of a resource than \
             {instances} times one does."
        ),
    )
}

fn no_choice() -> String {
    wrapped("  ", "no way is chosen: the time of an image of this size is not known of any copy")
}

fn chosen(choice: &Choice, advice: &PropagationAdvice) -> String {
    let by = match choice.by {
        Compared::TransfersOfCopies => "of the copies",
        Compared::Lives => "of whole lives",
    };
    let time = advice.ways.iter().find(|way| way.way == choice.way).map(|way| match choice.by {
        Compared::TransfersOfCopies => &way.transfer,
        Compared::Lives => way.life.as_ref().unwrap_or(&way.transfer),
    });
    let bound = match time.is_some_and(|time| time.one.interval.is_some()) {
        true => "has the shortest upper bound",
        false => "is shortest, without an interval",
    };
    let apart = match (choice.among, choice.not_told_apart.as_slice()) {
        (1, _) => "nothing to compare it with was measured".to_owned(),
        (_, []) => "the others are told apart from it".to_owned(),
        (_, alike) => format!("not told apart from {}", named(alike)),
    };
    let why = time
        .and_then(|time| time.bottleneck.as_ref())
        .map_or_else(String::new, |busiest| format!("; what it needs most is {}", busiest.resource));
    wrapped("  ", &format!("take {}: {by}, it {bound}; {apart}{why}", choice.way))
}

fn named(ways: &[Way]) -> String {
    ways.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn crossed(crossed: &CrossOver, instances: u32) -> String {
    let CrossOver { overlay, copy, pattern, earlier } = crossed;
    let below = |first: &Way, then: &Way, bytes: f64, interval: &Interval, beyond: Option<f64>| {
        let size = |bytes: f64| units::size(bytes.round() as u64);
        let further = beyond.map_or("", |_| "; far from the reads that were measured");
        format!(
            "below {} read [{}, {}], {first} is done earlier, above {then}{further}",
            size(bytes),
            size(interval.low),
            size(interval.high)
        )
    };
    let always = |way: &Way, told_apart_from_bytes: f64| {
        let apart = match told_apart_from_bytes {
            0.0 => String::new(),
            bytes => format!("; below {} read they are not told apart", units::size(bytes.round() as u64)),
        };
        format!("{way} is done earlier, whatever is read{apart}")
    };
    let words = match earlier {
        Earlier::OverlayBelow { bytes, interval, extrapolated } => {
            below(overlay, copy, *bytes, interval, *extrapolated)
        }
        Earlier::CopyBelow { bytes, interval, extrapolated } => {
            below(copy, overlay, *bytes, interval, *extrapolated)
        }
        Earlier::Overlay { told_apart_from_bytes } => always(overlay, *told_apart_from_bytes),
        Earlier::Copy { told_apart_from_bytes } => always(copy, *told_apart_from_bytes),
        Earlier::TooFewSizes => {
            "not known: fewer than three sizes of images or reads were measured".to_owned()
        }
        Earlier::SlopesNotToldApart => "not known: what each byte read costs is not told apart".to_owned(),
    };
    let alone = if instances > 1 { ", of one instance alone" } else { "" };
    wrapped("  ", &format!("{overlay} or {copy}, with {pattern} in the instance{alone}: {words}"))
}

fn losses(ways: &[WayAnswer]) -> String {
    let mut by_loss: Vec<(RepositoryLoss, Vec<Way>)> = Vec::new();
    for way in ways.iter().map(|answer| &answer.way) {
        match by_loss.iter_mut().find(|(loss, _)| *loss == way.loss) {
            Some((_, alike)) => alike.push(way.clone()),
            None => by_loss.push((way.loss, vec![way.clone()])),
        }
    }
    let mut text = String::new();
    if !by_loss.is_empty() {
        text.push_str("  what is lost when the repository dies\n");
    }
    for (loss, ways) in by_loss {
        text.push_str(&wrapped("    ", &format!("{}: {loss}", named(&ways))));
    }
    text
}

fn extrapolated(ways: &[WayAnswer]) -> String {
    let further = |range: &dyn Fn(&WayAnswer) -> Option<f64>| -> Vec<String> {
        let far = |way: &WayAnswer| Some(format!("{} {} times", way.way, digits(range(way)?)));
        ways.iter().filter_map(far).collect()
    };
    let sizes = further(&|way| way.transfer_of.extrapolated);
    let reads = further(&|way| way.life_of.as_ref()?.extrapolated);
    let mut text = String::new();
    for (of, further) in [("sizes", sizes), ("reads", reads)] {
        if !further.is_empty() {
            let words = format!(
                "beyond the {of} that were measured, where nothing says that the line goes on straight: {}",
                further.join(", ")
            );
            text.push_str(&wrapped("  ", &words));
        }
    }
    text
}

/// What is not known, and the command on a line of its own, to be copied.
fn lacking(missing: &Missing) -> String {
    let what = match missing.lack {
        Lack::All => "not measured",
        Lack::Sizes => "fewer than 3 sizes of images, so no interval",
        Lack::Reads => "fewer than 3 sizes of what an instance reads, so no cross-over",
    };
    let what = format!("{}: {what}; measure it:", missing.ways.join(", "));
    wrapped("  ", &what) + &format!("    {}\n", missing.command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::propagate::tests::{Lives, MIB, question, usual};

    #[test]
    fn copies_and_an_overlay_read_like_this() {
        let text = propagation_text(&usual().advice(&question(2 << 30, 4, None)));
        insta::assert_snapshot!(text, @"
        image of 2 GiB, 4 instances over a link of 1gbit  on emulated:time=virtual
          measured: ext4/kvm/WAY/ext4/hdd//link/raw/ext4/hdd:size=4G (--trace layers)

          way       transfer             4 at once       busiest of one                    images measured
          overlay   0.19 s [0.18, 0.20]  0.36 to 0.79 s  the disk of the repository, 80 %  5 sizes, 48 MiB to 336 MiB, 14 runs
          copy:nbd  20.7 s [20.6, 20.9]  41.1 to 83.5 s  the disk of the repository, 80 %  5 sizes, 48 MiB to 336 MiB, 14 runs
          copy:scp  62.1 s [62.0, 62.2]  124 to 249 s    the disk of the repository, 80 %  4 sizes, 48 MiB to 336 MiB, 8 runs

          4 at once are bounds, not estimates (asymptotic bounds of operational analysis, Denning and Buzen 1978): on
          one node, link, processors and the node's disk serve all 4, and the repository's disk is read at least once;
          one after another takes longest. They hold as long as 4 do not ask more of a resource than 4 times one does.
          take copy:nbd: of the copies, it has the shortest upper bound; the others are told apart from it; what it
          needs most is the disk of the repository
          overlay or copy:nbd, with fio:rand-read:depth=1:runtime=off in the instance, of one instance alone: below
          68.8 MiB read [68.0 MiB, 69.6 MiB], overlay is done earlier, above copy:nbd; far from the reads that were
          measured
          what is lost when the repository dies
            overlay: each read of a part that the instance has not written fails
            copy:nbd, copy:scp: nothing of an instance that runs; one whose image is not copied yet does not start
          beyond the sizes that were measured, where nothing says that the line goes on straight: overlay 6.10 times,
          copy:nbd 6.10 times, copy:scp 6.10 times
        ");
    }

    #[test]
    fn whole_lives_read_like_this() {
        let text = propagation_text(&usual().advice(&question(160 * MIB, 1, Some(30 * MIB))));
        insta::assert_snapshot!(text, @"
        image of 160 MiB, 1 instance over a link of 1gbit, reads of 30 MiB  on emulated:time=virtual
          measured: ext4/kvm/WAY/ext4/hdd//link/raw/ext4/hdd:size=4G (--trace layers)

          way       transfer             busiest of one                    images measured
          copy:nbd  1.80 s [1.77, 1.83]  the disk of the repository, 80 %  5 sizes, 48 MiB to 336 MiB, 14 runs
          overlay   0.20 s [0.20, 0.20]  the disk of the repository, 80 %  5 sizes, 48 MiB to 336 MiB, 14 runs
          copy:scp  5.40 s [5.38, 5.42]  the disk of the repository, 80 %  4 sizes, 48 MiB to 336 MiB, 8 runs

          way       whole life           busiest of one  reads measured
          copy:nbd  11.8 s [11.8, 11.9]  the link, 50 %  3 sizes, 2 MiB to 32 MiB, 6 runs
          overlay   19.2 s [19.1, 19.2]  the link, 50 %  3 sizes, 2 MiB to 32 MiB, 6 runs

          take copy:nbd: of whole lives, it has the shortest upper bound; the others are told apart from it; what it
          needs most is the link
          overlay or copy:nbd, with fio:rand-read:depth=1:runtime=off in the instance: below 5.5 MiB read [5.3 MiB,
          5.6 MiB], overlay is done earlier, above copy:nbd
          what is lost when the repository dies
            copy:nbd, copy:scp: nothing of an instance that runs; one whose image is not copied yet does not start
            overlay: each read of a part that the instance has not written fails
          copy:scp: fewer than 3 sizes of what an instance reads, so no cross-over; measure it:
            nestor run ext4/kvm/copy:scp/ext4/hdd//link:rate=1gbit/raw:size=192M/ext4/hdd:size=4G 'life:cycle:run=fio:rand-read:depth=1:runtime=off:size={12M,24M,48M}' --trace layers
        ");
    }

    #[test]
    fn what_is_missing_reads_like_this() {
        let mut lives = Lives::default();
        lives.add("copy:scp", 64 * MIB, 2.0);
        insta::assert_snapshot!(propagation_text(&lives.advice(&question(8 << 30, 1, None))), @"
        image of 8 GiB, 1 instance over a link of 1gbit  on emulated:time=virtual
          measured: ext4/kvm/WAY/ext4/hdd//link/raw/ext4/hdd:size=4G (--trace layers)

          no way is chosen: the time of an image of this size is not known of any copy
          overlay: not measured; measure it:
            nestor run 'ext4/kvm/overlay/ext4/hdd//link:rate=1gbit/raw:size={256M,512M,1G}/ext4/hdd:size=4G' life:cycle --trace layers
          copy:scp: fewer than 3 sizes of images, so no interval; measure it:
            nestor run 'ext4/kvm/copy:scp/ext4/hdd//link:rate=1gbit/raw:size={256M,512M,1G}/ext4/hdd:size=4G' life:cycle --trace layers
        ");
    }
}
