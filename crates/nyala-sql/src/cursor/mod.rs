//! Cursors: queries whose rows are fetched by statements, some at a time.

mod fetched;
mod statement;

pub(crate) use fetched::Cursor;
pub(crate) use statement::{CursorStatement, Declared, FetchCount, begins_cursor_statement};
