//! Functions of texts that take bytes, too: `length`, `octet_length`, `bit_length`, `substr`, `strpos`, `btrim`, `ltrim`, `rtrim`, `overlay`,
//! `reverse`.
//!
//! Invariants:
//! - Of bytes they count and cut bytes, as PostgreSQL's do; of texts they are DataFusion's.
//! - A text beside bytes, which can only be a literal in PostgreSQL, becomes bytes.
//!
//! DataFusion 55.2 has no forms for bytes, or makes text of them, which fails where they are no UTF-8 and counts characters where they are.
//!
//! Mends apache/datafusion#24765, #24788 (in 55.2).
//! Held by `slt/bytes.slt` (`length('\xff'::bytea)`, `octet_length(b)`).

use super::arguments::{Bytes, Numbers};
use super::is_bytes;
use crate::codec::{StateReader, StateWriter, Stateful, number_of};
use crate::columnar::{as_columnar, is_constant, rows_made};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::array::{ArrayRef, BinaryViewBuilder, Int32Array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::types::{NativeType, logical_binary, logical_int64, logical_string};
use datafusion_common::{DataFusionError, Result, internal_err, plan_err};
use datafusion_expr::{
    Coercion, ColumnarValue, Documentation, EncodingPreservation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TypeSignature, TypeSignatureClass, Volatility,
};
use memchr::memmem;
use std::borrow::Cow;
use std::sync::Arc;

/// What a function does with bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Work {
    /// Counts bytes.
    Octets,
    /// Counts bits: eight for each byte.
    Bits,
    /// Gives the bytes in reverse order.
    Reversed,
    /// Gives the bytes from a position on, counted from 1, at most as many as a third argument says.
    Part,
    /// Gives the position of the first occurrence of other bytes, from 1; 0 if there is none.
    Position,
    /// Removes bytes at the ends that are among those of a second argument.
    Trimmed {
        /// Whether at the start.
        start: bool,
        /// Whether at the end.
        end: bool,
    },
    /// Replaces bytes from a position on by others: as many as a fourth argument says, or as the others are.
    Overlaid,
}

const WORKS: [Work; 9] = [
    Work::Octets,
    Work::Bits,
    Work::Reversed,
    Work::Part,
    Work::Position,
    Work::Trimmed { start: true, end: true },
    Work::Trimmed { start: true, end: false },
    Work::Trimmed { start: false, end: true },
    Work::Overlaid,
];

/// Bytes alone.
pub fn bytes() -> Coercion {
    Coercion::new_exact(TypeSignatureClass::Native(logical_binary()))
}

/// Bytes, or a text that becomes bytes.
pub(crate) fn bytes_or_text() -> Coercion {
    let text = vec![TypeSignatureClass::Native(logical_string())];
    Coercion::new_implicit(TypeSignatureClass::Native(logical_binary()), text, NativeType::Binary)
}

/// A whole number of any width.
pub fn number() -> Coercion {
    let whole = vec![TypeSignatureClass::Integer];
    Coercion::new_implicit(TypeSignatureClass::Native(logical_int64()), whole, NativeType::Int64)
}

/// What is said of a number that is no place within bytes, or no length.
pub fn refused(message: impl Into<String>) -> DataFusionError {
    wrap(Error::new(ErrorKind::InvalidValue, message))
}

impl Work {
    fn forms(self) -> Vec<TypeSignature> {
        let form = |arguments: &[Coercion]| TypeSignature::Coercible(arguments.to_vec());
        match self {
            Work::Octets | Work::Bits | Work::Reversed => vec![form(&[bytes()])],
            Work::Part => vec![form(&[bytes(), number()]), form(&[bytes(), number(), number()])],
            Work::Position | Work::Trimmed { .. } => {
                vec![form(&[bytes(), bytes_or_text()]), form(&[bytes_or_text(), bytes()])]
            }
            // Their common type is told by `coerce_types`.
            Work::Overlaid => Vec::new(),
        }
    }

    fn result(self) -> DataType {
        match self {
            Work::Octets | Work::Bits | Work::Position => DataType::Int32,
            Work::Reversed | Work::Part | Work::Trimmed { .. } | Work::Overlaid => DataType::BinaryView,
        }
    }

    fn array(self, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
        let Some((first, others)) = args.split_first() else { return internal_err!("a function of bytes without any") };
        let of = Bytes::of(first)?;
        let second = || match others.first() {
            Some(other) => Bytes::of(other),
            None => internal_err!("a function of bytes lacks an argument"),
        };
        match self {
            Work::Octets => counts(rows, |row| Ok(of.at(row).map(<[u8]>::len))),
            Work::Bits => counts(rows, |row| Ok(of.at(row).map(|bytes| bytes.len().saturating_mul(8)))),
            Work::Reversed => {
                all_bytes(rows, |row| Ok(of.at(row).map(|bytes| Cow::Owned(bytes.iter().rev().copied().collect()))))
            }
            Work::Position => {
                let sought = second()?;
                counts(rows, |row| Ok(of.at(row).zip(sought.at(row)).map(|(bytes, sought)| position(bytes, sought))))
            }
            Work::Trimmed { start, end } => {
                let taken = second()?;
                all_bytes(rows, |row| {
                    Ok(of
                        .at(row)
                        .zip(taken.at(row))
                        .map(|(bytes, taken)| Cow::Borrowed(trimmed(bytes, taken, start, end))))
                })
            }
            Work::Part => {
                let numbers = others.iter().map(Numbers::of).collect::<Result<Vec<Numbers>>>()?;
                all_bytes(rows, |row| {
                    let Some((bytes, numbers)) = of.at(row).zip(numbers_at(&numbers, row)) else { return Ok(None) };
                    match numbers.as_slice() {
                        [from] => Ok(Some(Cow::Borrowed(behind(bytes, *from)))),
                        [from, count] => part(bytes, *from, *count).map(|part| Some(Cow::Borrowed(part))),
                        _ => internal_err!("substr has two or three arguments"),
                    }
                })
            }
            Work::Overlaid => {
                let by = second()?;
                let numbers = others.iter().skip(1).map(Numbers::of).collect::<Result<Vec<Numbers>>>()?;
                all_bytes(rows, |row| {
                    let Some((bytes, by)) = of.at(row).zip(by.at(row)) else { return Ok(None) };
                    let Some(numbers) = numbers_at(&numbers, row) else { return Ok(None) };
                    match numbers.as_slice() {
                        [from] => overlaid(bytes, by, *from, by.len() as i64).map(|made| Some(Cow::Owned(made))),
                        [from, count] => overlaid(bytes, by, *from, *count).map(|made| Some(Cow::Owned(made))),
                        _ => internal_err!("overlay has three or four arguments"),
                    }
                })
            }
        }
    }
}

fn numbers_at(numbers: &[Numbers], row: usize) -> Option<Vec<i64>> {
    numbers.iter().map(|numbers| numbers.at(row)).collect()
}

fn counts(rows: usize, count: impl Fn(usize) -> Result<Option<usize>>) -> Result<ArrayRef> {
    let fitting = |count: usize| {
        let too_many = |_| wrap(Error::new(ErrorKind::OutOfRange, format!("{count} is out of range for INT")));
        i32::try_from(count).map_err(too_many)
    };
    let counts = (0..rows).map(|row| count(row)?.map(fitting).transpose());
    Ok(Arc::new(counts.collect::<Result<Int32Array>>()?))
}

/// An array of bytes that are made row by row.
pub(crate) fn all_bytes<'a>(rows: usize, of_row: impl Fn(usize) -> Result<Option<Cow<'a, [u8]>>>) -> Result<ArrayRef> {
    let mut builder = BinaryViewBuilder::with_capacity(rows);
    for row in 0..rows {
        builder.append_option(of_row(row)?);
    }
    Ok(Arc::new(builder.finish()))
}

/// The first place of some bytes within others, from 1 on; 0 if there is none.
fn position(bytes: &[u8], sought: &[u8]) -> usize {
    memmem::find(bytes, sought).map_or(0, |at| at + 1)
}

/// Bytes without those at their ends that are one of `taken`.
fn trimmed<'a>(bytes: &'a [u8], taken: &[u8], start: bool, end: bool) -> &'a [u8] {
    let mut is_taken = [false; 256];
    for byte in taken {
        is_taken[usize::from(*byte)] = true;
    }
    let is_kept = |byte: &u8| !is_taken[usize::from(*byte)];
    let from = if start { bytes.iter().position(is_kept).unwrap_or(bytes.len()) } else { 0 };
    let to = if end { bytes.iter().rposition(is_kept).map_or(0, |last| last + 1) } else { bytes.len() };
    if from < to { &bytes[from..to] } else { &[] }
}

/// The bytes from a place on; places count from 1, and there is nothing before the first.
fn behind(bytes: &[u8], from: i64) -> &[u8] {
    let start = usize::try_from(from.max(1) - 1).unwrap_or(usize::MAX);
    bytes.get(start..).unwrap_or_default()
}

/// So many bytes from a place on, of which those before the first are none.
fn part(bytes: &[u8], from: i64, count: i64) -> Result<&[u8]> {
    if count < 0 {
        return Err(refused(format!("the length of a substring is negative: {count}")));
    }
    let end = usize::try_from(from.saturating_add(count).max(1) - 1).unwrap_or(usize::MAX);
    Ok(behind(&bytes[..end.min(bytes.len())], from))
}

/// Bytes with others in the place of so many from a place on.
fn overlaid(bytes: &[u8], by: &[u8], from: i64, count: i64) -> Result<Vec<u8>> {
    if from < 1 {
        return Err(refused(format!("overlay begins at 1, not at {from}")));
    }
    Ok([part(bytes, 1, from - 1)?, by, behind(bytes, from.saturating_add(count))].concat())
}

/// A function of texts, and the same of bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OfBytes {
    inner: Arc<ScalarUDF>,
    work: Work,
    signature: Signature,
}

impl Stateful for OfBytes {
    const CODE: &'static str = "of_bytes";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.byte(number_of(&self.work, &WORKS));
        state.scalar(&self.inner)
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        let work = state.variant(&WORKS)?;
        Ok(OfBytes::new(state.scalar()?, work))
    }
}

impl OfBytes {
    pub fn new(inner: Arc<ScalarUDF>, work: Work) -> OfBytes {
        let signature = inner.signature();
        let own = match &signature.type_signature {
            TypeSignature::OneOf(forms) => forms.clone(),
            form => vec![form.clone()],
        };
        // The first form that fits is taken. What has no type is a text wherever it can be.
        let forms = match work {
            // They take anything, and bytes for text.
            Work::Octets | Work::Bits | Work::Reversed => {
                let text = Coercion::new_exact(TypeSignatureClass::Native(logical_string()))
                    .with_encoding_preservation(EncodingPreservation::dictionary());
                let text = TypeSignature::Coercible(vec![text]);
                let others: Vec<TypeSignature> = own.into_iter().filter(|form| *form != text).collect();
                [vec![text.clone()], work.forms(), others].concat()
            }
            Work::Overlaid => {
                return OfBytes { inner, work, signature: Signature::user_defined(Volatility::Immutable) };
            }
            Work::Part | Work::Position | Work::Trimmed { .. } => [own, work.forms()].concat(),
        };
        let signature = Signature { type_signature: TypeSignature::OneOf(forms), ..signature.clone() };
        OfBytes { inner, work, signature }
    }
}

/// Whether one of the arguments that are not numbers is of bytes.
fn are_of_bytes<'a>(types: impl Iterator<Item = &'a DataType>) -> bool {
    types.take(2).any(is_bytes)
}

impl ScalarUDFImpl for OfBytes {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        if are_of_bytes(arg_types.iter()) { Ok(self.work.result()) } else { self.inner.return_type(arg_types) }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        if !are_of_bytes(args.arg_fields.iter().map(|field| field.data_type())) {
            return self.inner.return_field_from_args(args);
        }
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.work.result(), nullable)))
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        if self.work != Work::Overlaid {
            return self.inner.inner().coerce_types(arg_types);
        }
        let is_number = |of: &DataType| of.is_integer() || of.is_null();
        if !matches!(arg_types.len(), 3 | 4) || !arg_types[2..].iter().all(is_number) {
            return plan_err!("overlay takes two texts, or bytes, and one or two whole numbers");
        }
        let of = if are_of_bytes(arg_types.iter()) { DataType::BinaryView } else { DataType::Utf8View };
        let numbers = vec![DataType::Int64; arg_types.len() - 2];
        Ok([vec![of.clone(), of], numbers].concat())
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !are_of_bytes(args.arg_fields.iter().map(|field| field.data_type())) {
            return self.inner.invoke_with_args(args);
        }
        let made = self.work.array(&args.args, rows_made(&args.args, args.number_rows))?;
        as_columnar(made, is_constant(&args.args))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each place from one to another, of which there is a byte or none.
    fn by_places(bytes: &[u8], from: i64, count: i64) -> Vec<u8> {
        let at = |place: i64| usize::try_from(place - 1).ok().and_then(|at| bytes.get(at)).copied();
        (from..from + count).filter_map(at).collect()
    }

    proptest! {
        #[test]
        fn parts_are_the_bytes_at_their_places(
            bytes in prop::collection::vec(any::<u8>(), 0..6), by in prop::collection::vec(any::<u8>(), 0..4),
            from in -4..9_i64, count in 0..9_i64,
        ) {
            prop_assert_eq!(part(&bytes, from, count).unwrap(), by_places(&bytes, from, count));
            prop_assert_eq!(behind(&bytes, from), by_places(&bytes, from, 20));
            if from > 0 {
                let want = [by_places(&bytes, 1, from - 1), by.clone(), by_places(&bytes, from + count, 20)].concat();
                prop_assert_eq!(overlaid(&bytes, &by, from, count).unwrap(), want);
            }
        }

        #[test]
        fn positions_and_ends_are_those_of_a_search_byte_by_byte(
            bytes in prop::collection::vec(0..3_u8, 0..8), other in prop::collection::vec(0..3_u8, 0..3),
        ) {
            let found = (0..=bytes.len()).find(|at| bytes[*at..].starts_with(&other)).map_or(0, |at| at + 1);
            prop_assert_eq!(position(&bytes, &other), found);
            let mut left = bytes.clone();
            while left.first().is_some_and(|byte| other.contains(byte)) {
                left.remove(0);
            }
            prop_assert_eq!(trimmed(&bytes, &other, true, false), left.as_slice());
            while left.last().is_some_and(|byte| other.contains(byte)) {
                left.pop();
            }
            prop_assert_eq!(trimmed(&bytes, &other, true, true), left.as_slice());
        }
    }

    #[test]
    fn extreme_places_are_within_reach() {
        assert_eq!(part(b"abc", i64::MAX, i64::MAX).unwrap(), b"");
        assert_eq!(part(b"abc", i64::MIN, i64::MAX).unwrap(), b"");
        assert_eq!(behind(b"abc", i64::MIN), b"abc");
        assert_eq!(overlaid(b"abc", b"x", i64::MAX, i64::MAX).unwrap(), b"abcx");
        assert!(part(b"abc", 1, -1).is_err() && overlaid(b"abc", b"x", 0, 1).is_err());
    }
}
