//! Cursors: queries whose rows are fetched by statements, some at a time.

mod fetched;
mod kept;
mod movement;
mod statement;

pub(crate) use fetched::Cursor;
pub(crate) use statement::{CursorStatement, Declared, begins_cursor_statement};
