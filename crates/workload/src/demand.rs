//! What a workload asks of the storage, as far as its options state it beforehand.

/// What a workload asks of the storage, as far as its options state it beforehand. Each engine says it in its own file
/// ([`Engine::demand`](crate::Engine::demand)); by default nothing is stated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Operations that a closed loop keeps outstanding all the time, of all its workers together.
    pub outstanding: Option<u64>,
    /// Workers with one operation at a time: threads, clients, or the places in the queues of those that keep several outstanding.
    pub workers: Option<u64>,
    /// Milliseconds that a worker waits between two operations.
    pub think_ms: Option<f64>,
    /// Whether every operation goes past the page cache of its machine.
    pub past_page_cache: bool,
    /// Whether each read is of any place of the files, as likely as of any other.
    pub random_reads: bool,
    /// The same of writes.
    pub random_writes: bool,
    /// Whether operations follow one another in the files, so that bytes are the measure of the work and not operations.
    pub in_order: bool,
    /// Share (0 to 1) of the requests that read.
    pub read_share: Option<f64>,
    /// Share (0 to 1) that does not start where the one before ended.
    pub random_share: Option<f64>,
    /// Bytes of each request, where all have one size.
    pub request_bytes: Option<u64>,
    /// Whether it measures many loads one after another, the points of a surface: no number of the whole run is that of a load.
    pub is_surface: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::ENGINES;
    use crate::notation::Workload;
    use crate::value::Value;

    /// An option as a number, as it is kept for queries.
    fn number(workload: &Workload, option: &str) -> Option<f64> {
        match workload.value(option)? {
            Value::Bytes(bytes) => Some(bytes as f64),
            Value::TimeLimit(seconds) => seconds.map(|seconds| seconds as f64),
            value => value.to_string().parse().ok(),
        }
    }

    /// What used to be made of the options by their names, whatever the engine.
    fn by_names(workload: &Workload) -> Demand {
        let number = |option| number(workload, option);
        let script = workload.script_settings();
        let nthreads = script.iter().find(|(name, _)| *name == "nthreads").and_then(|(_, n)| n.parse().ok());
        let depth = number("depth");
        let workers = number("workers").or_else(|| number("threads")).or(nthreads);
        let workers = workers.or_else(|| number("clients")).or_else(|| number("numjobs"));
        let workers = workers.map(|workers| workers * depth.unwrap_or(1.0)).or(depth);
        let each = number("numjobs").or_else(|| number("workers")).unwrap_or(1.0);
        let engine = workload.engine().name();
        let fio = Some(workload.case()).filter(|_| engine == "fio").unwrap_or_default();
        let stated = engine == "iometer" && workload.case() != "surface";
        let share = |option| number(option).filter(|_| stated).map(|percent| percent / 100.0);
        let sizes = workload.value("sizes").is_some();
        Demand {
            outstanding: depth.map(|depth| (depth * each) as u64),
            workers: workers.map(|workers| workers as u64),
            think_ms: number("think"),
            past_page_cache: workload.value("direct").is_some_and(|value| value.to_string() == "on"),
            random_reads: matches!(fio, "rand-read" | "mixed"),
            random_writes: matches!(fio, "rand-write" | "mixed"),
            in_order: workload.case().split('-').any(|word| word == "seq"),
            read_share: share("read"),
            random_share: share("random"),
            request_bytes: number("bs").filter(|_| stated && !sizes).map(|bytes| bytes as u64),
            is_surface: engine == "iometer" && workload.case() == "surface",
        }
    }

    #[test]
    fn every_engine_states_what_its_options_say() {
        let cases = ENGINES.iter().flat_map(|engine| engine.cases().iter().map(|case| (*engine, case)));
        let plain = cases.map(|(engine, case)| Workload::of_case(engine, case));
        let written = [
            "fio:mixed:depth=32:numjobs=4:direct=off",
            "fio:seq-read:engine=psync",
            "wml:webserver:threads=7",
            "dbench:fileserver:clients=3",
            "iometer:mail:think=0.35:workers=9",
            "iometer:grid:workers=3:depth=2",
            "iometer:grid:sizes=4k/30+8k/70:read=10:random=90",
            "iometer:surface:depth=8:direct=off",
            "replay:trace:file=/t:depth=12:pace=max",
            "stamps:mixed:depth=3",
        ];
        let written = written.iter().map(|text| text.parse().expect("a workload"));
        let all: Vec<Workload> = plain.chain(written).collect();
        assert!(all.len() > 25, "{}", all.len());
        for workload in &all {
            assert_eq!(workload.demand(), by_names(workload), "{workload}");
        }
    }
}
