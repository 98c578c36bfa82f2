//! Column names as JSON. All series of a statement have the same names, so they are written once and then copied.

use super::json_string::push_string;
use nyala_exec::Frame;
use std::sync::Arc;

/// The column names of the last series.
#[derive(Default)]
pub(super) struct CachedNames {
    columns: Option<Arc<[String]>>,
    time_column: Option<Arc<str>>,
    /// Their JSON; empty before a second series has the same names.
    bytes: Vec<u8>,
}

impl CachedNames {
    /// Appends the names of a frame.
    pub(super) fn push(&mut self, out: &mut Vec<u8>, frame: &Frame) {
        let columns = self.columns.as_ref().filter(|columns| Arc::ptr_eq(columns, &frame.column_names));
        if columns.is_none() || self.time_column != frame.time_column {
            self.bytes.clear();
            (self.columns, self.time_column) = (Some(frame.column_names.clone()), frame.time_column.clone());
            return write(out, frame);
        }
        if self.bytes.is_empty() {
            write(&mut self.bytes, frame);
        }
        out.extend_from_slice(&self.bytes);
    }
}

fn write(out: &mut Vec<u8>, frame: &Frame) {
    out.extend_from_slice(b"\"columns\":[");
    let names = frame.time_column.as_deref().into_iter().chain(frame.column_names.iter().map(String::as_str));
    for (position, name) in names.enumerate() {
        if position > 0 {
            out.push(b',');
        }
        push_string(out, name);
    }
    out.push(b']');
}
