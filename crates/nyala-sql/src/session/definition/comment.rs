//! `COMMENT ON`.

use super::table_of;
use crate::command_tag::CommandTag;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{CommentObject, ObjectName, ObjectNamePart};
use nyala_core::Error;
use nyala_db::relations::{Body, Definition};

/// The longest comment, bytes: it is part of the record of a relation.
const COMMENT_MAX_BYTES: usize = 4096;

impl Session {
    pub(super) async fn comment(
        &mut self,
        kind: &CommentObject,
        name: &ObjectName,
        comment: Option<&str>,
        if_exists: bool,
    ) -> SqlResult<CommandTag> {
        if comment.is_some_and(|text| text.len() > COMMENT_MAX_BYTES) {
            let message = format!("a comment may have {COMMENT_MAX_BYTES} bytes");
            return Err(SqlError::new(SqlState::LIMIT_EXCEEDED, message));
        }
        // An empty comment is none.
        let comment = comment.filter(|text| !text.is_empty()).map(str::to_owned);
        let (relation_name, column) = match kind {
            CommentObject::Table | CommentObject::View | CommentObject::Sequence => (name.clone(), None),
            CommentObject::Column => {
                let Some((ObjectNamePart::Identifier(column), rest)) = name.0.split_last() else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
                };
                if rest.is_empty() {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
                }
                (ObjectName(rest.to_vec()), Some(folded(column)))
            }
            other => return Err(SqlError::unsupported(format!("COMMENT ON {other}"))),
        };
        let place = self.writable_place(&relation_name)?;
        let tag = CommandTag::of("COMMENT");
        let relation = match place.relation(self.relations()) {
            Some(relation) => relation,
            None if if_exists => return Ok(tag),
            None => return Err(place.unknown()),
        };
        let (is_wanted, kind) = match kind {
            CommentObject::View => (relation.view().is_some(), "view"),
            CommentObject::Sequence => (relation.sequence().is_some(), "sequence"),
            _ => (relation.table().is_some(), "table"),
        };
        if column.is_none() && !is_wanted {
            let message = format!("\"{}\" is not a {kind}", relation.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT, message));
        }
        if let Some(column) = &column
            && table_of(&relation)?.column(column).is_none()
        {
            let message = format!("column \"{column}\" of relation \"{}\" does not exist", relation.name);
            return Err(SqlError::new(SqlState::UNKNOWN_COLUMN, message));
        }
        let change = |definition: &Definition| {
            let mut changed = definition.clone();
            match (&column, &mut changed.body) {
                (Some(name), Body::Table(table)) => {
                    let own = table.columns.iter_mut().find(|own| own.name == *name);
                    let own = own.ok_or_else(|| Error::missing(format!("there is no column {name:?}")))?;
                    own.comment.clone_from(&comment);
                }
                _ => changed.comment.clone_from(&comment),
            }
            Ok(changed)
        };
        if self.transaction.is_some() {
            let changed = change(&relation.definition)?;
            self.put_uncommitted(&relation.database, &relation.name, Some(changed));
            return Ok(tag);
        }
        let change = |relation: &nyala_db::relations::Relation| change(&relation.definition);
        self.server.catalog.alter_relation(&relation.database, &relation.name, change).await?;
        Ok(tag)
    }
}
