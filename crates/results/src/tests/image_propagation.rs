//! The claims of the study of image propagation, judged on made-up stores: what is published reproduces them, the opposite contradicts them.

use nestor_stack::{BitRate, Stack};
use nestor_workload::Workload;

use super::fixture::*;
use super::judged::{Planted, of_verdict};
use crate::claims::ClaimResult;
use crate::life::{InstanceLife, LifeState};
use crate::record::{CellRecord, Outcome};
use crate::{ClaimKind, Figure, Study, Verdict};

const FILE: &str = include_str!("../../../../studies/image-propagation.toml");

/// How an image comes to its node, and how large it is.
struct Way {
    protocol: Option<&'static str>,
    image_bytes: u64,
    link: BitRate,
}

impl Way {
    fn of(stack: &Stack) -> Self {
        let image = stack.sourced_image().map(|at| stack.layer(at)).unwrap();
        let source = stack.source();
        Self {
            protocol: image.copy().map(|copy| copy.transfer.name),
            image_bytes: source.iter().find_map(|layer| layer.size("size")).unwrap().get(),
            link: source.iter().find_map(|layer| Some(layer.link()?.rate)).unwrap(),
        }
    }

    /// Seconds of the transfer: rows D-10 and D-14.
    fn transfer_s(&self, planted: Planted) -> f64 {
        let gigabytes = self.image_bytes as f64 / 1e9;
        let slope = match (planted, self.protocol) {
            (Planted::Published, Some("scp")) => 20.0,
            (Planted::Published, Some("gridftp")) => 20.0 * 0.54,
            (Planted::Published, Some(_)) => 9.0,
            // The adapter would be faster than its link.
            (Planted::Opposite, Some("scp")) => 3.0,
            (Planted::Opposite, Some(_)) => 6.0,
            (Planted::Published, None) => 0.0,
            (Planted::Opposite, None) => 30.0,
        };
        let slower = if self.link == BitRate(100_000_000) { 10.0 } else { 1.0 };
        0.01 + slope * gigabytes * slower
    }

    /// Seconds of the boot: own-1.
    fn boot_s(&self, planted: Planted) -> f64 {
        9.0 + if planted == Planted::Opposite { 30.0 * self.image_bytes as f64 / 1e9 } else { 0.0 }
    }

    /// Seconds in which the workload has read so much: own-3.
    fn running_s(&self, read_bytes: u64, planted: Planted) -> f64 {
        let reads = read_bytes as f64 / 8192.0;
        match (self.protocol, planted) {
            (None, Planted::Published) => reads / 300.0,
            (None, Planted::Opposite) => 60.0 + reads / 30.0,
            (Some(_), _) => reads / 400.0,
        }
    }
}

fn cell(stack: &str, workload: &str, block: u32, planted: Planted) -> CellRecord {
    use LifeState::*;
    let way = Way::of(&Stack::parse(stack).unwrap());
    let read_bytes = Workload::parse(workload).unwrap().data_set().bytes;
    // Blocks differ by a thousandth, and not all cells alike.
    let wobble = 1.0 + 0.001 * f64::from((block * 7 + stack.len() as u32) % 3);
    let states = life(&[
        (Pending, 0.0),
        (Transfer, wobble * way.transfer_s(planted)),
        (Boot, wobble * way.boot_s(planted)),
        (Running, wobble * way.running_s(read_bytes, planted)),
        (Shutdown, 0.2),
        (Cleanup, 0.05),
    ]);
    let mut record = lived(stack, block, vec![InstanceLife { image_bytes: way.image_bytes, ..states }]);
    record.workload = workload.into();
    if let Outcome::Measured(measured) = &mut record.outcome {
        measured.load.workload = workload.to_owned();
        measured.load.working_set_bytes = read_bytes;
    }
    record
}

fn judged(scale: &str, planted: Planted) -> (Vec<ClaimResult>, Vec<Figure>) {
    let study = Study::parse("studies/image-propagation.toml", FILE, Some(scale)).unwrap();
    super::judged::judged(study, |_, stack, workload, rule| {
        (0..rule.replications.min(3)).map(|block| cell(stack, workload, block, planted)).collect()
    })
}

/// Rows that need a cloud manager.
const MANAGERS: [&str; 3] = ["D-11", "D-12", "D-13"];

#[test]
fn the_published_numbers_reproduce_every_row_that_is_measured() {
    for scale in ["quick", "faithful", "paper"] {
        let (results, figures) = judged(scale, Planted::Published);
        let ids: Vec<&str> = results.iter().map(|r| r.claim.id.as_str()).collect();
        let rows = "D-1 D-2 D-3 D-4 D-5 D-8 D-9 D-10 D-11 D-12 D-12a D-13 D-14 own-1 own-2 own-3";
        assert_eq!(ids.join(" "), rows);
        let wrong = of_verdict(&results, |r| {
            let expected = match r.verdict {
                Verdict::NotTestable => MANAGERS.contains(&r.claim.id.as_str()),
                Verdict::Reproduced => true,
                // What is configured is smaller than it was.
                _ => r.claim.kind == ClaimKind::Setup,
            };
            !expected
        });
        assert_eq!(wrong, Vec::<String>::new(), "{scale}");
        let problems: Vec<&str> =
            figures.iter().filter(|f| f.problem.is_some()).map(|f| f.query.id.as_str()).collect();
        assert_eq!(problems, [""; 0], "{scale}");
    }
}

#[test]
fn the_opposite_contradicts_the_rows_that_compare() {
    let (results, _) = judged("faithful", Planted::Opposite);
    let compares = |r: &ClaimResult| {
        !MANAGERS.contains(&r.claim.id.as_str())
            && !matches!(r.claim.kind, ClaimKind::Constant | ClaimKind::Setup)
    };
    let kept = of_verdict(&results, |r| compares(r) && r.verdict != Verdict::Contradicted);
    assert_eq!(kept, Vec::<String>::new());
}
