use super::*;

#[test]
fn marks_of_the_usual_processor_are_kept_as_when_there_was_no_other() {
    let mark = |modelled| Mark::CpuBound { machine: "host".into(), busy: 0.9, modelled };
    let fast: ProcessorSpeed = "4000mips".parse().unwrap();
    for (modelled, kept, said) in [
        (None, r#"{"mark":"cpu-bound","machine":"host","busy":0.9}"#, "90 % of the time"),
        (
            Some(ProcessorSpeed::USUAL),
            r#"{"mark":"cpu-bound","machine":"host","busy":0.9,"modelled":true}"#,
            "(modelled: 1000 MIPS, one, no caches)",
        ),
        (
            Some(fast),
            r#"{"mark":"cpu-bound","machine":"host","busy":0.9,"modelled":4000}"#,
            "(modelled: 4000 MIPS, one, no caches)",
        ),
    ] {
        assert_eq!(serde_json::to_string(&mark(modelled)).unwrap(), kept);
        assert_eq!(serde_json::from_str::<Mark>(kept).unwrap(), mark(modelled));
        assert!(mark(modelled).detail().ends_with(said));
    }
}

#[test]
fn a_cell_knows_the_processor_of_its_place() {
    let on = |ground: &str| Environment { ground: ground.into(), ..Environment::default() };
    let mips = |ground| on(ground).modelled_processor().map(ProcessorSpeed::mips);
    assert_eq!(mips("emulated:time=virtual"), Some(1000));
    assert_eq!(mips("emulated:time=virtual:cpu=4000mips"), Some(4000));
    assert!(on("emulated:time=virtual:cpu=4000mips").is_in_virtual_time());
    assert_eq!(["emulated", "this", "ssh:a"].map(mips), [None; 3]);
}
