//! Values: numbers, texts, variables and calculations.

use super::{Reader, Result};
use crate::Span;
use crate::arithmetic::{Operator, Scalar};
use crate::syntax::{Expression, Item, ItemKind};
use crate::token::{Kind, Part, Token};

/// Names of all variables in some words.
pub(super) fn variables(tokens: &[Token]) -> Vec<String> {
    let mut names = Vec::new();
    for token in tokens {
        match &token.kind {
            Kind::Variable(variable) => names.push(variable.name.clone()),
            Kind::Quoted(parts) => names.extend(parts.iter().filter_map(|part| match part {
                Part::Variable(variable, _) => Some(variable.name.clone()),
                Part::Text(_) => None,
            })),
            _ => {}
        }
    }
    names
}

/// A text without variables.
pub(super) fn literal(parts: &[Part]) -> Option<String> {
    match parts {
        [Part::Text(text)] => Some(text.clone()),
        _ => None,
    }
}

impl Reader<'_> {
    /// A value, which may be a calculation.
    pub(super) fn expression(&mut self) -> Result<Expression> {
        let start = self.span().start;
        let mut items = Vec::new();
        self.sum(&mut items)?;
        Ok(Expression { items, span: start..self.end() })
    }

    fn sum(&mut self, items: &mut Vec<Item>) -> Result<()> {
        self.binary(items, &[('+', Operator::Add), ('-', Operator::Subtract)], Self::product)
    }

    fn product(&mut self, items: &mut Vec<Item>) -> Result<()> {
        self.binary(items, &[('*', Operator::Multiply), ('/', Operator::Divide)], Self::signed)
    }

    fn binary(
        &mut self,
        items: &mut Vec<Item>,
        operators: &[(char, Operator)],
        operand: fn(&mut Self, &mut Vec<Item>) -> Result<()>,
    ) -> Result<()> {
        operand(self, items)?;
        while let Kind::Sign(sign) = *self.kind()
            && let Some((_, operator)) = operators.iter().find(|(known, _)| *known == sign)
        {
            let span = self.span();
            let after_blank = span.start != self.end();
            self.at += 1;
            let tight = !after_blank && self.span().start == span.end;
            operand(self, items)?;
            items.push(Item { kind: ItemKind::Binary { operator: *operator, tight }, span });
        }
        Ok(())
    }

    fn signed(&mut self, items: &mut Vec<Item>) -> Result<()> {
        let mut negative: Option<Span> = None;
        let mut first = None;
        while self.is_sign('-') {
            let span = self.span();
            first.get_or_insert(span.clone());
            negative = if negative.is_some() { None } else { Some(span) };
            self.at += 1;
        }
        self.joined(items)?;
        if let Some(span) = negative {
            items.push(Item { kind: ItemKind::Negate, span });
        }
        Ok(())
    }

    /// Operands without a blank between them are one text: `$dir/sub`.
    fn joined(&mut self, items: &mut Vec<Item>) -> Result<()> {
        let start = self.span().start;
        self.operand(items)?;
        while self.span().start == self.end()
            && matches!(self.kind(), Kind::Word(_) | Kind::Variable(_) | Kind::Quoted(_) | Kind::Number(_))
        {
            self.operand(items)?;
            items.push(Item { kind: ItemKind::Join, span: start..self.end() });
        }
        Ok(())
    }

    fn operand(&mut self, items: &mut Vec<Item>) -> Result<()> {
        if self.is_sign('(') {
            self.enter("parentheses")?;
            self.at += 1;
            self.sum(items)?;
            self.expect_sign(')', "a ) closes the parenthesis")?;
            self.depth -= 1;
            return Ok(());
        }
        let kind = match self.kind() {
            Kind::Number(number) => ItemKind::Scalar(number.clone()),
            Kind::Word(word) => ItemKind::Scalar(match word.as_str() {
                "true" => Scalar::Boolean(true),
                "false" => Scalar::Boolean(false),
                word => Scalar::Text(word.to_owned()),
            }),
            Kind::Variable(variable) => ItemKind::Variable(variable.clone()),
            Kind::Quoted(parts) => ItemKind::Quoted(parts.clone()),
            Kind::Sign(_) | Kind::End => {
                return Err(self.unexpected("expected a value: a number, a text or a $variable"));
            }
        };
        let span = self.span();
        self.at += 1;
        items.push(Item { kind, span });
        Ok(())
    }

    /// One number, text or variable.
    pub(super) fn primary(&mut self) -> Result<Expression> {
        let span = self.span();
        let mut items = Vec::new();
        self.operand(&mut items)?;
        Ok(Expression { items, span })
    }

    /// A number or variable, if there is one.
    pub(super) fn optional_number(&mut self) -> Result<Option<Expression>> {
        let is_number = match self.kind() {
            Kind::Number(_) | Kind::Variable(_) => true,
            Kind::Sign('-') => matches!(self.kind_at(1), Kind::Number(_) | Kind::Variable(_)),
            _ => false,
        };
        if !is_number {
            return Ok(None);
        }
        let start = self.span().start;
        let negative = self.is_sign('-').then(|| self.next().span);
        let mut expression = self.primary()?;
        if let Some(span) = negative {
            expression.items.push(Item { kind: ItemKind::Negate, span });
        }
        expression.span.start = start;
        Ok(Some(expression))
    }

    /// A number or variable.
    pub(super) fn number(&mut self, example: &str) -> Result<Expression> {
        match self.optional_number()? {
            Some(number) => Ok(number),
            None => Err(self.unexpected(format!("expected a number: {example}"))),
        }
    }
}
