//! Statements about continuous queries; what they do is in [`crate::continuous`].

use super::in_full::select_in_full;
use super::show::{table, text_column};
use super::{Answer, Chunks};
use crate::influxql::{CreateContinuousQuery, Statement};
use crate::plan::QueryContext;
use nyala_core::Result;
use nyala_db::catalog::ContinuousQuery;
use nyala_db::users::Privilege;

pub(super) async fn create(create: &CreateContinuousQuery, context: &QueryContext) -> Result<Answer> {
    context.catalog.existing_database(&create.database)?;
    // What names no database or policy means those of now, whatever becomes the default later.
    let within = QueryContext {
        database: create.database.clone(),
        retention_policy: String::new(),
        ..QueryContext::clone(context)
    };
    let mut full = create.clone();
    full.select = select_in_full(&create.select, &within);
    let text = Statement::CreateContinuousQuery(Box::new(full)).to_string();
    let query = ContinuousQuery { name: create.name.clone(), text };
    context.catalog.create_continuous_query(&create.database, query).await?;
    Ok(Answer::Done)
}

/// Those of the databases that may be read.
pub(super) fn show(context: &QueryContext) -> Answer {
    let mut databases = context.catalog.databases();
    databases.retain(|database| context.rights.may(Privilege::Read, &database.name));
    let frames = databases.iter().map(|database| {
        let queries = &database.continuous_queries;
        let columns = vec![
            ("name", text_column(queries.iter().map(|query| &query.name))),
            ("query", text_column(queries.iter().map(|query| &query.text))),
        ];
        table(&database.name, columns)
    });
    Answer::Rows(frames.collect(), Chunks::Whole)
}
