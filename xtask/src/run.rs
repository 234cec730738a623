//! Running other programs, said aloud.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};
use std::time::Instant;

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the checkout").to_owned()
}

/// The user's cache folder of this project.
pub fn cache() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(PathBuf::from(home).join(".cache"))
    });
    base.unwrap_or_else(|| root().join("target")).join("alluvia")
}

/// Where cargo builds.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| cache().join("target"), PathBuf::from)
}

/// Children build where we were built, unless the caller chose, and as if they had been called without us: `cargo run` tells us which package
/// we are, and build scripts that ask for that (`ring`'s) would run again, with all that stands on them, after each `cargo` of the user's own.
pub fn set_environment() {
    let of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    let known: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    // SAFETY: nothing else runs yet.
    unsafe {
        known.iter().filter(|name| of_package(name)).for_each(|name| std::env::remove_var(name));
        if std::env::var_os("CARGO_TARGET_DIR").is_none() {
            std::env::set_var("CARGO_TARGET_DIR", target_dir());
        }
    }
}

/// One program to run.
pub struct Step {
    command: Command,
    text: String,
}

impl Step {
    /// A program in the checkout.
    pub fn new(program: impl AsRef<Path>, args: &[&str]) -> Step {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.args(args).current_dir(root());
        Step { command, text: format!("{} {}", program.display(), args.join(" ")) }
    }

    /// With an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Step {
        self.command.env(name, value);
        self
    }

    /// Without an environment variable of the caller's.
    pub fn without(mut self, name: &str) -> Step {
        self.command.env_remove(name);
        self
    }

    /// Runs it; ends this process if it fails.
    pub fn run(mut self) {
        eprintln!("==> {}", self.text);
        let start = Instant::now();
        match self.command.status() {
            Ok(status) if status.success() => eprintln!("    {:.1} s", start.elapsed().as_secs_f64()),
            Ok(status) => die(&format!("{} ended with {status}", self.text)),
            Err(error) => die(&format!("{} could not be started: {error}", self.text)),
        }
    }

    /// Runs it; gives what it printed, which is also shown, and whether it ended well.
    pub fn said(mut self) -> (String, bool) {
        eprintln!("==> {}", self.text);
        let mut child = match self.command.stdout(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(error) => die(&format!("{} could not be started: {error}", self.text)),
        };
        let mut said = String::new();
        for line in BufReader::new(child.stdout.take().expect("it is piped")).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            eprintln!("{line}");
            said.push_str(&line);
            said.push('\n');
        }
        (said, child.wait().is_ok_and(|status| status.success()))
    }
}

/// What a program in the checkout prints; ends this process if it fails.
pub fn output(program: &str, args: &[&str]) -> String {
    output_in(&root(), program, args)
}

/// What a program in a folder prints; ends this process if it fails.
pub fn output_in(folder: &Path, program: &str, args: &[&str]) -> String {
    let text = format!("{program} {}", args.join(" "));
    eprintln!("==> {text}");
    let done = Command::new(program).args(args).current_dir(folder).stderr(Stdio::inherit()).output();
    match done {
        Ok(done) if done.status.success() => String::from_utf8_lossy(&done.stdout).into_owned(),
        Ok(done) => die(&format!("{text} ended with {}", done.status)),
        Err(error) => die(&format!("{text} could not be started: {error}")),
    }
}

/// A cargo command with the locked dependencies.
pub fn cargo(args: &[&str]) -> Step {
    let takes_locked = !matches!(args.first(), Some(&"fmt" | &"deny"));
    let mut all: Vec<&str> = args.to_vec();
    if takes_locked {
        all.insert(1, "--locked");
    }
    Step::new(std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from), &all)
}

/// A Python of the project's virtual environment.
pub fn python(venv: &Path, args: &[&str]) -> Step {
    Step::new(venv.join("bin").join("python"), args)
}

/// A path as an argument.
pub fn text_of(path: &Path) -> &str {
    path.to_str().unwrap_or_else(|| die(&format!("{}: paths here are UTF-8", path.display())))
}

/// An empty folder, whatever lay there.
pub fn emptied(folder: PathBuf) -> PathBuf {
    if folder.exists() {
        std::fs::remove_dir_all(&folder).unwrap_or_else(|error| die(&format!("{}: {error}", folder.display())));
    }
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| die(&format!("{}: {error}", folder.display())));
    folder
}

/// Says why, and ends.
pub fn die(why: &str) -> ! {
    eprintln!("xtask: {why}");
    exit(1)
}
