//! The settings of the session.

use super::Scope;
use crate::system_catalog::cell::Row;

pub(super) fn settings(scope: &Scope<'_>) -> Vec<Row> {
    let row = |(name, value): (&'static str, &str)| {
        vec![
            ("name", name.into()),
            ("setting", value.into()),
            ("category", "Client Connection Defaults".into()),
            ("short_desc", "".into()),
            ("context", "user".into()),
            ("vartype", "string".into()),
            ("source", "session".into()),
            ("boot_val", value.into()),
            ("reset_val", value.into()),
            ("pending_restart", false.into()),
        ]
    };
    scope.viewer.settings().all().map(row).collect()
}
