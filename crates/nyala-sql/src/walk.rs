//! Walks through plans, expressions and syntax trees.
//!
//! Those of DataFusion and of the parser are generic: for each closure or visitor that is given to them, hundreds of functions are
//! compiled anew, which was two thirds of the code of this crate. These are compiled once. A call through a pointer
//! for each node is nothing beside the node.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::{
    self, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor,
    VisitorMut,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A function that changes a node.
type Change<'a, T> = &'a mut dyn FnMut(T) -> Result<Transformed<T>>;
/// A function that looks at a node.
type Look<'a, 'n, T> = &'a mut dyn FnMut(&'n T) -> Result<TreeNodeRecursion>;

/// Walks through a plan or an expression, as the functions of [`TreeNode`] of similar names do.
pub(crate) trait Walk: TreeNode {
    /// Looks at each node, from the top.
    fn each<'n>(&'n self, look: Look<'_, 'n, Self>) -> Result<TreeNodeRecursion> {
        self.apply(look)
    }

    /// Whether it is so for any node.
    fn any(&self, is_it: &mut dyn FnMut(&Self) -> Result<bool>) -> Result<bool> {
        self.exists(is_it)
    }

    /// Changes each node, those below it first.
    fn changed_up(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
        self.transform_up(change)
    }

    /// Changes each node before those below it.
    fn changed_down(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
        self.transform_down(change)
    }
}

impl Walk for Expr {}
impl Walk for LogicalPlan {}
impl Walk for Arc<dyn ExecutionPlan> {}
impl Walk for Arc<dyn PhysicalExpr> {}

/// Walks through a plan and the subqueries in its expressions.
pub(crate) trait WalkPlan: Sized {
    /// Looks at each node, from the top.
    fn each_with_subqueries(
        &self,
        look: &mut dyn FnMut(&Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion>;

    /// Changes each node, those below it first.
    fn changed_up_with_subqueries(self, change: Change<'_, Self>) -> Result<Transformed<Self>>;

    /// Changes each node before those below it.
    fn changed_down_with_subqueries(self, change: Change<'_, Self>) -> Result<Transformed<Self>>;

    /// Changes the expressions of a node.
    fn with_changed_expressions(self, change: Change<'_, Expr>) -> Result<Transformed<Self>>;
}

impl WalkPlan for LogicalPlan {
    fn each_with_subqueries(
        &self,
        look: &mut dyn FnMut(&Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.apply_with_subqueries(look)
    }

    fn changed_up_with_subqueries(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
        self.transform_up_with_subqueries(change)
    }

    fn changed_down_with_subqueries(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
        self.transform_down_with_subqueries(change)
    }

    fn with_changed_expressions(self, change: Change<'_, Expr>) -> Result<Transformed<Self>> {
        self.map_expressions(change)
    }
}

/// The columns that expressions of a node can read.
pub(crate) fn read_schema(node: &LogicalPlan) -> DFSchema {
    let mut schema = DFSchema::empty();
    node.inputs().iter().for_each(|input| schema.merge(input.schema()));
    if let LogicalPlan::TableScan(scan) = node {
        schema.merge(&scan.projected_schema);
    }
    schema
}

/// Visits a syntax tree. Breaks if the visitor does.
pub(crate) fn visit(tree: &impl Visit, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
    tree.visit(&mut Any(visitor))
}

/// The same, and the visitor may change it.
pub(crate) fn visit_mut(
    tree: &mut impl VisitMut,
    visitor: &mut dyn VisitorMut<Break = ()>,
) -> ControlFlow<()> {
    tree.visit(&mut AnyMut(visitor))
}

/// Looks at each expression of a syntax tree, from the top.
pub(crate) fn each_expression(tree: &impl Visit, look: &mut dyn FnMut(&ast::Expr)) {
    struct Looking<'a>(&'a mut dyn FnMut(&ast::Expr));

    impl Visitor for Looking<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expression: &ast::Expr) -> ControlFlow<()> {
            self.0(expression);
            ControlFlow::Continue(())
        }
    }

    // It never breaks.
    let _ = visit(tree, &mut Looking(look));
}

/// The same, from the bottom, and they may be changed.
pub(crate) fn each_expression_mut(tree: &mut impl VisitMut, change: &mut dyn FnMut(&mut ast::Expr)) {
    struct Changing<'a>(&'a mut dyn FnMut(&mut ast::Expr));

    impl VisitorMut for Changing<'_> {
        type Break = ();

        fn post_visit_expr(&mut self, expression: &mut ast::Expr) -> ControlFlow<()> {
            self.0(expression);
            ControlFlow::Continue(())
        }
    }

    let _ = visit_mut(tree, &mut Changing(change));
}

/// The same, with in how many queries inside of the tree an expression is.
pub(crate) fn each_expression_at_depth_mut(
    tree: &mut impl VisitMut,
    change: &mut dyn FnMut(&mut ast::Expr, usize),
) {
    struct Changing<'a> {
        change: &'a mut dyn FnMut(&mut ast::Expr, usize),
        depth: usize,
    }

    impl VisitorMut for Changing<'_> {
        type Break = ();

        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expression: &mut ast::Expr) -> ControlFlow<()> {
            (self.change)(expression, self.depth);
            ControlFlow::Continue(())
        }
    }

    let _ = visit_mut(tree, &mut Changing { change, depth: 0 });
}

/// Any visitor.
struct Any<'a>(&'a mut dyn Visitor<Break = ()>);

/// Any visitor that may change what it visits.
struct AnyMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

macro_rules! pass_on {
    ($($method:ident($node:ty);)*) => {
        $(fn $method(&mut self, node: $node) -> ControlFlow<()> {
            self.0.$method(node)
        })*
    };
}

impl Visitor for Any<'_> {
    type Break = ();

    pass_on! {
        pre_visit_query(&Query);
        post_visit_query(&Query);
        pre_visit_select(&Select);
        post_visit_select(&Select);
        pre_visit_relation(&ObjectName);
        post_visit_relation(&ObjectName);
        pre_visit_table_factor(&TableFactor);
        post_visit_table_factor(&TableFactor);
        pre_visit_expr(&ast::Expr);
        post_visit_expr(&ast::Expr);
        pre_visit_statement(&Statement);
        post_visit_statement(&Statement);
        pre_visit_value(&ValueWithSpan);
        post_visit_value(&ValueWithSpan);
    }
}

impl VisitorMut for AnyMut<'_> {
    type Break = ();

    pass_on! {
        pre_visit_query(&mut Query);
        post_visit_query(&mut Query);
        pre_visit_select(&mut Select);
        post_visit_select(&mut Select);
        pre_visit_relation(&mut ObjectName);
        post_visit_relation(&mut ObjectName);
        pre_visit_table_factor(&mut TableFactor);
        post_visit_table_factor(&mut TableFactor);
        pre_visit_expr(&mut ast::Expr);
        post_visit_expr(&mut ast::Expr);
        pre_visit_statement(&mut Statement);
        post_visit_statement(&mut Statement);
        pre_visit_value(&mut ValueWithSpan);
        post_visit_value(&mut ValueWithSpan);
    }
}
