//! `nestor trace classify`: the requests below an image, judged from outside its guest.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use nestor_correlate::{Judged, LevelIndex, LevelInput, RecordedLevel, Recording, Share, judge_from_outside};
use nestor_layout::Layout;
use nestor_text::units::bytes;

use crate::output::{print_json, say, table};

/// Arguments of `nestor trace classify`.
#[derive(Args, Debug)]
#[command(
    after_help = "The guest's own requests, joined with those below, say what is true.\n\nExamples:\n  nestor run ext2/kvm/raw/nfs/link/xfs/hdd \
                  wml:mailserver --trace-to traces\n  nestor trace classify traces\n  nestor trace classify traces --image-layout earlier.layout"
)]
pub struct ClassifyArguments {
    /// A directory made by `nestor run --trace-to`
    #[arg(value_name = "DIRECTORY")]
    recording: PathBuf,
    /// Layout of the file system in the image, made by `nestor trace layout --device IMAGE --output FILE` [default: the one that was read
    /// after the recording]
    #[arg(long, value_name = "FILE")]
    image_layout: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// When the recording cannot be read, or has no image whose layout is known.
pub fn run(arguments: &ClassifyArguments) -> Result<()> {
    let directory = &arguments.recording;
    let Some(recording) = Recording::find(directory)? else {
        bail!("{} is not a directory that `nestor run --trace-to` made", directory.display());
    };
    let busy: Vec<&RecordedLevel> = recording.busy_levels().collect();
    let Some((seen, level)) = busy.iter().enumerate().find(|(_, level)| has_image(level, arguments)) else {
        bail!(
            "{} has no layout of a file system in an image: record a stack with a raw image with this version, or name one with \
             --image-layout",
            directory.display()
        );
    };
    let layout = arguments.image_layout.as_deref().or(level.image_layout.as_deref());
    let layout = read(layout.context("the level has no layout")?)?;
    let inputs: Vec<LevelInput<'_>> = busy.iter().map(|level| level.input()).collect();
    let judged = judge_from_outside(&inputs, LevelIndex::at(seen), layout)?;
    if arguments.json {
        return print_json(&judged);
    }
    say(&render(&judged));
    Ok(())
}

/// Whether an image lies above the level, and its layout is known.
fn has_image(level: &RecordedLevel, arguments: &ClassifyArguments) -> bool {
    match &arguments.image_layout {
        Some(_) => matches!(level.map, nestor_correlate::SpaceMap::Extents(_)),
        None => level.image_layout.is_some(),
    }
}

fn read(path: &Path) -> Result<Layout> {
    let file = File::open(path).with_context(|| format!("cannot open the layout {}", path.display()))?;
    Layout::read_from(&mut BufReader::new(file)).with_context(|| path.display().to_string())
}

fn render(judged: &Judged) -> String {
    let rows: Vec<[String; 4]> = judged
        .classes
        .iter()
        .map(|one| {
            [one.truth.to_string(), one.judged.to_string(), one.requests.to_string(), bytes(one.bytes)]
        })
        .collect();
    let mut text = format!(
        "requests on the disk of {}, judged by the {} in the image, against those of {} in the guest\n\n",
        judged.layer, judged.file_system, judged.truth_layer
    );
    text += &table(&["in the guest", "from outside", "requests", "bytes"], &rows);
    text += &format!(
        "\nright: {} ({} of {}), {} of the bytes; data told from the rest: {}\n",
        share(judged.share),
        judged.right,
        judged.requests,
        judged.share_of_bytes.map_or_else(|| "-".to_owned(), percent),
        share(judged.share_data_or_metadata),
    );
    text += &format!(
        "not judged: {} outside the image, {} in it that belong to no request of the guest, flushes: {}\n",
        judged.outside_image, judged.without_truth, judged.flushes
    );
    for remark in &judged.remarks {
        text += &format!("  remark: {remark}\n");
    }
    text
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// `98.21 % [97.50, 98.80]`.
fn share(share: Option<Share>) -> String {
    let Some(Share { value, interval }) = share else { return "-".to_owned() };
    let range =
        interval.map_or_else(String::new, |i| format!(" [{:.2}, {:.2}]", 100.0 * i.low, 100.0 * i.high));
    percent(value) + &range
}

#[cfg(test)]
mod tests {
    use nestor_correlate::Confused;
    use nestor_layout::Class;

    use super::*;

    #[test]
    fn what_is_right_is_said_with_its_interval() {
        let interval = Some(nestor_statistics::Interval { low: 0.712, high: 0.788 });
        let right = Confused { truth: Class::FileData, judged: Class::FileData, requests: 3, bytes: 12_288 };
        let wrong =
            Confused { truth: Class::OtherMetadata, judged: Class::FileData, requests: 1, bytes: 4096 };
        let judged = Judged {
            layer: "xfs".to_owned(),
            file_system: "ext2".to_owned(),
            truth_layer: "ext2".to_owned(),
            requests: 4,
            right: 3,
            share: Some(Share { value: 0.75, interval }),
            share_of_bytes: Some(0.75),
            share_data_or_metadata: Some(Share { value: 0.75, interval: None }),
            classes: vec![right, wrong],
            without_truth: 2,
            outside_image: 5,
            flushes: 1,
            remarks: vec!["the log was not replayed".to_owned()],
        };
        insta::assert_snapshot!(render(&judged), @"
        requests on the disk of xfs, judged by the ext2 in the image, against those of ext2 in the guest

          in the guest    from outside  requests  bytes
          file data       file data     3         12 KiB
          other metadata  file data     1         4 KiB

        right: 75.00 % [71.20, 78.80] (3 of 4), 75.00 % of the bytes; data told from the rest: 75.00 %
        not judged: 5 outside the image, 2 in it that belong to no request of the guest, flushes: 1
          remark: the log was not replayed
        ");
    }
}
