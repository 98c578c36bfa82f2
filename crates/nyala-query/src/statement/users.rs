//! Statements about users and their rights.

use super::show::{table, text_column};
use super::{Answer, Chunks};
use crate::influxql::{self, CreateUser};
use crate::plan::QueryContext;
use arrow_array::BooleanArray;
use nyala_core::Result;
use nyala_db::users::{Privilege, Rights};
use nyala_exec::Column;

pub(super) async fn create(create: &CreateUser, context: &QueryContext) -> Result<Answer> {
    let first = matches!(context.rights, Rights::FirstAdmin);
    context.catalog.users().create(&create.name, &create.password, create.admin, first).await?;
    Ok(Answer::Done)
}

pub(super) async fn drop_user(name: &str, context: &QueryContext) -> Result<Answer> {
    context.catalog.users().drop_user(name, keeps_admin(context)).await?;
    Ok(Answer::Done)
}

pub(super) async fn set_password(user: &str, password: &str, context: &QueryContext) -> Result<Answer> {
    context.catalog.users().set_password(user, password).await?;
    Ok(Answer::Done)
}

pub(super) async fn set_admin(user: &str, admin: bool, context: &QueryContext) -> Result<Answer> {
    context.catalog.users().set_admin(user, admin, keeps_admin(context)).await?;
    Ok(Answer::Done)
}

/// Whether the last administrator must stay, because authentication is on.
fn keeps_admin(context: &QueryContext) -> bool {
    !matches!(context.rights, Rights::Open)
}

pub(super) async fn grant(
    privilege: influxql::Privilege,
    database: &str,
    user: &str,
    context: &QueryContext,
) -> Result<Answer> {
    context.catalog.change_grant(user, database, |_| stored(privilege)).await?;
    Ok(Answer::Done)
}

pub(super) async fn revoke(
    privilege: influxql::Privilege,
    database: &str,
    user: &str,
    context: &QueryContext,
) -> Result<Answer> {
    context.catalog.change_grant(user, database, |held| held.without(stored(privilege))).await?;
    Ok(Answer::Done)
}

fn stored(privilege: influxql::Privilege) -> Privilege {
    match privilege {
        influxql::Privilege::Read => Privilege::Read,
        influxql::Privilege::Write => Privilege::Write,
        influxql::Privilege::All => Privilege::All,
    }
}

pub(super) fn show(context: &QueryContext) -> Answer {
    let users = context.catalog.users().all();
    let admins: Vec<bool> = users.iter().map(|user| user.is_admin()).collect();
    let columns = vec![
        ("user", text_column(users.iter().map(|user| user.name()))),
        ("admin", Column::Boolean(BooleanArray::from(admins))),
    ];
    Answer::Rows(vec![table("", columns)], Chunks::Whole)
}

pub(super) fn show_grants(user: &str, context: &QueryContext) -> Result<Answer> {
    let user = context.catalog.users().existing(user)?;
    let columns = vec![
        ("database", text_column(user.grants().keys())),
        ("privilege", text_column(user.grants().values().map(|privilege| privilege.name()))),
    ];
    Ok(Answer::Rows(vec![table("", columns)], Chunks::Whole))
}
