//! Names of databases, schemas and tables, as `pg_catalog` and `information_schema` have them.

use crate::answer::batches_of;
use crate::caller::Caller;
use crate::error::{internal, status_of};
use crate::shared::Server;
use crate::statement::one;
use crate::wire_type::wire_schema;
use arrow_array::cast::AsArray;
use arrow_array::{RecordBatch, StringArray};
use arrow_flight::sql::{CommandGetDbSchemas, CommandGetTables};
use arrow_schema::{DataType, Schema};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use nyala_sql::{Outcome, Rows, Session, quoted_name, quoted_text};
use std::sync::Arc;
use tonic::Status;

const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";
const SYSTEM_TABLE: &str = "SYSTEM TABLE";
/// The types of tables.
pub(super) const TABLE_TYPES: [&str; 3] = [SYSTEM_TABLE, TABLE, VIEW];

/// The schemas of the system.
const SYSTEM_SCHEMAS: [&str; 2] = ["pg_catalog", "information_schema"];
/// So many tables are described at once.
const TABLES_AT_ONCE: usize = 256;

/// The rows of a query about the catalogue.
pub(super) async fn ask(session: &mut Session, text: &str) -> Result<Rows, Status> {
    let prepared = session.prepare(one(text)?, &[]).await.map_err(|error| status_of(&error))?;
    match session.execute(&prepared, Vec::new()).await.map_err(|error| status_of(&error))? {
        Outcome::Rows(rows) => Ok(rows),
        _ => Err(Status::internal("a query about the catalogue gives no rows")),
    }
}

/// A column of texts.
pub(super) fn texts(rows: &RecordBatch, column: usize) -> Result<StringArray, Status> {
    let texts = arrow_cast::cast(rows.column(column), &DataType::Utf8).map_err(internal)?;
    Ok(texts.as_string::<i32>().clone())
}

/// The databases that somebody may see.
pub(super) async fn databases(server: &Arc<Server>, caller: &Caller) -> Result<Vec<String>, Status> {
    let mut session = caller.session(server)?;
    let mut rows = ask(&mut session, "SELECT datname FROM pg_catalog.pg_database ORDER BY datname").await?;
    let mut names = Vec::new();
    while let Some(batch) = rows.next().await.map_err(|error| status_of(&error))? {
        let own = texts(&batch, 0)?;
        names.extend(own.iter().flatten().filter(|name| !name.is_empty()).map(str::to_owned));
    }
    Ok(names)
}

/// Those of them that a command is about.
async fn databases_in(
    server: &Arc<Server>,
    caller: &Caller,
    catalog: Option<&String>,
) -> Result<Vec<String>, Status> {
    let mut names = databases(server, caller).await?;
    names.retain(|name| catalog.is_none_or(|only| only == name));
    Ok(names)
}

/// The schemas of databases.
pub(super) async fn schemas(
    server: &Arc<Server>,
    caller: &Caller,
    asked: CommandGetDbSchemas,
) -> Result<Result<RecordBatch, arrow_schema::ArrowError>, Status> {
    let databases = databases_in(server, caller, asked.catalog.as_ref()).await?;
    let mut builder = asked.into_builder();
    for database in databases {
        let mut session = caller.session_in(server, &database)?;
        let text = "SELECT nspname FROM pg_catalog.pg_namespace ORDER BY nspname";
        let mut rows = ask(&mut session, text).await?;
        while let Some(batch) = rows.next().await.map_err(|error| status_of(&error))? {
            texts(&batch, 0)?.iter().flatten().for_each(|schema| builder.append(&database, schema));
        }
    }
    Ok(builder.build().map_err(super::FromExternal::from_external))
}

/// The tables of databases, some of them at once.
pub(super) async fn tables(
    server: Arc<Server>,
    caller: Caller,
    asked: CommandGetTables,
) -> Result<impl Stream<Item = Result<RecordBatch, Status>> + Send + use<>, Status> {
    let databases = databases_in(&server, &caller, asked.catalog.as_ref()).await?;
    let asked = Arc::new(asked);
    let all = stream::iter(databases).then(move |database| {
        let (server, caller, asked) = (server.clone(), caller.clone(), asked.clone());
        async move { tables_of(&server, &caller, database, asked).await }
    });
    Ok(all.try_flatten())
}

/// The tables of a database.
async fn tables_of(
    server: &Arc<Server>,
    caller: &Caller,
    database: String,
    asked: Arc<CommandGetTables>,
) -> Result<impl Stream<Item = Result<RecordBatch, Status>> + Send + use<>, Status> {
    let like = |column: &str, pattern: &Option<String>| match pattern {
        Some(pattern) => format!("{column} LIKE {}", quoted_text(pattern)),
        None => "true".to_owned(),
    };
    // The order that the protocol wants within a catalogue.
    let text = format!(
        "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE {} AND {} \
         ORDER BY table_schema, table_name",
        like("table_schema", &asked.db_schema_filter_pattern),
        like("table_name", &asked.table_name_filter_pattern),
    );
    let mut session = caller.session_in(server, &database)?;
    let rows = batches_of(ask(&mut session, &text).await?);
    let pieces = rows.map_ok(|rows| {
        let begins = (0..rows.num_rows()).step_by(TABLES_AT_ONCE);
        let pieces: Vec<_> =
            begins.map(|begin| Ok(rows.slice(begin, TABLES_AT_ONCE.min(rows.num_rows() - begin)))).collect();
        stream::iter(pieces)
    });
    let session = Arc::new(tokio::sync::Mutex::new(session));
    let database: Arc<str> = database.into();
    Ok(pieces.try_flatten().and_then(move |rows| {
        let (session, database, asked) = (session.clone(), database.clone(), asked.clone());
        async move { described(&mut *session.lock().await, &database, &asked, &rows).await }
    }))
}

/// Some tables, with their columns if these are asked for.
async fn described(
    session: &mut Session,
    database: &str,
    asked: &CommandGetTables,
    rows: &RecordBatch,
) -> Result<RecordBatch, Status> {
    let (schemas, names, kinds) = (texts(rows, 0)?, texts(rows, 1)?, texts(rows, 2)?);
    let mut builder = asked.clone().into_builder();
    let none = Arc::new(Schema::empty());
    for row in 0..rows.num_rows() {
        let (schema, name) = (schemas.value(row), names.value(row));
        let kind = match kinds.value(row) {
            _ if SYSTEM_SCHEMAS.contains(&schema) => SYSTEM_TABLE,
            "VIEW" => VIEW,
            _ => TABLE,
        };
        let is_wanted = asked.table_types.is_empty() || asked.table_types.iter().any(|own| own == kind);
        if !is_wanted {
            continue;
        }
        let columns = match asked.include_schema {
            true => {
                let text = format!(
                    "SELECT * FROM {}.{}.{}",
                    quoted_name(database),
                    quoted_name(schema),
                    quoted_name(name)
                );
                match session.prepare(one(&text)?, &[]).await {
                    Ok(prepared) => prepared.columns.as_ref().map(|columns| wire_schema(columns)),
                    // It was dropped meanwhile, or is a view of something that was.
                    Err(_) => None,
                }
            }
            false => None,
        };
        let columns = columns.unwrap_or_else(|| none.clone());
        builder.append(database, schema, name, kind, &columns).map_err(internal)?;
    }
    builder.build().map_err(internal)
}
