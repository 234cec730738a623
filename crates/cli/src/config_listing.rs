//! `alluvia config`: lists every setting, and checks all of them.

use crate::config::{Config, ConfigArgs, Origin, SETTINGS};
use crate::{say, settings};
use alluvia_types::Result;
use std::process::ExitCode;

/// `alluvia config`: every setting, its value, and where that came from; then what of it no server would start with, as an error.
pub fn run(args: &ConfigArgs) -> Result<ExitCode> {
    let config = Config::load(args)?;
    let width = |of: &dyn Fn(&(&'static str, String, Origin)) -> usize| config.values.iter().map(of).max().unwrap_or(0);
    // A width of a format has a bound.
    let (names, values) = (width(&|row| row.0.len()), width(&|row| row.1.len()).min(1_000));
    for ((name, value, origin), (_, _, what)) in config.values.iter().zip(SETTINGS) {
        say(&format!("{name:names$}  {value:values$}  [{origin}]  {what}\n"))?;
    }
    // Behind the list, which tells where a wrong value came from.
    settings::check(&config)?;
    Ok(ExitCode::SUCCESS)
}
