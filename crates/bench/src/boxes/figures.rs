//! Figures of one list of questions, as a table for people and as JSON.
//!
//! Ratios say how many times the best peer's time ours is faster, and how many times its throughput ours is, over the same
//! questions. Shapes that are too large for a cuboid stay cold, so all are also shown over the others alone.

use crate::boxes::ours::Way;
use crate::boxes::questions::{Bin, Question};
use crate::machine::percentile;
use serde_json::{Value, json};
use std::fmt::Write;

/// Engines are the ways of ours, then the peers.
pub struct Measured {
    pub engines: Vec<String>,
    /// Milliseconds: of each engine, of each question, of each turn.
    pub samples: Vec<Vec<Vec<f64>>>,
    /// Queries a second: of each engine, in each bin.
    pub throughput: Vec<Vec<f64>>,
    /// The same over those questions alone whose shapes are resident.
    pub resident_throughput: Vec<Vec<f64>>,
    /// Which questions' shapes are resident.
    pub resident: Vec<bool>,
    /// Answers that differ from the reference.
    pub wrong: Vec<String>,
}

/// One engine over some questions of a bin.
struct Row {
    engine: String,
    questions: usize,
    mean_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    faster: f64,
    queries_per_s: f64,
    throughput_ratio: f64,
}

impl Measured {
    fn times(&self, engine: usize, questions: &[usize]) -> Vec<f64> {
        questions.iter().flat_map(|question| self.samples[engine][*question].iter().copied()).collect()
    }

    /// `throughput` is by engine, in the questions' bin.
    fn row(&self, engine: usize, bin: usize, throughput: &[Vec<f64>], questions: &[usize]) -> Row {
        let mut times = self.times(engine, questions);
        let peers = Way::ALL.len()..self.engines.len();
        let best_ms = peers.clone().map(|peer| mean(&self.times(peer, questions))).fold(f64::NAN, f64::min);
        let queries_per_s = throughput[engine][bin];
        let best_per_s = peers.map(|peer| throughput[peer][bin]).fold(f64::NAN, f64::max);
        let mean_ms = mean(&times);
        Row {
            engine: self.engines[engine].clone(),
            questions: questions.len(),
            mean_ms,
            p50_ms: percentile(&mut times, 0.5),
            p99_ms: percentile(&mut times, 0.99),
            faster: best_ms / mean_ms,
            queries_per_s,
            throughput_ratio: queries_per_s / best_per_s,
        }
    }

    /// Rows of one bin: every engine over all its questions; then every one over those whose shapes are resident.
    fn rows(&self, bin: usize, questions: &[usize]) -> Vec<Row> {
        let engines = 0..self.engines.len();
        let mut rows: Vec<Row> =
            engines.clone().map(|engine| self.row(engine, bin, &self.throughput, questions)).collect();
        let resident: Vec<usize> = questions.iter().copied().filter(|question| self.resident[*question]).collect();
        if !resident.is_empty() && resident.len() < questions.len() {
            for engine in engines.filter(|&engine| engine != Way::Cold as usize) {
                let mut row = self.row(engine, bin, &self.resident_throughput, &resident);
                row.engine.push_str(" only");
                rows.push(row);
            }
        }
        rows
    }

    /// Prints the table of one list and gives its figures.
    pub fn report(&self, list: &str, questions: &[Question]) -> Value {
        let mut bins = Vec::new();
        let mut text = format!("\n{list}\n");
        for (at, bin) in Bin::ALL.into_iter().enumerate() {
            let of_bin: Vec<usize> = (0..questions.len()).filter(|question| questions[*question].bin == bin).collect();
            let average = |figure: fn(&Question) -> f64| {
                mean(&of_bin.iter().map(|question| figure(&questions[*question])).collect::<Vec<f64>>())
            };
            let coverage = average(|question| question.coverage);
            let dimensions = average(|question| question.dimensions as f64);
            let bytes = average(|question| question.sql.len() as f64);
            let resident = of_bin.iter().filter(|question| self.resident[**question]).count();
            let _ = writeln!(
                text,
                "{} coverage: {} questions, on average {:.1} % of the rows, {dimensions:.1} dimensions, {bytes:.0} bytes of SQL; {resident} resident",
                bin.name(),
                of_bin.len(),
                coverage * 100.0
            );
            let _ = writeln!(
                text,
                "  {:<27}{:>10}{:>10}{:>10}{:>12}{:>12}{:>12}",
                "", "mean ms", "p50 ms", "p99 ms", "x best", "queries/s", "x best"
            );
            let rows = self.rows(at, &of_bin);
            for row in &rows {
                let _ = writeln!(
                    text,
                    "  {:<27}{:>10.3}{:>10.3}{:>10.3}{:>12.2}{:>12.1}{:>12.1}",
                    row.engine,
                    row.mean_ms,
                    row.p50_ms,
                    row.p99_ms,
                    row.faster,
                    row.queries_per_s,
                    row.throughput_ratio
                );
            }
            bins.push(json!({
                "bin": bin.name(), "questions": of_bin.len(), "resident_questions": resident,
                "coverage_mean": coverage, "dimensions_mean": dimensions, "sql_bytes_mean": bytes,
                "engines": rows.iter().map(Row::json).collect::<Vec<Value>>(),
            }));
        }
        eprintln!("{text}");
        json!({ "list": list, "bins": bins })
    }
}

impl Row {
    fn json(&self) -> Value {
        json!({
            "engine": self.engine, "questions": self.questions,
            "mean_ms": self.mean_ms, "p50_ms": self.p50_ms, "p99_ms": self.p99_ms,
            "best_peer_mean_to_this": self.faster,
            "queries_per_s": self.queries_per_s, "throughput_to_best_peer": self.throughput_ratio,
        })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
