//! UPDATE, DELETE FIELD, UNDO and DRY RUN, which InfluxDB does not have: correcting stored points.

use crate::influxql::ast::Measurement;
use crate::influxql::expr::Expr;
use crate::influxql::statement::{Statement, Update};
use crate::influxql::token::Kind;

use super::{Parser, Result};

impl Parser<'_> {
    /// What follows `UPDATE`.
    pub(super) fn update(&mut self) -> Result<Statement> {
        let measurement = self.measurement()?;
        self.expect(Kind::Set)?;
        let fields = self.list(Self::assignment)?;
        self.changed(measurement, fields)
    }

    /// What follows `DELETE FIELD`.
    pub(super) fn delete_field(&mut self) -> Result<Statement> {
        let fields = self.list(|parser| Ok((parser.identifier()?, None)))?;
        self.expect(Kind::From)?;
        let measurement = self.measurement()?;
        self.changed(measurement, fields)
    }

    /// What follows `DRY RUN`: a statement that is not executed. Only what it would change is counted.
    pub(super) fn dry_run(&mut self) -> Result<Statement> {
        let token = self.next();
        self.unscan();
        match self.statement()? {
            statement @ (Statement::AlterMeasurement(_)
            | Statement::Delete(_)
            | Statement::Undo { .. }
            | Statement::Update(_)) => Ok(Statement::DryRun(Box::new(statement))),
            _ => Err(self.unexpected(&token, &["ALTER MEASUREMENT", "DELETE", "UNDO", "UPDATE"])),
        }
    }

    /// What follows `UNDO`.
    pub(super) fn undo(&mut self) -> Result<Statement> {
        Ok(Statement::Undo { change: self.unsigned()? })
    }

    fn changed(
        &mut self,
        measurement: Measurement,
        fields: Vec<(String, Option<Expr>)>,
    ) -> Result<Statement> {
        let condition = self.condition()?;
        Ok(Statement::Update(Update { measurement, fields, condition }))
    }

    /// `field = value`, where NULL takes the value away.
    fn assignment(&mut self) -> Result<(String, Option<Expr>)> {
        let name = self.identifier()?;
        self.expect(Kind::Equal)?;
        if self.take_word("NULL") {
            return Ok((name, None));
        }
        let token = self.next();
        self.unscan();
        match self.expression()? {
            value @ (Expr::Number(_)
            | Expr::Integer(_)
            | Expr::Unsigned(_)
            | Expr::String(_)
            | Expr::Boolean(_)) => Ok((name, Some(value))),
            _ => Err(self.unexpected(&token, &["number", "string", "boolean", "NULL"])),
        }
    }
}
