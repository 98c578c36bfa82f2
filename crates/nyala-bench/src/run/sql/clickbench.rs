//! `sql clickbench`.

use super::{Suite, run_suite};
use crate::cli::sql::ClickbenchArgs;
use crate::error::{BenchError, Result};
use crate::server::Launch;
use crate::workload::tables::clickbench;

/// Asks ClickBench's queries about rows that are made up.
pub fn run(args: &ClickbenchArgs, launch: Launch<'_>) -> Result<()> {
    let read = |name: &str| {
        let path = args.files.join(name);
        std::fs::read_to_string(&path).map_err(BenchError::io(format!("reading {}", path.display())))
    };
    let create = read("create.sql")?;
    let wrong = |words| BenchError::Invalid(format!("create.sql: {words}"));
    let table = clickbench::table(&create, args.seed, args.rows).map_err(wrong)?;
    let suite = Suite {
        name: format!("ClickBench's queries about {} rows of seed {}", args.rows, args.seed),
        tables: vec![table],
        queries: clickbench::queries(&read("queries.sql")?),
    };
    run_suite(suite, &args.suite, launch)
}
