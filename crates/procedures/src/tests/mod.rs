//! Procedures on a host that answers from a list.

mod language;
mod names;
mod refused;
mod soup;
mod statements;

use crate::host::{Answer, Host, Notice, Pending};
use crate::program::{Compiled, Embedded};
use crate::{Outputs, ProcedureDef, compile};
use alluvia_syntax::Kind;
use alluvia_syntax::statements::routines::RoutineStatement;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{ArrayRef, Int32Array, StringArray};
use arrow::datatypes::DataType as ArrowType;
use arrow::record_batch::RecordBatch;
use datafusion_common::ScalarValue;
use std::pin::pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// Answers statements by their texts, and keeps what it was asked and told.
#[derive(Default)]
pub struct Mock {
    pub answers: Vec<(&'static str, Answer)>,
    pub asked: Mutex<Vec<String>>,
    pub notices: Mutex<Vec<Notice>>,
    pub stops_asked: AtomicUsize,
    pub stops_after: Option<usize>,
    pub around: usize,
    pub held: AtomicU64,
    pub held_max: Option<u64>,
}

impl Mock {
    pub fn answering(answers: &[(&'static str, Answer)]) -> Mock {
        Mock { answers: answers.to_vec(), ..Mock::default() }
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub fn told(&self) -> Vec<String> {
        self.notices.lock().unwrap().iter().map(|notice| notice.message.clone()).collect()
    }

    fn answer(&self, embedded: &Embedded, values: &[ScalarValue]) -> Result<Answer> {
        assert_eq!(embedded.parameters(), values.len(), "{}", embedded.sql());
        let sql = embedded.sql();
        let cast = [
            ("SELECT CAST($1 AS INT)", ArrowType::Int32),
            ("SELECT CAST($1 AS BIGINT)", ArrowType::Int64),
            ("SELECT CAST($1 AS TEXT)", ArrowType::Utf8),
            ("SELECT CAST($1 AS DECIMAL(10, 2))", ArrowType::Decimal128(10, 2)),
        ];
        if let Some((_, to)) = cast.into_iter().find(|(known, _)| *known == sql) {
            let value =
                values[0].cast_to(&to).map_err(|error| Error::new(ErrorKind::InvalidText, error.strip_backtrace()))?;
            return Ok(row(value.to_array().unwrap()));
        }
        let shown: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
        self.asked.lock().unwrap().push(format!("{sql} <- {}", shown.join(", ")).trim_end().to_owned());
        match self.answers.iter().find(|(known, _)| *known == sql) {
            Some((_, answer)) => Ok(answer.clone()),
            None => Err(Error::new(ErrorKind::UndefinedTable, format!("no answer to {sql}"))),
        }
    }
}

impl Host for Mock {
    fn run<'a>(&'a self, statement: &'a Embedded, values: &'a [ScalarValue]) -> Pending<'a, Answer> {
        Box::pin(async move { self.answer(statement, values) })
    }

    fn notice(&self, notice: Notice) {
        self.notices.lock().unwrap().push(notice);
    }

    fn check_stop(&self) -> Result<()> {
        let asked = self.stops_asked.fetch_add(1, Ordering::Relaxed);
        match self.stops_after {
            Some(after) if asked >= after => Err(Error::new(ErrorKind::Cancelled, "cancelled")),
            _ => Ok(()),
        }
    }

    fn calls_around(&self) -> usize {
        self.around
    }

    fn hold(&self, bytes: u64) -> Result<()> {
        let held = self.held.load(Ordering::Relaxed) + bytes;
        if self.held_max.is_some_and(|most| held > most) {
            return Err(Error::new(ErrorKind::OutOfMemory, "too much"));
        }
        self.held.store(held, Ordering::Relaxed);
        Ok(())
    }

    fn free(&self, bytes: u64) {
        assert!(self.held.fetch_sub(bytes, Ordering::Relaxed) >= bytes);
    }
}

/// One column, as rows.
pub fn row(column: ArrayRef) -> Answer {
    let batch = RecordBatch::try_from_iter([("value", column)]).unwrap();
    Answer { row_count: batch.num_rows() as u64, rows: vec![batch], outputs: Vec::new() }
}

/// Rows of a number and a text.
pub fn rows(values: &[(i32, &str)]) -> Answer {
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(values.iter().map(|(id, _)| *id)));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(values.iter().map(|(_, name)| *name)));
    let batch = RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap();
    Answer { row_count: values.len() as u64, rows: vec![batch], outputs: Vec::new() }
}

/// Rows that are changed, and none that come.
pub fn changed(row_count: u64) -> Answer {
    Answer { row_count, ..Answer::default() }
}

pub fn def_of(create: &str) -> ProcedureDef {
    match alluvia_syntax::parse(create).unwrap().remove(0).kind {
        Kind::Routine(statement) => match *statement {
            RoutineStatement::Create(create) => ProcedureDef::of(&create, "public").unwrap(),
            other => panic!("{other:?}"),
        },
        other => panic!("{create}: {other:?}"),
    }
}

pub fn def(parameters: &str, body: &str) -> ProcedureDef {
    def_of(&format!("CREATE PROCEDURE p({parameters}) LANGUAGE plpgsql AS $procedure${body}$procedure$"))
}

pub fn compiled(parameters: &str, body: &str) -> Compiled {
    compile(&def(parameters, body)).unwrap_or_else(|error| panic!("{body}: {error:?}"))
}

/// What a future gives that nobody else wakes.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
    }
}

pub fn call(mock: &Mock, parameters: &str, body: &str, arguments: &[ScalarValue]) -> Result<Option<Outputs>> {
    let arguments: Vec<_> = arguments.iter().map(|value| (None, value.clone())).collect();
    wait(compiled(parameters, body).call(mock, &arguments))
}

/// What a body without parameters tells.
pub fn told(body: &str) -> Vec<String> {
    let mock = Mock::default();
    call(&mock, "", body, &[]).unwrap_or_else(|error| panic!("{body}: {error:?}"));
    assert_eq!(mock.asked(), Vec::<String>::new(), "{body}");
    mock.told()
}

/// The SQLSTATE, message and context of the error that a body ends with.
pub fn failed(body: &str) -> (String, String, String) {
    let error = call(&Mock::default(), "", body, &[]).map(|_| ()).unwrap_err();
    (error.sqlstate().to_owned(), error.message().to_owned(), error.context().unwrap_or_default().to_owned())
}
