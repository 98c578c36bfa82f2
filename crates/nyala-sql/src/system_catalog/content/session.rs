//! What the session that asks keeps by name, and what all sessions do and have locked.

use super::Scope;
use crate::sessions::OpenSession;
use crate::system_catalog::builtin_type::shown_type;
use crate::system_catalog::cell::{Cell, Row};
use crate::system_catalog::viewer::{KeptCursor, KeptStatement};
use crate::waits::{LockNumber, Mode, ShownLock};
use arrow_schema::{DataType, Field};
use nyala_core::env::{Clock, SystemClock};
use std::sync::Arc;

pub(super) fn cursors(scope: &Scope<'_>) -> Vec<Row> {
    let row = |own: KeptCursor| {
        vec![
            ("name", own.name.into()),
            ("statement", (&*own.text).into()),
            ("is_holdable", own.is_holdable.into()),
            ("is_binary", false.into()),
            ("is_scrollable", own.scrolls.into()),
            ("creation_time", Cell::Moment(own.declared_ns)),
        ]
    };
    (scope.viewer.kept)().cursors.into_iter().map(row).collect()
}

pub(super) fn prepared_statements(scope: &Scope<'_>) -> Vec<Row> {
    let shown = |own: &DataType| match own.is_decimal() {
        // How many digits a value has is not a part of its type.
        true => "numeric".to_owned(),
        false => shown_type(&Field::new("", own.clone(), true)),
    };
    let row = |own: KeptStatement| {
        vec![
            ("name", own.name.into()),
            ("statement", (&*own.text).into()),
            ("prepare_time", Cell::Moment(own.prepared_ns)),
            ("parameter_types", own.parameters.iter().map(shown).collect::<Vec<String>>().into()),
            ("from_sql", own.is_of_sql.into()),
            // A plan is made once, for all values.
            ("generic_plans", Cell::Null),
            ("custom_plans", Cell::Null),
        ]
    };
    (scope.viewer.kept)().statements.into_iter().map(row).collect()
}

/// The locks of sessions, in databases that the user may see.
pub(super) fn locks(scope: &Scope<'_>) -> Vec<Row> {
    let databases = scope.viewer.databases();
    let row = |own: ShownLock| {
        let (oid, _) = databases.iter().find(|(_, name)| **name == *own.key.database)?;
        // PostgreSQL shows the halves of a bigint as two numbers.
        let (class, object, sub) = match own.key.number {
            LockNumber::One(number) => ((number >> 32) as u32, number as u32, 1),
            LockNumber::Two(first, second) => (first as u32, second as u32, 2),
        };
        let mode = match own.mode {
            Mode::Shared => "ShareLock",
            Mode::Exclusive => "ExclusiveLock",
        };
        Some(vec![
            ("locktype", "advisory".into()),
            ("database", (*oid).into()),
            ("classid", class.into()),
            ("objid", object.into()),
            ("objsubid", sub.into()),
            ("pid", own.session.into()),
            ("mode", mode.into()),
            ("granted", own.is_granted.into()),
            ("fastpath", false.into()),
        ])
    };
    scope.viewer.waits.shown().into_iter().filter_map(row).collect()
}

/// `pg_stat_activity`: the sessions that the user may see. That of the catalogue is that of a moment.
pub(super) fn activity(scope: &Scope<'_>) -> Vec<Row> {
    let viewer = scope.viewer;
    let (databases, roles) = (viewer.databases(), viewer.roles());
    let now_ns = SystemClock.now_ns();
    let row = |own: Arc<OpenSession>| {
        let database = databases.iter().find(|(_, name)| *name == own.database).map(|(oid, _)| *oid);
        let role = roles.iter().find(|role| role.name == own.user).map(|role| role.oid);
        let query = own.query();
        let state = if query.is_some() { "active" } else { own.idle_state() };
        let begun_ns = query.as_ref().map(|query| now_ns - query.elapsed().as_nanos() as i64);
        vec![
            ("datid", database.into()),
            ("datname", (&own.database).into()),
            ("pid", own.number.into()),
            ("usesysid", role.into()),
            ("usename", (&own.user).into()),
            ("application_name", own.application().into()),
            ("client_addr", own.client.map(|address| address.to_string()).into()),
            ("backend_start", Cell::Moment(own.begun_ns)),
            ("query_start", begun_ns.map_or(Cell::Null, Cell::Moment)),
            ("state", state.into()),
            ("query", query.map_or_else(String::new, |query| query.text()).into()),
            ("backend_type", "client backend".into()),
        ]
    };
    viewer.sessions.seen_by(&viewer.principal).into_iter().map(row).collect()
}
