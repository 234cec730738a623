//! `pg_advisory_lock` and its kin: locks that sessions hold against one another ([`alluvia_locks`]).
//!
//! Invariants:
//! - They are called for each row, and never before their statement runs.
//! - Who waits holds no thread: a cancel or `statement_timeout` drops what waits, and it waits no more.

use crate::errors::error_of;
use crate::session::run::Run;
use alluvia_locks::{Key, Locks, Mode, Scope};
use alluvia_types::{Error, Result};
use alluvia_values::errors::wrap;
use arrow::array::{ArrayRef, AsArray, BooleanArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use async_trait::async_trait;
use datafusion::common::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What is done with a lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Deed {
    /// It is waited for.
    Lock(Scope),
    /// It is taken if it is free.
    Try(Scope),
    /// It is given back.
    Unlock,
    /// All that the session holds itself are.
    UnlockAll,
}

use Deed::{Lock, Try, Unlock, UnlockAll};
use Mode::{Exclusive, Shared};
use Scope::{Session, Transaction};

/// The functions.
const FUNCTIONS: [(&str, Deed, Mode); 11] = [
    ("pg_advisory_lock", Lock(Session), Exclusive),
    ("pg_advisory_lock_shared", Lock(Session), Shared),
    ("pg_advisory_xact_lock", Lock(Transaction), Exclusive),
    ("pg_advisory_xact_lock_shared", Lock(Transaction), Shared),
    ("pg_try_advisory_lock", Try(Session), Exclusive),
    ("pg_try_advisory_lock_shared", Try(Session), Shared),
    ("pg_try_advisory_xact_lock", Try(Transaction), Exclusive),
    ("pg_try_advisory_xact_lock_shared", Try(Transaction), Shared),
    ("pg_advisory_unlock", Unlock, Exclusive),
    ("pg_advisory_unlock_shared", Unlock, Shared),
    ("pg_advisory_unlock_all", UnlockAll, Exclusive),
];

/// Gives a statement the functions.
pub(crate) fn register(run: &Run, state: &mut SessionState) -> Result<()> {
    for (name, deed, mode) in FUNCTIONS {
        let signature = match deed {
            UnlockAll => Signature::nullary(Volatility::Volatile),
            _ => Signature::one_of(
                vec![
                    TypeSignature::Exact(vec![DataType::Int64]),
                    TypeSignature::Exact(vec![DataType::Int32, DataType::Int32]),
                    // A number that is written is one of 64 bits.
                    TypeSignature::Exact(vec![DataType::Int64, DataType::Int64]),
                ],
                Volatility::Volatile,
            ),
        };
        let (locks, session) = (Arc::clone(run.engine().sessions().locks()), run.scope.id);
        let function = Advisory { name, deed, mode, signature, locks, session };
        let function = match deed {
            Lock(_) => AsyncScalarUDF::new(Arc::new(function)).into_scalar_udf(),
            _ => ScalarUDF::from(function),
        };
        state.register_udf(Arc::new(function)).map_err(|error| error_of(&error))?;
    }
    Ok(())
}

/// One of them, of one session.
#[derive(Debug)]
struct Advisory {
    name: &'static str,
    deed: Deed,
    mode: Mode,
    signature: Signature,
    locks: Arc<Locks>,
    session: u64,
}

impl PartialEq for Advisory {
    fn eq(&self, other: &Advisory) -> bool {
        (self.name, self.session) == (other.name, other.session)
    }
}

impl Eq for Advisory {}

impl Hash for Advisory {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, self.session).hash(state);
    }
}

impl Advisory {
    /// The key of each row; `None` of a NULL.
    fn keys(arguments: &ScalarFunctionArgs) -> Result<Vec<Option<Key>>, DataFusionError> {
        let rows = arguments.number_rows;
        let arrays: Vec<ArrayRef> =
            arguments.args.iter().map(|value| value.to_array(rows)).collect::<Result<_, DataFusionError>>()?;
        match arrays.as_slice() {
            [] => Ok(vec![None; rows]),
            [numbers] => {
                let numbers = cast(numbers, &DataType::Int64)?;
                Ok(numbers.as_primitive::<Int64Type>().iter().map(|number| number.map(Key::of_number)).collect())
            }
            [first, second] => {
                let [first, second] = [int(first)?, int(second)?];
                let pairs = first.as_primitive::<Int32Type>().iter().zip(second.as_primitive::<Int32Type>().iter());
                Ok(pairs.map(|(first, second)| Some(Key::of_pair(first?, second?))).collect())
            }
            _ => Err(wrap(Error::internal("an advisory lock of more than two numbers"))),
        }
    }

    /// Nothing, where there was no NULL.
    fn nothing(keys: &[Option<Key>]) -> ColumnarValue {
        ColumnarValue::Array(Arc::new(StringViewArray::from_iter(keys.iter().map(|key| key.map(|_| "")))))
    }
}

/// Numbers of 32 bits; others are refused.
fn int(numbers: &ArrayRef) -> Result<ArrayRef, DataFusionError> {
    let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
    Ok(arrow::compute::cast_with_options(numbers, &DataType::Int32, &options)?)
}

impl ScalarUDFImpl for Advisory {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(match self.deed {
            Lock(_) | UnlockAll => DataType::Utf8View,
            Try(_) | Unlock => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let keys = Advisory::keys(&arguments)?;
        let done = |key: Key| match self.deed {
            Try(scope) => self.locks.try_lock(self.session, key, self.mode, scope),
            Unlock => Ok(self.locks.unlock(self.session, key, self.mode)),
            Lock(_) | UnlockAll => Err(Error::internal("a lock that is waited for was asked for at once")),
        };
        if self.deed == UnlockAll {
            self.locks.unlock_all(self.session);
            return Ok(ColumnarValue::Array(Arc::new(StringViewArray::from_iter_values(keys.iter().map(|_| "")))));
        }
        let truths = keys.into_iter().map(|key| key.map(done).transpose());
        let truths = truths.collect::<Result<Vec<Option<bool>>>>().map_err(wrap)?;
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::from(truths))))
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Advisory {
    async fn invoke_async_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let keys = Advisory::keys(&arguments)?;
        let Lock(scope) = self.deed else {
            return Err(wrap(Error::internal("a lock that is asked for at once was waited for")));
        };
        for key in keys.iter().flatten() {
            self.locks.lock(self.session, *key, self.mode, scope).await.map_err(wrap)?;
        }
        Ok(Advisory::nothing(&keys))
    }
}
