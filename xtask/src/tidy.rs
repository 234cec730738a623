//! House rules, held by a program: dependency arrows, banned calls, file lengths, notes without an owner, links in
//! docs.

use crate::paths;
use crate::run::{die, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What each room may depend on; the arrows of docs/ARCHITECTURE.md. Test-only dependencies are free.
const ARROWS: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("allocator", &[]),
    ("space", &["types"]),
    ("storage", &["types"]),
    ("log", &["types", "storage"]),
    ("catalog", &["types", "space", "storage"]),
    ("keys", &["types", "space"]),
    ("locks", &["types"]),
    ("tree", &["types", "space", "storage", "catalog"]),
    ("heap", &["types", "space", "catalog"]),
    ("snapshot", &["types", "space", "storage", "catalog", "heap", "keys", "locks", "tree"]),
    ("commit", &["types", "space", "storage", "log", "catalog", "heap", "keys", "tree", "snapshot"]),
    ("pipeline", &["types", "space", "storage", "log", "catalog", "keys", "tree", "snapshot"]),
    ("cluster", &["types", "space", "storage", "log", "catalog", "tree", "snapshot", "commit"]),
    ("link", &["types", "cluster"]),
    (
        "sim",
        &["types", "space", "storage", "log", "catalog", "keys", "tree", "snapshot", "commit", "pipeline", "cluster"],
    ),
    ("values", &["types", "space"]),
    ("syntax", &["types", "space", "values", "catalog"]),
    ("functions", &["types", "space", "values"]),
    ("plan", &["types", "values", "functions"]),
    ("rows", &["types", "space", "catalog", "snapshot"]),
    ("settings", &["types", "catalog", "snapshot", "values", "syntax", "answer", "pg-catalog"]),
    ("errors", &["types", "space", "catalog", "values", "syntax", "functions", "pg-catalog"]),
    ("points", &["types", "space", "catalog", "heap", "syntax"]),
    ("procedures", &["types", "space", "catalog", "values", "syntax"]),
    ("fixture", &["types", "space", "storage", "catalog", "tree", "snapshot"]),
    ("answer", &["types", "space", "catalog", "tree", "snapshot", "syntax", "functions", "plan"]),
    ("skipping", &["types", "space", "values", "tree", "snapshot"]),
    ("spread", &["types", "snapshot", "values", "functions"]),
    ("change", &["types", "space", "values", "syntax"]),
    ("constraints", &["types", "space", "catalog", "values", "locks"]),
    ("merged", &["types", "values", "syntax", "plan"]),
    ("pg-catalog", &["types", "space", "catalog", "locks", "snapshot", "values", "syntax", "functions", "change"]),
    ("copy", &["types", "space", "storage", "catalog", "snapshot", "values", "syntax"]),
    ("memory", &["copy"]),
    (
        "query",
        &[
            "types",
            "access",
            "space",
            "storage",
            "catalog",
            "tree",
            "snapshot",
            "values",
            "syntax",
            "functions",
            "plan",
            "answer",
            "skipping",
            "spread",
            "rows",
            "settings",
            "points",
            "procedures",
            "heap",
            "errors",
            "change",
            "constraints",
            "merged",
            "pg-catalog",
            "copy",
            "locks",
            "memory",
        ],
    ),
    (
        "node",
        &[
            "types", "space", "storage", "log", "catalog", "tree", "snapshot", "commit", "pipeline", "cluster", "link",
            "copy", "query", "fetch",
        ],
    ),
    ("access", &["types"]),
    ("fetch", &["types"]),
    ("telemetry", &["types"]),
    ("server-pg", &["types", "access", "space", "values", "syntax", "copy", "query"]),
    ("server-http", &["types", "access", "values", "syntax", "copy", "query"]),
    ("server-flight", &["types", "access", "values", "syntax", "copy", "query"]),
    ("client", &["types"]),
    ("python", &["types", "values", "client", "space", "syntax", "copy", "query", "node"]),
    (
        "cli",
        &[
            "types",
            "allocator",
            "access",
            "client",
            "space",
            "snapshot",
            "values",
            "syntax",
            "functions",
            "cluster",
            "link",
            "copy",
            "query",
            "node",
            "server-pg",
            "server-http",
            "server-flight",
            "telemetry",
        ],
    ),
    ("bench", &["types", "allocator", "space", "storage", "snapshot", "query", "node"]),
];

/// Calls that only the named rooms may make, and what to do instead. `clippy.toml` bans the common ones by type; this
/// also sees through renames of modules.
const BANNED: &[(&str, &[&str], &str)] = &[
    ("std::fs", &["storage", "cli", "bench"], "read and write through alluvia_storage::Disk"),
    ("Instant::now", &["types", "cli", "bench"], "take the time from alluvia_types::Clock"),
    ("SystemTime::now", &["types", "cli", "bench"], "take the time from alluvia_types::Clock"),
    ("thread::spawn", &["node", "cli", "bench", "copy", "query"], "threads belong to node"),
    (
        "datafusion::",
        &["plan", "answer", "skipping", "spread", "pg-catalog", "merged", "query", "bench"],
        "plan, answer, skipping, spread, pg-catalog, merged and query are the only rooms that know DataFusion's planner",
    ),
];

/// Modules that touch users' own files, or the system's, not the database's.
const USER_FILES: &[&str] = &["crates/copy/src/", "crates/query/src/engine.rs", "crates/fetch/src/certificates.rs"];

/// Folders within rooms, and within folders of rooms, from the lowest to the highest: each may use those before it, and no other. So there is no
/// circle of folders.
const FOLDERS: &[(&str, &[&str])] = &[
    (
        "tree",
        &[
            "float_sum",
            "layout",
            "meta",
            "chunk",
            "packed",
            "filter",
            "summary",
            "context",
            "side",
            "parquet_file",
            "nodes",
            "segment",
            "visible",
            "estimate",
            "heavy",
            "writer",
            "wide",
            "answer",
            "sample",
            "verify",
            "rebuild",
        ],
    ),
    (
        "query",
        &[
            "result_names",
            "report",
            "by_key",
            "rights",
            "clients",
            "audit",
            "table",
            "point",
            "rule",
            "sample",
            "system",
            "namespace",
            "errors",
            "execution",
            "engine",
            "session",
        ],
    ),
    (
        "server-pg",
        &[
            "bounded_map",
            "cancel",
            "pending_logins",
            "server_options",
            "shared",
            "wire",
            "io",
            "types",
            "portal",
            "report",
            "recent",
            "connection",
            "sending",
            "copy",
            "simple",
            "extended",
            "message_loop",
            "startup",
            "server",
        ],
    ),
    (
        "server-http",
        &[
            "statuses",
            "failure",
            "media",
            "answer",
            "request_head",
            "request_framer",
            "error_body",
            "request_counts",
            "server_options",
            "shared",
            "auth",
            "cancellation",
            "request",
            "statement",
            "events",
            "query",
            "ingest",
            "metrics",
            "routes",
            "connection",
            "server",
        ],
    ),
    (
        "server-flight",
        &[
            "failure",
            "extensions",
            "incoming_rows",
            "parameters",
            "plain_types",
            "messages",
            "refinements",
            "answer",
            "server_options",
            "lane",
            "prepared",
            "polled_statement",
            "login",
            "tokens",
            "connection",
            "shared",
            "caller",
            "lane_task",
            "info",
            "catalog",
            "session_options",
            "statement",
            "poll",
            "sending",
            "ingest",
            "actions",
            "auth",
            "interceptor",
            "service",
            "socket",
            "server",
        ],
    ),
    (
        "cli",
        &[
            "quoting",
            "notify",
            "recovery",
            "check",
            "repair",
            "remote",
            "cancel",
            "config",
            "settings",
            "config_listing",
            "target",
            "shell",
            "verify",
            "load",
            "export",
            "demo",
            "serve",
            "cluster",
            "node",
            "main",
        ],
    ),
    (
        "access",
        &[
            "refusals",
            "guess_rate",
            "attempts",
            "scram",
            "directory",
            "log_ins",
            "passwords",
            "basic_auth",
            "password_login",
            "tls",
            "listener",
            "open_connections",
            "stopping",
            "cancellation",
            "write_timeout",
        ],
    ),
    (
        "fetch",
        &[
            "address",
            "hosts",
            "certificates",
            "proxy",
            "rules",
            "url_text",
            "fetcher",
            "partial_download",
            "answer",
            "connection",
            "tunnel",
            "request",
            "whole_file",
        ],
    ),
    (
        "client",
        &[
            "failure",
            "statement_status",
            "answer",
            "prepared_handles",
            "tls",
            "socket",
            "session",
            "connection",
            "ingest",
            "prepared",
            "refine",
        ],
    ),
    (
        "query/session",
        &[
            "state",
            "run",
            "transaction",
            "settings",
            "select",
            "rules",
            "constraints",
            "insert",
            "change",
            "constraints",
            "define",
            "copy",
            "statement",
            "prepared",
            "routines",
            "door",
        ],
    ),
];

/// Files longer than this are named, as a warning.
const LINES_MAX: usize = 500;

/// Lines under a room's `src`: a larger one is two rooms.
const ROOM_LINES_MAX: usize = 30_000;
/// The same of rooms that are more than that and known to be.
const LARGE_ROOMS: &[(&str, usize)] = &[("query", 34_000)];

/// Runs every rule; ends the process if one is broken.
pub fn run() {
    eprintln!("==> tidy");
    let mut broken = Vec::new();
    arrows(&mut broken);
    let sources = files(&root().join("crates"), "rs");
    for file in &sources {
        source(file, &mut broken);
    }
    sizes(&sources, &mut broken);
    for (room, order) in FOLDERS {
        folders(room, order, &mut broken);
    }
    links(&mut broken);
    if !broken.is_empty() {
        broken.iter().for_each(|rule| eprintln!("{rule}"));
        die(&format!("tidy: {} rules broken", broken.len()));
    }
}

fn arrows(broken: &mut Vec<String>) {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .unwrap_or_else(|error| die(&format!("cargo metadata: {error}")));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| die("cargo metadata failed"));
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(room) = name.strip_prefix("alluvia-") else { continue };
        let Some(targets) = allowed.get(room) else {
            broken.push(format!(
                "crates/{room}: a new room; give it its arrows in xtask/src/tidy.rs and docs/ARCHITECTURE.md"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let on = dependency["name"].as_str().unwrap_or_default();
            let for_tests = dependency["kind"].as_str() == Some("dev");
            let Some(on) = on.strip_prefix("alluvia-") else { continue };
            if !for_tests && !targets.contains(&on) {
                broken.push(format!("crates/{room}: depends on {on}, against the one direction of dependency"));
            }
        }
    }
}

fn source(file: &Path, broken: &mut Vec<String>) {
    let root = root();
    let shown = file.strip_prefix(&root).unwrap_or(file).display().to_string();
    let Ok(text) = fs::read_to_string(file) else {
        broken.push(format!("{shown}: cannot be read"));
        return;
    };
    let room = shown.split('/').nth(1).unwrap_or_default().to_owned();
    let in_src = shown.contains("/src/");
    if in_src && !text.starts_with("//!") {
        broken.push(format!("{shown}:1: a module opens with what it is and its invariants (//! ...)"));
    }
    let mut tests = Tests::default();
    for (at, line) in text.lines().enumerate() {
        let in_tests = tests.hold(line) || !in_src;
        let code = line.split("//").next().unwrap_or_default();
        for (banned, rooms, instead) in BANNED {
            let exempt = in_tests
                || rooms.contains(&room.as_str())
                || USER_FILES.iter().any(|prefix| shown.starts_with(prefix) && *banned == "std::fs");
            if !exempt && code.contains(banned) {
                broken.push(format!("{shown}:{}: {banned} is banned here: {instead}", at + 1));
            }
        }
        if let Some(name) = relation(code) {
            broken.push(format!("{shown}:{}: a type is named for what it is, and {name} is no name for one", at + 1));
        }
        if (line.contains("TODO") || line.contains("FIXME")) && !line.contains("TODO(") {
            broken.push(format!("{shown}:{}: a TODO names its owner: TODO(name)", at + 1));
        }
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        eprintln!("    warning: {shown} has {lines} lines; is there a second concept in it?");
    }
}

/// A type that is named for its relation to another.
fn relation(code: &str) -> Option<&str> {
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.find(|word| matches!(*word, "struct" | "enum" | "trait" | "type"))?;
    words.next().filter(|name| matches!(*name, "Of" | "Place" | "Asked"))
}

/// No room has more lines than a person can know.
fn sizes(sources: &[PathBuf], broken: &mut Vec<String>) {
    let crates = root().join("crates");
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for file in sources {
        let Ok(path) = file.strip_prefix(&crates) else { continue };
        let mut parts = path.iter().filter_map(|part| part.to_str());
        if let (Some(room), Some("src")) = (parts.next(), parts.next()) {
            let text = fs::read_to_string(file).unwrap_or_default();
            *lines.entry(room.to_owned()).or_default() += text.lines().count();
        }
    }
    for (room, lines) in lines {
        let large = LARGE_ROOMS.iter().find(|(large, _)| *large == room);
        let most = large.map_or(ROOM_LINES_MAX, |(_, most)| *most);
        if lines > most {
            broken.push(format!("crates/{room}: {lines} lines under src, and {most} are the most: it is two rooms"));
        }
    }
}

/// Folders of a room use only those that stand before them. What `lib.rs` imports is of the folder that it comes from.
fn folders(within: &str, order: &[&str], broken: &mut Vec<String>) {
    let (room, parent) = within.split_once('/').map_or((within, None), |(room, parent)| (room, Some(parent)));
    let src = root().join("crates").join(room).join("src");
    let (base, head) = match parent {
        Some(parent) => (src.join(parent), src.join(parent).join("mod.rs")),
        None => (src.clone(), src.join("lib.rs")),
    };
    let lib = fs::read_to_string(&head).unwrap_or_default();
    let imports = paths::imports(&lib);
    let place = |folder: &str| order.iter().position(|other| *other == folder);
    // A folder keeps its name, whatever is imported beside it.
    let given: BTreeMap<&str, &str> = imports
        .iter()
        .filter(|import| place(import.name).is_none())
        .filter_map(|import| Some((import.name, *import.path.first()?)))
        .collect();
    for file in files(&base, "rs") {
        let Ok(path) = file.strip_prefix(&src) else { continue };
        if file == head {
            continue;
        }
        // Tests may use whatever helps them.
        if path.iter().any(|part| part.to_str().is_some_and(|part| part.starts_with("test"))) {
            continue;
        }
        let shown = path.display().to_string();
        let mut module: Vec<&str> = shown.trim_end_matches(".rs").split('/').collect();
        if module.last() == Some(&"mod") {
            module.pop();
        }
        let folder = module.get(usize::from(parent.is_some())).copied().unwrap_or_default();
        let (Some(own), Ok(text)) = (place(folder), fs::read_to_string(&file)) else {
            broken.push(format!("crates/{room}/src/{shown}: a new folder; give it its place in xtask/src/tidy.rs"));
            continue;
        };
        let code = without_tests(&text);
        for target in uses(&code, &module, parent, &given) {
            if target == "*" {
                broken
                    .push(format!("crates/{room}/src/{shown}: takes all names of the crate's root: name what is used"));
            } else if target != folder && place(target).is_some_and(|target| target > own) {
                broken.push(format!("crates/{room}/src/{shown}: {folder} uses {target}, which stands above it"));
            }
        }
    }
}

/// The folders below `parent` (the root, where it is none) that a file of a module uses, each once; `given` has those of
/// the names that the parent imports.
fn uses<'a>(
    code: &'a str,
    module: &[&'a str],
    parent: Option<&'a str>,
    given: &BTreeMap<&'a str, &'a str>,
) -> BTreeSet<&'a str> {
    let paths = paths::paths(code, module);
    let below = |path: &Vec<&'a str>| match parent {
        Some(parent) => path.strip_prefix(&[parent]).and_then(|path| path.first()).copied(),
        None => path.first().copied(),
    };
    paths.iter().filter_map(below).map(|name| given.get(name).copied().unwrap_or(name)).collect()
}

/// The lines of a file that are no test's.
fn without_tests(text: &str) -> String {
    let mut tests = Tests::default();
    text.lines().filter(|line| !tests.hold(line)).flat_map(|line| [line, "\n"]).collect()
}

/// Which lines are a test's: what stands behind `#[cfg(test)]`, to the brace or the semicolon that ends it, which is
/// indented as it is.
#[derive(Default)]
struct Tests {
    /// The indentation of the item that is passed over.
    item: Option<usize>,
}

impl Tests {
    fn hold(&mut self, line: &str) -> bool {
        let indent = line.len() - line.trim_start().len();
        let Some(item) = self.item else {
            self.item = line.trim_start().starts_with("#[cfg(test)]").then_some(indent);
            return self.item.is_some();
        };
        if indent == item && line.ends_with([';', '}', ',']) {
            self.item = None;
        }
        true
    }
}

/// Relative links of the documents lead somewhere.
fn links(broken: &mut Vec<String>) {
    let root = root();
    let mut documents = files(&root.join("docs"), "md");
    documents.extend(
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "ROADMAP.md", "python/README.md"].map(|name| root.join(name)),
    );
    for document in documents {
        let shown = document.strip_prefix(&root).unwrap_or(&document).display().to_string();
        let Ok(text) = fs::read_to_string(&document) else {
            broken.push(format!("{shown}: is missing"));
            continue;
        };
        for part in text.split("](").skip(1) {
            let target = part.split(')').next().unwrap_or_default();
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || target.contains("://") {
                continue;
            }
            let folder = document.parent().unwrap_or(&root);
            if !folder.join(path).exists() {
                broken.push(format!("{shown}: links to {target}, which is not there"));
            }
        }
    }
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_used_by_name_by_import_and_from_below() {
        let text = "use crate::{a::{B, c}, d::E};\nuse super::super::f;\nuse crate::G;\nuse words::h;\n\
                    #[cfg(test)]\nmod tests {\n    use crate::of_tests;\n}\n";
        let code = without_tests(text);
        let given = BTreeMap::from([("G", "of_g"), ("H", "of_h")]);
        let found: Vec<&str> = uses(&code, &["own", "file"], None, &given).into_iter().collect();
        assert_eq!(found, ["a", "d", "f", "of_g"]);
    }
}
