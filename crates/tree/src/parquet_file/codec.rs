//! Page compression of the columns that are encoded here.

use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::{ParquetError, Result};
use zstd::bulk::Compressor;

/// Compresses pages, keeping its context from page to page.
#[derive(Default)]
pub(crate) struct Codec {
    context: Option<Compressor<'static>>,
}

impl Codec {
    /// A codec that compresses.
    pub(crate) fn zstd() -> Result<Codec> {
        let context = Compressor::new(ZstdLevel::default().compression_level());
        let context = context.map_err(|error| ParquetError::General(error.to_string()))?;
        Ok(Codec { context: Some(context) })
    }

    /// What Parquet's footer calls it.
    pub(crate) fn compression(&self) -> Compression {
        match self.context {
            Some(_) => Compression::ZSTD(ZstdLevel::default()),
            None => Compression::UNCOMPRESSED,
        }
    }

    /// A page's bytes as they are stored.
    pub(crate) fn compress(&mut self, page: Vec<u8>) -> Result<Vec<u8>> {
        match &mut self.context {
            Some(context) => context.compress(&page).map_err(|error| ParquetError::General(error.to_string())),
            None => Ok(page),
        }
    }
}
