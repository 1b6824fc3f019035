//! `nestor advise` where it measures: in the emulated laboratory, with as few stacks as it takes.

mod support;

use std::path::Path;
use std::time::Duration;

use nestor_results::{RunFilter, Store, StoredRun};
use serde_json::Value;
use support::{Sandbox, alone, can_run};

/// Some fifteen cells of half a minute each on an emulated processor, and the lab's start.
const LIMIT: Duration = Duration::from_secs(1_500);

/// Writes one at a time that never ask for a flush, so that their price has to be looked into.
const WORKLOAD: &str = "fio:rand-write:scale=0.001:runtime=1s:engine=psync";
const PROBE: &str = "fio:rand-write:size=4M:files=1:engine=psync:fsync=8";
/// Each write waits for the platters, which costs a turn or two: what else is asked about is several times faster.
const YOURS: &str = "ext4/kvm:cache=writethrough/raw/ext4/hdd";
const OTHER: &str = "ext4/kvm/raw/ext4/hdd";

/// What one command printed.
struct Said {
    stdout: String,
    stderr: String,
}

impl Said {
    fn of(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let output = sandbox.nestor(arguments).timeout(LIMIT).output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = Self { stdout: text(&output.stdout), stderr: text(&output.stderr) };
        assert!(output.status.success(), "{arguments:?}:\n{}\n{}", said.stdout, said.stderr);
        said
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}:\n{}\n{}", self.stdout, self.stderr))
    }
}

fn runs(store: &Path) -> Vec<StoredRun> {
    let store = Store::open(store).expect("the store opens");
    let filter = RunFilter { latest_only: true, ..RunFilter::default() };
    store.runs(&filter).expect("its runs can be read")
}

fn of_study<'a>(runs: &'a [StoredRun], study: &str) -> Vec<&'a StoredRun> {
    runs.iter().filter(|run| run.record.study.as_deref() == Some(study)).collect()
}

fn rate(run: &StoredRun) -> f64 {
    run.record.measured().map_or(f64::NAN, |measured| measured.load.operations_per_second())
}

/// The ratio of the other stack to yours, as the mean of the logarithms of the pairs in each block.
fn ratio_of_pairs(runs: &[&StoredRun]) -> (usize, f64) {
    let runs_of = |stack: &'static str| runs.iter().filter(move |run| run.record.stack == stack);
    let logs: Vec<f64> = runs_of(YOURS)
        .filter_map(|yours| {
            let other = runs_of(OTHER).find(|other| other.record.block == yours.record.block)?;
            Some((rate(other) / rate(yours)).ln())
        })
        .filter(|log| log.is_finite())
        .collect();
    (logs.len(), (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

fn numbers(list: &Value) -> Vec<i64> {
    list.as_array().expect("a list of runs").iter().filter_map(Value::as_i64).collect()
}

#[test]
#[ignore = "minutes: part of `make test-long`"]
fn the_best_is_screened_priced_and_tested_beside_yours() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let (path, store) = (sandbox.path("results.sqlite"), sandbox.text("results.sqlite"));
    let asked = ["advise", WORKLOAD, "--host-fs", "ext4", "--format", "raw", "--cache", "none,writethrough"];
    let asked = [&asked[..], &["--yours", YOURS, "--budget", "20m", "--store", &store]].concat();

    let said = Said::of(&sandbox, &[&asked[..], &["--json"]].concat());
    assert!(said.stderr.contains(&format!("plan: 2 of 2 stacks under {WORKLOAD}")), "{}", said.stderr);
    assert!(said.stderr.contains(&format!("  {YOURS}\n  {OTHER}\n")), "{}", said.stderr);
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());

    let runs = runs(&path);
    let screened: Vec<&str> =
        of_study(&runs, "advise-screen").iter().map(|run| run.record.stack.as_str()).collect();
    assert_eq!(screened.len(), 2, "{screened:?}");
    let advice = said.json();
    check_ranking(&advice, &runs);
    check_verdict(&advice, &runs);
    check_prices(&advice, &runs);

    // The same again from the file alone: in words, and ready to paste.
    let text = Said::of(&sandbox, &[&asked[..], &["--from", "store"]].concat()).stdout;
    let verdict = advice["confirmation"]["confirmation"].as_str().expect("a verdict");
    let line = if verdict == "confirmed" { "  confirmed by " } else { "  not confirmed: " };
    assert!(text.contains(line), "{text}");
    assert!(text.contains("held fixed (give the option more levels to vary it): --guest ext4"), "{text}");
    let best = advice["recommendations"][0]["stack"].as_str().expect("a best one");
    let xml = Said::of(&sandbox, &[&asked[..], &["--as", "libvirt"]].concat());
    assert!(xml.stderr.starts_with(&format!("{best}: the best known stack, measured")), "{}", xml.stderr);
    let mode = nestor_advise::cache_mode(&best.into()).expect("it has a virtual machine");
    assert!(xml.stdout.contains(&format!("cache='{}'", mode.name())), "{}", xml.stdout);
}

fn check_ranking(advice: &Value, runs: &[StoredRun]) {
    let ranked = advice["recommendations"].as_array().expect("a list");
    assert_eq!(ranked.len(), 2, "{advice}");
    for one in ranked {
        assert_eq!((&one["measured"], &one["not_physical"]), (&Value::from(true), &Value::Null), "{one}");
        for number in numbers(&one["evidence"]) {
            let run = runs.iter().find(|run| run.number == number).expect("the run is in the store");
            assert_eq!(
                (one["stack"].as_str(), run.record.workload.as_str()),
                (Some(&*run.record.stack), WORKLOAD)
            );
        }
        let is_yours = one["stack"] == YOURS;
        assert_eq!(
            (one["is_yours"].as_bool(), one["mechanism"].is_null()),
            (Some(is_yours), is_yours),
            "{one}"
        );
    }
    let rates: Vec<f64> = ranked.iter().filter_map(|one| one["rate"]["value"].as_f64()).collect();
    assert!(rates[0] >= rates[1], "the faster comes first: {rates:?}");
}

/// What is said of the test is what the pairs of its study say, counted anew.
fn check_verdict(advice: &Value, runs: &[StoredRun]) {
    let verdict = &advice["confirmation"];
    let of_test = of_study(runs, "advise-confirm");
    let pairs: Vec<&StoredRun> = of_test.into_iter().filter(|run| run.record.workload == WORKLOAD).collect();
    let (count, ratio) = ratio_of_pairs(&pairs);
    assert!(count >= 2, "there was a test: {advice}");
    assert_eq!(verdict["stack"], OTHER, "a flush for each write is slower: {advice}");
    assert_eq!(verdict["ratio"]["pairs"], count);
    let said = verdict["ratio"]["value"].as_f64().expect("a ratio");
    assert!((said / ratio - 1.0).abs() < 1e-6, "{said} is said, {ratio} was measured");
    let mut tested: Vec<i64> = pairs.iter().map(|run| run.number).collect();
    tested.sort_unstable();
    assert_eq!(numbers(&verdict["runs"]), tested);
    let low = verdict["ratio"]["interval"]["low"].as_f64().expect("an interval");
    let high = verdict["ratio"]["interval"]["high"].as_f64().expect("an interval");
    assert!(low <= said && said <= high, "{verdict}");
    let expected = if low > 1.0 { "confirmed" } else { "not-confirmed" };
    assert_eq!(verdict["confirmation"], expected, "{verdict}");
    let best = advice["recommendations"].as_array().expect("a list").iter().find(|one| one["stack"] == OTHER);
    let confirmed = !best.expect("it is ranked")["confirmed"].is_null();
    assert_eq!(confirmed, expected == "confirmed");
}

/// The price of each was traced: nothing in the workload flushes, so for the one that does not write through the short run that
/// does was made.
fn check_prices(advice: &Value, runs: &[StoredRun]) {
    let price = |stack: &str| {
        let ranked = advice["recommendations"].as_array().expect("a list");
        ranked.iter().find(|one| one["stack"] == stack).expect("it is ranked")["price"].clone()
    };
    assert_eq!(price(OTHER)["kind"], "nothing-flushed", "{advice}");
    assert_eq!(price(YOURS)["kind"], "nothing-written", "{advice}");
    let probe = numbers(&price(OTHER)["runs"]);
    let probes: Vec<i64> = runs
        .iter()
        .filter(|run| run.record.workload == PROBE && run.record.stack == OTHER)
        .map(|run| run.number)
        .collect();
    assert_eq!(probes.len(), 1, "{probes:?}");
    assert!(probe.contains(&probes[0]), "the price is seen in run {probes:?}, and rests on {probe:?}");
}

#[test]
#[ignore = "minutes: part of `make test-long`"]
fn a_dispute_is_settled_by_runs_that_are_made_for_it() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let (path, store) = (sandbox.path("results.sqlite"), sandbox.text("results.sqlite"));
    let asked = ["advise", "--settle", "K4", "--budget", "15m", "--store", &store];
    let said = Said::of(&sandbox, &[&asked[..], &["--json"]].concat());
    assert!(said.stderr.contains("plan: 5 stacks x 1 workloads x 1 = 5 cells"), "{}", said.stderr);
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());

    let runs = runs(&path);
    assert_eq!(of_study(&runs, "settle-k4").len(), 5);
    let settled = said.json();
    let outcomes: Vec<&Value> =
        settled["sides"].as_array().expect("a list").iter().map(|side| &side["outcome"]).collect();
    assert_eq!(outcomes, ["holds", "does-not-hold"], "{settled}");
    let seen = settled["semantics"].as_array().expect("a list");
    assert_eq!(seen.len(), 5, "{settled}");
    for row in seen {
        check_flushes(row, &runs);
    }
    let text = Said::of(&sandbox, &[&asked[..], &["--from", "store"]].concat()).stdout;
    assert!(text.contains("on this machine: holds here"), "{text}");
    assert!(text.contains("on this machine: does not hold here"), "{text}");
    let table = text.split_once("\n  seen ").expect("there is a table of what was seen").1;
    for row in seen {
        let (label, at_disk) =
            (row["label"].as_str().expect("a name"), row["trace"]["medium_flushes"].to_string());
        let line =
            table.lines().find(|line| line.starts_with(&format!("  {label} "))).expect("a line of the table");
        assert!(line.split_whitespace().any(|word| word == at_disk), "{at_disk} is not in {line}");
    }
}

/// A row of the table is what the run's own layers counted.
fn check_flushes(row: &Value, runs: &[StoredRun]) {
    let trace = &row["trace"];
    let run =
        runs.iter().find(|run| Some(run.number) == trace["run"].as_i64()).expect("the run is in the store");
    assert_eq!(trace["stack"], run.record.stack.as_str());
    let measured = run.record.measured().expect("it has numbers");
    let traced: Vec<_> = measured.layers.iter().skip(1).filter_map(|layer| layer.metrics.as_ref()).collect();
    let (guest, disk) = (traced.first().expect("the guest's device"), traced.last().expect("the disk"));
    assert_eq!(trace["guest_sent"], guest.flushes + guest.fua_writes, "{row}");
    assert_eq!(trace["guest_writes"], guest.write.issued, "{row}");
    assert_eq!(trace["medium_flushes"], disk.flushes + disk.fua_writes, "{row}");
}
