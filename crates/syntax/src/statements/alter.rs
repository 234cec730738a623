//! ALTER TABLE: from its words to changes of a definition.
//!
//! Invariants:
//! - Every clause is either taken over or refused by name.
//! - Several changes of one statement are made in their order.

use crate::names::{name_of, new_table, user_table};
use crate::statements::constraints::{ForeignKeySpec, UniqueSpec, foreign_key_spec, unique_spec};
use crate::statements::definitions::{
    ColumnSpec, WithOptions, column, constraint_error, is_storage_parameter, with_options,
};
use crate::statements::keys;
use crate::statements::parse::syntax;
use crate::statements::roles::{RoleName, owner_of};
use crate::statements::rules::{CheckSpec, IdentitySpec, check_spec, default_sql, expression_sql, identity_spec};
use crate::statements::written_types::column_type_of;
use alluvia_catalog::RelationName;
use alluvia_space::{ColumnType, IdentityKind};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, CastKind, ColumnDef, ColumnOption, DropBehavior, Expr, GeneratedAs,
    RenameTableNameKind, TableConstraint,
};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

/// A parsed ALTER TABLE.
#[derive(Clone, Debug)]
pub struct AlterTable {
    /// The table to change.
    pub name: RelationName,
    /// IF EXISTS: whether a table that does not exist is no error.
    pub if_exists: bool,
    /// The change to make.
    pub change: TableChange,
}

/// What ALTER TABLE changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableChange {
    /// `ADD [COLUMN] [IF NOT EXISTS]`.
    AddColumn {
        /// The new column, which has a type.
        column: Box<ColumnSpec>,
        /// Whether a column of this name is left as it is, and no error.
        if_not_exists: bool,
        /// What else is said of it, to be made behind it: conditions, and what must be looked up among its values.
        then: Vec<TableChange>,
    },
    /// `DROP [COLUMN] [IF EXISTS]`.
    DropColumn {
        /// The column to drop.
        name: String,
        /// Whether a column that does not exist is no error.
        if_exists: bool,
        /// CASCADE: whether the views that read it go, too.
        cascade: bool,
    },
    /// `ALTER COLUMN a SET DEFAULT`, or DROP DEFAULT without an expression.
    SetDefault {
        /// The column.
        column: String,
        /// The expression.
        sql: Option<String>,
    },
    /// `ALTER COLUMN a SET NOT NULL`.
    SetNotNull(String),
    /// `ALTER COLUMN a DROP NOT NULL`.
    DropNotNull(String),
    /// `ALTER COLUMN a [SET DATA] TYPE`.
    SetType {
        /// The column.
        column: String,
        /// Its new type.
        column_type: ColumnType,
        /// The expression behind USING, unless that is the column as it is.
        using: Option<String>,
        /// Whether that is the column, cast to the type itself.
        is_cast: bool,
    },
    /// `ALTER COLUMN a ADD GENERATED AS IDENTITY`.
    AddIdentity {
        /// The column.
        column: String,
        /// How it is numbered.
        identity: IdentitySpec,
    },
    /// `ALTER COLUMN a DROP IDENTITY [IF EXISTS]`.
    DropIdentity {
        /// The column.
        column: String,
        /// Whether one that is not numbered is no error.
        if_exists: bool,
    },
    /// `ALTER COLUMN a SET GENERATED`.
    SetGenerated {
        /// The column.
        column: String,
        /// ALWAYS or BY DEFAULT.
        kind: IdentityKind,
    },
    /// ADD PRIMARY KEY.
    AddKey(Vec<String>),
    /// ADD CONSTRAINT CHECK.
    AddCheck(CheckSpec),
    /// ADD CONSTRAINT UNIQUE.
    AddUnique(UniqueSpec),
    /// ADD CONSTRAINT FOREIGN KEY.
    AddForeignKey(ForeignKeySpec),
    /// DROP CONSTRAINT `[IF EXISTS]`.
    DropConstraint {
        /// The constraint to drop.
        name: String,
        /// Whether one that does not exist is no error.
        if_exists: bool,
        /// CASCADE: whether what refers by it goes, too.
        cascade: bool,
    },
    /// `RENAME [COLUMN] a TO b`.
    RenameColumn {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// RENAME TO.
    Rename(RelationName),
    /// SET SCHEMA.
    SetSchema(String),
    /// SET (...).
    Set(WithOptions),
    /// OWNER TO.
    Owner(RoleName),
    /// What changes nothing here, which is told.
    Told(String),
    /// Several, one after the other.
    Several(Vec<TableChange>),
    /// ALTER INDEX ... RENAME TO: the name of the statement is the index's.
    RenameIndex(String),
}

impl TableChange {
    /// Whether it goes alone, as in PostgreSQL.
    fn is_alone(&self) -> bool {
        matches!(
            self,
            TableChange::RenameColumn { .. }
                | TableChange::Rename(_)
                | TableChange::SetSchema(_)
                | TableChange::RenameIndex(_)
        )
    }
}

/// Parses ALTER TABLE and ALTER INDEX, which the parser stands before.
pub(crate) fn parse_alter(parser: &mut Parser<'_>) -> Result<AlterTable> {
    expect(parser, "ALTER")?;
    if word(parser, "INDEX") {
        return alter_index(parser);
    }
    expect(parser, "TABLE")?;
    let if_exists = if_exists(parser)?;
    // No table inherits.
    let _ = word(parser, "ONLY");
    let name = user_table(&parser.parse_object_name(false).map_err(syntax)?)?;
    let mut changes = Vec::new();
    loop {
        match own_form(parser)? {
            Some(change) => changes.push(change),
            None => changes.push(change_of(&parser.parse_alter_table_operation().map_err(syntax)?, &name)?),
        }
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    if changes.len() > 1 && changes.iter().any(TableChange::is_alone) {
        return Err(Error::new(ErrorKind::Syntax, "RENAME and SET SCHEMA stand alone in ALTER TABLE")
            .with_hint("write one ALTER TABLE for each"));
    }
    if changes.len() > 1 && changes.iter().any(|change| matches!(change, TableChange::Owner(_))) {
        return Err(not_supported("OWNER TO beside other changes").with_hint("write one ALTER TABLE for each"));
    }
    let change = match changes.pop() {
        Some(change) if changes.is_empty() => change,
        last => {
            changes.extend(last);
            TableChange::Several(changes)
        }
    };
    Ok(AlterTable { name, if_exists, change })
}

/// Whether a statement of these first words is one of them.
pub(crate) fn is_alter(words: &[String]) -> bool {
    matches!(words, [first, second, ..] if first == "ALTER" && (second == "TABLE" || second == "INDEX"))
}

fn alter_index(parser: &mut Parser<'_>) -> Result<AlterTable> {
    let if_exists = if_exists(parser)?;
    let name = user_table(&parser.parse_object_name(false).map_err(syntax)?)?;
    if word(parser, "RENAME") {
        expect(parser, "TO")?;
        let to = name_of(&parser.parse_identifier().map_err(syntax)?);
        return Ok(AlterTable { name, if_exists, change: TableChange::RenameIndex(to) });
    }
    let form = parser.peek_token_ref().token.to_string();
    Err(not_supported(format!("ALTER INDEX ... {form}")).with_hint("an index can be renamed, or dropped and made anew"))
}

fn if_exists(parser: &mut Parser<'_>) -> Result<bool> {
    let if_exists = word(parser, "IF");
    if if_exists {
        expect(parser, "EXISTS")?;
    }
    Ok(if_exists)
}

/// The forms that the parser does not know.
fn own_form(parser: &mut Parser<'_>) -> Result<Option<TableChange>> {
    let next = |at: usize| match &parser.peek_nth_token_ref(at).token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        Token::LParen => "(".to_owned(),
        _ => String::new(),
    };
    let words = [next(0), next(1)];
    match [words[0].as_str(), words[1].as_str()] {
        ["SET", logged @ ("LOGGED" | "UNLOGGED")] => {
            let told = format!("{logged} changes nothing here: the table is kept as others are");
            skip(parser, 2);
            Ok(Some(TableChange::Told(told)))
        }
        ["RESET", "("] => {
            skip(parser, 2);
            let names = parser.parse_comma_separated(Parser::parse_identifier).map_err(syntax)?;
            parser.expect_token(&Token::RParen).map_err(syntax)?;
            let names: Vec<String> = names.iter().map(name_of).collect();
            if let Some(other) = names.iter().find(|name| !is_storage_parameter(name)) {
                return Err(not_supported(format!("ALTER TABLE ... RESET ({other})"))
                    .with_hint("ALTER TABLE t SET (...) gives a table another option"));
            }
            let with = WithOptions { meaningless: names, ..WithOptions::default() };
            Ok(with.notice().map(TableChange::Told))
        }
        ["ALTER", second] => {
            let at = if second == "COLUMN" { 2 } else { 1 };
            let form = [next(at + 1), next(at + 2)];
            let form = match [form[0].as_str(), form[1].as_str()] {
                ["DROP", "IDENTITY"] => "DROP IDENTITY",
                ["SET", "GENERATED"] => "SET GENERATED",
                _ => return Ok(None),
            };
            skip(parser, at);
            let column = name_of(&parser.parse_identifier().map_err(syntax)?);
            skip(parser, 2);
            if form == "DROP IDENTITY" {
                let if_exists = if_exists(parser)?;
                return Ok(Some(TableChange::DropIdentity { column, if_exists }));
            }
            let kind = match word(parser, "ALWAYS") {
                true => IdentityKind::Always,
                false => {
                    expect(parser, "BY")?;
                    expect(parser, "DEFAULT")?;
                    IdentityKind::ByDefault
                }
            };
            Ok(Some(TableChange::SetGenerated { column, kind }))
        }
        _ => Ok(None),
    }
}

fn skip(parser: &mut Parser<'_>, tokens: usize) {
    for _ in 0..tokens {
        parser.next_token();
    }
}

/// Takes a word if it comes next.
fn word(parser: &mut Parser<'_>, wanted: &str) -> bool {
    let is_next = matches!(&parser.peek_token_ref().token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted));
    if is_next {
        parser.next_token();
    }
    is_next
}

fn expect(parser: &mut Parser<'_>, wanted: &str) -> Result<()> {
    match word(parser, wanted) {
        true => Ok(()),
        false => {
            Err(Error::new(ErrorKind::Syntax, format!("Expected: {wanted}, found: {}", parser.peek_token_ref().token)))
        }
    }
}

/// Takes over one change of a table that is called so.
fn change_of(operation: &AlterTableOperation, table: &RelationName) -> Result<TableChange> {
    Ok(match operation {
        AlterTableOperation::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
            added_column(column_def, *if_not_exists, &table.name)?
        }
        AlterTableOperation::AddColumn { .. } => return Err(not_supported("a position in ADD COLUMN")),
        AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
            let [name] = column_names.as_slice() else {
                return Err(not_supported("dropping several columns at once"));
            };
            let cascade = *drop_behavior == Some(DropBehavior::Cascade);
            TableChange::DropColumn { name: name_of(name), if_exists: *if_exists, cascade }
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            TableChange::RenameColumn { from: name_of(old_column_name), to: name_of(new_column_name) }
        }
        AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(name) } => {
            TableChange::Rename(new_table(name)?)
        }
        AlterTableOperation::OwnerTo { new_owner } => TableChange::Owner(owner_of(new_owner)),
        AlterTableOperation::SetOptionsParens { options } => TableChange::Set(with_options(options)?),
        AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
            let cascade = *drop_behavior == Some(DropBehavior::Cascade);
            TableChange::DropConstraint { name: name_of(name), if_exists: *if_exists, cascade }
        }
        AlterTableOperation::AddConstraint { not_valid: true, .. } => {
            return Err(not_supported("NOT VALID in ADD CONSTRAINT")
                .with_hint("leave it out: the rows that are there are checked"));
        }
        AlterTableOperation::AddConstraint { constraint: TableConstraint::Check(constraint), .. } => {
            TableChange::AddCheck(check_spec(constraint, None, &table.name, None)?)
        }
        AlterTableOperation::AddConstraint { constraint: TableConstraint::Unique(constraint), .. } => {
            TableChange::AddUnique(unique_spec(constraint, None, None)?)
        }
        AlterTableOperation::AddConstraint { constraint: TableConstraint::ForeignKey(constraint), .. } => {
            TableChange::AddForeignKey(foreign_key_spec(constraint, None, None)?)
        }
        AlterTableOperation::AddConstraint { constraint: TableConstraint::PrimaryKey(constraint), .. } => {
            TableChange::AddKey(keys::key_of_constraint(constraint)?)
        }
        AlterTableOperation::AddConstraint { constraint, .. } => return Err(constraint_error(constraint)),
        AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::SetDefault { value } } => {
            TableChange::SetDefault { column: name_of(column_name), sql: Some(default_sql(value)?) }
        }
        AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::DropDefault } => {
            TableChange::SetDefault { column: name_of(column_name), sql: None }
        }
        AlterTableOperation::AlterColumn { column_name, op } => {
            let column = name_of(column_name);
            match op {
                AlterColumnOperation::SetNotNull => TableChange::SetNotNull(column),
                AlterColumnOperation::DropNotNull => TableChange::DropNotNull(column),
                AlterColumnOperation::SetDataType { data_type, using, .. } => {
                    let column_type =
                        column_type_of(data_type).map_err(|error| error.at(format!("column {column}")))?;
                    let is_cast = using.as_ref().is_some_and(|expr| is_column(expr, &column, column_type));
                    // A text is cut off by such a cast, and refused where it is assigned.
                    let says_more = |_: &&Expr| !is_cast || column_type.chars_max.is_some();
                    let using = using.as_ref().filter(says_more);
                    let using = using.map(|expr| expression_sql(expr, "transform expression")).transpose()?;
                    TableChange::SetType { column, column_type, using, is_cast }
                }
                AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
                    let generated_as = generated_as.unwrap_or(GeneratedAs::Always);
                    let identity = identity_spec(generated_as, sequence_options.as_deref())?;
                    TableChange::AddIdentity { column, identity }
                }
                AlterColumnOperation::SetDefault { value } => {
                    TableChange::SetDefault { column, sql: Some(default_sql(value)?) }
                }
                AlterColumnOperation::DropDefault => TableChange::SetDefault { column, sql: None },
            }
        }
        other => return Err(not_supported(format!("ALTER TABLE ... {}", leading_words(other)))),
    })
}

/// Whether an expression is a column, as it is or cast to a type.
fn is_column(expr: &Expr, column: &str, column_type: ColumnType) -> bool {
    match expr {
        Expr::Identifier(ident) => name_of(ident) == column,
        Expr::Nested(inner) => is_column(inner, column, column_type),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, format: None, .. } => {
            let is_same = column_type_of(data_type).is_ok_and(|cast| cast == column_type);
            is_same && is_column(expr, column, column_type)
        }
        _ => false,
    }
}

fn added_column(def: &ColumnDef, if_not_exists: bool, table: &str) -> Result<TableChange> {
    let mut column = column(def)?;
    if column.column_type.is_none() {
        return Err(Error::new(ErrorKind::InvalidDefinition, format!("column {} has no type", column.name)));
    }
    if column.default.as_deref().is_some_and(|sql| sql.eq_ignore_ascii_case("null")) {
        column.default = None;
    }
    let mut then = Vec::new();
    if column.default.is_some() || column.identity.is_some() {
        then.extend(column.unique.take().map(TableChange::AddUnique));
        then.extend(std::mem::take(&mut column.references).into_iter().map(TableChange::AddForeignKey));
    }
    for option in &def.options {
        if let ColumnOption::Check(constraint) = &option.option {
            then.push(TableChange::AddCheck(check_spec(constraint, option.name.as_ref(), table, Some(&column.name))?));
        }
    }
    if keys::is_key(def) {
        then.push(TableChange::AddKey(vec![column.name.clone()]));
    }
    Ok(TableChange::AddColumn { column: Box::new(column), if_not_exists, then })
}

fn leading_words(operation: &AlterTableOperation) -> String {
    let text = operation.to_string();
    let words = text.split_whitespace().take_while(|word| word.bytes().all(|byte| byte.is_ascii_uppercase()));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::script::tests::one;

    fn changed(sql: &str) -> TableChange {
        match one(sql).kind {
            Kind::AlterTable(alter) => alter.change,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn forms_that_clients_send_are_read() {
        let column = || "a".to_owned();
        assert_eq!(changed("ALTER TABLE t ALTER COLUMN a SET NOT NULL"), TableChange::SetNotNull(column()));
        assert_eq!(changed("ALTER TABLE t ALTER a DROP NOT NULL"), TableChange::DropNotNull(column()));
        for if_exists in [false, true] {
            let sql =
                format!("ALTER TABLE t ALTER COLUMN \"a\" DROP IDENTITY{}", if if_exists { " IF EXISTS" } else { "" });
            assert_eq!(changed(&sql), TableChange::DropIdentity { column: column(), if_exists });
        }
        let kind = IdentityKind::Always;
        assert_eq!(
            changed("ALTER TABLE t ALTER a SET GENERATED ALWAYS"),
            TableChange::SetGenerated { column: column(), kind }
        );
        assert!(matches!(
            changed("ALTER TABLE t ALTER a ADD GENERATED BY DEFAULT AS IDENTITY"),
            TableChange::AddIdentity { .. }
        ));
        assert_eq!(changed("ALTER TABLE t ADD PRIMARY KEY (a)"), TableChange::AddKey(vec![column()]));
        assert_eq!(changed("ALTER TABLE t ADD CONSTRAINT k PRIMARY KEY (a)"), TableChange::AddKey(vec![column()]));
        assert!(matches!(changed("ALTER TABLE t SET UNLOGGED"), TableChange::Told(_)));
        assert!(matches!(changed("ALTER TABLE t RESET (fillfactor, autovacuum_enabled)"), TableChange::Told(_)));
        assert_eq!(changed("ALTER INDEX i RENAME TO j"), TableChange::RenameIndex("j".to_owned()));
    }

    #[test]
    fn using_is_left_out_where_it_says_what_goes_without_saying() {
        let using = |sql: &str| match changed(&format!("ALTER TABLE t ALTER COLUMN a TYPE {sql}")) {
            TableChange::SetType { using, .. } => using,
            other => panic!("{sql}: {other:?}"),
        };
        for sql in ["BIGINT", "BIGINT USING a", "bigint USING \"a\"::bigint", "text USING (a)::text"] {
            assert_eq!(using(sql), None, "{sql}");
        }
        assert_eq!(using("VARCHAR(3) USING a::varchar(3)"), Some("a::VARCHAR(3)".to_owned()));
        assert_eq!(using("INT USING a::text::int"), Some("a::TEXT::INT".to_owned()));
    }

    #[test]
    fn several_changes_are_one_statement() {
        let TableChange::Several(changes) =
            changed("ALTER TABLE t ADD COLUMN a INT DEFAULT 1 CHECK (a > 0), ALTER COLUMN b SET NOT NULL, SET LOGGED")
        else {
            panic!("several")
        };
        assert!(matches!(
            changes.as_slice(),
            [TableChange::AddColumn { then, .. }, TableChange::SetNotNull(_), TableChange::Told(_)]
                if matches!(then.as_slice(), [TableChange::AddCheck(_)])
        ));
        for sql in
            ["ALTER TABLE t RENAME TO u, ADD a INT", "ALTER TABLE t ADD a INT, OWNER TO r", "ALTER INDEX i SET (x = 1)"]
        {
            assert!(crate::script::parse(sql).is_err() || matches!(one(sql).kind, Kind::Refused(_)), "{sql}");
        }
    }
}
