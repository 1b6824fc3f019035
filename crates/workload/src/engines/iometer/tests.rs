//! Known jobs, and what fio says of them.

use super::*;

fn place() -> Place {
    Place { target: Target::Directory("/mnt/top".to_owned()), scratch: "/run/nestor".to_owned() }
}

#[test]
fn the_mail_model_is_the_published_one() {
    let workload = Workload::parse("iometer:mail").unwrap();
    let words = "11 KiB, 64 % reads, 100 % seeks, depth 1, 50 workers, 50 ms think time, on 512.0 MiB";
    assert_eq!(workload.describe(), words);
    let step = workload.measure(&place(), 1);
    assert_eq!(step.input_files.len(), 50);
    let text = step.argv.join("\n");
    for part in ["--thinktime=50000\n", "--iodepth=1\n", "--bs=11264\n", "--runtime=10\n"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(
        text.ends_with(
            "--name=worker-49\n--read_iolog=/run/nestor/nestor-iometer-49.iolog\n--io_size=4505600"
        ),
        "{text}"
    );
}

#[test]
fn a_log_is_what_was_drawn_and_of_bounded_size() {
    let workload = Workload::parse("iometer:grid:size=16k:read=100:random=0:operations=5:workers=2").unwrap();
    let step = workload.measure(&place(), 1);
    insta::assert_snapshot!(String::from_utf8(step.input_files[0].1.clone()).unwrap(), @r"
        fio version 2 iolog
        f add
        f open
        f read 0 4096
        f read 4096 4096
        f read 8192 4096
        ");
    assert_eq!(String::from_utf8(step.input_files[1].1.clone()).unwrap().lines().count(), 5);
    let large = Workload::parse("iometer:grid:size=1T:random=100:operations=2000000").unwrap();
    assert!(large.measure(&place(), 1).input_files[0].1.len() < 2_000_000 * 32);
}

#[test]
fn sizes_are_drawn_and_told_to_fio() {
    let text = "iometer:mail:sizes=4k/50+11k/50:size=16M:operations=40:workers=2:think=0.35";
    let workload = Workload::parse(text).unwrap();
    let words = "2 sizes, 7.5 KiB on average, 64 % reads, 100 % seeks, depth 1, 2 workers, 0.35 ms think time, \
                     on 16 MiB";
    assert_eq!(workload.describe(), words);
    let step = workload.measure(&place(), 1);
    let arguments = step.argv.join("\n");
    assert!(arguments.contains("--thinktime=350\n") && arguments.contains("--bs=11264\n"), "{arguments}");
    for (worker, (_, log)) in step.input_files.iter().enumerate() {
        let log = String::from_utf8(log.clone()).unwrap();
        let requests = log.lines().skip(3).map(|line| line.split(' ').collect::<Vec<_>>());
        let sizes: Vec<u64> = requests.map(|words| words[3].parse().unwrap()).collect();
        assert!(sizes.contains(&4096) && sizes.contains(&11264) && sizes.len() == 20, "{sizes:?}");
        let io_size = format!(
            "--name=worker-{worker}\n--read_iolog=/run/nestor/nestor-iometer-{worker}.iolog\n\
                                   --io_size={}",
            sizes.iter().sum::<u64>()
        );
        assert!(arguments.contains(&io_size), "{arguments}");
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let error = |text: &str| Workload::parse(text).unwrap_err().problem.to_string();
    assert_eq!(
        error("iometer:grid:think=5"),
        "a worker thinks after each request, so it has one request at a time"
    );
    assert!(error("iometer:grid:bs=1000").contains("whole sectors"));
    assert!(error("iometer:grid:sizes=512/1+1000/1").contains("1000 is not a multiple of 512"));
    assert_eq!(error("iometer:grid:bs=4k:sizes=8k/1"), "the sizes of requests are given twice");
}

#[test]
fn shares_are_stated_of_all_but_a_surface() {
    let of = |text: &str| Workload::parse(text).unwrap().demand();
    let mail = Demand {
        outstanding: Some(9),
        workers: Some(9),
        think_ms: Some(0.35),
        past_page_cache: true,
        read_share: Some(0.64),
        random_share: Some(1.0),
        request_bytes: Some(11 << 10),
        ..Demand::default()
    };
    assert_eq!(of("iometer:mail:think=0.35:workers=9"), mail);
    assert_eq!(of("iometer:grid:workers=3:depth=2").outstanding, Some(6));
    let several = of("iometer:grid:sizes=4k/30+8k/70:read=10:random=90");
    let found = (several.read_share, several.random_share, several.request_bytes);
    assert_eq!(found, (Some(0.1), Some(0.9), None));
    let surface = of("iometer:surface:depth=8:direct=off");
    let found = (surface.read_share, surface.random_share, surface.request_bytes);
    assert_eq!(found, (None, None, None));
    assert!(surface.is_surface && !surface.past_page_cache);
}
