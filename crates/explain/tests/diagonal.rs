//! Each mechanism, planted in made-up evidence, is named first and alone.

mod planted;

use nestor_explain::mechanisms::MECHANISMS;
use nestor_explain::{
    ArrayEvidence, Evidence, Finding, LinkFigures, MechanismName, Part, explain, explanation_text,
};
use nestor_results::Executor;
use nestor_stack::Export;
use nestor_trace::rpc::CallKind;
use planted::{SECOND, call, calls, cause, over_network, plain, planted, slow, spend};

#[test]
fn requests_that_wait_for_a_processor_do_not_wait_for_a_queue() {
    // A native stack on a disk that takes no time, as `ext4/null` is: what waits waits for the host.
    let (mut here, _) = planted(MechanismName::PathLength);
    here.edges.retain(|edge| edge.layer == "xfs" || edge.layer == "hdd");
    spend(&mut here, "file-data>image-data", 1000, 0.001);
    here.edges.iter_mut().for_each(|edge| (edge.waited_ns, edge.served_ns) = (60e9, 1e6));
    let explanation = explain(&here, None);
    let named: Vec<_> = explanation.findings.iter().map(|f| f.mechanism).collect();
    assert_eq!(named, [MechanismName::PathLength], "{}", explanation_text(&explanation));
}

fn only<'a>(findings: &'a [Finding], name: MechanismName, text: &str) -> &'a Finding {
    let [found] = findings else { panic!("{text}") };
    assert_eq!(found.mechanism, name, "{text}");
    found
}

#[test]
fn what_a_network_costs_is_saved_the_other_way_round() {
    for mechanism in [MechanismName::SynchronousWrite, MechanismName::MetadataRpc, MechanismName::LinkBound] {
        let (slower, faster) = planted(mechanism);
        let explanation = explain(&faster, Some(&slower));
        let found = only(&explanation.findings, mechanism, &explanation_text(&explanation));
        assert!(found.effect_ns < 0.0 && found.share > 0.8, "{found:?}");
    }
}

#[test]
fn a_server_that_answers_at_once_makes_nobody_wait() {
    let (mut here, before) = planted(MechanismName::SynchronousWrite);
    here.networks[0].export = Some(Export::Async);
    assert!(!named(&here, Some(&before)).contains(&MechanismName::SynchronousWrite));
    assert!(!named(&here, None).contains(&MechanismName::SynchronousWrite));
    // Whose server stores before it answers waits longer than whose server does not.
    let (mut waits, mut other) = planted(MechanismName::SynchronousWrite);
    waits.networks[0].export = Some(Export::Sync);
    other.networks[0].export = Some(Export::Async);
    assert_eq!(named(&waits, Some(&other)), [MechanismName::SynchronousWrite]);
}

#[test]
fn what_nothing_above_asked_for_in_an_image_without_tables_is_data() {
    let (here, before) = planted(MechanismName::ImageMetadata);
    let time_of = |e: &Evidence, part: Part| {
        let account = explain(e, None).account;
        account.parts.iter().find(|row| row.part == part).map_or(0, |row| row.here_ns)
    };
    assert_eq!((time_of(&here, Part::ImageFormat), time_of(&here, Part::Data)), (9_000_000, 9_500_000));
    let raw = Evidence { stack: "ext4/kvm/raw/xfs/hdd".into(), image: before.image, ..here.clone() };
    assert_eq!((time_of(&raw, Part::ImageFormat), time_of(&raw, Part::Data)), (0, 18_500_000));
    assert!(!named(&raw, None).contains(&MechanismName::ImageMetadata));
    // Of a stack of another version, what QEMU counted says whether there are tables.
    let unknown = "ext4/kvm/a-later-format/xfs/hdd";
    let later = Evidence { stack: unknown.into(), ..here };
    assert_eq!(time_of(&later, Part::ImageFormat), 9_000_000);
    assert_eq!(time_of(&Evidence { stack: unknown.into(), ..raw }, Part::ImageFormat), 0);
}

#[test]
fn a_link_is_the_limit_by_its_delay_too() {
    let (mut here, before) = planted(MechanismName::LinkBound);
    here.networks[0].figures = Some(LinkFigures { rate_bits_per_s: 1e9, delay_ns: 5.4e6 });
    let explanation = explain(&here, Some(&before));
    let found = only(&explanation.findings, MechanismName::LinkBound, &explanation_text(&explanation));
    assert!(found.words.starts_with("the delay"), "{found:?}");
    assert_eq!(found.layer, "link");
    // 1020 ways of 10.8 ms one after the other; at once, they are a fraction of that.
    call(&mut here, CallKind::Write, calls(1000.0, 190.0));
    assert!(explain(&here, Some(&before)).findings.is_empty(), "ten at once");
}

#[test]
fn lost_frames_are_named_before_what_waits_for_them() {
    let (mut here, before) = planted(MechanismName::SynchronousWrite);
    // Nine tenths of the time that writes take is waiting for what was lost.
    here.networks[0].figures = Some(LinkFigures { rate_bits_per_s: 1e9, delay_ns: 1e5 });
    here.stack = "nfs/link:loss=2%/xfs/hdd".into();
    here.networks[0].lost_frames = 45.0;
    here.networks[0].recovery_ns = 9e9;
    let explanation = explain(&here, Some(&before));
    let found = &explanation.findings[0];
    assert_eq!(found.mechanism, MechanismName::LinkBound, "{}", explanation_text(&explanation));
    assert!(
        found.words.starts_with("lost frames are the limit: waiting until what was in 45 lost frames"),
        "{found:?}"
    );
    assert!(found.advice.as_ref().is_some_and(|advice| advice.contains("loss=")), "{found:?}");
    // The same waiting on both sides makes no difference.
    let mut also = before.clone();
    also.networks[0].figures = here.networks[0].figures;
    also.networks[0].recovery_ns = 9e9;
    let named = explain(&here, Some(&also)).findings;
    assert!(named.iter().all(|found| found.mechanism != MechanismName::LinkBound), "{named:?}");
}

#[test]
fn the_delay_of_a_link_below_a_network_disk_is_named() {
    let (mut here, before) = planted(MechanismName::LinkBound);
    let network = &mut here.networks[0];
    network.figures = Some(LinkFigures { rate_bits_per_s: 1e9, delay_ns: 5.4e6 });
    (network.is_disk, network.calls) = (true, Default::default());
    network.disk_requests = calls(1000.0, 10.0);
    let explanation = explain(&here, Some(&before));
    let found = only(&explanation.findings, MechanismName::LinkBound, &explanation_text(&explanation));
    assert!(found.words.starts_with("the delay"), "{found:?}");
    here.networks[0].disk_requests = calls(1000.0, 100.0);
    assert!(explain(&here, Some(&before)).findings.is_empty(), "five and more at once");
}

#[test]
fn a_link_that_is_no_limit_and_calls_that_are_as_many_are_not_named() {
    // Twice as slow for another reason.
    let (here, before) = (over_network(slow()), over_network(plain()));
    assert!(explain(&here, Some(&before)).findings.is_empty());
    let mut slower_link = here.clone();
    slower_link.networks[0].figures = Some(LinkFigures { rate_bits_per_s: 1e8, delay_ns: 1e5 });
    assert!(
        explain(&slower_link, Some(&before)).findings.is_empty(),
        "the link carries something for 3 % of the time"
    );
    let with_fsyncs = |mut e: Evidence| {
        e.networks[0].fsyncs = 1000.0;
        let all_the_time = calls(1000.0, e.elapsed_ns / 1e9);
        call(&mut e, CallKind::Write, all_the_time);
        e
    };
    assert!(
        explain(&with_fsyncs(here), Some(&with_fsyncs(before))).findings.is_empty(),
        "both wait for writes"
    );
}

#[test]
fn without_a_baseline_a_network_explains_no_more_than_the_time() {
    let mut here = over_network(slow());
    // Waited for by a program each, over a link that carries something for most of the time.
    here.networks[0].fsyncs = 1000.0;
    here.networks[0].figures = Some(LinkFigures { rate_bits_per_s: 6e6, delay_ns: 1e5 });
    call(&mut here, CallKind::Write, calls(1000.0, 40.0));
    call(&mut here, CallKind::Metadata, calls(3000.0, 30.0));
    let explanation = explain(&here, None);
    let shares: f64 = explanation.findings.iter().map(|found| found.share).sum();
    assert!(shares <= 1.0 + 1e-9, "{explanation:?}");
    assert_eq!(explanation.account.lines.iter().map(|line| line.effect_ns).sum::<i64>(), 20_000_000);
}

#[test]
fn small_writes_to_an_array_with_parity_wait_for_what_they_read_first() {
    let (mut here, mut before) = (slow(), plain());
    // In the baseline the array has no parity.
    spend(&mut here, "file-data>image-data", 1000, 19.5);
    here.edges[3].array =
        ArrayEvidence { requests: 1000.0, operations: 4000.0, parity_reads: 2000.0, parity_wait_ns: 38e9 };
    before.edges[3].array =
        ArrayEvidence { requests: 1000.0, operations: 1000.0, ..ArrayEvidence::default() };
    let explanation = explain(&here, Some(&before));
    let text = explanation_text(&explanation);
    let found = only(&explanation.findings, MechanismName::ReadModifyWrite, &text);
    assert_eq!(found.layer, "hdd");
    // Half of the disks' service is such reads, and half of the time is theirs.
    assert!((found.share - 0.975).abs() < 0.01, "{text}");
    let ratio = found.numbers.iter().find(|number| number.unit == "per request to the array").unwrap();
    assert_eq!((ratio.here, ratio.baseline), (4.0, Some(1.0)));
}

#[test]
fn requests_that_jump_as_often_but_further_show_a_fragmented_image() {
    let (mut here, mut before) = planted(MechanismName::Fragmentation);
    // Over a network: a server's threads take the parts of each read in any order.
    for (e, busy_ns) in [(&mut here, 10 * SECOND), (&mut before, SECOND / 10)] {
        let data = e.blame.causes.get_mut(&cause("file-data>image-data")).unwrap();
        (data.scattered, data.scattered_busy_ns) = (400, busy_ns);
    }
    let explanation = explain(&here, Some(&before));
    only(&explanation.findings, MechanismName::Fragmentation, &explanation_text(&explanation));
    before.image = here.image;
    assert!(explain(&here, Some(&before)).findings.is_empty(), "as many fragments");
}

#[test]
fn a_narrow_queue_is_mended_where_it_is() {
    let (mut guest, before) = planted(MechanismName::SingleQueue);
    let advice = |here: &Evidence| explain(here, Some(&before)).findings[0].advice.clone().unwrap();
    guest.stack = "ext4/kvm:disk=ide/raw/xfs/hdd".into();
    assert!(advice(&guest).contains("disk=virtio-blk"));
    let mut native = guest;
    native.edges.retain(|edge| edge.layer == "xfs" || edge.layer == "hdd");
    native.edges[0].waited_ns = 60e9;
    assert!(!advice(&native).contains("disk="));
}

#[test]
fn what_is_planted_is_named_and_nothing_else() {
    let all = MECHANISMS.iter().map(|m| m.name).chain([MechanismName::Noise]);
    for mechanism in all {
        let (here, before) = planted(mechanism);
        let explanation = explain(&here, Some(&before));
        let named: Vec<_> = explanation.findings.iter().map(|f| f.mechanism).collect();
        assert_eq!(named, [mechanism], "{}", explanation_text(&explanation));
        assert!(explanation.unexplained_share < 0.2, "{}", explanation_text(&explanation));
    }
}

fn named(here: &Evidence, before: Option<&Evidence>) -> Vec<MechanismName> {
    explain(here, before).findings.iter().map(|f| f.mechanism).collect()
}

#[test]
fn one_cause_of_reads_for_writes_is_named_once() {
    let (misaligned, before) = planted(MechanismName::Misalignment);
    assert_eq!(named(&misaligned, None).first(), Some(&MechanismName::Misalignment));
    let mut aligned = misaligned.clone();
    aligned.levels[0].misaligned = 0.0;
    assert_eq!(named(&aligned, Some(&before)), [MechanismName::ReadModifyWrite], "start=1M");
    // Both begin within blocks, so that is not what differs.
    assert_eq!(
        named(&misaligned, Some(&Evidence { levels: misaligned.levels.clone(), ..before.clone() })),
        [MechanismName::ReadModifyWrite]
    );
    let mut single = aligned;
    single.levels[0].misaligned = 200.0;
    assert_eq!(named(&single, Some(&before)), [MechanismName::ReadModifyWrite], "single requests");
}

#[test]
fn what_begins_within_a_block_costs_nothing_where_nothing_is_read_or_moved_for_it() {
    let (mut here, before) = (slow(), plain());
    spend(&mut here, "file-data>image-data", 1000, 19.5);
    here.levels[0].misaligned = 1000.0;
    assert!(!named(&here, Some(&before)).contains(&MechanismName::Misalignment));
    // Twice as much is moved for each operation.
    let spent = here.blame.causes.get_mut(&cause("file-data>image-data")).unwrap();
    (spent.requests, spent.bytes) = (2000, 2 * 8_192_000);
    assert_eq!(named(&here, Some(&before)).first(), Some(&MechanismName::Misalignment));
    // At the lowest level there is nothing below that it could touch.
    here.levels[0].misaligned = 0.0;
    here.levels[2].misaligned = 1000.0;
    assert!(!named(&here, Some(&before)).contains(&MechanismName::Misalignment));
}

/// An operation of so many instructions of the host's kernel.
fn counted(mut e: Evidence, instructions: f64) -> Evidence {
    e.counted_operations = e.operations();
    e.instructions = [(Executor::HostKernel, instructions * e.operations())].into();
    e
}

fn names_path_length(here: &Evidence, before: &Evidence) -> bool {
    explain(here, Some(before)).findings.iter().any(|f| f.mechanism == MechanismName::PathLength)
}

#[test]
fn a_longer_path_is_named_only_where_the_medium_waits_for_it() {
    let (here, before) = (counted(slow(), 9e6), counted(plain(), 1e6));
    assert!(names_path_length(&here, &before));
    assert!(names_path_length(&before, &here), "a shorter one is named too");
    assert!(
        !names_path_length(&counted(slow(), 1e6), &before),
        "as many instructions, whatever took the time"
    );
    assert!(!names_path_length(&here, &plain()), "not counted on both sides");
    let mut busy = counted(slow(), 9e6);
    spend(&mut busy, "file-data>image-data", 1000, 19.5);
    assert!(!names_path_length(&busy, &before), "the medium worked meanwhile");
    let alike = counted(plain(), 9e6);
    assert!(!names_path_length(&alike, &before), "it took no longer");
    assert!(!names_path_length(&counted(slow(), 1e5), &before), "fewer instructions made nothing slower");
}

#[test]
fn without_a_baseline_the_time_itself_is_taken_apart() {
    let (here, _) = planted(MechanismName::GuestAmplification);
    let explanation = explain(&here, None);
    assert_eq!(explanation.first(), Some(MechanismName::GuestAmplification));
    assert!((explanation.findings[0].share - 9.0 / 20.0).abs() < 0.01, "{explanation:?}");
}

#[test]
fn the_text_says_how_sure_and_what_to_do() {
    let (here, before) = planted(MechanismName::JournalOfJournal);
    insta::assert_snapshot!(explanation_text(&explain(&here, Some(&before))), @"
    ext4/kvm/raw/xfs/hdd   fio:rand-write
    against ext4/kvm/raw/xfs/hdd: -50.0 % [-51.2, -48.7], 3 runs each, 20.0 ms per operation instead of 10.0 ms

        91 % slower  journal-of-journal  in xfs
              journal of journal: each request to the guest's journal causes 2.0 requests to the journal of the host's file system
              requests to the guest's journal             0.200 per operation   baseline 0.200
              requests                                    0.400 per operation   baseline 0.000
              bytes                                        3.20 KiB per operation   baseline 0.000
              time at the lowest level                     9.00 ms per operation   baseline 0 ns per operation
              to change it: a preallocated image (alloc=full), a host file system that does not commit for an overwrite, or a raw disk

      each nanosecond once  per operation  of the difference  of these parts
      journal-of-journal         +9.13 ms            +91.3 %  journal of a file system below +9.00 ms, the medium idle +133 us
      not explained               +867 us             +8.7 %  the medium idle +867 us
      together                   +10.0 ms             +100 %

      part of the time                       here  baseline      more  requests  baseline  they belong to
      data                                9.50 ms   9.50 ms      0 ns     1.000     1.000
      journal of the topmost file system   100 us    100 us      0 ns     0.200     0.200
      journal of a file system below      9.00 ms      0 ns  +9.00 ms     0.400     0.000  journal-of-journal
      the medium idle                     1.40 ms    400 us  +1.00 ms
    ");
}

#[test]
fn evidence_of_nothing_is_no_reason_to_fail() {
    let explanation = explain(&Evidence::default(), Some(&Evidence::default()));
    assert!(!explanation.doubts.is_empty());
    assert!(explanation_text(&explanation).is_ascii());
}
