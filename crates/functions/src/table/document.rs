//! `docs/FUNCTIONS.md`, written from the table.

use super::overloads::{self, Overload};
use super::{Built, FAMILIES, Function, INTERNAL, functions, is_in_postgresql};
use datafusion_common::Result;
use std::fmt::Write;

const HEAD: &str = "\
# Functions

Written from the table of functions in `crates/functions/src/table` by `cargo xtask functions`; do not edit it here.
Every example is run by a test.

- **PG**: PostgreSQL has a function of this name, too, and it means the same, but for what [KNOWN.md](KNOWN.md) lists.
- Types are PostgreSQL's. `any` is decided by the arguments of a call; `VARIADIC` arguments are written any number of times.
- Operators and forms of the grammar (`||`, `CASE`, `EXTRACT(... FROM ...)`) are in [SQL.md](SQL.md).
- In psql `\\df` lists the functions that PostgreSQL lacks, `\\dfS` all.
";

/// The document.
pub fn document() -> Result<String> {
    let mut text = HEAD.to_owned();
    let mut built = functions()?.iter();
    for family in FAMILIES {
        let known: Vec<&Built> = built.by_ref().take(family.entries.len()).collect();
        if family.heading == INTERNAL {
            continue;
        }
        let _ = write!(
            text,
            "\n## {}\n\n| Function | PG | Does | Example | Gives |\n|---|---|---|---|---|\n",
            family.heading
        );
        for built in known {
            let is_known = if is_in_postgresql(built.entry.name) { "PG" } else { "" };
            let (example, doc) = (built.entry.example, built.entry.doc);
            let gives = example.gives.replace('\n', "` `");
            let also = match aliases(&built.function).as_slice() {
                [] => String::new(),
                aliases => format!(" Also {}.", aliases.join(", ")),
            };
            let forms = forms(built).join("<br>");
            let _ = writeln!(text, "| {forms} | {is_known} | {doc}{also} | {} | {} |", code(example.sql), code(&gives));
        }
    }
    Ok(text)
}

fn aliases(function: &Function) -> Vec<String> {
    function.aliases().iter().map(|alias| code(alias)).collect()
}

/// How a function is called, once for each list of arguments; not more than four.
fn forms(built: &Built) -> Vec<String> {
    let overloads = overloads::of(built);
    let form = |Overload { arguments, is_variadic, result }: &Overload| {
        let mut arguments: Vec<String> = arguments.iter().map(|name| short_name(name)).collect();
        if let Some(last) = arguments.last_mut().filter(|_| *is_variadic) {
            last.insert_str(0, "VARIADIC ");
        }
        code(&format!("{}({}) -> {}", built.entry.name, arguments.join(", "), short_name(result)))
    };
    let mut forms: Vec<String> = overloads.iter().take(4).map(form).collect();
    if overloads.len() > 4 {
        forms.push(format!("and {} more", overloads.len() - 4));
    }
    forms
}

fn short_name(name: &str) -> String {
    name.replace(" without time zone", "").replace("timestamp with time zone", "timestamptz")
}

/// Within a cell of a table.
fn code(text: &str) -> String {
    let text = text.replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // the document lies beside the crates
mod tests {
    use super::*;
    use std::env;
    use std::fs;
    use std::path::Path;

    /// Fails where `docs/FUNCTIONS.md` is old; writes it where `ALLUVIA_WRITE_DOCUMENTS` is set.
    #[test]
    fn the_document_is_that_of_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/FUNCTIONS.md");
        let written = document().unwrap();
        if env::var_os("ALLUVIA_WRITE_DOCUMENTS").is_some() {
            fs::write(&path, &written).unwrap();
        }
        let is_current = fs::read_to_string(&path).is_ok_and(|text| text == written);
        assert!(is_current, "docs/FUNCTIONS.md is old: cargo xtask functions writes it");
    }
}
