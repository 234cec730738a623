//! Project chores: what stands behind `make`.
//!
//! `cargo xtask test` is everything CI runs. Each step prints what it does; the first failure ends the run.
#![allow(clippy::disallowed_methods)] // chores are no part of the database: they may use files and clocks directly

mod archive;
mod canaries;
mod data;
mod dist;
mod package;
mod paths;
mod program;
mod run;
mod tidy;
mod trust;

use archive::Compression;
use run::{Step, cargo, die, emptied, python, target_dir, text_of};
use std::path::{Path, PathBuf};
use std::process::Command;

const HELP: &str = "cargo xtask demo [--data FILE] | sql DIR | test | lint | tidy | bench NAME [ARGS] | wheel | docs | functions | check-data DIR | deb [PROGRAM] | dist | install [PROGRAM] | sim SEED | canaries | soak TIME | fuzz TIME | trust [NAME...]";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rest: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
    run::set_environment();
    match args.first().map(String::as_str) {
        Some("demo") => demo(&rest),
        Some("sql") => alluvia(&[&["sql"], rest.as_slice()].concat()),
        Some("test") => test(),
        Some("lint") => lint(),
        Some("tidy") => tidy::run(),
        Some("bench") => bench(&rest),
        Some("wheel") => println!("{}", wheel(&[]).display()),
        Some("docs") => docs(),
        Some("functions") => functions(),
        Some("check-data") => alluvia(&[&["check"], rest.as_slice()].concat()),
        Some("deb") => deb(&rest),
        Some("dist") => dist::run(),
        Some("install") => install(&program_of(&rest)),
        Some("sim") => sim(&rest),
        Some("canaries") => canaries::run(),
        Some("soak") => soak(&rest),
        Some("trust") => trust::run(CHECKED, &rest),
        Some("fuzz") => timed(&["fuzz"], seconds_of(&rest), &[]),
        _ => die(&format!("usage: {HELP}")),
    }
}

/// Numbered invariants are checked, and bugs can be switched on that tests must find. What the tests run is built with
/// this and in their profile, as they are: query engines take minutes to build.
const CHECKED: &[&str] = &["--profile", "test", "--features", "alluvia-node/paranoid,alluvia-sim/planted"];

fn demo(rest: &[&str]) {
    alluvia(&[&["demo"], rest].concat());
}

/// Runs the command line tool of this checkout, building it first.
fn alluvia(args: &[&str]) {
    Step::new(built("alluvia", &[]), args).run();
}

/// A program of this checkout. Built with the whole workspace selected: cargo unifies features over what is selected,
/// and a selection of its own would build DataFusion anew.
fn built(name: &str, features: &[&str]) -> PathBuf {
    cargo(&[&["build", "--workspace", "--bin", name], features].concat()).run();
    target_dir().join("debug").join(name)
}

/// The Python package, packed. With the whole workspace selected, as [`built`] has it.
fn wheel(features: &[&str]) -> PathBuf {
    cargo(&[&["build", "--workspace", "--lib"], features].concat()).run();
    dist::pack_wheel(&target_dir().join("debug/lib_alluvia.so"), &target_dir().join("wheels"))
}

fn lint() {
    cargo(&["fmt", "--all", "--check"]).run();
    tidy::run();
    cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]).run();
    licences();
}

/// Licences and sources, by cargo-deny; installed the first time, without optimising what runs for seconds.
fn licences() {
    if Command::new("cargo-deny").arg("--version").output().is_err() {
        Step::new("cargo", &["install", "--locked", "--debug", "cargo-deny@0.20.2"]).run();
    }
    cargo(&["deny", "--log-level", "error", "check", "licenses", "sources", "bans"]).run();
}

fn test() {
    lint();
    docs();
    cargo(&[&["test", "--workspace"], CHECKED].concat()).run();
    interop();
    python_package();
    install(&built("alluvia", CHECKED));
    let flights = data::nycflights();
    let flights = flights.to_str().expect("paths here are UTF-8");
    Step::new(built("alluvia", CHECKED), &["demo", "--data", flights, "--seconds", "5"]).run();
}

/// Segments open in DuckDB and pyarrow as they are; clients of PostgreSQL, of HTTP and of Flight SQL talk to the
/// server.
fn interop() {
    let venv = data::venv();
    let binary = built("alluvia", CHECKED);
    let binary = binary.to_str().expect("paths here are UTF-8");
    python(&venv, &["scripts/interop.py", binary]).run();
    python(&venv, &["scripts/wire.py", binary]).run();
    let clients = run::cache().join("clients");
    let clients = clients.to_str().expect("paths here are UTF-8");
    python(&venv, &["scripts/clients.py", binary, clients]).run();
    python(&venv, &["scripts/client_rows.py", binary, clients]).run();
    python(&venv, &["scripts/isolation.py", binary]).run();
    python(&venv, &["scripts/web.py", binary]).run();
    python(&venv, &["scripts/terminal.py", binary]).run();
    python(&venv, &["scripts/flight.py", binary]).run();
    tools(&["--quick"]);
}

/// The tools of analysts, unmodified, at a server of this checkout's program.
fn tools(options: &[&str]) {
    let binary = built("alluvia", CHECKED);
    let cache = run::cache().join("tools");
    let paths = [binary.to_str().expect("paths here are UTF-8"), cache.to_str().expect("paths here are UTF-8")];
    python(&data::venv(), &[&["scripts/tools.py"], paths.as_slice(), options].concat()).run();
}

/// The wheel installs, its types hold, and its tests and documents run.
fn python_package() {
    let wheel = wheel(CHECKED);
    let venv = data::venv();
    let wheel = wheel.to_str().expect("paths here are UTF-8");
    let pip =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps", wheel];
    python(&venv, &pip).run();
    python(&venv, &["-m", "mypy", "--config-file", "python/mypy.ini", "python/alluvia"]).run();
    let program = built("alluvia", CHECKED);
    let program = program.to_str().expect("paths here are UTF-8");
    python(&venv, &["-m", "pytest", "--quiet", "python/tests"]).env("ALLUVIA_PROGRAM", program).run();
}

/// The Debian package, of a program that is built already or of this checkout's.
fn deb(rest: &[&str]) {
    println!("{}", package::deb(&program_of(rest), &target_dir()).display());
}

/// The program that is named, or this checkout's.
fn program_of(rest: &[&str]) -> PathBuf {
    rest.first().map_or_else(|| built("alluvia", &[]), PathBuf::from)
}

/// What the README says of installing, typed as it stands there, from an archive of a program that is built.
fn install(program: &Path) {
    let folder = emptied(target_dir().join("install"));
    let archive = archive::pack(program, &folder, Compression::Fast);
    Step::new("python3", &["scripts/install.py", text_of(&archive)]).run();
    std::fs::remove_dir_all(&folder).unwrap_or_else(|error| die(&format!("{}: {error}", folder.display())));
}

/// The documentation of the crates; a link in it that leads nowhere is an error. Needs no more than what clippy has
/// checked already, and our own crates once more.
fn docs() {
    cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings").run();
}

/// Writes `docs/FUNCTIONS.md` from the table of functions. By the room alone: what it needs (no planner) is built with
/// features of its own, which takes some ten minutes the first time, and an edit takes no other room with it.
fn functions() {
    let test = ["test", "--package", "alluvia-functions", "--lib", "the_document_is_that_of_the_table"];
    cargo(&test).env("ALLUVIA_WRITE_DOCUMENTS", "1").run();
}

fn bench(rest: &[&str]) {
    let Some((&name, args)) = rest.split_first() else {
        die(
            "bench NAME: one of load, insert, freshness, tpch, box, star, curves, sample, skip, thin, mixed, wire, upsert, partial, annihilation, scu, point, cluster, tpcc-wire, ch, pgbench",
        );
    };
    let venv = data::venv();
    let venv = venv.to_str().expect("paths here are UTF-8");
    match name {
        "tpcc-wire" => {
            return by_clients(
                "scripts/tpcc.py",
                &[&["--turns", "3", "--threads", "8", "--seconds", "10"], args].concat(),
            );
        }
        "ch" => return by_clients("scripts/ch.py", args),
        "pgbench" => {
            let program = built("alluvia", &[]);
            return python(&data::venv(), &[&["scripts/pgbench.py", text_of(&program), "--peer"], args].concat()).run();
        }
        _ => {}
    }
    let cache = data::folder();
    let cache = cache.to_str().expect("paths here are UTF-8");
    let fixed = [name, "--venv", venv, "--data", cache];
    Step::new(built("alluvia-bench", &[]), &[&fixed, args].concat()).run();
}

/// Transactions by clients of PostgreSQL, unmodified, in turns with a PostgreSQL.
fn by_clients(script: &str, args: &[&str]) {
    let program = built("alluvia", &[]);
    let cache = run::cache();
    let fixed = [script, text_of(&program), text_of(&cache), "--peer"];
    python(&data::venv(), &[&fixed, args].concat()).run();
}

/// Statements that a soak asks of the index and of the general plan.
const SOAK_STATEMENTS: &str = "100000";

/// What takes too long for CI: crashes for so long, models and simulated histories for a quarter of it each, each byte of a small database
/// flipped, whole statements beside DuckDB for as long, machines whose links are dropped, analysts' tools, and generated statements until they are enough.
fn soak(rest: &[&str]) {
    let seconds = seconds_of(rest);
    timed(&["kill"], seconds, &[]);
    timed(&["keyed::history"], seconds / 4, &[]);
    timed(&["whole::history"], seconds / 4, &[]);
    timed(&["schemas", "schema_model", "nested", "stars", "predicates"], seconds / 4, &[]);
    timed(&["every_byte"], 0, &[("ALLUVIA_TEST_EVERY", "1")]);
    differ(seconds / 4);
    namespaces();
    tools(&[]);
    timed(&["index_answers"], 0, &[("ALLUVIA_TEST_STATEMENTS", SOAK_STATEMENTS)]);
}

/// Replays a seed of the simulation of the whole engine, with its trace.
fn sim(rest: &[&str]) {
    let Some(seed) = rest.first().filter(|seed| seed.parse::<u64>().is_ok()) else { die("sim SEED: a number") };
    let test = "whole::history::every_answer_is_the_models_whatever_the_disk_does";
    let tests = ["test", "--workspace", "--test", "it"];
    cargo(&[tests.as_slice(), CHECKED, &["--", "--nocapture", "--exact", test]].concat())
        .env("ALLUVIA_TEST_SEED", seed)
        .env("ALLUVIA_TEST_TRACE", "1")
        .run();
}

/// Random statements on random tables, our answers beside DuckDB's.
fn differ(seconds: u64) {
    let venv = data::venv();
    let binary = built("alluvia", CHECKED);
    let binary = binary.to_str().expect("paths here are UTF-8");
    python(&venv, &["scripts/differ.py", binary, "--seconds", &seconds.to_string()]).run();
}

/// A cluster on three machines, which are network namespaces; it says so and is not run where nobody may make those.
fn namespaces() {
    let binary = built("alluvia", CHECKED);
    python(&data::venv(), &["scripts/namespaces.py", binary.to_str().expect("paths here are UTF-8")]).run();
}

/// The long versions of some modules' tests, outside CI.
fn timed(modules: &[&str], seconds: u64, variables: &[(&str, &str)]) {
    println!("seed and progress are printed by the tests; {seconds} s");
    let filters: Vec<String> = modules.iter().map(|module| format!("{module}::")).collect();
    let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
    let tests = ["test", "--workspace", "--test", "it", "--test", "wire", "--test", "http", "--test", "flight"];
    let mut step = cargo(&[tests.as_slice(), CHECKED, &["--", "--nocapture"], filters.as_slice()].concat());
    for (name, value) in [("ALLUVIA_TEST_SECONDS", seconds.to_string().as_str())].iter().chain(variables) {
        step = step.env(name, value);
    }
    step.run();
}

/// The time that is asked for.
fn seconds_of(rest: &[&str]) -> u64 {
    let time = rest.first().copied().unwrap_or("1h");
    seconds(time).unwrap_or_else(|| die(&format!("'{time}' is no duration: write 90s, 10m or 2h")))
}

fn seconds(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    match &text[digits..] {
        "s" | "" => Some(number),
        "m" => Some(number * 60),
        "h" => Some(number * 3600),
        _ => None,
    }
}
