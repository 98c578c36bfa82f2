//! Creates tables and loads their rows, and writes the same rows to Parquet for the peers.

use crate::cli::sql::SuiteArgs;
use crate::client::copy::CopyClient;
use crate::client::database::prepare_database;
use crate::client::sql::{Rows, SqlConnection};
use crate::error::{BenchError, Result};
use crate::measure::server::evict_cached_files;
use crate::report::progress::Progress;
use crate::report::result::LoadResult;
use crate::report::sql::{SqlResult, TableLoad};
use crate::run::load::settle;
use crate::server::Server;
use crate::workload::tables::Table;
use arrow_schema::SchemaRef;
use nyala_client::Connection;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest wait for a server to be idle.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(120);

/// A session of SQL in the database of a benchmark.
pub fn connect(args: &SuiteArgs, server: &Server) -> Result<SqlConnection> {
    let missing = || BenchError::Invalid("sql needs --postgres HOST:PORT of the target".to_owned());
    let address = server.postgres.as_deref().ok_or_else(missing)?;
    SqlConnection::open(address, &args.server.database, timeout(args))
}

/// Creates and fills the tables.
pub fn load(
    tables: Vec<Table>,
    args: &SuiteArgs,
    server: &Server,
    parquet: Option<&Parquet>,
    result: &mut SqlResult,
) -> Result<()> {
    let mut connection = Connection::new(&server.target, timeout(args));
    prepare_database(&mut connection, &args.server.database, args.server.overwrite || server.fresh)?;
    let mut session = connect(args, server)?;
    let before = server.probe.usage();
    for table in tables {
        let Table { name, definition, schema, rows } = table;
        let mut progress = Progress::start(format!("load {name}"));
        session.ask(&format!("CREATE TABLE {name} ({definition})"), Rows::Count)?;
        let mut copy = CopyClient::new(&mut connection, &args.server.database, &name, &schema)?;
        let mut file = parquet.map(|parquet| parquet.table(&name, &schema)).transpose()?;
        let mut loaded = 0;
        for batch in rows {
            let batch = batch.map_err(|error| BenchError::Invalid(format!("making rows: {error}")))?;
            copy.write(&batch)?;
            file.as_mut().map_or(Ok(()), |file| file.write(&batch).map_err(failed))?;
            loaded += batch.num_rows() as u64;
            progress.update(0.0, || format!("{loaded} rows"));
        }
        copy.send()?;
        file.map_or(Ok(()), |file| file.close().map(drop).map_err(failed))?;
        let (seconds, sent_bytes) = (copy.elapsed.as_secs_f64(), copy.sent_bytes);
        result.loads.push(TableLoad { table: name, rows: loaded, seconds, sent_bytes });
        progress.clear();
    }
    result.load_cpu_seconds = server.probe.usage().cpu_since(&before);
    Ok(())
}

/// Bytes of the data directory when the server has done what it does in the background.
pub fn settled_disk_bytes(server: &Server) -> Option<u64> {
    settle(&mut LoadResult::default(), &server.probe, SETTLE_TIMEOUT);
    server.probe.disk_bytes()
}

fn timeout(args: &SuiteArgs) -> Duration {
    Duration::from_secs(args.server.timeout as u64)
}

/// A directory of Parquet files, which is removed when this is dropped.
pub struct Parquet(PathBuf);

impl Parquet {
    /// A new directory below `parent`.
    pub fn create(parent: &Path) -> Result<Parquet> {
        let path = parent.join(format!("nyala-bench-parquet-{}", std::process::id()));
        let absolute = std::fs::create_dir(&path).and_then(|()| path.canonicalize());
        absolute.map(Parquet).map_err(BenchError::io(format!("creating {}", path.display())))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The size of its files.
    pub fn bytes(&self) -> u64 {
        let files = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    }

    /// Asks the system to forget what it has of the files.
    pub fn evict(&self) {
        evict_cached_files(&self.0);
    }

    /// A file for the rows of a table, compressed as `nyala export` does.
    fn table(&self, name: &str, schema: &SchemaRef) -> Result<ArrowWriter<File>> {
        let path = self.0.join(format!("{name}.parquet"));
        let file = File::create(&path).map_err(BenchError::io(format!("creating {}", path.display())))?;
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(compression).build();
        ArrowWriter::try_new(file, schema.clone(), Some(properties)).map_err(failed)
    }
}

impl Drop for Parquet {
    fn drop(&mut self) {
        // There is nowhere to report an error.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn failed(error: ParquetError) -> BenchError {
    BenchError::Invalid(format!("writing Parquet: {error}"))
}
