//! Flowops that name other flowops.

use std::collections::{HashMap, HashSet};

use super::Result;
use crate::Span;
use crate::error::{Fault, Problem};
use crate::plan::{Flowop, FlowopKind, Process};
use crate::token::clip;
use crate::vocabulary::suggest;

/// Names of flowops; of those that something can wait at, also whether it can be woken or posted.
#[derive(Default)]
struct Names {
    all: HashSet<String>,
    blocks: HashSet<String>,
    semaphores: HashSet<String>,
}

impl Names {
    fn add(&mut self, flowops: &[Flowop]) {
        for flowop in flowops {
            self.all.insert(flowop.name.clone());
            match &flowop.kind {
                FlowopKind::Composite(inner) => self.add(inner),
                FlowopKind::Block => drop(self.blocks.insert(flowop.name.clone())),
                FlowopKind::SemaphoreBlock => drop(self.semaphores.insert(flowop.name.clone())),
                _ => {}
            }
        }
    }
}

/// Replaces each target by the full name of its flowop and gives what is odd. `spans`: where targets are written, by the
/// place of their flowop.
pub(super) fn resolve(processes: &mut [Process], spans: &HashMap<Span, Span>) -> Result<Vec<(Span, String)>> {
    let mut everywhere = Names::default();
    for thread in processes.iter().flat_map(|process| &process.threads) {
        everywhere.add(&thread.flowops);
    }
    let mut remarks = Vec::new();
    for thread in processes.iter_mut().flat_map(|process| &mut process.threads) {
        let mut here = Names::default();
        here.add(&thread.flowops);
        let mut search = Search { here: &here, everywhere: &everywhere, spans, remarks: &mut remarks };
        search.flowops(&mut thread.flowops)?;
    }
    Ok(remarks)
}

struct Search<'a> {
    here: &'a Names,
    everywhere: &'a Names,
    spans: &'a HashMap<Span, Span>,
    remarks: &'a mut Vec<(Span, String)>,
}

impl Search<'_> {
    fn flowops(&mut self, flowops: &mut [Flowop]) -> Result<()> {
        for flowop in flowops {
            if let FlowopKind::Composite(inner) = &mut flowop.kind {
                self.flowops(inner)?;
            } else if let Some(target) = &flowop.target {
                flowop.target = Some(self.target(flowop, target)?);
            }
        }
        Ok(())
    }

    fn target(&mut self, flowop: &Flowop, target: &str) -> Result<String> {
        let span = self.spans.get(&flowop.span).unwrap_or(&flowop.span);
        let waits_elsewhere = matches!(flowop.kind, FlowopKind::WakeUp | FlowopKind::SemaphorePost);
        let (names, place) =
            if waits_elsewhere { (self.everywhere, "in any thread") } else { (self.here, "in its thread") };
        // Within a composite flowop its own flowops come first, then those around it.
        let mut prefix = flowop.name.as_str();
        let found = loop {
            match prefix.rsplit_once('.') {
                Some((outer, _)) if names.all.contains(&format!("{outer}.{target}")) => {
                    break Some(format!("{outer}.{target}"));
                }
                Some((outer, _)) => prefix = outer,
                None => break names.all.contains(target).then(|| target.to_owned()),
            }
        };
        let Some(found) = found else {
            let mut known: Vec<&str> = names.all.iter().map(String::as_str).collect();
            known.sort_unstable();
            let remedy = match self.everywhere.all.contains(target) {
                true => "it is in another thread: that thread counts its numbers".to_owned(),
                false => suggest(target, known, "names of flowops"),
            };
            return Err(Fault::new(span, Problem::UnknownTarget(clip(target), place), remedy));
        };
        let fits = match flowop.kind {
            FlowopKind::WakeUp => names.blocks.contains(&found),
            FlowopKind::SemaphorePost => names.semaphores.contains(&found),
            _ => true,
        };
        if !fits {
            let needed = if matches!(flowop.kind, FlowopKind::WakeUp) { "block" } else { "semblock" };
            self.remarks.push((span.clone(), format!("{found} is not a {needed}: nothing waits there")));
        }
        Ok(found)
    }
}
