//! Whatever script is understood is planned or refused, and never panics; nothing is touched.

use nestor_flowops::{Scale, Source, check, mean_bytes, plan, scale};
use proptest::prelude::*;

/// Numbers at which something may break.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "20",
    "100",
    "0.0001",
    "0.5",
    "1.5",
    "999.999",
    "1k",
    "4096",
    "1m",
    "1g",
    "16t",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "8388607t",
    "0-1",
    "0-9223372036854775807",
    "4k * 3",
    "1 / 3",
    "1g * 1g",
    "9223372036854775807 + 1",
    "7 / 0",
    "$r",
    "$c",
    "$t",
    "$n",
];
const TYPES: &[&str] = &[
    "cvar-gamma",
    "cvar-normal",
    "cvar-lognormal",
    "cvar-weibull",
    "cvar-triangular",
    "cvar-uniform",
    "cvar-erlang",
    "cvar-exponential",
];
const PARAMETERS: &[&str] = &[
    "",
    ",parameters=mean:0",
    ",parameters=mean:1e300",
    ",parameters=shape:1e-300",
    ",parameters=shape:700;scale:5",
    ",parameters=gamma:1e-9",
    ",parameters=sigma:1e308",
    ",parameters=lower:-1e308;upper:1e308;mode:0",
    ",parameters=mean:-5",
    ",parameters=rate:1e-320",
];
const FLOWOPS: &[&str] = &[
    "read",
    "write",
    "readwholefile",
    "writewholefile",
    "appendfile",
    "appendfilerand",
    "aiowrite",
    "openfile",
    "createfile",
    "closefile",
    "hog",
    "delay",
    "semblock",
    "eventlimit",
    "bwlimit",
    "finishoncount",
];

/// Mostly numbers that scripts have, so that most scripts are understood.
fn number() -> impl Strategy<Value = &'static str> {
    const USUAL: &[&str] = &["2", "3", "5", "16", "40", "100"];
    prop_oneof![12 => proptest::sample::select(USUAL), 1 => proptest::sample::select(NUMBERS)]
}

prop_compose! {
    fn variables()(
        mean in number(), min in number(), gamma in number(), round in number(),
        kind in proptest::sample::select(&["gamma", "uniform"][..]),
        custom in proptest::sample::select(TYPES), parameters in proptest::sample::select(PARAMETERS),
        low in 0_u32..5, high in number(),
    ) -> String {
        format!(
            "set $n=12\nset $r=randvar(type={kind},mean={mean},min={min},gamma={gamma},round={round})\n\
             set $c=cvar(type={custom}{parameters})\n\
             set $t=randvar(type=tabular,mean={mean},min={min},randtable={{{{60,{low},{high}}},{{40,1,2}}}})\n"
        )
    }
}

prop_compose! {
    fn file_set(index: usize)(
        entries in number(), size in number(), width in number(), gamma in number(), leaves in number(),
        depth in proptest::option::of(number()), prealloc in number(),
    ) -> String {
        let depth = depth.map(|depth| format!(",dirdepthrv={depth}")).unwrap_or_default();
        format!(
            "define fileset name=s{index},path=/d,entries={entries},size={size},dirwidth={width},dirgamma={gamma},\
             leafdirs={leaves},prealloc={prealloc}{depth}\n"
        )
    }
}

prop_compose! {
    fn flowop(index: usize)(
        kind in proptest::sample::select(FLOWOPS), bytes in number(), set in 0_usize..2, fd in number(), value in number(),
        iterations in number(), working in number(), random in any::<bool>(),
    ) -> String {
        let random = if random { ",random" } else { "" };
        format!(
            "flowop {kind} name=f{index},filename=s{set},fd={fd},iosize={bytes},value={value},iters={iterations},\
             workingset={working}{random}\n"
        )
    }
}

prop_compose! {
    fn script()(
        variables in variables(), first in file_set(0), second in file_set(1), processes in number(), threads in number(),
        flowops in (flowop(0), flowop(1)), rate in number(), time in number(), period in number(),
    ) -> String {
        format!(
            "{variables}{first}{second}eventgen rate={rate}\n\
             define process name=p,instances={processes} {{ thread name=t,instances={threads} {{ {}{} }} }}\n\
             psrun {period} {time}\n",
            flowops.0, flowops.1,
        )
    }
}

/// Trees of more are refused or planned alike, and take their time.
const FEW: u64 = 20_000;

fn look(text: &str) -> Result<(), String> {
    let parsed = nestor_wml::parse(&nestor_wml::Source::new("test.f", text), &[]);
    let script = parsed.map_err(|error| error.to_string())?;
    let source = Source { name: "test.f", text };
    let checked = check(&script, source).map_err(|error| error.to_string());
    for how in
        [Scale::Tiny, Scale::Factor(1e-9), Scale::Factor(1e300), Scale::Bytes(u64::MAX), Scale::Bytes(0)]
    {
        let scaled = scale(&script, how);
        let _ = mean_bytes(&scaled.script);
        let entries: u64 = nestor_flowops::file_sets(&scaled.script)
            .fold(0, |sum, set| sum.saturating_add(set.entries).saturating_add(set.leaf_directories));
        if entries <= FEW {
            let _ = plan(&scaled.script, source, 1);
        } else {
            let _ = check(&scaled.script, source);
        }
    }
    checked
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_is_understood_is_planned_or_refused(text in script()) {
        if let Err(refusal) = look(&text) {
            prop_assert!(refusal.contains("test.f:"), "{}", refusal);
        }
    }
}

#[test]
fn what_would_end_a_run_is_found_before_it() {
    let refused = |text: &str| look(text).unwrap_err();
    let thread = |flowop: &str| {
        format!(
            "define fileset name=s,path=/d,entries=4,dirwidth=2\n\
             define process name=p {{ thread name=t {{\n  {flowop}\n}} }}\nrun 1\n"
        )
    };
    insta::assert_snapshot!(refused(&thread("flowop read name=r,filesetname=s")), @"a script cannot run: test.f:3:3: flowop r moves no data: give it iosize=");
    insta::assert_snapshot!(refused(&thread("flowop aiowrite name=w,filesetname=s,iosize=4k")), @"a script cannot run: test.f:3:3: flowop w writes asynchronously and sequentially, which has no meaning: add random");
    insta::assert_snapshot!(refused("echo \"é\"\n  define fileset name=s,path=/d,entries=9,dirwidth=1\nrun"), @"a script cannot run: test.f:2:3: file set s has directories of 1 entries each, which cannot form a tree of 9 files: give it dirwidth= of at least 2");
    insta::assert_snapshot!(refused("define fileset name=s,path=/d\ncreate files"), @"a script cannot run: test.f:1:1: file set s has no files and no leaf directories: give it entries= or leafdirs=");
    assert_eq!(look(&thread("flowop read name=r,filesetname=s,iosize=4k")), Ok(()));
}

/// Directories into which nothing fits.
#[test]
fn a_tree_of_empty_directories_has_an_end() {
    let text = "set $w=cvar(type=cvar-triangular,parameters=lower:0;upper:6;mode:6,max=0.0000000000000000000000001)\n\
        define fileset name=s,path=/d,entries=4,dirwidth=$w\nrun\n";
    let script = nestor_wml::parse(&nestor_wml::Source::new("test.f", text), &[]).unwrap();
    let refusal = plan(&script, Source { name: "test.f", text }, 1).unwrap_err().to_string();
    assert!(refusal.contains("directories before it has all its files"), "{refusal}");
}
