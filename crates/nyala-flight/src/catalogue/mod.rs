//! What there is: databases, schemas, tables, keys, and what the server can do.
//!
//! A database is a catalogue; a schema is a retention policy, or that of tables (`public`). The system catalogue of SQL answers,
//! so everybody sees here what they see there.

mod keys;
mod names;
mod sql_info;
mod types;

use crate::answer::Answer;
use crate::caller::Caller;
use crate::error::internal;
use crate::shared::Server;
use arrow_array::RecordBatch;
use arrow_flight::sql::Command;
use arrow_schema::{ArrowError, SchemaRef};
use futures::stream;
use std::sync::Arc;
use tonic::Status;

/// The columns of what a command asks for; `None`: it asks for no part of the catalogue.
pub(crate) fn schema_of(command: &Command) -> Result<Option<SchemaRef>, Status> {
    Ok(Some(match command {
        Command::CommandGetCatalogs(asked) => asked.into_builder().schema(),
        Command::CommandGetDbSchemas(asked) => asked.clone().into_builder().schema(),
        Command::CommandGetTables(asked) => asked.clone().into_builder().schema(),
        Command::CommandGetTableTypes(asked) => asked.into_builder().schema(),
        Command::CommandGetPrimaryKeys(_) => keys::primary_schema(),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => keys::foreign_schema(),
        Command::CommandGetSqlInfo(asked) => {
            asked.clone().into_builder(&sql_info::all().map_err(internal)?).schema()
        }
        Command::CommandGetXdbcTypeInfo(asked) => {
            asked.into_builder(&types::all().map_err(internal)?).schema()
        }
        _ => return Ok(None),
    }))
}

/// The part of the catalogue that a command asks for; `None`: it asks for none.
pub(crate) async fn answer(
    server: &Arc<Server>,
    caller: Caller,
    command: Command,
) -> Result<Option<Answer>, Status> {
    let Some(schema) = schema_of(&command)? else { return Ok(None) };
    let ready = |rows: Result<RecordBatch, ArrowError>| {
        let rows = rows.map_err(internal)?;
        Ok(Some(Answer::of_batches(rows.schema(), stream::iter([Ok(rows)]))))
    };
    match command {
        Command::CommandGetCatalogs(asked) => {
            let mut builder = asked.into_builder();
            names::databases(server, &caller).await?.into_iter().for_each(|name| builder.append(name));
            ready(builder.build().map_err(ArrowError::from_external))
        }
        Command::CommandGetDbSchemas(asked) => ready(names::schemas(server, &caller, asked).await?),
        Command::CommandGetTables(asked) => {
            let batches = names::tables(server.clone(), caller, asked).await?;
            Ok(Some(Answer::of_batches(schema, batches)))
        }
        Command::CommandGetTableTypes(asked) => {
            let mut builder = asked.into_builder();
            names::TABLE_TYPES.iter().for_each(|name| builder.append(name));
            ready(builder.build().map_err(ArrowError::from_external))
        }
        Command::CommandGetPrimaryKeys(asked) => ready(Ok(keys::primary(server, &caller, &asked).await?)),
        Command::CommandGetSqlInfo(asked) => ready(
            asked
                .into_builder(&sql_info::all().map_err(internal)?)
                .build()
                .map_err(ArrowError::from_external),
        ),
        Command::CommandGetXdbcTypeInfo(asked) => ready(
            asked.into_builder(&types::all().map_err(internal)?).build().map_err(ArrowError::from_external),
        ),
        // There are no foreign keys.
        _ => Ok(Some(Answer::of_batches(schema, stream::empty()))),
    }
}

/// Errors of Flight as those of Arrow.
trait FromExternal {
    fn from_external(error: arrow_flight::error::FlightError) -> Self;
}

impl FromExternal for ArrowError {
    fn from_external(error: arrow_flight::error::FlightError) -> Self {
        ArrowError::ExternalError(Box::new(error))
    }
}
