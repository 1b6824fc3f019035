//! What may follow the beginning of a stack.

use nestor_stack::{Stack, completions, latest_alternative};
use proptest::prelude::*;
use proptest::sample::Index;

fn names(layer: &str) -> Vec<String> {
    match layer {
        "hdd" => vec!["wd-re3".to_owned(), "wd-7200".to_owned()],
        _ => Vec::new(),
    }
}

fn offered(text: &str) -> Vec<String> {
    completions(text, &names).into_iter().map(|completion| completion.text).collect()
}

#[test]
fn layers_that_fit_are_offered() {
    assert_eq!(offered("ext4/kv"), ["ext4/kvm/"]);
    assert_eq!(offered("ext4/kvm/q"), ["ext4/kvm/qcow2/", "ext4/kvm/qed/"]);
    // On an image there is no image.
    assert_eq!(offered("ext4/kvm/qcow2/q"), [""; 0]);
    assert_eq!(offered("ext4/kvm/raw/xfs/hd"), ["ext4/kvm/raw/xfs/hdd"]);
    // Neither a layer nor the beginning of one.
    assert_eq!(offered("ext4/nothing"), [""; 0]);
    assert_eq!(offered("nothing:"), [""; 0]);
}

#[test]
fn what_is_whole_is_gone_on_with() {
    assert_eq!(offered("ext4/kvm"), ["ext4/kvm/", "ext4/kvm:"]);
    assert_eq!(offered("ext4/hdd"), ["ext4/hdd", "ext4/hdd:"]);
    assert_eq!(offered("ext4/kvm/copy"), ["ext4/kvm/copy:"]);
    assert_eq!(
        offered("ext4/kvm/copy:nbd/ext4/hdd"),
        ["ext4/kvm/copy:nbd/ext4/hdd//", "ext4/kvm/copy:nbd/ext4/hdd:"]
    );
    assert_eq!(offered("ext4/kvm/copy:nbd/ext4/hdd//"), ["ext4/kvm/copy:nbd/ext4/hdd//link/"]);
}

#[test]
fn options_and_their_values_are_offered() {
    assert_eq!(offered("ext4/kvm:cac"), ["ext4/kvm:cache="]);
    assert_eq!(
        offered("ext4/kvm:cache=write"),
        ["ext4/kvm:cache=writeback/", "ext4/kvm:cache=writethrough/"]
    );
    assert_eq!(offered("ext4/kvm:cache=none:ca"), [""; 0]);
    assert_eq!(offered("ext4/kvm:cache=none"), ["ext4/kvm:cache=none/", "ext4/kvm:cache=none:"]);
    assert_eq!(offered("ext4/hdd:wd-r"), ["ext4/hdd:wd-re3"]);
    assert_eq!(offered("ext4/hdd:si"), ["ext4/hdd:size="]);
    assert_eq!(offered("ext4/hdd:size=4G"), ["ext4/hdd:size=4G", "ext4/hdd:size=4G:"]);
}

#[test]
fn paths_are_left_to_the_shell() {
    assert_eq!(offered("ext4/de"), ["ext4/dev:"]);
    assert_eq!(offered("ext4/dev:/dev/s"), [""; 0]);
}

#[test]
fn braces_stand_for_their_last_alternative() {
    for (text, latest) in [
        ("ext3/{kvm,xen", "ext3/xen"),
        ("ext3/{kvm,xen:guest={pv,pvh}}/ra", "ext3/xen:guest=pvh/ra"),
        ("ext3/kvm/{raw/{ext2,jfs}/,}hd", "ext3/kvm/hd"),
        ("ext3,}", "ext3,}"),
    ] {
        assert_eq!(latest_alternative(text), latest);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whoever takes one offer after another never comes to a dead end, and a word that is called whole is a stack.
    #[test]
    fn every_offer_is_the_beginning_of_a_stack(choices in proptest::collection::vec(any::<Index>(), 1..10)) {
        let mut text = String::new();
        for choice in choices {
            let all = offered(&text);
            prop_assert!(all.iter().all(|one| one.starts_with(&text)), "{text}: {all:?}");
            // Paths, and values that cannot be listed.
            let is_open = ["dev:", "file:", "dir:", "="].iter().any(|end| text.ends_with(end));
            if all.is_empty() && is_open {
                break;
            }
            prop_assert!(!all.is_empty(), "nothing follows {text}");
            for one in all.iter().filter(|one| !one.ends_with(['/', ':', '='])) {
                prop_assert!(Stack::parse(one).is_ok(), "{one}");
            }
            text = all[choice.index(all.len())].clone();
        }
    }

    /// Whatever of a stack is written, its next part is among the offers.
    #[test]
    fn the_next_part_of_every_stack_is_offered(stack in proptest::sample::select(vec![
        "ext3/kvm/raw/jfs/hdd",
        "ext4/kvm:disk=lsi:cache=writethrough/vmdk/ext4/hdd:wd-re3",
        "ext4/kvm/qcow2/xfs/kvm/raw/ext4/null",
        "ext2/part:start=63s/kvm/raw/xfs/hdd",
        "ext2/kvm/raw/nfs:vers=3/link:rate=1gbit/xfs/hdd",
        "ext4/kvm/copy:nbd/ext4/hdd//link:rate=1gbit/raw/ext4/hdd",
        "ext4/kvm:memory=192M/overlay/ext4/hdd:size=4G//link/raw:size=64M/ext4/hdd:size=4G",
        "ext4/loop/raw/xfs/raid5",
        "ext3/xen:guest=pvh/raw/ext3/ssd",
        "ext4/nbd/link/qcow2/ext4/nvme",
    ]), cut in any::<Index>()) {
        let text = &stack[..cut.index(stack.len())];
        let all = offered(text);
        let is_next = |one: &String| {
            let one = one.trim_end_matches(['/', ':']);
            stack.starts_with(one) && one.len() >= text.len().saturating_sub(1)
        };
        // The values that cannot be listed are those with digits.
        let begun = text.rsplit([':', '/']).next().unwrap_or_default();
        let is_free = ["start=", "size=", "rate=", "memory="].iter().any(|key| begun.starts_with(key));
        prop_assert!(is_free || all.iter().any(is_next), "{text}: {all:?}");
    }
}
