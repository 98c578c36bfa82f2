//! Adds the databases and retention policies that a statement does not name, as InfluxDB shows statements to people.

use crate::influxql::{Measurement, Select, Source, Statement};
use crate::plan::QueryContext;

/// The statement with full names.
pub fn with_full_names(statement: &Statement, context: &QueryContext) -> Statement {
    match statement {
        Statement::Select(select) => Statement::Select(Box::new(select_with_full_names(select, context))),
        other => other.clone(),
    }
}

/// The SELECT with full names, in its inner queries too.
pub fn select_with_full_names(select: &Select, context: &QueryContext) -> Select {
    let mut select = select.clone();
    if let Some(target) = &mut select.target {
        complete(&mut target.measurement, context);
    }
    for source in &mut select.sources {
        match source {
            Source::Measurement(measurement) => complete(measurement, context),
            Source::Subquery(inner) => **inner = select_with_full_names(inner, context),
        }
    }
    select
}

fn complete(measurement: &mut Measurement, context: &QueryContext) {
    let database = measurement.database.get_or_insert_with(|| context.database.clone());
    let known = context.catalog.database(database);
    if let Some(policy) = known.as_ref().and_then(|known| known.policy(&context.retention_policy)) {
        measurement.retention_policy.get_or_insert_with(|| policy.name.clone());
    }
}
