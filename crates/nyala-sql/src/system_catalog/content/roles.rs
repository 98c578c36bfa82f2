//! Roles: users, and the owner of everything.

use super::Scope;
use crate::system_catalog::cell::Row;
use crate::system_catalog::oid::OWNER;
use crate::system_catalog::viewer::Role;

/// Passwords are never shown.
const HIDDEN: &str = "********";

fn row(role: &Role, password: Option<&str>) -> Row {
    vec![
        ("oid", role.oid.into()),
        ("rolname", (&role.name).into()),
        ("rolsuper", role.is_super.into()),
        ("rolinherit", true.into()),
        ("rolcreaterole", role.is_super.into()),
        ("rolcreatedb", role.is_super.into()),
        ("rolcanlogin", role.can_log_in.into()),
        ("rolreplication", (role.oid == OWNER).into()),
        ("rolbypassrls", (role.oid == OWNER).into()),
        ("rolconnlimit", (-1).into()),
        ("rolpassword", password.into()),
    ]
}

pub(super) fn roles(scope: &Scope<'_>) -> Vec<Row> {
    scope.viewer.roles().iter().map(|role| row(role, Some(HIDDEN))).collect()
}

pub(super) fn authorization_ids(scope: &Scope<'_>) -> Vec<Row> {
    scope.viewer.roles().iter().map(|role| row(role, None)).collect()
}

/// `pg_user`
pub(super) fn users(scope: &Scope<'_>) -> Vec<Row> {
    let row = |role: &Role| {
        vec![
            ("usename", (&role.name).into()),
            ("usesysid", role.oid.into()),
            ("usecreatedb", role.is_super.into()),
            ("usesuper", role.is_super.into()),
            ("userepl", (role.oid == OWNER).into()),
            ("usebypassrls", (role.oid == OWNER).into()),
            ("passwd", HIDDEN.into()),
        ]
    };
    scope.viewer.roles().iter().filter(|role| role.can_log_in).map(row).collect()
}
