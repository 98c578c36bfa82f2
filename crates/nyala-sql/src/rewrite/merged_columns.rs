//! Columns of `JOIN … USING`, of which both sides have one, and the join one for both.
//!
//! The planner takes that of the left side, which right and full joins leave NULL; for `*` it takes that of the table whose
//! name sorts first. Such joins are written with ON, and what means the one column with its value. No definition is looked up
//! for that: where it would be needed, the statement is refused.

use crate::call::{call, exact};
use crate::error::{SqlError, SqlResult};
use crate::identifier::folded;
use crate::walk::each_expression_at_depth_mut;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator, ObjectName,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor,
    TableWithJoins, VisitMut, WildcardAdditionalOptions,
};

/// What `*` of a part of FROM stands for.
#[derive(Debug, Clone)]
enum Item {
    Merged(Box<Merged>),
    /// All columns of a table but some. It may have no name.
    Table {
        name: Option<ObjectName>,
        without: Vec<String>,
    },
}

/// A column of both sides of a join.
#[derive(Debug, Clone)]
struct Merged {
    name: String,
    value: Expr,
    /// Whether the planner would take another one.
    is_computed: bool,
}

/// What is known of a part of FROM.
#[derive(Debug, Default)]
struct Scope {
    items: Vec<Item>,
    /// Whether some of its columns are merged of which the tables are not known.
    has_unknown: bool,
    /// Whether the planner's `*` may have columns of the wrong side.
    is_misleading: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Both,
    Left,
    Right,
    Either,
}

/// Gives a query the columns that its joins mean.
///
/// # Errors
/// If definitions of tables would be needed for it.
pub(super) fn rewrite(query: &mut Query) -> SqlResult<()> {
    let SetExpr::Select(select) = &mut *query.body else { return rewrite_parts(&mut query.body) };
    let is_distinct = matches!(select.distinct, Some(Distinct::Distinct));
    let named: Vec<String> =
        select.projection.iter().filter_map(|item| output_name(item, is_distinct)).collect();
    let mut computed = rewrite_select(select)?;
    computed.0.retain(|own| !named.contains(&own.name));
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(order) = &mut order.kind
        && !computed.0.is_empty()
    {
        order.iter_mut().for_each(|own| computed.put_into(&mut own.expr));
    }
    Ok(())
}

/// The same for the parts of UNION and the like. Queries among them are visited by themselves.
fn rewrite_parts(body: &mut SetExpr) -> SqlResult<()> {
    match body {
        SetExpr::Select(select) => rewrite_select(select).map(drop),
        SetExpr::SetOperation { left, right, .. } => {
            rewrite_parts(left)?;
            rewrite_parts(right)
        }
        _ => Ok(()),
    }
}

/// The name of a column of an answer that ORDER BY means. Distinct rows are sorted by columns that they have.
fn output_name(item: &SelectItem, is_distinct: bool) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(own)) if is_distinct => Some(folded(own)),
        _ => None,
    }
}

/// The same for a SELECT. Returns the columns that the planner would have taken from elsewhere.
fn rewrite_select(select: &mut Select) -> SqlResult<Computed> {
    let mut computed = Computed::default();
    if !select.from.iter().any(merges) {
        return Ok(computed);
    }
    let scopes = select.from.iter_mut().map(Scope::of).collect::<SqlResult<Vec<_>>>()?;
    let items = || scopes.iter().flat_map(|scope| &scope.items);
    computed.0 = items().filter_map(Item::computed).cloned().collect();
    let is_plain = |item: &SelectItem| match item {
        SelectItem::Wildcard(options) => {
            options.opt_exclude.is_none() && options.opt_except.is_none() && options.opt_rename.is_none()
        }
        _ => true,
    };
    let is_expandable = scopes.iter().all(|scope| !scope.has_unknown)
        && items().all(|item| !matches!(item, Item::Table { name: None, .. }))
        && select.projection.iter().all(is_plain);
    let has_wildcard = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
    if has_wildcard && is_expandable {
        let all: Vec<SelectItem> = items().map(Item::selected).collect();
        let own = std::mem::take(&mut select.projection).into_iter();
        select.projection = own
            .flat_map(|item| if matches!(item, SelectItem::Wildcard(_)) { all.clone() } else { vec![item] })
            .collect();
    } else if has_wildcard && (!computed.0.is_empty() || scopes.iter().any(|scope| scope.is_misleading)) {
        return Err(refused("* of an outer join with USING"));
    }
    if !computed.0.is_empty() {
        computed.put_into_select(select);
    }
    Ok(computed)
}

/// Whether a part of FROM has joins that merge columns.
fn merges(from: &TableWithJoins) -> bool {
    let is_merging = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => merges(table_with_joins),
        _ => false,
    };
    is_merging(&from.relation)
        || from.joins.iter().any(|join| {
            let constraint = match &join.join_operator {
                JoinOperator::Join(own)
                | JoinOperator::Inner(own)
                | JoinOperator::Left(own)
                | JoinOperator::LeftOuter(own)
                | JoinOperator::Right(own)
                | JoinOperator::RightOuter(own)
                | JoinOperator::FullOuter(own) => own,
                _ => return is_merging(&join.relation),
            };
            matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
                || is_merging(&join.relation)
        })
}

fn refused(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} here: name the columns, and join by ON"))
}

impl Item {
    fn computed(&self) -> Option<&Merged> {
        match self {
            Self::Merged(merged) if merged.is_computed => Some(merged),
            _ => None,
        }
    }

    /// As a part of a list of columns.
    fn selected(&self) -> SelectItem {
        match self {
            Self::Merged(own) => {
                let alias = Ident::with_quote('"', &own.name);
                SelectItem::ExprWithAlias { expr: own.value.clone(), alias }
            }
            Self::Table { name, without } => {
                let excluded = || without.iter().map(|name| exact(name)).collect();
                let opt_exclude = (!without.is_empty()).then(|| ExcludeSelectItem::Multiple(excluded()));
                let name = name.clone().unwrap_or_else(|| exact(""));
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    WildcardAdditionalOptions { opt_exclude, ..WildcardAdditionalOptions::default() },
                )
            }
        }
    }
}

impl Scope {
    fn of(from: &mut TableWithJoins) -> SqlResult<Self> {
        let mut scope = Self::of_factor(&mut from.relation)?;
        for join in &mut from.joins {
            let right = Self::of_factor(&mut join.relation)?;
            let (side, constraint) = match &mut join.join_operator {
                JoinOperator::Join(own) | JoinOperator::Inner(own) => (Side::Either, own),
                JoinOperator::Left(own) | JoinOperator::LeftOuter(own) => (Side::Left, own),
                JoinOperator::Right(own) | JoinOperator::RightOuter(own) => (Side::Right, own),
                JoinOperator::FullOuter(own) => (Side::Both, own),
                _ => {
                    scope.add(right);
                    continue;
                }
            };
            scope.join(right, side, constraint)?;
        }
        Ok(scope)
    }

    fn of_factor(factor: &mut TableFactor) -> SqlResult<Self> {
        let name = match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => return Self::of(table_with_joins),
            TableFactor::NestedJoin { table_with_joins, alias: Some(alias) } => {
                let inner = Self::of(table_with_joins)?;
                if inner.items.iter().any(|item| item.computed().is_some()) {
                    return Err(refused("an alias of an outer join with USING"));
                }
                Some(ObjectName::from(vec![alias.name.clone()]))
            }
            TableFactor::Table { name, alias, .. } => match alias {
                Some(alias) => Some(ObjectName::from(vec![alias.name.clone()])),
                None => Some(name.clone()),
            },
            TableFactor::Derived { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. } => {
                alias.as_ref().map(|alias| ObjectName::from(vec![alias.name.clone()]))
            }
            _ => None,
        };
        Ok(Self { items: vec![Item::Table { name, without: Vec::new() }], ..Self::default() })
    }

    fn add(&mut self, right: Self) {
        self.items.extend(right.items);
        self.has_unknown |= right.has_unknown;
        self.is_misleading |= right.is_misleading;
    }

    fn join(&mut self, mut right: Self, side: Side, constraint: &mut JoinConstraint) -> SqlResult<()> {
        let is_outer = matches!(side, Side::Right | Side::Both);
        let names: Vec<String> = match constraint {
            JoinConstraint::Natural if is_outer => {
                return Err(refused("NATURAL RIGHT JOIN and NATURAL FULL JOIN"));
            }
            JoinConstraint::Natural => {
                self.is_misleading |= side == Side::Left && !self.sorts_before(&right);
                self.add(right);
                self.has_unknown = true;
                return Ok(());
            }
            JoinConstraint::Using(names) => names.iter().filter_map(column_name).collect(),
            _ => {
                self.add(right);
                return Ok(());
            }
        };
        let found: Vec<_> = names.iter().map(|name| (self.value(name), right.value(name))).collect();
        let is_computed = |own: &Option<Merged>| own.as_ref().is_some_and(|merged| merged.is_computed);
        let is_computed = is_outer || found.iter().any(|(own, other)| is_computed(own) || is_computed(other));
        let known: Option<Vec<(Expr, Expr)>> =
            found.into_iter().map(|(own, other)| Some((own?.value, other?.value))).collect();
        self.is_misleading |= side == Side::Left && !self.sorts_before(&right);
        let Some(known) = known else {
            if is_computed {
                return Err(refused("USING of an outer join among several tables"));
            }
            self.add(right);
            self.has_unknown = true;
            return Ok(());
        };
        if is_computed {
            let equal = known.iter().map(|(own, other)| operation(own, BinaryOperator::Eq, other));
            let all = equal.reduce(|one, other| operation(&one, BinaryOperator::And, &other));
            *constraint = all.map_or(JoinConstraint::None, JoinConstraint::On);
        }
        names
            .iter()
            .for_each(|name| [&mut *self, &mut right].into_iter().for_each(|own| own.leave_out(name)));
        let merged = names.into_iter().zip(known).map(|(name, (own, other))| {
            let value = match side {
                Side::Left | Side::Either => own,
                Side::Right => other,
                Side::Both => call(exact("coalesce"), vec![own, other]),
            };
            Item::Merged(Box::new(Merged { name, value, is_computed }))
        });
        let others = std::mem::take(&mut self.items);
        self.items = merged.chain(others).collect();
        self.add(right);
        Ok(())
    }

    /// A column that it has; `None` if it is not known of which table.
    fn value(&self, name: &str) -> Option<Merged> {
        let merged = self.items.iter().find_map(|item| match item {
            Item::Merged(merged) if merged.name == name => Some((**merged).clone()),
            _ => None,
        });
        if merged.is_some() {
            return merged;
        }
        let mut tables = self.items.iter().filter_map(|item| match item {
            Item::Table { name, .. } => Some(name),
            Item::Merged(_) => None,
        });
        let (Some(Some(table)), None) = (tables.next(), tables.next()) else { return None };
        let table = table.0.iter().map(|part| part.as_ident().cloned());
        let parts: Option<Vec<Ident>> = table.chain([Some(Ident::with_quote('"', name))]).collect();
        Some(Merged { name: name.to_owned(), value: Expr::CompoundIdentifier(parts?), is_computed: false })
    }

    /// Takes a column that is known out of its items.
    fn leave_out(&mut self, name: &str) {
        let before = self.items.len();
        self.items.retain(|item| !matches!(item, Item::Merged(merged) if merged.name == name));
        if self.items.len() == before {
            for item in &mut self.items {
                if let Item::Table { without, .. } = item {
                    without.push(name.to_owned());
                }
            }
        }
    }

    /// Whether the names of all its tables sort before those of another part: then the planner's `*` has its columns.
    fn sorts_before(&self, other: &Self) -> bool {
        let names = |scope: &Self| -> Option<Vec<String>> {
            let tables = scope.items.iter().filter_map(|item| match item {
                Item::Table { name, .. } => Some(name.as_ref().and_then(column_name)),
                Item::Merged(_) => None,
            });
            tables.collect()
        };
        match (names(self), names(other)) {
            (Some(own), Some(others)) => own.iter().max() < others.iter().min(),
            _ => false,
        }
    }
}

/// A name of one part.
fn column_name(name: &ObjectName) -> Option<String> {
    match &name.0[..] {
        [part] => part.as_ident().map(folded),
        _ => None,
    }
}

fn operation(left: &Expr, op: BinaryOperator, right: &Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left.clone()), op, right: Box::new(right.clone()) }
}

/// Columns that are computed of both sides.
#[derive(Debug, Default)]
struct Computed(Vec<Merged>);

impl Computed {
    /// Puts values in the place of names, but not in other queries, which may have columns of these names.
    fn put_into(&self, tree: &mut impl VisitMut) {
        each_expression_at_depth_mut(tree, &mut |expression, depth| {
            if depth == 0
                && let Some(value) = self.value(expression)
            {
                *expression = value;
            }
        });
    }

    fn put_into_select(&self, select: &mut Select) {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(own @ Expr::Identifier(_)) = item
                && let Some(value) = self.value(own)
                && let Expr::Identifier(alias) = own
            {
                *item = SelectItem::ExprWithAlias { expr: value, alias: alias.clone() };
            }
        }
        self.put_into(&mut select.projection);
        let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
        joins.for_each(|join| self.put_into(&mut join.join_operator));
        self.put_into(&mut select.selection);
        self.put_into(&mut select.group_by);
        self.put_into(&mut select.having);
        self.put_into(&mut select.named_window);
        self.put_into(&mut select.distinct);
    }

    fn value(&self, expression: &Expr) -> Option<Expr> {
        let Expr::Identifier(name) = expression else { return None };
        let name = folded(name);
        Some(self.0.iter().find(|merged| merged.name == name)?.value.clone())
    }
}
