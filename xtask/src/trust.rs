//! `make trust`: runs what docs/RELIABILITY.md stands on, and prints its figures as one JSON object, the last line.
//!
//! Invariants:
//! - A figure is read from what its command has printed in this run. What was not run, or does not exist, is null; never a figure of before.
//! - A proof that prints no figure has shown nothing, and counts as one that fails: its tests may have other names by now.
//! - All proofs are run, also behind one that fails; which have failed stands in the object, and the exit code is 1 then.

use crate::run::{cargo, output};
use serde_json::{Map, Value, json};
use std::process::exit;

/// Tests that print figures.
struct Proof {
    name: &'static str,
    /// What cargo is told to test.
    target: &'static [&'static str],
    /// Names of tests begin with these, or have them within.
    tests: &'static [&'static str],
    /// A figure's name, and the text that stands behind it wherever it is printed; what stands there several times is added up.
    figures: &'static [(&'static str, &'static str)],
    /// A figure's name, and the text of which it is the count.
    counted: &'static [(&'static str, &'static str)],
}

const IT: &[&str] = &["--test", "it"];
const SERVERS: &[&str] = &["--test", "it", "--test", "wire", "--test", "http", "--test", "flight"];

const PROOFS: &[Proof] = &[
    Proof {
        name: "simulation",
        target: IT,
        tests: &["whole::history::"],
        figures: &[("seeds", " seeds, "), ("trace_lines", " lines of traces")],
        counted: &[],
    },
    Proof {
        name: "cluster_simulation",
        target: IT,
        tests: &["cluster::history::"],
        figures: &[("reads_compared", " reads were compared"), ("faults_injected", " faults")],
        counted: &[],
    },
    Proof {
        name: "canaries",
        target: IT,
        tests: &["planted::"],
        figures: &[],
        counted: &[("planted", "canary: "), ("missed", "NOT FOUND")],
    },
    Proof {
        name: "power_loss",
        target: IT,
        tests: &["crash::power_loss"],
        figures: &[
            ("crash_points", " calls; "),
            ("states_after_one_loss", " distinct states after one"),
            ("states_after_two_losses", " more after a second one"),
        ],
        counted: &[],
    },
    Proof {
        name: "kills",
        target: IT,
        tests: &["kill::"],
        figures: &[("kills", " kills; "), ("batches_acknowledged", " batches were acknowledged")],
        counted: &[],
    },
    Proof {
        name: "failing_disks",
        target: IT,
        tests: &["faults::", "keyed::full::"],
        figures: &[("tests", " passed; ")],
        counted: &[],
    },
    Proof {
        name: "damage",
        target: IT,
        tests: &["every_byte::"],
        figures: &[
            ("bytes_in_files", " bytes in "),
            ("bytes_flipped", " bytes flipped"),
            ("cut_removed_swapped_older", " other damages"),
            ("wrong", " wrong answers"),
            ("untold", " untold, of logs"),
            ("unnoticed", " that nobody noticed"),
        ],
        counted: &[],
    },
    Proof {
        name: "bodies",
        target: &["--lib"],
        tests: &["tests::mutated::"],
        figures: &[("loaded", " loaded, "), ("tests", " passed; ")],
        counted: &[],
    },
    Proof {
        name: "fuzz",
        target: SERVERS,
        tests: &["fuzz::no_"],
        figures: &[
            ("statements", " statements, "),
            ("http_requests", " requests; "),
            ("flight_calls", " calls; "),
            ("postgresql_connections", " connections"),
        ],
        counted: &[],
    },
];

/// Runs all, or those that are named.
pub fn run(checked: &[&str], names: &[&str]) {
    let mut all = Map::new();
    let mut failed = Vec::new();
    for proof in PROOFS {
        let is_wanted = names.is_empty() || names.contains(&proof.name);
        let (figures, is_held) = if is_wanted { proof.run(checked) } else { (Value::Null, true) };
        all.insert(proof.name.to_owned(), figures);
        if !is_held {
            failed.push(proof.name);
        }
    }
    // There is none that a registry holds and that could be run as it is.
    all.insert("foreign_suites".to_owned(), Value::Null);
    all.insert("versions".to_owned(), versions());
    all.insert("machine".to_owned(), machine());
    all.insert("failed".to_owned(), json!(failed));
    println!("{}", Value::Object(all));
    if !failed.is_empty() {
        exit(1);
    }
}

impl Proof {
    /// Its figures with the command that gives them, and whether all its tests have held.
    fn run(&self, checked: &[&str]) -> (Value, bool) {
        let args = [&["test", "--workspace"], self.target, checked, &["--", "--nocapture"], self.tests].concat();
        let (said, is_held) = cargo(&args).said();
        let mut figures = Map::new();
        figures.insert("command".to_owned(), json!(format!("cargo {}", args.join(" "))));
        for (name, behind) in self.figures {
            figures.insert((*name).to_owned(), sum_before(&said, behind).map_or(Value::Null, Value::from));
        }
        for (name, text) in self.counted {
            figures.insert((*name).to_owned(), json!(said.matches(text).count()));
        }
        let is_shown = self.is_shown(&figures);
        (Value::Object(figures), is_held && is_shown)
    }

    /// Whether all figures are there, and something was counted; of what was missed there may be none.
    fn is_shown(&self, figures: &Map<String, Value>) -> bool {
        let value = |name: &str| figures.get(name).unwrap_or(&Value::Null);
        let is_counted =
            self.counted.first().is_none_or(|(name, _)| value(name).as_u64().is_some_and(|count| count > 0));
        is_counted && self.figures.iter().all(|(name, _)| !value(name).is_null())
    }
}

/// The sum of all whole numbers that stand right before a text; `None` if there is none.
fn sum_before(text: &str, behind: &str) -> Option<u64> {
    let number = |(at, _): (usize, &str)| {
        let digits = text[..at].bytes().rev().take_while(u8::is_ascii_digit).count();
        text[at - digits..at].parse::<u64>().ok()
    };
    text.match_indices(behind).filter_map(number).reduce(|sum, number| sum + number)
}

/// What was tested, and what it was built with.
fn versions() -> Value {
    let line = |program: &str, args: &[&str]| output(program, args).trim().to_owned();
    json!({
        "commit": line("git", &["rev-parse", "HEAD"]),
        "changed_files": line("git", &["status", "--porcelain", "--untracked-files=no"]).lines().count(),
        "alluvia": env!("CARGO_PKG_VERSION"),
        "rustc": line("rustc", &["--version"]),
    })
}

/// Where.
fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
        line.map(|(_, value)| value.trim().to_owned())
    };
    json!({
        "processor": field(&read("/proc/cpuinfo"), "model name"),
        "threads": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": field(&read("/proc/meminfo"), "MemTotal"),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_added_up_wherever_they_stand() {
        let said = "test a ... 217 calls; 5 states\nx 3 calls; calls; 1a calls; none";
        assert_eq!(sum_before(said, " calls; "), Some(220));
        assert_eq!(sum_before(said, " kills; "), None);
    }

    #[test]
    fn a_proof_without_figures_has_shown_nothing() {
        let proof = |name: &str| PROOFS.iter().find(|proof| proof.name == name).expect("a proof");
        let figures = |value: Value| value.as_object().expect("an object").clone();
        let kills = proof("kills");
        assert!(kills.is_shown(&figures(json!({"kills": 3, "batches_acknowledged": 0}))));
        assert!(!kills.is_shown(&figures(json!({"kills": 3, "batches_acknowledged": null}))));
        assert!(!kills.is_shown(&Map::new()));
        let canaries = proof("canaries");
        assert!(canaries.is_shown(&figures(json!({"planted": 9, "missed": 0}))));
        assert!(!canaries.is_shown(&figures(json!({"planted": 0, "missed": 0}))));
    }

    /// What a proof looks for is what its test prints: a word changed there would make the figure null.
    #[test]
    fn every_figure_is_printed_by_a_test() {
        let root = crate::run::root();
        let mut text = String::new();
        let mut folders = vec![root.join("crates")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("lists") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "rs") {
                    text.push_str(&std::fs::read_to_string(path).expect("reads"));
                }
            }
        }
        for (name, behind) in PROOFS.iter().flat_map(|proof| proof.figures) {
            // What the harness of the tests prints itself.
            let is_printed = text.contains(&format!("}}{behind}")) || *behind == " passed; ";
            assert!(is_printed, "{name}: no test prints a number before '{behind}'");
        }
    }
}
