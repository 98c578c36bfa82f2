//! `--verify`: runs some queries of each type and compares the answers with computed ones.

use super::queries::ANSWER_LIMIT_BYTES;
use crate::client::connection::Connection;
use crate::client::response::Body;
use crate::client::target::Dialect;
use crate::error::{BenchError, Result};
use crate::query::generator::QueryGenerator;
use crate::query::kind::QueryKind;
use crate::query::text::{influxql, request};
use crate::report::progress::Progress;
use crate::report::result::Verification;
use crate::verify::compare::compare;
use crate::verify::expected::expected;
use crate::workload::cpu::model::CpuModel;

/// How many answers of each type are compared. Expected answers to heavy queries are computed from every row.
const LIGHT_COUNT: usize = 20;
const HEAVY_COUNT: usize = 3;

/// Compares answers of every type.
pub fn verify(
    kinds: &[QueryKind],
    generator: impl Fn(&QueryKind) -> QueryGenerator,
    model: &dyn CpuModel,
    connection: &mut Connection,
    database: &str,
) -> Result<Verification> {
    let mut found = Verification::default();
    let mut progress = Progress::start("verify");
    for (done, kind) in kinds.iter().enumerate() {
        let mut generator = generator(kind);
        for _ in 0..if kind.heavy { HEAVY_COUNT } else { LIGHT_COUNT } {
            progress.update(done as f64 / kinds.len() as f64, || kind.name.to_owned());
            let query = generator.draw();
            let request = request(&query, Dialect::Influx, database)
                .ok_or_else(|| BenchError::Invalid(format!("{} has no InfluxQL", kind.name)))?;
            let mut answer = Vec::new();
            let body = Body::Collect { into: &mut answer, limit_bytes: ANSWER_LIMIT_BYTES };
            connection.expect_success(request.method, &request.path, b"", body)?;
            let compared = compare(&answer, &expected(&query, model), model);
            let compared = compared.map_err(|difference| format!("{}: {difference}", kind.name));
            found.add(compared, &influxql(&query));
        }
    }
    progress.finish(&format!("{} answers, {} wrong", found.compared, found.wrong));
    Ok(found)
}
