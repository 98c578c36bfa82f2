//! `sql tpch`.

use super::{Suite, run_suite};
use crate::cli::sql::TpchArgs;
use crate::error::Result;
use crate::server::Launch;
use crate::workload::tables::tpch;

/// Runs TPC-H.
pub fn run(args: &TpchArgs, launch: Launch<'_>) -> Result<()> {
    let suite = Suite {
        name: format!("TPC-H at scale {}", args.scale),
        tables: tpch::tables(args.scale),
        queries: tpch::queries(),
    };
    run_suite(suite, &args.suite, launch)
}
