//! COPY FROM STDIN: messages with rows, until the client says that there are no more.

use super::wire::{Message, Unread};
use super::{Connection, Stop, unless_closed};
use crate::copy::CopyReader;
use crate::error::Failure;
use crate::message::{Frontend, backend};
use crate::value::Format;
use nyala_sql::{CommandTag, CopyIn, CopyKind};

impl Connection {
    /// Receives the rows of a COPY and writes them. If it fails, nothing is written.
    pub(super) async fn copy_in(&mut self, copy: Box<CopyIn>) -> Result<CommandTag, Stop> {
        let format = match copy.form().kind {
            CopyKind::Binary => Format::Binary,
            CopyKind::Text | CopyKind::Csv => Format::Text,
            CopyKind::Parquet | CopyKind::Arrow => return Err(over_http().into()),
        };
        let reader = CopyReader::of(&copy)?;
        backend::copy_in_response(&mut self.wire.output, format, copy.schema().fields().len());
        self.wire.expect_rows(true);
        let copied = self.receive_rows(copy, reader).await;
        self.wire.expect_rows(false);
        copied
    }

    async fn receive_rows(
        &mut self,
        mut copy: Box<CopyIn>,
        mut reader: CopyReader,
    ) -> Result<CommandTag, Stop> {
        while let Some(rows) = self.next_rows(&copy).await? {
            reader.push(&rows.body)?;
            drop(rows);
            self.write_rows(&mut copy, &mut reader, false).await?;
        }
        self.write_rows(&mut copy, &mut reader, true).await?;
        let finishing = copy.finish(&mut self.session, &mut reader.rows);
        Ok(unless_closed(&mut self.wire, finishing).await??)
    }

    /// Reads what has come, and writes rows when there are many.
    async fn write_rows(
        &mut self,
        copy: &mut CopyIn,
        reader: &mut CopyReader,
        is_end: bool,
    ) -> Result<(), Stop> {
        Ok(unless_closed(&mut self.wire, reader.write_to(copy, is_end)).await??)
    }

    /// The next message with rows; `None` at the end of them.
    async fn next_rows(&mut self, copy: &CopyIn) -> Result<Option<Message>, Stop> {
        let mut stopped = self.server.surroundings.stopped.clone();
        loop {
            let read = tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return Err(Stop::Ended(Failure::shutdown())),
                error = copy.stopped() => return Err(error.into()),
                read = self.wire.read(Frontend::is_known) => read,
            };
            let message = match read {
                Ok(message) => message,
                Err(Unread::Closed) => return Err(Stop::Closed),
                Err(Unread::Skipped(_, failure)) => return Err(failure.into()),
                Err(Unread::Fatal(failure)) => return Err(Stop::Ended(failure)),
            };
            match message.letter {
                b'd' => return Ok(Some(message)),
                b'c' => return Ok(None),
                b'f' => {
                    let failure = match Frontend::read(b'f', message.body)? {
                        Frontend::CopyFail(why) => {
                            Failure::new("57014", format!("COPY from stdin failed: {why}"))
                        }
                        _ => Failure::protocol("invalid message format"),
                    };
                    return Err(failure.into());
                }
                // Clients that use the extended protocol send them before they know that rows are wanted.
                b'H' | b'S' => {}
                b'X' => return Err(Stop::Closed),
                other => {
                    let message = format!("unexpected message type 0x{other:02X} during COPY from stdin");
                    return Err(Failure::protocol(message).into());
                }
            }
        }
    }
}

/// Neither form is one of the protocol.
pub(super) fn over_http() -> Failure {
    Failure::unsupported("COPY in the format arrow over PostgreSQL's protocol is not supported")
        .with_hint("Over HTTP, /api/sql takes and gives it.")
}
