//! ALTER MEASUREMENT, and what DRY RUN says of it. InfluxDB has neither.

use super::changes::count_frame;
use super::show::{table, text_column};
use super::{Answer, Chunks, database_of};
use crate::influxql::{AlterMeasurement, DataType, MeasurementAlteration, MeasurementName};
use crate::plan::QueryContext;
use arrow_array::Int64Array;
use nyala_core::{Error, Result};
use nyala_db::catalog::{AlterCounts, AlteredMeasurement, FieldType, MeasurementChange, RetentionPolicy};
use nyala_exec::Column;

/// Alters a measurement. The answer to another type for a field is how many values were converted.
pub(super) async fn alter(alter: &AlterMeasurement, context: &QueryContext) -> Result<Answer> {
    let (altered, change) = (altered(alter, context)?, change(&alter.alteration)?);
    let check = || context.check_running();
    let converted = context.catalog.alter_measurement(altered, &change, &check).await?;
    Ok(match change {
        MeasurementChange::FieldType { .. } => {
            let columns = vec![("converted", Some(converted as i64))];
            Answer::Rows(vec![count_frame(altered.name, columns)], Chunks::Whole)
        }
        _ => Answer::Done,
    })
}

/// Counts the series, points and shards that the statement would concern, by retention policy.
pub(super) async fn would_alter(alter: &AlterMeasurement, context: &QueryContext) -> Result<Answer> {
    let altered = altered(alter, context)?;
    let counted = context
        .catalog
        .would_alter(altered, &change(&alter.alteration)?, &|| context.check_running())
        .await?;
    let numbers = |of: fn(&AlterCounts) -> u64| {
        Column::Integer(Int64Array::from_iter_values(counted.iter().map(|counts| of(counts) as i64)))
    };
    let columns = vec![
        ("policy", text_column(counted.iter().map(|counts| &counts.policy))),
        ("series", numbers(|counts| counts.series)),
        ("points", numbers(|counts| counts.points)),
        ("shards", numbers(|counts| counts.shards)),
    ];
    Ok(Answer::Rows(vec![table(altered.name, columns)], Chunks::Whole))
}

/// The aliases of the measurements of a database.
pub(super) fn show_aliases(database: Option<&str>, context: &QueryContext) -> Result<Answer> {
    let database = context.catalog.existing_database(database_of(database, context)?)?;
    let of_policy = |policy: &RetentionPolicy| {
        let aliases = context.catalog.aliases(&database.name, &policy.name).into_iter();
        let policy = policy.name.clone();
        aliases.map(move |(alias, meaning)| [policy.clone(), alias, meaning.to_string()])
    };
    let rows: Vec<[String; 3]> = database.policies.iter().flat_map(of_policy).collect();
    let column = |place: usize| text_column(rows.iter().map(|row| &row[place]));
    let columns = vec![("policy", column(0)), ("alias", column(1)), ("measurement", column(2))];
    Ok(Answer::Rows(
        if rows.is_empty() { Vec::new() } else { vec![table("aliases", columns)] },
        Chunks::Whole,
    ))
}

fn altered<'a>(alter: &'a AlterMeasurement, context: &'a QueryContext) -> Result<AlteredMeasurement<'a>> {
    let written = &alter.measurement;
    let database = database_of(written.database.as_deref(), context)?;
    let MeasurementName::Name(name) = &written.name else {
        return Err(Error::invalid("ALTER MEASUREMENT alters one measurement, which is named"));
    };
    Ok(AlteredMeasurement { database, policy: written.retention_policy.as_deref(), name })
}

fn change(alteration: &MeasurementAlteration) -> Result<MeasurementChange> {
    use MeasurementAlteration as A;
    Ok(match alteration.clone() {
        A::Rename { to, keeps_alias } => MeasurementChange::Rename { to, keeps_alias },
        A::RenameField { from, to } => MeasurementChange::RenameField { from, to },
        A::RenameTag { from, to } => MeasurementChange::RenameTag { from, to },
        A::FieldType { field, data_type } => {
            let to = match data_type {
                DataType::Float => FieldType::Float,
                DataType::Integer => FieldType::Integer,
                DataType::Unsigned => FieldType::Unsigned,
                DataType::String => FieldType::String,
                DataType::Boolean => FieldType::Boolean,
                DataType::Tag | DataType::AnyField => {
                    return Err(Error::invalid(format!("{} is no type of a field", data_type.as_str())));
                }
            };
            MeasurementChange::FieldType { field, to }
        }
        A::AddAlias(alias) => MeasurementChange::AddAlias(alias),
        A::DropAlias(alias) => MeasurementChange::DropAlias(alias),
    })
}
