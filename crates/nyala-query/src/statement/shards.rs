//! SHOW SHARDS and SHOW SHARD GROUPS. A group has one shard here, and both have the same number.

use super::show::{table, text_column};
use super::{Answer, Chunks};
use crate::influxql::TimeLiteral;
use crate::plan::QueryContext;
use arrow_array::Int64Array;
use nyala_core::Result;
use nyala_db::catalog::Shard;
use nyala_exec::Column;

/// A table for each database, also for one without shards.
pub(super) async fn show(context: &QueryContext) -> Result<Answer> {
    let all = context.catalog.shards().await?;
    let frames = context.catalog.databases().into_iter().map(|database| {
        let own: Vec<&Shard> = all.iter().filter(|shard| shard.database == database.name).collect();
        let (numbers, mut columns) = (numbers(&own), columns(&own));
        columns.insert(3, ("shard_group", numbers));
        columns.push(("owners", text_column(own.iter().map(|_| ""))));
        table(&database.name, columns)
    });
    Ok(Answer::Rows(frames.collect(), Chunks::Whole))
}

pub(super) async fn show_groups(context: &QueryContext) -> Result<Answer> {
    let all = context.catalog.shards().await?;
    let frame = table("shard groups", columns(&all.iter().collect::<Vec<_>>()));
    Ok(Answer::Rows(vec![frame], Chunks::Whole))
}

fn columns(shards: &[&Shard]) -> Vec<(&'static str, Column)> {
    let time = |time_ns: &dyn Fn(&Shard) -> i128| {
        text_column(shards.iter().map(|shard| TimeLiteral::utc(time_ns(shard)).to_rfc3339_seconds()))
    };
    vec![
        ("id", numbers(shards)),
        ("database", text_column(shards.iter().map(|shard| &shard.database))),
        ("retention_policy", text_column(shards.iter().map(|shard| &shard.policy.name))),
        ("start_time", time(&|shard| shard.range.start_ns.into())),
        ("end_time", time(&|shard| shard.range.end_ns.into())),
        // As in InfluxDB, a policy that keeps points for ever shows an expiry as if points expired at once.
        ("expiry_time", time(&|shard| i128::from(shard.range.end_ns) + i128::from(shard.policy.duration_ns))),
    ]
}

fn numbers(shards: &[&Shard]) -> Column {
    Column::Integer(Int64Array::from_iter_values(shards.iter().map(|shard| shard.id as i64)))
}
