//! CREATE TOKEN, SHOW TOKENS, SET QUOTA and SHOW QUOTAS.

use super::show::{table, text_column};
use super::{Answer, Chunks, granted};
use crate::influxql::{CreateToken, Expiry, TimeLiteral};
use crate::plan::QueryContext;
use arrow_array::Int64Array;
use nyala_core::{Error, Result};
use nyala_db::users::{NewToken, QuotaKind};
use nyala_exec::Column;

/// The answer is the only place where the secret is ever shown.
pub(super) async fn create(create: &CreateToken, context: &QueryContext) -> Result<Answer> {
    let expires_ns = match create.expires {
        None => None,
        Some(Expiry::At(unix_ns)) => Some(unix_ns),
        Some(Expiry::In(duration_ns)) => {
            let too_late = || Error::invalid("the token would expire later than times go");
            Some(context.now_ns.checked_add(duration_ns).ok_or_else(too_late)?)
        }
    };
    let scope = create.scope.iter().map(|(database, privilege)| (database.clone(), granted(*privilege)));
    let new = NewToken {
        name: create.name.clone(),
        user: create.user.clone(),
        scope: scope.collect(),
        created_ns: context.now_ns,
        expires_ns,
    };
    let secret = context.catalog.create_token(&new).await?;
    let columns = vec![
        ("name", text_column([&new.name])),
        ("user", text_column([&new.user])),
        ("token", text_column([&secret])),
        ("expires", text_column([shown_expiry(expires_ns)])),
    ];
    Ok(Answer::Rows(vec![table("", columns)], Chunks::Whole))
}

pub(super) fn show(context: &QueryContext) -> Answer {
    let all = context.catalog.users().all_tokens();
    let used = |used_ns: Option<i64>| used_ns.map_or_else(String::new, shown_time);
    let columns = vec![
        ("name", text_column(all.iter().map(|token| &token.name))),
        ("user", text_column(all.iter().map(|token| &token.user))),
        ("allows", text_column(all.iter().map(|token| &token.scope))),
        ("created", text_column(all.iter().map(|token| shown_time(token.created_ns)))),
        ("expires", text_column(all.iter().map(|token| shown_expiry(token.expires_ns)))),
        ("last_used", text_column(all.iter().map(|token| used(token.used_ns)))),
    ];
    Answer::Rows(vec![table("", columns)], Chunks::Whole)
}

pub(super) async fn set_quota(user: &str, limits: &[(String, u64)], context: &QueryContext) -> Result<()> {
    let changes = limits.iter().map(|(name, most)| Ok((QuotaKind::named(name)?, *most)));
    context.catalog.users().set_quota(user, &changes.collect::<Result<Vec<_>>>()?).await
}

/// The quotas of those who have any.
pub(super) fn show_quotas(context: &QueryContext) -> Answer {
    let mut users = context.catalog.users().all();
    users.retain(|user| !user.quota().is_unlimited());
    let mut columns = vec![("user", text_column(users.iter().map(|user| user.name())))];
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    for kind in QuotaKind::ALL {
        let limits = users.iter().map(|user| number(user.quota().get(kind)));
        columns.push((kind.name(), Column::Integer(Int64Array::from_iter_values(limits))));
    }
    let running = users.iter().map(|user| number(user.meter().running()));
    columns.push(("running_queries", Column::Integer(Int64Array::from_iter_values(running))));
    Answer::Rows(vec![table("", columns)], Chunks::Whole)
}

fn shown_expiry(expires_ns: Option<i64>) -> String {
    expires_ns.map_or_else(|| "never".to_owned(), shown_time)
}

fn shown_time(unix_ns: i64) -> String {
    TimeLiteral::utc(unix_ns.into()).to_rfc3339_seconds()
}
