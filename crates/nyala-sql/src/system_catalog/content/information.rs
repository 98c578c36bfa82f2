//! The views of `information_schema`.

use super::classes::{owner, view_text};
use super::{Scope, information_columns, relations, yes_or_no};
use crate::system_catalog::cell::Row;
use crate::system_catalog::objects::{Constraint, ConstraintKind, Object, ObjectKind, Schema};
use crate::system_catalog::system_table::PG_CATALOG;

pub(super) async fn rows(name: &str, scope: &Scope<'_>) -> Vec<Row> {
    match name {
        "character_sets" => vec![vec![
            ("character_set_name", "UTF8".into()),
            ("character_repertoire", "UCS".into()),
            ("form_of_use", "UTF8".into()),
            ("default_collate_catalog", scope.database.into()),
        ]],
        "check_constraints" => checks(scope),
        "collations" => collations(scope),
        "columns" => information_columns::columns(scope).await,
        "column_privileges" | "role_column_grants" => information_columns::privileges(scope).await,
        "constraint_column_usage" => column_usage(scope),
        "constraint_table_usage" => {
            let keys = constraints(scope).filter(|(_, own)| own.index.is_some());
            keys.map(|(table, own)| [of_table(scope, table), of_constraint(scope, table, own)].concat())
                .collect()
        }
        "enabled_roles" => {
            let roles = scope.viewer.roles().into_iter();
            roles.map(|role| vec![("role_name", role.name.into())]).collect()
        }
        "information_schema_catalog_name" => vec![vec![("catalog_name", scope.database.into())]],
        "key_column_usage" => key_columns(scope),
        "schemata" => schemata(scope),
        "sequences" => super::sequences::of_schema(scope),
        "tables" => tables(scope),
        "table_constraints" => table_constraints(scope),
        "table_privileges" | "role_table_grants" => privileges(scope),
        "views" => views(scope),
        _ => Vec::new(),
    }
}

fn of_table(scope: &Scope<'_>, table: &Object) -> Row {
    vec![
        ("table_catalog", scope.database.into()),
        ("table_schema", (&table.schema).into()),
        ("table_name", (&table.name).into()),
    ]
}

fn of_constraint(scope: &Scope<'_>, table: &Object, own: &Constraint) -> Row {
    vec![
        ("constraint_catalog", scope.database.into()),
        ("constraint_schema", (&table.schema).into()),
        ("constraint_name", (&own.name).into()),
    ]
}

fn constraints<'a>(scope: &'a Scope<'_>) -> impl Iterator<Item = (&'a Object, &'a Constraint)> {
    let all = scope.objects.constraints.iter();
    all.filter_map(|own| Some((scope.objects.by_oid(own.table)?, own)))
}

/// The columns that have no NULLs: PostgreSQL shows them as checks whose names are numbers.
fn not_nulls<'a>(scope: &'a Scope<'_>) -> impl Iterator<Item = (&'a Object, String, &'a str)> {
    scope.objects().filter(|object| matches!(object.kind, ObjectKind::Table(_))).flat_map(|object| {
        let columns =
            object.relation().and_then(|own| own.table()).into_iter().flat_map(|table| &table.columns);
        columns.zip(1..).filter(|(column, _)| !column.nullable).map(move |(column, number)| {
            (object, format!("{}_{}_{number}_not_null", object.namespace, object.oid), &*column.name)
        })
    })
}

fn checks(scope: &Scope<'_>) -> Vec<Row> {
    let row = |table: &Object, name: &str, clause: String| {
        vec![
            ("constraint_catalog", scope.database.into()),
            ("constraint_schema", (&table.schema).into()),
            ("constraint_name", name.into()),
            ("check_clause", clause.into()),
        ]
    };
    let condition = |own: &Constraint| own.condition(&scope.objects.style);
    let mut rows: Vec<Row> = constraints(scope)
        .filter_map(|(table, own)| Some(row(table, &own.name, format!("({})", condition(own)?))))
        .collect();
    rows.extend(
        not_nulls(scope).map(|(table, name, column)| row(table, &name, format!("{column} IS NOT NULL"))),
    );
    rows
}

fn collations(scope: &Scope<'_>) -> Vec<Row> {
    let row = |name: &str| {
        vec![
            ("collation_catalog", scope.database.into()),
            ("collation_schema", PG_CATALOG.into()),
            ("collation_name", name.into()),
            ("pad_attribute", "NO PAD".into()),
        ]
    };
    ["default", "C", "POSIX"].map(row).into()
}

fn columns_of<'a>(table: &'a Object, own: &'a Constraint) -> impl Iterator<Item = (&'a str, i32)> {
    let columns =
        table.relation().and_then(|own| own.table()).map(|table| &table.columns[..]).unwrap_or_default();
    own.columns.iter().zip(1..).filter_map(|(place, number)| {
        let place = usize::try_from(*place).ok()?.checked_sub(1)?;
        Some((&*columns.get(place)?.name, number))
    })
}

fn column_usage(scope: &Scope<'_>) -> Vec<Row> {
    let rows = constraints(scope).flat_map(|(table, own)| {
        columns_of(table, own).map(move |(name, _)| {
            let column = vec![("column_name", name.into())];
            [of_table(scope, table), column, of_constraint(scope, table, own)].concat()
        })
    });
    rows.collect()
}

fn key_columns(scope: &Scope<'_>) -> Vec<Row> {
    let keys = constraints(scope).filter(|(_, own)| own.index.is_some());
    let rows = keys.flat_map(|(table, own)| {
        columns_of(table, own).map(move |(name, number)| {
            let column = vec![("column_name", name.into()), ("ordinal_position", number.into())];
            [of_constraint(scope, table, own), of_table(scope, table), column].concat()
        })
    });
    rows.collect()
}

fn schemata(scope: &Scope<'_>) -> Vec<Row> {
    let roles = scope.viewer.roles();
    let row = |own: &Schema| {
        let owner = roles.iter().find(|role| role.oid == own.owner).map(|role| role.name.clone());
        vec![
            ("catalog_name", scope.database.into()),
            ("schema_name", (&own.name).into()),
            ("schema_owner", owner.into()),
        ]
    };
    scope.objects.schemas.iter().map(row).collect()
}

fn tables(scope: &Scope<'_>) -> Vec<Row> {
    let may_write = scope.viewer.may_write(scope.database);
    let row = |object: &Object| {
        let kind = match object.letter() {
            _ if object.is_temporary() => "LOCAL TEMPORARY",
            "v" => "VIEW",
            _ => "BASE TABLE",
        };
        let is_changed_here = may_write && matches!(object.kind, ObjectKind::Table(_));
        let rest = vec![
            ("table_type", kind.into()),
            ("is_insertable_into", yes_or_no(is_changed_here).into()),
            ("is_typed", "NO".into()),
        ];
        [of_table(scope, object), rest].concat()
    };
    relations(scope).map(row).collect()
}

fn table_constraints(scope: &Scope<'_>) -> Vec<Row> {
    let rest = |kind: &str| {
        vec![
            ("constraint_type", kind.into()),
            ("is_deferrable", "NO".into()),
            ("initially_deferred", "NO".into()),
            ("enforced", "YES".into()),
        ]
    };
    let mut rows: Vec<Row> = constraints(scope)
        .map(|(table, own)| {
            let kind = match own.kind {
                ConstraintKind::PrimaryKey => "PRIMARY KEY",
                ConstraintKind::Unique => "UNIQUE",
                ConstraintKind::Check => "CHECK",
            };
            [of_constraint(scope, table, own), of_table(scope, table), rest(kind)].concat()
        })
        .collect();
    rows.extend(not_nulls(scope).map(|(table, name, _)| {
        let constraint = vec![
            ("constraint_catalog", scope.database.into()),
            ("constraint_schema", (&table.schema).into()),
            ("constraint_name", name.into()),
        ];
        [constraint, of_table(scope, table), rest("CHECK")].concat()
    }));
    rows
}

fn privileges(scope: &Scope<'_>) -> Vec<Row> {
    let (owner, user) = (owner(scope), &scope.viewer.user);
    let mut kinds = Vec::new();
    if scope.viewer.may_see(scope.database) {
        kinds.push("SELECT");
    }
    if scope.viewer.may_write(scope.database) {
        kinds.extend(["INSERT", "UPDATE", "DELETE", "TRUNCATE"]);
    }
    let relations = relations(scope).filter(|object| !object.is_system());
    let rows = relations.flat_map(|object| kinds.iter().map(move |kind| (object, *kind)));
    let row = |(object, kind): (&Object, &str)| {
        let rest = vec![
            ("privilege_type", kind.into()),
            ("is_grantable", "NO".into()),
            ("with_hierarchy", yes_or_no(kind == "SELECT").into()),
        ];
        let who = vec![("grantor", (&owner).into()), ("grantee", user.into())];
        [who, of_table(scope, object), rest].concat()
    };
    rows.map(row).collect()
}

fn views(scope: &Scope<'_>) -> Vec<Row> {
    let row = |object: &Object| {
        let view = object.relation().and_then(|own| own.view());
        let rest = vec![
            ("view_definition", view.map(|view| view_text(&view.query)).into()),
            ("check_option", "NONE".into()),
            ("is_updatable", "NO".into()),
            ("is_insertable_into", "NO".into()),
            ("is_trigger_updatable", "NO".into()),
            ("is_trigger_deletable", "NO".into()),
            ("is_trigger_insertable_into", "NO".into()),
        ];
        [of_table(scope, object), rest].concat()
    };
    relations(scope).filter(|object| object.letter() == "v").map(row).collect()
}
