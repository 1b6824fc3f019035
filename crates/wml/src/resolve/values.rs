//! Values of attributes: numbers, truth values, texts.

use std::rc::Rc;
use std::sync::Arc;

use super::limits::mean;
use super::variables::{Evaluated, RandomDefinition, Scope};
use super::{Resolver, Result};
use crate::arithmetic::Scalar;
use crate::error::{Fault, Problem};
use crate::limits::LARGEST_FD;
use crate::plan::{RandomVariable, Value};
use crate::syntax::{Attribute, Expression, attribute};
use crate::token::clip;

/// What a number may be.
const COUNT: &str = "write a number of 0 or more, such as 1000 or 16k, or a variable with such a value";

/// The attributes of something, and where their variables are looked up.
pub(super) struct Attributes<'a> {
    pub(super) all: &'a [Attribute],
    pub(super) scope: &'a Scope,
}

impl<'a> Attributes<'a> {
    fn get(&self, name: &str) -> Option<&'a Attribute> {
        attribute(self.all, name)
    }
}

fn quoted(value: &Scalar) -> String {
    match value {
        Scalar::Text(text) => format!("{:?}", clip(text)),
        value => value.to_string(),
    }
}

fn no_value(attribute: &Attribute) -> Box<Fault> {
    Fault::value(&attribute.span, attribute.name, "without a value", format!("write {}=…", attribute.name))
}

impl Resolver<'_> {
    /// What the attribute is, if it is there. `None` within: it stands without a value.
    fn attribute_value(
        &mut self,
        attributes: &Attributes<'_>,
        name: &str,
    ) -> Result<Option<Option<Evaluated>>> {
        let Some(attribute) = attributes.get(name) else { return Ok(None) };
        match &attribute.value {
            Some(expression) => self.evaluate(expression, attributes.scope).map(|value| Some(Some(value))),
            None => Ok(Some(None)),
        }
    }

    /// A number that does not change; of a random variable, its mean.
    fn fixed(&mut self, attributes: &Attributes<'_>, name: &str) -> Result<Option<(Scalar, &'static str)>> {
        let Some(attribute) = attributes.get(name) else { return Ok(None) };
        match self.attribute_value(attributes, name)? {
            Some(Some(Evaluated::Scalar(value))) => Ok(Some((value, attribute.name))),
            Some(Some(Evaluated::Random(random))) => {
                let random = self.random_variable(&random)?;
                let mean = random.mean();
                let text = format!("{name} is constant: it is {mean}, the mean of {}", random.name);
                self.warn(&attribute.span, text);
                Ok(Some((Scalar::Double(mean), attribute.name)))
            }
            _ => Err(no_value(attribute)),
        }
    }

    /// A number of 0 or more that does not change.
    pub(super) fn count(&mut self, attributes: &Attributes<'_>, name: &str) -> Result<Option<u64>> {
        let Some((value, what)) = self.fixed(attributes, name)? else { return Ok(None) };
        match value.as_count() {
            Some(count) => Ok(Some(count)),
            None => Err(self.misfit(attributes, what, &value, COUNT)),
        }
    }

    /// A number that does not change, from 0 to `most`.
    pub(super) fn count_to(
        &mut self,
        attributes: &Attributes<'_>,
        name: &str,
        most: u64,
    ) -> Result<Option<u64>> {
        let Some(count) = self.count(attributes, name)? else { return Ok(None) };
        if count > most {
            let value = Scalar::Text(count.to_string());
            return Err(self.too_large(attributes, name, &value, most));
        }
        Ok(Some(count))
    }

    fn too_large(&self, attributes: &Attributes<'_>, name: &str, value: &Scalar, most: u64) -> Box<Fault> {
        let span = attributes.get(name).map_or(0..0, |attribute| attribute.span.clone());
        Fault::value(&span, name, value, format!("write a number from 0 to {most}"))
    }

    /// A descriptor.
    pub(super) fn descriptor(&mut self, attributes: &Attributes<'_>, name: &str) -> Result<Option<u32>> {
        let count = self.count_to(attributes, name, u64::from(LARGEST_FD))?;
        Ok(count.and_then(|count| u32::try_from(count).ok()))
    }

    /// Any number that does not change.
    pub(super) fn double(&mut self, attributes: &Attributes<'_>, name: &str) -> Result<Option<f64>> {
        let Some((value, what)) = self.fixed(attributes, name)? else { return Ok(None) };
        match value.as_double() {
            Some(number) => Ok(Some(number)),
            None => Err(self.misfit(attributes, what, &value, "it is a number")),
        }
    }

    /// The attribute has a value that does not fit.
    pub(super) fn misfit(
        &self,
        attributes: &Attributes<'_>,
        name: &str,
        value: &Scalar,
        remedy: &str,
    ) -> Box<Fault> {
        let span = attributes.get(name).map_or(0..0, |attribute| attribute.span.clone());
        Fault::value(&span, name, quoted(value), remedy)
    }

    /// A number that may be drawn.
    pub(super) fn value(&mut self, attributes: &Attributes<'_>, name: &str) -> Result<Option<Value>> {
        let Some(attribute) = attributes.get(name) else { return Ok(None) };
        match self.attribute_value(attributes, name)? {
            Some(Some(Evaluated::Random(random))) => Ok(Some(Value::Drawn(self.random_variable(&random)?))),
            Some(Some(Evaluated::Scalar(value))) => match value.as_count() {
                Some(count) => Ok(Some(Value::Fixed(count))),
                None => Err(self.misfit(attributes, name, &value, COUNT)),
            },
            _ => Err(no_value(attribute)),
        }
    }

    /// A number that may be drawn, from 0 to `most`; a drawn one by its mean.
    pub(super) fn value_to(
        &mut self,
        attributes: &Attributes<'_>,
        name: &str,
        most: u64,
    ) -> Result<Option<Value>> {
        let value = self.value(attributes, name)?;
        match value.as_ref().map(mean) {
            Some(mean) if mean > most as f64 => {
                let exact = match value {
                    Some(Value::Fixed(count)) => Scalar::Text(count.to_string()),
                    _ => Scalar::Double(mean),
                };
                Err(self.too_large(attributes, name, &exact, most))
            }
            _ => Ok(value),
        }
    }

    /// A random variable.
    pub(super) fn random(
        &mut self,
        attributes: &Attributes<'_>,
        name: &str,
    ) -> Result<Option<Arc<RandomVariable>>> {
        let Some(attribute) = attributes.get(name) else { return Ok(None) };
        match self.attribute_value(attributes, name)? {
            Some(Some(Evaluated::Random(random))) => Ok(Some(self.random_variable(&random)?)),
            Some(Some(Evaluated::Scalar(value))) => {
                let remedy =
                    "use a random variable: set $depth=cvar(type=cvar-gamma,parameters=mean:4;gamma:1.5)";
                Err(self.misfit(attributes, name, &value, remedy))
            }
            _ => Err(no_value(attribute)),
        }
    }

    /// Whether something is so; the attribute alone says yes.
    pub(super) fn truth(&mut self, attributes: &Attributes<'_>, name: &str) -> Result<Option<bool>> {
        let value = match self.attribute_value(attributes, name) {
            // Filebench takes a variable without a value for false, and scripts of the 1.4 dialect count on it.
            Err(fault) if matches!(fault.problem, Problem::UnknownVariable { is_misspelt: false, .. }) => {
                self.depth = 0;
                self.warn(&fault.span, format!("{}: it counts as false", fault.problem));
                return Ok(Some(false));
            }
            value => value?,
        };
        let Some(value) = value else { return Ok(None) };
        match value {
            None => Ok(Some(true)),
            Some(Evaluated::Scalar(value)) => match value.as_truth() {
                Some(truth) => Ok(Some(truth)),
                None => Err(self.misfit(attributes, name, &value, "write true or false")),
            },
            Some(Evaluated::Random(random)) => {
                let value = Scalar::Text(format!("${}", random.name));
                Err(self.misfit(attributes, name, &value, "write true or false"))
            }
        }
    }

    /// Whether something is so, and not if it is not said.
    pub(super) fn flag(&mut self, attributes: &Attributes<'_>, name: &str) -> Result<bool> {
        Ok(self.truth(attributes, name)?.unwrap_or(false))
    }

    /// Per cent: the attribute alone, or `true`, is 100.
    pub(super) fn percent(&mut self, attributes: &Attributes<'_>, name: &str) -> Result<Option<f64>> {
        let percent = match self.attribute_value(attributes, name)? {
            None => return Ok(None),
            Some(None | Some(Evaluated::Scalar(Scalar::Boolean(true)))) => 100.0,
            Some(Some(Evaluated::Scalar(Scalar::Boolean(false)))) => 0.0,
            Some(Some(_)) => self.double(attributes, name)?.unwrap_or(0.0),
        };
        if !(0.0..=100.0).contains(&percent) {
            return Err(self.misfit(
                attributes,
                name,
                &Scalar::Double(percent),
                "write a percentage from 0 to 100",
            ));
        }
        Ok(Some(percent))
    }

    /// A text.
    pub(super) fn text(&mut self, attributes: &Attributes<'_>, name: &str) -> Result<Option<String>> {
        let Some(attribute) = attributes.get(name) else { return Ok(None) };
        let text = match self.attribute_value(attributes, name)? {
            Some(Some(Evaluated::Scalar(value))) => value.to_string(),
            Some(Some(Evaluated::Random(random))) => {
                let value = format!("the random variable ${}", random.name);
                return Err(Fault::value(&attribute.span, name, value, "it is a text"));
            }
            _ => return Err(no_value(attribute)),
        };
        if text.is_empty() {
            return Err(Fault::value(&attribute.span, name, "empty", format!("write {name}=…")));
        }
        if text.contains('\0') {
            return Err(Fault::value(&attribute.span, name, "a text with a NUL in it", "leave it out"));
        }
        Ok(Some(text))
    }

    /// A number of a command, such as seconds.
    pub(super) fn command_number(
        &mut self,
        what: &str,
        expression: &Expression,
        scope: &Scope,
    ) -> Result<f64> {
        let remedy = "write a number, or a variable with a number as its value";
        match self.evaluate(expression, scope)? {
            Evaluated::Scalar(value) => match value.as_double() {
                Some(number) => Ok(number),
                None => Err(Fault::value(&expression.span, what, quoted(&value), remedy)),
            },
            Evaluated::Random(random) => self.random_mean(what, &random, expression),
        }
    }

    fn random_mean(
        &mut self,
        what: &str,
        random: &Rc<RandomDefinition>,
        expression: &Expression,
    ) -> Result<f64> {
        let random = self.random_variable(random)?;
        let mean = random.mean();
        self.warn(&expression.span, format!("{what} is constant: it is {mean}, the mean of {}", random.name));
        Ok(mean)
    }
}
