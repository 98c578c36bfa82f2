//! SHOW USERS and SHOW GRANTS.

use super::show::{table, text_column};
use super::{Answer, Chunks};
use crate::plan::QueryContext;
use arrow_array::BooleanArray;
use nyala_core::Result;
use nyala_exec::Column;

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
