//! `alluvia.audit`: the audit log as a table.

use crate::audit::Line;
use crate::system::{Cell, Kind, SystemContext};
use alluvia_types::Result;
use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;

/// Bytes of it that `alluvia.audit` shows: the newest.
const SHOWN_BYTES_MAX: u64 = 16 << 20;

/// Columns of `alluvia.audit`.
pub(crate) const AUDIT: &[(&str, Kind)] = &[
    ("at", Kind::Time),
    ("event", Kind::Text),
    ("outcome", Kind::Text),
    ("user_name", Kind::Text),
    ("role_name", Kind::Text),
    ("protocol", Kind::Text),
    ("client_address", Kind::Text),
    ("session_id", Kind::Count),
    ("sql", Kind::Text),
    ("version", Kind::Count),
    ("sqlstate", Kind::Text),
    ("message", Kind::Text),
];

/// The rows of `alluvia.audit`, newest first; for superusers. A line that cannot be read is shown as it is.
pub(crate) fn rows(context: &SystemContext) -> Result<Vec<Vec<Cell>>> {
    context.authoriser.superuser("read the audit log")?;
    let text = context.admin.audited(SHOWN_BYTES_MAX)?;
    let row = |bytes: &[u8]| {
        let line = serde_json::from_slice::<Line>(bytes).unwrap_or_else(|_| Line {
            event: "unreadable".to_owned(),
            message: Some(String::from_utf8_lossy(bytes).into_owned()),
            ..Line::default()
        });
        let text = |text: String| (!text.is_empty()).then_some(text);
        vec![
            string_to_timestamp_nanos(&line.at).map_or(Cell::Null, |nanos| Cell::Time(nanos / 1_000)),
            line.event.into(),
            text(line.outcome).into(),
            text(line.user).into(),
            line.role.into(),
            text(line.protocol).into(),
            line.address.into(),
            line.session.into(),
            line.sql.into(),
            line.version.into(),
            line.sqlstate.into(),
            line.message.into(),
        ]
    };
    Ok(text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).rev().map(row).collect())
}
