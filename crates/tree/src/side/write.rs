//! Writing of a side file.

use super::format::{Header, Section, SectionKind, encode_end, encode_header};
use super::waiting::Waiting;
use crate::context::TreeContext;
use crate::layout::STRIPE_BLOCKS;
use crate::packed::{key_width, pack_codes, pack_keys};
use crate::summary::{BlockCodes, BlockTable, LevelSummary, PackedMeasure, encode_presence};
use alluvia_storage::{CheckedWriter, FileChecks};
use alluvia_types::{Error, Result};
use crc32c::crc32c;
use std::io::Write;
use std::path::PathBuf;

/// Sections start at multiples of this, so that Arrow arrays in them are aligned.
const SECTION_ALIGN: u64 = 64;

/// Writes the stripes as blocks come, and the sections at the end.
pub(crate) struct SideWriter {
    context: TreeContext,
    file: CheckedWriter,
    path: PathBuf,
    offset: u64,
    /// The stripe being filled: keys, then each level, then each measure.
    streams: Waiting,
    levels: usize,
    blocks: usize,
    /// The section `stripes`.
    stripes: Vec<u8>,
}

/// Sections that not every segment has.
#[derive(Debug, Default)]
pub(crate) struct OptionalSections<'a> {
    /// `parents`, of a rung.
    pub(crate) first_rows: Option<&'a [u32]>,
    /// `heavy`, of a segment with a ladder.
    pub(crate) heavy: Option<Vec<u8>>,
    /// `bands`, of a banded segment.
    pub(crate) bands: Option<Vec<u8>>,
    /// `places`, of a rung.
    pub(crate) places: Option<&'a [u16]>,
}

impl SideWriter {
    pub(crate) fn create(context: &TreeContext, header: &Header) -> Result<SideWriter> {
        let path = context.side_path(header.segment);
        let file = CheckedWriter::create(context.disk.as_ref(), &path)?;
        let streams = 1 + header.levels as usize + header.measures as usize;
        let streams = Waiting::new(context, header.segment, streams);
        let context = context.clone();
        let levels = header.levels as usize;
        let mut writer = SideWriter { context, file, path, offset: 0, streams, levels, blocks: 0, stripes: Vec::new() };
        writer.put(&encode_header(header))?;
        Ok(writer)
    }

    /// Bytes written so far, and those of the stripe being filled.
    pub(crate) fn bytes(&self) -> u64 {
        self.offset + self.streams.bytes()
    }

    /// Adds the keys and codes of a block.
    pub(crate) fn keys(&mut self, keys: &[u128], codes: &[Vec<u32>], bounds: &BlockCodes) {
        pack_keys(keys, key_width(bounds.key_first, bounds.key_last), self.streams.stream(0));
        for (level, (codes, &bounds)) in codes.iter().zip(&bounds.codes).enumerate() {
            pack_codes(codes, bounds, self.streams.stream(1 + level));
        }
    }

    /// Adds a block's values of a measure.
    pub(crate) fn measure(&mut self, packed: &PackedMeasure) {
        let stream = self.streams.stream(1 + self.levels + packed.measure);
        stream.extend_from_slice(&packed.values);
    }

    /// After some columns of some blocks: what does not fit in memory goes to a file.
    pub(crate) fn end_columns(&mut self) -> Result<()> {
        self.streams.make_room(&self.context)
    }

    /// Ends so many blocks, of which keys, codes and measures have come. They do not cross the end of a stripe.
    pub(crate) fn end_blocks(&mut self, blocks: usize) -> Result<()> {
        self.streams.make_room(&self.context)?;
        self.blocks += blocks;
        assert!(self.blocks <= STRIPE_BLOCKS, "blocks that end together are of one stripe");
        if self.blocks == STRIPE_BLOCKS {
            self.end_stripe()?;
        }
        Ok(())
    }

    fn end_stripe(&mut self) -> Result<()> {
        self.stripes.extend(self.offset.to_le_bytes());
        for at in 0..self.streams.len() {
            let mut stream = self.streams.take(at)?;
            self.stripes.extend(crc32c(&stream).to_le_bytes());
            self.put(&stream)?;
            stream.clear();
            self.streams.give_back(at, stream);
        }
        self.streams.restart();
        self.blocks = 0;
        Ok(())
    }

    /// Writes the sections and syncs the file; the caller syncs the directory.
    pub(crate) fn finish(
        mut self,
        parquet: &FileChecks,
        table: &BlockTable,
        levels: &[LevelSummary],
        mut optional: OptionalSections<'_>,
        rows: u64,
    ) -> Result<FileChecks> {
        if self.blocks > 0 {
            self.end_stripe()?;
        }
        let mut checks = parquet.len.to_le_bytes().to_vec();
        checks.extend(parquet.chunk_crcs.iter().flat_map(|crc| crc.to_le_bytes()));
        let mut sections = Vec::with_capacity(SectionKind::ALL.len());
        for kind in SectionKind::ALL {
            let payload = match kind {
                SectionKind::Checks => std::mem::take(&mut checks),
                SectionKind::Stripes => std::mem::take(&mut self.stripes),
                SectionKind::Blocks => table.encode()?,
                SectionKind::Presence => encode_presence(levels, table.key_first.len())?,
                SectionKind::Parents => match optional.first_rows {
                    Some(first_rows) => first_rows.iter().flat_map(|row| row.to_le_bytes()).collect(),
                    None => continue,
                },
                SectionKind::Heavy => match optional.heavy.take() {
                    Some(heavy) => heavy,
                    None => continue,
                },
                SectionKind::Bands => match optional.bands.take() {
                    Some(bands) => bands,
                    None => continue,
                },
                SectionKind::Places => match optional.places {
                    Some(places) => places.iter().flat_map(|place| place.to_le_bytes()).collect(),
                    None => continue,
                },
            };
            let padding = self.offset.next_multiple_of(SECTION_ALIGN) - self.offset;
            self.put(&[0; SECTION_ALIGN as usize][..padding as usize])?;
            sections.push(Section::over(kind, self.offset, &payload));
            self.put(&payload)?;
        }
        self.put(&encode_end(&sections, rows))?;
        self.file.finish()
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| Error::io(&self.path, "writing", &error))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}
