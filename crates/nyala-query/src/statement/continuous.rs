//! Statements about continuous queries; [`crate::continuous`] runs these.

use super::full_names::select_with_full_names;
use super::show::{table, text_column};
use super::{Answer, Chunks};
use crate::influxql::{CreateContinuousQuery, Select, Source, Statement};
use crate::plan::QueryContext;
use nyala_core::{Error, Result};
use nyala_db::catalog::ContinuousQuery;
use nyala_db::users::Privilege;

pub(super) async fn create(create: &CreateContinuousQuery, context: &QueryContext) -> Result<()> {
    context.catalog.existing_database(&create.database)?;
    // A name without database or policy means the default at creation, whatever becomes the default later.
    let within = QueryContext {
        database: create.database.clone(),
        retention_policy: String::new(),
        ..QueryContext::clone(context)
    };
    let mut full = create.clone();
    full.select = select_with_full_names(&create.select, &within);
    // All databases are looked up first, as in InfluxDB.
    each_place(&full.select, &mut |database, _| context.catalog.existing_database(database).map(drop))?;
    each_place(&full.select, &mut |database, policy| {
        let known = context.catalog.existing_database(database)?;
        let policy = policy.unwrap_or(&known.default_policy);
        match known.policies.iter().any(|own| own.name == policy) {
            true => Ok(()),
            false => Err(Error::missing(format!("retention policy not found: {database}.{policy}"))),
        }
    })?;
    let text = Statement::CreateContinuousQuery(Box::new(full)).to_string();
    let query = ContinuousQuery { name: create.name.clone(), text };
    context.catalog.create_continuous_query(&create.database, query).await
}

/// Visits the database and retention policy that a SELECT with full names writes to, and those it reads.
fn each_place(select: &Select, visit: &mut dyn FnMut(&str, Option<&str>) -> Result<()>) -> Result<()> {
    let target = select.target.iter().map(|target| &target.measurement);
    let mut inner = Vec::new();
    let sources = select.sources.iter().filter_map(|source| match source {
        Source::Measurement(measurement) => Some(measurement),
        Source::Subquery(select) => {
            inner.push(select);
            None
        }
    });
    for measurement in target.chain(sources) {
        let database = measurement.database.as_deref().unwrap_or("");
        visit(database, measurement.retention_policy.as_deref())?;
    }
    inner.into_iter().try_for_each(|select| each_place(select, visit))
}

/// The continuous queries of the databases that the user may read.
pub(super) fn show(context: &QueryContext) -> Answer {
    let mut databases = context.catalog.databases();
    databases.retain(|database| context.principal.may(Privilege::Read, &database.name));
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
