//! What is the same in every database: types, collations, access methods, languages.

use crate::keyword::{KEYWORDS, Keyword};
use crate::system_catalog::builtin_function::{BuiltinFunction, FUNCTIONS};
use crate::system_catalog::builtin_type::{BuiltinType, TYPES};
use crate::system_catalog::cell::{Cell, Row};
use crate::system_catalog::oid::{
    BTREE, DEFAULT_COLLATION, HEAP, INFORMATION_SCHEMA_SCHEMA, OWNER, PG_CATALOG_SCHEMA,
};
use crate::system_catalog::system_table::PG_CATALOG;

/// The language of functions that are part of the server.
const INTERNAL_LANGUAGE: u32 = 12;

pub(super) fn types() -> Vec<Row> {
    let row = |own: &BuiltinType| {
        let namespace =
            if own.namespace == PG_CATALOG { PG_CATALOG_SCHEMA } else { INFORMATION_SCHEMA_SCHEMA };
        let [input, output, receive, send, subscript, modifier_input, modifier_output, analyze] =
            own.functions;
        vec![
            ("oid", own.oid.into()),
            ("typname", own.name.into()),
            ("typnamespace", namespace.into()),
            ("typowner", OWNER.into()),
            ("typlen", own.length.into()),
            ("typbyval", own.is_by_value.into()),
            ("typtype", own.kind.into()),
            ("typcategory", own.category.into()),
            ("typispreferred", own.is_preferred.into()),
            ("typisdefined", true.into()),
            ("typdelim", own.delimiter.into()),
            ("typsubscript", subscript.into()),
            ("typelem", own.element.into()),
            ("typarray", own.array.into()),
            ("typinput", input.into()),
            ("typoutput", output.into()),
            ("typreceive", receive.into()),
            ("typsend", send.into()),
            ("typmodin", modifier_input.into()),
            ("typmodout", modifier_output.into()),
            ("typanalyze", analyze.into()),
            ("typalign", own.alignment.into()),
            ("typstorage", own.storage.into()),
            ("typbasetype", own.base.into()),
            ("typtypmod", own.modifier.into()),
            ("typcollation", own.collation.into()),
        ]
    };
    TYPES.iter().map(row).collect()
}

pub(super) fn functions() -> Vec<Row> {
    let row = |own: &BuiltinFunction| {
        let optional = |all: Vec<Cell>| if all.is_empty() { Cell::Null } else { Cell::List(all) };
        let cells = |all: &[u32]| all.iter().map(|own| Cell::from(*own)).collect::<Vec<_>>();
        let texts = |all: &[&str]| all.iter().map(|own| Cell::from(*own)).collect::<Vec<_>>();
        let count = i16::try_from(own.arguments.len()).unwrap_or(i16::MAX);
        vec![
            ("oid", own.oid.into()),
            ("proname", own.name.into()),
            ("pronamespace", PG_CATALOG_SCHEMA.into()),
            ("proowner", OWNER.into()),
            ("prolang", INTERNAL_LANGUAGE.into()),
            ("procost", 1.0.into()),
            ("prorows", if own.gives_rows { 1000.0 } else { 0.0 }.into()),
            ("provariadic", own.variadic.into()),
            ("prokind", own.kind.into()),
            ("proisstrict", own.is_strict.into()),
            ("proretset", own.gives_rows.into()),
            ("provolatile", own.volatility.into()),
            ("proparallel", "s".into()),
            ("pronargs", count.into()),
            ("pronargdefaults", own.defaults.into()),
            ("prorettype", own.result.into()),
            ("proargtypes", Cell::List(cells(&own.arguments))),
            ("proallargtypes", optional(cells(&own.all_arguments))),
            ("proargmodes", optional(texts(&own.modes))),
            ("proargnames", optional(texts(&own.names))),
            ("prosrc", own.name.into()),
        ]
    };
    FUNCTIONS.iter().map(row).collect()
}

pub(super) fn access_methods() -> Vec<Row> {
    let row = |(oid, name, handler, kind): (u32, &str, &str, &str)| {
        vec![
            ("oid", oid.into()),
            ("amname", name.into()),
            ("amhandler", handler.into()),
            ("amtype", kind.into()),
        ]
    };
    [(HEAP, "heap", "heap_tableam_handler", "t"), (BTREE, "btree", "bthandler", "i")].map(row).into()
}

pub(super) fn collations() -> Vec<Row> {
    let row = |(oid, name, provider, locale): (u32, &str, &str, Option<&str>)| {
        vec![
            ("oid", oid.into()),
            ("collname", name.into()),
            ("collnamespace", PG_CATALOG_SCHEMA.into()),
            ("collowner", OWNER.into()),
            ("collprovider", provider.into()),
            ("collisdeterministic", true.into()),
            ("collencoding", (-1).into()),
            ("collcollate", locale.into()),
            ("collctype", locale.into()),
        ]
    };
    [
        (DEFAULT_COLLATION, "default", "d", None),
        (950, "C", "c", Some("C")),
        (951, "POSIX", "c", Some("POSIX")),
    ]
    .map(row)
    .into()
}

pub(super) fn languages() -> Vec<Row> {
    let row = |(oid, name, is_trusted): (u32, &str, bool)| {
        vec![
            ("oid", oid.into()),
            ("lanname", name.into()),
            ("lanowner", OWNER.into()),
            ("lanpltrusted", is_trusted.into()),
        ]
    };
    [(INTERNAL_LANGUAGE, "internal", false), (14, "sql", true)].map(row).into()
}

pub(super) fn keywords() -> Vec<Row> {
    let row = |(word, own): (&&'static str, &Keyword)| {
        let label = if own.is_bare_label { "can be bare label" } else { "requires AS" };
        vec![
            ("word", (*word).into()),
            ("catcode", own.category.into()),
            ("barelabel", own.is_bare_label.into()),
            ("catdesc", own.description().into()),
            ("baredesc", label.into()),
        ]
    };
    KEYWORDS.iter().map(row).collect()
}
