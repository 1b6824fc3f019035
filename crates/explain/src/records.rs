//! Evidence from the records of runs.

use nestor_correlate::{Blame, Choice, Level, Node, SampledTree};
use nestor_results::{CellRecord, LayerRecord, Mark, Measured};
use nestor_workload::{Direction, LoadResult};

use nestor_stack::LayerRole;

use crate::evidence::{Edge, Evidence, ImageEvidence, Joined, Placed, add_spent};
use crate::network::add_networks;

impl Evidence {
    /// What the runs of one cell show together. Runs without numbers are left out; `None` if all are.
    pub fn of(runs: &[(i64, &CellRecord)]) -> Option<Self> {
        let mut evidence = Self::default();
        for (number, record) in runs {
            if let Some(measured) = record.measured() {
                evidence.add(*number, record, measured);
            }
        }
        let count = evidence.runs.len() as f64;
        evidence.cpu_busy.iter_mut().for_each(|(_, busy)| *busy /= count);
        (count > 0.0).then_some(evidence)
    }

    fn add(&mut self, number: i64, record: &CellRecord, measured: &Measured) {
        self.stack.clone_from(&record.stack);
        self.workload.clone_from(&record.workload);
        self.ground.clone_from(&record.environment.ground);
        self.runs.push(number);
        self.rates.push(measured.load.operations_per_second());
        self.add_load(&measured.load);
        if let Some(path) = &measured.path_length {
            let operations = measured.load.operations.values().map(|o| o.operations as f64).sum::<f64>();
            for (executor, each) in path.per_operation(&measured.load) {
                *self.instructions.entry(executor).or_default() += each * operations;
            }
            self.counted_operations += operations;
            self.processor = record.environment.modelled_processor().unwrap_or_default();
        }
        self.add_layers(&measured.layers);
        self.add_correlation(number, measured);
        for (machine, busy) in &measured.cpu_busy {
            match self.cpu_busy.iter_mut().find(|(name, _)| name == machine) {
                Some((_, sum)) => *sum += busy,
                None => self.cpu_busy.push((machine.clone(), *busy)),
            }
        }
        add_networks(&mut self.networks, measured, record.stack.value());
        for image in &measured.images {
            let sum = self.image.get_or_insert_with(ImageEvidence::default);
            sum.extents += image.extents as f64;
            sum.allocated_bytes += image.allocated_bytes as f64;
            sum.table_reads += (image.tables.table_reads + image.tables.table_writes) as f64;
            sum.allocations += (image.tables.allocations + image.tables.tables_made) as f64;
        }
        let marks = record.marks.iter().filter(|mark| !matches!(mark, Mark::CpuBound { .. }));
        let said = marks.map(|mark| format!("{}: {}", mark.name(), mark.detail()));
        for doubt in said.chain(measured.trace_remarks.iter().cloned()) {
            if !self.doubts.contains(&doubt) {
                self.doubts.push(doubt);
            }
        }
    }

    fn add_load(&mut self, load: &LoadResult) {
        self.elapsed_ns += load.elapsed_ns as f64;
        for (class, result) in &load.operations {
            let volume = match class.direction() {
                Some(Direction::Read) => &mut self.reads,
                Some(Direction::Write) => &mut self.writes,
                None => &mut self.others,
            };
            volume.count += result.operations as f64;
            volume.bytes += result.bytes as f64;
            if let Some(summary) = result.latency.summary() {
                self.latency_ns += summary.mean_ns * summary.count as f64;
            }
        }
    }

    fn add_layers(&mut self, layers: &[LayerRecord]) {
        for layer in layers {
            // A partition passes requests on as they are: those at its lower edge are those at its upper one.
            if layer.role == LayerRole::Partition {
                continue;
            }
            let Some(metrics) = &layer.metrics else { continue };
            let same = |edge: &&mut Edge| {
                edge.layer == layer.layer && edge.role == layer.role && edge.machine == layer.machine
            };
            let edge = match self.edges.iter_mut().find(same) {
                Some(edge) => edge,
                None => {
                    self.edges.push(Edge {
                        layer: layer.layer.clone(),
                        role: layer.role.clone(),
                        machine: layer.machine.clone(),
                        ..Edge::default()
                    });
                    self.edges.last_mut().expect("the entry was just inserted")
                }
            };
            edge.add(metrics);
        }
    }

    fn add_correlation(&mut self, number: i64, measured: &Measured) {
        let Some(correlation) = &measured.correlation else { return };
        add_blame(&mut self.blame, &correlation.blame);
        self.add_levels(&correlation.levels);
        for (below, join) in correlation.joins_by_level() {
            let Some(level) = correlation.level(below) else { continue };
            let known = self.joins.iter_mut().find(|j| j.kind == level.kind && j.layer == level.layer);
            let joined = match known {
                Some(joined) => joined,
                None => {
                    let (kind, layer) = (level.kind.clone(), level.layer.clone());
                    self.joins.push(Joined { kind, layer, ..Joined::default() });
                    self.joins.last_mut().expect("the entry was just inserted")
                }
            };
            joined.absorbed += join.absorbed as f64;
            for (origin, count) in &join.origins {
                *joined.origins.entry(*origin).or_default() += *count as f64;
            }
        }
        let around = |root: &Node| SampledTree { choice: Choice::AroundTheMiddle, root: root.clone() };
        let trees = correlation.trees.iter().cloned().chain(correlation.timeline.iter().map(around));
        self.trees.extend(trees.map(|tree| (number, correlation.levels.clone(), tree)));
    }

    fn add_levels(&mut self, levels: &[Level]) {
        for level in levels {
            let same = |placed: &&mut Placed| placed.kind == level.kind && placed.layer == level.layer;
            let placed = match self.levels.iter_mut().find(same) {
                Some(placed) => placed,
                None => {
                    let (kind, layer) = (level.kind.clone(), level.layer.clone());
                    self.levels.push(Placed { kind, layer, ..Placed::default() });
                    self.levels.last_mut().expect("the entry was just inserted")
                }
            };
            placed.requests += level.requests as f64;
            placed.misaligned += level.misaligned as f64;
        }
    }
}

fn add_blame(sum: &mut Blame, blame: &Blame) {
    sum.span_ns += blame.span_ns;
    sum.busy_ns += blame.busy_ns;
    sum.occupied_ns += blame.occupied_ns;
    for (cause, spent) in &blame.causes {
        add_spent(sum.causes.entry(cause.clone()).or_default(), spent);
    }
    for transition in &blame.transitions {
        match sum.transitions.iter_mut().find(|t| t.from == transition.from && t.to == transition.to) {
            Some(known) => {
                known.jumps += transition.jumps;
                known.jump_bytes = known.jump_bytes.saturating_add(transition.jump_bytes);
                known.busy_ns += transition.busy_ns;
            }
            None => sum.transitions.push(transition.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use nestor_statistics::LatencyHistogram;
    use nestor_workload::{OperationClass, OperationResult};

    use super::*;

    #[test]
    fn an_operation_that_moves_no_data_is_neither_read_nor_write() {
        let done = |operations, bytes| OperationResult {
            operations,
            bytes,
            latency: LatencyHistogram::default(),
            ..OperationResult::default()
        };
        let class = |name: &str, done| (OperationClass(name.to_owned()), done);
        let load = LoadResult {
            elapsed_ns: 1_000_000_000,
            operations: [
                class("readwholefile", done(2, 20)),
                class("appendfile", done(3, 30)),
                class("statfile", done(5, 0)),
                class("fsync", done(7, 0)),
            ]
            .into(),
            ..LoadResult::default()
        };
        let mut evidence = Evidence::default();
        evidence.add_load(&load);
        let volume = |count, bytes| crate::Volume { count, bytes };
        assert_eq!((evidence.reads, evidence.writes), (volume(2.0, 20.0), volume(3.0, 30.0)));
        assert_eq!((evidence.others.count, evidence.operations()), (12.0, 17.0));
    }
}
