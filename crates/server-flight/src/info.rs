//! GetSqlInfo and GetXdbcTypeInfo: what the server can do, and the types of columns.

use crate::failure::unmade;
use crate::server_options::ServerOptions;
use alluvia_types::Result;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlOuterJoinsSupportLevel, SqlSupportedCaseSensitivity,
    SqlSupportedGroupBy, SqlSupportedSubqueries, SqlSupportedTransaction, SqlSupportedUnions, SupportedSqlGrammar,
    XdbcDataType, XdbcDatetimeSubcode,
};
use std::time::Duration;

/// Of the format, not of a library.
const ARROW_VERSION: &str = "1.5";
/// Bits of a set of which these numbers are members.
fn bits(members: &[i32]) -> i32 {
    members.iter().map(|member| 1 << member).sum()
}

/// What GetSqlInfo tells.
pub(crate) fn sql_info(options: &ServerOptions) -> Result<SqlInfoData> {
    let millis = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "Alluvia");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, ARROW_VERSION);
    info.append(SqlInfo::FlightSqlServerReadOnly, false);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::Transaction as i32);
    info.append(SqlInfo::FlightSqlServerCancel, true);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    info.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, true);
    // How long the handle of a prepared statement is good without being used; and a transaction.
    info.append(SqlInfo::FlightSqlServerStatementTimeout, millis(options.session_timeout));
    info.append(SqlInfo::FlightSqlServerTransactionTimeout, millis(options.transaction_idle_timeout));
    info.append(SqlInfo::SqlDdlCatalog, false);
    info.append(SqlInfo::SqlDdlSchema, false);
    info.append(SqlInfo::SqlDdlTable, true);
    info.append(SqlInfo::SqlIdentifierCase, i64::from(SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32));
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.append(
        SqlInfo::SqlQuotedIdentifierCase,
        i64::from(SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32),
    );
    info.append(SqlInfo::SqlAllTablesAreSelectable, true);
    info.append(SqlInfo::SqlNullOrdering, i64::from(SqlNullOrdering::SqlNullsSortedHigh as i32));
    info.append(SqlInfo::SqlSearchStringEscape, "\\");
    info.append(SqlInfo::SqlExtraNameCharacters, "");
    info.append(SqlInfo::SqlSupportsColumnAliasing, true);
    info.append(SqlInfo::SqlNullPlusNullIsNull, true);
    info.append(SqlInfo::SqlSupportsTableCorrelationNames, true);
    info.append(SqlInfo::SqlSupportsDifferentTableCorrelationNames, false);
    info.append(SqlInfo::SqlSupportsExpressionsInOrderBy, true);
    info.append(SqlInfo::SqlSupportsOrderByUnrelated, true);
    info.append(SqlInfo::SqlSupportedGroupBy, bits(&[SqlSupportedGroupBy::SqlGroupByUnrelated as i32]));
    info.append(SqlInfo::SqlSupportsLikeEscapeClause, true);
    info.append(SqlInfo::SqlSupportsNonNullableColumns, true);
    let grammar = [SupportedSqlGrammar::SqlMinimumGrammar, SupportedSqlGrammar::SqlCoreGrammar];
    info.append(SqlInfo::SqlSupportedGrammar, bits(&grammar.map(|level| level as i32)));
    info.append(SqlInfo::SqlSupportsIntegrityEnhancementFacility, false);
    info.append(SqlInfo::SqlOuterJoinsSupportLevel, bits(&[SqlOuterJoinsSupportLevel::SqlFullOuterJoins as i32]));
    info.append(SqlInfo::SqlSchemaTerm, "schema");
    info.append(SqlInfo::SqlProcedureTerm, "procedure");
    info.append(SqlInfo::SqlCatalogTerm, "database");
    info.append(SqlInfo::SqlCatalogAtStart, true);
    info.append(SqlInfo::SqlSelectForUpdateSupported, false);
    info.append(SqlInfo::SqlStoredProceduresSupported, false);
    let subqueries = [
        SqlSupportedSubqueries::SqlSubqueriesInComparisons,
        SqlSupportedSubqueries::SqlSubqueriesInExists,
        SqlSupportedSubqueries::SqlSubqueriesInIns,
    ];
    info.append(SqlInfo::SqlSupportedSubqueries, bits(&subqueries.map(|kind| kind as i32)));
    info.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
    let unions = [SqlSupportedUnions::SqlUnion, SqlSupportedUnions::SqlUnionAll];
    info.append(SqlInfo::SqlSupportedUnions, bits(&unions.map(|kind| kind as i32)));
    info.append(SqlInfo::SqlTransactionsSupported, true);
    info.append(SqlInfo::SqlDataDefinitionCausesTransactionCommit, false);
    info.append(SqlInfo::SqlDataDefinitionsInTransactionsIgnored, false);
    info.append(SqlInfo::SqlBatchUpdatesSupported, true);
    info.append(SqlInfo::SqlSavepointsSupported, false);
    info.append(SqlInfo::SqlNamedParametersSupported, false);
    info.append(SqlInfo::SqlLocatorsUpdateCopy, false);
    info.append(SqlInfo::SqlStoredFunctionsUsingCallSyntaxSupported, false);
    info.build().map_err(unmade)
}

/// What GetXdbcTypeInfo tells: the types that columns have.
pub(crate) fn types() -> Result<XdbcTypeInfoData> {
    use XdbcDataType::*;
    let number = |name: &str, kind, digits, radix| XdbcTypeInfo {
        type_name: name.to_owned(),
        data_type: kind,
        sql_data_type: kind,
        column_size: Some(digits),
        num_prec_radix: Some(radix),
        unsigned_attribute: Some(false),
        minimum_scale: Some(0),
        maximum_scale: Some(0),
        ..common()
    };
    let quoted = |name: &str, kind, size, subcode: Option<XdbcDatetimeSubcode>| XdbcTypeInfo {
        type_name: name.to_owned(),
        data_type: kind,
        sql_data_type: if subcode.is_some() { XdbcDatetime } else { kind },
        column_size: size,
        literal_prefix: Some("'".to_owned()),
        literal_suffix: Some("'".to_owned()),
        datetime_subcode: subcode,
        ..common()
    };
    let mut types = XdbcTypeInfoDataBuilder::new();
    types.append(XdbcTypeInfo {
        type_name: "BOOLEAN".to_owned(),
        data_type: XdbcBit,
        sql_data_type: XdbcBit,
        ..common()
    });
    types.append(number("SMALLINT", XdbcSmallint, 16, 2));
    types.append(number("INT", XdbcInteger, 32, 2));
    types.append(number("BIGINT", XdbcBigint, 64, 2));
    types.append(number("REAL", XdbcReal, 24, 2));
    types.append(number("DOUBLE", XdbcDouble, 53, 2));
    types.append(XdbcTypeInfo {
        create_params: Some(vec!["precision".to_owned(), "scale".to_owned()]),
        maximum_scale: Some(38),
        fixed_prec_scale: true,
        ..number("DECIMAL", XdbcDecimal, 38, 10)
    });
    types.append(XdbcTypeInfo {
        case_sensitive: true,
        searchable: Searchable::Full,
        ..quoted("TEXT", XdbcVarchar, None, None)
    });
    types.append(quoted("BYTEA", XdbcVarbinary, None, None));
    types.append(quoted("UUID", XdbcChar, Some(36), None));
    types.append(quoted("JSON", XdbcLongvarchar, None, None));
    types.append(quoted("JSONB", XdbcLongvarchar, None, None));
    types.append(quoted("CHAR", XdbcChar, None, None));
    types.append(number("NUMERIC", XdbcNumeric, 38, 10));
    types.append(quoted("TIME", XdbcTime, Some(15), Some(XdbcDatetimeSubcode::XdbcSubcodeTime)));
    types.append(quoted("INTERVAL", XdbcInterval, None, None));
    types.append(quoted("DATE", XdbcDate, Some(10), Some(XdbcDatetimeSubcode::XdbcSubcodeYear)));
    types.append(quoted("TIMESTAMP", XdbcTimestamp, Some(26), Some(XdbcDatetimeSubcode::XdbcSubcodeTimestamp)));
    types.append(quoted(
        "TIMESTAMP WITH TIME ZONE",
        XdbcTimestamp,
        Some(32),
        Some(XdbcDatetimeSubcode::XdbcSubcodeTimestampWithTimezone),
    ));
    types.build().map_err(unmade)
}

/// What all types have in common.
fn common() -> XdbcTypeInfo {
    XdbcTypeInfo {
        nullable: Nullable::NullabilityNullable,
        searchable: Searchable::Basic,
        auto_increment: Some(false),
        ..XdbcTypeInfo::default()
    }
}
