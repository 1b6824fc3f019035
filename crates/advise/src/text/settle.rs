//! Disputes: the list of them, and how one was settled.

use super::{physical, wrapped};
use crate::price::Reach;
use crate::settle::{ClaimVerdict, Dispute, Settlement};
use nestor_results::WrittenPlace;
use nestor_text::Table;
use nestor_text::units::{digits, listed};

/// All disputes in a table.
pub fn disputes_text<'a>(disputes: impl Iterator<Item = &'a Dispute>, columns: Option<usize>) -> String {
    let mut rows = vec![["", "question", "sides", "cells", "settled by"].map(str::to_owned).to_vec()];
    for dispute in disputes {
        let cells = dispute.stacks.len() * dispute.workloads.len();
        let (cells, by) = match dispute.cannot {
            Some(_) => ("-".to_owned(), "cannot be settled here"),
            None => (cells.to_string(), dispute.decides.words()),
        };
        rows.push(vec![
            dispute.id.to_owned(),
            dispute.question.to_owned(),
            dispute.sides.len().to_string(),
            cells,
            by.to_owned(),
        ]);
    }
    let table = Table::of(&rows, &[2, 3]);
    columns.map_or_else(|| table.text(), |columns| table.text_within(columns))
        + "  cells are those of one block; `nestor advise --settle K4` settles K4 on this machine\n"
}

/// A dispute with the verdict for each side; `sentences` say whether the numbers are physical.
pub fn settlement_text(
    settlement: &Settlement,
    sentences: Option<&[String]>,
    ground: &WrittenPlace,
) -> String {
    let mut text = format!("{}  {}  on {ground}\n", settlement.id, settlement.question);
    if let Some(why) = &settlement.cannot {
        for side in &settlement.sides {
            text.push_str(&wrapped("  ", &format!("{}: {}", side.who, side.says)));
        }
        text.push_str(&wrapped("  cannot be settled here: ", why));
        return text;
    }
    text.push_str(&physical(sentences));
    for side in &settlement.sides {
        text.push('\n');
        text.push_str(&wrapped("  ", &format!("{}: {}", side.who, side.says)));
        text.push_str(&wrapped("    ", &format!("on this machine: {}", side.outcome.words())));
        text.push_str(&claims(&side.claims));
    }
    text.push_str(&semantics(settlement));
    text.push('\n');
    for (labelled, stack) in &settlement.stacks {
        text.push_str(&format!("  {labelled}: {stack}\n"));
    }
    if !settlement.not_tested.is_empty() {
        text.push_str(&wrapped("  not tested: ", &settlement.not_tested.join("; ")));
    }
    if !settlement.runs.is_empty() {
        text.push_str(&wrapped("  runs ", &listed(&settlement.runs)));
    }
    text
}

/// The claims, each workload said once.
fn claims(claims: &[ClaimVerdict]) -> String {
    let mut workloads: Vec<&str> = Vec::new();
    for claim in claims {
        if !workloads.contains(&claim.workload.as_str()) {
            workloads.push(&claim.workload);
        }
    }
    let mut text = String::new();
    for workload in workloads {
        text.push_str(&format!("    {workload}\n"));
        for claim in claims.iter().filter(|claim| claim.workload == workload) {
            let verdict = format!("{}: {} ({})", claim.words, claim.seen, claim.outcome.words());
            text.push_str(&wrapped("      ", &verdict));
            if let Some(why) = &claim.mechanism {
                text.push_str(&wrapped("        why ", why));
            }
        }
    }
    text
}

fn semantics(settlement: &Settlement) -> String {
    if settlement.semantics.is_empty() {
        return String::new();
    }
    let heading =
        ["seen", "guest flushes", "at the disk", "per guest flush", "per guest write", "so flushes"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for row in &settlement.semantics {
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), digits);
        let words = match row.reach {
            Reach::PerFlush(_) => "reach the disk when the guest asks",
            Reach::PerWrite(_) => "reach the disk after every write",
            Reach::Partly(_) => "reach the disk in part, or several as one",
            Reach::Lost => "do not reach the disk",
            Reach::NeverAsked => "were not requested",
        };
        rows.push(vec![
            row.label.to_string(),
            row.trace.guest_flushes().to_string(),
            row.trace.medium_flushes.to_string(),
            number(row.per_flush),
            number(row.per_write),
            words.to_owned(),
        ]);
    }
    format!("\n{}", Table::of(&rows, &[1, 2, 3, 4]).text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settle::{Evidence, dispute, disputes, judge};

    #[test]
    fn the_list_has_all_of_them() {
        insta::assert_snapshot!(disputes_text(disputes(), None), @"
             question                                                               sides  cells  settled by
        K1   which cache mode should be the default?                                    3      6  speed and flushes
        K2   is writeback safe?                                                         2      6  flushes
        K3   is cache=none safe?                                                        2      4  flushes
        K4   what do the cache modes mean?                                              2      5  flushes
        K5   which cache mode for databases?                                            3      4  speed
        K6   which way should QEMU submit I/O?                                          3      6  speed
        K7   raw or qcow2?                                                              3      6  speed
        K8   should the host's file system have a journal?                              3     10  speed
        K9   a file or a block device?                                                  2      4  speed
        K10  should images on Btrfs be nocow?                                           2      4  speed
        K11  thick or thin?                                                             2      6  speed
        K12  should images be loaded on demand?                                         2      -  cannot be settled here
        A1   do reads suffer from nesting?                                              1      6  speed
        A2   should write-heavy workloads avoid nesting, and journals on the host?      1      8  speed
        A3   does nesting add 10 to 30 % to latency even at best?                       1      6  speed
        A4   should the host only pass requests through?                                1      6  speed
        A5   does tuning the host's file system gain more than tuning the guest's?      1      6  speed
        cells are those of one block; `nestor advise --settle K4` settles K4 on this machine
        ");
    }

    #[test]
    fn what_cache_modes_mean_reads_like_this() {
        let settlement = crate::settle::tests::cache_modes_as_qemu_says();
        insta::assert_snapshot!(settlement_text(&settlement, None, &"emulated".into()), @"
        K4  what do the cache modes mean?  on emulated
        physically plausible? not checked

          QEMU's manual: none and writeback flush when the guest asks, writethrough and directsync after every write,
          unsafe never
            on this machine: holds here
            fio:rand-write:size=4M:files=1:engine=psync:fsync=8
              none: the guest's flushes reach the disk: 1.03 disk flushes per guest flush, 0.13 per guest write (holds
              here)
              none: writes are flushed only when the guest asks: 1.03 disk flushes per guest flush, 0.13 per guest
              write (holds here)
              writeback: the guest's flushes reach the disk: 1.02 disk flushes per guest flush, 0.13 per guest write
              (holds here)
              writeback: writes are flushed only when the guest asks: 1.02 disk flushes per guest flush, 0.13 per
              guest write (holds here)
              writethrough: every write is flushed: 8.03 disk flushes per guest flush, 1.00 per guest write (holds
              here)
              directsync: every write is flushed: 8.00 disk flushes per guest flush, 1.00 per guest write (holds here)
              unsafe: the guest's flushes do not reach the disk: 0.00 disk flushes per guest flush, 0.00 per guest
              write (holds here)

          a proposal for KubeVirt: none flushes after every write, directsync only when the guest asks
            on this machine: does not hold here
            fio:rand-write:size=4M:files=1:engine=psync:fsync=8
              none: every write is flushed: 1.03 disk flushes per guest flush, 0.13 per guest write (does not hold
              here)
              directsync: writes are flushed only when the guest asks: 8.00 disk flushes per guest flush, 1.00 per
              guest write (does not hold here)

          seen          guest flushes  at the disk  per guest flush  per guest write  so flushes
          none                     64           66             1.03             0.13  reach the disk when the guest asks
          writeback                64           65             1.02             0.13  reach the disk when the guest asks
          writethrough             64          514             8.03             1.00  reach the disk after every write
          directsync               64          512             8.00             1.00  reach the disk after every write
          unsafe                   64            0             0.00             0.00  do not reach the disk

          directsync: ext4/kvm:cache=directsync/raw/ext4/hdd
          none: ext4/kvm/raw/ext4/hdd
          unsafe: ext4/kvm:cache=unsafe/raw/ext4/hdd
          writeback: ext4/kvm:cache=writeback/raw/ext4/hdd
          writethrough: ext4/kvm:cache=writethrough/raw/ext4/hdd
          not tested: hypervisors other than QEMU; device models other than virtio-blk
          runs 3
        ");
    }

    #[test]
    fn what_cannot_be_settled_says_why() {
        let settlement = judge(dispute("K12").unwrap(), &Evidence::default());
        insta::assert_snapshot!(settlement_text(&settlement, None, &"this".into()), @"
        K12  should images be loaded on demand?  on this
          one project: it saves 90 % of the start-up time
          another: it is 1.5 to 2 times slower once a third has been read
          cannot be settled here: these rules compare the speed of loads, and both sides speak of whole lives of
                                  instances: compare a stack with `copy` and one with `overlay` under
                                  life:cycle:run=…, or ask nestor advise --propagate
        ");
    }
}
