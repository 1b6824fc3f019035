//! The words of the language.

use nestor_text::nearest;

use crate::plan::FlowopKind;

/// The commands, of either dialect.
pub(crate) const COMMANDS: &[&str] = &[
    "create",
    "debug",
    "define",
    "disable_osprof",
    "domultisync",
    "echo",
    "enable",
    "enable_osprof",
    "eventgen",
    "exit",
    "foreach",
    "fscheck",
    "fsflush",
    "help",
    "list",
    "load",
    "log",
    "psrun",
    "quit",
    "run",
    "set",
    "shutdown",
    "sleep",
    "stats",
    "system",
    "usage",
    "vars",
    "version",
    "warmup",
];

/// The flowops and what they are.
const FLOWOPS: &[(&str, FlowopKind)] = &[
    ("aiowait", FlowopKind::AioWait),
    ("aiowrite", FlowopKind::AioWrite),
    ("appendfile", FlowopKind::AppendFile),
    ("appendfilerand", FlowopKind::AppendFileRandom),
    ("block", FlowopKind::Block),
    ("bwlimit", FlowopKind::BandwidthLimit),
    ("closefile", FlowopKind::CloseFile),
    ("createfile", FlowopKind::CreateFile),
    ("delay", FlowopKind::Delay),
    ("deletefile", FlowopKind::DeleteFile),
    ("eventlimit", FlowopKind::EventLimit),
    ("finishonbytes", FlowopKind::FinishOnBytes),
    ("finishoncount", FlowopKind::FinishOnCount),
    ("fsync", FlowopKind::Fsync),
    ("fsyncset", FlowopKind::FsyncSet),
    ("hog", FlowopKind::Hog),
    ("iopslimit", FlowopKind::IopsLimit),
    ("listdir", FlowopKind::ListDirectory),
    ("makedir", FlowopKind::MakeDirectory),
    ("openfile", FlowopKind::OpenFile),
    ("opslimit", FlowopKind::OpsLimit),
    ("print", FlowopKind::Print),
    ("read", FlowopKind::Read),
    ("readwholefile", FlowopKind::ReadWholeFile),
    ("removedir", FlowopKind::RemoveDirectory),
    ("semblock", FlowopKind::SemaphoreBlock),
    ("sempost", FlowopKind::SemaphorePost),
    ("statfile", FlowopKind::StatFile),
    ("testrandvar", FlowopKind::TestRandomVariable),
    ("wakeup", FlowopKind::WakeUp),
    ("write", FlowopKind::Write),
    ("writewholefile", FlowopKind::WriteWholeFile),
];

/// The attributes of a file and of a file set.
const FILE_ATTRIBUTES: &[&str] = &[
    "name",
    "path",
    "size",
    "prealloc",
    "paralloc",
    "reuse",
    "trusttree",
    "readonly",
    "writeonly",
    "cached",
    "datasource",
    "entropy",
];

/// Those that only a file set has.
const FILE_SET_ATTRIBUTES: &[&str] =
    &["entries", "dirwidth", "dirgamma", "dirdepthrv", "leafdirs", "filesizegamma", "namelength"];

/// Those of a flowop.
const FLOWOP_ATTRIBUTES: &[&str] = &[
    "name",
    "filename",
    "fd",
    "srcfd",
    "iosize",
    "iters",
    "workingset",
    "random",
    "dsync",
    "directio",
    "opennext",
    "noreadahead",
    "indexed",
    "value",
    "target",
    "blocking",
    "highwater",
];

/// What has attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    File,
    FileSet,
    Process,
    Thread,
    Flowop,
    Composite,
    RandVar,
    CVar,
    EventGen,
    Multi,
    MultiSync,
}

impl Context {
    /// Its attributes.
    pub(crate) fn attributes(self) -> impl Iterator<Item = &'static str> + Clone {
        let shared: &[&str] = match self {
            Self::File | Self::FileSet => FILE_ATTRIBUTES,
            _ => &[],
        };
        let own: &[&str] = match self {
            Self::File => &[],
            Self::FileSet => FILE_SET_ATTRIBUTES,
            Self::Process => &["name", "instances", "nice"],
            Self::Thread => &["name", "instances", "memsize", "ioprio", "useism", "procname"],
            Self::Flowop => FLOWOP_ATTRIBUTES,
            Self::Composite => &["name", "iters"],
            Self::RandVar => {
                &["name", "type", "mean", "min", "gamma", "round", "seed", "randsrc", "randtable"]
            }
            Self::CVar => &["type", "parameters", "min", "max", "round"],
            Self::EventGen => &["rate"],
            Self::Multi => &["master", "client"],
            Self::MultiSync => &["value"],
        };
        shared.iter().chain(own).copied()
    }

    /// What it is called in a sentence.
    pub(crate) fn phrase(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::FileSet => "a file set",
            Self::Process => "a process",
            Self::Thread => "a thread",
            Self::Flowop => "a flowop",
            Self::Composite => "a composite flowop",
            Self::RandVar => "a randvar",
            Self::CVar => "a cvar",
            Self::EventGen => "eventgen",
            Self::Multi => "enable multi",
            Self::MultiSync => "domultisync",
        }
    }

    /// The attribute by that name, of its two if it has two.
    pub(crate) fn attribute(self, word: &str) -> Option<&'static str> {
        let word = match word {
            "filesize" => "size",
            "filesetname" => "filename",
            word => word,
        };
        self.attributes().find(|known| *known == word)
    }
}

/// Where an attribute is allowed, for those who wrote it elsewhere.
pub(crate) fn places(word: &str) -> Vec<&'static str> {
    use Context::{CVar, Composite, EventGen, File, FileSet, Flowop, Multi, Process, RandVar, Thread};
    let all = [File, FileSet, Process, Thread, Flowop, Composite, RandVar, CVar, EventGen, Multi];
    all.iter().filter(|context| context.attribute(word).is_some()).map(|context| context.phrase()).collect()
}

/// The flowop of that name.
pub(crate) fn flowop(word: &str) -> Option<FlowopKind> {
    FLOWOPS.iter().find(|(name, _)| *name == word).map(|(_, kind)| kind.clone())
}

/// The names of the built-in flowops.
pub(crate) fn flowop_names() -> impl Iterator<Item = &'static str> {
    FLOWOPS.iter().map(|(name, _)| *name)
}

/// `did you mean …?`, or else the list of what there is.
pub(crate) fn suggest<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
    what: &str,
) -> String {
    if let Some(near) = nearest(word, known.clone()) {
        return format!("did you mean {near}?");
    }
    let mut known: Vec<&str> = known.into_iter().collect();
    let more = known.len().saturating_sub(40);
    known.truncate(40);
    match (known.is_empty(), more) {
        (true, _) => format!("there are no {what}"),
        (false, 0) => format!("{what}: {}", known.join(", ")),
        (false, more) => format!("{what}: {}, and {more} more", known.join(", ")),
    }
}
