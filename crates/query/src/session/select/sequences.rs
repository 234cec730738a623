//! `nextval`, `currval`, `lastval` and `setval`: what a session asks of sequences by their names.
//!
//! Invariants:
//! - They are evaluated for each row, and never before their statement runs.
//! - Who may insert into a table may take values of its sequences, and who may update it may set them.

use crate::engine::Engine;
use crate::errors::error_of;
use crate::session::run::Run;
use crate::session::state::State;
use alluvia_catalog::authoriser::{Authoriser, INSERT, Need};
use alluvia_catalog::rights::Privilege;
use alluvia_catalog::{RelationName, TableEntry};
use alluvia_space::Identity;
use alluvia_syntax::names::written_name;
use alluvia_types::{Error, ErrorKind, Result, near_names};
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use parking_lot::Mutex;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What is asked of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Question {
    Next,
    Current,
    Last,
    Set,
}

const QUESTIONS: [Question; 4] = [Question::Next, Question::Current, Question::Last, Question::Set];

/// A question as a function of one statement.
struct SequenceCall {
    question: Question,
    signature: Signature,
    engine: Arc<Engine>,
    state: Arc<Mutex<State>>,
    authoriser: Authoriser,
}

/// Gives a statement the functions.
pub(crate) fn register(run: &Run, state: &mut SessionState) -> Result<()> {
    for question in QUESTIONS {
        let function = SequenceCall {
            question,
            signature: question.signature(),
            engine: Arc::clone(run.engine()),
            state: Arc::clone(&run.scope.state),
            authoriser: run.scope.authoriser(),
        };
        state.register_udf(Arc::new(ScalarUDF::from(function))).map_err(|error| error_of(&error))?;
    }
    Ok(())
}

/// Whether a function of this name asks a sequence.
pub(crate) fn asks_sequence(name: &str) -> bool {
    QUESTIONS.iter().any(|question| question.name() == name)
}

impl Question {
    fn name(self) -> &'static str {
        match self {
            Question::Next => "nextval",
            Question::Current => "currval",
            Question::Last => "lastval",
            Question::Set => "setval",
        }
    }

    fn signature(self) -> Signature {
        let (text, number) = (DataType::Utf8View, DataType::Int64);
        match self {
            Question::Next | Question::Current => Signature::exact(vec![text], Volatility::Volatile),
            Question::Last => Signature::nullary(Volatility::Volatile),
            Question::Set => Signature::one_of(
                vec![
                    TypeSignature::Exact(vec![text.clone(), number.clone()]),
                    TypeSignature::Exact(vec![text, number, DataType::Boolean]),
                ],
                Volatility::Volatile,
            ),
        }
    }
}

impl fmt::Debug for SequenceCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequenceCall").field("question", &self.question).finish_non_exhaustive()
    }
}

impl PartialEq for SequenceCall {
    fn eq(&self, other: &SequenceCall) -> bool {
        self.question == other.question && Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Eq for SequenceCall {}

impl Hash for SequenceCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.question.hash(state);
    }
}

impl ScalarUDFImpl for SequenceCall {
    fn name(&self) -> &str {
        self.question.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let rows = arguments.number_rows;
        let arrays: Vec<ArrayRef> =
            arguments.args.iter().map(|value| value.to_array(rows)).collect::<Result<_, DataFusionError>>()?;
        let values = (0..rows).map(|row| self.answer(&arrays, row)).collect::<Result<Vec<_>>>().map_err(wrap)?;
        Ok(ColumnarValue::Array(Arc::new(Int64Array::from(values))))
    }
}

impl SequenceCall {
    /// NULL of a NULL.
    fn answer(&self, arguments: &[ArrayRef], row: usize) -> Result<Option<i64>> {
        if self.question == Question::Last {
            return self.last().map(Some);
        }
        if arguments.iter().any(|argument| argument.is_null(row)) {
            return Ok(None);
        }
        let wrong = || Error::internal(format!("{} was given what it does not take", self.question.name()));
        let texts = arguments.first().map(|names| cast(names, &DataType::Utf8View)).ok_or_else(wrong)?;
        let texts = texts.map_err(|_| wrong())?;
        let (entry, identity) = self.sequence(texts.as_string_view().value(row))?;
        match self.question {
            Question::Next => {
                self.check(INSERT, &entry, true)?;
                let sequences = self.engine.sequences();
                sequences.take(&self.engine, self.state.as_ref(), &entry, &identity, 1).map(Some)
            }
            Question::Current => {
                self.check(Need::Privilege(Privilege::Select), &entry, false)?;
                let known = self.state.lock().sequences.get(&(entry.def.id, identity.column)).copied();
                known.map(Some).ok_or_else(|| {
                    unused(format!("currval of sequence \"{}\" is not yet defined in this session", identity.name))
                })
            }
            Question::Set => {
                self.check(Need::Privilege(Privilege::Update), &entry, true)?;
                let value = arguments.get(1).and_then(|values| values.as_primitive_opt::<Int64Type>());
                let value = value.ok_or_else(wrong)?.value(row);
                let is_called = arguments.get(2).and_then(|truths| truths.as_boolean_opt());
                self.set(&entry, &identity, value, is_called.is_none_or(|truths| truths.value(row))).map(Some)
            }
            Question::Last => Err(wrong()),
        }
    }

    fn last(&self) -> Result<i64> {
        let state = self.state.lock();
        let known = state.last_sequence.and_then(|sequence| state.sequences.get(&sequence));
        known.copied().ok_or_else(|| unused("lastval is not yet defined in this session".to_owned()))
    }

    fn set(&self, entry: &TableEntry, identity: &Identity, value: i64, is_called: bool) -> Result<i64> {
        if !identity.has(value) {
            let (name, least, greatest) = (&identity.name, identity.minimum, identity.maximum);
            let message =
                format!("setval: value {value} is out of bounds for sequence \"{name}\" ({least}..{greatest})");
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        // The value that is given next, less what each is more than the last, was given last.
        let given = if is_called { Some(value) } else { value.checked_sub(identity.increment) };
        let given = given.filter(|_| is_called || value != identity.start);
        self.engine.sequences().set(&self.engine, self.state.as_ref(), entry, identity, given)?;
        if is_called {
            self.state.lock().sequences.insert((entry.def.id, identity.column), value);
        }
        Ok(value)
    }

    /// Refuses who may not, and what writes where nothing may be written.
    fn check(&self, need: Need, entry: &Arc<TableEntry>, writes: bool) -> Result<()> {
        self.authoriser.table(need, entry)?;
        if writes && self.state.lock().settings.is_read_only() {
            let message = format!("cannot execute {}() in a read-only transaction", self.question.name());
            return Err(Error::new(ErrorKind::ReadOnlyTransaction, message)
                .with_hint("BEGIN READ WRITE begins one that writes"));
        }
        Ok(())
    }

    /// The sequence of a name, which may be quoted, and stand behind its schema.
    fn sequence(&self, written: &str) -> Result<(Arc<TableEntry>, Identity)> {
        let name = written_name(written.trim()).unwrap_or_else(|| RelationName::bare(written.trim()));
        let catalog = self.authoriser.catalog();
        if let Some((entry, identity)) = catalog.sequence(&name, self.authoriser.path()) {
            return Ok((Arc::clone(entry), identity.clone()));
        }
        let shown = match &name.schema {
            Some(schema) => format!("{schema}.{}", name.name),
            None => name.name.clone(),
        };
        let known = catalog.tables().flat_map(|entry| &entry.def.rules.identities);
        let known: Vec<&str> = known.map(|identity| identity.name.as_str()).collect();
        let error = Error::new(ErrorKind::UndefinedTable, format!("relation \"{shown}\" does not exist"));
        Err(match near_names(&name.name, known).as_slice() {
            [] => error.with_hint("sequences are those of identity columns: SELECT pg_get_serial_sequence('t', 'id')"),
            near => error.with_hint(format!("did you mean {}?", near.join(" or "))),
        })
    }
}

fn unused(message: String) -> Error {
    Error::new(ErrorKind::SequenceUnused, message).with_hint("nextval takes a value, and so does an INSERT")
}
