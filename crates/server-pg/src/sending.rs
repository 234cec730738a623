//! Sending rows: the rows of an answer on their way to the client.

use crate::connection::Connection;
use crate::portal::{Answer, Sent};
use crate::types::Rows;
use alluvia_query::from_datafusion;
use alluvia_types::Result;
use futures::StreamExt;

/// Rows written at a time before the buffer is looked at.
const ROWS_AT_A_TIME: usize = 256;

impl Connection {
    /// Sends rows of an answer, at most `rows_max` (0: all).
    pub(crate) async fn send_rows(&mut self, answer: &mut Answer, rows_max: usize) -> Result<Sent> {
        let mut left = if rows_max == 0 { usize::MAX } else { rows_max };
        let mut sent_now = 0;
        while !answer.is_over {
            if let Some((rows, at)) = &mut answer.current {
                while *at < rows.len() {
                    if left == 0 {
                        return Ok(Sent::Enough);
                    }
                    let count = (rows.len() - *at).min(left).min(ROWS_AT_A_TIME);
                    rows.write(*at, *at + count, &mut self.io.out.bytes)?;
                    *at += count;
                    left -= count;
                    sent_now += count as u64;
                    self.send_if_long(answer.until).await?;
                }
                answer.current = None;
            }
            let (Some(stream), Some(schema)) = (answer.outcome.rows.as_mut(), &answer.schema) else {
                answer.is_over = true;
                break;
            };
            match self.watched(async { Ok(stream.next().await) }).await? {
                Some(batch) => {
                    let batch = batch.map_err(from_datafusion)?;
                    answer.current =
                        Some((Rows::new(&batch, schema, &answer.formats)?.in_zone(self.session.time_zone()), 0));
                }
                None => answer.is_over = true,
            }
        }
        let tag = answer.outcome.tag.clone();
        // PostgreSQL counts the rows of these.
        let counted = matches!(tag.as_str(), "SELECT" | "FETCH");
        Ok(Sent::All(if counted { format!("{tag} {sent_now}") } else { tag }))
    }
}
