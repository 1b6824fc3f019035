use super::{SMALL, flowops, inner, read, read_with, run, runs, thread, try_read, warnings};
use crate::{
    Action, Distribution, FileSetKind, Flowop, FlowopKind, MultiClient, QuitMode, RunTime, Source, Value,
    parse,
};

#[test]
fn a_small_script_is_understood() {
    let script = read(SMALL);
    let run = run(&script);
    let set = &run.file_sets[0];
    assert_eq!((set.name.as_str(), set.path.as_str(), set.kind), ("docs", "/data", FileSetKind::Tree));
    assert_eq!(
        (set.entries, set.file_bytes.clone(), set.preallocated_percent),
        (40, Value::Fixed(8192), 100.0)
    );
    assert_eq!((set.directory_gamma, set.cached), (1.5, None));
    assert_eq!(&SMALL[set.span.clone()].lines().count(), &1);
    let thread = &run.processes[0].threads[0];
    assert_eq!((thread.name.as_str(), thread.instances), ("t", 3));
    let get = &thread.flowops[1];
    assert_eq!((get.name.as_str(), get.kind.clone(), get.fd), ("get", FlowopKind::ReadWholeFile, 1));
    assert_eq!((get.io_bytes.clone(), get.file_set), (Value::Fixed(4096), None));
    assert_eq!(&SMALL[get.span.clone()], "flowop readwholefile name=get,fd=1,iosize=4k");
    assert_eq!(run.time, RunTime::Seconds(5.0));
    assert!(script.warnings.is_empty());
}

#[test]
fn line_ends_and_blanks_do_not_matter() {
    let expected = read(SMALL);
    let without_spans = |script: &crate::Script| format!("{script:?}").split("span").count();
    for text in [
        SMALL.replace('\n', "\r\n"),
        SMALL.trim_end().to_owned(),
        format!("\u{feff}{SMALL}"),
        SMALL.replace(",", " ,\n\t"),
    ] {
        let script = read(&text);
        assert_eq!(without_spans(&script), without_spans(&expected));
        assert_eq!(run(&script).processes[0].threads[0].flowops.len(), 3);
    }
}

#[test]
fn a_variable_has_the_value_of_the_moment_it_is_needed() {
    let script = read(&SMALL.replace("run 5", "set $where=/later\nrun 5\nset $where=/last\ncreate files"));
    assert_eq!(run(&script).file_sets[0].path, "/later");
    let Some(Action::CreateFiles(sets)) = script.actions.last() else { panic!() };
    assert_eq!(sets[0].path, "/last");
}

#[test]
fn the_command_line_wins() {
    let script = read_with(SMALL, &[("$where", "/mnt/a+b (c)")]).unwrap();
    assert_eq!(run(&script).file_sets[0].path, "/mnt/a+b (c)");
    let text = format!("set $n=2\nset $s=$n * 1k\n{}", SMALL.replace("size=8k", "size=$s"));
    assert_eq!(run(&read(&text)).file_sets[0].file_bytes, Value::Fixed(2048));
    let size = |overrides: &[(&str, &str)]| {
        run(&read_with(&text, overrides).unwrap()).file_sets[0].file_bytes.clone()
    };
    assert_eq!(size(&[("n", "5")]), Value::Fixed(5120));
    assert_eq!(size(&[("n", "5"), ("s", "$n + 1m")]), Value::Fixed((1 << 20) + 5));
    let Value::Drawn(drawn) = size(&[("s", "cvar(type=cvar-uniform,parameters=lower:1;upper:3)")]) else {
        panic!()
    };
    assert_eq!(drawn.distribution, Distribution::Uniform { lower: 1.0, upper: 3.0 });
}

#[test]
fn a_variable_of_the_command_line_has_to_be_in_the_script() {
    let error = read_with(SMALL, &[("were", "/x")]).unwrap_err().to_string();
    insta::assert_snapshot!(error, @r"
    a script is not understood: --set:1:1
      $were=/x
      ^^^^^ the script has no variable $were
      did you mean where?
    ");
    let error = read_with(SMALL, &[("where", "1 2")]).unwrap_err().to_string();
    insta::assert_snapshot!(error, @r"
    a script is not understood: --set:1:10
      $where=1 2
               ^ the number 2 is not allowed here
      a value is a number, a text, a variable or a calculation
    ");
}

#[test]
fn calculations_follow_the_usual_rules() {
    let value = |expression: &str| {
        let script = read(&format!("set $a=7\nset $d=/x\nset $r={expression}\necho \"$r\""));
        match &script.actions[..] {
            [Action::Echo(text)] => text.clone(),
            actions => panic!("{actions:?}"),
        }
    };
    for (expression, expected) in [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("$a / 2", "3"),
        ("-$a / 2", "-4"),
        ("$a-2", "5"),
        ("$a/2", "3"),
        ("10 - 4 - 3", "3"),
        ("1k*2+$a", "2055"),
        ("0.5 * $a", "3.5"),
        ("- -3", "3"),
        ("$d/sub", "/x/sub"),
        ("$d/$a", "/x/7"),
        ("$d-2", "/x-2"),
        ("$d/$a/y", "/x/7/y"),
        ("\"$d and $b\"", "/x and $b"),
        ("true", "true"),
        ("aux.df-1", "aux.df-1"),
        ("10.0.0.1", "10.0.0.1"),
        ("/", "/"),
        ("\"4k\" + 1", "4097"),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn a_calculation_may_come_before_its_variables() {
    let script = read("set $total=$n * 3\nset $n=4\necho \"$total\"\nset $n=$n + 1\necho \"$n\"");
    assert_eq!(script.actions, ["12", "5"].map(|text| Action::Echo(text.to_owned())));
}

#[test]
fn texts_have_variables_and_escapes() {
    let script = read(r#"set $a=5 echo "$a \$a $b \"q\" C:\dir $Date: 2005 $ 100%\n""#);
    assert_eq!(script.actions, [Action::Echo("5 $a $b \"q\" C:\\dir $Date: 2005 $ 100%\n".to_owned())]);
}

#[test]
fn surroundings_come_from_outside() {
    let text = "set $dir=$(HOME) echo \"$dir ${script} ${date}\"";
    let home = |name: &str| (name == "HOME").then(|| "/root".to_owned());
    let script = parse(&Source::new("a.f", text).with_environment(&home), &[]).unwrap();
    assert_eq!(script.actions, [Action::Echo("/root a.f ".to_owned())]);
    insta::assert_snapshot!(warnings(&script), @"1: date is not known, so it is empty text; --set date=… gives it a value");
}

#[test]
fn a_script_can_load_another() {
    let load = |name: &str| match name {
        "small" => Some(SMALL.replace("run 5", "").into_bytes()),
        "self" => Some(b"load self".to_vec()),
        _ => None,
    };
    let script =
        parse(&Source::new("a.f", "load small\nset $where=/b\nrun 2").with_loader(&load), &[]).unwrap();
    assert_eq!(run(&script).file_sets[0].path, "/b");
    let error = parse(&Source::new("a.f", "load self").with_loader(&load), &[]).unwrap_err();
    assert_eq!(error.file, "self");
    assert!(try_read("load small").is_err());
}

#[test]
fn loops_are_executed() {
    let text = SMALL.replace("instances=3", "instances=$n").replace("run 5", "");
    let (define, process) = text.split_at(text.find("define process").unwrap());
    let script = read(&format!(
        "{define}foreach $n in 1, 4, 2 {{ {process} foreach $t in \"a\",\"b\" {{ echo \"$n$t\" }} run $n }}"
    ));
    let threads = |run: &crate::Run| (run.processes.len(), run.processes[0].threads[0].instances, run.time);
    let expected = [1, 4, 2].map(|n| (1, n, RunTime::Seconds(n as f64)));
    assert_eq!(runs(&script).into_iter().map(threads).collect::<Vec<_>>(), expected);
    let echoes = script.actions.iter().filter(|action| matches!(action, Action::Echo(_))).count();
    assert_eq!(echoes, 6);
}

#[test]
fn file_sets_of_a_loop_are_told_apart_by_their_names() {
    let script = read(
        "foreach $n in 1,2,2 { define fileset name=set$n,path=/d,entries=$n,dirwidth=5 }\ncreate filesets",
    );
    let [Action::CreateFiles(sets)] = &script.actions[..] else { panic!() };
    let found: Vec<_> = sets.iter().map(|set| (set.name.as_str(), set.entries)).collect();
    assert_eq!(found, [("set1", 1), ("set2", 2)]);
}

const COMPOSITES: &str = "\
define fileset name=one,path=/d,entries=1,dirwidth=5
define fileset name=two,path=/d,entries=1,dirwidth=5
define flowop name=low, $fs, $n=3 {
  flowop openfile name=open,filesetname=$fs,fd=1
  flowop read name=get,fd=1,iters=$n
  flowop closefile name=close,fd=1
}
define flowop name=high, $fs, iters=2 {
  flowop low name=inner, $fs=$fs, iters=4
  flowop statfile name=stat,filesetname=$fs
  flowop finishoncount name=end,value=9,target=stat
}
define process name=p {
  thread name=t { flowop high name=a, $fs=one
    flowop high name=b,iters=5,$fs=$which flowop low name=c,$fs=two,$n=$count }
}
set $which=two
set $count=randvar(type=uniform,mean=10)
";

#[test]
fn composite_flowops_are_put_in_with_their_variables() {
    let script = read(COMPOSITES);
    let flowops = flowops(&script);
    let describe = |flowop: &Flowop| (flowop.name.clone(), flowop.file_set, flowop.iterations.clone());
    assert_eq!(describe(&flowops[0]), ("a".to_owned(), None, Value::Fixed(2)));
    assert_eq!(describe(&flowops[1]), ("b".to_owned(), None, Value::Fixed(5)));
    let a = inner(&flowops[0]);
    assert_eq!(describe(&a[0]), ("a.inner".to_owned(), None, Value::Fixed(4)));
    assert_eq!(describe(&inner(&a[0])[0]), ("a.inner.open".to_owned(), Some(0), Value::Fixed(1)));
    assert_eq!(describe(&inner(&a[0])[1]), ("a.inner.get".to_owned(), None, Value::Fixed(3)));
    assert_eq!(a[2].target.as_deref(), Some("a.stat"));
    let b = inner(&flowops[1]);
    assert_eq!(describe(&b[1]), ("b.stat".to_owned(), Some(1), Value::Fixed(1)));
    let Value::Drawn(drawn) = &inner(&flowops[2])[1].iterations else { panic!() };
    assert_eq!(drawn.name, "$count");
    assert_eq!(run(&script).time, RunTime::NotGiven);
}

#[test]
fn a_run_step_by_step_is_a_run() {
    let text = SMALL.replace("run 5", "create filesets\ncreate processes\nsleep 5\nstats clear\nsleep 60\nstats snap\nshutdown processes\nsleep 2");
    let script = read(&text);
    assert_eq!(run(&script).time, RunTime::Seconds(60.0));
    assert!(matches!(script.actions[..], [Action::CreateFiles(_), Action::Run(_), Action::Sleep(_)]));
    insta::assert_snapshot!(warnings(&script), @r"
    13: the 5 s before this are skipped: every run begins with fresh counters
    15: stats snap has no effect here: every run reports at its end
    ");
}

#[test]
fn what_has_no_effect_is_said() {
    let script = read(
        "debug 3\nenable lathist\nset mode nousestats\nversion\nvars\nusage \"never $shown\"\nstats dump \"x.out\"\n\
         stats directory /tmp/$a\nfscheck path=/x fsflush fstype=ufs\nlist flowop\nset $r=randvar(type=uniform,mean=5,seed=17,randsrc=urandom)\n\
         define fileset name=a,path=/d,entries=9,size=$r,entropy=3.4\nrun 1 2 $x\n",
    );
    insta::assert_snapshot!(warnings(&script), @r#"
    1: debug has no effect here
    2: enable lathist has no effect here: the latency of every operation is always recorded
    3: set mode nousestats has no effect here
    4: version and help have no effect here
    5: vars has no effect here: echo "$name" prints a variable
    7: stats dump, command and directory have no effect here: the command line decides where results go
    8: stats dump, command and directory have no effect here: the command line decides where results go
    9: fscheck and fsflush have no effect here: use system "sync", which does the same on Linux
    10: list flowop has no effect here
    11: seed has no effect here: all random values come from the run's seed
    11: randsrc has no effect here: all random values come from the run's seed
    12: entropy has no effect here: it belongs to a variant of Filebench
    12: dirwidth is missing: every file gets a directory of its own, as in Filebench
    13: run takes one time: the values after it have no effect
    13: no process is defined before this run: it only makes the files
    "#);
}

#[test]
fn commands_become_actions() {
    let script = read(
        "enable multi master=\"host-1\", client=c2\ndomultisync value=3\nset $n=4 domultisync value=$n\nsystem \"sync; echo $n\"\n\
         sleep 2 sleep $n list filesets quit echo \"never\"",
    );
    let text = script.actions.iter().map(|action| format!("{action:?}\n")).collect::<String>();
    insta::assert_snapshot!(text, @r#"
    EnableMulti(MultiClient { master: "host-1", client: "c2" })
    MultiSync(3)
    MultiSync(4)
    System("sync; echo 4")
    Sleep(2.0)
    Sleep(4.0)
    ListFileSets([])
    "#);
    assert!(matches!(&script.actions[0], Action::EnableMulti(MultiClient { .. })));
}

#[test]
fn runs_have_a_mode_a_rate_and_reports() {
    let text = SMALL.replace("run 5", "eventgen rate = $r\nset mode quit firstdone\nset $r=50\npsrun -10 600\nset $r=0\nset mode quit timeout\npsrun\nrun");
    let script = read(&text);
    let found: Vec<_> = runs(&script)
        .iter()
        .map(|run| (run.quit, run.events_per_second, run.report_every_s, run.report_resets, run.time))
        .collect();
    assert_eq!(
        found,
        [
            (QuitMode::FirstDone, Some(50.0), Some(10.0), true, RunTime::Seconds(600.0)),
            (QuitMode::Timeout, None, Some(10.0), false, RunTime::NotGiven),
            (QuitMode::Timeout, None, None, false, RunTime::NotGiven),
        ]
    );
}

#[test]
fn attributes_of_files_and_flowops_arrive() {
    let script = read(
        "define file name=log.1,path=\"/a b\",filesize=3m,prealloc=50,paralloc,reuse=false,trusttree,writeonly,cached=$c\n\
         set $c=true\nset $depth=cvar(type=cvar-gamma)\n\
         define fileset name=tree,path=/d,entries=1k,dirwidth=20,dirgamma=0,dirdepthrv=$depth,leafdirs=7,size=100,filesizegamma=2000,readonly\n\
         define process name=p,instances=2,nice=-5 { thread name=t,memsize=1m,ioprio=3,useism {\n\
         flowop aiowrite name=w,filename=log.1,iosize=256k,workingset=1g,random,opennext,dsync,directio=1,iters=100,indexed=$depth,noreadahead\n\
         flowop semblock name=s,value=100,highwater=10 flowop sempost name=post,target=s,value=1,blocking=true\n\
         flowop print name=say,value=\"hello $c\" } }\nrun 1",
    );
    let run = run(&script);
    let (file, tree) = (&run.file_sets[0], &run.file_sets[1]);
    assert_eq!((file.kind, file.entries, &*file.path), (FileSetKind::File, 1, "/a b"));
    assert_eq!(
        (file.preallocated_percent, file.parallel, file.reuse, file.trust_tree),
        (50.0, true, false, true)
    );
    assert_eq!((file.write_only, file.read_only, file.cached), (true, false, Some(true)));
    assert_eq!((file.directory_gamma, file.directory_width.clone()), (0.0, Value::Fixed(10)));
    assert_eq!(
        (tree.entries, tree.leaf_directories, tree.directory_gamma, tree.read_only),
        (1024, 7, 0.0, true)
    );
    let Value::Drawn(size) = &tree.file_bytes else { panic!() };
    assert_eq!(size.distribution, Distribution::Gamma { shape: 2.0, scale: 50.0, offset: 0.0 });
    assert!(tree.directory_depth.is_some());
    let thread = &run.processes[0].threads[0];
    assert_eq!((run.processes[0].nice, run.processes[0].instances), (-5, 2));
    assert_eq!((thread.memory_bytes, thread.io_priority), (1 << 20, Some(3)));
    let write = &thread.flowops[0];
    assert!(write.random && write.rotate && write.synchronous && write.direct && write.no_read_ahead);
    assert_eq!(
        (write.working_set.clone(), write.iterations.clone()),
        (Value::Fixed(1 << 30), Value::Fixed(100))
    );
    assert!(matches!(write.index, Some(Value::Drawn(_))));
    assert_eq!((thread.flowops[1].high_water, thread.flowops[2].blocking), (10, true));
    assert_eq!(thread.flowops[3].text.as_deref(), Some("hello true"));
}

#[test]
fn a_variable_without_a_value_counts_as_false() {
    let script = read(&thread("flowop read name=r,filesetname=docs,directio=$directio"));
    assert!(!flowops(&script)[0].direct);
    insta::assert_snapshot!(warnings(&script), @"3: $directio has no value: it counts as false");
}
