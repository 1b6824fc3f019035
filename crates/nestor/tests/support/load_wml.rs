//! `nestor load wml` in a sandbox, and what it answers.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::Sandbox;

/// Two threads that read twenty files again and again.
pub const READER: &str = "\
set $dir=/tmp
set $nfiles=20
define fileset name=docs,path=$dir,entries=$nfiles,size=4k,dirwidth=5,prealloc
define process name=reader {
  thread name=reader,instances=2 {
    flowop openfile name=open,filesetname=docs,fd=1
    flowop readwholefile name=read,fd=1
    flowop closefile name=close,fd=1
  }
}
run 60
";

/// A script in the sandbox, and an empty directory for its files.
pub fn script(sandbox: &Sandbox, text: &str) -> (String, String) {
    let (path, directory) = (sandbox.text("script.f"), sandbox.text("files"));
    fs::write(&path, text).expect("the sandbox can be written to");
    fs::create_dir_all(&directory).expect("a directory");
    (path, directory)
}

/// `nestor load wml … --json`, which has to succeed.
pub fn json(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let words = ["load", "wml"].iter().chain(arguments).chain(&["--json"]);
    let output = sandbox.nestor(words).assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).expect("JSON")
}

/// `nestor load wml …`, which has to succeed; what it prints.
pub fn text(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let words = ["load", "wml"].iter().chain(arguments);
    let output = sandbox.nestor(words).assert().success().get_output().stdout.clone();
    String::from_utf8(output).expect("tables are UTF-8")
}

/// `nestor load wml …`, which has to fail with one message and print no result; the message.
pub fn refused(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let words = ["load", "wml"].iter().chain(arguments);
    let output = sandbox.nestor(words).assert().failure().stdout("").get_output().stderr.clone();
    let said = String::from_utf8(output).expect("messages are UTF-8");
    assert_eq!(said.matches("error:").count(), 1, "one message:\n{said}");
    said
}

/// Operations of the first run, waits not counted.
pub fn operations(report: &Value) -> u64 {
    let flowops = report["runs"][0]["flowops"].as_array().expect("flowops");
    flowops.iter().filter(|f| f["is_io"] == true).map(|f| f["operations"].as_u64().expect("a number")).sum()
}

/// Names of everything in a directory.
pub fn entries(directory: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort();
    names
}
