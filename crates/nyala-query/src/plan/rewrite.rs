//! The first phase of planning: finds the sources, expands wildcards, gives references their types.
//!
//! Inner queries come first, because names of the outer query refer to columns and tags of the inner one.

use super::QueryContext;
use super::condition::split_time;
use super::expression::compile_regex;
use super::hint;
use super::rewritten::{Rewritten, RewrittenSource};
use super::types::{stronger, type_of, type_of_name};
use crate::influxql::{Call, DataType, Expr, VarRef, Wildcard};
use crate::influxql::{Field, MeasurementName, Select, Source};
use nyala_core::{Error, Result, TimeRange};
use nyala_db::catalog::{Field as StoredField, Measurement};
use nyala_db::series::TagFilter;
use nyala_exec::ValueType;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

/// The most columns and dimensions of one statement.
const COLUMNS_MAX: usize = 1 << 14;
/// The most look-ups of names in measurements, over all measurements.
const LOOKUPS_MAX: usize = 1 << 22;

/// Rewrites a statement.
pub async fn rewrite(select: Select, context: &QueryContext) -> Result<Rewritten> {
    rewrite_within(select, None, context).await
}

/// Rewrites a statement. `outer_ns`: the time range of the outermost statement, ns; `None` if this is the outermost. A
/// field that no shard within that range has is no field, for inner queries either.
fn rewrite_within(
    mut select: Select,
    outer_ns: Option<(i64, i64)>,
    context: &QueryContext,
) -> Pin<Box<dyn Future<Output = Result<Rewritten>> + Send + '_>> {
    Box::pin(async move {
        let (time_ns, mut condition) = split_time(&select, context.now_ns)?;
        let outer_ns = outer_ns.unwrap_or(time_ns);
        let (mut sources, mut pins) = (Vec::new(), Vec::new());
        let written = std::mem::take(&mut select.sources);
        let is_only = written.len() == 1;
        let has_wildcard = select.has_field_wildcard() || select.has_dimension_wildcard();
        // Arithmetic between incompatible fields is an error, but not with names that are no fields.
        let is_operation = |part: &Expr| matches!(part, Expr::Binary(_));
        let computes = select.fields.iter().any(|field| field.expr.any(is_operation));
        for source in written {
            match source {
                Source::Subquery(inner) => {
                    let inner = rewrite_within(*inner, Some(outer_ns), context).await?;
                    sources.push(RewrittenSource::Subquery(Box::new(inner)));
                }
                Source::Measurement(named) => {
                    let found = find_measurements(&named, context).await?;
                    let shows_types = select.has_field_wildcard() || computes || !is_only || found.len() != 1;
                    for measurement in found {
                        if has_wildcard && measurement.has_evicted_series() {
                            // The tag keys of series that are not in memory are needed below.
                            let range = TimeRange::new(outer_ns.0, outer_ns.1.saturating_add(1));
                            let all = &TagFilter::All;
                            pins.push(context.catalog.reload_series(&measurement, range, all).await?);
                        }
                        let fields = visible_fields(&measurement, shows_types, outer_ns).await?;
                        sources.push(RewrittenSource::Measurement(measurement, fields));
                    }
                }
            }
        }
        check_size(&select, &sources)?;
        let time_column = take_time_fields(&mut select);
        select.fields.iter_mut().for_each(|field| give_types(&mut field.expr, &sources));
        if let Some(condition) = &mut condition {
            give_types(condition, &sources);
        }
        let hint = hint::of_condition(condition.as_ref(), &sources);
        if has_wildcard {
            expand_wildcards(&mut select, &sources)?;
            check_size(&select, &sources)?;
        }
        let types = OnceLock::new();
        Ok(Rewritten { select, time_ns, condition, sources, time_column, hint, types })
    })
}

/// The fields of a measurement as a query sees them. Shards are looked at only if that may change the answer.
async fn visible_fields(
    measurement: &Measurement,
    shows_types: bool,
    (first_ns, last_ns): (i64, i64),
) -> Result<Arc<Vec<StoredField>>> {
    let fields = measurement.fields();
    // Fields are in the order of their names.
    let has_several_types = || fields.windows(2).any(|pair| pair[0].name == pair[1].name);
    match shows_types || has_several_types() {
        true => measurement.fields_between(first_ns, last_ns).await,
        false => Ok(fields),
    }
}

/// Refuses statements that would take too long to plan: every name is looked up in every source, and compared with all
/// others.
fn check_size(select: &Select, sources: &[RewrittenSource]) -> Result<()> {
    let (columns, sources) = (select.fields.len() + select.dimensions.len(), sources.len());
    if columns > COLUMNS_MAX {
        return Err(Error::limit(format!(
            "{columns} columns in one query, where at most {COLUMNS_MAX} may be: select fewer"
        )));
    }
    let is_wildcard = select.has_field_wildcard() || select.has_dimension_wildcard();
    if !is_wildcard && columns.saturating_mul(sources) > LOOKUPS_MAX {
        return Err(Error::limit(format!(
            "{columns} columns of {sources} measurements in one query: select fewer at once"
        )));
    }
    Ok(())
}

/// The measurements that a source names.
pub async fn find_measurements(
    named: &crate::influxql::Measurement,
    context: &QueryContext,
) -> Result<Vec<Arc<Measurement>>> {
    let database = named.database.as_deref().unwrap_or(&context.database);
    if database.is_empty() {
        return Err(Error::invalid("database name required"));
    }
    let catalog = &context.catalog;
    let known = catalog.existing_database(database)?;
    let policy = named.retention_policy.as_deref().unwrap_or(&context.retention_policy);
    let policy = known.existing_policy(policy)?.name.clone();
    match &named.name {
        MeasurementName::Name(name) => {
            Ok(catalog.measurement(database, &policy, name).await?.into_iter().collect())
        }
        MeasurementName::Regex(regex) => {
            let regex = compile_regex(regex)?;
            let mut all = catalog.measurements(database, &policy).await?;
            all.retain(|measurement| regex.is_match(measurement.name().as_bytes()));
            Ok(all)
        }
    }
}

/// Removes `time` from the fields: it only names the time column, which always exists. Here, unlike in
/// conditions, the case of the name matters: a field may be called `Time`.
fn take_time_fields(select: &mut Select) -> String {
    let mut name = "time".to_owned();
    select.fields.retain(|field| match &field.expr {
        Expr::VarRef(reference) if reference.name == "time" => {
            if let Some(alias) = &field.alias {
                name.clone_from(alias);
            }
            false
        }
        _ => true,
    });
    name
}

/// Gives each name in an expression its type, if a source knows it.
pub fn give_types(expr: &mut Expr, sources: &[RewrittenSource]) {
    match expr {
        Expr::VarRef(reference) => {
            if matches!(reference.data_type, None | Some(DataType::AnyField)) {
                let found = type_of_name(sources, &reference.name);
                if !(found == Some(DataType::Tag) && reference.data_type == Some(DataType::AnyField)) {
                    reference.data_type = found;
                }
            }
        }
        Expr::Binary(binary) => {
            give_types(&mut binary.lhs, sources);
            give_types(&mut binary.rhs, sources);
        }
        Expr::Call(call) => call.args.iter_mut().for_each(|argument| give_types(argument, sources)),
        Expr::Paren(inner) => give_types(inner, sources),
        _ => {}
    }
}

/// All fields with their types, and all tag keys. Columns of inner queries that refer to nothing have no
/// type.
fn names_of(sources: &[RewrittenSource]) -> (BTreeMap<String, Option<DataType>>, BTreeSet<String>) {
    let (mut fields, mut tags) = (BTreeMap::new(), BTreeSet::new());
    let mut add = |name: &str, found: Option<DataType>| {
        let known = fields.entry(name.to_owned()).or_default();
        *known = stronger(found, *known);
    };
    for source in sources {
        match source {
            RewrittenSource::Measurement(measurement, stored) => {
                for field in stored.iter() {
                    add(&field.name, Some(DataType::of(ValueType::of_field(field.field_type))));
                }
                tags.extend(measurement.tag_keys());
            }
            RewrittenSource::Subquery(inner) => {
                for field in &inner.select.fields {
                    add(&field.name(), type_of(&inner.sources, &field.expr));
                }
                tags.extend(inner.group_tags().map(str::to_owned));
            }
        }
    }
    (fields, tags)
}

fn expand_wildcards(select: &mut Select, sources: &[RewrittenSource]) -> Result<()> {
    let (fields, mut tags) = names_of(sources);
    let mut references: Vec<VarRef> =
        fields.into_iter().map(|(name, data_type)| VarRef { name, data_type }).collect();
    if !select.has_dimension_wildcard() {
        for dimension in &select.dimensions {
            if let Expr::VarRef(reference) = dimension {
                tags.remove(&reference.name);
            }
        }
        if !references.is_empty() {
            references
                .extend(tags.iter().map(|tag| VarRef { name: tag.clone(), data_type: Some(DataType::Tag) }));
        }
    }
    references.sort_by(|a, b| a.name.cmp(&b.name).then(a.data_type.cmp(&b.data_type)));
    let mut expanded = Vec::with_capacity(select.fields.len() + references.len());
    for field in std::mem::take(&mut select.fields) {
        expand_field(field, &references, &mut expanded)?;
    }
    select.fields = expanded;
    let mut dimensions = Vec::with_capacity(select.dimensions.len());
    for dimension in std::mem::take(&mut select.dimensions) {
        match &dimension {
            Expr::Wildcard(_) => dimensions.extend(tags.iter().map(Expr::var)),
            Expr::Regex(regex) => {
                let regex = compile_regex(regex)?;
                dimensions.extend(tags.iter().filter(|tag| regex.is_match(tag.as_bytes())).map(Expr::var));
            }
            _ => dimensions.push(dimension),
        }
    }
    select.dimensions = dimensions;
    Ok(())
}

fn expand_field(field: Field, references: &[VarRef], expanded: &mut Vec<Field>) -> Result<()> {
    let plain = |reference: &VarRef| Field { expr: Expr::VarRef(reference.clone()), alias: None };
    let is_tag = |reference: &VarRef| reference.data_type == Some(DataType::Tag);
    match &field.expr {
        Expr::Wildcard(wildcard) => {
            let included = references.iter().filter(|reference| match wildcard {
                Wildcard::All => true,
                Wildcard::Fields => !is_tag(reference),
                Wildcard::Tags => is_tag(reference),
            });
            expanded.extend(included.map(plain));
        }
        Expr::Regex(regex) => {
            let regex = compile_regex(regex)?;
            expanded.extend(
                references.iter().filter(|reference| regex.is_match(reference.name.as_bytes())).map(plain),
            );
        }
        Expr::Call(call) => match innermost_argument(call) {
            (inner, Some(Expr::Wildcard(Wildcard::Tags))) => {
                return Err(Error::invalid(format!("unable to use tag wildcard in {}()", inner.name)));
            }
            (inner, Some(argument @ (Expr::Wildcard(_) | Expr::Regex(_)))) => {
                let regex = match argument {
                    Expr::Regex(regex) => Some(compile_regex(regex)?),
                    _ => None,
                };
                for reference in references.iter().filter(|reference| expands_to(&inner.name, reference)) {
                    if regex.as_ref().is_none_or(|regex| regex.is_match(reference.name.as_bytes())) {
                        let mut expr = field.expr.clone();
                        replace_innermost(&mut expr, reference);
                        let alias = format!("{}_{}", field.name(), reference.name);
                        expanded.push(Field { expr, alias: Some(alias) });
                    }
                }
            }
            _ => expanded.push(field),
        },
        Expr::Binary(_) if field.expr.any(|part| matches!(part, Expr::Wildcard(_))) => {
            return Err(Error::invalid(format!("unsupported expression with wildcard: {}", field.expr)));
        }
        Expr::Binary(_) if field.expr.any(|part| matches!(part, Expr::Regex(_))) => {
            return Err(Error::invalid(format!("unsupported expression with regex field: {}", field.expr)));
        }
        _ => expanded.push(field),
    }
    Ok(())
}

fn innermost_argument(call: &Call) -> (&Call, Option<&Expr>) {
    match call.args.first() {
        Some(Expr::Call(inner)) => innermost_argument(inner),
        argument => (call, argument),
    }
}

fn replace_innermost(expr: &mut Expr, reference: &VarRef) {
    if let Expr::Call(call) = expr {
        match call.args.first_mut() {
            Some(inner @ Expr::Call(_)) => replace_innermost(inner, reference),
            Some(argument) => *argument = Expr::VarRef(reference.clone()),
            None => {}
        }
    }
}

/// Whether a wildcard argument of a function includes a reference.
fn expands_to(function: &str, reference: &VarRef) -> bool {
    match reference.data_type {
        Some(DataType::Float | DataType::Integer) => true,
        Some(DataType::Unsigned) => !function.starts_with("holt_winters"),
        Some(DataType::String) => {
            matches!(function, "count" | "first" | "last" | "distinct" | "elapsed" | "mode" | "sample")
        }
        Some(DataType::Boolean) => matches!(
            function,
            "count" | "first" | "last" | "distinct" | "elapsed" | "mode" | "sample" | "min" | "max"
        ),
        _ => false,
    }
}
