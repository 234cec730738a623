//! `current_setting`, `set_config` and `pg_backend_pid`: what a statement asks of its own session.
//!
//! Invariants:
//! - `set_config` does what SET does, and SET LOCAL where it is told so, for each row and never before its statement runs.
//! - What SHOW refuses, `current_setting` refuses, unless it is told that a setting may be missing.

use crate::engine::Engine;
use crate::errors::error_of;
use crate::session::run::Run;
use crate::session::settings::{assign, shown_of};
use crate::session::state::State;
use alluvia_syntax::statement::SettingValue;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
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

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Question {
    /// The value of a setting.
    Shown,
    /// Another value for it.
    Set,
    /// The session's number.
    Session,
}

const QUESTIONS: [Question; 3] = [Question::Shown, Question::Set, Question::Session];

/// A question as a function of one statement.
struct SessionCall {
    question: Question,
    signature: Signature,
    engine: Arc<Engine>,
    state: Arc<Mutex<State>>,
    session: u64,
}

/// Gives a statement the functions.
pub(crate) fn register(run: &Run, state: &mut SessionState) -> Result<()> {
    for question in QUESTIONS {
        let function = SessionCall {
            question,
            signature: question.signature(),
            engine: Arc::clone(run.engine()),
            state: Arc::clone(&run.scope.state),
            session: run.scope.id,
        };
        state.register_udf(Arc::new(ScalarUDF::from(function))).map_err(|error| error_of(&error))?;
    }
    Ok(())
}

impl Question {
    fn name(self) -> &'static str {
        match self {
            Question::Shown => "current_setting",
            Question::Set => "set_config",
            Question::Session => "pg_backend_pid",
        }
    }

    fn signature(self) -> Signature {
        let (text, truth) = (DataType::Utf8View, DataType::Boolean);
        match self {
            Question::Shown => Signature::one_of(
                vec![TypeSignature::Exact(vec![text.clone()]), TypeSignature::Exact(vec![text, truth])],
                Volatility::Stable,
            ),
            Question::Set => Signature::exact(vec![text.clone(), text, truth], Volatility::Volatile),
            Question::Session => Signature::nullary(Volatility::Stable),
        }
    }
}

impl fmt::Debug for SessionCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCall").field("question", &self.question).finish_non_exhaustive()
    }
}

impl PartialEq for SessionCall {
    fn eq(&self, other: &SessionCall) -> bool {
        self.question == other.question && Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Eq for SessionCall {}

impl Hash for SessionCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.question.hash(state);
    }
}

impl ScalarUDFImpl for SessionCall {
    fn name(&self) -> &str {
        self.question.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(match self.question {
            Question::Shown | Question::Set => DataType::Utf8View,
            Question::Session => DataType::Int32,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let rows = arguments.number_rows;
        if self.question == Question::Session {
            let number = (self.session % i32::MAX as u64) as i32;
            return Ok(ColumnarValue::Array(Arc::new(Int32Array::from_value(number, rows))));
        }
        let arrays: Vec<ArrayRef> =
            arguments.args.iter().map(|value| value.to_array(rows)).collect::<Result<_, DataFusionError>>()?;
        let [names, rest @ ..] = arrays.as_slice() else {
            return Err(wrap(Error::internal("a setting was asked for without its name")));
        };
        let names = cast(names, &DataType::Utf8View)?;
        let names = names.as_string_view();
        let name = |row: usize| names.is_valid(row).then(|| names.value(row).to_ascii_lowercase());
        let truth = |array: Option<&ArrayRef>, row: usize| {
            array
                .and_then(|array| array.as_boolean_opt())
                .is_some_and(|truths| truths.is_valid(row) && truths.value(row))
        };
        let values: Result<Vec<Option<String>>> = match self.question {
            Question::Set => {
                let given = rest.first().map(|values| cast(values, &DataType::Utf8View)).transpose()?;
                let value = |row: usize| {
                    let texts = given.as_ref()?.as_string_view();
                    texts.is_valid(row).then(|| texts.value(row).to_owned())
                };
                (0..rows).map(|row| self.set(name(row), value(row), truth(rest.get(1), row)).map(Some)).collect()
            }
            _ => (0..rows).map(|row| self.shown(name(row), truth(rest.first(), row))).collect(),
        };
        let values = values.map_err(wrap)?;
        Ok(ColumnarValue::Array(Arc::new(StringViewArray::from_iter(values))))
    }
}

impl SessionCall {
    /// The value of a setting; NULL of one that is missing, if it may be, and of NULL.
    fn shown(&self, name: Option<String>, may_be_missing: bool) -> Result<Option<String>> {
        let Some(name) = name else { return Ok(None) };
        match shown_of(&self.engine, &self.state, &name) {
            Ok((_, value)) => Ok(Some(value)),
            Err(_) if may_be_missing => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives a setting a value, or without one what the session began with; gives what it is then.
    fn set(&self, name: Option<String>, value: Option<String>, is_local: bool) -> Result<String> {
        let Some(name) = name else {
            return Err(Error::new(ErrorKind::InvalidValue, "SET requires parameter name"));
        };
        let value = value.map_or(SettingValue::Default, SettingValue::Text);
        // Outside of a transaction what is local is over with its statement: it is checked, and shown.
        let shown = assign(&self.engine, &self.state, &name, &value, is_local)?.shown;
        Ok(shown)
    }
}
