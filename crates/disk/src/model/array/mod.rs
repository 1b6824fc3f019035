//! Arrays of hard disks: striped (RAID-0), or striped with parity (RAID-5).

mod layout;

use std::collections::BTreeMap;

use super::hdd::{HddFigures, HddModel};
use super::{
    Completion, FiguresError, MediumWork, MemberWork, Model, ModelRequest, SECTOR_BYTES, ServiceParts,
};
use crate::log::Operation;
pub use layout::{ArrayLayout, Piece, Redundancy, Step};

/// The golden ratio's fraction spreads any number of spindles evenly over the revolution: disks of an array do not
/// turn in step, and a fixed pattern keeps the model free of chance.
const GOLDEN_FRACTION: f64 = 0.618_033_988_749_895;

/// What an array is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrayFigures {
    /// Each of the disks.
    pub member: HddFigures,
    /// How data lie on them.
    pub layout: ArrayLayout,
    /// Rate of the bus or loop that the disks share.
    pub bus_bytes_per_s: f64,
    /// What the controller adds to each request.
    pub controller_overhead_ns: u64,
}

/// A piece that could begin only when another was done, with what that took: waiting for its disk between them is overhead.
fn one_after_the_other(before: Completion, piece: Completion) -> Completion {
    let waited_ns = piece.service_start_ns.saturating_sub(before.complete_ns);
    Completion {
        service_start_ns: before.service_start_ns,
        parts: ServiceParts {
            seek_ns: before.parts.seek_ns + piece.parts.seek_ns,
            rotation_ns: before.parts.rotation_ns + piece.parts.rotation_ns,
            transfer_ns: before.parts.transfer_ns + piece.parts.transfer_ns,
            overhead_ns: before.parts.overhead_ns + piece.parts.overhead_ns + waited_ns,
        },
        ..piece
    }
}

/// A request whose pieces are with the disks.
#[derive(Clone, Debug)]
struct Open {
    request: ModelRequest,
    arrived_ns: u64,
    /// When the last of what its writes needed had been read.
    read_until_ns: Option<u64>,
    steps_left: usize,
    last: Option<Completion>,
    all_hit: bool,
}

/// A step of a request whose pieces are with the disks.
#[derive(Clone, Debug)]
struct OpenStep {
    request: u64,
    pieces_left: usize,
    then: Vec<Piece>,
    /// In the second half, the piece of the first half that was done last.
    before: Option<Completion>,
}

/// The model of an array. Two writes to one row do not wait for each other: what they compute is not modelled, and their disks serve them one
/// after the other.
pub struct ArrayModel {
    figures: ArrayFigures,
    members: Vec<HddModel>,
    open: BTreeMap<u64, Open>,
    /// By the number under which the disks know their pieces.
    steps: BTreeMap<u64, OpenStep>,
    steps_begun: u64,
    bus_free_ns: u64,
    completions: BTreeMap<(u64, u64), Completion>,
    decided: u64,
    scratch: Vec<Completion>,
    work: MemberWork,
}

impl ArrayModel {
    /// An array at rest.
    ///
    /// # Errors
    /// The figures contradict each other.
    pub fn new(figures: ArrayFigures) -> Result<Self, FiguresError> {
        let ArrayLayout { members, chunk_sectors, redundancy } = figures.layout;
        let fewest = match redundancy {
            Redundancy::None => 1,
            Redundancy::Parity => 3,
        };
        if members < fewest || chunk_sectors == 0 {
            return Err(FiguresError::ArrayTooSmall);
        }
        let members = (0..members).map(|member| {
            let turned = figures.member.turned.plus(f64::from(member) * GOLDEN_FRACTION);
            HddModel::new(HddFigures { turned, ..figures.member })
        });
        Ok(Self {
            figures,
            members: members.collect::<Result<_, _>>()?,
            open: BTreeMap::new(),
            steps: BTreeMap::new(),
            steps_begun: 0,
            bus_free_ns: 0,
            completions: BTreeMap::new(),
            decided: 0,
            scratch: Vec::new(),
            work: MemberWork::default(),
        })
    }

    fn give(&mut self, step: u64, pieces: &[Piece], now_ns: u64) {
        self.work.operations += pieces.len() as u64;
        for piece in pieces {
            let Piece { operation, member, sector, sectors } = *piece;
            self.members[member].submit(ModelRequest { id: step, operation, sector, sectors }, now_ns);
        }
    }

    /// A piece is done; with the last of a step its second half begins, and with the last of all the request is done.
    fn finish_piece(&mut self, piece: Completion) {
        let Some(step) = self.steps.get_mut(&piece.id) else { return };
        step.pieces_left -= 1;
        let Some(open) = self.open.get_mut(&step.request) else { return };
        let piece = step.before.map_or(piece, |before| one_after_the_other(before, piece));
        open.all_hit &= piece.cache_hit;
        if open.last.is_none_or(|last| last.complete_ns <= piece.complete_ns) {
            open.last = Some(piece);
        }
        if step.pieces_left > 0 {
            return;
        }
        let then = std::mem::take(&mut step.then);
        if !then.is_empty() {
            step.pieces_left = then.len();
            step.before = Some(piece);
            open.read_until_ns = open.read_until_ns.max(Some(piece.complete_ns));
            return self.give(piece.id, &then, piece.complete_ns);
        }
        open.steps_left -= 1;
        let request = step.request;
        let is_last = open.steps_left == 0;
        self.steps.remove(&piece.id);
        if is_last {
            self.finish(request);
        }
    }

    /// All that a request asks for is done.
    fn finish(&mut self, id: u64) {
        let Some(open) = self.open.remove(&id) else { return };
        let Open { request, arrived_ns, read_until_ns, last: Some(last), all_hit, .. } = open else { return };
        self.work.parity_wait_ns += read_until_ns.map_or(0, |until_ns| until_ns - arrived_ns);
        let moves_data = matches!(request.operation, Operation::Read | Operation::Write);
        let bytes = if moves_data { u64::from(request.sectors) * SECTOR_BYTES } else { 0 };
        let bus_ns = (bytes as f64 / self.figures.bus_bytes_per_s * 1e9) as u64;
        // The bus moves data while the disks work; it only adds what it is behind.
        self.bus_free_ns = (self.bus_free_ns + bus_ns).max(last.complete_ns);
        let complete_ns = self.bus_free_ns + self.figures.controller_overhead_ns;
        let mut done = Completion { id, complete_ns, cache_hit: all_hit, ..last };
        done.parts.overhead_ns += complete_ns - last.complete_ns;
        self.decided += 1;
        self.completions.insert((complete_ns, self.decided), done);
    }

    /// Up to when the disks can run without one another: no piece may begin when another is done.
    fn independent_until_ns(&self, now_ns: u64) -> u64 {
        if self.steps.values().all(|step| step.then.is_empty()) {
            return now_ns;
        }
        self.members
            .iter()
            .filter_map(Model::next_event_ns)
            .min()
            .map_or(now_ns, |next_ns| next_ns.min(now_ns))
    }
}

impl Model for ArrayModel {
    fn submit(&mut self, request: ModelRequest, now_ns: u64) {
        let ModelRequest { id, operation, sector, sectors } = request;
        let steps = self.figures.layout.steps(operation, sector, u64::from(sectors));
        let (steps_left, arrived_ns) = (steps.len(), now_ns);
        let open = Open { request, arrived_ns, read_until_ns: None, steps_left, last: None, all_hit: true };
        self.open.insert(id, open);
        self.work.requests += 1;
        self.work.partial_writes += u64::from(steps.iter().any(Step::reads_first));
        for step in steps {
            for read in step.first.iter().filter(|_| step.reads_first()) {
                self.work.parity_reads += 1;
                self.work.parity_read_bytes += u64::from(read.sectors) * SECTOR_BYTES;
            }
            let Step { first, then } = step;
            self.steps_begun += 1;
            let step = self.steps_begun;
            self.steps.insert(step, OpenStep { request: id, pieces_left: first.len(), then, before: None });
            self.give(step, &first, now_ns);
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        let completion = self.completions.first_key_value().map(|((ns, _), _)| *ns);
        self.members.iter().filter_map(Model::next_event_ns).chain(completion).min()
    }

    fn advance(&mut self, now_ns: u64, completions: &mut Vec<Completion>) {
        let mut done = std::mem::take(&mut self.scratch);
        loop {
            let until_ns = self.independent_until_ns(now_ns);
            for member in &mut self.members {
                member.advance(until_ns, &mut done);
            }
            done.sort_by_key(|piece| piece.complete_ns);
            for piece in done.drain(..) {
                self.finish_piece(piece);
            }
            if until_ns >= now_ns
                && self.members.iter().all(|m| m.next_event_ns().is_none_or(|ns| ns > now_ns))
            {
                break;
            }
        }
        self.scratch = done;
        while let Some(first) = self.completions.first_entry().filter(|first| first.key().0 <= now_ns) {
            completions.push(first.remove());
        }
    }

    fn work(&self) -> MediumWork {
        let arms = self.members.iter().filter_map(|member| member.work().arms).sum();
        MediumWork { members: Some(self.work), arms: Some(arms) }
    }

    fn is_settled(&self) -> bool {
        self.open.is_empty() && self.completions.is_empty() && self.members.iter().all(Model::is_settled)
    }

    fn settle(&mut self, now_ns: u64) {
        self.members.iter_mut().for_each(|member| member.settle(now_ns));
    }

    fn write_cache(&self) -> bool {
        self.members.iter().any(Model::write_cache)
    }

    fn set_write_cache(&mut self, on: bool) {
        self.members.iter_mut().for_each(|member| member.set_write_cache(on));
    }

    fn reset(&mut self, now_ns: u64) {
        self.members.iter_mut().for_each(|member| member.reset(now_ns));
        self.open.clear();
        self.steps.clear();
        self.completions.clear();
        self.bus_free_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::check::run_closed_loop;
    use crate::profile::Medium;
    use crate::profiles::profile;

    fn array(name: &str) -> ArrayModel {
        let Medium::Array(raid) = &profile(name).unwrap().medium else { panic!("{name} is an array") };
        ArrayModel::new(raid.figures()).unwrap()
    }

    #[test]
    fn disks_work_at_the_same_time() {
        let reads = |step: u64| {
            (0..1400).map(move |id| ModelRequest {
                id,
                operation: Operation::Read,
                sector: id.wrapping_mul(7_919_993) % 2_000_000 * 448 + id * step % 448,
                sectors: 8,
            })
        };
        let spread = run_closed_loop(&mut array("raid0"), 14, reads(32)).1;
        let on_one = run_closed_loop(&mut array("raid0"), 14, reads(0)).1;
        assert!(on_one > 4 * spread, "{on_one} ns on one disk, {spread} ns on all");
    }

    #[test]
    fn a_small_write_with_parity_takes_two_turns_of_the_disks() {
        let writes = |spacing: u64, sectors: u32| {
            (0..200).map(move |id| ModelRequest {
                id,
                operation: Operation::Write,
                sector: id * spacing,
                sectors,
            })
        };
        let mut model = array("raid5");
        model.set_write_cache(false);
        let in_place = run_closed_loop(&mut model, 1, writes(1_000_448, 8)).1;
        let mut model = array("raid0");
        model.set_write_cache(false);
        let striped = run_closed_loop(&mut model, 1, writes(1_000_448, 8)).1;
        // The second turn comes to the same sectors a revolution later.
        assert!((1.3..2.5).contains(&(in_place as f64 / striped as f64)), "{in_place} {striped}");
    }

    #[test]
    fn what_small_writes_read_is_counted_and_is_a_part_of_their_service() {
        let written = |name: &str, sectors: u32| {
            let mut model = array(name);
            model.set_write_cache(false);
            let writes = (0..50).map(|id| ModelRequest {
                id,
                operation: Operation::Write,
                sector: id * 1_000_448,
                sectors,
            });
            let (done, _) = run_closed_loop(&mut model, 1, writes);
            (model.work().members.unwrap(), done)
        };
        let (work, done) = written("raid5", 8);
        // Old data and old parity are read, new ones written.
        let expected = MemberWork {
            requests: 50,
            operations: 200,
            parity_reads: 100,
            parity_read_bytes: 100 * 4096,
            partial_writes: 50,
            parity_wait_ns: work.parity_wait_ns,
        };
        assert_eq!(work, expected);
        let service_ns: u64 = done.iter().map(|done| done.parts.total_ns()).sum();
        assert!(
            (0.2..0.8).contains(&(work.parity_wait_ns as f64 / service_ns as f64)),
            "{work:?} {service_ns}"
        );
        assert_eq!(work.since(&work), MemberWork::default());
        let (work, _) = written("raid0", 8);
        assert_eq!(
            (work.operations, work.parity_reads, work.partial_writes, work.parity_wait_ns),
            (50, 0, 0, 0)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn nothing_is_lost_and_parts_add_up(
            mix in prop::collection::vec((0u32..4, 0u64..900_000_000, 1u32..2000), 1..60),
            write_cache in any::<bool>(),
            is_guarded in any::<bool>(),
        ) {
            let mut model = array(if is_guarded { "raid5" } else { "raid0" });
            model.set_write_cache(write_cache);
            let requests = mix.iter().enumerate().map(|(id, (kind, sector, sectors))| ModelRequest {
                id: id as u64,
                operation: [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard][*kind as usize],
                sector: *sector,
                sectors: *sectors,
            });
            let (done, _) = run_closed_loop(&mut model, 8, requests);
            prop_assert!(model.is_settled());
            prop_assert_eq!(done.len(), mix.len());
            prop_assert!(done.windows(2).all(|pair| pair[0].complete_ns <= pair[1].complete_ns));
            prop_assert!(done.iter().all(|c| c.service_start_ns + c.parts.total_ns() == c.complete_ns));
        }
    }
}
