//! What was not measured, and the command that measures it.

use std::fmt;

use nestor_results::{TraceMode, WrittenPlace};
use nestor_stack::{BitRate, Bytes, Layer, Stack};
use nestor_text::shell_quoted;
use nestor_text::units::listed;
use serde::Serialize;

use super::{Question, Way};

/// Of a laboratory without results: a usual stack with a source.
const USUAL: &str = "ext4/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd";

/// The usual ways.
pub(super) const USUAL_COPIES: [&str; 3] = ["copy:scp", "copy:gridftp", "copy:nbd"];
pub(super) const USUAL_OVERLAY: &str = "overlay";

/// A workload whose time depends on what it reads.
const USUAL_READS: &str = "fio:rand-read:depth=1:runtime=off";

/// A file system of the guest has room in an image of so many bytes, and a quarter of it.
const SMALLEST_LARGEST: Bytes = Bytes::mib(192);

/// The largest image that is proposed is this part of the smaller disk.
const PART_OF_DISK: u64 = 4;

/// What is not known of ways, and how it is measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Missing {
    /// The layers.
    pub ways: Vec<String>,
    /// What is not known of them.
    #[serde(flatten)]
    pub lack: Lack,
    /// The command that measures it.
    pub command: String,
}

/// What is not known of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "lack")]
pub enum Lack {
    /// Anything.
    All,
    /// Its line over the size of the image: fewer than three sizes were measured.
    Sizes,
    /// Its line over what an instance reads: fewer than three sizes of a workload in the instance were measured.
    Reads,
}

/// Why there is no advice.
#[derive(Clone, Debug, PartialEq)]
pub enum NoPropagation {
    /// No life of an instance was measured.
    NothingMeasured {
        /// Where.
        place: WrittenPlace,
        /// What measures some.
        command: String,
    },
    /// None was measured over a link of this rate.
    NotAtThisRate {
        /// What was asked for.
        asked: BitRate,
        /// The rates that were measured.
        measured: Vec<BitRate>,
        /// Where.
        place: WrittenPlace,
        /// What measures it at this rate.
        command: String,
    },
}

impl fmt::Display for NoPropagation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingMeasured { place, command } => {
                write!(f, "no life of an instance was measured on {place}\n  measure some first: {command}")
            }
            Self::NotAtThisRate { asked, measured, place, command } => write!(
                f,
                "no image was brought over a link of {asked} on {place}, only of {}, and times do not follow from \
                 one rate to another\n  measure it first: {command}",
                listed(measured)
            ),
        }
    }
}

impl std::error::Error for NoPropagation {}

/// What commands are made of.
pub(super) struct Example<'a> {
    /// A stack like those that are to be measured.
    pub stack: &'a Stack,
    /// What is recorded of them.
    pub trace: TraceMode,
    pub question: &'a Question,
}

/// The command where nothing was measured.
pub(super) fn first_command(question: &Question) -> String {
    let stack = Stack::parse(USUAL).expect("a usual stack fits together");
    let ways: Vec<&str> = USUAL_COPIES.into_iter().chain([USUAL_OVERLAY]).collect();
    Example { stack: &stack, trace: TraceMode::default(), question }.of_sizes(&ways)
}

impl Example<'_> {
    /// Measures ways with three sizes of images, up to that which is asked for if the disks hold it.
    pub fn of_sizes(&self, ways: &[&str]) -> String {
        let largest = self.largest();
        self.command(ways, &parts(largest, [4, 2, 1]), "life:cycle")
    }

    /// Measures ways with three sizes of what is read.
    pub fn of_reads(&self, ways: &[&str], pattern: Option<&str>) -> String {
        let largest = self.largest();
        let reads = parts(largest, [16, 8, 4]);
        let workload = format!("life:cycle:run={}:size={reads}", pattern.unwrap_or(USUAL_READS));
        self.command(ways, &largest.to_string(), &workload)
    }

    fn largest(&self) -> Bytes {
        let disks = [self.stack.layers(), self.stack.source()];
        let disks = disks.into_iter().filter_map(|layers| layers.last()?.size("size"));
        let room = disks.map(|disk| disk.get() / PART_OF_DISK).min().unwrap_or(u64::MAX);
        let asked = self.question.image_bytes.max(SMALLEST_LARGEST.get());
        Bytes::mib(asked.min(room).div_ceil(Bytes::mib(1).get()))
    }

    fn command(&self, ways: &[&str], sizes: &str, workload: &str) -> String {
        let image = self.stack.sourced_image();
        let ways = braced(ways);
        let written = |(at, layer): (_, &Layer)| {
            if Some(at) == image { ways.clone() } else { layer.to_string() }
        };
        let main: Vec<String> = self.stack.indexed_layers().map(written).collect();
        let source: Vec<String> =
            self.stack.source().iter().map(|layer| self.in_source(layer, sizes)).collect();
        let stack = format!("{}//{}", main.join("/"), source.join("/"));
        let mut words = vec!["nestor".to_owned(), "run".to_owned(), stack, workload.to_owned()];
        if self.trace != TraceMode::default() {
            words.extend(["--trace".to_owned(), self.trace.to_string()]);
        }
        words.extend_from_slice(&self.question.run_options);
        words.iter().map(|word| shell_quoted(word)).collect::<Vec<_>>().join(" ")
    }

    /// A layer of the source, with the rate and the sizes that are asked for.
    fn in_source(&self, layer: &Layer, sizes: &str) -> String {
        match (layer.link(), layer.image_format()) {
            (Some(_), _) => format!("{}:rate={}", layer.clone().without("rate"), self.question.link_rate),
            (None, Some(_)) => format!("{}:size={sizes}", layer.clone().without("size")),
            (None, None) => layer.to_string(),
        }
    }
}

/// Such parts of a size, as alternatives.
fn parts(whole: Bytes, divisors: [u64; 3]) -> String {
    let part = |divisor: u64| Bytes::mib((whole.get() / divisor / Bytes::mib(1).get()).max(1)).to_string();
    braced(&divisors.map(part).each_ref().map(String::as_str))
}

fn braced(words: &[&str]) -> String {
    match words {
        [one] => (*one).to_owned(),
        several => format!("{{{}}}", several.join(",")),
    }
}

impl Missing {
    pub(super) fn of(ways: &[&Way], lack: Lack, command: String) -> Self {
        Self { ways: ways.iter().map(ToString::to_string).collect(), lack, command }
    }
}
