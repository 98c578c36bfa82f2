//! The data directory that is written to. No server serves it meanwhile.

use crate::config::{ByteSize, GivenConfig};
use crate::descriptors;
use crate::storage::{self, Past, Storage};
use nyala_core::env::{Clock, SystemClock};
use nyala_core::memory::MemoryBudget;
use nyala_core::store::{Freshness, emulate};
use nyala_db::catalog::{Catalog, Database, Field, FieldType};
use nyala_db::ingest::ColumnBatch;
use nyala_db::users::{Principal, Privilege};
use nyala_db::write::{ColumnReport, LineWriter};
use nyala_exec::running::RunningQueries;
use nyala_exec::{ExecutionContext, Frame, QueryMemory, Scalar};
use nyala_query::influxql::{Params, identifier, parse_query};
use nyala_query::plan::QueryContext;
use nyala_query::statement::{Answer, execute};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A data directory that is open.
pub(in crate::cli) struct Destination {
    work: tokio::runtime::Runtime,
    storage: Arc<dyn Storage>,
    catalog: Arc<Catalog>,
    writer: Arc<LineWriter>,
    memory: Arc<MemoryBudget>,
    running: Arc<RunningQueries>,
}

impl Destination {
    pub(in crate::cli) fn open(data_dir: &Path, memory_limit: ByteSize) -> Result<Self, String> {
        descriptors::raise_limit();
        let given = GivenConfig {
            data_dir: Some(data_dir.to_owned()),
            memory_limit: Some(memory_limit),
            ..GivenConfig::default()
        };
        let config = given.resolve(None)?;
        let work = tokio::runtime::Builder::new_multi_thread()
            .thread_name("work")
            .enable_all()
            .build()
            .map_err(|error| format!("starting threads: {error}"))?;
        let memory = MemoryBudget::new(config.memory_limit.0 as u64);
        let opening = |error: nyala_core::Error| {
            format!("opening {}: {error} (is nyala running? stop it first)", data_dir.display())
        };
        let storage =
            storage::open(&config, Past::Left, &memory, work.handle(), &mut |_| {}).map_err(opening)?;
        if let Some(loss) = storage.losses().first() {
            return Err(format!("{} is damaged: {loss}; `nyala check` says more", data_dir.display()));
        }
        let catalog = work.block_on(Catalog::open(emulate::complete(storage.store()))).map_err(opening)?;
        let catalog = Arc::new(catalog);
        let writer = LineWriter::new(catalog.clone(), memory.clone(), config.memory_limit.0 / 2);
        let running = Arc::new(RunningQueries::new(config.query_limits()));
        Ok(Self { work, storage, catalog, writer: Arc::new(writer), memory, running })
    }

    /// Writes the rows of a batch.
    pub(in crate::cli) fn write(
        &self,
        database: &str,
        policy: &str,
        batch: &mut ColumnBatch,
    ) -> Result<ColumnReport, String> {
        let now_ns = SystemClock.now_ns();
        let written = self.work.block_on(self.writer.write_columns(database, policy, now_ns, batch));
        written.map_err(|error| error.to_string())
    }

    /// What is in the directory.
    pub(in crate::cli) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Waits for work with it.
    pub(in crate::cli) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.work.block_on(work)
    }

    /// Executes statements that show nothing.
    pub(in crate::cli) fn execute(&self, database: &str, text: &str) -> Result<(), String> {
        self.answers(database, text).map(drop)
    }

    pub(in crate::cli) fn database(&self, name: &str) -> Option<Arc<Database>> {
        self.catalog.database(name)
    }

    /// Creates a user with privileges, or nothing.
    pub(super) fn create_user(
        &self,
        name: &str,
        password: &str,
        admin: bool,
        grants: &BTreeMap<String, Privilege>,
    ) -> Result<(), String> {
        let created = self.work.block_on(self.catalog.create_user(name, password, admin, grants));
        created.map_err(|error| error.to_string())
    }

    pub(super) fn has_user(&self, name: &str) -> bool {
        self.catalog.users().existing(name).is_ok()
    }

    /// The number of values of a measurement that a query counts.
    pub(super) fn count_values(
        &self,
        database: &str,
        policy: &str,
        measurement: &str,
    ) -> Result<u64, String> {
        let place = format!("{}.{}.{}", identifier(database), identifier(policy), identifier(measurement));
        let found = self.work.block_on(self.catalog.measurement(database, policy, measurement));
        let found = found.map_err(|error| error.to_string())?;
        let others = found.map_or_else(Vec::new, |found| not_counted(&found.fields()));
        let counted: Vec<String> = std::iter::once("count(*)".to_owned()).chain(others).collect();
        let mut frames = Vec::new();
        for counted in counted {
            frames.extend(self.answers(database, &format!("SELECT {counted} FROM {place}"))?);
        }
        let counts = frames.iter().flat_map(|frame| {
            frame
                .span
                .clone()
                .flat_map(|row| frame.sheet.columns.iter().map(move |column| column.scalar(row)))
        });
        let count = |scalar| match scalar {
            Some(Scalar::Integer(count)) => count as u64,
            _ => 0,
        };
        Ok(counts.map(count).sum())
    }

    /// What statements answer. The first error ends them.
    fn answers(&self, database: &str, text: &str) -> Result<Vec<Frame>, String> {
        let context = QueryContext {
            around: ExecutionContext {
                catalog: self.catalog.clone(),
                freshness: Freshness::Latest,
                now_ns: SystemClock.now_ns(),
                principal: Principal::Open,
                running: self.running.clone(),
                query: None,
            },
            database: database.to_owned(),
            retention_policy: String::new(),
            writer: self.writer.clone(),
            reporter: Arc::new(|_| Vec::new()),
        };
        let statements =
            parse_query(text, &Params::default()).map_err(|error| format!("error parsing query: {error}"))?;
        let memory = QueryMemory::new((self.memory.limit_bytes() / 4) as usize, &self.memory);
        let mut frames = Vec::new();
        let answered = self.work.block_on(async {
            for statement in statements {
                match execute(statement, &context, memory.clone()).await? {
                    Answer::Done | Answer::Changed(..) => {}
                    Answer::Refused(error) => return Err(error),
                    Answer::Rows(rows, _) => frames.extend(rows),
                    Answer::Stream(mut stream) => {
                        while let Some(frame) = stream.next().await? {
                            frames.push(frame);
                        }
                    }
                }
            }
            Ok(())
        });
        answered.map(|()| frames).map_err(|error| error.to_string())
    }

    /// Makes everything durable and closes the directory.
    pub(in crate::cli) fn close(self) -> Result<(), String> {
        let Self { work, storage, catalog, writer, .. } = self;
        drop((writer, catalog));
        drop(work);
        storage.stop().map_err(|error| format!("closing the data directory: {error}"))
    }
}

/// What has to be counted beside `count(*)`, which counts of a field with several types the numbers, else the texts.
fn not_counted(fields: &[Field]) -> Vec<String> {
    let has =
        |name: &str, field_type| fields.iter().any(|own| own.name == name && own.field_type == field_type);
    let has_numbers = |name: &str| {
        [FieldType::Float, FieldType::Integer, FieldType::Unsigned].iter().any(|own| has(name, *own))
    };
    let is_left_out = |own: &&Field| match own.field_type {
        FieldType::String => has_numbers(&own.name),
        FieldType::Boolean => has_numbers(&own.name) || has(&own.name, FieldType::String),
        _ => false,
    };
    let counted = |own: &Field| format!("count({}::{})", identifier(&own.name), own.field_type.name());
    fields.iter().filter(is_left_out).map(counted).collect()
}
