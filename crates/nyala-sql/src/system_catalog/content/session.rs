//! What the session that asks keeps by name.

use super::Scope;
use crate::system_catalog::builtin_type::shown_type;
use crate::system_catalog::cell::{Cell, Row};
use crate::system_catalog::viewer::{KeptCursor, KeptStatement};
use arrow_schema::{DataType, Field};

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
