//! Translates expressions of a query into expressions over columns.

use crate::influxql::{self, BinaryOperator, Expr, Regex, VarRef};
use nyala_core::{Error, Result};
use nyala_exec::Scalar;
use nyala_exec::elementary::MathFunction;
use nyala_exec::expression::{Binary, Expression, Operator};

/// The clause that an expression is in: it decides some rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clause {
    /// Among the selected columns.
    Selected,
    /// In a condition on stored rows.
    StoredRows,
    /// In a condition on the rows of an inner query.
    InnerRows,
}

/// Translates expressions. `reference` and `call` give the columns of references and calls.
pub struct Translator<'a> {
    /// The clause they are in.
    pub clause: Clause,
    /// The column of a reference.
    pub reference: &'a mut dyn FnMut(&VarRef) -> Expression,
    /// The column of a function that is not mathematical.
    pub call: &'a mut dyn FnMut(&influxql::Call) -> Result<Expression>,
}

impl Translator<'_> {
    /// An expression over columns.
    pub fn translate(&mut self, expr: &Expr) -> Result<Expression> {
        Ok(match expr {
            Expr::VarRef(reference) => (self.reference)(reference),
            Expr::Paren(inner) => self.translate(inner)?,
            Expr::Binary(binary) => self.binary(binary)?,
            Expr::Call(call) => match MathFunction::named(&call.name) {
                Some(function) => {
                    let arguments =
                        call.args.iter().map(|argument| self.translate(argument)).collect::<Result<_>>()?;
                    Expression::Math(function, arguments)
                }
                None => (self.call)(call)?,
            },
            literal => Expression::Literal(literal_value(literal)?),
        })
    }

    fn binary(&mut self, binary: &influxql::Binary) -> Result<Expression> {
        let left = self.translate(&binary.lhs)?;
        let Some(operator) = operator(binary.op, self.clause) else {
            let Expr::Regex(regex) = &binary.rhs else {
                return Err(Error::invalid(format!("{} needs a regular expression", binary.op.as_str())));
            };
            return Ok(Expression::Matches {
                text: Box::new(left),
                regex: compile_regex(regex)?,
                matches: binary.op == BinaryOperator::Matches,
            });
        };
        let right = self.translate(&binary.rhs)?;
        let absent_is_false = self.clause != Clause::StoredRows;
        Ok(Expression::Binary(Box::new(Binary { operator, absent_is_false, left, right })))
    }
}

/// The operator over columns; `None`: it matches a regular expression.
fn operator(operator: BinaryOperator, clause: Clause) -> Option<Operator> {
    Some(match operator {
        BinaryOperator::Add => Operator::Add,
        BinaryOperator::Subtract => Operator::Subtract,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide if clause == Clause::Selected => Operator::Divide,
        BinaryOperator::Divide => Operator::DivideWhole,
        BinaryOperator::Modulo => Operator::Modulo,
        BinaryOperator::BitwiseAnd => Operator::BitwiseAnd,
        BinaryOperator::BitwiseOr => Operator::BitwiseOr,
        BinaryOperator::BitwiseXor => Operator::BitwiseXor,
        BinaryOperator::And => Operator::And,
        BinaryOperator::Or => Operator::Or,
        BinaryOperator::Equal => Operator::Equal,
        BinaryOperator::NotEqual => Operator::NotEqual,
        BinaryOperator::Less => Operator::Less,
        BinaryOperator::LessOrEqual => Operator::LessOrEqual,
        BinaryOperator::Greater => Operator::Greater,
        BinaryOperator::GreaterOrEqual => Operator::GreaterOrEqual,
        BinaryOperator::Matches | BinaryOperator::NotMatches => return None,
    })
}

/// A regular expression of a query, ready for use.
pub fn compile_regex(regex: &Regex) -> Result<regex::bytes::Regex> {
    regex.compile().map_err(Error::invalid)
}

/// The value of a literal. Durations and times have no value outside of conditions on time.
pub fn literal_value(expr: &Expr) -> Result<Option<Scalar>> {
    Ok(Some(match expr {
        Expr::Boolean(value) => Scalar::Boolean(*value),
        Expr::Integer(value) => Scalar::Integer(*value),
        Expr::Unsigned(value) => Scalar::Unsigned(*value),
        Expr::Number(value) => Scalar::Float(*value),
        Expr::String(value) => Scalar::String(value.clone()),
        Expr::Nil | Expr::Duration(_) | Expr::Time(_) => return Ok(None),
        other => return Err(Error::invalid(format!("unexpected {other} in an expression"))),
    }))
}
