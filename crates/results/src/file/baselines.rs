//! The baselines of a study: which stack each is compared with, and which run at both ends of each block.

use std::collections::BTreeSet;

use nestor_stack::Stack;
use nestor_text::nearest;
use nestor_text::units::listed;

use super::{Reader, Value};
use crate::complaint::{Complaint, Complaints};
use crate::{Study, WrittenStack, written_stacks};

/// What makes a stack its baseline.
type BaselineRule = fn(&Stack) -> Stack;

/// What the stacks of a study are compared with.
pub(super) enum Baseline<'a> {
    /// One for all, with where it is written.
    One(&'a Value<'a>, WrittenStack),
    /// For each its own.
    Rule(BaselineRule),
}

/// Gives each stack the baseline that the rule makes of it, and adds that where it is missing.
fn set_by_rule(study: &mut Study, rule: BaselineRule) {
    for stack in study.stacks.clone() {
        let baseline = stack.value().map_or_else(|| stack.clone(), |stack| rule(stack).into());
        if !study.stacks.contains(&baseline) {
            study.stacks.push(baseline.clone());
        }
        study.baselines.insert(baseline.clone(), baseline.clone());
        study.baselines.insert(stack, baseline);
    }
}

impl<'a> Reader<'a> {
    pub(super) fn set_baselines(&self, study: &mut Study) -> Result<(), Complaint> {
        self.set_baselines_of_all(study)?;
        self.set_baselines_of_parts(study)
    }

    /// What the stacks are compared with, as far as it can be told without them.
    pub(super) fn baseline(&self) -> Result<Baseline<'a>, Complaint> {
        match (self.value("baseline"), self.value("baselines")) {
            (Some(_), Some(rule)) => Err(self
                .source
                .complain(rule.span(), "the study has both `baseline` and `baselines`")
                .help("`baseline` names one stack for all; `baselines` is a rule; keep one of them")),
            (Some(value), None) => Ok(Baseline::One(value, self.one_stack(value)?)),
            (None, Some(value)) => Ok(Baseline::Rule(self.baseline_rule(value)?)),
            (None, None) => {
                let what = "the stack that the others are compared with (or write baselines = \"raw-disk\")";
                let value = self.needed("baseline", what)?;
                Ok(Baseline::One(value, self.one_stack(value)?))
            }
        }
    }

    fn set_baselines_of_all(&self, study: &mut Study) -> Result<(), Complaint> {
        match self.baseline()? {
            Baseline::One(value, baseline) => {
                self.require_among(value, &baseline, &study.stacks)?;
                study.baselines = study.stacks.iter().map(|s| (s.clone(), baseline.clone())).collect();
            }
            Baseline::Rule(rule) => set_by_rule(study, rule),
        }
        Ok(())
    }

    /// The one baseline that is written.
    fn one_stack(&self, value: &'a Value<'a>) -> Result<WrittenStack, Complaint> {
        let written = self.text(value)?;
        let found = self.understood(value, written_stacks(written))?;
        let [baseline] = found.as_slice() else {
            let message = format!("the baseline expands to {} stacks; only one is allowed", found.len());
            return Err(self
                .source
                .complain(value.span(), message)
                .help("baselines = \"raw-disk\" gives each stack its own"));
        };
        Ok(baseline.clone())
    }

    /// Refuses a baseline that is not among these stacks.
    fn require_among(
        &self,
        value: &'a Value<'a>,
        baseline: &WrittenStack,
        stacks: &[WrittenStack],
    ) -> Result<(), Complaint> {
        if !stacks.contains(baseline) {
            let names: Vec<&str> = stacks.iter().map(WrittenStack::as_str).collect();
            let near = nearest(baseline, names.iter().copied()).unwrap_or(names[0]);
            let complaint = self.source.complain(value.span(), "the baseline is not among the stacks");
            return Err(
                complaint.help(format!("add {baseline} to `stacks`, or use one of them, for example {near}"))
            );
        }
        Ok(())
    }

    /// Baselines that parts have for themselves. Their stacks are in no other part, because each stack has one baseline.
    fn set_baselines_of_parts(&self, study: &mut Study) -> Result<(), Complaint> {
        let tables = self.value("also").and_then(|value| value.get_ref().as_array()).into_iter().flatten();
        // The first part is the study's own.
        for (at, table) in (1..).zip(tables) {
            let Some(value) = table.get_ref().as_table().and_then(|table| table.get("baseline")) else {
                continue;
            };
            let part = &study.parts[at];
            let baseline = self.one_stack(value)?;
            self.require_among(value, &baseline, &part.stacks)?;
            let is_elsewhere = |stack: &&WrittenStack| {
                study.parts.iter().enumerate().any(|(other, p)| other != at && p.stacks.contains(stack))
            };
            if let Some(stack) = part.stacks.iter().find(is_elsewhere) {
                let message = format!("{stack} is in another part as well, where it has another baseline");
                return Err(self.source.complain(value.span(), message).help(
                    "a stack has one baseline in all parts; omit this one, or give the stacks of the part another option",
                ));
            }
            let own: Vec<_> = part.stacks.iter().map(|s| (s.clone(), baseline.clone())).collect();
            study.baselines.extend(own);
        }
        Ok(())
    }

    fn baseline_rule(&self, value: &'a Value<'a>) -> Result<BaselineRule, Complaint> {
        match self.text(value)? {
            "raw-disk" => Ok(Stack::on_raw_disk),
            "native" => Ok(Stack::native),
            rule => Err(self
                .source
                .complain(value.span(), format!("`{rule}` is not a rule for baselines"))
                .help(
                    "the rules are \"raw-disk\": the same guest directly on the medium, and \"native\": its file system \
                     there without a virtual machine\n\
                     to name one stack for all, write baseline = \"STACK\"",
                )),
        }
    }

    /// `true`, `false`, or the baselines that run at both ends of each block.
    pub(super) fn set_sentinels(&self, study: &mut Study, wrong: &mut Complaints) -> Option<()> {
        study.sentinels = None;
        let value = self.value("sentinels")?;
        if value.get_ref().as_array().is_none() {
            study.sentinels = wrong.take(self.truth(value));
            return Some(());
        }
        let named = self.expanded("sentinels", "a list of baselines", written_stacks, wrong)?;
        if let Some(other) = named.iter().find(|s| !study.baselines.contains_key(*s) || !study.is_baseline(s))
        {
            let baselines: BTreeSet<&str> = study.baselines.values().map(WrittenStack::as_str).collect();
            let complaint =
                self.source.complain(value.span(), format!("{other} is not a baseline of this study"));
            return wrong.take(Err(complaint.help(format!("its baselines are {}", listed(baselines)))));
        }
        study.sentinels = Some(true);
        study.sentinel_stacks = named.into_iter().collect();
        Some(())
    }
}
