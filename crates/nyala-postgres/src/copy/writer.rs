//! Writes rows in the forms of COPY.

use super::binary::SIGNATURE;
use crate::error::Failure;
use crate::value::Column;
use nyala_sql::{CopyForm, CopyHeader, CopyKind};

/// Writes rows.
pub struct CopyWriter {
    form: CopyForm,
    /// Whether bytes need an escape in the text form.
    is_special: [bool; 256],
    /// Whether the signature of the binary form still has to be written.
    needs_signature: bool,
}

impl CopyWriter {
    /// A writer of a form.
    pub fn of(form: CopyForm) -> Self {
        let mut is_special = [false; 256];
        is_special[0x08..=0x0d].fill(true);
        is_special[usize::from(b'\\')] = true;
        is_special[usize::from(form.delimiter)] = true;
        let needs_signature = form.kind == CopyKind::Binary;
        Self { form, is_special, needs_signature }
    }

    /// Whether a line of names is asked for.
    pub fn has_header(&self) -> bool {
        self.form.header != CopyHeader::Absent
    }

    /// Appends the line of names.
    pub fn header<'a>(&self, names: impl ExactSizeIterator<Item = &'a str>, out: &mut Vec<u8>) {
        let is_only = names.len() == 1;
        for (column, name) in names.enumerate() {
            self.separate(column, out);
            let begin = out.len();
            out.extend_from_slice(name.as_bytes());
            match self.form.kind {
                CopyKind::Csv => self.quote(begin, is_only, false, out),
                _ => self.escape(begin, out),
            }
        }
        out.push(b'\n');
    }

    /// Appends a row.
    ///
    /// # Errors
    /// A value that has no such form.
    pub fn row(&mut self, columns: &[Column], row: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
        match self.form.kind {
            CopyKind::Binary => {
                self.signature(out);
                let count = i16::try_from(columns.len());
                let count = count.map_err(|_| Failure::new("54011", "a row has too many columns"))?;
                out.extend_from_slice(&count.to_be_bytes());
                columns.iter().try_for_each(|column| column.write(row, out))
            }
            CopyKind::Text | CopyKind::Csv => self.line(columns, row, out),
            CopyKind::Parquet | CopyKind::Arrow => Err(Failure::new("XX000", "columns are no lines")),
        }
    }

    /// Whether something stands behind the last row.
    pub fn has_end(&self) -> bool {
        self.form.kind == CopyKind::Binary
    }

    /// Appends what stands behind the last row of the binary form.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        self.signature(out);
        out.extend_from_slice(&(-1_i16).to_be_bytes());
    }

    fn signature(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.needs_signature) {
            out.extend_from_slice(SIGNATURE);
            // No flags, and no extension.
            out.extend_from_slice(&[0; 8]);
        }
    }

    fn line(&self, columns: &[Column], row: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
        let is_only = columns.len() == 1;
        for (number, column) in columns.iter().enumerate() {
            self.separate(number, out);
            let begin = out.len();
            if column.is_null(row) {
                out.extend_from_slice(self.form.null.as_bytes());
                continue;
            }
            column.write_exactly(row, out)?;
            match self.form.kind {
                CopyKind::Csv => self.quote(begin, is_only, self.form.force_quote[number], out),
                _ => self.escape(begin, out),
            }
        }
        out.push(b'\n');
        Ok(())
    }

    fn separate(&self, column: usize, out: &mut Vec<u8>) {
        if column > 0 {
            out.push(self.form.delimiter);
        }
    }

    /// Puts escapes into the text that begins there.
    fn escape(&self, begin: usize, out: &mut Vec<u8>) {
        let is_special = |byte: &u8| self.is_special[usize::from(*byte)];
        let Some(first) = out[begin..].iter().position(is_special) else { return };
        let rest = out.split_off(begin + first);
        for byte in rest {
            if !self.is_special[usize::from(byte)] {
                out.push(byte);
                continue;
            }
            out.push(b'\\');
            out.push(match byte {
                0x08 => b'b',
                0x0c => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                0x0b => b'v',
                other => other,
            });
        }
    }

    /// Puts quotes around the text that begins there, if it needs them.
    fn quote(&self, begin: usize, is_only: bool, is_forced: bool, out: &mut Vec<u8>) {
        let CopyForm { delimiter, quote, escape, null, .. } = &self.form;
        let text = &out[begin..];
        let is_special = |byte: &u8| byte == delimiter || byte == quote || matches!(byte, b'\n' | b'\r');
        let is_like_another = text == null.as_bytes() || (is_only && text == b"\\.");
        if !is_forced && !is_like_another && !text.iter().any(is_special) {
            return;
        }
        let text = out.split_off(begin);
        out.push(*quote);
        for byte in text {
            if byte == *quote || byte == *escape {
                out.push(*escape);
            }
            out.push(byte);
        }
        out.push(*quote);
    }
}
