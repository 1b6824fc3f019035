//! Where each thread of a run waits at each of its flowops that others wake.

use std::collections::BTreeMap;
use std::sync::Arc;

use nestor_wml::FlowopKind;

use crate::program::{Program, ThreadPlan};
use crate::signals::{WaitingPoint, WaitingPoints};

/// All waiting points of a run.
pub(crate) struct Points {
    pub(crate) by_name: WaitingPoints,
    /// By plan and instance: one place for each step.
    by_thread: BTreeMap<(usize, u64), Vec<Option<Arc<WaitingPoint>>>>,
}

impl Points {
    pub(crate) fn new(program: &Program<'_>) -> Self {
        let mut points = Self { by_name: BTreeMap::new(), by_thread: BTreeMap::new() };
        for plan in &program.threads {
            for instance in 0..plan.instances() {
                points.by_thread.insert((plan.number, instance), vec![None; plan.step_count]);
            }
        }
        program.each(&mut |plan, step| {
            let kind = &step.flowop.kind;
            if !matches!(kind, FlowopKind::Block | FlowopKind::SemaphoreBlock) {
                return;
            }
            let room = if *kind == FlowopKind::SemaphoreBlock { step.flowop.high_water } else { 0 };
            for instance in 0..plan.instances() {
                let point = Arc::new(WaitingPoint::with_room(room));
                points.by_name.entry(step.flowop.name.clone()).or_default().push(Arc::clone(&point));
                points.by_thread.get_mut(&(plan.number, instance)).expect("made above")[step.number] =
                    Some(point);
            }
        });
        points
    }

    /// Those of one thread, by step.
    pub(crate) fn of(&self, plan: &ThreadPlan<'_>, instance: u64) -> Vec<Option<Arc<WaitingPoint>>> {
        self.by_thread[&(plan.number, instance)].clone()
    }
}
