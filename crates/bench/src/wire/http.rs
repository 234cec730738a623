//! One request of HTTP at a time, each on a connection of its own: a body of a quarter of a million rows hides what that costs.

use crate::Anything;
use bytes::Bytes;
use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Posts rows into a table; gives what the server says of them.
pub async fn ingest(server: SocketAddr, table: &str, content_type: &str, body: Bytes) -> Anything<Value> {
    let mut stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let head = format!(
        "POST /ingest/{table} HTTP/1.1\r\nHost: {server}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.lines().next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 200") {
        return Err(format!("/ingest/{table} was answered with {answer}").into());
    }
    // Whether it comes in chunks or not, the body is one object.
    let object = answer.find('{').zip(answer.rfind('}')).ok_or_else(|| format!("no object in {answer}"))?;
    Ok(serde_json::from_str(&answer[object.0..=object.1])?)
}
