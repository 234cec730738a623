//! PostGIS: the same points with a random priority, under a 3-D index of where they are and a 4-D index of where they are and how
//! they weigh. Qbeast's rivals (figure 4.17 there): the first reads the whole box and keeps what weighs little, the second is asked
//! for little weight alone.

use crate::Anything;
use crate::servers::{Running, connect, postgres, version};
use crate::thin::points::{Area, each_point};
use bytes::{Bytes, BytesMut};
use futures::SinkExt;
use std::fmt::Write;
use std::path::Path;
use std::pin::pin;
use std::time::Instant;
use tokio_postgres::Client;

/// A server with the points, loaded, indexed and analysed.
pub struct PostGis {
    client: Client,
    /// What the server and its extension call themselves.
    pub version: String,
    _server: Running,
}

/// Which index answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Index {
    Space,
    SpaceAndPriority,
}

impl PostGis {
    /// Starts a server of the bench's own and fills it from a Parquet file.
    pub async fn load(file: &Path) -> Anything<PostGis> {
        let server = postgres()?;
        let client = connect(&server.config).await?;
        client.batch_execute("CREATE EXTENSION postgis").await.map_err(|error| format!("PostGIS: {error}"))?;
        client
            .batch_execute("CREATE UNLOGGED TABLE raw (x DOUBLE PRECISION, y DOUBLE PRECISION, z DOUBLE PRECISION)")
            .await?;
        {
            let mut sink = pin!(client.copy_in::<_, Bytes>("COPY raw FROM STDIN").await?);
            let mut pieces = Vec::new();
            let mut piece = String::new();
            each_point(file, |[x, y, z]| {
                let _ = writeln!(piece, "{x}\t{y}\t{z}");
                if piece.len() > 1 << 20 {
                    pieces.push(BytesMut::from(piece.as_str()).freeze());
                    piece.clear();
                }
            })?;
            pieces.push(BytesMut::from(piece.as_str()).freeze());
            for piece in pieces {
                sink.send(piece).await?;
            }
            sink.finish().await?;
        }
        client
            .batch_execute(
                "SELECT setseed(0.5); \
                 CREATE UNLOGGED TABLE points AS SELECT x, y, z, priority, ST_MakePoint(x, y, z) AS space, \
                 ST_MakePoint(x, y, z, priority) AS weighed FROM (SELECT *, random() AS priority FROM raw) AS r; \
                 DROP TABLE raw; \
                 CREATE INDEX ON points USING gist (space gist_geometry_ops_nd); \
                 CREATE INDEX ON points USING gist (weighed gist_geometry_ops_nd)",
            )
            .await?;
        client.batch_execute("VACUUM ANALYZE points").await?;
        let extension: String = client.query_one("SELECT PostGIS_Lib_Version()", &[]).await?.get(0);
        let version = format!("PostGIS {extension}, {}", version(&client).await?);
        Ok(PostGis { client, version, _server: server })
    }

    /// Milliseconds, count and sum of coordinates of a box's points whose priority is below a share; all at a share of 1.
    pub async fn ask(&self, index: Index, area: &Area, share: f64) -> Anything<(f64, i64, f64)> {
        let [low, high] = [area.low, area.high].map(|corner| corner.map(|at| at.to_string()).join(", "));
        // The indexes hold single precision; the plain conditions are exact.
        let (column, range) = match index {
            Index::Space => ("space", format!("ST_3DMakeBox(ST_MakePoint({low}), ST_MakePoint({high}))")),
            Index::SpaceAndPriority => {
                ("weighed", format!("ST_MakeLine(ST_MakePoint({low}, 0), ST_MakePoint({high}, {share}))"))
            }
        };
        let sql = format!(
            "SELECT count(*), coalesce(sum(x + y + z), 0), avg(x) FROM points WHERE {column} &&& {range} AND {} AND priority < {share}",
            area.condition()
        );
        let start = Instant::now();
        let row = self.client.query_one(&sql, &[]).await?;
        let took_ms = start.elapsed().as_secs_f64() * 1e3;
        Ok((took_ms, row.get(0), row.get(1)))
    }
}
