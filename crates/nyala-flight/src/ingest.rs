//! Bulk ingest: rows that a client sends become rows of a table, or points of a measurement, all at once.
//!
//! It is a COPY whose rows are Arrow arrays already: nobody sees a part of them, and each is checked as those of any other
//! COPY. If the client asks for it, the table is created first, with the columns that it sends.

use crate::caller::Caller;
use crate::error::status_of;
use crate::input::Input;
use crate::names::quoted;
use crate::sessions::Locked;
use crate::shared::Server;
use crate::statement::{count_of, one};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use arrow_schema::{DataType, SchemaRef};
use nyala_sql::{CopyIn, Outcome, column_type};
use std::sync::atomic::Ordering;
use tonic::Status;

/// Rows are written in pieces of so many, …
const PIECE_ROWS: usize = 1 << 15;
/// … or of about so many bytes: many rows may name the same long value.
const PIECE_BYTES: usize = 8 << 20;

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
        let columns: Vec<String> = schema.fields().iter().map(|field| quoted(field.name())).collect();
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
            write(&mut into, &rows, &mut first).await?;
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
    let table = quoted(&command.table);
    match (catalog, schema) {
        (Some(catalog), Some(schema)) => format!("{}.{}.{table}", quoted(&catalog), quoted(&schema)),
        (Some(catalog), None) if catalog != session.database() => {
            format!("{}.public.{table}", quoted(&catalog))
        }
        (_, Some(schema)) => format!("{}.{table}", quoted(&schema)),
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
        Ok(format!("{} {of}{null}", quoted(name)))
    });
    defined.collect()
}

/// Writes rows in pieces that take little memory as plain values.
async fn write(into: &mut CopyIn, rows: &RecordBatch, first: &mut u64) -> Result<(), Status> {
    let row_bytes: usize = rows.columns().iter().map(longest_shared).sum();
    let piece = (PIECE_BYTES / row_bytes.max(1)).clamp(1, PIECE_ROWS);
    let mut begin = 0;
    while begin < rows.num_rows() {
        let count = piece.min(rows.num_rows() - begin);
        let columns: Vec<ArrayRef> = rows.columns().iter().map(|column| column.slice(begin, count)).collect();
        into.write_columns(&columns, count, *first).await.map_err(|error| status_of(&error))?;
        *first += count as u64;
        begin += count;
    }
    Ok(())
}

/// The longest value of a column that rows may share.
fn longest_shared(values: &ArrayRef) -> usize {
    match values.data_type() {
        DataType::Dictionary(..) => longest(values.as_any_dictionary().values()),
        DataType::Utf8View | DataType::BinaryView => longest(values),
        _ => 0,
    }
}

fn longest(values: &ArrayRef) -> usize {
    let of_offsets = |offsets: &[i32]| offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize).max();
    let of_long_offsets = |offsets: &[i64]| offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize).max();
    let of_views = |views: &[u128]| views.iter().map(|view| *view as u32 as usize).max();
    let most = match values.data_type() {
        DataType::Utf8 => of_offsets(values.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => of_long_offsets(values.as_string::<i64>().value_offsets()),
        DataType::Binary => of_offsets(values.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => of_long_offsets(values.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => of_views(values.as_string_view().views()),
        DataType::BinaryView => of_views(values.as_binary_view().views()),
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).ok(),
        _ => None,
    };
    most.unwrap_or(0)
}
