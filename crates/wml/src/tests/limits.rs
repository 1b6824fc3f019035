//! What is too much is refused where it is written.

use super::{error, thread, try_read};

/// The place and the problem of a refusal.
fn refused(text: &str) -> String {
    let error = try_read(text).expect_err("it is too much");
    format!("{}:{} {}; {}", error.line, error.column, error.problem, error.remedy)
}

#[test]
fn what_no_machine_has_is_refused_at_its_place() {
    insta::assert_snapshot!(error(&thread("flowop read name=r,filesetname=docs,fd=1000000000")), @r"
    a script is not understood: test.f:3:37
      flowop read name=r,filesetname=docs,fd=1000000000
                                          ^^^^^^^^^^^^^ fd cannot be 1000000000
      write a number from 0 to 4095
    ");
    insta::assert_snapshot!(error(&thread("flowop read name=r,filesetname=docs,iosize=9223372036854775807")), @r"
    a script is not understood: test.f:3:37
      flowop read name=r,filesetname=docs,iosize=9223372036854775807
                                          ^^^^^^^^^^^^^^^^^^^^^^^^^^ iosize cannot be 9223372036854775807
      write a number from 0 to 1073741824
    ");
    insta::assert_snapshot!(error("define fileset name=a,path=/d,entries=4000000000,dirwidth=20\nrun"), @r"
    a script is not understood: test.f:1:31
      define fileset name=a,path=/d,entries=4000000000,dirwidth=20
                                    ^^^^^^^^^^^^^^^^^^ entries cannot be 4000000000
      write a number from 0 to 33554432
    ");
    insta::assert_snapshot!(
        error("define process name=p,instances=1000000 {\n thread name=t,instances=1000000 { flowop hog name=h } }"),
        @r"
        a script is not understood: test.f:1:23
          define process name=p,instances=1000000 {
                                ^^^^^^^^^^^^^^^^^ instances cannot be 1000000
          write a number from 0 to 16384
        "
    );
    insta::assert_snapshot!(
        error("define process name=p,instances=1000 {\n thread name=t,instances=1000 { flowop hog name=h } }"),
        @r"
        a script is not understood: test.f:1:1
          define process name=p,instances=1000 {
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ this process makes 1000000 threads in all
          a run can have at most 16384
        "
    );
}

#[test]
fn the_sum_of_all_counts() {
    let processes = |count: usize, what: &str| -> String {
        (0..count).map(|n| format!("define process name=p{n} {{ {what} }}\n")).collect()
    };
    let hogs = "thread name=t,instances=10000 { flowop hog name=h }";
    insta::assert_snapshot!(refused(&processes(2, hogs)), @"2:1 this process makes 20000 threads in all; a run can have at most 16384");
    // What a loop defines again takes the place of the former, and does not count twice.
    let again = format!("foreach $v in 1,2,3 {{ {} }}\nrun 1", processes(1, hogs));
    assert!(try_read(&again).is_ok());
    let set = "define file name=f,path=/d\n";
    let reads = "thread name=t,instances=20 { flowop read name=r,filename=f,iosize=1g }";
    insta::assert_snapshot!(refused(&format!("{set}{}", processes(1, reads))), @"2:1 this process makes 21474836480 bytes of memory that threads read into (iosize) in all; a run can have at most 17179869184");
    let memory = "thread name=t,instances=5,memsize=16g { flowop hog name=h }";
    insta::assert_snapshot!(refused(&processes(1, memory)), @"1:1 this process makes 85899345920 bytes of memory of threads (memsize) in all; a run can have at most 68719476736");
    let memory = "thread name=t,instances=4,memsize=16g { flowop hog name=h }";
    assert!(try_read(&processes(1, memory)).is_ok());
    let memory = "thread name=t,memsize=9223372036854775807 { flowop hog name=h }";
    assert!(refused(&processes(1, memory)).contains("write a number from 0 to 68719476736"));
    let descriptors = "thread name=t,instances=2000 { flowop read name=r,filename=f,iosize=1k,fd=4000 }";
    insta::assert_snapshot!(refused(&format!("{set}{}", processes(1, descriptors))), @"2:1 this process makes 8002000 descriptors (fd) of single threads in all; a run can have at most 4194304");
    let steps: String = (0..300).map(|n| format!("flowop hog name=h{n}\n")).collect();
    let steps = format!("thread name=t,instances=16384 {{ {steps} }}");
    insta::assert_snapshot!(refused(&processes(1, &steps)), @"1:1 this process makes 4915200 flowops and file sets of single threads in all; a run can have at most 4194304");
    let names: String = (0..4097).map(|n| format!("flowop hog name=h{n}\n")).collect();
    insta::assert_snapshot!(refused(&processes(1, &format!("thread name=t {{ {names} }}"))), @"1:1 this process makes 4097 flowops of different names in all; a run can have at most 4096");
    let sets = |count: usize, what: &str| -> String {
        (0..count).map(|n| format!("define fileset name=s{n},path=/d,dirwidth=9,{what}\n")).collect()
    };
    insta::assert_snapshot!(refused(&format!("{}run", sets(2, "entries=20000000"))), @"2:1 this makes 40000000 files and leaf directories in all; at most 33554432 are allowed");
    insta::assert_snapshot!(refused(&format!("{}run", sets(1, "entries=1000000,size=2t"))), @"1:1 this makes files of 2199023255552000000 bytes in all; at most 1152921504606846976 are allowed");
}

#[test]
fn times_rates_and_distributions_have_an_end() {
    let long = "9223372036854775807";
    for text in [
        format!("run {long}"),
        format!("sleep {long}"),
        format!("psrun {long} 60"),
        format!("psrun 1 {long}"),
    ] {
        assert!(refused(&text).contains("at most 315360000"), "{text}");
    }
    assert!(refused(&format!("psrun -{long} 60")).contains("at most 315360000"));
    assert!(
        refused("eventgen rate=5t\ndefine process name=p { thread name=t { flowop hog name=h } }\nrun")
            .contains("at most 1000000000")
    );
    for variable in [
        "cvar(type=cvar-lognormal,parameters=shape:1000;scale:1)",
        "cvar(type=cvar-weibull,parameters=shape:0.0001;scale:1)",
        "cvar(type=cvar-exponential,parameters=mean:1e400)",
    ] {
        let text =
            format!("set $x={variable}\ndefine fileset name=s,path=/d,entries=4,size=$x,dirwidth=2\nrun");
        assert!(refused(&text).starts_with("1:"), "{}", refused(&text));
    }
    let large = "set $x=cvar(type=cvar-normal,parameters=mean:1e30)\n";
    assert!(
        refused(&format!("{large}{}", thread("flowop read name=r,filesetname=docs,iosize=$x")))
            .contains("iosize cannot be")
    );
    assert!(
        refused(&format!(
            "{large}define process name=p,instances=$x {{ thread name=t {{ flowop hog name=h }} }}\nrun"
        ))
        .contains("instances cannot be")
    );
}

#[test]
fn a_file_set_is_one_directory_below_its_path() {
    insta::assert_snapshot!(error("define fileset name=../x,path=/d,entries=4,dirwidth=2\nrun"), @r#"
    a script is not understood: test.f:1:16
      define fileset name=../x,path=/d,entries=4,dirwidth=2
                     ^^^^^^^^^ name cannot be "../x"
      it is the name of one directory below path=, so it must not contain / and must not be . or ..
    "#);
    let long = "x".repeat(256);
    for name in ["/etc", "a/b", "a/../../b", "..", "\".\"", ".nestor-filesets.json", &long] {
        for kind in ["file", "fileset"] {
            let refusal = refused(&format!("set $n={name}\ndefine {kind} path=/d,name=$n\nrun"));
            assert!(refusal.starts_with("2:"), "{refusal}");
            assert!(refusal.contains("name cannot be"), "{refusal}");
        }
    }
    assert!(try_read("define file name=...,path=/dev/disk/by-id\nrun").is_ok());
}
