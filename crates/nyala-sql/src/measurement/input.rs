//! What stands between a node of a plan and the scan that it reads: projections, which only rename and compute.

use super::columns::Source;
use super::scan::MeasurementScan;
use crate::walk::Walk;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// A scan, and the projections above it, the uppermost first.
pub(super) struct Input<'a> {
    pub(super) scan: &'a MeasurementScan,
    projections: Vec<&'a ProjectionExec>,
}

impl<'a> Input<'a> {
    pub(super) fn of(mut node: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let mut projections = Vec::new();
        loop {
            if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
                projections.push(projection);
                node = projection.input();
            } else {
                let scan = node.downcast_ref::<MeasurementScan>()?;
                // Only a scan without a limit or an order of its own can be replaced by another one.
                return scan.is_plain().then_some(Self { scan, projections });
            }
        }
    }

    /// An expression in terms of the columns of the scan.
    pub(super) fn resolved(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        let mut resolved = expression.clone();
        for projection in &self.projections {
            let inserted = resolved.changed_up(&mut |inner| {
                let column = inner.downcast_ref::<Column>().map(Column::index);
                Ok(match column.and_then(|index| projection.expr().get(index)) {
                    Some(own) => Transformed::yes(own.expr.clone()),
                    None => Transformed::no(inner),
                })
            });
            resolved = inserted.data().ok()?;
        }
        Some(resolved)
    }

    /// The column of the scan that a resolved expression is.
    pub(super) fn source(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<&'a Source> {
        self.scan.sources().nth(expression.downcast_ref::<Column>()?.index())
    }
}
