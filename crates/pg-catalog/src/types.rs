//! PostgreSQL's types: those of our columns, and those that tools look up.

use alluvia_space::{ColumnType, DataType};

/// Number, name, length, passed by value, category, preferred, element, array, input, output, alignment, storage, collation.
const TYPES: &str = include_str!("types.txt");

/// A line of `pg_type`.
pub(crate) struct PgType {
    pub(crate) oid: i64,
    pub(crate) name: &'static str,
    pub(crate) length: i64,
    pub(crate) by_value: bool,
    pub(crate) category: &'static str,
    pub(crate) preferred: bool,
    pub(crate) element: i64,
    pub(crate) array: i64,
    pub(crate) input: &'static str,
    pub(crate) output: &'static str,
    pub(crate) align: &'static str,
    pub(crate) storage: &'static str,
}

impl PgType {
    /// `b` for one that has values, `p` for one that stands for others.
    pub(crate) fn kind(&self) -> &'static str {
        if self.category == "P" { "p" } else { "b" }
    }

    /// The function that reads the type's binary form.
    pub(crate) fn receive(&self) -> String {
        format!("{}recv", self.input.strip_suffix("in").unwrap_or(self.input))
    }

    /// The function that writes the type's binary form.
    pub(crate) fn send(&self) -> String {
        format!("{}send", self.output.strip_suffix("out").unwrap_or(self.output))
    }
}

/// All types.
pub(crate) fn all() -> impl Iterator<Item = PgType> {
    TYPES.lines().filter_map(|line| {
        let parts: Vec<&'static str> = line.split('|').collect();
        let [oid, name, length, by_value, category, preferred, element, array, input, output, align, storage, _] =
            parts.as_slice()
        else {
            return None;
        };
        Some(PgType {
            oid: oid.parse().ok()?,
            name,
            length: length.parse().ok()?,
            by_value: *by_value == "t",
            category,
            preferred: *preferred == "t",
            element: element.parse().ok()?,
            array: array.parse().ok()?,
            input,
            output,
            align,
            storage,
        })
    })
}

/// A type's number by PostgreSQL's name for it, or SQL's.
pub(crate) fn by_name(name: &str) -> Option<i64> {
    let name = name.trim().trim_start_matches("pg_catalog.").to_ascii_lowercase();
    let internal = match name.as_str() {
        "boolean" => "bool",
        "smallint" => "int2",
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "real" => "float4",
        "double precision" => "float8",
        "character varying" => "varchar",
        "character" => "bpchar",
        "decimal" => "numeric",
        "time without time zone" => "time",
        "time with time zone" => "timetz",
        "timestamp without time zone" => "timestamp",
        "timestamp with time zone" => "timestamptz",
        other => other,
    };
    all().find(|known| known.name == internal).map(|known| known.oid)
}

/// A type as `format_type` writes it.
pub(crate) fn format(oid: i64, modifier: Option<i64>) -> String {
    let name = match oid {
        16 => "boolean",
        18 => "\"char\"",
        20 => "bigint",
        21 => "smallint",
        23 => "integer",
        700 => "real",
        701 => "double precision",
        1042 => match modifier {
            Some(modifier) if modifier >= 4 => return format!("character({})", modifier - 4),
            // Without a length `character` would be one of 1.
            Some(_) => "bpchar",
            None => "character",
        },
        1043 => match modifier {
            Some(modifier) if modifier >= 4 => return format!("character varying({})", modifier - 4),
            _ => "character varying",
        },
        1083 => "time without time zone",
        1114 => "timestamp without time zone",
        1184 => "timestamp with time zone",
        1266 => "time with time zone",
        2276 => "\"any\"",
        1700 => match modifier {
            Some(modifier) if modifier >= 4 => {
                let modifier = modifier - 4;
                return format!("numeric({},{})", modifier >> 16 & 0xffff, modifier & 0xffff);
            }
            _ => "numeric",
        },
        0 => "-",
        _ => {
            return match all().find(|known| known.oid == oid) {
                Some(array) if array.category == "A" && array.element != 0 => {
                    format!("{}[]", format(array.element, modifier))
                }
                Some(known) => known.name.to_owned(),
                None => "???".to_owned(),
            };
        }
    };
    name.to_owned()
}

/// The type and modifier of a column of a table.
pub(crate) fn of_column(column_type: ColumnType) -> (i64, i64) {
    match column_type.data_type {
        DataType::Boolean => (16, -1),
        DataType::Int16 => (21, -1),
        DataType::Int32 => (23, -1),
        DataType::Int64 => (20, -1),
        DataType::Real => (700, -1),
        DataType::Double => (701, -1),
        DataType::Decimal { precision, scale } => (1700, (i64::from(precision) << 16 | i64::from(scale)) + 4),
        DataType::Date => (1082, -1),
        DataType::Timestamp => (1114, -1),
        DataType::TimestampTz => (1184, -1),
        DataType::Text => column_type.chars_max.map_or((25, -1), |chars_max| (1043, i64::from(chars_max) + 4)),
        DataType::Binary => (17, -1),
        DataType::Uuid => (2950, -1),
        DataType::Json => (114, -1),
        DataType::Jsonb => (3802, -1),
        DataType::Time => (1083, -1),
        DataType::Interval => (1186, -1),
        DataType::Numeric => (1700, -1),
        DataType::Char => (1042, column_type.chars_max.map_or(-1, |chars_max| i64::from(chars_max) + 4)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_and_written_as_in_postgresql() {
        assert_eq!(all().count(), TYPES.lines().count());
        let integer = all().find(|known| known.name == "int4").unwrap();
        assert_eq!((integer.receive(), integer.send()), ("int4recv".into(), "int4send".into()));
        let list = all().find(|known| known.name == "_text").unwrap();
        assert_eq!((list.receive(), list.send()), ("array_recv".into(), "array_send".into()));
        let decimal = of_column(DataType::Decimal { precision: 10, scale: 2 }.into());
        assert_eq!(format(decimal.0, Some(decimal.1)), "numeric(10,2)");
        let text = of_column(ColumnType { data_type: DataType::Text, chars_max: Some(20) });
        assert_eq!((text, format(text.0, Some(text.1))), ((1043, 24), "character varying(20)".into()));
        assert_eq!(format(1043, None), "character varying");
        assert_eq!(
            (format(1007, None), format(19, None), format(1, None)),
            ("integer[]".into(), "name".into(), "???".into())
        );
        assert_eq!((by_name("Integer"), by_name("pg_catalog.int4"), by_name("hstore")), (Some(23), Some(23), None));
    }
}
