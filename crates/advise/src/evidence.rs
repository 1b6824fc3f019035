//! Runs of a store as the plain numbers that advice is made of.

use nestor_explain::{Evidence, explain};
use nestor_results::{
    CellRecord, LayerRecord, Mark, Measured, Physical, PhysicalVerdict, RunLevels, StoredRun, WrittenWorkload,
};
use nestor_text::units;
use nestor_workload::RateUnit;

use crate::{FlushTrace, Flusher, Observation};

/// What a workload is judged by; operations where this version does not know it.
pub fn unit_of(workload: &WrittenWorkload) -> RateUnit {
    workload.value().map_or(RateUnit::OperationsPerSecond, |workload| workload.demand().rate_unit())
}

/// The rate of a run; `None` for runs that count for nothing: failures, untraced repeats, and those that violate an
/// identity.
pub fn observation(run: &StoredRun, unit: RateUnit) -> Option<Observation> {
    let record = &run.record;
    if record.untraced_twin || record.violates_an_identity() {
        return None;
    }
    let rate = record.measured()?.load.rate(unit);
    Some(Observation {
        stack: record.stack.clone(),
        run: run.number,
        block: block_of(record),
        rate,
        trusted: !record.marks.iter().any(|mark| matches!(mark, Mark::NotSteady { .. }))
            && Physical::of(record).verdict != PhysicalVerdict::No,
    })
}

/// Blocks of studies are what was measured next to each other; single runs are taken together, for each alone would tell
/// nothing.
fn block_of(record: &CellRecord) -> String {
    match &record.study_hash {
        Some(hash) => format!("{hash}/{}", record.block),
        None => format!("single runs, {:?}", record.trace),
    }
}

/// What a run showed of flushes; `None` unless both the guest's device, or the calls of a client, and one below were traced without a gap.
pub fn flush_trace(run: &StoredRun) -> Option<FlushTrace> {
    let measured = run.record.measured()?;
    let Some((guest, medium)) = ends(measured) else { return commit_trace(run, measured) };
    let (guest_metrics, medium_metrics) = (guest.metrics.as_ref()?, medium.metrics.as_ref()?);
    if guest_metrics.dropped_events + medium_metrics.dropped_events > 0 {
        return None;
    }
    Some(FlushTrace {
        run: run.number,
        stack: run.record.stack.clone(),
        workload: run.record.workload.clone(),
        flusher: match run.record.stack.value() {
            Some(stack) if stack.is_beside() => Flusher::ClientDisk,
            _ => Flusher::Guest,
        },
        guest_asked: guest_metrics.flushes_queued + guest_metrics.fua_writes_queued,
        guest_sent: guest_metrics.flushes + guest_metrics.fua_writes,
        guest_writes: guest_metrics.write.issued,
        guest_write_bytes: guest_metrics.write.issued_bytes,
        medium: medium.layer.clone(),
        medium_flushes: medium_metrics.flushes + medium_metrics.fua_writes,
        medium_write_bytes: medium_metrics.write.issued_bytes,
    })
}

/// The same of a client that mounts a server's directory itself: its COMMITs are its flushes (RFC 1813, section 3.3.21). Bytes are not compared,
/// because those of calls have headers.
fn commit_trace(run: &StoredRun, measured: &Measured) -> Option<FlushTrace> {
    let is_beside = run.record.stack.value().is_some_and(|stack| stack.is_beside());
    let network = measured.networks.first().filter(|_| is_beside)?;
    let (layer, medium) =
        measured.layers.iter().rev().find_map(|layer| Some((layer, layer.metrics.as_ref()?)))?;
    let commits = network.client.calls_of("COMMIT");
    (medium.dropped_events == 0).then(|| FlushTrace {
        run: run.number,
        stack: run.record.stack.clone(),
        workload: run.record.workload.clone(),
        flusher: Flusher::Client,
        guest_asked: commits,
        guest_sent: commits,
        guest_writes: network.client.calls_of("WRITE"),
        guest_write_bytes: 0,
        medium: layer.layer.clone(),
        medium_flushes: medium.flushes + medium.fua_writes,
        medium_write_bytes: 0,
    })
}

/// The traced edges at the guest's device and at the medium.
fn ends(measured: &Measured) -> Option<(&LayerRecord, &LayerRecord)> {
    let (application, layers) = measured.layers.split_first()?;
    let mut traced = layers.iter().filter(|layer| layer.metrics.is_some());
    let guest = traced.next()?;
    let medium = traced.next_back()?;
    let in_guest = |layer: &LayerRecord| layer.machine == application.machine;
    // Native stacks have no guest whose flushes could get lost.
    (in_guest(guest) && !in_guest(medium)).then_some((guest, medium))
}

/// What makes the candidate slower or faster than the baseline: from the requests where both were joined through all layers,
/// else from what the layers counted. `None` where not even that was recorded of both.
pub fn why(baseline: &[&StoredRun], candidate: &[&StoredRun]) -> Option<String> {
    mechanism(baseline, candidate).or_else(|| by_layers(baseline, candidate))
}

/// So many differences are told of a stack.
const DIFFERENCES: usize = 2;

/// What the layers of two runs counted differently, the most important first: of the pair whose ratio is nearest to the
/// middle, of those that ran in the same block if there are any.
fn by_layers(baseline: &[&StoredRun], candidate: &[&StoredRun]) -> Option<String> {
    let levels = |runs: &[&StoredRun]| -> Vec<(String, i64, RunLevels)> {
        let levels_of =
            |run: &&StoredRun| Some((block_of(&run.record), run.number, RunLevels::of(&run.record)?));
        runs.iter().filter_map(levels_of).collect()
    };
    let (baselines, candidates) = (levels(baseline), levels(candidate));
    let pairs = candidates.iter().flat_map(|one| baselines.iter().map(move |other| (one, other)));
    let together = |(one, other): &(&(String, i64, RunLevels), &(String, i64, RunLevels))| one.0 == other.0;
    let (beside, apart): (Vec<_>, Vec<_>) = pairs.partition(together);
    let mut pairs = if beside.is_empty() { apart } else { beside };
    let ratio = |one: &RunLevels, other: &RunLevels| one.throughput / other.throughput.max(1e-9);
    pairs.sort_by(|a, b| ratio(&a.0.2, &a.1.2).total_cmp(&ratio(&b.0.2, &b.1.2)));
    let ((_, run, levels), (_, beside, base)) = *pairs.get(pairs.len() / 2)?;
    let told: Vec<String> = levels.differences(base).into_iter().take(DIFFERENCES).collect();
    Some(format!("by the layers of run {run} against run {beside}: {}", told.join("; ")))
}

/// What makes the candidate slower or faster, in a sentence or two; `None` unless both were joined through all layers.
pub fn mechanism(baseline: &[&StoredRun], candidate: &[&StoredRun]) -> Option<String> {
    let evidence = |runs: &[&StoredRun]| {
        let joined = |run: &&&StoredRun| run.record.measured().is_some_and(|m| m.correlation.is_some());
        let joined: Vec<(i64, &CellRecord)> =
            runs.iter().filter(joined).map(|run| (run.number, &run.record)).collect();
        Evidence::of(&joined)
    };
    let explanation = explain(&evidence(candidate)?, Some(&evidence(baseline)?));
    let sentences: Vec<String> = explanation
        .findings
        .iter()
        .take(2)
        .map(|finding| {
            let sign = if finding.effect_ns < 0.0 { "-" } else { "+" };
            let share = units::percent(finding.share);
            format!("{sign}{share} of the time: {}: {}", finding.mechanism.name(), finding.words)
        })
        .collect();
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

/// Everything that makes a comparison of runs less sure than it seems, each kind once.
pub fn doubts(runs: &[&StoredRun]) -> Vec<String> {
    let mut doubts: Vec<String> = Vec::new();
    let mut kinds: Vec<&str> = Vec::new();
    for mark in runs.iter().flat_map(|run| &run.record.marks) {
        if (mark.spoils_comparison() || *mark == Mark::EmulatedCpu) && !kinds.contains(&mark.name()) {
            kinds.push(mark.name());
            let marked = runs.iter().filter(|run| run.record.marks.iter().any(|m| m.name() == mark.name()));
            doubts.push(format!("in {} of {} runs: {}", marked.count(), runs.len(), mark.meaning()));
        }
    }
    if runs.iter().any(|run| run.record.study_hash.is_none()) {
        doubts.push("some runs were single runs, not part of a plan in random order".to_owned());
    }
    doubts
}

/// Reasons that are given for one answer; the cells of others are counted.
const NAMED: usize = 3;

/// Whether the numbers of cells are physical, in sentences, the doubtful first; each cell is named by what is before its
/// runs. `None` where nothing was measured.
pub fn physical(cells: &[(String, Vec<&StoredRun>)]) -> Option<Vec<String>> {
    let answers: Vec<(&str, Physical)> = cells
        .iter()
        .filter_map(|(name, runs)| {
            let records: Vec<&CellRecord> = runs.iter().map(|run| &run.record).collect();
            Some((name.as_str(), Physical::of_runs(&records)?))
        })
        .collect();
    let mut sentences = Vec::new();
    for verdict in [PhysicalVerdict::No, PhysicalVerdict::CannotTell, PhysicalVerdict::Yes] {
        // Many cells for the same reason are said once.
        let mut reasons: Vec<(String, &str, usize)> = Vec::new();
        for (name, answer) in answers.iter().filter(|(_, answer)| answer.verdict == verdict) {
            let reason = answer.sentences.join("; ");
            match reasons.iter_mut().find(|(known, ..)| *known == reason) {
                Some((_, _, count)) => *count += 1,
                None => reasons.push((reason, name, 1)),
            }
        }
        // What is as it should be needs one example, what is not needs more.
        let named = if verdict == PhysicalVerdict::Yes { 1 } else { NAMED };
        let cells: usize = reasons.iter().skip(named).map(|(_, _, count)| count).sum();
        for (reason, name, count) in reasons.into_iter().take(named) {
            let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
            sentences.push(format!("{} for {name}{more}: {reason}", verdict.words()));
        }
        if cells > 0 {
            sentences.push(format!("{} for {cells} more", verdict.words()));
        }
    }
    (!answers.is_empty()).then_some(sentences)
}

/// Why the number of a stack is not physical; `None` where it is or nothing tells.
pub fn not_physical(runs: &[&StoredRun]) -> Option<String> {
    let records: Vec<&CellRecord> = runs.iter().map(|run| &run.record).collect();
    let answer = Physical::of_runs(&records)?;
    (answer.verdict == PhysicalVerdict::No).then(|| answer.sentences.join("; "))
}
