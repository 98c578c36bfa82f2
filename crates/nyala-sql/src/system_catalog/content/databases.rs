//! Databases and schemas.

use super::Scope;
use crate::system_catalog::cell::Row;
use crate::system_catalog::objects::Schema;
use crate::system_catalog::oid::{DEFAULT_TABLESPACE, OWNER};

/// PostgreSQL's number of UTF-8.
const UTF8: i32 = 6;
/// How texts are compared: by their bytes.
const LOCALE: &str = "C.UTF-8";

pub(super) fn databases(scope: &Scope<'_>) -> Vec<Row> {
    let row = |(oid, name): (u32, String)| {
        vec![
            ("oid", oid.into()),
            ("datname", name.into()),
            ("datdba", OWNER.into()),
            ("encoding", UTF8.into()),
            ("datlocprovider", "c".into()),
            ("datallowconn", true.into()),
            ("datconnlimit", (-1).into()),
            ("dattablespace", DEFAULT_TABLESPACE.into()),
            ("datcollate", LOCALE.into()),
            ("datctype", LOCALE.into()),
        ]
    };
    scope.viewer.databases().into_iter().map(row).collect()
}

pub(super) fn namespaces(scope: &Scope<'_>) -> Vec<Row> {
    let row = |own: &Schema| {
        vec![("oid", own.oid.into()), ("nspname", (&own.name).into()), ("nspowner", own.owner.into())]
    };
    scope.objects.schemas.iter().map(row).collect()
}

pub(super) fn tablespaces() -> Vec<Row> {
    let row = |(oid, name): (u32, &str)| {
        vec![("oid", oid.into()), ("spcname", name.into()), ("spcowner", OWNER.into())]
    };
    [(DEFAULT_TABLESPACE, "pg_default"), (DEFAULT_TABLESPACE + 1, "pg_global")].map(row).into()
}
