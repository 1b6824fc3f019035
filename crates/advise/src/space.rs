//! The stacks that combinations of levels make.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nestor_results::WrittenStack;
use nestor_stack::{Stack, StackError};
use nestor_statistics::design::{GivenRun, MOST_COMBINATIONS, NoDesign, combinations};

use crate::factors::{Factor, FactorName, HeldFixed};

/// All stacks that may be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    factors: Vec<Factor>,
    /// Factors that are in none of the stacks.
    unused: BTreeSet<FactorName>,
    /// Factors that no option can vary.
    settled: BTreeSet<FactorName>,
    /// Canonical stacks and their levels; what does not fit together is not among them.
    stacks: BTreeMap<WrittenStack, Vec<usize>>,
}

/// Why there is nothing to choose from.
#[derive(Clone, Debug, PartialEq)]
pub enum SpaceError {
    /// A level is in no stack that fits together; the message of the first that does not.
    Stack(Box<StackError>),
    /// A list of levels has none, or its braces do not end.
    Levels(String),
    /// More than can be looked through.
    TooMany,
}

impl fmt::Display for SpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stack(error) => error.fmt(f),
            Self::Levels(message) => f.write_str(message),
            Self::TooMany => write!(
                f,
                "these levels make more than {MOST_COMBINATIONS} stacks\n  leave out some levels, or ask for one guest \
                 at a time"
            ),
        }
    }
}

impl std::error::Error for SpaceError {}

impl Space {
    /// The stacks that `build` makes of the combinations of levels, which come as positions in `factors`; `None` for one that says the same
    /// as another.
    ///
    /// # Errors
    /// What is wrong with a level, or that there are too many.
    pub(crate) fn of(
        factors: Vec<Factor>,
        build: impl Fn(&[usize]) -> Result<Option<Stack>, StackError>,
    ) -> Result<Self, SpaceError> {
        let mut space =
            Self { factors, unused: BTreeSet::new(), settled: BTreeSet::new(), stacks: BTreeMap::new() };
        let all =
            combinations(&space.level_counts(), &|_| true).map_err(|_: NoDesign| SpaceError::TooMany)?;
        let mut first_error = BTreeMap::new();
        for levels in all {
            match build(&levels) {
                Ok(Some(stack)) => {
                    space.stacks.entry(stack.into()).or_insert(levels);
                }
                Ok(None) => {}
                Err(error) => {
                    for (factor, level) in levels.iter().enumerate() {
                        first_error.entry((factor, *level)).or_insert_with(|| error.clone());
                    }
                }
            }
        }
        space.refuse_levels_without_stack(&first_error)?;
        space.drop_unused_levels();
        Ok(space)
    }

    /// The same, of whose stacks none has these factors.
    #[must_use]
    pub(crate) fn without(mut self, unused: impl IntoIterator<Item = FactorName>) -> Self {
        self.unused.extend(unused);
        self
    }

    /// The same, of which no option can vary these factors.
    #[must_use]
    pub(crate) fn with_settled(mut self, settled: impl IntoIterator<Item = FactorName>) -> Self {
        self.settled.extend(settled);
        self
    }

    /// A level that every stack without the factor has stands for nothing.
    fn drop_unused_levels(&mut self) {
        for (index, factor) in self.factors.iter_mut().enumerate() {
            let used: BTreeSet<usize> = self.stacks.values().map(|levels| levels[index]).collect();
            let numbers: BTreeMap<usize, usize> = used.iter().copied().zip(0..).collect();
            factor.levels = used.iter().map(|level| factor.levels[*level].clone()).collect();
            for levels in self.stacks.values_mut() {
                levels[index] = numbers[&levels[index]];
            }
        }
    }

    /// A level that is in no stack is a mistake in the question.
    fn refuse_levels_without_stack(
        &self,
        errors: &BTreeMap<(usize, usize), StackError>,
    ) -> Result<(), SpaceError> {
        for (factor, levels) in self.factors.iter().enumerate() {
            for level in 0..levels.levels.len() {
                let used = self.stacks.values().any(|combination| combination[factor] == level);
                if let (false, Some(error)) = (used, errors.get(&(factor, level))) {
                    return Err(SpaceError::Stack(Box::new(error.clone())));
                }
            }
        }
        Ok(())
    }

    /// The factors with their levels.
    pub fn factors(&self) -> &[Factor] {
        &self.factors
    }

    /// The levels of a factor; none of one that these stacks do not have.
    pub fn levels(&self, name: FactorName) -> &[String] {
        let found = self.factors.iter().find(|factor| factor.name == name);
        found.map_or(&[], |factor| factor.levels.as_slice())
    }

    /// How many levels each factor has.
    pub fn level_counts(&self) -> Vec<usize> {
        self.factors.iter().map(|factor| factor.levels.len()).collect()
    }

    /// What all stacks have in common, and the option that would vary each.
    pub fn held_fixed(&self) -> Vec<HeldFixed> {
        let fixed = |factor: &&Factor| factor.levels.len() == 1 && !self.unused.contains(&factor.name);
        self.factors
            .iter()
            .filter(fixed)
            .map(|factor| HeldFixed {
                factor: factor.name,
                level: factor.levels[0].clone(),
                option: (!self.settled.contains(&factor.name)).then(|| factor.name.option()),
            })
            .collect()
    }

    /// All stacks.
    pub fn stacks(&self) -> impl Iterator<Item = &WrittenStack> {
        self.stacks.keys()
    }

    /// The combinations that make a stack.
    pub fn possible(&self) -> Vec<Vec<usize>> {
        self.stacks.values().cloned().collect()
    }

    /// The stack of a combination.
    pub fn stack(&self, levels: &[usize]) -> Option<&WrittenStack> {
        self.stacks.iter().find(|(_, known)| *known == levels).map(|(stack, _)| stack)
    }

    /// The levels of a stack; `None` if it is not one of these.
    pub fn levels_of(&self, stack: &WrittenStack) -> Option<&[usize]> {
        self.stacks.get(stack).map(Vec::as_slice)
    }

    /// The stack of the first level of each factor, or the first of all if that does not fit together.
    pub fn default_stack(&self) -> &WrittenStack {
        let first = vec![0; self.factors.len()];
        self.stack(&first).or_else(|| self.stacks.keys().next()).expect("a space has a stack")
    }

    /// What was measured before, as a design takes it: runs of stacks that are among these.
    pub fn given<'a>(&self, runs: impl IntoIterator<Item = (&'a WrittenStack, &'a str)>) -> Vec<GivenRun> {
        let mut blocks: Vec<&str> = Vec::new();
        let mut given = Vec::new();
        for (stack, block) in runs {
            let Some(levels) = self.levels_of(stack) else { continue };
            let number = blocks.iter().position(|known| *known == block).unwrap_or_else(|| {
                blocks.push(block);
                blocks.len() - 1
            });
            given.push(GivenRun { levels: levels.to_vec(), block: number });
        }
        given
    }
}
