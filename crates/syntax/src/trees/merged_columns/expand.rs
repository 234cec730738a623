//! `*` and `t.*`, column by column.

use super::HIDDEN;
use crate::names::name_of;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind,
    WildcardAdditionalOptions,
};

/// A column of a table in FROM.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FromColumn {
    /// The parts of its table's name; none of a column of a derived table without a name.
    pub relation: Vec<String>,
    /// As it was before columns were merged.
    pub name: String,
}

impl FromColumn {
    fn said(&self, name: &str) -> Expr {
        let mut parts: Vec<Ident> = self.relation.iter().map(|part| Ident::with_quote('"', part)).collect();
        let column = Ident::with_quote('"', name);
        if parts.is_empty() {
            return Expr::Identifier(column);
        }
        parts.push(column);
        Expr::CompoundIdentifier(parts)
    }
}

/// A part of what `*` means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromPart {
    Column(FromColumn),
    /// All columns of a table that is planned with the SELECT.
    Table(String),
}

/// Writes `*` out as these parts, and `t.*` as the columns that `t` was declared with, of which some are `hidden`.
pub fn expand(select: &mut Select, parts: &[FromPart], declared: &[FromColumn], hidden: &[FromColumn]) -> Result<()> {
    let items = std::mem::take(&mut select.projection);
    for item in items {
        match item {
            SelectItem::Wildcard(options) => all(&options, parts, &mut select.projection)?,
            SelectItem::QualifiedWildcard(kind, options) => {
                let own = of_table(&kind, declared);
                if own.is_empty() || options != plain(&options) {
                    select.projection.push(SelectItem::QualifiedWildcard(kind, options));
                    continue;
                }
                for column in own {
                    let expr = match hidden.contains(column) {
                        true => column.said(&format!("{}{HIDDEN}", column.name)),
                        false => column.said(&column.name),
                    };
                    select.projection.push(SelectItem::UnnamedExpr(expr));
                }
            }
            item => select.projection.push(item),
        }
    }
    Ok(())
}

/// A wildcard without options.
fn plain(options: &WildcardAdditionalOptions) -> WildcardAdditionalOptions {
    WildcardAdditionalOptions { wildcard_token: options.wildcard_token.clone(), ..WildcardAdditionalOptions::default() }
}

fn of_table<'a>(kind: &SelectItemQualifiedWildcardKind, declared: &'a [FromColumn]) -> Vec<&'a FromColumn> {
    let SelectItemQualifiedWildcardKind::ObjectName(name) = kind else { return Vec::new() };
    let said: Option<Vec<String>> = name.0.iter().map(|part| part.as_ident().map(name_of)).collect();
    let Some(said) = said else { return Vec::new() };
    declared.iter().filter(|column| !column.relation.is_empty() && column.relation.ends_with(&said)).collect()
}

fn all(options: &WildcardAdditionalOptions, parts: &[FromPart], items: &mut Vec<SelectItem>) -> Result<()> {
    if options.opt_ilike.is_some() || options.opt_rename.is_some() || options.opt_alias.is_some() {
        return Err(not_supported("ILIKE, RENAME or AS after * beside EXCLUDE, REPLACE or USING"));
    }
    let excluded = excluded(options)?;
    let replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
    let replaced: Vec<(String, &Expr)> = replaced.map(|item| (name_of(&item.column_name), &item.expr)).collect();
    let has_table = parts.iter().any(|part| matches!(part, FromPart::Table(_)));
    if has_table && !(excluded.is_empty() && replaced.is_empty()) {
        return Err(not_supported("EXCLUDE or REPLACE beside LATERAL"));
    }
    for (at, (name, clause)) in (excluded.iter().map(|name| (name, "EXCLUDE")))
        .chain(replaced.iter().map(|(name, _)| (name, "REPLACE")))
        .enumerate()
    {
        if !parts.iter().any(|part| matches!(part, FromPart::Column(column) if column.name == *name)) {
            return Err(Error::new(
                ErrorKind::UndefinedColumn,
                format!("column \"{name}\" in {clause} does not exist"),
            )
            .with_hint("EXCLUDE and REPLACE name columns that * has"));
        }
        let said = excluded.iter().chain(replaced.iter().map(|(name, _)| name));
        if said.take(at).any(|other| other == name) {
            return Err(Error::new(
                ErrorKind::DuplicateColumn,
                format!("column \"{name}\" is named more than once in EXCLUDE and REPLACE"),
            ));
        }
    }
    for part in parts {
        match part {
            FromPart::Table(table) => {
                let name = ObjectName::from(vec![Ident::with_quote('"', table)]);
                let kind = SelectItemQualifiedWildcardKind::ObjectName(name);
                items.push(SelectItem::QualifiedWildcard(kind, WildcardAdditionalOptions::default()));
            }
            FromPart::Column(column) if excluded.contains(&column.name) => {}
            FromPart::Column(column) => items.push(match replaced.iter().find(|(name, _)| *name == column.name) {
                Some((name, expr)) => {
                    SelectItem::ExprWithAlias { expr: (*expr).clone(), alias: Ident::with_quote('"', name) }
                }
                None => SelectItem::UnnamedExpr(column.said(&column.name)),
            }),
        }
    }
    if items.is_empty() {
        return Err(Error::new(ErrorKind::Syntax, "SELECT list is empty after resolving * expressions")
            .with_hint("EXCLUDE leaves no column"));
    }
    Ok(())
}

fn excluded(options: &WildcardAdditionalOptions) -> Result<Vec<String>> {
    let names: Vec<&ObjectName> = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().collect(),
        None => Vec::new(),
    };
    let mut excluded = Vec::with_capacity(names.len());
    for name in names {
        let ident = match name.0.as_slice() {
            [part] => part.as_ident(),
            _ => None,
        };
        let ident = ident.ok_or_else(|| not_supported(format!("EXCLUDE of {name}, a name with a table's,")))?;
        excluded.push(name_of(ident));
    }
    for except in &options.opt_except {
        excluded.push(name_of(&except.first_element));
        excluded.extend(except.additional_elements.iter().map(name_of));
    }
    Ok(excluded)
}
