//! `sample`: estimates within an error beside cold exact answers, over boxes of at least a million rows; and how often intervals hold
//! ([`crate::interval_trials`]). With `--fraction`, also scans of a share of the rows ([`crate::fraction`]).
//!
//! Both sessions leave cuboids alone, and ask in turns after one pass that warms them. A box that is answered exactly all the same counts
//! as it is: what is promised is never to be slower.

use crate::boxes::answer::Answer;
use crate::boxes::data::Data;
use crate::boxes::ours::Ours;
use crate::boxes::questions::{Bin, Generator, Question};
use crate::machine::median;
use crate::{Anything, Folders, fraction, interval_trials};
use alluvia_node::{DatabaseOptions, parse_bytes};
use alluvia_query::{Prepared, Session};
use arrow::array::{ArrayRef, AsArray};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Args)]
pub struct SampleArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// Rows of the table.
    #[arg(long, default_value_t = 20_000_000)]
    pub rows: u64,
    /// Questions, a third in each bin of coverage.
    #[arg(long, default_value_t = 60)]
    queries: usize,
    /// Rows that a question matches at least.
    #[arg(long, default_value_t = 1_000_000)]
    matching: u64,
    /// Timed turns of each question.
    #[arg(long, default_value_t = 5)]
    pub turns: usize,
    /// The largest relative error.
    #[arg(long, default_value_t = 0.01)]
    max_error: f64,
    /// How often intervals should hold.
    #[arg(long, default_value_t = 0.95)]
    pub confidence: f64,
    /// Writes the boxes' statements to a file, to be asked by hand.
    #[arg(long)]
    write: Option<PathBuf>,
    /// Leaves the boxes out.
    #[arg(long)]
    no_boxes: bool,
    /// Also scans this share of the rows (`sample_fraction`), with ladders from 1/8 and from 1/2 on, beside full scans.
    #[arg(long)]
    fraction: Option<f64>,
    /// Trials of each statement over skewed values; 0 leaves them out.
    #[arg(long, default_value_t = 1_000)]
    pub trials: u64,
    /// Rows of the table of lognormal values.
    #[arg(long, default_value_t = 2_000_000)]
    pub trial_rows: usize,
    /// Seed of the questions.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Memory limit of the project.
    #[arg(long)]
    memory_limit: Option<String>,
}

/// One question's figures, each as text and prepared.
struct Measured {
    bin: Bin,
    exact_ms: [f64; 2],
    near_ms: [f64; 2],
    /// Share of cut rows drawn; `None` if the answer was exact all the same.
    drawn: Option<f64>,
    /// The largest true error of a value.
    error: f64,
}

impl Measured {
    /// What there is to see of one box.
    fn line(&self, question: &Question) -> String {
        let [text, prepared] = [0, 1].map(|way| format!("{:.2} / {:.2} ms", self.exact_ms[way], self.near_ms[way]));
        format!(
            "{} of {} dimensions, {:.4} of the rows, text of {} bytes: exact / estimate {text} as text, {prepared} prepared; drawn {:.4}",
            self.bin.name(),
            question.dimensions,
            question.coverage,
            question.sql.len(),
            self.drawn.unwrap_or(1.0),
        )
    }
}

pub async fn run(args: SampleArgs) -> Anything<Value> {
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let mut options = DatabaseOptions::default();
    if let Some(limit) = &args.memory_limit {
        options.memory_limit_bytes = parse_bytes(limit)?;
    }
    let mut figures = json!({
        "bench": "sample", "rows": args.rows, "max_error": args.max_error, "confidence": args.confidence,
        "matching_at_least": args.matching, "turns": args.turns, "seed": args.seed,
    });
    if !args.no_boxes {
        boxes(&args, scratch.path(), options.clone(), &mut figures).await?;
    }
    if let Some(share) = args.fraction {
        figures["fraction"] = fraction::run(&args, share, &scratch.path().join("fraction"), options.clone()).await?;
    }
    if args.trials > 0 {
        figures["lognormal"] =
            interval_trials::lognormal(&args, &scratch.path().join("lognormal"), options.clone()).await?;
        figures["completejourney"] = interval_trials::journey(&args, &scratch.path().join("journey"), options).await?;
    }
    Ok(figures)
}

/// Estimates beside exact answers.
async fn boxes(args: &SampleArgs, scratch: &Path, options: DatabaseOptions, figures: &mut Value) -> Anything<()> {
    let data = Data { rows: args.rows, zipf: 0, correlated: false };
    let file = data.parquet(&args.folders.data)?;
    let file = file.to_str().ok_or("the data folder's path is not UTF-8")?.to_owned();
    let ours = Ours::load(&args.folders.table(scratch, &file), &file, args.rows, options).await?;
    let (exact, near) = (ours.db().session(), ours.db().session());
    for session in [&exact, &near] {
        session.sql("SET cuboids = off").await?;
    }
    near.sql(&format!("SET max_error = '{}'", args.max_error)).await?;
    near.sql(&format!("SET confidence = '{}'", args.confidence)).await?;
    let questions = questions(args, &data, &exact)?;
    if let Some(path) = &args.write {
        let statements: Vec<String> = questions.iter().map(|question| format!("{};\n", question.sql)).collect();
        std::fs::write(path, statements.concat())?;
    }
    let mut measured = Vec::with_capacity(questions.len());
    for question in &questions {
        let one = measure(args, question, &exact, &near).await?;
        eprintln!("{}", one.line(question));
        measured.push(one);
    }
    figures["merged_s"] = ours.load_s.into();
    figures["boxes"] = report(args, &measured);
    Ok(())
}

/// Boxes that match enough rows.
fn questions(args: &SampleArgs, data: &Data, exact: &Session) -> Anything<Vec<Question>> {
    let mut generator = Generator::new(args.seed, data, usize::MAX);
    let ask = |sql: &str| {
        let batches = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async { exact.sql(sql).await?.collect().await })
        })?;
        Answer::of_batches(&batches, false)
    };
    let each = (args.queries / Bin::ALL.len()).max(1);
    let mut questions = generator.questions(each, ask)?;
    questions.retain(|question| question.coverage * args.rows as f64 >= args.matching as f64);
    eprintln!("{} boxes match at least {} rows", questions.len(), args.matching);
    if questions.is_empty() { Err("no box matches enough rows: take more --rows".into()) } else { Ok(questions) }
}

/// How a question is put.
const WAYS: [&str; 2] = ["text", "prepared"];

async fn measure(args: &SampleArgs, question: &Question, exact: &Session, near: &Session) -> Anything<Measured> {
    let prepared = [exact.prepare(&question.sql)?, near.prepare(&question.sql)?];
    let (mut exact_ms, mut near_ms) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let (mut drawn, mut error) = (None, 0.0f64);
    for turn in 0..=args.turns {
        for way in 0..WAYS.len() {
            let text = (way == 0).then_some(question.sql.as_str());
            let (truth, took, _) = ask(exact, text, &prepared[0]).await?;
            let (found, near_took, share) = ask(near, text, &prepared[1]).await?;
            if turn > 0 {
                exact_ms[way].push(took);
                near_ms[way].push(near_took);
            }
            drawn = drawn.or(share);
            let errors = found.iter().zip(&truth).map(|(found, truth)| ((found - truth) / truth).abs());
            error = errors.fold(error, f64::max);
        }
    }
    let [exact_ms, near_ms] = [exact_ms, near_ms].map(|times| times.map(|mut times| median(&mut times)));
    Ok(Measured { bin: question.bin, exact_ms, near_ms, drawn, error })
}

/// The values of the only row, the milliseconds, and the share of cut rows that was drawn.
async fn ask(session: &Session, text: Option<&str>, prepared: &Prepared) -> Anything<(Vec<f64>, f64, Option<f64>)> {
    let start = Instant::now();
    let outcome = match text {
        Some(sql) => session.sql(sql).await?,
        None => session.execute_prepared(prepared, &[]).await?,
    };
    let sample = outcome.used().and_then(|used| used.sample);
    let batches = outcome.collect().await?;
    let took = start.elapsed().as_secs_f64() * 1e3;
    let row = batches.iter().find(|batch| batch.num_rows() > 0).ok_or("an answer has no rows")?;
    let number = |column: &ArrayRef| {
        let number = arrow::compute::cast(column, &arrow::datatypes::DataType::Float64)?;
        Ok(number.as_primitive::<arrow::datatypes::Float64Type>().value(0))
    };
    let values = row.columns().iter().map(number).collect::<Anything<Vec<f64>>>()?;
    Ok((values, took, sample.map(|sample| sample.rows_drawn as f64 / sample.rows_cut.max(1) as f64)))
}

/// By coverage, and of all boxes.
fn report(args: &SampleArgs, measured: &[Measured]) -> Value {
    let mut bins = Vec::new();
    for bin in Bin::ALL.into_iter().map(Some).chain([None]) {
        let of_bin: Vec<&Measured> = measured.iter().filter(|one| bin.is_none_or(|bin| one.bin == bin)).collect();
        if of_bin.is_empty() {
            continue;
        }
        let middle =
            |pick: &dyn Fn(&Measured) -> f64| median(&mut of_bin.iter().map(|one| pick(one)).collect::<Vec<_>>());
        let mut figures = json!({
            "coverage": bin.map_or("all", |bin| bin.name()), "boxes": of_bin.len(),
            "sampled": of_bin.iter().filter(|one| one.drawn.is_some()).count(),
            "drawn_share": middle(&|one| one.drawn.unwrap_or(1.0)),
            "beyond_max_error": of_bin.iter().filter(|one| one.error > args.max_error).count(),
        });
        for (way, name) in WAYS.into_iter().enumerate() {
            let mut ratios: Vec<f64> = of_bin.iter().map(|one| one.exact_ms[way] / one.near_ms[way]).collect();
            let sum = |pick: fn(&Measured) -> &[f64; 2]| of_bin.iter().map(|one| pick(one)[way]).sum::<f64>();
            figures[name] = json!({
                "times_faster_in_sum": sum(|one| &one.exact_ms) / sum(|one| &one.near_ms),
                "exact_ms": middle(&|one| one.exact_ms[way]), "estimate_ms": middle(&|one| one.near_ms[way]),
                "times_faster_least": ratios.iter().copied().fold(f64::INFINITY, f64::min),
                "times_faster": median(&mut ratios),
            });
        }
        eprintln!("{figures}");
        bins.push(figures);
    }
    bins.into()
}
