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
        self.rates.push((record.block, measured.load.operations_per_second()));
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
        let mut seen = Vec::new();
        for layer in layers {
            // A partition passes requests on as they are: those at its lower edge are those at its upper one.
            if layer.role == LayerRole::Partition {
                continue;
            }
            let Some(metrics) = &layer.metrics else { continue };
            let name = (&layer.layer, &layer.role, &layer.machine);
            let same = |edge: &Edge| (&edge.layer, &edge.role, &edge.machine) == name;
            let new = || Edge {
                layer: layer.layer.clone(),
                role: layer.role.clone(),
                machine: layer.machine.clone(),
                ..Edge::default()
            };
            entry(&mut self.edges, place_among(&mut seen, name), same, new).add(metrics);
        }
    }

    fn add_correlation(&mut self, number: i64, measured: &Measured) {
        let Some(correlation) = &measured.correlation else { return };
        add_blame(&mut self.blame, &correlation.blame);
        self.add_levels(&correlation.levels);
        let mut seen = Vec::new();
        for (below, join) in correlation.joins_by_level() {
            let Some(level) = correlation.level(below) else { continue };
            let name = (&level.kind, &level.layer);
            let same = |joined: &Joined| (&joined.kind, &joined.layer) == name;
            let new = || Joined { kind: level.kind.clone(), layer: level.layer.clone(), ..Joined::default() };
            let joined = entry(&mut self.joins, place_among(&mut seen, name), same, new);
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
        let mut seen = Vec::new();
        for level in levels {
            let name = (&level.kind, &level.layer);
            let same = |placed: &Placed| (&placed.kind, &placed.layer) == name;
            let new = || Placed { kind: level.kind.clone(), layer: level.layer.clone(), ..Placed::default() };
            let placed = entry(&mut self.levels, place_among(&mut seen, name), same, new);
            placed.requests += level.requests as f64;
            placed.misaligned += level.misaligned as f64;
        }
    }
}

/// How many of this name came before in a run: a stack may have two layers of one name in one machine (`ext4/loop/raw/ext4/hdd`).
fn place_among<N: PartialEq>(seen: &mut Vec<N>, name: N) -> usize {
    let place = seen.iter().filter(|other| **other == name).count();
    seen.push(name);
    place
}

/// The sum over runs of what is in that place among those of its name.
fn entry<T>(sums: &mut Vec<T>, place: usize, same: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> &mut T {
    let known = (0..sums.len()).filter(|at| same(&sums[*at])).nth(place);
    let at = known.unwrap_or_else(|| {
        sums.push(new());
        sums.len() - 1
    });
    &mut sums[at]
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
    use nestor_correlate::LevelKind;
    use nestor_stack::{MachineLabel, MachineName};
    use nestor_statistics::LatencyHistogram;
    use nestor_trace::{LayerMetrics, TracePoint};
    use nestor_workload::{OperationClass, OperationResult};

    use super::*;

    #[test]
    fn two_layers_of_one_name_in_one_machine_are_two_edges() {
        let layer = |issued| {
            let mut metrics = LayerMetrics::new(TracePoint::Blktrace);
            metrics.write.issued = issued;
            let role = LayerRole::FileSystem(MachineLabel::Host);
            LayerRecord::new("ext4", role, MachineName::default(), Some(metrics))
        };
        let mut evidence = Evidence::default();
        for _ in 0..2 {
            evidence.add_layers(&[layer(3), layer(50)]);
        }
        let writes: Vec<f64> = evidence.edges.iter().map(|edge| edge.writes.count).collect();
        assert_eq!(writes, [6.0, 100.0]);
        let level = |requests| Level {
            layer: "ext4".to_owned(),
            kind: LevelKind::Medium,
            machine: MachineName::default(),
            requests,
            misaligned: 0,
        };
        evidence.add_levels(&[level(3), level(50)]);
        assert_eq!(evidence.levels.iter().map(|level| level.requests).collect::<Vec<_>>(), [3.0, 50.0]);
    }

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
