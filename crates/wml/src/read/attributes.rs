//! Lists of `name=value`.

use std::rc::Rc;

use nestor_text::units::listed;

use super::{Reader, Result};
use crate::error::{Fault, Problem};
use crate::syntax::{Attribute, Local, RandomSyntax, Table};
use crate::token::{Kind, VariableName, clip};
use crate::vocabulary::{Context, places, suggest};

/// What stands between `define …` and its `{`, or its end.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) attributes: Vec<Attribute>,
    pub(super) locals: Vec<Local>,
    pub(super) table: Option<Table>,
    /// `name=$variable` of a randvar.
    pub(super) variable: Option<VariableName>,
}

impl Reader<'_> {
    /// One attribute or more, with commas between.
    pub(super) fn settings(&mut self, context: Context) -> Result<Settings> {
        let mut settings = Settings::default();
        loop {
            self.setting(context, &mut settings)?;
            if !self.take_sign(',') {
                break;
            }
        }
        let next_is_attribute = self.word().is_some_and(|word| context.attribute(word).is_some());
        if next_is_attribute && (*self.kind_at(1) == Kind::Sign('=')) {
            return Err(self.unexpected("separate attributes with commas"));
        }
        Ok(settings)
    }

    /// Attributes, if there are any.
    pub(super) fn optional_attributes(&mut self, context: Context) -> Result<Vec<Attribute>> {
        let known = self.word().is_some_and(|word| context.attribute(word).is_some());
        if known || *self.kind_at(1) == Kind::Sign('=') {
            return Ok(self.settings(context)?.attributes);
        }
        Ok(Vec::new())
    }

    fn setting(&mut self, context: Context, settings: &mut Settings) -> Result<()> {
        let span = self.span();
        if let Kind::Variable(variable) = self.kind()
            && matches!(context, Context::Flowop | Context::Composite)
        {
            let name = variable.name.clone();
            self.at += 1;
            let value = if self.take_sign('=') { Some(self.expression()?) } else { None };
            settings.locals.push(Local { name, value });
            return Ok(());
        }
        let Some(word) = self.word().map(str::to_owned) else {
            let phrase = context.phrase();
            return Err(self.unexpected(format!("expected an attribute of {phrase}: {}", list(context))));
        };
        let Some(name) = context.attribute(&word) else {
            return Err(self.unknown_attribute(context, &word));
        };
        self.at += 1;
        let value = if self.take_sign('=') {
            match (name, context) {
                ("randtable", _) => {
                    settings.table = Some(self.table()?);
                    return Ok(());
                }
                ("name", Context::RandVar) => {
                    settings.variable =
                        Some(self.take_variable("the name of a randvar is a variable: name=$iosize")?);
                    return Ok(());
                }
                _ => Some(self.expression()?),
            }
        } else {
            None
        };
        if settings.attributes.iter().any(|attribute| attribute.name == name) {
            self.remark(&span, format!("{word} is given twice: the last value counts"));
        }
        settings.attributes.push(Attribute { name, value, span: span.start..self.end() });
        Ok(())
    }

    fn unknown_attribute(&self, context: Context, word: &str) -> Box<Fault> {
        let problem = Problem::UnknownAttribute { place: context.phrase(), name: clip(word) };
        let elsewhere = places(word);
        let remedy = match word {
            "posset" | "possetname" => "Filebench 1.5 removed sets of positions: use random".to_owned(),
            _ if !elsewhere.is_empty() => {
                format!(
                    "{word} is an attribute of {}; the attributes here are {}",
                    elsewhere.join(" and "),
                    list(context)
                )
            }
            _ => {
                let aliases = ["filesize", "filesetname"]
                    .into_iter()
                    .filter(|alias| context.attribute(alias).is_some());
                suggest(word, context.attributes().chain(aliases), "its attributes")
            }
        };
        Fault::new(&self.span(), problem, remedy)
    }

    /// `{{percent, min, max}, …}`.
    fn table(&mut self) -> Result<Table> {
        let form = "a table is {{percent, min, max}, {percent, min, max}}";
        let start = self.span().start;
        self.expect_sign('{', form)?;
        let mut rows = Vec::new();
        loop {
            self.expect_sign('{', form)?;
            let percent = self.expression()?;
            self.expect_sign(',', form)?;
            let min = self.expression()?;
            self.expect_sign(',', form)?;
            let max = self.expression()?;
            self.expect_sign('}', form)?;
            rows.push([percent, min, max]);
            if !self.take_sign(',') {
                break;
            }
        }
        self.expect_sign('}', form)?;
        Ok(Table { rows, span: start..self.end() })
    }

    /// `randvar(…)` or `cvar(…)`, if there is one.
    pub(super) fn random(&mut self) -> Result<Option<Rc<RandomSyntax>>> {
        let context = match self.word() {
            Some("randvar") => Context::RandVar,
            Some("cvar") => Context::CVar,
            _ => return Ok(None),
        };
        if *self.kind_at(1) != Kind::Sign('(') {
            return Ok(None);
        }
        let start = self.span().start;
        let opened = start..self.tokens[self.at + 1].span.end;
        self.at += 2;
        let settings = self.settings(context)?;
        if !self.take_sign(')') {
            if *self.kind() == Kind::End {
                let problem = Problem::Unclosed("this parenthesis".to_owned());
                return Err(Fault::new(&opened, problem, "put a ) where it ends"));
            }
            return Err(self.unexpected("expected a comma and another attribute, or a )"));
        }
        Ok(Some(Rc::new(RandomSyntax {
            custom: context == Context::CVar,
            attributes: settings.attributes,
            table: settings.table,
            span: start..self.end(),
        })))
    }
}

fn list(context: Context) -> String {
    listed(context.attributes())
}
