//! `information_schema`: the standard's views of the same.

use crate::context::CatalogContext;
use crate::relations::{Relation, schemas};
use crate::tables::{Row, relations, row};
use crate::{rights, routines, types, views};
use alluvia_catalog::rights::RoleId;
use alluvia_syntax::names::DATABASE_NAME;

/// The rows of a view; `None` for one that is always empty.
pub(crate) fn rows_of(view: &str) -> Option<fn(&CatalogContext) -> Vec<Row>> {
    Some(match view {
        "character_sets" => |_| {
            vec![row! {
                character_set_name: "UTF8", character_repertoire: "UCS", form_of_use: "UTF8", default_collate_catalog: DATABASE_NAME,
                default_collate_schema: "pg_catalog", default_collate_name: "C",
            }]
        },
        "columns" => columns,
        "applicable_roles" => rights::applicable_roles,
        "enabled_roles" => rights::enabled_roles,
        "role_table_grants" => rights::role_table_grants,
        "table_privileges" => rights::table_privileges,
        "information_schema_catalog_name" => |_| vec![row! { catalog_name: DATABASE_NAME }],
        "routines" => routines::routines,
        "schemata" => |context| {
            let row = |(_, name, owner): (i64, String, RoleId)| {
                row! { catalog_name: DATABASE_NAME, schema_name: name, schema_owner: rights::name(context, owner.0.into()) }
            };
            schemas(&context.catalog).into_iter().map(row).collect()
        },
        "tables" => |context| {
            let row = |relation: Relation| {
                let is_table = relation.kind == "r";
                let is_updatable = is_table && relation.is_of_user();
                let table_type = match is_table {
                    true if relation.is_temporary() => "LOCAL TEMPORARY",
                    true => "BASE TABLE",
                    false => "VIEW",
                };
                row! {
                    table_catalog: DATABASE_NAME, table_schema: relation.schema.1, table_name: relation.name,
                    table_type: table_type,
                    is_insertable_into: if is_updatable { "YES" } else { "NO" }, is_typed: "NO",
                }
            };
            relations(context).into_iter().map(row).collect()
        },
        "views" => |context| {
            let row = |view: Relation| {
                let owner = RoleId(u32::try_from(view.owner).unwrap_or(0));
                let text = views::text(&context.catalog, view.oid);
                let mut row = row! {
                    table_catalog: DATABASE_NAME, table_schema: view.schema.1, table_name: view.name, check_option: "NONE",
                    is_updatable: "NO", is_insertable_into: "NO", is_trigger_updatable: "NO",
                    is_trigger_deletable: "NO", is_trigger_insertable_into: "NO",
                };
                // For whoever is in the role of its owner.
                let is_own = context.viewer.authoriser.membership(owner, "see what a view reads").is_ok();
                row.extend(text.filter(|_| is_own).map(|text| ("view_definition", text.into())));
                row
            };
            relations(context).into_iter().filter(|view| view.kind == "v").map(row).collect()
        },
        _ => return None,
    })
}

fn columns(context: &CatalogContext) -> Vec<Row> {
    let mut rows = Vec::new();
    for relation in relations(context) {
        let is_updatable = relation.kind == "r" && relation.is_of_user();
        for (at, column) in relation.columns.into_iter().enumerate() {
            // The type's name without its modifier, as the standard has it.
            let data_type = types::format(column.type_oid, None);
            let data_type = if data_type.ends_with("[]") { "ARRAY".to_owned() } else { data_type };
            let udt = types::all().find(|known| known.oid == column.type_oid).map_or("text", |known| known.name);
            let mut row = row! {
                table_catalog: DATABASE_NAME, table_schema: relation.schema.1.as_str(), table_name: relation.name.clone(),
                column_name: column.name, ordinal_position: at as i64 + 1,
                is_nullable: if column.not_null { "NO" } else { "YES" }, data_type: data_type, udt_catalog: DATABASE_NAME,
                udt_schema: "pg_catalog", udt_name: udt, dtd_identifier: (at + 1).to_string(), is_self_referencing: "NO",
                is_identity: "NO", is_generated: "NEVER",
                is_updatable: if is_updatable { "YES" } else { "NO" },
            };
            row.extend(column.default.map(|sql| ("column_default", sql.into())));
            if let Some((identity, kind)) = column.identity {
                row.extend(row! {
                    is_identity: "YES", identity_generation: if kind == "a" { "ALWAYS" } else { "BY DEFAULT" },
                    identity_start: identity.start.to_string(), identity_increment: identity.increment.to_string(),
                    identity_maximum: identity.maximum.to_string(), identity_minimum: identity.minimum.to_string(),
                    identity_cycle: "NO",
                });
            }
            let precision: &[(&'static str, i64)] = match column.type_oid {
                21 => &[("numeric_precision", 16), ("numeric_precision_radix", 2), ("numeric_scale", 0)],
                23 => &[("numeric_precision", 32), ("numeric_precision_radix", 2), ("numeric_scale", 0)],
                20 => &[("numeric_precision", 64), ("numeric_precision_radix", 2), ("numeric_scale", 0)],
                700 => &[("numeric_precision", 24), ("numeric_precision_radix", 2)],
                701 => &[("numeric_precision", 53), ("numeric_precision_radix", 2)],
                1114 | 1184 => &[("datetime_precision", 6)],
                1082 => &[("datetime_precision", 0)],
                _ => &[],
            };
            row.extend(precision.iter().map(|(name, value)| (*name, (*value).into())));
            if column.type_oid == 1043 && column.modifier >= 4 {
                // A character has at most four bytes.
                let length = column.modifier - 4;
                row.extend(row! { character_maximum_length: length, character_octet_length: 4 * length });
            }
            if column.type_oid == 1700 && column.modifier >= 4 {
                let modifier = column.modifier - 4;
                row.extend(row! {
                    numeric_precision: modifier >> 16 & 0xffff, numeric_precision_radix: 10, numeric_scale: modifier & 0xffff,
                });
            }
            rows.push(row);
        }
    }
    rows
}
