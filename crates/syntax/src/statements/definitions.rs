//! CREATE TABLE: from the parser's trees to what a table can be.
//!
//! Invariant: every clause is either taken over or refused by name; a constraint that is accepted is kept.

use crate::names::{name_of, new_table};
use crate::statement::literal_text;
use crate::statements::constraints::{ForeignKeySpec, UniqueSpec, foreign_key_spec, unique_spec};
use crate::statements::keys;
use crate::statements::rules::{CheckSpec, IdentitySpec, check_spec, default_sql, identity_spec, serial_type};
use crate::statements::written_types::column_type_of;
use alluvia_catalog::{RelationName, TEMPORARY_SCHEMA};
use alluvia_space::{
    Column, ColumnType, Curve, IdentityKind, Ladder, Placement, PurgeAfter, RowStore, Spread, TableDef, TableOptions,
    TableRules, dimensions,
};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId, near_names};
use alluvia_values::errors::not_supported;
use alluvia_values::time_zone::declared_rules;
use sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use sqlparser::ast::{
    self, ColumnDef, ColumnOption, CreateTableOptions, GeneratedAs, Query, SqlOption, TableConstraint,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// A parsed CREATE TABLE.
#[derive(Clone, Debug)]
pub struct CreateTable {
    /// The new table.
    pub name: RelationName,
    /// IF NOT EXISTS: whether a table of this name is left as it is, and no error.
    pub if_not_exists: bool,
    /// With AS: the names of the query's columns, or empty for the query's own.
    pub columns: Vec<ColumnSpec>,
    /// The columns of the key, in its order; empty for a table without one.
    pub key: Vec<String>,
    /// Its conditions, those that stand beside columns first.
    pub checks: Vec<CheckSpec>,
    /// UNIQUE among its columns, those that stand beside one first.
    pub uniques: Vec<UniqueSpec>,
    /// What its rows refer to, likewise.
    pub foreign_keys: Vec<ForeignKeySpec>,
    /// The options of the table.
    pub with: WithOptions,
    /// The query after AS; `None` without AS.
    pub query: Option<Box<Query>>,
    /// What becomes of the rows of a temporary table at the end of a transaction; `None` for a table that stays.
    pub temporary: Option<OnCommit>,
    /// UNLOGGED, which says nothing here.
    pub is_unlogged: bool,
}

/// What the end of a transaction does to a temporary table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnCommit {
    /// Nothing.
    #[default]
    PreserveRows,
    /// Its rows go.
    DeleteRows,
    /// It goes.
    Drop,
}

/// One declared column. Without a type in CREATE TABLE t (a, b) AS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnSpec {
    /// The column's name.
    pub name: String,
    /// The declared type; `None` where the query's type is taken.
    pub column_type: Option<ColumnType>,
    /// Whether NULL is allowed: NOT NULL is not written.
    pub nullable: bool,
    /// DEFAULT: an expression without columns.
    pub default: Option<String>,
    /// How it is numbered, if it is.
    pub identity: Option<IdentitySpec>,
    /// UNIQUE.
    pub unique: Option<UniqueSpec>,
    /// REFERENCES.
    pub references: Vec<ForeignKeySpec>,
}

impl ColumnSpec {
    /// A column of a query's type.
    pub(crate) fn named(name: String) -> ColumnSpec {
        let (default, identity, unique) = (None, None, None);
        ColumnSpec { name, column_type: None, nullable: true, default, identity, unique, references: Vec::new() }
    }
}

/// What WITH (...) says, as written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WithOptions {
    /// The dimensions and their levels; `None` if not written, as for all options here.
    pub dimensions: Option<String>,
    /// The columns that are aggregated, separated by commas.
    pub measures: Option<String>,
    /// The space-filling curve by which rows are sorted: `hilbert` or `z`.
    pub curve: Option<String>,
    /// The default freshness of statements that read the table: `5s`, `merged`.
    pub freshness: Option<String>,
    /// The thickest rung that merges write, as a share of the rows: `1/2`, `1/4` or `1/8`.
    pub ladder: Option<String>,
    /// What becomes of a row whose key is there: `error`, `nothing` or `replace`.
    pub on_conflict: Option<String>,
    /// Where the rows lie of a database on several machines: `rows`, `hash(column, ...)` or `copied`.
    pub placement: Option<String>,
    /// Over how many shards.
    pub shards: Option<String>,
    /// On how many workers each shard lies.
    pub replicas: Option<String>,
    /// On how many of them rows are durable before their batch is committed.
    pub write_quorum: Option<String>,
    /// Where rows are kept one by one: `memory`, `none` or `auto`.
    pub rows: Option<String>,
    /// How old deleted rows may become in the files: `30d`, `never` or `default`.
    pub purge_after: Option<String>,
    /// Storage parameters of PostgreSQL, which mean nothing here.
    pub meaningless: Vec<String>,
}

/// Storage parameters of PostgreSQL's tables, beside those that begin with `autovacuum_` or `toast`.
const STORAGE_PARAMETERS: [&str; 8] = [
    "fillfactor",
    "parallel_workers",
    "log_autovacuum_min_duration",
    "vacuum_index_cleanup",
    "vacuum_truncate",
    "vacuum_max_eager_freeze_failure_rate",
    "user_catalog_table",
    "oids",
];

/// Whether PostgreSQL has a storage parameter of this name.
pub(super) fn is_storage_parameter(name: &str) -> bool {
    name.starts_with("autovacuum_") || name.starts_with("toast") || STORAGE_PARAMETERS.contains(&name)
}

impl WithOptions {
    /// What is told of options that mean nothing here.
    pub fn notice(&self) -> Option<String> {
        let names = self.meaningless.join(", ");
        (!names.is_empty())
            .then(|| format!("{names}: changes nothing here, since rows are not kept in PostgreSQL's pages"))
    }
}

/// Takes over a CREATE TABLE.
pub fn create_table(create: ast::CreateTable) -> Result<CreateTable> {
    let plain = CreateTableBuilder::new(create.name.clone())
        .if_not_exists(create.if_not_exists)
        .columns(create.columns.clone())
        .constraints(create.constraints.clone())
        .table_options(create.table_options.clone())
        .query(create.query.clone())
        .temporary(create.temporary)
        .global(create.global.filter(|_| create.temporary))
        .on_commit(create.on_commit)
        .build();
    if create.or_replace {
        return Err(not_supported("CREATE OR REPLACE TABLE").with_hint("drop the table first"));
    }
    let clauses = [
        (create.like.is_some(), "CREATE TABLE ... LIKE"),
        (create.clone.is_some(), "CREATE TABLE ... CLONE"),
        (create.inherits.is_some(), "INHERITS"),
        (create.partition_by.is_some() || create.partition_of.is_some(), "PARTITION BY"),
        (create.order_by.is_some(), "ORDER BY in CREATE TABLE"),
        (create.cluster_by.is_some() || create.clustered_by.is_some(), "CLUSTER BY"),
        (create.primary_key.is_some(), "PRIMARY KEY"),
        (create.comment.is_some(), "COMMENT"),
        (create.location.is_some(), "LOCATION"),
    ];
    if let Some((_, clause)) = clauses.iter().find(|(found, _)| *found) {
        let error = not_supported(clause);
        return Err(match *clause {
            "CREATE TABLE ... LIKE" => error.with_hint("write CREATE TABLE u [WITH (...)] AS SELECT * FROM t LIMIT 0"),
            _ => error,
        });
    }
    if create != plain {
        return Err(not_supported("a clause of this CREATE TABLE")
            .with_hint("write CREATE TABLE t (column type [NOT NULL], ...) [WITH (...)] [AS query]"));
    }
    let key = keys::key_of(&create)?;
    let name = new_table(&create.name)?;
    let (name, temporary) = in_temporary_schema(name, temporary_of(&create)?)?;
    let checks = checks_of(&name.name, &create)?;
    let with = match create.table_options {
        CreateTableOptions::None => WithOptions::default(),
        CreateTableOptions::With(options) => with_options(&options)?,
        CreateTableOptions::Plain(options) => return Err(plain_option(&options)),
        _ => return Err(not_supported("OPTIONS in CREATE TABLE").with_hint(WITH_FORM)),
    };
    let columns = create.columns.iter().map(column).collect::<Result<Vec<ColumnSpec>>>()?;
    let mut uniques: Vec<UniqueSpec> = columns.iter().filter_map(|column| column.unique.clone()).collect();
    let mut foreign_keys: Vec<ForeignKeySpec> = columns.iter().flat_map(|column| column.references.clone()).collect();
    for constraint in &create.constraints {
        match constraint {
            TableConstraint::Unique(constraint) => uniques.push(unique_spec(constraint, None, None)?),
            TableConstraint::ForeignKey(constraint) => foreign_keys.push(foreign_key_spec(constraint, None, None)?),
            _ => {}
        }
    }
    if create.query.is_some() {
        if !key.is_empty() {
            return Err(not_supported("PRIMARY KEY in CREATE TABLE ... AS")
                .with_hint("create the table with its key, and INSERT INTO it the query's rows"));
        }
        if !checks.is_empty() || columns.iter().any(|column| column.default.is_some() || column.identity.is_some()) {
            return Err(not_supported("DEFAULT, IDENTITY or CHECK in CREATE TABLE ... AS")
                .with_hint("create the table with them, and INSERT INTO it the query's rows"));
        }
        if !uniques.is_empty() || !foreign_keys.is_empty() {
            return Err(not_supported("UNIQUE or REFERENCES in CREATE TABLE ... AS")
                .with_hint("create the table with them, and INSERT INTO it the query's rows"));
        }
        if let Some(typed) = columns.iter().find(|column| column.column_type.is_some()) {
            return Err(not_supported(format!("a type for column {} in CREATE TABLE ... AS", typed.name))
                .with_hint("cast in the query: SELECT CAST(x AS ...)"));
        }
    } else if let Some(untyped) = columns.iter().find(|column| column.column_type.is_none()) {
        return Err(Error::new(ErrorKind::InvalidDefinition, format!("column {} has no type", untyped.name)));
    }
    let query = create.query;
    Ok(CreateTable {
        name,
        if_not_exists: create.if_not_exists,
        columns,
        key,
        checks,
        uniques,
        foreign_keys,
        with,
        query,
        temporary,
        is_unlogged: false,
    })
}

/// A temporary table stands in the session's own schema, and what is made there is one.
fn in_temporary_schema(name: RelationName, temporary: Option<OnCommit>) -> Result<(RelationName, Option<OnCommit>)> {
    let is_there = name.schema() == Some(TEMPORARY_SCHEMA);
    match (temporary, name.schema()) {
        (None, _) if is_there => Ok((name, Some(OnCommit::PreserveRows))),
        (Some(_), Some(_)) if !is_there => {
            let message = "cannot create temporary relation in non-temporary schema";
            Err(Error::new(ErrorKind::InvalidDefinition, message).with_hint("leave the schema out"))
        }
        (Some(_), _) => Ok((RelationName::in_schema(TEMPORARY_SCHEMA, name.name), temporary)),
        (None, _) => Ok((name, None)),
    }
}

/// What is said of a temporary table's rows, if the table is one.
fn temporary_of(create: &ast::CreateTable) -> Result<Option<OnCommit>> {
    match (create.temporary, &create.on_commit) {
        (false, None) => Ok(None),
        (false, Some(_)) => {
            Err(Error::new(ErrorKind::InvalidDefinition, "ON COMMIT can only be used on temporary tables")
                .with_hint("write CREATE TEMPORARY TABLE"))
        }
        (true, None | Some(ast::OnCommit::PreserveRows)) => Ok(Some(OnCommit::PreserveRows)),
        (true, Some(ast::OnCommit::DeleteRows)) => Ok(Some(OnCommit::DeleteRows)),
        (true, Some(ast::OnCommit::Drop)) => Ok(Some(OnCommit::Drop)),
    }
}

/// The conditions of a table, those that stand beside columns first.
fn checks_of(table: &str, create: &ast::CreateTable) -> Result<Vec<CheckSpec>> {
    let mut checks = Vec::new();
    for column in &create.columns {
        for option in &column.options {
            if let ColumnOption::Check(constraint) = &option.option {
                let beside = name_of(&column.name);
                checks.push(check_spec(constraint, option.name.as_ref(), table, Some(&beside))?);
            }
        }
    }
    for constraint in &create.constraints {
        match constraint {
            TableConstraint::PrimaryKey(_) | TableConstraint::Unique(_) | TableConstraint::ForeignKey(_) => {}
            TableConstraint::Check(constraint) => checks.push(check_spec(constraint, None, table, None)?),
            other => return Err(constraint_error(other)),
        }
    }
    Ok(checks)
}

/// How options are written.
const WITH_FORM: &str = "write WITH (name = 'value', ...)";

/// The error for options behind the columns, without WITH: the first of them.
fn plain_option(options: &[SqlOption]) -> Error {
    let text = options.first().map(SqlOption::to_string).unwrap_or_default();
    let name = text.split([' ', '=', '(']).next().unwrap_or_default().to_uppercase();
    not_supported(format!("{name} in CREATE TABLE")).with_hint(match name.as_str() {
        "TABLESPACE" => "leave it out: all tables lie in the database's directory",
        _ => WITH_FORM,
    })
}

pub(super) fn constraint_error(constraint: &TableConstraint) -> Error {
    let name = match constraint {
        TableConstraint::PrimaryKey(_) => "PRIMARY KEY",
        _ => "this table constraint",
    };
    not_supported(name).with_hint(match constraint {
        TableConstraint::PrimaryKey(_) => KEY_HINT,
        _ => KEPT_HINT,
    })
}

/// Which constraints there are.
const KEPT_HINT: &str = "NOT NULL, CHECK, PRIMARY KEY, UNIQUE and FOREIGN KEY are the constraints that are kept";
/// What to do where a key cannot be declared.
const KEY_HINT: &str = "a key is declared when its table is created: CREATE TABLE t (id BIGINT PRIMARY KEY, ...)";

pub(super) fn column(column: &ColumnDef) -> Result<ColumnSpec> {
    let name = name_of(&column.name);
    let mut nullable = true;
    let says = |of: &ColumnOption| column.options.iter().any(|option| option.option == *of);
    if says(&ColumnOption::Null) && says(&ColumnOption::NotNull) {
        let message = format!("column {name} is declared both NULL and NOT NULL");
        return Err(Error::new(ErrorKind::InvalidDefinition, message).with_hint("leave one of them out"));
    }
    let (mut default, mut identity, mut unique, mut references) = (None, None, None, Vec::new());
    let serial = serial_type(&column.data_type);
    if serial.is_some() {
        identity = Some(serial_of(identity_spec(GeneratedAs::ByDefault, None)?));
        nullable = false;
    }
    let twice = || {
        let message = format!("column {name} has several defaults");
        Error::new(ErrorKind::InvalidDefinition, message).with_hint("leave all but one of them out")
    };
    for option in &column.options {
        let refused = match &option.option {
            ColumnOption::Default(_) | ColumnOption::Generated { .. } if default.is_some() || identity.is_some() => {
                return Err(twice());
            }
            ColumnOption::Default(expr) => {
                default = Some(default_sql(expr).map_err(|error| error.at(format!("column {name}")))?);
                continue;
            }
            ColumnOption::Generated { generated_as, sequence_options, generation_expr: None, .. } => {
                if says(&ColumnOption::Null) {
                    let message = format!("column {name} is declared both NULL and GENERATED AS IDENTITY");
                    return Err(
                        Error::new(ErrorKind::InvalidDefinition, message).with_hint("an identity column is never NULL")
                    );
                }
                identity = Some(identity_spec(*generated_as, sequence_options.as_deref())?);
                nullable = false;
                continue;
            }
            // Those of all columns are gathered beside the table's.
            ColumnOption::Check(_) => continue,
            ColumnOption::NotNull => {
                nullable = false;
                continue;
            }
            ColumnOption::PrimaryKey(_) if says(&ColumnOption::Null) => {
                let message = format!("column {name} is declared both NULL and PRIMARY KEY");
                return Err(Error::new(ErrorKind::InvalidDefinition, message).with_hint("a key is never NULL"));
            }
            ColumnOption::PrimaryKey(_) => {
                nullable = false;
                continue;
            }
            ColumnOption::Null => continue,
            ColumnOption::Unique(constraint) => {
                unique = Some(unique_spec(constraint, option.name.as_ref(), Some(&name))?);
                continue;
            }
            ColumnOption::ForeignKey(constraint) => {
                references.push(foreign_key_spec(constraint, option.name.as_ref(), Some(&name))?);
                continue;
            }
            ColumnOption::Generated { .. } => "GENERATED ALWAYS AS (...)",
            ColumnOption::Identity(_) => "IDENTITY",
            ColumnOption::Collation(_) => "COLLATE",
            ColumnOption::Comment(_) => "COMMENT",
            _ => "an option",
        };
        return Err(not_supported(format!("{refused} (on column {name})")).with_hint(match refused {
            "IDENTITY" => "write GENERATED ALWAYS AS IDENTITY",
            "GENERATED ALWAYS AS (...)" => "leave it out, and compute the value in the INSERT or in queries",
            "COLLATE" => "leave it out: text is compared by its bytes, as COLLATE \"C\" does",
            "COMMENT" => "leave it out: no words are kept about columns",
            _ => KEPT_HINT,
        }));
    }
    let column_type = match &column.data_type {
        ast::DataType::Unspecified => None,
        _ if serial.is_some() => serial.map(ColumnType::from),
        written => Some(column_type_of(written).map_err(|error| error.at(format!("column {name}")))?),
    };
    Ok(ColumnSpec { name, column_type, nullable, default, identity, unique, references })
}

/// The column of a type that numbers it.
fn serial_of(spec: IdentitySpec) -> IdentitySpec {
    IdentitySpec { kind: IdentityKind::Serial, ..spec }
}

/// What the parser reads behind a column's type and drops without a word.
const DROPPED: [&str; 5] = ["AUTO_INCREMENT", "AUTOINCREMENT", "IDENTITY", "ASC", "DESC"];

/// Refuses a definition of columns that says what the parser drops (sqlparser 0.62, `parse_optional_column_option`): what is written
/// has its effect, or is an error.
pub(crate) fn refuse_dropped(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut before: Option<&Token> = None;
    for token in tokens.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_))) {
        // Where a column's name stands, the word is one.
        let is_name = match before {
            Some(Token::LParen | Token::Comma | Token::Period) => true,
            Some(Token::Word(word)) => matches!(
                word.keyword,
                Keyword::COLUMN
                    | Keyword::ADD
                    | Keyword::DROP
                    | Keyword::RENAME
                    | Keyword::TABLE
                    | Keyword::TO
                    | Keyword::EXISTS
            ),
            _ => false,
        };
        if let Token::Word(word) = token
            && word.quote_style.is_none()
            && !is_name
            && !(word.keyword == Keyword::IDENTITY && is_as(before))
            && let Some(dropped) = DROPPED.iter().find(|dropped| word.value.eq_ignore_ascii_case(dropped))
        {
            return Err(not_supported(format!("{dropped} on a column"))
                .with_hint("write GENERATED ALWAYS AS IDENTITY where rows are to be numbered"));
        }
        before = Some(token);
    }
    Ok(())
}

/// Whether a token is the AS of GENERATED ... AS IDENTITY.
fn is_as(token: Option<&Token>) -> bool {
    matches!(token, Some(Token::Word(word)) if word.keyword == Keyword::AS)
}

pub(super) fn with_options(options: &[SqlOption]) -> Result<WithOptions> {
    const KNOWN: [&str; 12] = [
        "dimensions",
        "measures",
        "curve",
        "freshness",
        "ladder",
        "on_conflict",
        "placement",
        "shards",
        "replicas",
        "write_quorum",
        "rows",
        "purge_after",
    ];
    let mut with = WithOptions::default();
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(Error::new(ErrorKind::InvalidDefinition, format!("the option {option} has no value"))
                .with_hint("write WITH (name = 'value', ...)"));
        };
        let name = name_of(key);
        if is_storage_parameter(&name) {
            with.meaningless.push(name);
            continue;
        }
        let place = match name.as_str() {
            "dimensions" => &mut with.dimensions,
            "measures" => &mut with.measures,
            "curve" => &mut with.curve,
            "freshness" => &mut with.freshness,
            "ladder" => &mut with.ladder,
            "on_conflict" => &mut with.on_conflict,
            "placement" => &mut with.placement,
            "shards" => &mut with.shards,
            "replicas" => &mut with.replicas,
            "write_quorum" => &mut with.write_quorum,
            "rows" => &mut with.rows,
            "purge_after" => &mut with.purge_after,
            _ => {
                let near = near_names(&name, KNOWN);
                let hint = match near.first() {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("a table's options are {}", KNOWN.join(", ")),
                };
                return Err(Error::new(ErrorKind::InvalidDefinition, format!("there is no table option {name}"))
                    .with_hint(hint));
            }
        };
        let text = literal_text(value).ok_or_else(|| {
            Error::new(ErrorKind::InvalidDefinition, format!("the option {name} needs a string, not {value}"))
                .with_hint(format!("put its value into quotes: WITH ({name} = '...')"))
        })?;
        if place.replace(text).is_some() {
            return Err(Error::new(ErrorKind::InvalidDefinition, format!("the option {name} is given twice")));
        }
    }
    Ok(with)
}

/// The curve of that name.
fn curve_of(name: &str) -> Result<Curve> {
    match name.to_ascii_lowercase().as_str() {
        "hilbert" => Ok(Curve::Hilbert),
        "z" => Ok(Curve::Z),
        _ => Err(Error::new(ErrorKind::InvalidDefinition, format!("there is no curve {name:?}"))
            .with_hint("curve is 'hilbert' or 'z'")),
    }
}

/// Where the rows of a table are to lie, if anything is said of that.
fn placement_of(with: &WithOptions, columns: &[Column]) -> Result<Option<Placement>> {
    let WithOptions { placement, shards, replicas, write_quorum, .. } = with;
    let numbers = [("shards", shards), ("replicas", replicas), ("write_quorum", write_quorum)];
    let Some(spread) = placement else {
        return match numbers.into_iter().find(|(_, written)| written.is_some()) {
            None => Ok(None),
            Some((name, _)) => {
                Err(Error::new(ErrorKind::InvalidDefinition, format!("{name} is given without placement"))
                    .with_hint("write placement = 'rows', 'hash(column, ...)' or 'copied', too"))
            }
        };
    };
    let number = |(name, written): (&str, &Option<String>)| match written.as_deref().map(str::trim) {
        None => Ok(0),
        Some(text) => text.parse::<u32>().ok().filter(|number| *number > 0).ok_or_else(|| {
            Error::new(ErrorKind::InvalidDefinition, format!("{name} = '{text}' is no number of them"))
                .with_hint(format!("write {name} = '2'"))
        }),
    };
    let [shards, replicas, write_quorum] = numbers.map(number);
    let (shards, replicas, write_quorum) = (shards?, replicas?, write_quorum?);
    Ok(Some(Placement { spread: Spread::parse(spread, columns)?, shards, replicas, write_quorum }))
}

/// The freshness as it is kept, checked.
pub fn checked_freshness(written: &str) -> Result<String> {
    crate::units::parse_freshness(written)?;
    Ok(written.trim().to_ascii_lowercase())
}

/// The definition of a new table without a key; [`with_key`](keys::with_key) gives it one.
pub fn define(
    id: TableId,
    (schema, name): (&str, &str),
    specs: &[(String, ColumnType, bool)],
    with: &WithOptions,
    seed: u64,
) -> Result<TableDef> {
    let mut columns: Vec<Column> = Vec::with_capacity(specs.len());
    for (at, (column, column_type, nullable)) in specs.iter().enumerate() {
        if columns.iter().any(|known| known.name == *column) {
            return Err(Error::new(ErrorKind::DuplicateColumn, format!("column {column} is declared twice")));
        }
        columns.push(Column {
            id: ColumnId(at as u32),
            name: column.clone(),
            storage_name: column.clone(),
            data_type: column_type.data_type,
            nullable: *nullable,
            chars_max: column_type.chars_max,
        });
    }
    if columns.is_empty() {
        return Err(Error::new(ErrorKind::InvalidDefinition, format!("table {name} has no columns"))
            .with_hint("write CREATE TABLE t (column type, ...)"));
    }
    let dimensions = match &with.dimensions {
        Some(text) => dimensions::parse_with_zones(text, &columns, &declared_rules)?,
        None => Vec::new(),
    };
    let measures = match &with.measures {
        Some(text) => dimensions::parse_measures(text, &columns)?,
        None => Vec::new(),
    };
    let options = TableOptions {
        freshness: with.freshness.as_deref().map(checked_freshness).transpose()?,
        curve: with.curve.as_deref().map(curve_of).transpose()?.unwrap_or_default(),
        ladder: with.ladder.as_deref().map(Ladder::parse).transpose()?.unwrap_or_default(),
        placement: placement_of(with, &columns)?,
        rows: with.rows.as_deref().map(RowStore::parse).transpose()?.flatten(),
        purge_after: with.purge_after.as_deref().map(PurgeAfter::parse_option).transpose()?.flatten(),
    };
    let next_column_id = columns.len() as u32;
    let def = TableDef {
        id,
        schema: schema.to_owned(),
        name: name.to_owned(),
        columns,
        next_column_id,
        key: None,
        rules: TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions,
        measures,
        seed,
        options,
    };
    def.validate()?;
    Ok(def)
}
