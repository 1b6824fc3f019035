use super::{error, read_with, thread, try_read};
use crate::{Source, parse};

#[test]
fn words_that_are_not_known_are_pointed_at() {
    insta::assert_snapshot!(error("set $a=1\n  defin file name=x"), @r#"
    a script is not understood: test.f:2:3
      defin file name=x
      ^^^^^ there is no command "defin"
      did you mean define?
    "#);
    insta::assert_snapshot!(error(&thread("\tflowop raed name=r,filesetname=docs")), @r#"
    a script is not understood: test.f:3:9
      flowop raed name=r,filesetname=docs
             ^^^^ there is no flowop "raed"
      did you mean read?
    "#);
    insta::assert_snapshot!(error(&thread("flowop read name=r,filesetname=docs,iosiz=4k")), @r#"
    a script is not understood: test.f:3:37
      flowop read name=r,filesetname=docs,iosiz=4k
                                          ^^^^^ a flowop has no attribute "iosiz"
      did you mean iosize?
    "#);
    insta::assert_snapshot!(error(&thread("flowop read name=r,filesetname=docs,entries=4k")), @r#"
    a script is not understood: test.f:3:37
      flowop read name=r,filesetname=docs,entries=4k
                                          ^^^^^^^ a flowop has no attribute "entries"
      entries is an attribute of a file set; the attributes here are name, filename, fd, srcfd, iosize, iters, workingset, random, dsync, directio, opennext, noreadahead, indexed, value, target, blocking, highwater
    "#);
    insta::assert_snapshot!(error(&thread("flowop read name=r,filesetname=dosc")), @r#"
    a script is not understood: test.f:3:20
      flowop read name=r,filesetname=dosc
                         ^^^^^^^^^^^^^^^^ there is no file set "dosc"
      did you mean docs?
    "#);
    insta::assert_snapshot!(error(&thread("flowop wakeup name=r,target=w\nflowop block name=x")), @r"
    a script is not understood: test.f:3:22
      flowop wakeup name=r,target=w
                           ^^^^^^^^ no flowop with name=w is in any thread
      names of flowops: r, x
    ");
    insta::assert_snapshot!(error("define fileset name=a,path=/d,entries=$nfile,dirwidth=1\nset $nfiles=5"), @r"
    a script is not understood: test.f:1:39
      define fileset name=a,path=/d,entries=$nfile,dirwidth=1
                                            ^^^^^^ $nfile has no value
      did you mean $nfiles?
    ");
    insta::assert_snapshot!(error("set $x=cvar(type=cvar-gama)\nset $y=$x.mean"), @r#"
    a script is not understood: test.f:1:13
      set $x=cvar(type=cvar-gama)
                  ^^^^^^^^^^^^^^ type cannot be "cvar-gama"
      did you mean cvar-gamma?
    "#);
    insta::assert_snapshot!(error("set $x=cvar(type=cvar-gamma,parameters=maen:5)\nset $y=$x.mean"), @r#"
    a script is not understood: test.f:1:29
      set $x=cvar(type=cvar-gamma,parameters=maen:5)
                                  ^^^^^^^^^^^^^^^^^ a parameter of this type cannot be "maen"
      did you mean mean?
    "#);
    insta::assert_snapshot!(error("define posset name=a"), @r"
    a script is not understood: test.f:1:8
      define posset name=a
             ^^^^^^ sets of positions are not supported
      Filebench 1.5 removed sets of positions: use random
    ");
    insta::assert_snapshot!(error("thread name=a"), @r#"
    a script is not understood: test.f:1:1
      thread name=a
      ^^^^^^ there is no command "thread"
      thread belongs after define, or in a process: there may be one } too many before it
    "#);
}

#[test]
fn what_is_missing_is_named() {
    insta::assert_snapshot!(error("define fileset path=/d,entries=4"), @r"
    a script is not understood: test.f:1:1
      define fileset path=/d,entries=4
      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ a file set has no name
      add name=one
    ");
    insta::assert_snapshot!(error("define file name=a,size=4k"), @r"
    a script is not understood: test.f:1:1
      define file name=a,size=4k
      ^^^^^^^^^^^^^^^^^^^^^^^^^^ a file has no path
      add path=/tmp
    ");
    insta::assert_snapshot!(error(&thread("flowop read filesetname=docs")), @r"
    a script is not understood: test.f:3:1
      flowop read filesetname=docs
      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ a flowop has no name
      add name=one
    ");
    insta::assert_snapshot!(error(&thread("flowop opslimit")), @r"
    a script is not understood: test.f:3:1
      flowop opslimit
      ^^^^^^^^^^^^^^^ a flowop has no name
      add name=one
    ");
    insta::assert_snapshot!(error(&thread("flowop openfile name=o,fd=1")), @r"
    a script is not understood: test.f:3:1
      flowop openfile name=o,fd=1
      ^^^^^^^^^^^^^^^^^^^^^^^^^^^ openfile has no filesetname
      add filesetname=…: the name of a file or file set
    ");
    insta::assert_snapshot!(error(&thread("flowop sempost name=o")), @r"
    a script is not understood: test.f:3:1
      flowop sempost name=o
      ^^^^^^^^^^^^^^^^^^^^^ sempost has no target
      add target=…: the name of the flowop that waits
    ");
    insta::assert_snapshot!(error("define process name=p { thread name=t { flowop hog name=h,value=1 }"), @r"
    a script is not understood: test.f:1:23
      define process name=p { thread name=t { flowop hog name=h,value=1 }
                            ^ the { of this process is not closed
      put a } where it ends
    ");
    insta::assert_snapshot!(error("define process name=p { }"), @r"
    a script is not understood: test.f:1:1
      define process name=p { }
      ^^^^^^^^^^^^^^^^^^^^^ this process has no threads
      give it at least one
    ");
    insta::assert_snapshot!(error("echo \"hello\nrun 5"), @r#"
    a script is not understood: test.f:1:6
      echo "hello
           ^^^^^^ this string does not end
      put a " at its end
    "#);
    insta::assert_snapshot!(error("echo \"hello\ndefine file name=\"x\",path=/d"), @r#"
    a script is not understood: test.f:1:6
      echo "hello
           ^^^^^^ this string does not end
      put a " at its end
    "#);
    insta::assert_snapshot!(error("set $x=randvar(type=uniform"), @r"
    a script is not understood: test.f:1:8
      set $x=randvar(type=uniform
             ^^^^^^^^ this parenthesis is not closed
      put a ) where it ends
    ");
    insta::assert_snapshot!(error("set $x="), @r"
    a script is not understood: test.f:1:8
      set $x=
             ^ the end of the script is not allowed here
      expected a value: a number, a text or a $variable
    ");
    insta::assert_snapshot!(error("define file name=a,path=/d size=4k"), @r#"
    a script is not understood: test.f:1:28
      define file name=a,path=/d size=4k
                                 ^^^^ "size" is not allowed here
      separate attributes with commas
    "#);
    insta::assert_snapshot!(error("enable multi master=a"), @r"
    a script is not understood: test.f:1:1
      enable multi master=a
      ^^^^^^^^^^^^^^^^^^^^^ enable multi has no client
      enable multi master=host1, client=host2
    ");
    insta::assert_snapshot!(error("load fileserver"), @r#"
    a script is not understood: test.f:1:6
      load fileserver
           ^^^^^^^^^^ the script "fileserver" is not found
      replace this line with its text
    "#);
}

#[test]
fn values_that_do_not_fit_are_refused() {
    insta::assert_snapshot!(error("define file name=a,path=/d,size=10mb\nrun"), @r#"
    a script is not understood: test.f:1:28
      define file name=a,path=/d,size=10mb
                                 ^^^^^^^^^ size cannot be "10mb"
      write a number of 0 or more, such as 1000 or 16k, or a variable with such a value
    "#);
    insta::assert_snapshot!(error("define file name=a,path=/d,size=99999999999g\nrun"), @r"
    a script is not understood: test.f:1:33
      define file name=a,path=/d,size=99999999999g
                                      ^^^^^^^^^^^^ the number 99999999999g is too large
      the largest is 9223372036854775807
    ");
    insta::assert_snapshot!(error("define file name=a,path=/d,prealloc=101\nrun"), @r"
    a script is not understood: test.f:1:28
      define file name=a,path=/d,prealloc=101
                                 ^^^^^^^^^^^^ prealloc cannot be 101
      write a percentage from 0 to 100
    ");
    insta::assert_snapshot!(error("define file name=a,path=/d,reuse=often\nrun"), @r#"
    a script is not understood: test.f:1:28
      define file name=a,path=/d,reuse=often
                                 ^^^^^^^^^^^ reuse cannot be "often"
      write true or false
    "#);
    insta::assert_snapshot!(error("define process name=p,instances=-1 { thread name=t { flowop hog name=h } }"), @r"
    a script is not understood: test.f:1:23
      define process name=p,instances=-1 { thread name=t { flowop hog name=h } }
                            ^^^^^^^^^^^^ instances cannot be -1
      write a number of 0 or more, such as 1000 or 16k, or a variable with such a value
    ");
    insta::assert_snapshot!(error("define process name=p,nice=30 { thread name=t { flowop hog name=h } }"), @r"
    a script is not understood: test.f:1:23
      define process name=p,nice=30 { thread name=t { flowop hog name=h } }
                            ^^^^^^^ nice cannot be 30
      write a priority from -20 to 19
    ");
    insta::assert_snapshot!(error("define process name=p { thread name=t,ioprio=9 { flowop hog name=h } }"), @r#"
    a script is not understood: test.f:1:39
      define process name=p { thread name=t,ioprio=9 { flowop hog name=h } }
                                            ^^^^^^^^ ioprio cannot be 9
      write a priority from 0 (highest) to 7
    "#);
    insta::assert_snapshot!(error("define file name=a,path=/d,readonly,writeonly\nrun"), @r"
    a script is not understood: test.f:1:1
      define file name=a,path=/d,readonly,writeonly
      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ this is both readonly and writeonly
      remove one of them
    ");
    insta::assert_snapshot!(error("define fileset name=a,path=/d,entries=4,dirwidth=2,dirdepthrv=4\nrun"), @r"
    a script is not understood: test.f:1:52
      define fileset name=a,path=/d,entries=4,dirwidth=2,dirdepthrv=4
                                                         ^^^^^^^^^^^^ dirdepthrv cannot be 4
      use a random variable: set $depth=cvar(type=cvar-gamma,parameters=mean:4;gamma:1.5)
    ");
    insta::assert_snapshot!(error("run -5"), @r"
    a script is not understood: test.f:1:5
      run -5
          ^^ the time of a run cannot be -5
      write seconds, 0 or more
    ");
    insta::assert_snapshot!(error("eventgen rate=-1\nrun 5"), @r"
    a script is not understood: test.f:1:10
      eventgen rate=-1
               ^^^^^^^ rate cannot be -1
      write events per second, at most 1000000000; 0 means as many as possible
    ");
    insta::assert_snapshot!(error("set $a=5 / 0"), @r"
    a script is not understood: test.f:1:10
      set $a=5 / 0
               ^ 5 / 0 cannot be computed
      calculations use whole numbers of up to 63 bits, or fractions
    ");
    insta::assert_snapshot!(error("set $a=8g * 8g"), @r"
    a script is not understood: test.f:1:11
      set $a=8g * 8g
                ^ 8589934592 * 8589934592 is too large
      calculations use whole numbers of up to 63 bits, or fractions
    ");
    insta::assert_snapshot!(error("set $a=some * 4"), @r#"
    a script is not understood: test.f:1:13
      set $a=some * 4
                  ^ "some" is not a number
      calculations use whole numbers of up to 63 bits, or fractions
    "#);
    insta::assert_snapshot!(error("set mode quit soon"), @r#"
    a script is not understood: test.f:1:15
      set mode quit soon
                    ^^^^ "soon" is not allowed here
      set mode quit timeout, set mode quit alldone, set mode quit firstdone, or set mode nousestats
    "#);
    insta::assert_snapshot!(error("set $a=x!"), @r"
    a script is not understood: test.f:1:9
      set $a=x!
              ^ the character '!' has no meaning here
      write text with such characters in quotation marks
    ");
    insta::assert_snapshot!(error("foreach $v in 1,2 run 5"), @r#"
    a script is not understood: test.f:1:19
      foreach $v in 1,2 run 5
                        ^^^ "run" is not allowed here
      foreach $name in 1, 2, 3 { … }
    "#);
}

#[test]
fn impossible_distributions_are_refused() {
    let random =
        |text: &str| error(&format!("set $x={text}\nset $y=1 define file name=a,path=/d,size=$x run"));
    insta::assert_snapshot!(random("randvar(type=tabular,randtable={{50,1,2},{40,3,4}})"), @r"
    a script is not understood: test.f:1:39
      set $x=randvar(type=tabular,randtable={{50,1,2},{40,3,4}})
                                            ^^^^^^^^^^^^^^^^^^^ the shares of this table add up to 90 %
      they must add up to 100 %
    ");
    insta::assert_snapshot!(random("randvar(type=tabular)"), @r"
    a script is not understood: test.f:1:8
      set $x=randvar(type=tabular)
             ^^^^^^^^^^^^^^^^^^^^^ a tabular randvar has no randtable
      add randtable={{percent, min, max}, …}
    ");
    insta::assert_snapshot!(random("randvar(type=uniform)"), @r"
    a script is not understood: test.f:1:8
      set $x=randvar(type=uniform)
             ^^^^^^^^^^^^^^^^^^^^^ a uniform randvar has no mean
      its values go from min to twice the mean less min
    ");
    insta::assert_snapshot!(random("randvar(type=gamma,mean=5,min=10)"), @r"
    a script is not understood: test.f:1:8
      set $x=randvar(type=gamma,mean=5,min=10)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ the mean of this randvar, 5, is below its min, 10
      give it a larger mean or a smaller min
    ");
    insta::assert_snapshot!(random("randvar(type=gamma,mean=5,gamma=0)"), @r"
    a script is not understood: test.f:1:8
      set $x=randvar(type=gamma,mean=5,gamma=0)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ gamma cannot be 0
      it must be more than 0: 1500 for a shape of 1.5
    ");
    insta::assert_snapshot!(random("randvar(type=normal,mean=5)"), @r#"
    a script is not understood: test.f:1:16
      set $x=randvar(type=normal,mean=5)
                     ^^^^^^^^^^^ type cannot be "normal"
      types of randvar: uniform, gamma, tabular
    "#);
    insta::assert_snapshot!(random("randvar(type=uniform,mean=$x)"), @r"
    a script is not understood: test.f:1:8
      set $x=randvar(type=uniform,mean=$x)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ the random variable $x contains itself
      give numbers to its attributes
    ");
    insta::assert_snapshot!(random("cvar(type=cvar-normal,parameters=sigma:-1)"), @r"
    a script is not understood: test.f:1:30
      set $x=cvar(type=cvar-normal,parameters=sigma:-1)
                                   ^^^^^^^^^^^^^^^^^^^ sigma cannot be -1
      it must be 0 or more
    ");
    insta::assert_snapshot!(random("cvar(type=cvar-erlang,parameters=shape:1.5)"), @r"
    a script is not understood: test.f:1:30
      set $x=cvar(type=cvar-erlang,parameters=shape:1.5)
                                   ^^^^^^^^^^^^^^^^^^^^ shape cannot be 1.5
      it must be a whole number of 1 or more
    ");
    insta::assert_snapshot!(random("cvar(type=cvar-triangular,parameters=mode:7)"), @r"
    a script is not understood: test.f:1:34
      set $x=cvar(type=cvar-triangular,parameters=mode:7)
                                       ^^^^^^^^^^^^^^^^^ mode cannot be 7 between 0 and 1
      lower, mode and upper must increase in this order
    ");
    insta::assert_snapshot!(random("cvar(type=cvar-uniform,parameters=lower:9;upper:8)"), @r"
    a script is not understood: test.f:1:31
      set $x=cvar(type=cvar-uniform,parameters=lower:9;upper:8)
                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^ upper cannot be 8
      it must be at least lower, which is 9
    ");
    insta::assert_snapshot!(random("cvar(type=cvar-weibull,parameters=scale:x)"), @r#"
    a script is not understood: test.f:1:31
      set $x=cvar(type=cvar-weibull,parameters=scale:x)
                                    ^^^^^^^^^^^^^^^^^^ scale cannot be "x"
      it is a number
    "#);
    insta::assert_snapshot!(random("cvar(parameters=scale:x)"), @r"
    a script is not understood: test.f:1:8
      set $x=cvar(parameters=scale:x)
             ^^^^^^^^^^^^^^^^^^^^^^^^ a cvar has no type
      add type=cvar-gamma
    ");
}

#[test]
fn definitions_have_to_go_together() {
    insta::assert_snapshot!(error("define file name=a,path=/d\ndefine file name=a,path=/d\nrun"), @r#"
    a script is not understood: test.f:2:1
      define file name=a,path=/d
      ^^^^^^^^^^^^^^^^^^^^^^^^^^ the file set "a" in "/d" is defined twice
      give one of them another name or path
    "#);
    insta::assert_snapshot!(error("define flowop name=read { flowop hog name=h }"), @r#"
    a script is not understood: test.f:1:1
      define flowop name=read { flowop hog name=h }
      ^^^^^^^^^^^^^^^^^^^^^^^ there is a flowop "read" already
      give it a name of its own
    "#);
    insta::assert_snapshot!(error("define flowop name=x { flowop y name=a }\ndefine flowop name=y { flowop x name=b }\ndefine process name=p { thread name=t { flowop x name=c } }"), @r#"
    a script is not understood: test.f:2:31
      define flowop name=y { flowop x name=b }
                                    ^ the flowop "x" contains itself
      remove it from itself
    "#);
    let other = "define process name=p { thread name=t { flowop hog name=h } thread name=u { flowop iopslimit name=l,target=h } }";
    insta::assert_snapshot!(error(other), @r"
    a script is not understood: test.f:1:101
      …flowop hog name=h } thread name=u { flowop iopslimit name=l,target=h } }
                                                                   ^^^^^^^^ no flowop with name=h is in its thread
      it is in another thread: that thread counts its numbers
    ");
    let local = "define flowop name=x, $n { flowop hog name=h,value=$n }\ndefine process name=p { thread name=t { flowop x name=c } }";
    insta::assert_snapshot!(error(local), @r"
    a script is not understood: test.f:1:52
      define flowop name=x, $n { flowop hog name=h,value=$n }
                                                         ^^ $n has no value
      give it one: set $n=… before this, or --set n=… on the command line
    ");
}

#[test]
fn a_file_that_is_no_text_is_refused() {
    let error = |bytes: &[u8]| parse(&Source::new("a.out", bytes), &[]).unwrap_err().to_string();
    insta::assert_snapshot!(error(b"\x7fELF\x02\x01\x01\0\0\0"), @r"
    a script is not understood: a.out:1:1
      
      ^ this is not text
      a script is text such as: define fileset name=files,path=/tmp,entries=1000,dirwidth=20
    ");
    assert!(error(&[0xff; 100]).contains("not text"));
    assert!(
        parse(&Source::new("latin-1.f", b"# written by Andr\xe9 on a rainy Sunday\nrun 5\n"), &[]).is_ok()
    );
}

#[test]
fn nothing_grows_without_end() {
    let many = (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let nested = format!("{}echo \"x\"{}", format!("foreach $v in {many} {{ ").repeat(8), "}".repeat(8));
    insta::assert_snapshot!(error(&nested).lines().last().unwrap(), @r"  a script can execute or make at most 300000 commands, files, threads and flowops");
    let double = (0..40).map(|_| "set $a=\"$a$a\"\n").collect::<String>();
    assert!(error(&format!("set $a=xx\n{double}")).contains("too large"));
    let composites: String = (1..60)
        .map(|n| format!("define flowop name=f{n} {{ flowop f{} name=a flowop f{} name=b }}\n", n - 1, n - 1))
        .collect();
    let text = format!(
        "define flowop name=f0 {{ flowop hog name=h }}\n{composites}define process name=p {{ thread name=t {{ flowop f59 name=z }} }}"
    );
    assert!(error(&text).contains("too large"));
    assert!(error(&format!("set $a={}1", "(".repeat(100_000))).contains("too deeply"));
    assert!(error(&"foreach $v in 1 {".repeat(100_000)).contains("too deeply"));
    assert!(try_read(&format!("set $a={}1", "1+".repeat(100_000))).is_ok());
    assert!(try_read(&format!("set $a={}1", "- ".repeat(100_001))).is_ok());
    let chain: String = (1..1000).map(|n| format!("set $v{n}=$v{} + 1\n", n - 1)).collect();
    assert!(error(&format!("{chain}set $v0=1\nset $x=$v999")).contains("too deeply"));
    let randoms: String =
        (1..1000).map(|n| format!("set $r{n}=randvar(type=uniform,mean=$r{})\n", n - 1)).collect();
    assert!(error(&format!("set $r0=5\n{randoms}run $r999")).contains("too deeply"));
    assert!(read_with("set $a=1", &[("a", "\"")]).is_err());
}
