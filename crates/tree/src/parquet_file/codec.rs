//! Page compression of the columns that are encoded here.

use parking_lot::Mutex;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::{ParquetError, Result};
use std::sync::Arc;
use zstd::bulk::Compressor;

/// Compresses the pages of a file, keeping one context from page to page, which all of its columns share.
#[derive(Clone, Default)]
pub(crate) struct Context(Arc<Mutex<Option<Compressor<'static>>>>);

/// How a column's pages are stored.
#[derive(Default)]
pub(crate) struct Codec {
    context: Option<Context>,
}

impl Context {
    fn compress(&self, page: &[u8]) -> Result<Vec<u8>> {
        let mut context = self.0.lock();
        let context = match &mut *context {
            Some(context) => context,
            none => {
                let new = Compressor::new(ZstdLevel::default().compression_level());
                none.insert(new.map_err(|error| ParquetError::General(error.to_string()))?)
            }
        };
        context.compress(page).map_err(|error| ParquetError::General(error.to_string()))
    }
}

impl Codec {
    /// A codec that compresses.
    pub(crate) fn zstd(context: &Context) -> Codec {
        Codec { context: Some(context.clone()) }
    }

    /// What Parquet's footer calls it.
    pub(crate) fn compression(&self) -> Compression {
        match self.context {
            Some(_) => Compression::ZSTD(ZstdLevel::default()),
            None => Compression::UNCOMPRESSED,
        }
    }

    /// A page's bytes as they are stored.
    pub(crate) fn compress(&self, page: Vec<u8>) -> Result<Vec<u8>> {
        match &self.context {
            Some(context) => context.compress(&page),
            None => Ok(page),
        }
    }
}
