//! Whatever numbers a workload is written with, it is refused or turned into commands: nothing overflows on the way.

use nestor_workload::engines::ENGINES;
use nestor_workload::{Engine, Kind, Place, Target, Workload, WorksOn};

/// Values at which something may break.
fn values(kind: Kind) -> Vec<String> {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    match kind {
        Kind::Bytes => texts(&["0", "1", "4k", "1T", "8388607T", "16777215T", "18446744073709551615"]),
        Kind::Count { min, max } => {
            [min, min.saturating_add(1), max / 2, max].map(|n| n.to_string()).to_vec()
        }
        Kind::TimeLimit => {
            texts(&["off", "1", "18446744073709551615", "307445734561825860m", "5124095576030431h"])
        }
        Kind::Switch => texts(&["on", "off"]),
        Kind::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        Kind::Factor => texts(&["0.000001", "1", "1000"]),
        Kind::Milliseconds => texts(&["0", "0.001", "60000"]),
        Kind::Sizes => texts(&["512/1", "4k/18446744073709551615+8k/1", "8388607T/1+4k/99", "1T/50+2T/50"]),
        Kind::File => texts(&["/x"]),
        Kind::Workload => texts(&["fio:rand-read"]),
    }
}

/// Everything that is asked of a workload before it runs.
fn use_all(workload: &Workload) {
    let target = match workload.works_on() {
        WorksOn::Devices => Target::Device("/dev/sdz".to_owned()),
        _ => Target::Directory("/srv".to_owned()),
    };
    let place = Place { target, scratch: "/run".to_owned() };
    let _ = (workload.data_set(), workload.describe(), workload.remarks(), workload.time_limit_s());
    let _ = (workload.prepare(&place, u64::MAX), workload.measure(&place, u64::MAX));
    let _ = (workload.measure_recorded(&place, u64::MAX), workload.marked_operations(&place));
}

fn options<'e>(engine: &'e dyn Engine, case: &'e str) -> impl Iterator<Item = (&'static str, String)> + 'e {
    let fits = move |option: &&nestor_workload::OptionSpec| option.is_of(case);
    engine.options().iter().filter(fits).flat_map(|option| {
        values(option.kind).into_iter().map(|value| (option.name, format!("{}={value}", option.name)))
    })
}

#[test]
fn no_number_is_too_large_for_a_workload_to_be_refused_or_described() {
    let mut failed = Vec::new();
    let mut accepted = 0;
    // Iometer's commands hold every operation, drawn when they are made: a surface of its largest number takes minutes.
    for engine in ENGINES.iter().filter(|engine| engine.name() != "iometer") {
        for case in engine.cases() {
            let all: Vec<_> = options(*engine, case.name).collect();
            for (_, written) in all {
                let text = format!("{}:{}:{written}", engine.name(), case.name);
                let looked = std::panic::catch_unwind(|| {
                    Workload::parse(&text).is_ok_and(|workload| {
                        use_all(&workload);
                        true
                    })
                });
                match looked {
                    Ok(fits) => accepted += usize::from(fits),
                    Err(_) => failed.push(text),
                }
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} of them panicked, such as {:?}",
        failed.len(),
        &failed[..failed.len().min(20)]
    );
    assert!(accepted > 200, "only {accepted} were understood");
}
