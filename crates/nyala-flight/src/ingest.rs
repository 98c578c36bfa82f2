//! Bulk ingest: rows that a client sends become rows of a table, or points of a measurement, all at once.
//!
//! It is a COPY whose rows are Arrow arrays already: nobody sees a part of them, and each is checked as those of any other
//! COPY. If the client asks for it, the table is created first, with the columns that it sends.

use crate::caller::Caller;
use crate::error::status_of;
use crate::input::Input;
use crate::sessions::Locked;
use crate::shared::Server;
use crate::statement::{count_of, one};
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use arrow_schema::SchemaRef;
use nyala_sql::{Outcome, column_type, quoted_name};
use std::sync::atomic::Ordering;
use tonic::Status;

/// What the protocol allows to be said about the table.
struct Ways {
    may_create: bool,
    may_append: bool,
    may_replace: bool,
}

impl Server {
    /// Ingests rows; how many they were.
    pub(crate) async fn ingest(
        &self,
        caller: &Caller,
        command: &CommandStatementIngest,
        input: &mut Input,
    ) -> Result<i64, Status> {
        self.counts.statements.fetch_add(1, Ordering::Relaxed);
        self.try_ingest(caller, command, input).await.inspect_err(|_| self.counts.failed())
    }

    async fn try_ingest(
        &self,
        caller: &Caller,
        command: &CommandStatementIngest,
        input: &mut Input,
    ) -> Result<i64, Status> {
        let ways = Ways::of(command)?;
        let schema = input.schema().await?;
        let schema = schema.ok_or_else(|| Status::invalid_argument("the rows have no columns"))?;
        let definitions = definitions(&schema)?;
        let using = self.using(caller, command.transaction_id.as_deref())?;
        let mut session = using.lock().await?;
        let table = name_of(command, &session);
        if session.is_in_transaction() && (ways.may_create || ways.may_replace) {
            let words = "a table cannot be created inside a transaction: create it before, and append";
            return Err(Status::unimplemented(words));
        }
        self.make_table(&mut session, &ways, &table, &definitions).await?;
        let columns: Vec<String> = schema.fields().iter().map(|field| quoted_name(field.name())).collect();
        let copy = format!("COPY {table} ({}) FROM STDIN", columns.join(", "));
        let prepared = session.prepare(one(&copy)?, &[]).await.map_err(|error| status_of(&error))?;
        let outcome = session.execute(&prepared, Vec::new()).await.map_err(|error| status_of(&error))?;
        let Outcome::CopyIn(mut into) = outcome else {
            return Err(Status::internal("a COPY takes no rows"));
        };
        let mut first = 1;
        loop {
            let next = tokio::select! {
                biased;
                error = into.stopped() => return Err(status_of(&error)),
                next = input.next() => next?,
            };
            let Some(rows) = next else { break };
            let written = into.write_columns(rows.columns(), rows.num_rows(), first).await;
            written.map_err(|error| status_of(&error))?;
            first += rows.num_rows() as u64;
        }
        let mut none = into.rows().map_err(|error| status_of(&error))?;
        let tag = into.finish(&mut session, &mut none).await.map_err(|error| status_of(&error))?;
        session.done();
        Ok(count_of(tag.rows))
    }

    /// Sees to it that there is a table that rows may be appended to.
    async fn make_table(
        &self,
        session: &mut Locked,
        ways: &Ways,
        table: &str,
        definitions: &[String],
    ) -> Result<(), Status> {
        if ways.may_replace {
            // The old rows are lost only if a table for the new ones follows.
            if !ways.may_create && !is_there(session, table).await {
                return Err(Status::not_found(format!("relation {table} does not exist")));
            }
            execute(session, &format!("DROP TABLE IF EXISTS {table}")).await?;
        }
        if ways.may_create || ways.may_replace {
            // What is there may be a measurement, which a table would hide.
            match is_there(session, table).await {
                true if ways.may_append => {}
                true => return Err(Status::already_exists(format!("relation {table} already exists"))),
                false => {
                    let unless = if ways.may_append { "IF NOT EXISTS " } else { "" };
                    let columns = definitions.join(", ");
                    execute(session, &format!("CREATE TABLE {unless}{table} ({columns})")).await?;
                }
            }
        } else if !ways.may_append {
            return Err(Status::already_exists(format!("{table} exists, and rows may not be appended")));
        }
        Ok(())
    }
}

async fn is_there(session: &mut Locked, table: &str) -> bool {
    match one(&format!("SELECT * FROM {table} LIMIT 0")) {
        Ok(statement) => session.prepare(statement, &[]).await.is_ok(),
        Err(_) => false,
    }
}

async fn execute(session: &mut Locked, text: &str) -> Result<(), Status> {
    let prepared = session.prepare(one(text)?, &[]).await.map_err(|error| status_of(&error))?;
    session.execute(&prepared, Vec::new()).await.map(drop).map_err(|error| status_of(&error))
}

impl Ways {
    fn of(command: &CommandStatementIngest) -> Result<Self, Status> {
        if command.temporary {
            return Err(Status::unimplemented("a temporary table: it would end with this call"));
        }
        if let Some(name) = command.options.keys().next() {
            return Err(Status::unimplemented(format!("the option \"{name}\" of an ingest is not known")));
        }
        let options = command.table_definition_options.unwrap_or_default();
        let (missing, existing) = (options.if_not_exist(), options.if_exists());
        Ok(Self {
            may_create: missing == TableNotExistOption::Create,
            // What says nothing appends.
            may_append: matches!(existing, TableExistsOption::Append | TableExistsOption::Unspecified),
            may_replace: existing == TableExistsOption::Replace,
        })
    }
}

/// The name of the table with its database and schema.
fn name_of(command: &CommandStatementIngest, session: &Locked) -> String {
    let given = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    let (catalog, schema) = (given(&command.catalog), given(&command.schema));
    let table = quoted_name(&command.table);
    match (catalog, schema) {
        (Some(catalog), Some(schema)) => {
            format!("{}.{}.{table}", quoted_name(&catalog), quoted_name(&schema))
        }
        (Some(catalog), None) if catalog != session.database() => {
            format!("{}.public.{table}", quoted_name(&catalog))
        }
        (_, Some(schema)) => format!("{}.{table}", quoted_name(&schema)),
        _ => table,
    }
}

/// The columns of a table that can have such rows.
fn definitions(schema: &SchemaRef) -> Result<Vec<String>, Status> {
    let fields = schema.fields().iter();
    let defined = fields.map(|field| {
        let name = field.name();
        let of = column_type(field.data_type()).ok_or_else(|| {
            let of = field.data_type();
            Status::unimplemented(format!(
                "column \"{name}\": no column of a table has values of the type {of}"
            ))
        })?;
        let null = if field.is_nullable() { "" } else { " NOT NULL" };
        Ok(format!("{} {of}{null}", quoted_name(name)))
    });
    defined.collect()
}
