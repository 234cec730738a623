//! Our errors inside DataFusion's, there and back.

use alluvia_types::Error;
use datafusion::common::DataFusionError;
use std::error::Error as StdError;

/// Carries an error of ours through DataFusion.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Our error, if this one carries one, however deep it was wrapped on its way.
pub fn user_error(error: &DataFusionError) -> Option<Error> {
    fn find(error: &(dyn StdError + 'static)) -> Option<Error> {
        if let Some(ours) = error.downcast_ref::<Error>() {
            return Some(ours.clone());
        }
        // A collection has several sources; `source` tells only of the first.
        if let Some(DataFusionError::Collection(all)) = error.downcast_ref::<DataFusionError>() {
            return all.iter().find_map(|error| find(error));
        }
        find(error.source()?)
    }
    find(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_types::ErrorKind;
    use parquet::errors::ParquetError;
    use std::sync::Arc;

    #[test]
    fn user_error_is_found_through_every_wrapping() {
        let ours = || Error::new(ErrorKind::Corrupt, "seg-3.parquet: chunk 5 does not match its checksum");
        let wrapped = [
            external(ours()),
            external(ours()).context("planning"),
            DataFusionError::Shared(Arc::new(external(ours()))),
            DataFusionError::ParquetError(Box::new(ParquetError::External(Box::new(ours())))),
            DataFusionError::External(Box::new(external(ours()))),
            DataFusionError::ArrowError(
                Box::new(arrow::error::ArrowError::ExternalError(Box::new(external(ours())))),
                None,
            ),
        ];
        for error in wrapped {
            assert_eq!(user_error(&error).expect("found").kind(), ErrorKind::Corrupt, "{error:?}");
        }
        assert!(user_error(&DataFusionError::Plan("no".to_owned())).is_none());
    }
}
