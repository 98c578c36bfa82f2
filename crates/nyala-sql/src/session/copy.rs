//! COPY: what it copies, and in which form.

use super::prepared::CopyPlan;
use super::{Outcome, Session};
use crate::copy::{CopyEnd, CopyOptions, CopyStatement, CopySubject};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::measurement::{MeasurementTable, Source};
use crate::statement::{Copy, Statement};
use crate::target::{Place, Target, folded, unknown_column};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use nyala_db::users::Privilege;

impl Session {
    pub(super) async fn prepare_copy(&mut self, copy: &Copy) -> SqlResult<CopyPlan> {
        let written = &copy.written;
        refuse_server_files(written)?;
        let options = CopyOptions::of(&written.options, written.is_from)?;
        match (&written.subject, &copy.query) {
            (CopySubject::Table { name, columns }, _) if written.is_from => {
                if written.has_condition {
                    return Err(SqlError::unsupported("COPY FROM … WHERE")
                        .with_hint("Copy into another table, and INSERT from there what you want."));
                }
                let target = self.prepare_copy_from(name, columns).await?;
                if options.is_frozen() {
                    let words = "cannot perform COPY FREEZE because the table was not created or truncated in the \
                                 current subtransaction";
                    return Err(SqlError::new(SqlState::WRONG_STATE, words));
                }
                let form = options.form(&target.names(), |name| target.check_column(name))?;
                Ok(CopyPlan::From { target, form })
            }
            (CopySubject::Table { name, columns }, _) => {
                let (query, columns) = self.table_query(name, columns).await?;
                let table = name.to_string();
                let prepared = self.prepare_copy_to(&query, options, Some((&table, &columns))).await;
                // Its places are those of a text that nobody has written.
                prepared.map_err(SqlError::without_place)
            }
            (CopySubject::Query(_), Some(query)) => self.prepare_copy_to(query, options, None).await,
            (CopySubject::Query(_), None) => {
                Err(SqlError::new(SqlState::INTERNAL, "the statement has no query"))
            }
        }
    }

    async fn prepare_copy_to(
        &mut self,
        query: &Statement,
        options: CopyOptions,
        table: Option<(&str, &[String])>,
    ) -> SqlResult<CopyPlan> {
        let query = self.try_prepare(query.clone(), &[]).await?;
        if !query.parameters.is_empty() {
            return Err(SqlError::new(SqlState::UNKNOWN_PARAMETER, "there is no parameter $1"));
        }
        let columns = query
            .columns
            .clone()
            .ok_or_else(|| SqlError::new(SqlState::UNSUPPORTED, "COPY query must have a RETURNING clause"))?;
        let names: Vec<&str> = columns.fields().iter().map(|field| field.name().as_str()).collect();
        let others = |name: &str| match table {
            Some((_, others)) if others.iter().any(|other| other == name) => Ok(()),
            Some((table, _)) => Err(unknown_column(name, table)),
            None => Err(SqlError::new(SqlState::UNKNOWN_COLUMN, format!("column \"{name}\" does not exist"))),
        };
        let form = options.form(&names, others)?;
        Ok(CopyPlan::To { query: Box::new(query), form })
    }

    /// The query of the rows of a table, and the columns that the table has.
    async fn table_query(
        &mut self,
        name: &ObjectName,
        columns: &[Ident],
    ) -> SqlResult<(Statement, Vec<String>)> {
        let place = Place::of(name, self.database())?;
        let catalog = self.server.catalog.clone();
        let mut named: Vec<String> = Vec::with_capacity(columns.len());
        for column in columns.iter().map(folded) {
            if named.contains(&column) {
                let message = format!("column \"{column}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            named.push(column);
        }
        let may_read = self.principal().may(Privilege::Read, &place.database);
        let found = may_read.then(|| place.target(&catalog)).and_then(Result::ok);
        let (mut all, mut is_known) = (Vec::new(), true);
        match found {
            Some(Target::Relation(relation)) => {
                let Some(table) = relation.table() else {
                    let message = format!("cannot copy from view \"{}\"", relation.name);
                    return Err(SqlError::new(SqlState::WRONG_OBJECT, message)
                        .with_hint("Try the COPY (SELECT ...) TO variant."));
                };
                all.extend(table.columns.iter().map(|column| column.name.clone()));
            }
            Some(Target::Measurement { policy }) => {
                let found = catalog.measurement(&place.database, &policy, &place.name).await?;
                let measurement = found.ok_or_else(|| place.unknown())?;
                let table = MeasurementTable::of(measurement, &place.database, &policy, false);
                all.extend(table.columns().map(|(name, _)| name.to_owned()));
                if named.is_empty() {
                    // Those that COPY FROM takes, with one of the times.
                    let shown = table.columns().filter(|(_, source)| **source != Source::TimeNs);
                    named = shown.map(|(name, _)| name.to_owned()).collect();
                }
            }
            // If there is none, the planner says so; it knows the tables of the system, too.
            None => is_known = false,
        }
        if let Some(unknown) = named.iter().find(|column| is_known && !all.contains(column)) {
            return Err(unknown_column(unknown, &name.to_string()));
        }
        let selected: Vec<String> =
            named.iter().map(|name| Ident::with_quote('"', name).to_string()).collect();
        let selected = if selected.is_empty() { "*".to_owned() } else { selected.join(", ") };
        let query = Statement::parse(&format!("SELECT {selected} FROM {name}"))?.pop();
        let query = query.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the table has no query"))?;
        Ok((query, all))
    }

    /// Begins to copy; `None` if a table was altered since the statement was prepared.
    pub(super) async fn execute_copy(
        &mut self,
        statement: &Statement,
        plan: &CopyPlan,
    ) -> SqlResult<Option<Outcome>> {
        match plan {
            CopyPlan::To { query, form } => match self.try_execute(query, Vec::new()).await? {
                Outcome::Rows(rows) => Ok(Some(Outcome::CopyOut(rows, Box::new(form.clone())))),
                _ => Err(SqlError::new(SqlState::INTERNAL, "the query gives no rows")),
            },
            CopyPlan::From { target, form } => {
                let copy = self.begin_copy(statement, target, form).await?;
                Ok(copy.map(|copy| Outcome::CopyIn(Box::new(copy))))
            }
        }
    }
}

fn refuse_server_files(written: &CopyStatement) -> SqlResult<()> {
    let direction = if written.is_from { "FROM" } else { "TO" };
    let what = match written.end {
        CopyEnd::Client => return Ok(()),
        CopyEnd::File => format!("COPY {direction} a file of the server"),
        CopyEnd::Program => format!("COPY {direction} PROGRAM"),
    };
    Err(SqlError::unsupported(what)
        .with_hint("Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone."))
}
