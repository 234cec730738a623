//! RAISE: an error, or something that the client is told.

use super::Run;
use crate::conditions::{is_sqlstate, sqlstate_of};
use crate::host::{Level, Notice};
use crate::own::refuse_long;
use crate::program::{Expression, Raise, RaiseOption};
use alluvia_space::DataType;
use alluvia_types::{Error, ErrorKind, Result};
use datafusion_common::ScalarValue;

/// SQLSTATEs of what is raised without one.
const RAISED: &str = "P0001";
const WARNING: &str = "01000";
const SUCCESS: &str = "00000";

impl Run<'_> {
    pub(super) async fn raise(&mut self, raise: &Raise) -> Result<()> {
        let mut message = match &raise.pieces {
            None => None,
            Some(pieces) => Some(self.formatted(pieces, raise).await?),
        };
        let mut sqlstate = raise.written_sqlstate.clone().or_else(|| raise.sqlstate.map(str::to_owned));
        let (mut detail, mut hint) = (None, None);
        for (option, value) in &raise.options {
            let text = self
                .text_of(value, raise.cast)
                .await?
                .ok_or_else(|| Error::new(ErrorKind::NullNotAllowed, "RAISE statement option cannot be null"))?;
            match option {
                RaiseOption::Message => message = Some(text),
                RaiseOption::Detail => detail = Some(text),
                RaiseOption::Hint => hint = Some(text),
                RaiseOption::Errcode if is_sqlstate(&text) => sqlstate = Some(text),
                RaiseOption::Errcode => {
                    let known = sqlstate_of(&text.to_ascii_lowercase());
                    sqlstate = Some(known.ok_or_else(|| crate::compiler::unknown_condition(&text))?.to_owned());
                }
            }
        }
        let message = message
            .or_else(|| raise.condition.clone())
            .or_else(|| sqlstate.clone())
            .unwrap_or_else(|| "unhandled exception".to_owned());
        let sqlstate = sqlstate.unwrap_or_else(|| {
            let default = match raise.level {
                Level::Exception => RAISED,
                Level::Warning => WARNING,
                _ => SUCCESS,
            };
            default.to_owned()
        });
        if raise.level != Level::Exception {
            self.host.notice(Notice { level: raise.level, message, sqlstate, detail, hint });
            return Ok(());
        }
        let mut error = Error::new(ErrorKind::Raised, message).with_sqlstate(&sqlstate);
        if let Some(detail) = detail {
            error = error.with_detail(detail);
        }
        Err(match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        })
    }

    async fn formatted(&self, pieces: &[String], raise: &Raise) -> Result<String> {
        let mut message = pieces.first().cloned().unwrap_or_default();
        for (argument, piece) in raise.arguments.iter().zip(pieces.iter().skip(1)) {
            let text = self.text_of(argument, raise.cast).await?;
            let text = text.as_deref().unwrap_or("<NULL>");
            refuse_long(message.len() + text.len() + piece.len())?;
            message.push_str(text);
            message.push_str(piece);
        }
        Ok(message)
    }

    /// A value as its type writes it.
    async fn text_of(&self, expression: &Expression, cast: usize) -> Result<Option<String>> {
        Ok(match self.evaluate(expression).await? {
            ScalarValue::Utf8(text) => text,
            ScalarValue::Boolean(truth) => truth.map(|truth| if truth { "t" } else { "f" }.to_owned()),
            ScalarValue::Int16(number) => number.map(|number| number.to_string()),
            ScalarValue::Int32(number) => number.map(|number| number.to_string()),
            ScalarValue::Int64(number) => number.map(|number| number.to_string()),
            value if value.is_null() => None,
            value => match self.fitted(value, DataType::Text.into(), cast, "an argument of RAISE").await? {
                ScalarValue::Utf8(text) => text,
                _ => None,
            },
        })
    }
}
