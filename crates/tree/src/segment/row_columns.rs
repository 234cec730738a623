//! Columns in which single rows are read, and where a segment has them.
//!
//! Finding a column by its name costs as much as reading a value of it from memory. So who reads rows again and again keeps the list of
//! its columns ([`RowColumns`]), and a segment keeps where it has the columns of the lists that it was asked for last.

use super::Segment;
use super::columns::{Source, schema_of};
use alluvia_types::Result;
use arrow::datatypes::{DataType, SchemaRef};
use std::sync::Arc;

/// How many lists a segment knows the places of.
const LISTS: usize = 4;

/// Columns, by storage names and Arrow types.
#[derive(Debug)]
pub struct RowColumns {
    columns: Vec<(String, DataType)>,
    schema: SchemaRef,
}

/// Where a column of a segment is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ColumnPlace {
    /// In the Parquet file, in this place.
    File(usize),
    /// One version for all rows.
    Version(u64),
    /// Nowhere: it is NULL.
    Absent,
}

/// Lists of columns, the one that was asked for last first, and where they are.
pub(super) type PlacesByColumns = Vec<(Arc<RowColumns>, Arc<[ColumnPlace]>)>;

impl RowColumns {
    /// Of names and types.
    pub fn new(columns: impl IntoIterator<Item = (String, DataType)>) -> Arc<RowColumns> {
        let columns: Vec<(String, DataType)> = columns.into_iter().collect();
        let named: Vec<(&str, DataType)> = columns.iter().map(|(name, of)| (name.as_str(), of.clone())).collect();
        let schema = schema_of(&named);
        Arc::new(RowColumns { columns, schema })
    }

    /// The names and types.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &DataType)> {
        self.columns.iter().map(|(name, data_type)| (name.as_str(), data_type))
    }

    /// Of rows in these columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The names and types, as readers of files want them.
    pub(super) fn named(&self) -> Vec<(&str, DataType)> {
        self.iter().map(|(name, data_type)| (name, data_type.clone())).collect()
    }
}

impl Segment {
    /// Where the columns of a list are.
    pub(super) fn places_of(&self, columns: &Arc<RowColumns>) -> Result<Arc<[ColumnPlace]>> {
        {
            let lists = self.row_columns.lock();
            let is_it = |list: &Arc<RowColumns>| Arc::ptr_eq(list, columns) || list.columns == columns.columns;
            if let Some((_, places)) = lists.iter().find(|(list, _)| is_it(list)) {
                return Ok(Arc::clone(places));
            }
        }
        let places: Arc<[ColumnPlace]> = self.columns_places(columns)?.into();
        let mut lists = self.row_columns.lock();
        lists.truncate(LISTS - 1);
        lists.insert(0, (Arc::clone(columns), Arc::clone(&places)));
        Ok(places)
    }

    fn columns_places(&self, columns: &RowColumns) -> Result<Vec<ColumnPlace>> {
        let metadata = self.parquet_metadata()?;
        let leaves = metadata.file_metadata().schema_descr().columns();
        let place = |(source, (name, _)): (Source, (&str, &DataType))| match source {
            Source::Version(version) => ColumnPlace::Version(version),
            Source::Absent(_) => ColumnPlace::Absent,
            Source::Parquet(_) => {
                leaves.iter().position(|leaf| leaf.name() == name).map_or(ColumnPlace::Absent, ColumnPlace::File)
            }
        };
        Ok(self.sources(&columns.named())?.into_iter().zip(columns.iter()).map(place).collect())
    }
}
