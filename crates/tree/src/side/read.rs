//! Reading of a side file.

use super::format::{
    ENTRY_BYTES, HEADER_BYTES, Section, SectionKind, TRAILER_BYTES, check_header, corrupt, decode_sections,
    decode_trailer, u32_at, u64_at,
};
use crate::layout::{BLOCK_ROWS, Bands, STRIPE_BLOCKS, block_rows, blocks_of};
use crate::packed::key_width;
use crate::summary::{BlockTable, LevelSummary, decode_presence};
use alluvia_storage::{CheckedFile, Disk, DiskFile, FileChecks};
use alluvia_types::{Error, Result, SegmentId, TableId};
use bytes::Bytes;
use crc32c::crc32c;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open side file whose fixed parts hold.
#[derive(Debug)]
pub(crate) struct SideFile {
    source: Source,
    sections: Vec<Section>,
    /// Where the sections end.
    end: u64,
    pub(crate) levels: usize,
    pub(crate) measures: usize,
    pub(crate) rows: u64,
}

/// Where bytes come from.
#[derive(Debug)]
enum Source {
    /// Verified by chunk.
    Checked(CheckedFile),
    /// As the disk has them: to find out, by the sections' own checksums, which section a damaged chunk hit.
    Raw(Arc<dyn DiskFile>, PathBuf),
}

/// Where the packed keys and codes lie.
#[derive(Debug)]
pub(crate) struct Stripes {
    offsets: Vec<u64>,
    /// Per stripe: of the keys, then of each level, then of each measure.
    crcs: Vec<u32>,
}

impl SideFile {
    /// Checks the fixed parts.
    pub(crate) fn open(file: CheckedFile, segment: SegmentId, table: TableId) -> Result<SideFile> {
        let len = file.len();
        SideFile::check(Source::Checked(file), len, segment, table)
    }

    /// The checksums of the Parquet file in a file that may be damaged elsewhere.
    pub(crate) fn surviving_checks(
        disk: &dyn Disk,
        path: &Path,
        segment: SegmentId,
        table: TableId,
    ) -> Result<FileChecks> {
        let file = disk.open(path).map_err(|error| Error::io(path, "opening", &error))?;
        let len = file.len().map_err(|error| Error::io(path, "reading", &error))?;
        SideFile::check(Source::Raw(file, path.into()), len, segment, table)?.parquet_checks()
    }

    /// What is wrong with a file that does not pass its chunks' checksums: an error that names the section, if one does
    /// not hold.
    pub(crate) fn diagnose(disk: &dyn Disk, path: &Path, segment: SegmentId, table: TableId) -> Result<()> {
        let file = disk.open(path).map_err(|error| Error::io(path, "opening", &error))?;
        let len = file.len().map_err(|error| Error::io(path, "reading", &error))?;
        let side = SideFile::check(Source::Raw(file, path.into()), len, segment, table)?;
        let (table, _) = side.blocks()?;
        side.verify(&side.stripes()?, &table)
    }

    fn check(source: Source, len: u64, segment: SegmentId, table: TableId) -> Result<SideFile> {
        let path = source.path().to_owned();
        let path = path.as_path();
        if len < (HEADER_BYTES + TRAILER_BYTES) as u64 {
            return Err(corrupt(path, "trailer", "the file is too short to have one"));
        }
        let in_section = |name: &'static str| move |error: Error| error.at(format!("section {name}"));
        let header = source.read(0..HEADER_BYTES as u64).map_err(in_section("header"))?;
        let (levels, measures) = check_header(path, &header, segment, table)?;
        let (levels, measures) = (levels as usize, measures as usize);
        let trailer_at = len - TRAILER_BYTES as u64;
        let trailer = source.read(trailer_at..len).map_err(in_section("trailer"))?;
        let trailer = decode_trailer(path, &trailer)?;
        let end = trailer_at.checked_sub(u64::from(trailer.sections) * ENTRY_BYTES as u64);
        let end = end.ok_or_else(|| corrupt(path, "trailer", "the section table is longer than the file"))?;
        // The checksum also covers the trailer's row count and section count.
        let table_bytes = source.read(end..trailer_at + 12).map_err(in_section("trailer"))?;
        let sections = decode_sections(path, &table_bytes, &trailer)?;
        Ok(SideFile { source, sections, end, levels, measures, rows: trailer.rows })
    }

    /// A section's bytes, which pass its checksum.
    fn section(&self, kind: SectionKind) -> Result<Bytes> {
        let section = self.sections.iter().find(|section| section.is(kind));
        let section = section.ok_or_else(|| corrupt(self.source.path(), kind.name(), "it is missing"))?;
        let end = section.offset.checked_add(section.len).filter(|&end| end <= self.end);
        let end = end.ok_or_else(|| corrupt(self.source.path(), kind.name(), "it lies outside the file"))?;
        let bytes =
            self.source.read(section.offset..end).map_err(|error| error.at(format!("section {}", kind.name())))?;
        if crc32c(&bytes) != section.crc {
            return Err(corrupt(self.source.path(), kind.name(), "checksum mismatch"));
        }
        Ok(bytes)
    }

    /// Checksums of the Parquet file.
    pub(crate) fn parquet_checks(&self) -> Result<FileChecks> {
        let kind = SectionKind::Checks;
        let bytes = self.section(kind)?;
        if bytes.len() < 8 || bytes.len() % 4 != 0 {
            return Err(corrupt(self.source.path(), kind.name(), "it has the wrong length"));
        }
        Ok(FileChecks { len: u64_at(&bytes, 0), chunk_crcs: words(&bytes[8..]) })
    }

    /// Where stripes lie.
    pub(crate) fn stripes(&self) -> Result<Stripes> {
        let kind = SectionKind::Stripes;
        let bytes = self.section(kind)?;
        let entry = 8 + 4 * self.streams();
        let count = blocks_of(self.rows).div_ceil(STRIPE_BLOCKS);
        if bytes.len() != count * entry {
            return Err(corrupt(self.source.path(), kind.name(), "it has the wrong length"));
        }
        let entries = bytes.chunks_exact(entry);
        Ok(Stripes {
            offsets: entries.clone().map(|entry| u64_at(entry, 0)).collect(),
            crcs: entries.flat_map(|entry| words(&entry[8..])).collect(),
        })
    }

    /// Bounds and measures per block, and how many bytes they take.
    pub(crate) fn blocks(&self) -> Result<(BlockTable, u64)> {
        let kind = SectionKind::Blocks;
        let bytes = self.section(kind)?;
        let decoded = BlockTable::decode(&bytes, blocks_of(self.rows), self.levels);
        let table = decoded.map_err(|what| corrupt(self.source.path(), kind.name(), what))?;
        if table.measures.len() != self.measures {
            let what = format!("it has {} measures instead of {}", table.measures.len(), self.measures);
            return Err(corrupt(self.source.path(), kind.name(), what));
        }
        Ok((table, bytes.len() as u64))
    }

    /// Streams of a stripe: keys, levels, measures.
    pub(crate) fn streams(&self) -> usize {
        1 + self.levels + self.measures
    }

    /// Codes present, and how many bytes they take.
    pub(crate) fn presence(&self, table: &BlockTable) -> Result<(Vec<LevelSummary>, u64)> {
        let kind = SectionKind::Presence;
        let bytes = self.section(kind)?;
        let decoded = decode_presence(&bytes, table);
        Ok((decoded.map_err(|what| corrupt(self.source.path(), kind.name(), what))?, bytes.len() as u64))
    }

    /// Of a rung: how many of its rows lie before each block of the segment it hangs from, and how many there are.
    pub(crate) fn first_rows(&self) -> Result<Vec<u32>> {
        let kind = SectionKind::Parents;
        let bytes = self.section(kind)?;
        let rows = words(&bytes);
        let ends = rows.last().is_some_and(|&last| u64::from(last) == self.rows);
        if bytes.len() % 4 != 0 || !ends || !rows.is_sorted() {
            return Err(corrupt(self.source.path(), kind.name(), "it does not count up to the rung's rows"));
        }
        Ok(rows)
    }

    /// The section `heavy`, for who knows what its bytes mean; `None` if the segment was written without.
    pub(crate) fn heavy(&self) -> Result<Option<Bytes>> {
        let kind = SectionKind::Heavy;
        if self.has(kind) { self.section(kind).map(Some) } else { Ok(None) }
    }

    /// That a section does not hold, and what of it.
    pub(crate) fn damage(&self, kind: SectionKind, what: String) -> Error {
        corrupt(self.source.path(), kind.name(), what)
    }

    /// Where the bands of its blocks end; `None` if the segment is not banded.
    pub(crate) fn bands(&self) -> Result<Option<Bands>> {
        let kind = SectionKind::Bands;
        if !self.has(kind) {
            return Ok(None);
        }
        let decoded = Bands::decode(&self.section(kind)?, self.rows);
        decoded.map(Some).map_err(|what| corrupt(self.source.path(), kind.name(), what))
    }

    /// Of a rung: where each of its rows lies in the block of the segment that it is of. `None` of older ones.
    pub(crate) fn places(&self) -> Result<Option<Vec<u16>>> {
        let kind = SectionKind::Places;
        if !self.has(kind) {
            return Ok(None);
        }
        let (bytes, first_rows) = (self.section(kind)?, self.first_rows()?);
        let places: Vec<u16> = bytes.chunks_exact(2).map(|place| u16::from_le_bytes([place[0], place[1]])).collect();
        if bytes.len() as u64 != 2 * self.rows || first_rows[0] != 0 {
            return Err(corrupt(self.source.path(), kind.name(), "it is not one number for each of the rung's rows"));
        }
        let ascend = |ends: &[u32]| {
            let of_block = &places[ends[0] as usize..ends[1] as usize];
            of_block.is_sorted_by(|a, b| a < b) && of_block.last().is_none_or(|&last| usize::from(last) < BLOCK_ROWS)
        };
        if !first_rows.windows(2).all(ascend) {
            return Err(corrupt(self.source.path(), kind.name(), "its numbers do not ascend within a block"));
        }
        Ok(Some(places))
    }

    /// Whether there is a section of a kind.
    pub(crate) fn has(&self, kind: SectionKind) -> bool {
        self.sections.iter().any(|section| section.is(kind))
    }

    /// Part of a stripe.
    pub(crate) fn packed(&self, range: Range<u64>, stream: usize, block: usize) -> Result<Bytes> {
        let place = || match stream {
            0 => format!("keys of block {block}"),
            level if level <= self.levels => format!("codes of level {} of block {block}", level - 1),
            measure => format!("measure {} of block {block}", measure - 1 - self.levels),
        };
        if range.start > range.end || range.end > self.end {
            return Err(corrupt(self.source.path(), "stripes", format!("{} lie outside the file", place())));
        }
        self.source.read(range).map_err(|error| error.at(place()))
    }

    /// Reads every byte from the disk and checks every checksum.
    pub(crate) fn verify(&self, stripes: &Stripes, table: &BlockTable) -> Result<()> {
        if let Source::Checked(file) = &self.source {
            file.verify()?;
        }
        for section in &self.sections {
            if let Some(kind) = SectionKind::ALL.into_iter().find(|&kind| section.is(kind)) {
                self.section(kind)?;
            }
        }
        for stripe in 0..stripes.offsets.len() {
            for stream in 0..self.streams() {
                let range = stripes.stream(table, self.rows, stripe, stream);
                let first = stripe * STRIPE_BLOCKS;
                if crc32c(&self.packed(range, stream, first)?) != stripes.crcs[stripe * self.streams() + stream] {
                    let name = match stream {
                        0 => "keys".to_owned(),
                        level if level <= self.levels => format!("codes of level {}", level - 1),
                        measure => format!("measure {}", measure - 1 - self.levels),
                    };
                    return Err(corrupt(
                        self.source.path(),
                        "stripes",
                        format!("checksum mismatch in {name} of stripe {stripe}"),
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Source {
    fn path(&self) -> &Path {
        match self {
            Source::Checked(file) => file.path(),
            Source::Raw(_, path) => path,
        }
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        match self {
            Source::Checked(file) => file.read(range),
            Source::Raw(file, path) => {
                let mut bytes = vec![0; (range.end - range.start) as usize];
                file.read_exact_at(&mut bytes, range.start).map_err(|error| Error::io(path, "reading", &error))?;
                Ok(bytes.into())
            }
        }
    }
}

impl Stripes {
    /// Bytes of one block in one stream: 0 for the keys, 1 + level for codes, 1 + levels + measure for values.
    pub(crate) fn block(&self, table: &BlockTable, rows: u64, block: usize, stream: usize) -> Range<u64> {
        let stripe = block / STRIPE_BLOCKS;
        let start = self.stream(table, rows, stripe, stream).start
            + (stripe * STRIPE_BLOCKS..block).map(|before| packed_bytes(table, rows, before, stream)).sum::<u64>();
        start..start + packed_bytes(table, rows, block, stream)
    }

    /// Bytes of one stream of a stripe.
    pub(crate) fn stream(&self, table: &BlockTable, rows: u64, stripe: usize, stream: usize) -> Range<u64> {
        let blocks = stripe * STRIPE_BLOCKS..((stripe + 1) * STRIPE_BLOCKS).min(table.key_first.len());
        let bytes = |stream| blocks.clone().map(|block| packed_bytes(table, rows, block, stream)).sum::<u64>();
        let start = self.offsets[stripe].saturating_add((0..stream).map(bytes).sum());
        start..start.saturating_add(bytes(stream))
    }

    /// Bytes held in memory.
    pub(crate) fn bytes(&self) -> u64 {
        (8 * self.offsets.len() + 4 * self.crcs.len()) as u64
    }
}

fn packed_bytes(table: &BlockTable, rows: u64, block: usize, stream: usize) -> u64 {
    let width = match stream.checked_sub(1) {
        None => key_width(table.key_first[block], table.key_last[block]),
        Some(level) if level < table.levels.len() => table.levels[level].code_bounds(block).width(),
        Some(measure) => table.measures[measure - table.levels.len()].1.encodings[block].width(),
    };
    let rows = block_rows(block, rows);
    (rows.end - rows.start) * width as u64
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32_at(word, 0)).collect()
}
