//! Media types: what an answer may be, and what a body is.

use crate::failure::Failure;
use crate::statuses::Refusal;
use alluvia_syntax::copy::options::{Compression, Format};
use alluvia_types::{Error, ErrorKind};
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE};

/// What the answer of a query is sent as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// One JSON object: columns, rows, what was used.
    Json,
    /// Rows in one of the formats of files.
    Rows(Format),
    /// Server-sent events: progress, then the answer.
    Events,
}

/// Names of formats, the preferred one first among equals.
const FORMATS: [(&str, Format); 6] = [
    ("application/x-ndjson", Format::JsonLines),
    ("application/ndjson", Format::JsonLines),
    ("application/jsonl", Format::JsonLines),
    ("text/csv", Format::Csv),
    ("application/vnd.apache.arrow.stream", Format::Arrow),
    ("application/vnd.apache.parquet", Format::Parquet),
];

/// Names that only a body has.
const MORE_IN: [(&str, Format); 2] = [("application/vnd.apache.arrow.file", Format::Arrow), (JSON, Format::JsonArray)];

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

impl Answer {
    /// The value of Content-Type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Answer::Json => JSON,
            Answer::Events => EVENTS,
            Answer::Rows(Format::Csv) => "text/csv; charset=utf-8; header=present",
            Answer::Rows(format) => {
                FORMATS.iter().find(|(_, known)| *known == format).map_or("application/octet-stream", |(name, _)| name)
            }
        }
    }

    /// The one that the client likes best; JSON if it does not say.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Answer, Failure> {
        let mut ranges: Vec<(String, f32)> = Vec::new();
        for value in headers.get_all(ACCEPT) {
            let text = value.to_str().map_err(|_| Failure::request("header Accept", "Accept is not text"))?;
            ranges.extend(text.split(',').filter_map(range));
        }
        if ranges.is_empty() {
            return Ok(Answer::Json);
        }
        let all = [(JSON, Answer::Json)];
        let all = all.into_iter().chain(FORMATS.map(|(name, format)| (name, Answer::Rows(format))));
        let mut best: Option<(f32, Answer)> = None;
        for (name, answer) in all.chain([(EVENTS, Answer::Events)]) {
            let quality = quality(&ranges, name);
            // An answer as events is for who names it.
            let is_meant = answer != Answer::Events || ranges.iter().any(|(range, _)| range == EVENTS);
            if quality > 0.0 && is_meant && best.is_none_or(|(most, _)| quality > most) {
                best = Some((quality, answer));
            }
        }
        best.map(|(_, answer)| answer).ok_or_else(|| {
            let wanted: Vec<&str> = ranges.iter().map(|(range, _)| range.as_str()).collect();
            Failure::request("header Accept", format!("no answer is made as {}", wanted.join(", ")))
                .with_refusal(Refusal::Accept)
                .with_hint(format!("answers are {JSON}, {}, {EVENTS}", names(&FORMATS)))
        })
    }
}

fn names(formats: &[(&str, Format)]) -> String {
    formats.iter().map(|(name, _)| *name).collect::<Vec<&str>>().join(", ")
}

/// A media range and how much it is liked, from one part of Accept.
fn range(part: &str) -> Option<(String, f32)> {
    let mut pieces = part.split(';');
    let name = pieces.next()?.trim().to_ascii_lowercase();
    if name.is_empty() {
        return None;
    }
    let stated = pieces.find_map(|piece| piece.trim().strip_prefix("q="));
    let quality = stated.and_then(|text| text.trim().parse::<f32>().ok()).unwrap_or(1.0);
    Some((name, if quality.is_nan() { 0.0 } else { quality.clamp(0.0, 1.0) }))
}

/// How much a type is liked: the most specific range that matches says.
fn quality(ranges: &[(String, f32)], name: &str) -> f32 {
    let group = name.split('/').next().unwrap_or_default();
    let matches = |range: &str| match range {
        _ if range == name => Some(2),
        "*/*" | "*" => Some(0),
        _ => range.strip_suffix("/*").filter(|other| *other == group).map(|_| 1),
    };
    let found = ranges.iter().filter_map(|(range, quality)| Some((matches(range)?, *quality)));
    found.max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).map_or(0.0, |(_, quality)| quality)
}

/// A media type without its parameters, in small letters; empty if none is stated.
pub(crate) fn content_type(headers: &HeaderMap) -> Result<String, Failure> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(String::new()) };
    let text = value.to_str().map_err(|_| Failure::request("header Content-Type", "Content-Type is not text"))?;
    let mut pieces = text.split(';').map(|piece| piece.trim().to_ascii_lowercase());
    let name = pieces.next().unwrap_or_default();
    for piece in pieces {
        if let Some(charset) = piece.strip_prefix("charset=")
            && !matches!(charset.trim_matches('"'), "utf-8" | "utf8" | "us-ascii")
        {
            return Err(unsupported("header Content-Type", format!("charset {charset} is not supported"))
                .with_hint("send UTF-8"));
        }
    }
    Ok(name)
}

/// What a statement's body is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StatementBody {
    /// SQL.
    Text,
    /// An object with SQL, parameters and settings.
    Json,
}

impl StatementBody {
    pub(crate) fn of(headers: &HeaderMap) -> Result<StatementBody, Failure> {
        if packing(headers)? != Compression::None {
            return Err(unsupported("header Content-Encoding", "a statement is not packed"));
        }
        match content_type(headers)?.as_str() {
            "" | "text/plain" | "application/sql" | "text/sql" | "application/x-www-form-urlencoded" => {
                // curl --data says the last where it means plain bytes; a form would not parse as SQL.
                Ok(StatementBody::Text)
            }
            JSON => Ok(StatementBody::Json),
            other => Err(unsupported("header Content-Type", format!("a statement does not come as {other}"))
                .with_hint(
                    "send SQL as text/plain, or an object with sql, parameters and settings as application/json",
                )),
        }
    }
}

/// The format of a body of rows; `JsonArray` is one array of objects.
pub(crate) fn rows_format(headers: &HeaderMap) -> Result<Format, Failure> {
    let name = content_type(headers)?;
    let known = FORMATS.iter().chain(&MORE_IN).find(|(known, _)| *known == name);
    known.map(|(_, format)| *format).ok_or_else(|| {
        let what = if name.is_empty() {
            "the body's format is not stated".to_owned()
        } else {
            format!("rows do not come as {name}")
        };
        unsupported("header Content-Type", what).with_hint(format!(
            "Content-Type is one of {}, {}",
            names(&FORMATS),
            names(&MORE_IN)
        ))
    })
}

/// How a body is packed.
pub(crate) fn packing(headers: &HeaderMap) -> Result<Compression, Failure> {
    let Some(value) = headers.get(CONTENT_ENCODING) else { return Ok(Compression::None) };
    match value.to_str().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Compression::None),
        "gzip" | "x-gzip" => Ok(Compression::Gzip),
        "zstd" => Ok(Compression::Zstd),
        other => Err(unsupported("header Content-Encoding", format!("a body packed as {other} is not unpacked"))
            .with_hint("gzip and zstd are")),
    }
}

fn unsupported(place: &str, message: impl Into<String>) -> Failure {
    Failure::from(Error::new(ErrorKind::NotSupported, message)).of(place).with_refusal(Refusal::MediaType)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        headers
    }

    #[test]
    fn the_type_that_the_client_likes_best_is_taken() {
        for (accept, answer) in [
            ("*/*", Some(Answer::Json)),
            ("", Some(Answer::Json)),
            ("text/csv", Some(Answer::Rows(Format::Csv))),
            ("TEXT/CSV; q=0.5, application/json;q=0.4", Some(Answer::Rows(Format::Csv))),
            ("text/*", Some(Answer::Rows(Format::Csv))),
            ("text/event-stream", Some(Answer::Events)),
            ("text/html, */*;q=0.1", Some(Answer::Json)),
            ("application/json;q=0, */*", Some(Answer::Rows(Format::JsonLines))),
            (
                "application/vnd.apache.parquet, application/vnd.apache.arrow.stream;q=0.9",
                Some(Answer::Rows(Format::Parquet)),
            ),
            ("text/html", None),
            ("application/json;q=0", None),
        ] {
            assert_eq!(Answer::of(&headers(ACCEPT, accept)).ok(), answer, "{accept}");
        }
        assert_eq!(Answer::of(&HeaderMap::new()).unwrap(), Answer::Json);
    }

    #[test]
    fn bodies_say_what_they_are() {
        let csv = headers(CONTENT_TYPE, "text/csv; charset=utf-8");
        assert_eq!(rows_format(&csv).unwrap(), Format::Csv);
        assert_eq!(rows_format(&headers(CONTENT_TYPE, "text/csv; charset=latin1")).unwrap_err().status(), 415);
        assert_eq!(rows_format(&HeaderMap::new()).unwrap_err().status(), 415);
        assert_eq!(StatementBody::of(&headers(CONTENT_TYPE, "application/json")).unwrap(), StatementBody::Json);
        assert_eq!(StatementBody::of(&headers(CONTENT_TYPE, "image/png")).unwrap_err().status(), 415);
        assert_eq!(packing(&headers(CONTENT_ENCODING, "gzip")).unwrap(), Compression::Gzip);
        assert_eq!(packing(&headers(CONTENT_ENCODING, "br")).unwrap_err().status(), 415);
    }
}
