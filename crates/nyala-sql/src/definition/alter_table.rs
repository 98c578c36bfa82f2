//! `ALTER TABLE`.

use crate::error::{SqlError, SqlResult};
use crate::outcome::CommandTag;
use crate::session::Session;
use crate::statement::Statement;
use datafusion::sql::sqlparser::ast::{AlterTable, CreateTable};

impl Session {
    pub(super) async fn alter_table(&mut self, _: &Statement, alter: &AlterTable) -> SqlResult<CommandTag> {
        Err(SqlError::unsupported(alter))
    }

    pub(super) async fn create_table_as(&mut self, _: &Statement, create: &CreateTable) -> SqlResult<CommandTag> {
        Err(SqlError::unsupported(create))
    }
}
