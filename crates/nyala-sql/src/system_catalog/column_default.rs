//! What a new row gets in a column, as the catalogue shows it.

use super::deparse::{DefaultText, Style, default_text};
use crate::expression::parsed;
use nyala_db::relations::{ColumnDefinition, DeclaredType};

/// What a new row gets in a column.
#[derive(Debug, Clone)]
pub(crate) struct ColumnDefault {
    /// As it was written.
    written: String,
    /// The type of the column.
    of: DeclaredType,
}

impl ColumnDefault {
    /// That of a column, if it has one.
    pub(crate) fn of(column: &ColumnDefinition) -> Option<Self> {
        let own = Self { written: column.default.clone()?, of: column.declared_type };
        (!own.is_nothing()).then_some(own)
    }

    /// Whether it is NULL, which a column without a default has, too.
    fn is_nothing(&self) -> bool {
        // Others need not be parsed.
        let may_be = self.written.to_ascii_lowercase().contains("null");
        may_be && self.text(&Style::default()) == Some(DefaultText::Nothing)
    }

    fn text(&self, style: &Style) -> Option<DefaultText> {
        default_text(&parsed(&self.written).ok()?, self.of, style)
    }

    /// As PostgreSQL shows it, or as it was written.
    pub(crate) fn shown(&self, style: &Style) -> String {
        match self.text(style) {
            Some(DefaultText::Shown(text)) => text,
            Some(DefaultText::Nothing) | None => self.written.clone(),
        }
    }
}
