//! SELECT INTO: writes the rows of an answer as points.
//!
//! The rows are written as line protocol through [`nyala_db::write::LineWriter`], so that names, types, retention and
//! limits are checked as for every client.

use super::{Answer, Chunks, plan_of};
use crate::exec::SelectStream;
use crate::influxql::{MeasurementName, Select, Target};
use crate::plan::QueryContext;
use nyala_core::{Error, Result};
use nyala_db::ingest::{
    LineLimits, LineValue, ParseOptions, Precision, TAG_SPECIALS, push_checked_tag, push_measurement_name,
    push_name, push_value,
};
use nyala_exec::{Column, Frame, GroupTags, QueryMemory, ResultBatch, Scalar};
use std::fmt::Write;
use std::sync::Arc;

/// Points in a batch, as many as in InfluxDB.
const POINTS_AT_ONCE: u64 = 10_000;
/// The largest text of a batch, bytes.
const TEXT_AT_ONCE: usize = 8 << 20;
/// The text is at most this fraction (1/8) of the query's memory. Reading takes most of the rest.
const TEXT_SHARE: usize = 8;

/// Writes the rows of a SELECT to its target, and returns the number of points. A rejected point ends the statement
/// with an error; points before it are written.
pub async fn select_into(select: &Select, context: &QueryContext, memory: QueryMemory) -> Result<u64> {
    let target = select.target.as_ref().ok_or_else(|| Error::invalid("the query has no INTO"))?;
    let mut points = Points::to(target, context)?;
    points.text_max = TEXT_AT_ONCE.min(memory.limit_bytes() / TEXT_SHARE);
    let plan = Arc::new(plan_of(select.clone(), context).await?);
    if plan.outputs.time_column != "time" {
        return Err(Error::invalid("error finding time index in result"));
    }
    points.tag_columns.clone_from(&plan.outputs.tag_columns);
    let mut held = memory.hold();
    // The text grows by doubling.
    held.charge(2 * points.text_max)?;
    let mut rows = SelectStream::open(plan, context.snapshot().await?, memory.clone()).await?;
    // Reading may be cancelled anywhere, writing only between batches.
    while let Some(frame) = next_frame(&mut rows, context).await? {
        points.add(&frame.alone(), context).await?;
    }
    points.flush(context).await?;
    Ok(points.written)
}

async fn next_frame(rows: &mut SelectStream, context: &QueryContext) -> Result<Option<Frame>> {
    let Some(query) = &context.query else { return rows.next().await };
    query.check()?;
    tokio::select! {
        frame = rows.next() => frame,
        error = query.stopped() => Err(error),
    }
}

pub(super) async fn execute(select: &Select, context: &QueryContext, memory: QueryMemory) -> Result<Answer> {
    context.principal.admit_write()?;
    let written = select_into(select, context, memory).await?;
    context.principal.has_written(written, 0);
    let names: Arc<[String]> = Arc::new(["written".to_owned()]);
    let batch = ResultBatch {
        name: "result".into(),
        time_column: Some("time".into()),
        column_names: names.clone(),
        reference_names: names,
        times_ns: vec![0].into(),
        columns: vec![Column::Integer(vec![written as i64].into())],
        instead: None,
    };
    Ok(Answer::Rows(vec![Frame::of(GroupTags::none(), batch)], Chunks::Whole))
}

/// Collects points and writes them in batches.
struct Points {
    database: String,
    policy: String,
    /// The measurement that they are written to. `None`: each is written to the measurement that it was read from.
    measurement: Option<String>,
    /// Columns that are tags.
    tag_columns: Vec<usize>,
    /// Lines that are not yet written.
    lines: String,
    /// How many there are.
    waiting: u64,
    /// How many points were written.
    written: u64,
    /// Lines are written when their text has this length.
    text_max: usize,
}

impl Points {
    fn to(target: &Target, context: &QueryContext) -> Result<Self> {
        let Target { measurement } = target;
        let database = measurement.database.as_ref().unwrap_or(&context.database).clone();
        if database.is_empty() {
            return Err(Error::invalid("database name required"));
        }
        let known = context.catalog.existing_database(&database)?;
        let policy = measurement.retention_policy.as_ref().unwrap_or(&context.retention_policy);
        let Some(policy) = known.policy(policy) else {
            return Err(Error::missing(format!("retention policy not found: {policy}")));
        };
        let measurement = match &measurement.name {
            MeasurementName::Name(name) if !name.is_empty() => Some(name.clone()),
            _ => None,
        };
        Ok(Self {
            database,
            policy: policy.name.clone(),
            measurement,
            tag_columns: Vec::new(),
            lines: String::new(),
            waiting: 0,
            written: 0,
            text_max: TEXT_AT_ONCE,
        })
    }

    async fn add(&mut self, frame: &Frame, context: &QueryContext) -> Result<()> {
        let measurement = self.measurement.as_deref().unwrap_or(&frame.name);
        let mut key = String::new();
        push_measurement_name(&mut key, measurement)?;
        for (name, value) in frame.tags.iter().filter(|(_, value)| !value.is_empty()) {
            push_checked_tag(&mut key, name, value)?;
        }
        let is_field = |column: &usize| !self.tag_columns.contains(column);
        let fields: Vec<usize> = (0..frame.columns.len()).filter(is_field).collect();
        let mut names = Vec::with_capacity(fields.len());
        for column in &fields {
            let mut name = String::new();
            push_name(&mut name, "field", &frame.column_names[*column], TAG_SPECIALS)?;
            names.push(name);
        }
        for (row, time_ns) in frame.times_ns.iter().enumerate() {
            let start = self.lines.len();
            self.lines.push_str(&key);
            for column in &self.tag_columns {
                let name = &frame.column_names[*column];
                match frame.columns[*column].scalar(row) {
                    Some(Scalar::String(value)) if !value.is_empty() && !is_tag(frame, name) => {
                        push_checked_tag(&mut self.lines, name, &value)?;
                    }
                    _ => {}
                }
            }
            let mut separator = ' ';
            let mut storable = true;
            for (name, column) in names.iter().zip(&fields) {
                let Some(value) = frame.columns[*column].scalar(row) else { continue };
                storable &= !matches!(value, Scalar::Float(value) if !value.is_finite());
                self.lines.push(separator);
                self.lines.push_str(name);
                self.lines.push('=');
                push_value(&mut self.lines, line_value(&value));
                separator = ',';
            }
            // A point without fields is skipped, and so is one with NaN or infinity, which line protocol cannot express.
            if separator == ' ' || !storable {
                self.lines.truncate(start);
                continue;
            }
            writeln!(self.lines, " {time_ns}").expect("text grows");
            self.waiting += 1;
            if self.waiting == POINTS_AT_ONCE || self.lines.len() >= self.text_max {
                self.flush(context).await?;
            }
        }
        Ok(())
    }

    async fn flush(&mut self, context: &QueryContext) -> Result<()> {
        if self.waiting == 0 {
            return Ok(());
        }
        context.check_running()?;
        let options = ParseOptions {
            precision: Precision::Nanosecond,
            now_ns: context.now_ns,
            limits: LineLimits::default(),
            series_max: context.principal.series_max(),
        };
        let lines = self.lines.as_bytes();
        let report = context.writer.write(&self.database, &self.policy, options, lines).await?;
        if let Some(complaint) = report.complaint() {
            return Err(Error::invalid(complaint));
        }
        self.written += self.waiting;
        self.waiting = 0;
        self.lines.clear();
        Ok(())
    }
}

fn is_tag(frame: &Frame, name: &str) -> bool {
    frame.tags.get(name).is_some_and(|value| !value.is_empty())
}

fn line_value(value: &Scalar) -> LineValue<'_> {
    match value {
        Scalar::Float(value) => LineValue::Float(*value),
        Scalar::Integer(value) => LineValue::Integer(*value),
        Scalar::Unsigned(value) => LineValue::Unsigned(*value),
        Scalar::Boolean(value) => LineValue::Boolean(*value),
        Scalar::String(text) => LineValue::String(text),
    }
}
