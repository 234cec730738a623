//! Runs the tables.

use super::{Mend, NOT_MENDS, Phase, Right, WRONG_IN, lines, mends};
use crate::rules::{Rules, StopCheck, StopChecks, configure, register, with_rules, with_rules_but};
use crate::testing::{batches, runtime};
use alluvia_functions::output_size::StatementLimits;
use arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::exec_err;
use datafusion::config::Dialect;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How a statement ends that is stopped.
pub(super) const STOPPED: &str = "the statement was stopped";

/// Statements that are stopped as soon as they run.
const STOPPING: StopChecks =
    StopChecks { planning: || Ok(()), running: || Some(StopCheck::new(|| exec_err!("{STOPPED}"))) };

/// Which rules a session has.
#[derive(Clone, Copy)]
enum Which<'a> {
    All,
    AllBut(&'a Mend),
    Datafusions,
}

fn config() -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(2);
    config.options_mut().sql_parser.dialect = Dialect::PostgreSQL;
    config.options_mut().extensions.insert(StatementLimits::default());
    config
}

/// A session without tables.
fn session(which: Which<'_>, checks: StopChecks) -> SessionContext {
    let mut config = config();
    if !matches!(which, Which::Datafusions) {
        configure(&mut config);
    }
    if let Which::AllBut(Mend { phase: Phase::Setting, names, .. }) = which {
        for entry in ConfigOptions::new().entries().into_iter().filter(|entry| names.contains(&entry.key.as_str())) {
            config.options_mut().set(&entry.key, &entry.value.unwrap_or_default()).expect("a setting");
        }
    }
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    let builder = match which {
        Which::All => with_rules(builder, checks),
        Which::AllBut(mend) => with_rules_but(builder, checks, mend.phase, mend.names),
        Which::Datafusions => return SessionContext::new_with_state(builder.build()),
    };
    let mut state = builder.build();
    register(&mut state).expect("functions");
    SessionContext::new_with_state(state)
}

/// The answer of a session that has these rules.
async fn answer(mend: &Mend, which: Which<'_>) -> Result<Vec<RecordBatch>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a path of UTF-8");
    let (plain, context) = (
        session(Which::Datafusions, StopChecks::NEVER),
        session(which, if matches!(mend.right, Right::Stops) { STOPPING } else { StopChecks::NEVER }),
    );
    for sql in mend.setup {
        let sql = sql.replace("{folder}", path);
        batches(&plain, &sql).await.expect("is set up");
        if sql.starts_with("SET ") {
            batches(&context, &sql).await.expect("is set");
        }
    }
    context.register_catalog("datafusion", plain.catalog("datafusion").expect("the catalog of a session"));
    batches(&context, mend.statement).await
}

/// What a person reads of an answer.
fn shown(answer: &Result<Vec<RecordBatch>, String>) -> String {
    match answer {
        Ok(batches) => format!("{:?}", lines(batches).iter().take(12).collect::<Vec<_>>()),
        Err(error) => format!("the error {:?}", error.chars().take(300).collect::<String>()),
    }
}

#[test]
fn each_mend_is_right_and_is_needed() {
    let mut wrong = Vec::new();
    for mend in mends() {
        let (all, rest) =
            runtime().block_on(async { (answer(mend, Which::All).await, answer(mend, Which::AllBut(mend)).await) });
        let (names, statement) = (mend.names, mend.statement);
        if !mend.right.is(&all) {
            wrong.push(format!("{names:?}: {statement} gives {} with all rules", shown(&all)));
        }
        if mend.right.is(&rest) {
            wrong.push(format!("{names:?}: {statement} is right without, where \"{}\" was: take it out", mend.without));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn each_rule_and_setting_of_ours_is_in_the_tables() {
    fn ours<R: ?Sized>(all: &[Arc<R>], own: &[Arc<R>], name: impl Fn(&R) -> &str) -> Vec<String> {
        let is_ours = |rule: &&Arc<R>| !own.iter().any(|own| Arc::ptr_eq(own, rule));
        all.iter().filter(is_ours).map(|rule| name(rule).to_owned()).collect()
    }
    let own = Rules::of_datafusion();
    let all = own.clone().mended(StopChecks::NEVER);
    let mut configured = SessionConfig::new();
    configure(&mut configured);
    let plain: BTreeSet<(String, Option<String>)> =
        SessionConfig::new().options().entries().into_iter().map(|entry| (entry.key, entry.value)).collect();
    let configured = configured.options().entries().into_iter().map(|entry| (entry.key, entry.value));
    let changed = configured.filter(|entry| !plain.contains(entry)).map(|(key, _)| key).collect();
    let phases: [(&[Phase], Vec<String>); 4] = [
        (&[Phase::BeforeTypes, Phase::AfterTypes], ours(&all.analyzer, &own.analyzer, |rule| rule.name())),
        (&[Phase::Optimizer], ours(&all.optimizer, &own.optimizer, |rule| rule.name())),
        (&[Phase::Physical], ours(&all.physical, &own.physical, |rule| rule.name())),
        (&[Phase::Setting], changed),
    ];
    for (phases, there) in phases {
        let of_mends = mends().filter(|mend| phases.contains(&mend.phase)).flat_map(|mend| mend.names).copied();
        let of_others = NOT_MENDS.iter().filter(|(phase, ..)| phases.contains(phase)).map(|(_, name, _)| *name);
        let (of_mends, of_others): (BTreeSet<&str>, BTreeSet<&str>) = (of_mends.collect(), of_others.collect());
        assert!(of_mends.is_disjoint(&of_others), "{phases:?}: a mend or none: {of_mends:?} {of_others:?}");
        let there: BTreeSet<&str> = there.iter().map(String::as_str).collect();
        assert_eq!(&of_mends | &of_others, there, "{phases:?}");
    }
}

#[test]
fn each_module_names_the_issue_of_its_mend() {
    for mend in mends() {
        let words = mend.module.lines().flat_map(|line| line.trim().trim_start_matches(['/', '!']).split_whitespace());
        let text = words.collect::<Vec<_>>().join(" ");
        assert!(text.contains(&mend.line()), "the module of {:?} does not say: {}", mend.names, mend.line());
    }
}

#[test]
fn the_tables_are_about_the_version_that_is_used() {
    let version = datafusion::DATAFUSION_VERSION;
    assert!(version.starts_with(&format!("{WRONG_IN}.")), "{version}: see the head of the module `upstream`");
}
