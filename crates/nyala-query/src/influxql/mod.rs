//! InfluxQL, the language of InfluxDB 1.8: text to statements and back.
//!
//! `lexer` → `parser` → [`Statement`] (`ast`, `expr`, `statement`) → `display`. [`compile`] then checks a SELECT, and
//! [`split_condition`] separates the bounds on time from its WHERE clause and folds constants ([`reduce`]).
//!
//! Texts, positions and even oddities of error messages are InfluxDB's, because clients show and match them. Beyond the
//! grammar of 1.8 it supports `FUTURE LIMIT` and `PAST LIMIT` of 1.12. Input is limited: [`MAXIMUM_LENGTH`],
//! [`MAXIMUM_DEPTH`], [`MAXIMUM_SUBQUERIES`].

mod alter;
mod ast;
mod condition;
mod display;
mod display_statement;
mod duration;
mod error;
mod expr;
mod lexer;
mod math;
mod params;
mod parser;
mod quote;
mod reduce;
mod regex;
mod statement;
mod time;
mod token;
mod validate;

pub use alter::{AlterMeasurement, MeasurementAlteration};
pub use ast::{Field, Fill, Measurement, MeasurementName, Select, SortField, Source, Target};
pub use condition::{SplitCondition, TimeRange, split_condition, split_deletion};
pub use display_statement::without_password;
pub(crate) use duration::go_duration;
pub use duration::{format_duration, parse_duration};
pub use error::{ParseError, Position};
pub use expr::{Binary, BinaryOperator, Call, DataType, Expr, VarRef, Wildcard};
pub use math::is_math_function;
pub use params::Params;
pub use quote::{identifier, literal};
pub use reduce::{Context, Overflow, reduce, to_integer};
pub use regex::Regex;
pub use statement::{
    Counted, CreateContinuousQuery, CreateDatabase, CreateSubscription, CreateToken, CreateUser, Deletion,
    Expiry, PolicyClauses, Privilege, RetentionPolicy, Show, ShowCardinality, Statement, TagKeys, Update,
};
pub use time::{MAXIMUM_TIME_NS, MINIMUM_TIME_NS, TimeLiteral, Zone, parse_time};
pub use validate::{Compiled, compile};

use parser::Parser;

/// The longest text that is parsed, in bytes. The statements may take sixty times as much memory.
pub const MAXIMUM_LENGTH: usize = 2 << 20;

/// How deep an expression may be nested, so that recursion over it cannot exhaust a stack. Chains of AND and OR
/// count with the logarithm of their length.
pub const MAXIMUM_DEPTH: usize = 200;

/// How many subqueries may enclose each other.
pub const MAXIMUM_SUBQUERIES: usize = 20;

/// Parses statements separated by semicolons. An empty text is no error here.
pub fn parse_query(text: &str, params: &Params) -> Result<Vec<Statement>, ParseError> {
    Ok(parse_query_and_regexes(text, params)?.0)
}

/// The same, with the regular expressions in the statements, so that callers can charge their memory.
pub fn parse_query_and_regexes(
    text: &str,
    params: &Params,
) -> Result<(Vec<Statement>, Vec<Regex>), ParseError> {
    check_length(text)?;
    let mut parser = Parser::new(text, params);
    Ok((parser.query()?, parser.regexes))
}

/// Parses a lone expression, such as a stored condition.
pub fn parse_expr(text: &str) -> Result<Expr, ParseError> {
    check_length(text)?;
    Parser::new(text, &Params::default()).lone_expression()
}

fn check_length(text: &str) -> Result<(), ParseError> {
    if text.len() > MAXIMUM_LENGTH {
        return Err(ParseError::new(format!("query is longer than {MAXIMUM_LENGTH} bytes")));
    }
    Ok(())
}
