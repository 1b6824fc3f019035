//! What is said of traces, and that records without them are shown as before.

use nestor_correlate::{Choice, LevelIndex, Origin, Passage, Passed, Rank, TimeAtLevel};
use nestor_layout::Class;
use nestor_trace::Operation;

use super::fixture::*;
use super::traced::{correlation, explanation, node, request, traced_runs};
use crate::view::{LevelName, LevelTime, ShortNames, TimeSpent, Waterfall};
use crate::{RunView, Style, TraceView, render_run, run_text, trace_text};

#[test]
fn the_certainty_stands_on_the_first_screen() {
    let runs = traced_runs(1, 1);
    let text = run_text(&RunView::of(&borrowed(&runs)).unwrap(), Style::plain());
    insta::assert_snapshot!(text, @"
    ext3/kvm:cache=writethrough/raw/jfs/hdd  fio:seq-write:scale=0.0125  (8 KiB, depth 255, 64 MiB in 8 files)
    physically plausible? yes: 443 requests/s on a disk (wd-7200-1tb) that does 75 random reads a second one at a time,
      72 % sequential, 11 % in its own cache, arm and platters busy 100 %; working set 0.05 x all memory, yet it went to the
      medium
    on an emulated host (TCG, no KVM here): shapes and ratios hold, absolute CPU-bound numbers do not

      26.1 MB/s  3 190 IOPS  1 fresh stack: no interval
      latency p50 59.1 ms  p99 473 ms  steady from the start

      layer                   requests    bytes  x above  merged    queue  service
      application  fio 3.33     31 872  249 MiB        -       -        -  59.1 ms
      ext3         guest fs    129 137  257 MiB     1.03  94.9 %   123 us  46.0 ms
          +8.30 MiB, journal 6.72 MiB, inodes 1.49 MiB, maps 510 KiB, not classified 255 KiB, 72 % sequential, 12 flushes
      kvm/raw      raw image         -        -        -       -        -        -
      jfs          host fs      11 436  272 MiB     1.06  62.0 %   123 us  46.0 ms
          +14.3 MiB, journal 9.46 MiB, maps 5.98 MiB, inodes 1.74 MiB, extent maps 765 KiB, not classified 510 KiB, 72 %
          sequential, 12 flushes
      hdd          disk          4 346  272 MiB     1.00       -  7.90 ms  3.10 ms
          seek 62 %, rotate 21 %, transfer 15 %, overhead 2 %, 12 flushes
      times are medians
      clock guest-host known to 18.4 us, host-ground known to 2.10 us; 0.3 % of guest requests unmatched
      the layout of a second file system was not asked for

      host Linux 6.1.0-28-amd64, 2 x CPU (tcg), 41 % busy, 1.00 GiB; guest Linux 6.1.0-28-amd64, 2 x CPU (kvm), 22 % busy,
        256 MiB
      caches: emptied in every machine before measuring; disk timing: model's timing off while preparing, on while
        measuring; kvm cache: writethrough; working set: 64 MiB
      measured for 10.0 s, whole cell 14.2 s; nestor 0.1.0
      saved as run 1      nestor report 1
    ");
}

#[test]
fn joined_traces_as_text() {
    let measured = measured(STACKS[0], WORKLOADS[0], 10.0);
    let stack = STACKS[0].parse().unwrap();
    let names = ShortNames::of(Some(&stack), &measured.layers);
    insta::assert_snapshot!(trace_text(&TraceView::of(&correlation(false), &names), Style::plain()), @"
    clock guest-host known to 18.4 us, host-ground known to 2.10 us; 0.3 % of guest requests unmatched

    trace point               requests  unmatched  absorbed  split  merged     adds       clock
    ext3         guest block     3 310          -         -      -       -        -           -
    kvm          hypervisor      3 306      0.3 %         0      0       0   880 us  to 18.4 us
    jfs          host block     10 768      0.0 %       412    120      31  3.10 ms           -
    hdd          medium          2 967      0.0 %         0    240      62  7.90 ms  to 2.10 us
    requests at kvm: requested 100.0 %
    requests at jfs: requested 68.7 %, write-back 17.6 %, journal 10.4 %, metadata 3.2 %, unexplained 0.1 %
    requests at hdd: requested 100.0 %

    12 flushes of ext3, 46.4 ms each, 0.9 % of the time of its requests; during 100.0 % of them nothing was done at hdd:
      1.20 ms at ext3, 4.20 ms at kvm, 41.0 ms at jfs
    3 298 writes of ext3, 18.0 ms each, 99.1 % of the time of its requests; during 12.5 % of them nothing was done at
      hdd: 500 us at ext3, 1.70 ms at kvm, 2.50 ms at jfs, 13.3 ms at hdd

    median write: write of 8 KiB, file data
    Of 12.9 ms: 520 us from ext3 to kvm, 170 us from kvm to jfs, 170 us from jfs to hdd, 12.0 ms in hdd.
    ext3       write 8 KiB  |==============================|  12.9 ms  file data
      kvm      write 8 KiB  |============================= |  12.4 ms  file data
        jfs    write 8 KiB  |============================  |  12.2 ms  image data
          hdd  write 8 KiB  |..................==========  |  12.0 ms

    p99 write: write of 128 KiB, file data
    Of 97.9 ms: 1.80 ms from ext3 to kvm, 1.60 ms from kvm to jfs, 9.30 ms from jfs to hdd, 85.2 ms in hdd.
    ext3       write 128 KiB  |==============================|  97.9 ms  file data
      kvm      write 128 KiB  |============================= |  96.1 ms  file data
        jfs    write 128 KiB  |...===============            |  59.6 ms  image data
          hdd  write 64 KiB   |   ..====                     |  21.3 ms
          hdd  write 64 KiB   |   ..........=====            |  50.8 ms
        jfs    write 12 KiB   |                  ========    |  26.8 ms  journal
          hdd  write 12 KiB   |                  ========    |  26.5 ms
        jfs    write 4 KiB    |                           == |  8.10 ms  allocation map, metadata
          hdd  write 4 KiB    |                           == |  7.90 ms

    p99 flush: flush
    Of 46.5 ms: 1.20 ms from ext3 to kvm, 4.25 ms from kvm to jfs, 41.0 ms in jfs.
    ext3     flush              |==============================|  46.5 ms
      kvm    flush              |============================= |  45.3 ms
        jfs  write 64 KiB       | ==                           |  4.00 ms  image data, flush
        jfs  write 64 KiB       | ===                          |  4.05 ms  image data, flush
        jfs  write 64 KiB       |  ===                         |  4.10 ms  image data, flush
        jfs  write 64 KiB       |   ==                         |  4.15 ms  image data, flush
        jfs  write 64 KiB       |   ===                        |  4.20 ms  image data, flush
        jfs  write 64 KiB       |    ==                        |  4.25 ms  image data, flush
        jfs  write 64 KiB       |    ===                       |  4.30 ms  image data, flush
        jfs  write 64 KiB       |     ===                      |  4.35 ms  image data, flush
        jfs  32 more, 2.00 MiB  |     .=====================   |  33.9 ms
    ");
}

#[test]
fn nothing_joined_says_nothing() {
    let view = TraceView::of(&nestor_correlate::Correlation::default(), &ShortNames::default());
    assert_eq!(view, TraceView::default());
    assert_eq!(trace_text(&view, Style::plain()), "\n");
}

#[test]
fn the_parts_of_a_request_add_up_to_it() {
    let correlation = correlation(false);
    let names = LevelName::of(&correlation.levels, &ShortNames::default());
    for tree in &correlation.trees {
        let waterfall = Waterfall::of(tree, &names).unwrap();
        let sum: u64 = waterfall.parts.iter().map(|part| part.took_ns).sum();
        assert_eq!(sum, waterfall.total_ns, "{}", tree.choice);
    }
}

#[test]
fn the_slowest_class_comes_first_and_its_parts_add_up() {
    let correlation = correlation(false);
    let names = LevelName::of(&correlation.levels, &ShortNames::default());
    let spent = TimeSpent::of(&correlation, &names);
    let classes: Vec<(Operation, f64)> = spent.iter().map(|one| (one.operation, one.each_ns)).collect();
    assert_eq!(classes, [(Operation::Flush, 46_400_000.0), (Operation::Write, 18_000_000.0)]);
    for one in &spent {
        assert!((one.levels.iter().map(LevelTime::own_ns).sum::<f64>() - one.each_ns).abs() < 1.0);
        assert!(one.levels.is_sorted_by(|above, below| above.from_here_ns >= below.from_here_ns));
    }
    assert!((spent.iter().map(|one| one.share).sum::<f64>() - 1.0).abs() < 1e-9);
}

/// Requests are shown beside them only if their classes were not all recorded of the application.
#[test]
fn the_applications_operations_are_what_a_user_waits_for() {
    let mut correlation = correlation(false);
    let passed = Passed {
        requests: 2,
        whole_ns: 10,
        levels: vec![TimeAtLevel { queued_ns: 0, issued_ns: 10 }],
        ..Passed::default()
    };
    correlation.application_passage =
        Passage { level: LevelIndex::TOP, operations: [(Operation::Read, passed)].into() };
    let names = LevelName::of(&correlation.levels, &ShortNames::default());
    assert_eq!(TimeSpent::of(&correlation, &names).len(), 3);
    correlation.passage.operations.clear();
    let spent = TimeSpent::of(&correlation, &names);
    assert_eq!(spent.len(), 1);
    assert_eq!((spent[0].operation, spent[0].each_ns, spent[0].levels.len()), (Operation::Read, 5.0, 1));
    // A file can name any level.
    correlation.application_passage.level = LevelIndex::at(9);
    assert_eq!(TimeSpent::of(&correlation, &names), Vec::new());
}

#[test]
fn the_operation_whose_median_is_slowest_is_shown_first() {
    let mut correlation = correlation(false);
    let choice = |rank, operation| Choice::Latency(rank, operation);
    let chosen = [
        choice(Rank::Median, Operation::Write),
        choice(Rank::P99, Operation::Write),
        choice(Rank::Median, Operation::Flush),
    ];
    for (tree, choice) in correlation.trees.iter_mut().zip(chosen) {
        tree.choice = choice;
    }
    let view = TraceView::of(&correlation, &ShortNames::default());
    let names: Vec<&str> = view.waterfalls.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["median flush", "median write", "p99 write"]);
}

#[test]
fn a_request_with_many_children_stays_readable() {
    let correlation = correlation(false);
    let flush =
        Waterfall::of(&correlation.trees[2], &LevelName::of(&correlation.levels, &ShortNames::default()))
            .unwrap();
    assert!(flush.rows.len() <= 30, "{} rows", flush.rows.len());
    let rest = flush.rows.last().unwrap();
    assert_eq!((rest.more, rest.bytes, rest.completed_ns), (32, 32 * 65_536, 6_000_000 + 39 * 950_000));
}

#[test]
fn a_tree_of_other_levels_is_not_shown() {
    let mut correlation = correlation(false);
    correlation.trees[0].root = node(9, request(1, Class::Journal, 4, (0, 1, 2)), Origin::Parent, Vec::new());
    assert_eq!(TraceView::of(&correlation, &ShortNames::default()).waterfalls.len(), 2);
}

#[test]
fn a_run_that_was_not_joined_has_no_section_of_it() {
    let plain = stored(runs(2, 1, 1));
    let page = render_run(&RunView::of(&borrowed(&plain)).unwrap());
    assert!(!page.contains("One request through all layers") && !page.contains("class=\"certainty\""));
    let traced = traced_runs(1, 1);
    let page = render_run(&RunView::of(&borrowed(&traced)).unwrap());
    for needed in [
        "One request through all layers",
        "Bytes of each layer by purpose",
        "not classified",
        "How the layers were joined",
        "Request sizes",
        "Distance from each request to the next",
        "Over time",
        "p99 write",
        "known to 18.4\u{a0}µs",
        "belong to files deleted since",
        "from jfs to hdd",
    ] {
        assert!(page.contains(needed), "{needed}");
    }
}

#[test]
fn what_is_too_narrow_to_see_has_an_axis_of_its_own() {
    let zoomed = |runs: &[nestor_results::StoredRun]| {
        let page = render_run(&RunView::of(&borrowed(runs)).unwrap());
        page.matches("class=\"funnel\"").count()
    };
    let mut runs = traced_runs(1, 1);
    assert_eq!(zoomed(&runs), 0);
    if let nestor_results::Outcome::Measured(measured) = &mut runs[0].record.outcome {
        measured.correlation.as_mut().unwrap().trees[0].root.request.completed_ns += 400_000_000;
    }
    assert_eq!(zoomed(&runs), 1);
}

#[test]
fn time_lines_of_different_clocks_begin_where_the_clocks_say() {
    let runs = traced_runs(1, 1);
    let view = RunView::of(&borrowed(&runs)).unwrap();
    let starts: Vec<_> = view.layers.iter().filter_map(|layer| layer.timeline_start_ns).collect();
    assert_eq!(starts, [5_000_000_000; 3]);
    assert!(!render_run(&view).contains("each layer from its own first request"));
    let mut apart = view;
    apart.layers.last_mut().unwrap().timeline_start_ns = None;
    assert!(render_run(&apart).contains("each layer from its own first request"));
}

#[test]
fn a_file_system_that_is_in_the_guest_and_on_the_host_is_told_apart() {
    let mut runs = traced_runs(1, 1);
    runs[0].record.stack = "ext3/kvm:cache=writethrough/raw/ext3/hdd".into();
    if let nestor_results::Outcome::Measured(measured) = &mut runs[0].record.outcome {
        measured.layers.iter_mut().filter(|l| l.layer == "jfs").for_each(|l| l.layer = "ext3".to_owned());
        measured.correlation.as_mut().unwrap().levels[2].layer = "ext3".to_owned();
    }
    let view = RunView::of(&borrowed(&runs)).unwrap();
    // Each begins by its own clock, which is hours ahead of the one above.
    let starts: Vec<_> = view.layers.iter().filter_map(|layer| layer.timeline_start_ns).collect();
    assert_eq!(starts, [5_000_000_000; 3]);
    let page = render_run(&view);
    for needed in [
        ">ext3 (guest): ",
        ">ext3 (host): ",
        "class=\"n\" colspan=\"2\">ext3 (host)</th>",
        "from kvm to ext3 (host)",
    ] {
        assert!(page.contains(needed), "{needed}");
    }
}

#[test]
fn layers_with_the_same_distances_share_a_curve() {
    let runs = traced_runs(1, 1);
    let mut view = RunView::of(&borrowed(&runs)).unwrap();
    let curves = |view: &RunView| render_run(view).matches("<g class=\"curve ").count();
    assert_eq!(curves(&view), 3);
    let above = view.layers.iter().find_map(|layer| layer.seeks.clone());
    view.layers.last_mut().unwrap().seeks = above;
    assert_eq!(curves(&view), 2);
    assert!(render_run(&view).contains(">ext3, hdd: "));
}

#[test]
fn numbers_keep_their_units_on_their_line() {
    let runs = traced_runs(1, 1);
    let page = render_run(&RunView::of(&borrowed(&runs)).unwrap());
    let words = page.split("<b>median write</b>").nth(1).unwrap().split("</figcaption>").next().unwrap();
    assert!(words.contains("\u{a0}µs from") && !words.contains(" µs"), "{words}");
}

#[test]
fn an_untraced_repeat_tells_what_tracing_cost_and_nothing_else() {
    let mut runs = traced_runs(1, 2);
    for run in traced_runs(1, 2) {
        let mut record = run.record;
        record.untraced_twin = true;
        record.trace = nestor_results::TraceMode::None;
        if let nestor_results::Outcome::Measured(measured) = &mut record.outcome {
            measured.load.elapsed_ns = measured.load.elapsed_ns * 98 / 100;
            measured.correlation = None;
        }
        runs.push(nestor_results::StoredRun { number: 10 + run.number, record, ..run });
    }
    let view = RunView::of(&borrowed(&runs)).unwrap();
    assert!(view.shown_run.is_some_and(|number| number < 10));
    let certainty = view.trace.unwrap().certainty;
    assert!(
        certainty.iter().any(|part| part.starts_with("tracing cost 2.0 % of the throughput")),
        "{certainty:?}"
    );
}

#[test]
fn an_explanation_stands_above_the_layers() {
    let traced = traced_runs(1, 1);
    let mut view = RunView::of(&borrowed(&traced)).unwrap();
    assert!(!render_run(&view).contains("<h3>Why</h3>"));
    view.explanation = Some(explanation());
    let page = render_run(&view);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(
        at("journal-of-journal") < at("allocation maps &lt;of JFS&gt;")
            && at("not explained") < at("class=\"layers\"")
    );
    for needed in ["300 µs per operation instead of 250 µs, -14.7 % [-18.9, -10.2].", "71\u{a0}%"] {
        at(needed);
    }
    // The account, to the last line.
    assert!(at("Each nanosecond of the difference, once") < at("host-read-ahead</th>"));
    for needed in
        ["+35.5\u{a0}µs", "+71.0\u{a0}%", "\u{2212}4.0\u{a0}%", "journal of a file system below +35.5"]
    {
        at(needed);
    }
}

#[test]
fn a_record_from_before_there_were_traces_is_read() {
    let old = stored(runs(2, 1, 1)).remove(0);
    let mut json = serde_json::to_value(&old.record).unwrap();
    let record = json.as_object_mut().unwrap();
    record.remove("trace");
    record.remove("untraced_twin");
    let measured = record["outcome"]["measured"].as_object_mut().unwrap();
    for new in ["images", "correlation", "trace_remarks"] {
        assert!(measured.remove(new).is_some(), "{new}");
    }
    for layer in measured["layers"].as_array_mut().unwrap() {
        if let Some(metrics) = layer["metrics"].as_object_mut() {
            for new in
                ["classes", "timeline", "d2d_seeks", "q2q_seeks", "plugs", "processes", "btt", "identity"]
            {
                metrics.remove(new);
            }
        }
    }
    let record = serde_json::from_value(json).unwrap();
    let read = nestor_results::StoredRun { record, ..old.clone() };
    let style = Style::plain();
    assert_eq!(
        run_text(&RunView::of(&[&read]).unwrap(), style),
        run_text(&RunView::of(&[&old]).unwrap(), style)
    );
}
