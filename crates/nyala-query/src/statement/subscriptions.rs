//! CREATE, DROP and SHOW SUBSCRIPTIONS.

use super::show::{table, text_column};
use super::{Answer, Chunks};
use crate::influxql::CreateSubscription;
use crate::plan::QueryContext;
use nyala_core::Result;
use nyala_db::catalog::Subscription;
use nyala_exec::Column;

pub(super) async fn create(create: &CreateSubscription, context: &QueryContext) -> Result<()> {
    let subscription = Subscription {
        policy: create.retention_policy.clone(),
        name: create.name.clone(),
        to_all: create.to_all,
        destinations: create.destinations.clone(),
    };
    context.catalog.create_subscription(&create.database, subscription).await
}

/// A table for each database that has subscriptions, sorted by policy as in InfluxDB.
pub(super) fn show(context: &QueryContext) -> Answer {
    let mut frames = Vec::new();
    for database in context.catalog.databases() {
        let of_policy = |policy: &str| {
            database.subscriptions.iter().filter(move |own| own.policy == policy).collect::<Vec<_>>()
        };
        let all: Vec<&Subscription> =
            database.policies.iter().flat_map(|policy| of_policy(&policy.name)).collect();
        if all.is_empty() {
            continue;
        }
        let columns = vec![
            ("retention_policy", text_column(all.iter().map(|own| &own.policy))),
            ("name", text_column(all.iter().map(|own| &own.name))),
            ("mode", text_column(all.iter().map(|own| own.mode()))),
            ("destinations", Column::of_lists(all.iter().map(|own| Some(own.destinations.clone())))),
        ];
        frames.push(table(&database.name, columns));
    }
    Answer::Rows(frames, Chunks::Whole)
}
