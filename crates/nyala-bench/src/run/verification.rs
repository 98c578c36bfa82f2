//! `--verify`: runs some queries of each type and compares the answers with computed ones.

use super::queries::ANSWER_LIMIT_BYTES;
use super::question::{Asker, Endpoints, Question};
use super::session::Session;
use crate::client::sql::{Rows, SqlAnswer};
use crate::error::{BenchError, Result};
use crate::query::generator::QueryGenerator;
use crate::query::kind::QueryKind;
use crate::query::text::{Request, influxql};
use crate::report::progress::Progress;
use crate::report::result::Verification;
use crate::verify::compare::compare;
use crate::verify::expected::expected;
use crate::verify::sql::{as_influx_json, expected_of_sql};
use crate::workload::cpu::model::CpuModel;
use nyala_client::{Body, Connection};

/// How many answers of each type are compared. Expected answers to heavy queries are computed from every row.
const LIGHT_COUNT: usize = 20;
const HEAVY_COUNT: usize = 3;

/// Compares answers of every type, in every language of the run.
pub fn verify(
    kinds: &[QueryKind],
    generator: impl Fn(&QueryKind) -> QueryGenerator,
    model: &dyn CpuModel,
    session: &Session<'_>,
) -> Result<Verification> {
    let mut found = Verification::default();
    // Compressed answers are not unpacked.
    let mut asker = Asker::new(&Endpoints { gzip: false, ..session.endpoints() });
    let mut progress = Progress::start("verify");
    for (done, kind) in kinds.iter().enumerate() {
        for (language, _) in session.languages() {
            let mut generator = generator(kind);
            for _ in 0..if kind.heavy { HEAVY_COUNT } else { LIGHT_COUNT } {
                progress.update(done as f64 / kinds.len() as f64, || kind.name.to_owned());
                let query = generator.draw();
                let question = session
                    .question(&query, language)
                    .ok_or_else(|| BenchError::Invalid(format!("{} has no InfluxQL", kind.name)))?;
                let expected = expected(&query, model);
                let (compared, text) = match &question {
                    Question::Http(request) => {
                        let answer = influx_answer(asker.http(), request)?;
                        (compare(&answer, &expected, model), influxql(&query))
                    }
                    Question::Sql(statement) => {
                        let expected = expected_of_sql(expected);
                        let answer = sql_answer(&mut asker, statement)?;
                        let json = as_influx_json(&answer, &expected);
                        (json.and_then(|json| compare(&json, &expected, model)), statement.clone())
                    }
                };
                found.add(compared.map_err(|difference| format!("{}: {difference}", kind.name)), &text);
            }
        }
    }
    progress.finish(&format!("{} answers, {} wrong", found.compared, found.wrong));
    Ok(found)
}

fn influx_answer(connection: &mut Connection, request: &Request) -> Result<Vec<u8>> {
    let mut answer = Vec::new();
    let body = Body::Collect { into: &mut answer, limit_bytes: ANSWER_LIMIT_BYTES };
    connection.expect_success(request.method, &request.path, b"", body)?;
    Ok(answer)
}

fn sql_answer(asker: &mut Asker, statement: &str) -> Result<SqlAnswer> {
    let mut answer = SqlAnswer::default();
    asker.sql()?.ask(statement, Rows::Keep { into: &mut answer, limit_bytes: ANSWER_LIMIT_BYTES })?;
    Ok(answer)
}
