//! Roles, owners and grants as PostgreSQL's catalog shows them, and functions that ask for rights.
//!
//! Invariant: verifiers of passwords are in no table: where there is one, stars are shown.

use crate::constants::text_expr;
use crate::context::{CatalogContext, Viewer};
use crate::functions::{Work, ints};
use crate::relations::{DATABASE_OID, Relation, by_text, id_of_number, schema_by_name, schema_name, table_oid};
use crate::rewrite::{cast, parts};
use crate::tables::{self, Row, row};
use alluvia_catalog::authoriser::{Authoriser, role_named};
use alluvia_catalog::rights::{BOOTSTRAP, Object, PUBLIC, Privilege, Privileges, Rights, Role, RoleId};
use alluvia_catalog::{Catalog, PUBLIC_SCHEMA_ID};
use alluvia_space::keywords::quoted_for_letters;
use alluvia_syntax::names::{DATABASE_NAME, name_of};
use alluvia_syntax::trees::rewriting::call;
use alluvia_types::{Result, TableId};
use alluvia_values::errors::wrap;
use alluvia_values::list_text::quoted_element;
use arrow::array::{ArrayRef, AsArray, BooleanArray, StringViewArray};
use arrow::compute::cast as cast_array;
use arrow::datatypes::DataType;
use datafusion::common::Result as PlanResult;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr, TableFactor,
    Value,
};
use std::sync::Arc;

/// The function that gives the roles of which a role is a member.
const MEMBER_OF: &str = "pg_catalog_memberof";

/// Columns that are access lists.
const ACCESS_LISTS: [&str; 3] = ["relacl", "datacl", "nspacl"];

fn rights(context: &CatalogContext) -> &Rights {
    context.catalog.rights()
}

/// A role's name by its number.
pub(crate) fn name(context: &CatalogContext, oid: i64) -> String {
    rights(context).name(RoleId(u32::try_from(oid).unwrap_or(0))).to_owned()
}

fn config(role: &Role) -> Option<String> {
    let settings: Vec<String> = role.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    (!settings.is_empty()).then(|| format!("{{{}}}", settings.join(",")))
}

/// `pg_roles`, `pg_authid`.
pub(crate) fn roles(context: &CatalogContext) -> Vec<Row> {
    let role = |role: &Role| {
        let mut row = row! {
            oid: i64::from(role.id.0), rolname: role.name.clone(), rolsuper: role.superuser, rolinherit: true,
            rolcreaterole: role.superuser, rolcreatedb: role.superuser, rolcanlogin: role.login,
            rolbypassrls: role.superuser, rolconnlimit: -1, rolpassword: "********",
        };
        row.extend(config(role).map(|config| ("rolconfig", config.into())));
        row
    };
    rights(context).roles().map(role).collect()
}

/// `pg_user`, `pg_shadow`.
pub(crate) fn users(context: &CatalogContext) -> Vec<Row> {
    let user = |role: &Role| {
        let mut row = row! {
            usename: role.name.clone(), usesysid: i64::from(role.id.0), usecreatedb: role.superuser,
            usesuper: role.superuser, usebypassrls: role.superuser, passwd: "********",
        };
        row.extend(config(role).map(|config| ("useconfig", config.into())));
        row
    };
    rights(context).roles().filter(|role| role.login).map(user).collect()
}

/// `pg_group`.
pub(crate) fn groups(context: &CatalogContext) -> Vec<Row> {
    let rights = rights(context);
    let group = |role: &Role| {
        let members = rights.roles().filter(|member| member.member_of.contains(&role.id));
        let members: Vec<String> = members.map(|member| member.id.0.to_string()).collect();
        row! { groname: role.name.clone(), grosysid: i64::from(role.id.0), grolist: format!("{{{}}}", members.join(",")) }
    };
    rights.roles().filter(|role| !role.login).map(group).collect()
}

/// `pg_auth_members`.
pub(crate) fn members(context: &CatalogContext) -> Vec<Row> {
    let memberships = |member: &Role| {
        let member_id = i64::from(member.id.0);
        let row = move |role: &RoleId| {
            row! {
                roleid: i64::from(role.0), member: member_id, grantor: i64::from(BOOTSTRAP.0), inherit_option: true,
                set_option: true,
            }
        };
        member.member_of.iter().map(row).collect::<Vec<_>>()
    };
    rights(context).roles().flat_map(memberships).collect()
}

/// `pg_db_role_setting`.
pub(crate) fn role_settings(context: &CatalogContext) -> Vec<Row> {
    let row = |role: &Role| Some(row! { setrole: i64::from(role.id.0), setconfig: config(role)? });
    rights(context).roles().filter_map(row).collect()
}

/// The access list of the database.
pub(crate) fn database_acl(context: &CatalogContext) -> String {
    acl(rights(context), Object::Database, BOOTSTRAP, Privileges::OF_DATABASE)
}

/// The access list of a table, if anything on it was granted.
pub(crate) fn table_acl(context: &CatalogContext, relation: &Relation) -> Option<String> {
    let (rights, id) = (rights(context), table_id(relation.oid)?);
    let on = Object::Table(id);
    rights.grants(on).next()?;
    Some(acl(rights, on, rights.owner(id), Privileges::OF_TABLE))
}

/// The access list of a schema, if anything on it was granted. What may be done in `public` the database's says.
pub(crate) fn schema_acl(context: &CatalogContext, name: &str) -> Option<String> {
    let (rights, id) = (rights(context), context.catalog.schema(name).ok()?.id);
    let on = Object::Table(id);
    rights.grants(on).next()?;
    Some(acl(rights, on, rights.owner(id), Privileges::OF_SCHEMA))
}

fn acl(rights: &Rights, on: Object, owner: RoleId, all: Privileges) -> String {
    let granted = rights.grants(on).filter(|(to, _)| *to != owner);
    let items = std::iter::once((owner, all)).chain(granted);
    let items: Vec<String> = items.map(|(to, privileges)| aclitem(rights, to, privileges, owner)).collect();
    format!("{{{}}}", items.join(","))
}

/// One item of an access list: `grantee=letters/grantor`.
fn aclitem(rights: &Rights, to: RoleId, privileges: Privileges, owner: RoleId) -> String {
    // As there, without regard to keywords.
    let to = if to == PUBLIC { String::new() } else { quoted_for_letters(rights.name(to)) };
    format!("{to}={privileges}/{}", quoted_for_letters(rights.name(owner)))
}

fn table_id(oid: i64) -> Option<TableId> {
    let id = TableId(id_of_number(oid - table_oid(0))?);
    (oid >= table_oid(0)).then_some(id)
}

/// `information_schema.table_privileges`: what the session's roles gave or got, and what everybody got.
pub(crate) fn table_privileges(context: &CatalogContext) -> Vec<Row> {
    privileges(context, true)
}

/// `information_schema.role_table_grants`: the same without what everybody got.
pub(crate) fn role_table_grants(context: &CatalogContext) -> Vec<Row> {
    privileges(context, false)
}

fn privileges(context: &CatalogContext, of_everybody: bool) -> Vec<Row> {
    let (rights, mut rows) = (rights(context), Vec::new());
    let Ok(id) = context.viewer.authoriser.role() else { return rows };
    let is_own = |role: RoleId| rights.is_in(id, role);
    for table in tables::users(context) {
        let Some(table_id) = table_id(table.oid) else { continue };
        let owner = rights.owner(table_id);
        let granted = rights.grants(Object::Table(table_id)).filter(|(to, _)| *to != owner);
        for (to, privileges) in std::iter::once((owner, Privileges::OF_TABLE)).chain(granted) {
            let shown = if to == PUBLIC { of_everybody } else { is_own(to) || is_own(owner) };
            if !shown {
                continue;
            }
            rows.extend(privileges.iter().map(|privilege| {
                row! {
                    grantor: rights.name(owner), grantee: if to == PUBLIC { "PUBLIC" } else { rights.name(to) },
                    table_catalog: DATABASE_NAME, table_schema: table.schema.1.as_str(), table_name: table.name.clone(),
                    privilege_type: privilege.sql_name(), is_grantable: if to == owner { "YES" } else { "NO" },
                    with_hierarchy: if privilege == Privilege::Select { "YES" } else { "NO" },
                }
            }));
        }
    }
    rows
}

/// `information_schema.enabled_roles`.
pub(crate) fn enabled_roles(context: &CatalogContext) -> Vec<Row> {
    let Ok(id) = context.viewer.authoriser.role() else { return Vec::new() };
    rights(context).reach(id).into_iter().map(|role| row! { role_name: rights(context).name(role) }).collect()
}

/// `information_schema.applicable_roles`.
pub(crate) fn applicable_roles(context: &CatalogContext) -> Vec<Row> {
    let Ok(id) = context.viewer.authoriser.role() else { return Vec::new() };
    let rights = rights(context);
    let reached = rights.reach(id);
    let memberships = reached.iter().filter_map(|id| rights.role(*id)).flat_map(|member| {
        let row = |role: &RoleId| {
            row! { grantee: member.name.clone(), role_name: rights.name(*role), is_grantable: "NO" }
        };
        member.member_of.iter().map(row).collect::<Vec<_>>()
    });
    memberships.collect()
}

/// The arguments of a call, if they are plain expressions.
fn arguments(function: &ast::Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let plain = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(plain).collect()
}

/// What stands for psql's question which roles a role is in, `ARRAY(SELECT b.rolname FROM pg_auth_members m JOIN pg_roles b ON
/// (m.roleid = b.oid) WHERE m.member = r.oid)`; `None` if it is anything else.
pub(crate) fn memberships(function: &ast::Function) -> Option<Expr> {
    let FunctionArguments::Subquery(query) = &function.args else { return None };
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let last = |expr: &Expr| match expr {
        Expr::CompoundIdentifier(path) => path.last().map(name_of),
        _ => None,
    };
    let table = |factor: &TableFactor| match factor {
        TableFactor::Table { name, args: None, .. } => parts(name).pop(),
        _ => None,
    };
    let [SelectItem::UnnamedExpr(named)] = select.projection.as_slice() else { return None };
    let [from] = select.from.as_slice() else { return None };
    let [join] = from.joins.as_slice() else { return None };
    let Some(Expr::BinaryOp { left, op: BinaryOperator::Eq, right }) = &select.selection else { return None };
    let is_it = parts(&function.name) == ["array"]
        && last(named)? == "rolname"
        && table(&from.relation)? == "pg_auth_members"
        && table(&join.relation)? == "pg_roles"
        && last(left)? == "member"
        && last(right)? == "oid";
    is_it.then(|| call(MEMBER_OF, vec![right.as_ref().clone()]))
}

/// What stands for a call of a function about rights; `None` if it is another.
pub(crate) fn replaced(name: &str, function: &ast::Function, authoriser: &Authoriser) -> Option<Expr> {
    let whole = match name {
        "current_user" | "current_role" | "user" => return Some(text_expr(authoriser.current_user())),
        "session_user" => return Some(text_expr(authoriser.session_user())),
        "array_to_string" | "array_length" | "cardinality" => return of_access_list(name, function),
        "has_table_privilege"
        | "has_any_column_privilege"
        | "has_database_privilege"
        | "has_schema_privilege"
        | "pg_has_role" => 3,
        "has_column_privilege" => 4,
        _ => return None,
    };
    let mut arguments = arguments(function)?;
    if arguments.len() + 1 == whole {
        arguments.insert(0, text_expr(authoriser.current_user()));
    }
    if arguments.len() != whole {
        return None;
    }
    if whole == 4 {
        // Privileges are on whole tables.
        arguments.remove(2);
    }
    let name =
        if matches!(name, "has_any_column_privilege" | "has_column_privilege") { "has_table_privilege" } else { name };
    Some(call(name, arguments.into_iter().map(|argument| cast(argument, ast::DataType::Text)).collect()))
}

/// Access lists are text here: an array's functions are taken for what they do to it.
fn of_access_list(name: &str, function: &ast::Function) -> Option<Expr> {
    let mut arguments = arguments(function)?;
    let column = match arguments.first()? {
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::CompoundIdentifier(path) => path.last()?.value.clone(),
        _ => return None,
    };
    if !ACCESS_LISTS.contains(&column.to_ascii_lowercase().as_str()) {
        return None;
    }
    if name != "array_to_string" || arguments.len() != 2 {
        return Some(cast(Expr::Value(Value::Null.into()), ast::DataType::BigInt(None)));
    }
    let separator = arguments.pop()?;
    let list = call("btrim", vec![arguments.pop()?, text_expr("{}")]);
    Some(call("replace", vec![list, text_expr(","), separator]))
}

/// Gives a statement the functions about rights; `add` takes name, types of arguments and result, and what it does.
pub(crate) fn register(
    add: &mut impl FnMut(&str, Vec<DataType>, DataType, Work) -> PlanResult<()>,
    viewer: &Viewer,
) -> PlanResult<()> {
    let asked = viewer.authoriser.clone();
    let named: Work = Arc::new(move |arguments: &[ArrayRef]| {
        let oids = ints(&arguments[0])?;
        let rights = asked.catalog().rights();
        let name = |oid: i64| match u32::try_from(oid).ok().and_then(|id| rights.role(RoleId(id))) {
            Some(role) => role.name.clone(),
            None => format!("unknown (OID={oid})"),
        };
        Ok(Arc::new(StringViewArray::from_iter(oids.iter().map(|oid| oid.map(name)))))
    });
    add("pg_get_userbyid", vec![DataType::Int64], DataType::Utf8View, named)?;
    let asked = viewer.authoriser.clone();
    let member_of: Work = Arc::new(move |arguments: &[ArrayRef]| {
        let oids = ints(&arguments[0])?;
        let rights = asked.catalog().rights();
        let roles = |oid: i64| {
            let role = u32::try_from(oid).ok().and_then(|id| rights.role(RoleId(id)));
            let all = role.into_iter().flat_map(|role| &role.member_of).map(|id| quoted_element(rights.name(*id)));
            format!("{{{}}}", all.collect::<Vec<_>>().join(","))
        };
        Ok(Arc::new(StringViewArray::from_iter(oids.iter().map(|oid| oid.map(roles)))))
    });
    add(MEMBER_OF, vec![DataType::Int64], DataType::Utf8View, member_of)?;
    type Ask = fn(&Viewer, RoleId, &str, &str) -> Option<bool>;
    let all: [(&str, Ask); 4] = [
        ("has_table_privilege", on_table),
        ("has_database_privilege", on_database),
        ("has_schema_privilege", on_schema),
        ("pg_has_role", in_role),
    ];
    for (name, ask) in all {
        let asked = viewer.clone();
        let work: Work = Arc::new(move |arguments: &[ArrayRef]| {
            let texts: Vec<ArrayRef> =
                arguments.iter().map(|argument| cast_array(argument, &DataType::Utf8View)).collect::<Result<_, _>>()?;
            let [who, what, privilege] = [0, 1, 2].map(|at| texts[at].as_string_view());
            let answers = who.iter().zip(what).zip(privilege).map(|((who, what), privilege)| {
                let (Some(who), Some(what), Some(privilege)) = (who, what, privilege) else { return Ok(None) };
                let who = role_of(&asked.authoriser, who).map_err(wrap)?;
                Ok(ask(&asked, who, what, privilege))
            });
            Ok(Arc::new(answers.collect::<PlanResult<BooleanArray>>()?))
        });
        add(name, vec![DataType::Utf8View; 3], DataType::Boolean, work)?;
    }
    Ok(())
}

/// The role of a name or a number.
fn role_of(authoriser: &Authoriser, text: &str) -> Result<RoleId> {
    if text == authoriser.current_user() {
        return authoriser.role();
    }
    let rights = authoriser.catalog().rights();
    let by_number = text.parse().ok().map(RoleId).filter(|id| rights.role(*id).is_some());
    by_number.map_or_else(|| role_named(rights, text), Ok)
}

/// Whether any of the privileges in a list is had; `has` is asked for each by its name, upper case.
fn any(privileges: &str, is_owner: bool, has: impl Fn(&str) -> bool) -> bool {
    privileges.split(',').any(|one| {
        let one = one.trim().to_ascii_uppercase();
        match one.strip_suffix(" WITH GRANT OPTION") {
            Some(_) => is_owner,
            None => has(&one),
        }
    })
}

fn on_table(viewer: &Viewer, who: RoleId, table: &str, privileges: &str) -> Option<bool> {
    let catalog: &Catalog = viewer.authoriser.catalog();
    let rights = catalog.rights();
    let oid = by_text(viewer, table)?;
    let Some(id) = table_id(oid) else {
        // What describes the database may be read, but for the audit log.
        let is_audit = by_text(viewer, "alluvia.audit") == Some(oid);
        return Some(any(privileges, false, |one| one == "SELECT" && (!is_audit || rights.is_superuser(who))));
    };
    catalog.relation_now(id)?;
    let has = |one: &str| Privilege::named(one).is_some_and(|privilege| rights.may(who, privilege, Object::Table(id)));
    Some(any(privileges, rights.owns(who, id), has))
}

fn on_database(viewer: &Viewer, who: RoleId, database: &str, privileges: &str) -> Option<bool> {
    if database != DATABASE_NAME && database != DATABASE_OID.to_string() {
        return None;
    }
    let rights = viewer.authoriser.catalog().rights();
    let has = |one: &str| Privilege::named(one).is_some_and(|privilege| rights.may(who, privilege, Object::Database));
    Some(any(privileges, rights.is_superuser(who), has))
}

fn on_schema(viewer: &Viewer, who: RoleId, schema: &str, privileges: &str) -> Option<bool> {
    let catalog = viewer.authoriser.catalog();
    let rights = catalog.rights();
    let name = match schema.parse() {
        Ok(oid) => schema_name(catalog, oid)?,
        Err(_) => schema.to_owned(),
    };
    let id = match catalog.schema(&name) {
        Ok(entry) => entry.id,
        Err(_) => {
            schema_by_name(catalog, &name)?;
            return Some(any(privileges, rights.is_superuser(who), |one| one == "USAGE"));
        }
    };
    if id == PUBLIC_SCHEMA_ID {
        let creates = || rights.may(who, Privilege::Create, Object::Database);
        return Some(any(privileges, rights.is_superuser(who), |one| one == "USAGE" || (one == "CREATE" && creates())));
    }
    let has = |one: &str| Privilege::named(one).is_some_and(|privilege| rights.may(who, privilege, Object::Table(id)));
    Some(any(privileges, rights.owns(who, id), has))
}

fn in_role(viewer: &Viewer, who: RoleId, role: &str, privileges: &str) -> Option<bool> {
    let role = role_of(&viewer.authoriser, role).ok()?;
    let rights = viewer.authoriser.catalog().rights();
    Some(any(privileges, rights.is_superuser(who), |one| {
        matches!(one, "MEMBER" | "USAGE" | "SET") && rights.is_in(who, role)
    }))
}
