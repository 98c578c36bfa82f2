//! SELECT and its clauses, some of which other statements share.

use crate::influxql::ast::{Field, Fill, Select, SortField};
use crate::influxql::error::ParseError;
use crate::influxql::expr::Expr;
use crate::influxql::statement::Statement;
use crate::influxql::time::Zone;
use crate::influxql::token::Kind;

use super::{Parser, Result};

/// Whether a SELECT must say where its result goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Into {
    Required,
    Optional,
}

const ONLY_TIME: &str = "only ORDER BY time supported at this time";

impl<'a> Parser<'a> {
    /// What follows `SELECT`.
    pub(super) fn select(&mut self, into: Into) -> Result<Select> {
        let fields = self.fields()?;
        let target = self.target(into)?;
        self.expect(Kind::From)?;
        let sources = self.sources()?;
        let condition = self.condition()?;
        let dimensions = self.dimensions()?;
        let fill = self.fill()?;
        let order = self.order_by()?;
        let limit = self.optional_count(Kind::Limit)?;
        let offset = self.optional_count(Kind::Offset)?;
        let slimit = self.optional_count(Kind::Slimit)?;
        let soffset = self.optional_count(Kind::Soffset)?;
        let zone = self.zone()?;
        Ok(Select {
            fields,
            target,
            sources,
            condition,
            dimensions,
            fill,
            order,
            limit,
            offset,
            slimit,
            soffset,
            zone,
            as_of: None,
        })
    }

    /// What follows `SELECT` in a statement of its own, which may ask for the past. InfluxDB does not know that.
    pub(super) fn select_statement(&mut self) -> Result<Statement> {
        let mut select = self.select(Into::Optional)?;
        let token = self.next();
        match token.kind {
            Kind::As if self.take_word("of") => select.as_of = Some(self.expression()?),
            // What InfluxDB says.
            Kind::As => return Err(self.unexpected(&token, &[";"])),
            _ => self.unscan(),
        }
        Ok(Statement::Select(Box::new(select)))
    }

    fn fields(&mut self) -> Result<Vec<Field>> {
        let mut fields = Vec::new();
        loop {
            fields.push(self.field()?);
            // A comment before the comma ends the list, as in InfluxDB.
            if self.scan().kind != Kind::Comma {
                self.unscan();
                return Ok(fields);
            }
        }
    }

    fn field(&mut self) -> Result<Field> {
        let expr = match self.regex()? {
            Some(regex) => Expr::Regex(regex),
            None => {
                let first = self.next();
                self.unscan();
                let expr = self.expression()?;
                if let Some(op) = logical_operator(&expr) {
                    let position = self.lexer.position(first.offset);
                    return Err(ParseError::new(format!(
                        "invalid operator {op} in SELECT clause at line {}, char {}; operator is intended for WHERE clause",
                        position.line, position.character
                    )));
                }
                expr
            }
        };
        let alias = if self.take(Kind::As) { Some(self.identifier()?) } else { None };
        self.skip_whitespace();
        Ok(Field { expr, alias: alias.filter(|alias| !alias.is_empty()) })
    }

    /// `WHERE …`, if it is there.
    pub(super) fn condition(&mut self) -> Result<Option<Expr>> {
        if self.take(Kind::Where) { self.expression().map(Some) } else { Ok(None) }
    }

    /// `GROUP BY …`, if it is there.
    pub(super) fn dimensions(&mut self) -> Result<Vec<Expr>> {
        let mut dimensions = Vec::new();
        if !self.take(Kind::Group) {
            return Ok(dimensions);
        }
        self.expect(Kind::By)?;
        loop {
            dimensions.push(match self.regex()? {
                Some(regex) => Expr::Regex(regex),
                None => {
                    let expr = self.expression()?;
                    self.skip_whitespace();
                    expr
                }
            });
            if self.scan().kind != Kind::Comma {
                self.unscan();
                return Ok(dimensions);
            }
        }
    }

    /// Whether the next token is that identifier. The token is not taken.
    fn at_word(&mut self, word: &str) -> bool {
        let token = self.next();
        self.unscan();
        token.kind == Kind::Identifier && token.text().eq_ignore_ascii_case(word)
    }

    fn fill(&mut self) -> Result<Fill> {
        if !self.at_word("fill") {
            return Ok(Fill::Null);
        }
        let Expr::Call(mut call) = self.expression()? else {
            return Err(ParseError::new("fill must be a function call"));
        };
        if call.args.len() != 1 {
            return Err(ParseError::new("fill requires an argument, e.g.: 0, null, none, previous, linear"));
        }
        let argument = call.args.remove(0);
        match argument.to_string().as_str() {
            "null" => return Ok(Fill::Null),
            "none" => return Ok(Fill::None),
            "previous" => return Ok(Fill::Previous),
            "linear" => return Ok(Fill::Linear),
            _ => {}
        }
        match argument {
            Expr::Integer(integer) => Ok(Fill::Integer(integer)),
            Expr::Number(number) => Ok(Fill::Number(number)),
            _ => Err(ParseError::new("expected number argument in fill()")),
        }
    }

    fn zone(&mut self) -> Result<Option<Zone>> {
        if !self.at_word("tz") {
            return Ok(None);
        }
        let Expr::Call(call) = self.expression()? else {
            return Err(ParseError::new("tz must be a function call"));
        };
        let [argument] = call.args.as_slice() else {
            return Err(ParseError::new("tz requires exactly one argument"));
        };
        let Expr::String(name) = argument else {
            return Err(ParseError::new("expected string argument in tz()"));
        };
        match Zone::named(name) {
            Some(zone) => Ok(Some(zone)),
            None => Err(ParseError::new(format!("unable to find time zone {name}"))),
        }
    }

    /// `ORDER BY …`, if it is there.
    pub(super) fn order_by(&mut self) -> Result<Option<SortField>> {
        if !self.take(Kind::Order) {
            return Ok(None);
        }
        self.expect(Kind::By)?;
        let token = self.next();
        let first = match token.kind {
            Kind::Asc | Kind::Desc => SortField { name: None, ascending: token.kind == Kind::Asc },
            Kind::Identifier => {
                self.unscan();
                let field = self.sort_field()?;
                if token.text() != "time" {
                    return Err(ParseError::new(ONLY_TIME));
                }
                field
            }
            _ => return Err(self.unexpected(&token, &["identifier", "ASC", "DESC"])),
        };
        let mut count = 1;
        while self.take(Kind::Comma) {
            self.sort_field()?;
            count += 1;
        }
        if count > 1 {
            return Err(ParseError::new(ONLY_TIME));
        }
        Ok(Some(first))
    }

    fn sort_field(&mut self) -> Result<SortField> {
        let name = Some(self.identifier()?);
        let ascending = !self.take(Kind::Desc);
        if ascending {
            self.take(Kind::Asc);
        }
        Ok(SortField { name, ascending })
    }
}

/// The operator because of which an expression cannot be a field: the last of the outermost ones that give booleans.
fn logical_operator(expr: &Expr) -> Option<&'static str> {
    let mut found = None;
    expr.walk(&mut |part| match part {
        Expr::Binary(binary) if binary.op.is_logical() => {
            found = Some(binary.op.as_str());
            false
        }
        _ => true,
    });
    found
}
