//! Expressions: operators by precedence, references, calls, literals.

use crate::influxql::MAXIMUM_DEPTH;
use crate::influxql::duration::parse_duration;
use crate::influxql::error::ParseError;
use crate::influxql::expr::{BinaryOperator, DataType, Expr, VarRef, Wildcard};
use crate::influxql::lexer::Token;
use crate::influxql::quote;
use crate::influxql::regex::Regex;
use crate::influxql::token::Kind;

use super::{Parser, Result};

/// An expression and how deep it is.
struct Tree {
    expr: Expr,
    height: usize,
}

impl Tree {
    fn leaf(expr: Expr) -> Tree {
        Tree { expr, height: 1 }
    }
}

fn too_deep() -> ParseError {
    ParseError::new(format!("expression is nested more than {MAXIMUM_DEPTH} levels deep"))
}

fn join(op: BinaryOperator, lhs: Tree, rhs: Tree) -> Result<Tree> {
    let height = 1 + lhs.height.max(rhs.height);
    if height > MAXIMUM_DEPTH {
        return Err(too_deep());
    }
    Ok(Tree { expr: Expr::binary(op, lhs.expr, rhs.expr), height })
}

/// Names of functions are nearly always ASCII.
fn lower_case(name: &str) -> String {
    if name.is_ascii() { name.to_ascii_lowercase() } else { name.to_lowercase() }
}

/// Joins the operands of a chain of ANDs or ORs into a tree of the least height.
fn join_chain(op: BinaryOperator, mut operands: Vec<Tree>) -> Result<Tree> {
    match operands.len() {
        1 => Ok(operands.remove(0)),
        count => {
            let right = operands.split_off(count / 2);
            join(op, join_chain(op, operands)?, join_chain(op, right)?)
        }
    }
}

/// The last operands of a growing chain of one operator.
struct Chain {
    op: BinaryOperator,
    operands: Vec<Tree>,
}

/// Up to this many ANDs or ORs in a row are joined directly, without collecting them for a tree of the least height.
const SHORT_CHAIN: usize = 16;

impl<'a> Parser<'a> {
    pub(crate) fn expression(&mut self) -> Result<Expr> {
        Ok(self.binary(BinaryOperator::LOWEST_PRECEDENCE)?.expr)
    }

    /// Operations whose operators bind at least as tightly as `weakest`.
    fn binary(&mut self, weakest: u8) -> Result<Tree> {
        let mut left = self.unary()?;
        let mut chain: Option<Chain> = None;
        let (mut previous, mut in_a_row) = (None, 0);
        loop {
            let Some(op) = self.next().kind.binary_operator().filter(|op| op.precedence() >= weakest) else {
                self.unscan();
                break;
            };
            let right = if matches!(op, BinaryOperator::Matches | BinaryOperator::NotMatches) {
                let regex = self.required_regex()?;
                self.refuse_arithmetic_on_regex()?;
                Tree::leaf(Expr::Regex(regex))
            } else if op.precedence() == BinaryOperator::HIGHEST_PRECEDENCE {
                self.unary()?
            } else {
                self.binary(op.precedence() + 1)?
            };
            in_a_row = if previous == Some(op) { in_a_row + 1 } else { 1 };
            previous = Some(op);
            if let Some(chain) = chain.as_mut().filter(|chain| chain.op == op) {
                chain.operands.push(right);
                continue;
            }
            if let Some(finished) = chain.take() {
                left = join_chain(finished.op, finished.operands)?;
            }
            if in_a_row > SHORT_CHAIN && matches!(op, BinaryOperator::And | BinaryOperator::Or) {
                let empty = Tree::leaf(Expr::Nil);
                chain = Some(Chain { op, operands: vec![std::mem::replace(&mut left, empty), right] });
            } else {
                left = join(op, left, right)?;
            }
        }
        match chain {
            Some(chain) => join_chain(chain.op, chain.operands),
            None => Ok(left),
        }
    }

    /// `a =~ /b/ + 1` would apply the operator to the regular expression. InfluxDB parses that and then crashes.
    fn refuse_arithmetic_on_regex(&mut self) -> Result<()> {
        let token = self.next();
        match token.kind.binary_operator() {
            Some(op) if op.precedence() > BinaryOperator::COMPARISON_PRECEDENCE => {
                Err(self.unexpected(&token, &["AND", "OR"]))
            }
            _ => {
                self.unscan();
                Ok(())
            }
        }
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAXIMUM_DEPTH {
            return Err(too_deep());
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn unary(&mut self) -> Result<Tree> {
        let token = self.next();
        let expr = match token.kind {
            Kind::LeftParenthesis => return self.nested(Self::parenthesised),
            Kind::Identifier => {
                if self.scan().kind == Kind::LeftParenthesis {
                    return self.nested(|parser| parser.call(&token.text()));
                }
                self.unscan();
                self.unscan();
                Expr::VarRef(self.reference()?)
            }
            Kind::Distinct => return self.distinct(),
            Kind::String => Expr::String(token.text().into_owned()),
            Kind::Number => match token.digits().parse::<f64>() {
                Ok(number) if number.is_finite() => Expr::Number(number),
                _ => return Err(self.error_at(&token, "unable to parse number")),
            },
            Kind::Integer => match (token.digits().parse::<i64>(), token.digits().parse::<u64>()) {
                (Ok(integer), _) => Expr::Integer(integer),
                (_, Ok(unsigned)) => Expr::Unsigned(unsigned),
                _ => return Err(self.error_at(&token, "unable to parse integer")),
            },
            Kind::True => Expr::Boolean(true),
            Kind::False => Expr::Boolean(false),
            Kind::DurationValue => Expr::Duration(parse_duration(token.digits()).map_err(ParseError::new)?),
            Kind::Star => Expr::Wildcard(self.wildcard()?),
            Kind::Regex => Expr::Regex(self.compile(&token)?),
            Kind::BoundParameter => return Err(self.unbound(&token)),
            Kind::Plus | Kind::Minus => return self.signed(token.kind == Kind::Minus),
            _ => return Err(self.unexpected(&token, &["identifier", "string", "number", "bool"])),
        };
        Ok(Tree::leaf(expr))
    }

    fn parenthesised(&mut self) -> Result<Tree> {
        let inner = self.binary(BinaryOperator::LOWEST_PRECEDENCE)?;
        self.expect(Kind::RightParenthesis)?;
        if inner.height >= MAXIMUM_DEPTH {
            return Err(too_deep());
        }
        Ok(Tree { expr: Expr::Paren(Box::new(inner.expr)), height: inner.height + 1 })
    }

    /// The error of a parameter that has no value, or whose value cannot be bound.
    fn unbound(&self, token: &Token<'_>) -> ParseError {
        match token.text().as_ref() {
            "" => ParseError::new("empty bound parameter"),
            name => ParseError::new(format!("missing parameter: {name}")),
        }
    }

    /// The operand after a sign. A constant takes the sign; anything else is multiplied by 1 or -1.
    fn signed(&mut self, negative: bool) -> Result<Tree> {
        let token = self.next();
        if !matches!(
            token.kind,
            Kind::Number | Kind::Integer | Kind::DurationValue | Kind::LeftParenthesis | Kind::Identifier
        ) {
            return Err(self.unexpected(&token, &["identifier", "number", "duration", "("]));
        }
        self.unscan();
        let operand = self.unary()?;
        let expr = match operand.expr {
            Expr::Number(number) => Expr::Number(if negative { -number } else { number }),
            Expr::Integer(integer) => Expr::Integer(if negative { integer.wrapping_neg() } else { integer }),
            Expr::Duration(duration) => Expr::Duration(if negative { -duration } else { duration }),
            Expr::Unsigned(unsigned) if negative => {
                if unsigned != i64::MIN.unsigned_abs() {
                    return Err(ParseError::new(format!("constant -{unsigned} underflows int64")));
                }
                Expr::Integer(i64::MIN)
            }
            expr @ Expr::Unsigned(_) => expr,
            expr => {
                let sign = Tree::leaf(Expr::Integer(if negative { -1 } else { 1 }));
                return join(BinaryOperator::Multiply, sign, Tree { expr, height: operand.height });
            }
        };
        Ok(Tree::leaf(expr))
    }

    /// `DISTINCT name` or `DISTINCT(…)`.
    fn distinct(&mut self) -> Result<Tree> {
        let token = self.scan();
        match token.kind {
            Kind::LeftParenthesis => self.nested(|parser| parser.call("distinct")),
            Kind::Whitespace => Ok(Tree::leaf(Expr::Distinct(self.identifier()?))),
            _ => Err(self.unexpected(&token, &["(", "identifier"])),
        }
    }

    fn wildcard(&mut self) -> Result<Wildcard> {
        if self.scan().kind != Kind::DoubleColon {
            self.unscan();
            return Ok(Wildcard::All);
        }
        let token = self.scan();
        match token.kind {
            Kind::Field => Ok(Wildcard::Fields),
            Kind::Tag => Ok(Wildcard::Tags),
            _ => Err(self.unexpected(&token, &["field", "tag"])),
        }
    }

    /// `name`, `name.name`, each with an optional `::type`.
    fn reference(&mut self) -> Result<VarRef> {
        let mut segments = self.segments()?;
        let name = if segments.len() == 1 { segments.remove(0) } else { segments.join(".") };
        if self.scan().kind != Kind::DoubleColon {
            self.unscan();
            return Ok(VarRef { name, data_type: None });
        }
        let token = self.scan();
        let data_type = match token.kind {
            Kind::Field => DataType::AnyField,
            Kind::Tag => DataType::Tag,
            Kind::Identifier => match token.text().to_ascii_lowercase().as_str() {
                "float" => DataType::Float,
                "integer" => DataType::Integer,
                "unsigned" => DataType::Unsigned,
                "string" => DataType::String,
                "boolean" => DataType::Boolean,
                _ => {
                    let types = ["float", "integer", "unsigned", "string", "boolean", "field", "tag"];
                    return Err(self.unexpected(&token, &types));
                }
            },
            _ => {
                let types = ["float", "integer", "string", "boolean", "field", "tag"];
                return Err(self.unexpected(&token, &types));
            }
        };
        Ok(VarRef { name, data_type: Some(data_type) })
    }

    /// Up to three identifiers with dots between; a middle one may be left out. Stops behind a dot that a regular
    /// expression or `:MEASUREMENT` follows.
    pub(super) fn segments(&mut self) -> Result<Vec<String>> {
        let mut segments = vec![self.identifier()?];
        loop {
            if self.scan().kind != Kind::Dot {
                self.unscan();
                break;
            }
            match self.lexer.peek() {
                Some(b'/' | b':') => break,
                Some(b'.') => segments.push(String::new()),
                _ => segments.push(self.identifier()?),
            }
        }
        if segments.len() > 3 {
            let message = format!("too many segments in {}", quote::segments(&segments));
            return Err(ParseError::at(message, self.lexer.position(0)));
        }
        Ok(segments)
    }

    /// The arguments of a call whose name and parenthesis have been taken.
    fn call(&mut self, name: &str) -> Result<Tree> {
        let mut args = Vec::new();
        let mut height = 1;
        match self.regex()? {
            Some(regex) => args.push(Expr::Regex(regex)),
            None => {
                if self.scan().kind == Kind::RightParenthesis {
                    return Ok(Tree { expr: Expr::call(lower_case(name), args), height });
                }
                self.unscan();
                let arg = self.binary(BinaryOperator::LOWEST_PRECEDENCE)?;
                height = height.max(1 + arg.height);
                args.push(arg.expr);
            }
        }
        while self.take(Kind::Comma) {
            if let Some(regex) = self.regex()? {
                args.push(Expr::Regex(regex));
                continue;
            }
            let arg = self.binary(BinaryOperator::LOWEST_PRECEDENCE)?;
            height = height.max(1 + arg.height);
            args.push(arg.expr);
        }
        let token = self.scan();
        if token.kind != Kind::RightParenthesis {
            return Err(self.unexpected(&token, &[")"]));
        }
        if height > MAXIMUM_DEPTH {
            return Err(too_deep());
        }
        Ok(Tree { expr: Expr::call(lower_case(name), args), height })
    }

    /// A regular expression, if one starts here. White space before it is taken in any case.
    pub(super) fn regex(&mut self) -> Result<Option<Regex>> {
        if self.lexer.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            self.skip_whitespace();
        }
        match self.lexer.peek() {
            Some(b'/') => {}
            Some(b'$') => {
                let token = self.scan();
                self.unscan();
                if token.kind != Kind::Regex {
                    return Ok(None);
                }
            }
            _ => return Ok(None),
        }
        let token = self.scan_with(|lexer| lexer.scan_regex());
        match token.kind {
            Kind::Regex => Ok(Some(self.compile(&token)?)),
            Kind::BadRegex => Err(self.error_at(&token, "bad regex: ")),
            _ => Err(self.unexpected(&token, &["regex"])),
        }
    }

    pub(super) fn required_regex(&mut self) -> Result<Regex> {
        if let Some(regex) = self.regex()? {
            return Ok(regex);
        }
        let token = self.next();
        Err(self.unexpected(&token, &["regex"]))
    }

    fn compile(&mut self, token: &Token<'_>) -> Result<Regex> {
        let regex = Regex::new(&token.text()).map_err(|message| self.error_at(token, message))?;
        self.regexes.push(regex.clone());
        Ok(regex)
    }
}
