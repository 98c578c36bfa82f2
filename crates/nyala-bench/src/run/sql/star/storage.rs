//! Copies of the events: as Parquet with each compression, back from it, from the table itself, and with each encoding.

use super::{Run, timed};
use crate::cli::sql::StarArgs;
use crate::client::sql::{Rows, SqlConnection};
use crate::error::Result;
use crate::run::sql::loading::settled_disk_bytes;
use crate::workload::tables::star;
use std::path::Path;

const COMPRESSIONS: [&str; 4] = ["none", "lz4", "snappy", "zstd"];
const ENCODINGS: [&str; 3] = ["speed", "balanced", "size"];

pub(super) fn copy_and_compress(run: &mut Run<'_>, args: &StarArgs) -> Result<()> {
    let definition = star::events(0, args.columns, args.seed).definition();
    let mut session = run.asker.connect()?;
    let copied = timed("CREATE TABLE AS SELECT * FROM event", || {
        session.ask("CREATE TABLE event_copy AS SELECT * FROM event", Rows::Count)?;
        Ok((count(&mut session, "event_copy")?, None))
    })?;
    run.result.phases.push(copied);
    session.ask("DROP TABLE event_copy", Rows::Count)?;
    let Some(files) = run.asker.server().files_dir.clone() else {
        return Ok(());
    };
    for compression in COMPRESSIONS {
        let file = format!("event-{compression}.parquet");
        let statement = format!("COPY event TO '{file}' WITH (FORMAT parquet, COMPRESSION {compression})");
        let written = timed(&format!("COPY to Parquet, {compression}"), || {
            let done = session.ask(&statement, Rows::Count)?;
            Ok((done.rows, size(&files.join(&file))))
        })?;
        run.result.phases.push(written);
    }
    for encoding in ENCODINGS {
        let table = format!("event_{encoding}");
        let before = settled_bytes(run)?;
        let mut session = run.asker.connect()?;
        session.ask(
            &format!("CREATE TABLE {table} ({definition}) WITH (encoding = '{encoding}')"),
            Rows::Count,
        )?;
        let mut read = timed(&format!("COPY from Parquet into a table, encoding {encoding}"), || {
            let done = session.ask(&format!("COPY {table} FROM 'event-snappy.parquet'"), Rows::Count)?;
            Ok((done.rows, None))
        })?;
        read.bytes = settled_bytes(run)?.zip(before).map(|(after, before)| after.saturating_sub(before));
        run.result.phases.push(read);
    }
    Ok(())
}

fn count(session: &mut SqlConnection, table: &str) -> Result<u64> {
    session.ask(&format!("SELECT event_id FROM {table}"), Rows::Count).map(|done| done.rows)
}

fn size(path: &Path) -> Option<u64> {
    path.metadata().ok().map(|metadata| metadata.len())
}

/// Bytes of the data directory after a restart, which writes to tables what is in memory and in the log; nothing if the server
/// is not restarted here.
fn settled_bytes(run: &mut Run<'_>) -> Result<Option<u64>> {
    Ok(match run.asker.restart()? {
        true => settled_disk_bytes(run.asker.server()),
        false => None,
    })
}
