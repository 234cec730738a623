//! Session options, by Flight's own actions: the settings of a login's session.
//!
//! Invariants:
//! - An option is a setting, by its name; its value is what SET takes and SHOW prints. One without a value is RESET.
//! - Options hold in the login's session, and in the transactions that are open beside it: drivers begin one long before they use it.
//! - What is refused changes nothing. The protocol has a code for why and no words: SET as a statement says more.

use crate::caller::Caller;
use crate::failure::malformed;
use crate::lane::Lane;
use crate::lane_task::run_in_lane;
use crate::shared::Shared;
use alluvia_query::Session;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{Array, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use bytes::Bytes;
use prost::{Message, Oneof};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The actions.
pub(crate) const SET: &str = "SetSessionOptions";
pub(crate) const GET: &str = "GetSessionOptions";
/// What one call may set.
const OPTIONS_MAX: usize = 100;

// Messages of Flight.proto that arrow-flight has not.

/// A value of an option; `None` takes it back.
#[derive(Clone, PartialEq, Message)]
struct OptionValue {
    #[prost(oneof = "Given", tags = "1, 2, 3, 4, 5")]
    given: Option<Given>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Given {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Switch(bool),
    #[prost(sfixed64, tag = "3")]
    Whole(i64),
    #[prost(double, tag = "4")]
    Real(f64),
    #[prost(message, tag = "5")]
    List(Texts),
}

#[derive(Clone, PartialEq, Message)]
struct Texts {
    #[prost(string, repeated, tag = "1")]
    values: Vec<String>,
}

/// `SetSessionOptionsRequest`, and `GetSessionOptionsResult`, which is written alike.
#[derive(Clone, PartialEq, Message)]
struct SessionOptions {
    #[prost(btree_map = "string, message", tag = "1")]
    options: BTreeMap<String, OptionValue>,
}

/// `SetSessionOptionsResult`: what was refused.
#[derive(Clone, PartialEq, Message)]
struct Refusals {
    #[prost(btree_map = "string, message", tag = "1")]
    refused: BTreeMap<String, Refusal>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Refusal {
    #[prost(int32, tag = "1")]
    why: i32,
}

/// There is no such setting.
const WRONG_NAME: Refusal = Refusal { why: 1 };
/// It does not take the value.
const WRONG_VALUE: Refusal = Refusal { why: 2 };
/// It cannot be set, or not now.
const CANNOT_BE_SET: Refusal = Refusal { why: 3 };

/// As SET takes it; `None` is RESET.
fn text_of(value: OptionValue) -> Option<String> {
    Some(match value.given? {
        Given::Text(text) => text,
        Given::Switch(is_on) => if is_on { "on" } else { "off" }.to_owned(),
        Given::Whole(number) => number.to_string(),
        Given::Real(number) => number.to_string(),
        Given::List(texts) => texts.values.join(", "),
    })
}

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Sets what a client asks for; gives what was refused.
pub(crate) async fn set(shared: &Arc<Shared>, caller: &Arc<Caller>, body: &Bytes) -> Result<Bytes> {
    let asked = SessionOptions::decode(body.clone())
        .map_err(|error| malformed(format!("SetSessionOptions cannot be read: {error}")))?;
    if asked.options.len() > OPTIONS_MAX {
        let message = format!("{} session options in one call are not supported", asked.options.len());
        return Err(Error::new(ErrorKind::TooLarge, message).with_hint(format!("set up to {OPTIONS_MAX} at once")));
    }
    let transactions = caller.login.transactions();
    let work = move |lane: Arc<Lane>| async move {
        let (mut refused, mut taken) = (BTreeMap::new(), Vec::new());
        for (name, value) in asked.options {
            let text = text_of(value);
            if let Err(refusal) = set_one(&lane.session, &name, text.as_deref()).await {
                refused.insert(name, refusal);
                continue;
            }
            taken.push((name, text));
        }
        Ok((refused, taken))
    };
    let lane = Arc::clone(&caller.login.lane);
    let (refused, taken) = run_in_lane(shared, caller, &lane, work).await?;
    // Beside the login's turn, which nobody else could have while a transaction's statement is waited for.
    for transaction in &transactions {
        // One that has ended needs none, and one that has failed takes none: what it was to hold for is over.
        let Ok(_turn) = transaction.turn().await else { continue };
        for (name, text) in &taken {
            let _ = set_one(&transaction.session, name, text.as_deref()).await;
        }
    }
    Ok(Refusals { refused }.encode_to_vec().into())
}

async fn set_one(session: &Session, name: &str, text: Option<&str>) -> Result<(), Refusal> {
    let name = name.to_ascii_lowercase();
    if !is_name(&name) || session.setting_value(&name).is_err() {
        return Err(WRONG_NAME);
    }
    let sql = match text {
        Some(text) => format!("SET {name} = '{}'", text.replace('\'', "''")),
        None => format!("RESET {name}"),
    };
    session.sql(&sql).await.map(drop).map_err(|error| match error.kind() {
        ErrorKind::InvalidSetting | ErrorKind::InvalidValue => WRONG_VALUE,
        _ => CANNOT_BE_SET,
    })
}

/// All settings of the login's session, as SHOW prints them.
pub(crate) async fn get(shared: &Arc<Shared>, caller: &Arc<Caller>) -> Result<Bytes> {
    let work = |lane: Arc<Lane>| async move {
        let mut told = SessionOptions::default();
        for batch in lane.session.sql("SHOW ALL").await?.collect().await? {
            let text = |column: usize| {
                cast(batch.column(column), &DataType::Utf8View)
                    .map_err(|error| Error::internal(format!("settings are no texts: {error}")))
            };
            let (names, values) = (text(0)?, text(1)?);
            let (names, values): (&StringViewArray, &StringViewArray) =
                (names.as_string_view(), values.as_string_view());
            for row in 0..names.len() {
                let given = Some(Given::Text(values.value(row).to_owned()));
                told.options.insert(names.value(row).to_owned(), OptionValue { given });
            }
        }
        Ok(told.encode_to_vec().into())
    };
    let lane = Arc::clone(&caller.login.lane);
    run_in_lane(shared, caller, &lane, work).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes by hand, from the numbers of Flight.proto.
    #[test]
    fn messages_are_written_as_the_protocol_has_them() {
        let value = |given: Given| OptionValue { given: Some(given) };
        let list = Given::List(Texts { values: vec!["x".to_owned(), "y".to_owned()] });
        let cases: [(Given, &[u8]); 5] = [
            (Given::Text("5s".to_owned()), b"\x0a\x025s"),
            (Given::Switch(true), b"\x10\x01"),
            (Given::Whole(-2), b"\x19\xfe\xff\xff\xff\xff\xff\xff\xff"),
            (Given::Real(0.5), b"\x21\0\0\0\0\0\0\xe0\x3f"),
            (list, b"\x2a\x06\x0a\x01x\x0a\x01y"),
        ];
        for (given, bytes) in cases {
            assert_eq!(value(given.clone()).encode_to_vec(), bytes);
            assert_eq!(OptionValue::decode(bytes).unwrap(), value(given));
        }
        // A map is entries of key and value.
        let options = [("a".to_owned(), value(Given::Text("1".to_owned())))].into();
        assert_eq!(SessionOptions { options }.encode_to_vec(), b"\x0a\x08\x0a\x01a\x12\x03\x0a\x011");
        let refused = [("a".to_owned(), WRONG_VALUE)].into();
        assert_eq!(Refusals { refused }.encode_to_vec(), b"\x0a\x07\x0a\x01a\x12\x02\x08\x02");
    }

    #[test]
    fn values_are_what_set_takes() {
        let text = |given: Option<Given>| text_of(OptionValue { given });
        let list = Given::List(Texts { values: vec!["public".to_owned(), "x".to_owned()] });
        for (given, wanted) in [
            (Given::Text("5s".to_owned()), "5s"),
            (Given::Switch(false), "off"),
            (Given::Whole(-7), "-7"),
            (Given::Real(0.01), "0.01"),
            (list, "public, x"),
        ] {
            assert_eq!(text(Some(given)).as_deref(), Some(wanted));
        }
        assert_eq!(text(None), None);
        assert!(is_name("max_error") && is_name("_x1"));
        assert!(["", "1x", "a b", "a'", "a;b", "ä"].iter().all(|wrong| !is_name(wrong)));
    }
}
