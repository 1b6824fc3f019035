//! What variables stand for.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use nestor_text::nearest;

use super::{Resolver, Result};
use crate::Span;
use crate::arithmetic::{Operator, Scalar, calculate};
use crate::error::{Fault, Problem};
use crate::syntax::{Expression, ItemKind, RandomSyntax};
use crate::token::{Part, VariableForm, VariableName, clip};

/// Levels of variables that stand for variables.
const DEEPEST: usize = 64;

/// Longest text that is put together.
const LONGEST_TEXT_BYTES: usize = 1 << 16;

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Binding {
    Scalar(Scalar),
    Random(Rc<RandomDefinition>),
    /// A calculation with variables that had no value yet (1.4 calculates when the value is used).
    Later(Rc<Expression>),
}

/// A random variable as it was defined, and how that was changed later.
#[derive(Debug)]
pub(crate) struct RandomDefinition {
    pub(crate) name: String,
    pub(crate) syntax: Rc<RandomSyntax>,
    pub(crate) scope: Scope,
    /// `set $name.mean=…`; the last of a name counts.
    pub(crate) changes: Vec<(&'static str, Rc<Expression>)>,
}

/// Variables that are known only here: of a loop or a composite flowop.
pub(crate) type Scope = Option<Rc<HashMap<String, Binding>>>;

/// Variables that are known everywhere.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    pub(crate) values: HashMap<String, Binding>,
    /// Those that the command line sets.
    pub(crate) fixed: HashSet<String>,
}

/// What an expression is.
#[derive(Clone, Debug)]
pub(crate) enum Evaluated {
    Scalar(Scalar),
    Random(Rc<RandomDefinition>),
}

impl Resolver<'_> {
    /// What an expression is now.
    pub(super) fn evaluate(&mut self, expression: &Expression, scope: &Scope) -> Result<Evaluated> {
        self.depth += 1;
        if self.depth > DEEPEST {
            let remedy = "a variable can refer to itself here";
            return Err(Fault::new(&expression.span, Problem::TooDeep("variables"), remedy));
        }
        let result = self.evaluate_items(expression, scope);
        self.depth -= 1;
        result
    }

    fn evaluate_items(&mut self, expression: &Expression, scope: &Scope) -> Result<Evaluated> {
        if let [item] = &expression.items[..]
            && let ItemKind::Variable(variable) = &item.kind
        {
            return self.variable(variable, &item.span, scope);
        }
        let mut stack: Vec<Scalar> = Vec::new();
        for item in &expression.items {
            let value = match &item.kind {
                ItemKind::Scalar(value) => value.clone(),
                ItemKind::Quoted(parts) => Scalar::Text(self.interpolate(parts, &item.span, scope)?),
                ItemKind::Variable(variable) => match self.variable(variable, &item.span, scope)? {
                    Evaluated::Scalar(value) => value,
                    Evaluated::Random(random) => {
                        let problem =
                            format!("the random variable ${} cannot be used in a calculation", random.name);
                        let remedy = "put the calculation into its attributes";
                        return Err(Fault::misfit(&item.span, problem, remedy));
                    }
                },
                ItemKind::Negate => match stack.pop() {
                    Some(Scalar::Text(text)) if Scalar::Text(text.clone()).as_number().is_none() => {
                        Scalar::Text(format!("-{text}"))
                    }
                    operand => {
                        let operand = operand.unwrap_or(Scalar::Integer(0));
                        arithmetic(&Scalar::Integer(0), Operator::Subtract, &operand, &item.span)?
                    }
                },
                ItemKind::Join => {
                    let (left, right) = pop(&mut stack);
                    self.join(&format!("{left}{right}"), &item.span)?
                }
                ItemKind::Binary { operator, tight } => {
                    let (left, right) = pop(&mut stack);
                    let are_numbers = left.as_number().is_some() && right.as_number().is_some();
                    match operator {
                        Operator::Divide | Operator::Subtract if *tight && !are_numbers => {
                            self.join(&format!("{left}{}{right}", operator.sign()), &item.span)?
                        }
                        _ => arithmetic(&left, *operator, &right, &item.span)?,
                    }
                }
            };
            stack.push(value);
        }
        Ok(Evaluated::Scalar(stack.pop().unwrap_or(Scalar::Integer(0))))
    }

    fn join(&self, text: &str, span: &Span) -> Result<Scalar> {
        if text.len() > LONGEST_TEXT_BYTES {
            return Err(Fault::new(
                span,
                Problem::TooMuch,
                format!("a text has at most {LONGEST_TEXT_BYTES} bytes"),
            ));
        }
        Ok(Scalar::Text(text.to_owned()))
    }

    fn variable(&mut self, variable: &VariableName, span: &Span, scope: &Scope) -> Result<Evaluated> {
        if let Some(value) = self.special(variable, span) {
            return Ok(Evaluated::Scalar(Scalar::Text(value)));
        }
        let local = scope.as_ref().and_then(|scope| scope.get(&variable.name));
        let binding = local.or_else(|| self.variables.values.get(&variable.name)).cloned();
        match (binding, variable.attribute) {
            (Some(Binding::Random(random)), Some(attribute)) => {
                self.random_attribute(&random, attribute, span)
            }
            (Some(Binding::Random(random)), None) => Ok(Evaluated::Random(random)),
            (Some(Binding::Scalar(value)), None) => Ok(Evaluated::Scalar(value)),
            (Some(Binding::Scalar(value)), Some(attribute)) => {
                let text = format!("{value}.{attribute}");
                Ok(Evaluated::Scalar(self.join(&text, span)?))
            }
            (Some(Binding::Later(expression)), _) => {
                let value = self.evaluate(&expression, &None)?;
                if let Evaluated::Scalar(value) = &value {
                    self.variables.values.insert(variable.name.clone(), Binding::Scalar(value.clone()));
                }
                Ok(value)
            }
            (None, _) => Err(self.unknown_variable(variable, span, scope)),
        }
    }

    fn unknown_variable(&self, variable: &VariableName, span: &Span, scope: &Scope) -> Box<Fault> {
        let locals = scope.iter().flat_map(|scope| scope.keys());
        let mut names: Vec<&str> = locals.chain(self.variables.values.keys()).map(String::as_str).collect();
        names.sort_unstable();
        let name = clip(&variable.name);
        let near = nearest(&variable.name, names);
        let remedy = match near {
            Some(near) => format!("did you mean ${near}?"),
            None => format!("give it one: set ${name}=… before this, or --set {name}=… on the command line"),
        };
        let problem = Problem::UnknownVariable { name: format!("${name}"), is_misspelt: near.is_some() };
        Fault::new(span, problem, remedy)
    }

    /// `$(NAME)` and `${name}`, unless the script sets a variable of that name.
    fn special(&mut self, variable: &VariableName, span: &Span) -> Option<String> {
        if variable.form == VariableForm::Plain || self.variables.values.contains_key(&variable.name) {
            return None;
        }
        let is_script = variable.form == VariableForm::Internal && variable.name == "script";
        let found = match is_script {
            true => Some(self.script_name.clone()),
            false => self.environment.and_then(|environment| environment(&variable.name)),
        };
        if found.is_none() {
            let name = clip(&variable.name);
            self.warn(
                span,
                format!("{name} is not known, so it is empty text; --set {name}=… gives it a value"),
            );
        }
        Some(found.unwrap_or_default())
    }

    /// Puts the values of variables into a text. One without a value stays as it is written.
    pub(super) fn interpolate(&mut self, parts: &[Part], span: &Span, scope: &Scope) -> Result<String> {
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Variable(variable, written) => {
                    let local = scope.as_ref().is_some_and(|scope| scope.contains_key(&variable.name));
                    let known = local || self.variables.values.contains_key(&variable.name);
                    if variable.form == VariableForm::Plain && !known {
                        text.push_str(written);
                        continue;
                    }
                    match self.variable(variable, span, scope)? {
                        Evaluated::Scalar(value) => text.push_str(&value.to_string()),
                        Evaluated::Random(random) => {
                            let kind = if random.syntax.custom { "cvar" } else { "randvar" };
                            text.push_str(&format!("{kind} ${}", random.name));
                        }
                    }
                }
            }
            if text.len() > LONGEST_TEXT_BYTES {
                let remedy = format!("a text has at most {LONGEST_TEXT_BYTES} bytes");
                return Err(Fault::new(span, Problem::TooMuch, remedy));
            }
        }
        Ok(text)
    }

    /// Gives a variable its value, unless the command line does.
    pub(super) fn assign(&mut self, name: &str, value: &Expression, scope: &Scope) -> Result<()> {
        if self.variables.fixed.contains(name) {
            return Ok(());
        }
        let binding = match self.evaluate(value, scope) {
            Ok(Evaluated::Scalar(value)) => Binding::Scalar(value),
            Ok(Evaluated::Random(random)) => Binding::Random(random),
            Err(fault) => {
                let is_calculation =
                    value.items.iter().any(|item| matches!(item.kind, ItemKind::Binary { .. }));
                let is_unknown = matches!(fault.problem, Problem::UnknownVariable { .. });
                if !is_calculation || !is_unknown || scope.is_some() {
                    return Err(fault);
                }
                self.depth = 0;
                self.open_randoms.clear();
                Binding::Later(Rc::new(value.clone()))
            }
        };
        self.variables.values.insert(name.to_owned(), binding);
        Ok(())
    }
}

fn pop(stack: &mut Vec<Scalar>) -> (Scalar, Scalar) {
    let right = stack.pop().unwrap_or(Scalar::Integer(0));
    let left = stack.pop().unwrap_or(Scalar::Integer(0));
    (left, right)
}

fn arithmetic(left: &Scalar, operator: Operator, right: &Scalar, span: &Span) -> Result<Scalar> {
    calculate(left, operator, right).map_err(|problem| {
        Fault::new(
            span,
            Problem::Arithmetic(problem),
            "calculations use whole numbers of up to 63 bits, or fractions",
        )
    })
}
