//! What is printed fits the columns of who reads it; what is piped stays whole.

mod support;

use support::Sandbox;

/// Prints with 80 columns.
fn printed(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = sandbox.nestor(arguments).env("COLUMNS", "80").assert().get_output().stdout.clone();
    String::from_utf8(output).expect("text is UTF-8")
}

#[test]
fn lists_and_tables_fit_eighty_columns() {
    let sandbox = Sandbox::new();
    let old = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/old_results/results.sqlite");
    let store = sandbox.text("results.sqlite");
    std::fs::copy(old, &store).expect("a copy");
    let study = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/quick.toml");
    for arguments in [
        &["workloads"][..],
        &["stack"],
        &["stack", "ext4/kvm/raw/xfs/hdd"],
        &["disk", "list"],
        &["disk", "check", "wd-re3"],
        &["load", "list"],
        &["replicate"],
        &["advise", "--settle", "list"],
        &["advise", "fio:rand-write", "--plan", "--store", &store],
        &["study", study, "--plan", "--store", &store],
        &["report", "--store", &store],
        &["predict", "--validate", "--store", &store],
        &["--help"],
        &["doctor"],
    ] {
        let text = printed(&sandbox, arguments);
        assert!(!text.is_empty(), "{arguments:?}");
        // What has no blank cannot be broken.
        let breaks = |line: &&str| line.chars().count() > 80 && line.trim_start().contains(' ');
        let wide: Vec<&str> = text.lines().filter(breaks).collect();
        assert!(wide.is_empty(), "{arguments:?}:\n{}", wide.join("\n"));
    }
    let piped = support::said(&sandbox, &["workloads"]);
    assert!(piped.lines().any(|line| line.chars().count() > 80), "{piped}");
}
