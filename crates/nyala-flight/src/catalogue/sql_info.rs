//! What the server can do, as drivers ask for it.

use arrow_flight::error::Result;
use arrow_flight::sql::metadata::{SqlInfoData, SqlInfoDataBuilder};
use arrow_flight::sql::{
    SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity, SqlSupportedTransaction,
    SqlTransactionIsolationLevel,
};

/// The version of Arrow's columnar format.
const ARROW_VERSION: &str = "1.5";
/// The longest name, as in PostgreSQL's messages: there is no other limit.
const NAME_BYTES: i64 = 63;

/// All that is known.
pub(super) fn all() -> Result<SqlInfoData> {
    let mut all = SqlInfoDataBuilder::new();
    all.append(SqlInfo::FlightSqlServerName, "nyala");
    all.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    all.append(SqlInfo::FlightSqlServerArrowVersion, ARROW_VERSION);
    all.append(SqlInfo::FlightSqlServerReadOnly, false);
    all.append(SqlInfo::FlightSqlServerSql, true);
    all.append(SqlInfo::FlightSqlServerSubstrait, false);
    all.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::Savepoint as i32);
    all.append(SqlInfo::FlightSqlServerCancel, true);
    all.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    all.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, true);
    all.append(SqlInfo::FlightSqlServerStatementTimeout, 0_i32);
    all.append(SqlInfo::FlightSqlServerTransactionTimeout, 0_i32);
    all.append(SqlInfo::SqlDdlCatalog, false);
    all.append(SqlInfo::SqlDdlSchema, false);
    all.append(SqlInfo::SqlDdlTable, true);
    all.append(SqlInfo::SqlIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i64);
    all.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    all.append(
        SqlInfo::SqlQuotedIdentifierCase,
        SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i64,
    );
    all.append(SqlInfo::SqlAllTablesAreSelectable, true);
    all.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i64);
    all.append(SqlInfo::SqlSearchStringEscape, "\\");
    all.append(SqlInfo::SqlSupportsColumnAliasing, true);
    all.append(SqlInfo::SqlNullPlusNullIsNull, true);
    all.append(SqlInfo::SqlSupportsTableCorrelationNames, true);
    all.append(SqlInfo::SqlSupportsExpressionsInOrderBy, true);
    all.append(SqlInfo::SqlSupportsOrderByUnrelated, true);
    all.append(SqlInfo::SqlSupportsNonNullableColumns, true);
    all.append(SqlInfo::SqlSchemaTerm, "schema");
    all.append(SqlInfo::SqlCatalogTerm, "database");
    all.append(SqlInfo::SqlCatalogAtStart, true);
    all.append(SqlInfo::SqlSelectForUpdateSupported, false);
    all.append(SqlInfo::SqlStoredProceduresSupported, false);
    all.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
    all.append(SqlInfo::SqlMaxColumnNameLength, NAME_BYTES);
    all.append(SqlInfo::SqlMaxTableNameLength, NAME_BYTES);
    all.append(
        SqlInfo::SqlDefaultTransactionIsolation,
        SqlTransactionIsolationLevel::SqlTransactionRepeatableRead as i64,
    );
    all.append(SqlInfo::SqlTransactionsSupported, true);
    all.append(SqlInfo::SqlBatchUpdatesSupported, true);
    all.append(SqlInfo::SqlSavepointsSupported, true);
    all.append(SqlInfo::SqlNamedParametersSupported, false);
    all.build()
}
