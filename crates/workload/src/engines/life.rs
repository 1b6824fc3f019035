//! The life of an instance of a cloud: its image comes from a repository, it boots, a workload runs in it, it ends, and its image is
//! removed. The laboratory goes through it; this says what is asked for.

use crate::demand::Demand;
use crate::engine::{About, Case, DataSet, Engine, Misfit, OptionSpec, Place, Step, StepOutput, WorksOn};
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::LoadResult;
use crate::value::{Kind, Value};

/// The engine.
pub struct Life;

/// How it is called in messages: it is this program itself.
const PROGRAM: &str = "nestor";

const CASES: &[Case] =
    &[Case { name: "cycle", summary: "an instance's life: transfer of its image, boot, shutdown, cleanup" }];

const COUNT: &str = "count";
const NODES: &str = "nodes";
const RUN: &str = "run";

/// Most instances at once: as many as one server of a transfer takes.
const MOST_INSTANCES: u64 = 64;

/// Most nodes at once.
const MOST_NODES: u64 = 16;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: COUNT,
        kind: Kind::Count { min: 1, max: MOST_INSTANCES },
        cases: &[],
        summary: "instances of the image that go through each state at the same time (unset: 1)",
    },
    OptionSpec {
        name: NODES,
        kind: Kind::Count { min: 1, max: MOST_NODES },
        cases: &[],
        summary: "nodes that the instances are dealt to in turn, each a machine as the stack's with a disk of its own (unset: 1)",
    },
    OptionSpec {
        name: RUN,
        kind: Kind::Workload,
        cases: &[],
        summary: "what runs in each instance, with its own options: the last option",
    },
];

/// Seconds that the step without a workload may take.
const NOTHING_LIMIT_S: u64 = 60;

/// How many instances there are.
fn count(workload: &Workload) -> u32 {
    number(workload, COUNT)
}

/// How many nodes they are on.
fn nodes(workload: &Workload) -> u32 {
    number(workload, NODES)
}

fn number(workload: &Workload, option: &str) -> u32 {
    match workload.value(option) {
        Some(Value::Count(count)) => u32::try_from(count).unwrap_or(1),
        _ => 1,
    }
}

/// What runs in each instance.
fn inner(workload: &Workload) -> Option<Workload> {
    match workload.value(RUN) {
        Some(Value::Workload(inner)) => Some(*inner),
        _ => None,
    }
}

impl Engine for Life {
    fn about(&self) -> &'static About {
        &About {
            name: "life",
            program: PROGRAM,
            package: None,
            cases: CASES,
            options: OPTIONS,
            directions: &[],
        }
    }

    fn default_value(&self, _workload: &Workload, _option: &str) -> Option<Value> {
        None
    }

    fn check(&self, workload: &Workload) -> Result<(), Misfit> {
        let (count, nodes) = (count(workload), nodes(workload));
        if nodes <= count {
            return Ok(());
        }
        Err(Misfit {
            option: NODES,
            why: format!("each node has an instance, and there are {count} for {nodes}"),
            remedy: format!("write count={nodes}, or nodes={count}"),
        })
    }

    fn life(&self, workload: &Workload) -> Option<LifeCycle> {
        Some(LifeCycle { count: count(workload), nodes: nodes(workload), run: inner(workload) })
    }

    /// That of what runs in all instances together.
    fn demand(&self, workload: &Workload) -> Demand {
        let of_one = inner(workload).map(|inner| inner.demand()).unwrap_or_default();
        let of_all = |of_one: u64| of_one.saturating_mul(count(workload).into());
        Demand { outstanding: of_one.outstanding.map(of_all), workers: of_one.workers.map(of_all), ..of_one }
    }

    fn data_set(&self, workload: &Workload) -> DataSet {
        let nothing = DataSet { bytes: 0, files: 0, file_bytes: 0, scale_factor: 1.0 };
        inner(workload).map_or(nothing, |inner| inner.data_set())
    }

    fn script(&self, workload: &Workload) -> Option<String> {
        inner(workload)?.script()
    }

    fn script_settings(&self, workload: &Workload) -> Vec<(&'static str, &'static str)> {
        inner(workload).map(|inner| inner.script_settings()).unwrap_or_default()
    }

    /// What runs in it decides: [`Workload::works_on`].
    fn works_on(&self) -> WorksOn {
        WorksOn::Both
    }

    fn describe(&self, workload: &Workload) -> String {
        let instances = match (count(workload), nodes(workload)) {
            (1, _) => "one instance, in which".to_owned(),
            (count, 1) => format!("{count} instances at once, in each of which"),
            (count, nodes) => format!("{count} instances at once on {nodes} nodes, in each of which"),
        };
        match inner(workload) {
            Some(inner) => format!("{instances} {inner} runs: {}", inner.describe()),
            None => format!("{instances} nothing runs"),
        }
    }

    fn remarks(&self, workload: &Workload) -> Vec<String> {
        inner(workload).map(|inner| inner.remarks()).unwrap_or_default()
    }

    fn prepare(&self, workload: &Workload, place: &Place, seed: u64) -> Vec<Step> {
        inner(workload).map(|inner| inner.prepare(place, seed)).unwrap_or_default()
    }

    fn measure(&self, workload: &Workload, place: &Place, seed: u64) -> Step {
        inner(workload).map_or_else(nothing, |inner| inner.measure(place, seed))
    }

    fn time_limit_s(&self, workload: &Workload) -> Option<u64> {
        inner(workload).and_then(|inner| inner.time_limit_s())
    }

    fn check_preparation(&self, workload: &Workload, output: &StepOutput) -> Result<(), LoadError> {
        inner(workload).map_or(Ok(()), |inner| inner.check_preparation(output))
    }

    fn parse(&self, workload: &Workload, output: &StepOutput) -> Result<LoadResult, LoadError> {
        match inner(workload) {
            Some(inner) => Ok(LoadResult { workload: workload.to_string(), ..inner.parse_output(output)? }),
            None => Ok(LoadResult {
                engine: format!("nestor {}", env!("CARGO_PKG_VERSION")),
                workload: workload.to_string(),
                scale_factor: 1.0,
                ..LoadResult::default()
            }),
        }
    }
}

/// A command that does nothing.
fn nothing() -> Step {
    Step {
        title: "running nothing".to_owned(),
        argv: vec!["true".to_owned()],
        input_files: Vec::new(),
        copied_files: Vec::new(),
        output_files: Vec::new(),
        timeout_s: NOTHING_LIMIT_S,
    }
}

/// The life of instances, as a workload asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifeCycle {
    /// How many instances there are at the same time, at least one.
    pub count: u32,
    /// How many nodes they are on, at least one and at most as many as there are instances.
    pub nodes: u32,
    /// What runs in each; `None` for nothing.
    pub run: Option<Workload>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Ended, Target};

    fn parse(text: &str) -> Workload {
        Workload::parse(text).unwrap()
    }

    #[test]
    fn all_that_follows_run_is_the_workload_that_runs() {
        let workload = parse("life:cycle:run=fio:rand-read:bs=8k:size=64M");
        let LifeCycle { count, nodes, run } = workload.life().unwrap();
        assert_eq!((count, nodes), (1, 1));
        assert_eq!(run, Some(parse("fio:rand-read:bs=8k:size=64M")));
        assert_eq!(workload.data_set(), run.unwrap().data_set());
        assert_eq!(parse(&workload.to_string()), workload);
        assert_eq!(parse("life:cycle").life().unwrap().run, None);
        assert_eq!(parse("fio:rand-read").life(), None);
    }

    #[test]
    fn what_runs_in_it_is_checked_where_it_is_written() {
        let refused = |text: &str| Workload::parse(text).unwrap_err().to_string();
        insta::assert_snapshot!(refused("life:cycle:run=fio:rnd-read"), @r#"
        a workload is not understood
          life:cycle:run=fio:rnd-read
                             ^^^^^^^^ fio has no case "rnd-read"
          did you mean rand-read? it has seq-read, seq-write, rand-read, rand-write, mixed
        "#);
        insta::assert_snapshot!(refused("life:cycle:run=fio:rand-read:bs=8q"), @r#"
        a workload is not understood
          life:cycle:run=fio:rand-read:bs=8q
                                          ^^ bs cannot be "8q"
          bs is a size such as 512, 8k, 64M or 1G (powers of 1024)
        "#);
        insta::assert_snapshot!(refused("life:cycle:run=life:cycle"), @r"
        a workload is not understood
          life:cycle:run=life:cycle
                         ^^^^ a life within a life is not possible
          write a workload that runs in the instance, as fio:rand-read
        ");
        insta::assert_snapshot!(refused("life:cycle:run="), @r"
        a workload is not understood
          life:cycle:run=
                         ^ run needs a value after =
          run is a workload (fio:rand-read)
        ");
    }

    #[test]
    fn there_are_as_many_instances_as_are_asked_for() {
        let workload = parse("life:cycle:count=8:run=fio:rand-read:depth=1:size=8M");
        assert_eq!(workload.life().map(|life| life.count), Some(8));
        assert_eq!(parse(&workload.to_string()), workload);
        assert_eq!(workload.demand().outstanding, Some(8), "one in each");
        assert!(
            workload.describe().starts_with("8 instances at once, in each of which fio:rand-read:depth=1")
        );
        for refused in ["life:cycle:count=0", "life:cycle:count=65", "life:cycle:count=many"] {
            let said = Workload::parse(refused).unwrap_err().to_string();
            assert!(said.contains("a whole number from 1 to 64"), "{said}");
        }
    }

    #[test]
    fn instances_are_on_as_many_nodes_as_are_asked_for_and_no_node_is_without_one() {
        let workload = parse("life:cycle:count=8:nodes=4");
        assert_eq!(workload.life().map(|life| (life.count, life.nodes)), Some((8, 4)));
        assert_eq!(parse(&workload.to_string()), workload);
        assert!(workload.describe().starts_with("8 instances at once on 4 nodes, in each"));
        for refused in ["life:cycle:count=2:nodes=3", "life:cycle:nodes=2"] {
            let said = Workload::parse(refused).unwrap_err().to_string();
            assert!(said.contains("each node has an instance"), "{said}");
        }
    }

    #[test]
    fn lives_within_lives_are_refused_however_many_there_are() {
        let text = format!("{}fio:rand-read", "life:cycle:run=".repeat(200_000));
        assert!(Workload::parse(&text).is_err());
    }

    #[test]
    fn files_of_what_runs_in_it_are_its_own() {
        let workload = parse("life:cycle:run=replay:trace:file=a.trace");
        assert_eq!(workload.files().collect::<Vec<_>>(), ["a.trace"]);
    }

    #[test]
    fn what_runs_in_it_says_what_it_works_on() {
        assert_eq!(parse("life:cycle:run=postmark:small").works_on(), WorksOn::Directories);
        assert_eq!(parse("life:cycle:run=fio:rand-read").works_on(), WorksOn::Both);
        assert_eq!(parse("life:cycle").works_on(), WorksOn::Both);
        let script = parse("life:cycle:run=wml:script:file=a.f").script();
        assert_eq!(script, parse("wml:script:file=a.f").script());
    }

    #[test]
    fn without_a_workload_nothing_runs() {
        let place = Place { target: Target::Device("/dev/vda".to_owned()), scratch: "/run".to_owned() };
        let workload = parse("life:cycle");
        assert!(workload.prepare(&place, 1).is_empty());
        assert_eq!(workload.measure(&place, 1).argv, ["true"]);
        let output = StepOutput {
            ended: Ended::Code(0),
            stdout: String::new(),
            stderr: String::new(),
            files: Vec::new(),
        };
        let result = workload.parse_output(&output).unwrap();
        assert!(result.operations.is_empty() && result.workload == "life:cycle");
    }
}
