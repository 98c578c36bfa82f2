//! FROM and INTO: the sources and targets of rows.

use crate::influxql::MAXIMUM_SUBQUERIES;
use crate::influxql::ast::{Measurement, MeasurementName, Source, Target};
use crate::influxql::error::ParseError;
use crate::influxql::token::Kind;

use super::select::Into;
use super::{Parser, Result};

fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

impl<'a> Parser<'a> {
    /// One or more sources with commas between them.
    pub(super) fn sources(&mut self) -> Result<Vec<Source>> {
        self.list(|parser| parser.source_or_subquery())
    }

    /// `FROM` sources that are no subqueries, where it stands.
    pub(super) fn optional_from(&mut self) -> Result<Vec<Measurement>> {
        if self.take(Kind::From) { self.list(Self::measurement) } else { Ok(Vec::new()) }
    }

    fn source_or_subquery(&mut self) -> Result<Source> {
        if let Some(regex) = self.regex()? {
            return Ok(Source::Measurement(Measurement {
                name: MeasurementName::Regex(regex),
                ..Measurement::default()
            }));
        }
        if !self.take(Kind::LeftParenthesis) {
            return Ok(Source::Measurement(self.named_measurement()?));
        }
        self.expect(Kind::Select)?;
        if self.subqueries >= MAXIMUM_SUBQUERIES {
            return Err(ParseError::new(format!(
                "subqueries are nested more than {MAXIMUM_SUBQUERIES} levels deep"
            )));
        }
        self.subqueries += 1;
        let select = self.select(Into::Optional)?;
        self.subqueries -= 1;
        self.expect(Kind::RightParenthesis)?;
        Ok(Source::Subquery(Box::new(select)))
    }

    /// A measurement by name or by regular expression.
    pub(super) fn measurement(&mut self) -> Result<Measurement> {
        match self.regex()? {
            Some(regex) => Ok(Measurement { name: MeasurementName::Regex(regex), ..Measurement::default() }),
            None => self.named_measurement(),
        }
    }

    fn named_measurement(&mut self) -> Result<Measurement> {
        let mut segments = self.segments()?;
        // With three segments the last is the name; with fewer a regular expression may stand for it.
        let regex = if segments.len() == 3 { None } else { self.regex()? };
        let name = match regex {
            Some(regex) => MeasurementName::Regex(regex),
            None => MeasurementName::Name(segments.pop().unwrap_or_default()),
        };
        let retention_policy = segments.pop().and_then(non_empty);
        let database = segments.pop().and_then(non_empty);
        Ok(Measurement { database, retention_policy, name })
    }

    /// `INTO` a measurement, or `:MEASUREMENT` for one of the source's name.
    pub(super) fn target(&mut self, into: Into) -> Result<Option<Target>> {
        let token = self.next();
        if token.kind != Kind::Into {
            if into == Into::Required {
                return Err(self.unexpected(&token, &["INTO"]));
            }
            self.unscan();
            return Ok(None);
        }
        let mut segments = self.segments()?;
        if segments.len() < 3 && self.lexer.peek() == Some(b':') {
            self.expect(Kind::Colon)?;
            self.expect(Kind::Measurement)?;
            segments.push(String::new());
        }
        let name = MeasurementName::Name(segments.pop().unwrap_or_default());
        let retention_policy = segments.pop().and_then(non_empty);
        let database = segments.pop().and_then(non_empty);
        Ok(Some(Target { measurement: Measurement { database, retention_policy, name } }))
    }
}
