//! The objects of a database that somebody may see: schemas, relations, keys and constraints.

use super::column_default::ColumnDefault;
use super::deparse::{Style, condition_text};
use super::oid::DATABASE_OWNER;
use super::oid::{INFORMATION_SCHEMA_SCHEMA, OWNER, PG_CATALOG_SCHEMA, PUBLIC_SCHEMA, Taken};
use super::system_table::{self, INFORMATION_SCHEMA, PG_CATALOG, SystemTable};
use super::viewer::Viewer;
use crate::expression::parsed;
use crate::identifier::{PUBLIC, TEMPORARY_SCHEMA, is_temporary_schema, quoted};
use datafusion::sql::sqlparser::ast::Expr;
use nyala_core::ColumnId;
use nyala_db::relations::{Body, Key, Relation, TEMPORARY, TableDefinition};
use std::collections::HashMap;
use std::sync::Arc;

/// The objects of a database.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) schemas: Vec<Schema>,
    pub(crate) objects: Vec<Object>,
    pub(crate) constraints: Vec<Constraint>,
    /// How expressions are shown, with all parentheses.
    pub(super) style: Style,
    by_oid: HashMap<u32, usize>,
    /// The policy whose measurements need no prefix.
    default_policy: String,
}

/// A schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schema {
    pub(crate) oid: u32,
    pub(crate) name: String,
    /// The role that owns it.
    pub(crate) owner: u32,
}

/// A relation in the sense of PostgreSQL: what has columns.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) oid: u32,
    /// The number of its schema.
    pub(crate) namespace: u32,
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) kind: ObjectKind,
}

/// What it is.
#[derive(Debug, Clone)]
pub(crate) enum ObjectKind {
    System(&'static SystemTable),
    Table(Arc<Relation>),
    View(Arc<Relation>),
    Sequence(Arc<Relation>),
    Measurement,
    Index(TableIndex),
}

/// The key of a table, or an index beside it.
#[derive(Debug, Clone)]
pub(crate) struct TableIndex {
    /// The number of the table.
    pub(crate) table: u32,
    pub(crate) relation: Arc<Relation>,
    /// The positions of its columns, beginning with 1.
    pub(crate) columns: Vec<i16>,
    pub(crate) is_unique: bool,
    pub(crate) is_primary: bool,
}

/// What kind of constraint one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConstraintKind {
    PrimaryKey,
    Unique,
    Check,
}

/// A constraint of a table.
#[derive(Debug, Clone)]
pub(crate) struct Constraint {
    pub(crate) oid: u32,
    pub(crate) name: String,
    /// The number of its table.
    pub(crate) table: u32,
    /// The positions of its columns, beginning with 1.
    pub(crate) columns: Vec<i16>,
    pub(crate) kind: ConstraintKind,
    /// The number of the index that it is kept by; `None`: it is a check.
    pub(crate) index: Option<u32>,
    /// What it says.
    text: ConstraintText,
}

/// What a constraint says.
#[derive(Debug, Clone)]
enum ConstraintText {
    /// That of a key, as it is written in SQL.
    Key(String),
    /// Which of the checks of a table it is.
    Check(Arc<Relation>, usize),
}

impl Objects {
    /// The objects of a database, which need not exist.
    pub(crate) fn of(viewer: &Viewer, database: &str) -> Self {
        let mut taken = Taken::default();
        let schema = |oid, name: &str, owner| Schema { oid, name: name.to_owned(), owner };
        let mut all = Self {
            schemas: vec![
                schema(PG_CATALOG_SCHEMA, PG_CATALOG, OWNER),
                schema(INFORMATION_SCHEMA_SCHEMA, INFORMATION_SCHEMA, OWNER),
            ],
            objects: Vec::new(),
            constraints: Vec::new(),
            style: viewer.style(),
            by_oid: HashMap::new(),
            default_policy: String::new(),
        };
        for table in system_table::all().filter(|table| !table.is_function) {
            let namespace =
                if table.schema == PG_CATALOG { PG_CATALOG_SCHEMA } else { INFORMATION_SCHEMA_SCHEMA };
            all.add(table.oid, namespace, table.schema, table.name, ObjectKind::System(table));
        }
        let known = viewer.catalog.database(database).filter(|_| viewer.may_see(database));
        let Some(known) = known else { return all };
        all.default_policy.clone_from(&known.default_policy);
        all.schemas.push(schema(PUBLIC_SCHEMA, PUBLIC, DATABASE_OWNER));
        let seen = viewer.uncommitted.above(viewer.catalog.relations());
        let relations = seen.of(database);
        all.add_relations(&mut taken, (PUBLIC_SCHEMA, PUBLIC), &relations);
        let temporary = if database == viewer.database { seen.of(TEMPORARY) } else { Vec::new() };
        if !temporary.is_empty() {
            let oid = taken.take("schema", &[TEMPORARY]);
            all.schemas.push(schema(oid, TEMPORARY_SCHEMA, OWNER));
            all.add_relations(&mut taken, (oid, TEMPORARY_SCHEMA), &temporary);
        }
        for policy in &known.policies {
            let namespace = match &*policy.name {
                PUBLIC => PUBLIC_SCHEMA,
                name => {
                    let oid = taken.take("schema", &[database, name]);
                    all.schemas.push(schema(oid, name, OWNER));
                    oid
                }
            };
            for name in viewer.catalog.measurement_names(database, &policy.name) {
                // In a policy of the name `public` tables hide measurements.
                if namespace == PUBLIC_SCHEMA && relations.iter().any(|relation| relation.name == name) {
                    continue;
                }
                let oid = taken.take("measurement", &[database, &policy.name, &name]);
                all.add(oid, namespace, &policy.name, &name, ObjectKind::Measurement);
            }
        }
        all
    }

    fn add(&mut self, oid: u32, namespace: u32, schema: &str, name: &str, kind: ObjectKind) {
        self.by_oid.insert(oid, self.objects.len());
        let (schema, name) = (schema.to_owned(), name.to_owned());
        self.objects.push(Object { oid, namespace, schema, name, kind });
    }

    /// Adds all relations of a schema.
    fn add_relations(&mut self, taken: &mut Taken, schema: (u32, &str), relations: &[Arc<Relation>]) {
        for relation in relations {
            let oid = taken.take("relation", &[&relation.database, &relation.name]);
            let own = relation.clone();
            let kind = match &relation.definition.body {
                Body::Table(_) => ObjectKind::Table(own),
                Body::View(_) => ObjectKind::View(own),
                Body::Sequence(_) => ObjectKind::Sequence(own),
            };
            self.add(oid, schema.0, schema.1, &relation.name, kind);
            if let Some(table) = relation.table() {
                self.add_constraints(taken, schema, oid, relation, table);
            }
        }
    }

    fn add_constraints(
        &mut self,
        taken: &mut Taken,
        (namespace, schema): (u32, &str),
        table_oid: u32,
        relation: &Arc<Relation>,
        table: &TableDefinition,
    ) {
        let database = &*relation.database;
        let key = match &table.key {
            Key::Declared { name, columns } => Some((name, columns, Some(ConstraintKind::PrimaryKey), true)),
            Key::Hidden { .. } => None,
        };
        let others = table.indexes.iter().map(|index| {
            let kind = index.is_constraint.then_some(ConstraintKind::Unique);
            (&index.name, &index.columns, kind, index.is_unique)
        });
        for (name, ids, kind, is_unique) in key.into_iter().chain(others) {
            let oid = taken.take("index", &[database, &relation.name, name]);
            let columns = positions(table, ids);
            let index = TableIndex {
                table: table_oid,
                relation: relation.clone(),
                columns: columns.clone(),
                is_unique,
                is_primary: kind == Some(ConstraintKind::PrimaryKey),
            };
            self.add(oid, namespace, schema, name, ObjectKind::Index(index));
            let Some(kind) = kind else { continue };
            let words = if kind == ConstraintKind::Unique { "UNIQUE" } else { "PRIMARY KEY" };
            self.constraints.push(Constraint {
                oid: taken.take("constraint", &[database, &relation.name, name]),
                name: name.clone(),
                table: table_oid,
                text: ConstraintText::Key(format!("{words} ({})", names(table, &columns).join(", "))),
                columns,
                kind,
                index: Some(oid),
            });
        }
        for (place, check) in table.checks.iter().enumerate() {
            let named = |name: &str| names_in(&check.expression).any(|own| own == name);
            let columns = table.columns.iter().zip(1..).filter(|(column, _)| named(&column.name));
            self.constraints.push(Constraint {
                oid: taken.take("constraint", &[database, &relation.name, &check.name]),
                name: check.name.clone(),
                table: table_oid,
                columns: columns.map(|(_, place)| place).collect(),
                kind: ConstraintKind::Check,
                index: None,
                text: ConstraintText::Check(relation.clone(), place),
            });
        }
    }

    /// A default or a condition of a table without the parentheses that it does not need. `text` is it with all of them;
    /// of two with one text the first is meant.
    pub(crate) fn pretty(&self, table: u32, text: &str) -> Option<String> {
        let pretty = Style { is_pretty: true, ..self.style };
        let own = self.by_oid(table)?.relation()?.table()?;
        let defaults = own.columns.iter().filter_map(ColumnDefault::of);
        let mut defaults = defaults.filter(|own| own.shown(&self.style) == text);
        let mut checks = self.constraints.iter().filter(|own| own.table == table);
        let default = defaults.next().map(|own| own.shown(&pretty));
        default.or_else(|| {
            let check = checks.find(|own| own.condition(&self.style).as_deref() == Some(text));
            check.and_then(|own| own.condition(&pretty))
        })
    }

    /// The object with a number.
    pub(crate) fn by_oid(&self, oid: u32) -> Option<&Object> {
        self.by_oid.get(&oid).map(|place| &self.objects[*place])
    }

    /// Whether a table has a key or an index.
    pub(crate) fn has_index(&self, table: u32) -> bool {
        self.objects.iter().any(|own| own.index().is_some_and(|index| index.table == table))
    }

    /// The schema with a number.
    pub(crate) fn schema(&self, oid: u32) -> Option<&Schema> {
        self.schemas.iter().find(|schema| schema.oid == oid)
    }

    /// The object that a name means, with or without a schema.
    pub(crate) fn find(&self, schema: Option<&str>, name: &str) -> Option<&Object> {
        let of = |schema: &str| self.objects.iter().find(|own| own.schema == schema && own.name == name);
        match schema {
            Some(schema) if is_temporary_schema(schema) => of(TEMPORARY_SCHEMA),
            Some(schema) => of(schema),
            None => [TEMPORARY_SCHEMA, PG_CATALOG, PUBLIC, &self.default_policy].into_iter().find_map(of),
        }
    }

    /// Whether an object is what its name means without a schema.
    pub(crate) fn is_visible(&self, object: &Object) -> bool {
        match &*object.schema {
            PG_CATALOG | TEMPORARY_SCHEMA => true,
            PUBLIC if !self.schemas.iter().any(|own| own.name == TEMPORARY_SCHEMA) => true,
            schema => {
                (schema == PUBLIC || schema == self.default_policy)
                    && self.find(None, &object.name).is_some_and(|found| found.oid == object.oid)
            }
        }
    }

    /// The name of an object, with its schema where that is needed.
    pub(crate) fn shown(&self, object: &Object) -> String {
        let name = quoted(&object.name);
        if self.is_visible(object) { name } else { format!("{}.{name}", quoted(&object.schema)) }
    }
}

impl Constraint {
    /// The condition of a check, as PostgreSQL shows it, or as it was written.
    pub(super) fn condition(&self, style: &Style) -> Option<String> {
        let ConstraintText::Check(relation, place) = &self.text else { return None };
        let table = relation.table()?;
        let written = &table.checks.get(*place)?.expression;
        let Ok(parsed) = parsed(written) else { return Some(written.clone()) };
        let columns = table.columns.iter().map(|own| (&*own.name, own.declared_type));
        let as_written = || match (without_parentheses(&parsed), style.is_pretty) {
            (own, true) => own.to_string(),
            (own, false) => format!("({own})"),
        };
        Some(condition_text(&parsed, columns, style).unwrap_or_else(as_written))
    }

    /// It as it is written in SQL.
    pub(super) fn definition(&self, style: &Style) -> String {
        match &self.text {
            ConstraintText::Key(text) => text.clone(),
            ConstraintText::Check(..) => format!("CHECK ({})", self.condition(style).unwrap_or_default()),
        }
    }
}

impl Object {
    /// It as an index.
    pub(crate) fn index(&self) -> Option<&TableIndex> {
        match &self.kind {
            ObjectKind::Index(index) => Some(index),
            _ => None,
        }
    }

    /// The relation that it is, or whose index it is.
    pub(crate) fn relation(&self) -> Option<&Arc<Relation>> {
        match &self.kind {
            ObjectKind::Table(own)
            | ObjectKind::View(own)
            | ObjectKind::Sequence(own)
            | ObjectKind::Index(TableIndex { relation: own, .. }) => Some(own),
            ObjectKind::System(_) | ObjectKind::Measurement => None,
        }
    }

    /// The letter of its kind in `pg_class`.
    pub(crate) fn letter(&self) -> &'static str {
        match &self.kind {
            ObjectKind::System(table) if table.is_view => "v",
            ObjectKind::System(_) | ObjectKind::Table(_) | ObjectKind::Measurement => "r",
            ObjectKind::View(_) => "v",
            ObjectKind::Sequence(_) => "S",
            ObjectKind::Index(_) => "i",
        }
    }

    /// Whether it is temporary.
    pub(crate) fn is_temporary(&self) -> bool {
        self.schema == TEMPORARY_SCHEMA
    }

    /// Whether it is part of the system.
    pub(crate) fn is_system(&self) -> bool {
        matches!(self.kind, ObjectKind::System(_))
    }
}

impl TableIndex {
    /// The names of its columns, as they are written in SQL.
    pub(crate) fn names(&self) -> Vec<String> {
        self.relation.table().map_or_else(Vec::new, |table| names(table, &self.columns))
    }
}

/// The positions of columns, beginning with 1.
fn positions(table: &TableDefinition, ids: &[ColumnId]) -> Vec<i16> {
    let place = |id: &ColumnId| table.columns.iter().position(|column| column.id == *id);
    ids.iter().filter_map(place).filter_map(|place| i16::try_from(place + 1).ok()).collect()
}

/// The names of the columns at some positions, as they are written in SQL.
fn names(table: &TableDefinition, positions: &[i16]) -> Vec<String> {
    positions.iter().map(|place| quoted(&table.columns[*place as usize - 1].name)).collect()
}

/// The words in an expression that may be names of columns.
fn names_in(expression: &str) -> impl Iterator<Item = &str> {
    expression.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
}

/// A condition without parentheses around all of it, which a dump writes.
fn without_parentheses(mut condition: &Expr) -> &Expr {
    while let Expr::Nested(inner) = condition {
        condition = inner;
    }
    condition
}
