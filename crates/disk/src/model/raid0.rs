//! Striping over hard disks: chunk after chunk goes to disk after disk.

use std::collections::BTreeMap;

use super::hdd::{HddFigures, HddModel};
use super::{Completion, Model, ModelRequest, SECTOR_BYTES};
use crate::log::Operation;

/// The golden ratio's fraction spreads any number of spindles evenly over the revolution: disks of an array do not
/// turn in step, and a fixed pattern keeps the model free of chance.
const GOLDEN_FRACTION: f64 = 0.618_033_988_749_895;

/// What an array is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Raid0Figures {
    /// Each of the disks.
    pub member: HddFigures,
    /// Number of disks.
    pub members: u32,
    /// Sectors on one disk before the next one's turn.
    pub chunk_sectors: u64,
    /// Rate of the bus or loop that the disks share.
    pub bus_bytes_per_s: f64,
    /// What the controller adds to each request.
    pub controller_overhead_ns: u64,
}

/// A request whose parts are with the disks.
#[derive(Clone, Copy, Debug)]
struct Open {
    request: ModelRequest,
    parts_left: u32,
    last: Option<Completion>,
    all_hit: bool,
}

/// The model of an array.
pub struct Raid0Model {
    figures: Raid0Figures,
    members: Vec<HddModel>,
    open: BTreeMap<u64, Open>,
    bus_free_ns: u64,
    completions: BTreeMap<(u64, u64), Completion>,
    decided: u64,
    scratch: Vec<Completion>,
}

impl Raid0Model {
    /// An array at rest.
    ///
    /// # Errors
    /// The figures contradict each other.
    pub fn new(figures: Raid0Figures) -> Result<Self, String> {
        if figures.members == 0 || figures.chunk_sectors == 0 {
            return Err("an array needs disks and chunks".to_owned());
        }
        let members = (0..figures.members).map(|member| {
            let turned = figures.member.turned.plus(f64::from(member) * GOLDEN_FRACTION);
            HddModel::new(HddFigures { turned, ..figures.member })
        });
        Ok(Self {
            figures,
            members: members.collect::<Result<_, _>>()?,
            open: BTreeMap::new(),
            bus_free_ns: 0,
            completions: BTreeMap::new(),
            decided: 0,
            scratch: Vec::new(),
        })
    }

    /// Splits a range over the disks: disk, first sector there, sectors. Neighbouring chunks of one disk are next to
    /// each other on it, so a long request is one piece per disk.
    fn split(&self, sector: u64, sectors: u64) -> Vec<(usize, u64, u32)> {
        let (chunk, members) = (self.figures.chunk_sectors, self.members.len() as u64);
        let mut pieces: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        let (mut at, mut left) = (sector, sectors);
        while left > 0 {
            let (stripe, within) = (at / chunk, at % chunk);
            let here = left.min(chunk - within);
            let member = (stripe % members) as usize;
            let on_member = stripe / members * chunk + within;
            pieces.entry(member).or_insert((on_member, 0)).1 += here;
            at += here;
            left -= here;
        }
        pieces.into_iter().map(|(member, (start, length))| (member, start, length as u32)).collect()
    }

    /// A part is done; with the last of them the request is.
    fn finish_part(&mut self, part: Completion) {
        let Some(open) = self.open.get_mut(&part.id) else { return };
        open.parts_left -= 1;
        open.all_hit &= part.cache_hit;
        if open.last.is_none_or(|last| last.complete_ns <= part.complete_ns) {
            open.last = Some(part);
        }
        if open.parts_left > 0 {
            return;
        }
        let Some(Open { request, last: Some(last), all_hit, .. }) = self.open.remove(&part.id) else {
            return;
        };
        let moves_data = matches!(request.operation, Operation::Read | Operation::Write);
        let bytes = if moves_data { u64::from(request.sectors) * SECTOR_BYTES } else { 0 };
        let bus_ns = (bytes as f64 / self.figures.bus_bytes_per_s * 1e9) as u64;
        // The bus moves data while the disks work; it only adds what it is behind.
        self.bus_free_ns = (self.bus_free_ns + bus_ns).max(last.complete_ns);
        let complete_ns = self.bus_free_ns + self.figures.controller_overhead_ns;
        let mut done = Completion { complete_ns, cache_hit: all_hit, ..last };
        done.parts.overhead_ns += complete_ns - last.complete_ns;
        self.decided += 1;
        self.completions.insert((complete_ns, self.decided), done);
    }
}

impl Model for Raid0Model {
    fn submit(&mut self, request: ModelRequest, now_ns: u64) {
        let pieces = match request.operation {
            Operation::Flush => (0..self.members.len()).map(|member| (member, 0, 0)).collect(),
            _ => self.split(request.sector, u64::from(request.sectors)),
        };
        let open = Open { request, parts_left: pieces.len() as u32, last: None, all_hit: true };
        self.open.insert(request.id, open);
        for (member, sector, sectors) in pieces {
            self.members[member].submit(ModelRequest { sector, sectors, ..request }, now_ns);
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        let completion = self.completions.first_key_value().map(|((ns, _), _)| *ns);
        self.members.iter().filter_map(Model::next_event_ns).chain(completion).min()
    }

    fn advance(&mut self, now_ns: u64, completions: &mut Vec<Completion>) {
        // The disks do not influence each other, so each can run ahead of the next one.
        let mut parts = std::mem::take(&mut self.scratch);
        for member in &mut self.members {
            member.advance(now_ns, &mut parts);
        }
        parts.sort_by_key(|part| part.complete_ns);
        for part in parts.drain(..) {
            self.finish_part(part);
        }
        self.scratch = parts;
        while let Some(first) = self.completions.first_entry().filter(|first| first.key().0 <= now_ns) {
            completions.push(first.remove());
        }
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

    fn array() -> Raid0Model {
        let Medium::Raid0(raid) = &profile("raid0").unwrap().medium else {
            panic!("the default array is one")
        };
        Raid0Model::new(raid.figures()).unwrap()
    }

    #[test]
    fn a_long_request_is_one_piece_on_each_disk() {
        let model = array();
        // Two and a half rows of 14 chunks of 32 sectors, from the middle of a chunk.
        let pieces = model.split(16, 14 * 32 * 2 + 7 * 32);
        assert_eq!(pieces.len(), 14);
        assert_eq!(pieces[0], (0, 16, 16 + 32 + 32));
        assert_eq!(pieces[6], (6, 0, 32 * 3));
        assert_eq!(pieces[7], (7, 0, 32 * 2 + 16));
        assert_eq!(pieces[13], (13, 0, 32 * 2));
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
        let spread = run_closed_loop(&mut array(), 14, reads(32)).1;
        let on_one = run_closed_loop(&mut array(), 14, reads(0)).1;
        assert!(on_one > 4 * spread, "{on_one} ns on one disk, {spread} ns on all");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn pieces_cover_a_request_once(sector in 0u64..1_000_000, sectors in 1u64..5000) {
            let pieces = array().split(sector, sectors);
            prop_assert_eq!(pieces.iter().map(|p| u64::from(p.2)).sum::<u64>(), sectors);
            for (member, start, length) in pieces {
                for at in start..start + u64::from(length) {
                    let logical = (at / 32 * 14 + member as u64) * 32 + at % 32;
                    prop_assert!((sector..sector + sectors).contains(&logical));
                }
            }
        }

        #[test]
        fn nothing_is_lost_and_parts_add_up(
            mix in prop::collection::vec((0u32..4, 0u64..900_000_000, 1u32..2000), 1..60),
            write_cache in any::<bool>(),
        ) {
            let mut model = array();
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
