//! What a script asks for, with every variable resolved: the input of the engine.

use std::sync::Arc;

/// A place in a script: byte range of its text.
pub type Span = std::ops::Range<usize>;

/// A script, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// What it does, in its order. A script without `run` ends with the [`Action::Run`] it would have had, of no given
    /// time, if it defines any process.
    pub actions: Vec<Action>,
    /// What is understood but has no effect here, or means something else than its author may think.
    pub warnings: Vec<Warning>,
}

/// A remark about a place of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Line, counted from 1.
    pub line: usize,
    /// The remark, one sentence.
    pub text: String,
}

/// A command of a script.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// `echo`: print this line.
    Echo(String),
    /// `system`: run this in a shell.
    System(String),
    /// `sleep`, in seconds.
    Sleep(f64),
    /// `create files` (or `create filesets`): make the file sets that are not yet made.
    CreateFiles(Arc<Vec<FileSet>>),
    /// `run`, `psrun`: make what is not yet made, then run all processes.
    Run(Run),
    /// `enable multi`: take part in a run of several machines.
    EnableMulti(MultiClient),
    /// `domultisync`: wait until all machines have reached this value.
    MultiSync(u64),
    /// `list fileset`: print the file sets defined so far.
    ListFileSets(Arc<Vec<FileSet>>),
}

/// `enable multi master=…,client=…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiClient {
    /// The machine that keeps the others together.
    pub master: String,
    /// This machine's name.
    pub client: String,
}

/// One measured run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its files, also those defined after an earlier `create files`.
    pub file_sets: Arc<Vec<FileSet>>,
    /// What works on them.
    pub processes: Arc<Vec<Process>>,
    /// When it ends.
    pub time: RunTime,
    /// What happens when a thread has no more work.
    pub quit: QuitMode,
    /// `eventgen rate`: events per second, shared by all threads; `None` if there is none or it is 0 (not limited).
    pub events_per_second: Option<f64>,
    /// `psrun`: print results so often, in seconds.
    pub report_every_s: Option<f64>,
    /// `psrun` with a negative period: each report counts from the one before.
    pub report_resets: bool,
}

/// When a run ends by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunTime {
    /// After so many seconds.
    Seconds(f64),
    /// No time was given: 60 s in [`QuitMode::Timeout`], else when the threads are done.
    NotGiven,
}

/// `set mode quit …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuitMode {
    /// Ends by time; a thread that gets no file is an error.
    Timeout,
    /// Ends when every thread is done.
    AllDone,
    /// Ends when the first thread is done.
    FirstDone,
}

/// A number that is fixed, or drawn anew at every use.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Always this.
    Fixed(u64),
    /// Drawn from this variable.
    Drawn(Arc<RandomVariable>),
}

/// A random variable: `randvar` or `cvar`.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomVariable {
    /// Its name, with the `$`.
    pub name: String,
    /// Its distribution, before limits and rounding.
    pub distribution: crate::Distribution,
    /// Nothing below is drawn (`cvar` `min`: smaller draws become this).
    pub min: Option<f64>,
    /// Nothing above is drawn (`cvar` `max`: larger draws become this).
    pub max: Option<f64>,
    /// Draws are rounded to the nearest multiple of this; 0 for none.
    pub round: f64,
}

/// A file, or a tree of files.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSet {
    /// Its name: a directory under its path, unless it is a block device.
    pub name: String,
    /// The directory it is in, as written.
    pub path: String,
    /// Defined as `file` or as `fileset`.
    pub kind: FileSetKind,
    /// Number of files.
    pub entries: u64,
    /// Number of leaf directories without files.
    pub leaf_directories: u64,
    /// Bytes of a file when it is made.
    pub file_bytes: Value,
    /// Mean number of entries in a directory.
    pub directory_width: Value,
    /// Shape of the gamma distribution of widths and depths (`dirgamma` / 1000); 0: none, all equal.
    pub directory_gamma: f64,
    /// `dirdepthrv`: distribution of depths instead; its mean is set to the mean depth.
    pub directory_depth: Option<Arc<RandomVariable>>,
    /// Per cent of the files that exist from the beginning.
    pub preallocated_percent: f64,
    /// `paralloc`: made by several threads.
    pub parallel: bool,
    /// `reuse`: what is there with the right size is kept.
    pub reuse: bool,
    /// `trusttree`: what should be there is not looked at.
    pub trust_tree: bool,
    /// Files are opened for reading only.
    pub read_only: bool,
    /// Files are opened for writing only.
    pub write_only: bool,
    /// `cached` (1.4): whether its pages may stay in the page cache; `None` if not said.
    pub cached: Option<bool>,
    /// Where it is defined.
    pub span: Span,
}

/// How a file set was defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSetKind {
    /// `define file`.
    File,
    /// `define fileset`.
    Tree,
}

/// A process: threads that are started so many times.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// How many there are.
    pub instances: u64,
    /// Scheduling priority, -20 to 19.
    pub nice: i32,
    /// Its threads.
    pub threads: Vec<Thread>,
}

/// A thread: flowops that are executed over and over.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// How many there are in each process.
    pub instances: u64,
    /// `memsize`: bytes of its memory, 0 if not said.
    pub memory_bytes: u64,
    /// `ioprio`: best-effort I/O priority, 0 to 7.
    pub io_priority: Option<u8>,
    /// What it does.
    pub flowops: Vec<Flowop>,
}

/// One step of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Flowop {
    /// Its name; inner ones of composite flowops are `outer.inner`.
    pub name: String,
    /// What it does.
    pub kind: FlowopKind,
    /// How many times in a row.
    pub iterations: Value,
    /// Index into [`Run::file_sets`].
    pub file_set: Option<usize>,
    /// `fd`: which of the thread's files; 0 if not said.
    pub fd: u32,
    /// `srcfd`: whose size is used for a copy.
    pub source_fd: u32,
    /// Bytes of one operation; 0: all of the file at once.
    pub io_bytes: Value,
    /// `workingset`: only so many bytes of the file; 0 for all. Drawn once per thread.
    pub working_set: Value,
    /// Places are drawn instead of one following the other.
    pub random: bool,
    /// Writes reach the medium before they end.
    pub synchronous: bool,
    /// Past the page cache.
    pub direct: bool,
    /// `opennext`: the next file at every use.
    pub rotate: bool,
    /// `noreadahead`.
    pub no_read_ahead: bool,
    /// `blocking`.
    pub blocking: bool,
    /// `highwater`.
    pub high_water: u64,
    /// `value`; 0 if not said.
    pub value: Value,
    /// `target`: name of another flowop.
    pub target: Option<String>,
    /// `indexed`: which file or directory.
    pub index: Option<Value>,
    /// What `print` prints.
    pub text: Option<String>,
    /// Where it is written.
    pub span: Span,
}

/// What a flowop does.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowopKind {
    /// Its own steps, in order.
    Composite(Vec<Flowop>),
    /// `read`
    Read,
    /// `write`
    Write,
    /// `openfile`
    OpenFile,
    /// `createfile`
    CreateFile,
    /// `closefile`
    CloseFile,
    /// `makedir`
    MakeDirectory,
    /// `removedir`
    RemoveDirectory,
    /// `listdir`
    ListDirectory,
    /// `fsync`
    Fsync,
    /// `fsyncset`
    FsyncSet,
    /// `statfile`
    StatFile,
    /// `readwholefile`
    ReadWholeFile,
    /// `appendfile`
    AppendFile,
    /// `appendfilerand`
    AppendFileRandom,
    /// `deletefile`
    DeleteFile,
    /// `writewholefile`
    WriteWholeFile,
    /// `aiowrite`
    AioWrite,
    /// `aiowait`
    AioWait,
    /// `block`
    Block,
    /// `wakeup`
    WakeUp,
    /// `semblock`
    SemaphoreBlock,
    /// `sempost`
    SemaphorePost,
    /// `hog`
    Hog,
    /// `delay`
    Delay,
    /// `eventlimit`
    EventLimit,
    /// `bwlimit`
    BandwidthLimit,
    /// `iopslimit`
    IopsLimit,
    /// `opslimit`
    OpsLimit,
    /// `finishoncount`
    FinishOnCount,
    /// `finishonbytes`
    FinishOnBytes,
    /// `print`
    Print,
    /// `testrandvar`
    TestRandomVariable,
}
