//! Random variables.

use std::rc::Rc;
use std::sync::Arc;

use super::values::Attributes;
use super::variables::{Evaluated, RandomDefinition, Scope};
use super::{Resolver, Result};
use crate::Span;
use crate::arithmetic::{Scalar, number};
use crate::distribution::{Distribution, Segment};
use crate::error::{Fault, Problem};
use crate::plan::RandomVariable;
use crate::syntax::{Attribute, Expression, Table, attribute};
use crate::token::clip;
use crate::vocabulary::suggest;

/// Shape of a gamma distribution in thousandths where none is given (`parser_gram.y` of Filebench).
const DEFAULT_GAMMA: f64 = 1500.0;

/// Levels of random variables in each other's attributes.
const DEEPEST: usize = 32;

/// The types of `cvar` with their parameters and what these are where they are not given (`cvars/*.h` of Filebench).
const CUSTOM_TYPES: [(&str, &[(&str, f64)]); 8] = [
    ("cvar-erlang", &[("shape", 1.0), ("rate", 1.0)]),
    ("cvar-exponential", &[("mean", 1.0)]),
    ("cvar-gamma", &[("mean", 4096.0), ("gamma", 1.5)]),
    ("cvar-lognormal", &[("shape", 1.0), ("scale", 1.0)]),
    ("cvar-normal", &[("mean", 0.0), ("sigma", 1.0)]),
    ("cvar-triangular", &[("lower", 0.0), ("upper", 1.0), ("mode", 0.5)]),
    ("cvar-uniform", &[("lower", 0.0), ("upper", 1.0)]),
    ("cvar-weibull", &[("shape", 1.0), ("scale", 1.0)]),
];

impl Resolver<'_> {
    /// The random variable with the values its parameters have now.
    pub(super) fn random_variable(
        &mut self,
        definition: &Rc<RandomDefinition>,
    ) -> Result<Arc<RandomVariable>> {
        let key = Rc::as_ptr(definition);
        if let Some((_, known)) = self.randoms.get(&key) {
            return Ok(Arc::clone(known));
        }
        if self.open_randoms.len() >= DEEPEST {
            let remedy = format!("at most {DEEPEST} levels are allowed");
            return Err(Fault::new(&definition.syntax.span, Problem::TooDeep("random variables"), remedy));
        }
        if self.open_randoms.contains(&key) {
            let name = format!("the random variable ${}", definition.name);
            let remedy = "give numbers to its attributes";
            return Err(Fault::new(&definition.syntax.span, Problem::Recursion(name), remedy));
        }
        self.open_randoms.push(key);
        let mut changed: Vec<Attribute> = Vec::new();
        for (name, value) in &definition.changes {
            let (value, span) = (Some((**value).clone()), value.span.clone());
            changed.push(Attribute { name, value, span });
        }
        // The changes stand behind what was written first, so they count.
        let all: Vec<Attribute> = definition.syntax.attributes.iter().map(copy).chain(changed).collect();
        let attributes = Attributes { all: &all, scope: &definition.scope };
        let variable = match definition.syntax.custom {
            true => self.custom(definition, &attributes),
            false => self.classic(definition, &attributes),
        }?;
        self.open_randoms.pop();
        if !variable.mean().is_finite() {
            let problem =
                format!("the values of the random variable ${} have no finite mean", definition.name);
            return Err(Fault::misfit(&definition.syntax.span, problem, "give it smaller parameters"));
        }
        let variable = Arc::new(variable);
        // The definition is kept too, so that its address belongs to no other.
        self.randoms.insert(key, (Rc::clone(definition), Arc::clone(&variable)));
        Ok(variable)
    }

    /// `$name.mean` and its like.
    pub(super) fn random_attribute(
        &mut self,
        definition: &Rc<RandomDefinition>,
        name: &'static str,
        span: &Span,
    ) -> Result<Evaluated> {
        let change = definition.changes.iter().rev().find(|(changed, _)| *changed == name);
        let written =
            attribute(&definition.syntax.attributes, name).and_then(|attribute| attribute.value.as_ref());
        if let Some(value) = change.map(|(_, value)| &**value).or(written) {
            let value = value.clone();
            return self.evaluate(&value, &definition.scope);
        }
        let value = match name {
            "gamma" => Scalar::Double(DEFAULT_GAMMA),
            "mean" => Scalar::Double(self.random_variable(definition)?.mean()),
            "type" if definition.syntax.table.is_some() => Scalar::Text("tabular".to_owned()),
            "type" => Scalar::Text("gamma".to_owned()),
            "randsrc" => Scalar::Text("rand48".to_owned()),
            "seed" | "min" | "round" => Scalar::Integer(0),
            _ => return Err(Fault::misfit(span, format!("a random variable has no {name}"), "")),
        };
        Ok(Evaluated::Scalar(value))
    }

    fn classic(
        &mut self,
        definition: &RandomDefinition,
        attributes: &Attributes<'_>,
    ) -> Result<RandomVariable> {
        let span = &definition.syntax.span;
        self.warn_of_seeds(attributes.all);
        let table = definition.syntax.table.as_ref();
        let kind = self.text(attributes, "type")?;
        let min = self.double(attributes, "min")?.unwrap_or(0.0);
        let mean = self.double(attributes, "mean")?;
        let gamma = self.double(attributes, "gamma")?.unwrap_or(DEFAULT_GAMMA) / 1000.0;
        let round = self.double(attributes, "round")?.unwrap_or(0.0);
        if round < 0.0 {
            return Err(self.misfit(attributes, "round", &Scalar::Double(round), "it must be 0 or more"));
        }
        let distribution = match (kind.as_deref(), table) {
            (Some("tabular") | None, Some(table)) => self.tabular(table, &definition.scope, min, mean)?,
            (Some("tabular"), None) => {
                let remedy = "add randtable={{percent, min, max}, …}";
                return Err(missing(span, "a tabular randvar", "randtable", remedy));
            }
            (Some("uniform"), None) => {
                let remedy = "its values go from min to twice the mean less min";
                let mean = mean.ok_or_else(|| missing(span, "a uniform randvar", "mean", remedy))?;
                uniform(min, mean, span)?
            }
            // Filebench takes the shape for the mean where none is given.
            (Some("gamma") | None, None) => gamma_with_mean(gamma, mean.unwrap_or(gamma), min, span)?,
            (Some("uniform" | "gamma"), Some(table)) => {
                let remedy = "write type=tabular, or remove the table";
                return Err(Fault::misfit(&table.span, "only a tabular randvar has a randtable", remedy));
            }
            (Some(other), _) => {
                let remedy = suggest(other, ["uniform", "gamma", "tabular"], "types of randvar");
                return Err(self.misfit(attributes, "type", &Scalar::Text(other.to_owned()), &remedy));
            }
        };
        Ok(RandomVariable {
            name: format!("${}", definition.name),
            distribution,
            min: None,
            max: None,
            round,
        })
    }

    /// Warns of attributes that choose a seed.
    fn warn_of_seeds(&mut self, all: &[Attribute]) {
        for name in ["seed", "randsrc"] {
            if let Some(attribute) = attribute(all, name) {
                self.warn(
                    &attribute.span,
                    format!("{name} has no effect here: all random values come from the run's seed"),
                );
            }
        }
    }

    /// A table whose values are moved so that its smallest is `min` and its mean is `mean` (`fb_random.c` of Filebench).
    fn tabular(&mut self, table: &Table, scope: &Scope, min: f64, mean: Option<f64>) -> Result<Distribution> {
        let mut rows = Vec::new();
        let mut total = 0.0;
        for row in &table.rows {
            let mut cell = |what, at: usize| self.cell(what, &row[at], scope);
            let (percent, lower, upper) =
                (cell("the share", 0)?, cell("the smallest value", 1)?, cell("the largest value", 2)?);
            if upper < lower {
                let remedy = "a row is {percent, smallest, largest}";
                return Err(Fault::value(
                    &row[2].span,
                    "the largest value",
                    format!("{upper}, less than the smallest"),
                    remedy,
                ));
            }
            total += percent;
            rows.push((percent, lower, upper));
        }
        if (total - 100.0).abs() > 1e-9 {
            let problem = format!("the shares of this table add up to {total} %");
            return Err(Fault::misfit(&table.span, problem, "they must add up to 100 %"));
        }
        let table_mean = rows
            .iter()
            .map(|(percent, lower, upper)| percent / 100.0 * f64::midpoint(*lower, *upper))
            .sum::<f64>();
        let table_min = rows.iter().map(|(_, lower, _)| *lower).fold(f64::INFINITY, f64::min);
        let mean = mean.filter(|mean| *mean != 0.0).unwrap_or(table_mean);
        if table_mean - table_min <= 0.0 {
            return Ok(Distribution::Constant(min));
        }
        if mean < min {
            let problem = format!("the mean of this randvar, {mean}, is below its min, {min}");
            return Err(Fault::misfit(&table.span, problem, "give it a smaller min"));
        }
        let scaled = |value: f64| (value - table_min) / (table_mean - table_min) * (mean - min) + min;
        let segment = |(percent, lower, upper): &(f64, f64, f64)| Segment {
            share: percent / 100.0,
            lower: scaled(*lower),
            upper: scaled(*upper),
        };
        Ok(Distribution::Tabular(rows.iter().map(segment).collect()))
    }

    fn cell(&mut self, what: &str, expression: &Expression, scope: &Scope) -> Result<f64> {
        let value = self.command_number(what, expression, scope)?;
        if value < 0.0 {
            return Err(Fault::value(&expression.span, what, value, "it must be 0 or more"));
        }
        Ok(value)
    }

    fn custom(
        &mut self,
        definition: &RandomDefinition,
        attributes: &Attributes<'_>,
    ) -> Result<RandomVariable> {
        let Some(kind) = self.text(attributes, "type")? else {
            return Err(missing(&definition.syntax.span, "a cvar", "type", "add type=cvar-gamma"));
        };
        let Some((_, known)) = CUSTOM_TYPES.iter().find(|(name, _)| *name == kind) else {
            let remedy = suggest(&kind, CUSTOM_TYPES.map(|(name, _)| name), "types of cvar");
            return Err(self.misfit(attributes, "type", &Scalar::Text(kind), &remedy));
        };
        let mut values: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
        let at = attribute(attributes.all, "parameters")
            .map_or(definition.syntax.span.clone(), |a| a.span.clone());
        if let Some(text) = self.text(attributes, "parameters")? {
            for parameter in text.split(';').filter(|parameter| !parameter.trim().is_empty()) {
                self.parameter(parameter.trim(), known, &mut values, &at)?;
            }
        }
        let distribution = custom_distribution(&kind, &values, &at)?;
        if kind == "cvar-erlang" && values[0] > 1.0 {
            self.warn(&at, "the rate of cvar-erlang is the mean of the values, as in Filebench");
        }
        let min = self.double(attributes, "min")?.unwrap_or(0.0);
        let max = self.double(attributes, "max")?;
        let round = self.double(attributes, "round")?.unwrap_or(0.0);
        if max.is_some_and(|max| max < min) {
            let value = Scalar::Double(max.unwrap_or(0.0));
            return Err(self.misfit(
                attributes,
                "max",
                &value,
                &format!("it must be at least min, which is {min}"),
            ));
        }
        if round < 0.0 {
            return Err(self.misfit(attributes, "round", &Scalar::Double(round), "it must be 0 or more"));
        }
        Ok(RandomVariable { name: format!("${}", definition.name), distribution, min: Some(min), max, round })
    }

    fn parameter(
        &mut self,
        text: &str,
        known: &[(&str, f64)],
        values: &mut [f64],
        span: &Span,
    ) -> Result<()> {
        let Some((name, value)) = text.split_once(':') else {
            let remedy = "write parameters in the form mean:16384;gamma:1.5";
            return Err(Fault::value(span, "a parameter", format!("{:?}", clip(text)), remedy));
        };
        let (name, value) = (name.trim(), value.trim());
        let Some(index) = known.iter().position(|(known, _)| *known == name) else {
            let remedy = suggest(name, known.iter().map(|(known, _)| *known), "its parameters");
            return Err(Fault::value(span, "a parameter of this type", format!("{:?}", clip(name)), remedy));
        };
        let plain = value.parse::<f64>().ok().filter(|value| value.is_finite());
        let suffixed = number(value).and_then(std::result::Result::ok).and_then(|value| value.as_double());
        values[index] = match (plain, suffixed) {
            (Some(value), _) => value,
            (None, Some(number)) => {
                self.warn(
                    span,
                    format!("{name}:{value} means {number} here; Filebench stops reading at the letter"),
                );
                number
            }
            (None, None) => {
                return Err(Fault::value(span, name, format!("{:?}", clip(value)), "it is a number"));
            }
        };
        Ok(())
    }
}

fn missing(span: &Span, place: &str, attribute: &'static str, remedy: &str) -> Box<Fault> {
    Fault::new(span, Problem::Missing { place: place.to_owned(), attribute }, remedy)
}

fn copy(attribute: &Attribute) -> Attribute {
    Attribute { name: attribute.name, value: attribute.value.clone(), span: attribute.span.clone() }
}

/// Values from `min` to as far above the mean.
fn uniform(min: f64, mean: f64, span: &Span) -> Result<Distribution> {
    if mean < min {
        let problem = format!("the mean of this randvar, {mean}, is below its min, {min}");
        return Err(Fault::misfit(span, problem, "give it a smaller min"));
    }
    Ok(Distribution::Uniform { lower: min, upper: 2.0 * mean - min })
}

/// A gamma distribution above `min` with that mean.
pub(super) fn gamma_with_mean(shape: f64, mean: f64, min: f64, span: &Span) -> Result<Distribution> {
    if shape <= 0.0 {
        return Err(Fault::value(
            span,
            "gamma",
            shape * 1000.0,
            "it must be more than 0: 1500 for a shape of 1.5",
        ));
    }
    if mean < min {
        let problem = format!("the mean of this randvar, {mean}, is below its min, {min}");
        return Err(Fault::misfit(span, problem, "give it a larger mean or a smaller min"));
    }
    if mean == min {
        return Ok(Distribution::Constant(min));
    }
    Ok(Distribution::Gamma { shape, scale: (mean - min) / shape, offset: min })
}

fn custom_distribution(kind: &str, values: &[f64], span: &Span) -> Result<Distribution> {
    let parameters = Parameters { values, span };
    let at = |index| parameters.at(index);
    let positive = |name, index| parameters.positive(name, index);
    let not_negative = |name, index| parameters.not_negative(name, index);
    Ok(match kind {
        "cvar-erlang" => {
            Distribution::Erlang { shape: parameters.whole("shape", 0)?, mean: positive("rate", 1)? }
        }
        "cvar-exponential" => Distribution::Exponential { mean: not_negative("mean", 0)? },
        "cvar-gamma" => {
            let (mean, shape) = (not_negative("mean", 0)?, positive("gamma", 1)?);
            match mean > 0.0 {
                true => Distribution::Gamma { shape, scale: mean / shape, offset: 0.0 },
                false => Distribution::Constant(0.0),
            }
        }
        "cvar-lognormal" => {
            Distribution::LogNormal { shape: not_negative("shape", 0)?, scale: not_negative("scale", 1)? }
        }
        "cvar-normal" => Distribution::Normal { mean: at(0), sigma: not_negative("sigma", 1)? },
        "cvar-triangular" => triangular([at(0), at(1), at(2)], span)?,
        "cvar-uniform" => {
            let (lower, upper) = (at(0), at(1));
            if upper < lower {
                let remedy = format!("it must be at least lower, which is {lower}");
                return Err(Fault::value(span, "upper", upper, remedy));
            }
            Distribution::Uniform { lower, upper }
        }
        _ => Distribution::Weibull { shape: positive("shape", 0)?, scale: positive("scale", 1)? },
    })
}

/// The parameters of a `cvar`, in the order of [`CUSTOM_TYPES`].
struct Parameters<'p> {
    values: &'p [f64],
    span: &'p Span,
}

impl Parameters<'_> {
    fn at(&self, index: usize) -> f64 {
        self.values.get(index).copied().unwrap_or(0.0)
    }

    fn positive(&self, name: &str, index: usize) -> Result<f64> {
        match self.at(index) {
            value if value > 0.0 => Ok(value),
            value => Err(Fault::value(self.span, name, value, "it must be more than 0")),
        }
    }

    fn not_negative(&self, name: &str, index: usize) -> Result<f64> {
        match self.at(index) {
            value if value >= 0.0 => Ok(value),
            value => Err(Fault::value(self.span, name, value, "it must be 0 or more")),
        }
    }

    fn whole(&self, name: &str, index: usize) -> Result<u32> {
        let value = self.at(index);
        if value < 1.0 || value.fract() != 0.0 || value > f64::from(u32::MAX) {
            return Err(Fault::value(self.span, name, value, "it must be a whole number of 1 or more"));
        }
        Ok(value as u32)
    }
}

fn triangular([lower, upper, mode]: [f64; 3], span: &Span) -> Result<Distribution> {
    if !(lower <= mode && mode <= upper) {
        let value = format!("{mode} between {lower} and {upper}");
        let remedy = "lower, mode and upper must increase in this order";
        return Err(Fault::value(span, "mode", value, remedy));
    }
    Ok(match lower < upper {
        true => Distribution::Triangular { lower, upper, mode },
        false => Distribution::Constant(lower),
    })
}
