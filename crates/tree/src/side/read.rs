//! Reading of a side file.

use super::format::{
    ENTRY_BYTES, HEADER_BYTES, Section, SectionKind, TRAILER_BYTES, check_header, corrupt, decode_sections,
    decode_trailer, u32_at, u64_at,
};
use super::pack::{code_width, key_width};
use crate::layout::{STRIPE_BLOCKS, block_rows, blocks_of};
use crate::summary::{BlockTable, LevelSummary, decode_presence};
use alluvia_storage::{CheckedFile, FileChecks};
use alluvia_types::{Result, SegmentId, TableId};
use bytes::Bytes;
use crc32c::crc32c;
use std::ops::Range;
use std::path::PathBuf;

/// An open side file whose fixed parts hold.
#[derive(Debug)]
pub(crate) struct SideFile {
    file: CheckedFile,
    path: PathBuf,
    sections: Vec<Section>,
    /// Where the sections end.
    end: u64,
    pub(crate) levels: usize,
    pub(crate) rows: u64,
}

/// Where the packed keys and codes lie.
#[derive(Debug)]
pub(crate) struct Stripes {
    offsets: Vec<u64>,
    /// Per stripe: of the keys, then of each level.
    crcs: Vec<u32>,
}

impl SideFile {
    /// Checks the fixed parts. `len` is the file's length, as its checksums state it.
    pub(crate) fn open(
        file: CheckedFile,
        path: PathBuf,
        len: u64,
        segment: SegmentId,
        table: TableId,
    ) -> Result<SideFile> {
        if len < (HEADER_BYTES + TRAILER_BYTES) as u64 {
            return Err(corrupt(&path, "trailer", "the file is too short to have one"));
        }
        let in_section = |name: &'static str| move |error: alluvia_types::Error| error.at(format!("section {name}"));
        let header = file.read(0..HEADER_BYTES as u64).map_err(in_section("header"))?;
        let levels = check_header(&path, &header, segment, table)? as usize;
        let trailer_at = len - TRAILER_BYTES as u64;
        let trailer = file.read(trailer_at..len).map_err(in_section("trailer"))?;
        let trailer = decode_trailer(&path, &trailer)?;
        let end = trailer_at.checked_sub(u64::from(trailer.sections) * ENTRY_BYTES as u64);
        let end = end.ok_or_else(|| corrupt(&path, "trailer", "the section table is longer than the file"))?;
        // The checksum also covers the trailer's row count and section count.
        let table_bytes = file.read(end..trailer_at + 12).map_err(in_section("trailer"))?;
        let sections = decode_sections(&path, &table_bytes, &trailer)?;
        Ok(SideFile { file, path, sections, end, levels, rows: trailer.rows })
    }

    /// A section's bytes, which pass its checksum.
    fn section(&self, kind: SectionKind) -> Result<Bytes> {
        let section = self.sections.iter().find(|section| section.is(kind));
        let section = section.ok_or_else(|| corrupt(&self.path, kind.name(), "it is missing"))?;
        let end = section.offset.checked_add(section.len).filter(|&end| end <= self.end);
        let end = end.ok_or_else(|| corrupt(&self.path, kind.name(), "it lies outside the file"))?;
        let bytes = self.file.read(section.offset..end).map_err(|error| error.at(format!("section {}", kind.name())))?;
        if crc32c(&bytes) != section.crc {
            return Err(corrupt(&self.path, kind.name(), "checksum mismatch"));
        }
        Ok(bytes)
    }

    /// Checksums of the Parquet file.
    pub(crate) fn parquet_checks(&self) -> Result<FileChecks> {
        let kind = SectionKind::Checks;
        let bytes = self.section(kind)?;
        if bytes.len() < 8 || bytes.len() % 4 != 0 {
            return Err(corrupt(&self.path, kind.name(), "it has the wrong length"));
        }
        Ok(FileChecks { len: u64_at(&bytes, 0), chunk_crcs: words(&bytes[8..]) })
    }

    /// Where stripes lie.
    pub(crate) fn stripes(&self) -> Result<Stripes> {
        let kind = SectionKind::Stripes;
        let bytes = self.section(kind)?;
        let entry = 8 + 4 * (1 + self.levels);
        let count = blocks_of(self.rows).div_ceil(STRIPE_BLOCKS);
        if bytes.len() != count * entry {
            return Err(corrupt(&self.path, kind.name(), "it has the wrong length"));
        }
        let entries = bytes.chunks_exact(entry);
        Ok(Stripes {
            offsets: entries.clone().map(|entry| u64_at(entry, 0)).collect(),
            crcs: entries.flat_map(|entry| words(&entry[8..])).collect(),
        })
    }

    /// Bounds and measures per block.
    pub(crate) fn blocks(&self) -> Result<BlockTable> {
        let kind = SectionKind::Blocks;
        let decoded = BlockTable::decode(self.section(kind)?, blocks_of(self.rows), self.levels);
        decoded.map_err(|what| corrupt(&self.path, kind.name(), what))
    }

    /// Codes present.
    pub(crate) fn presence(&self, table: &BlockTable) -> Result<Vec<LevelSummary>> {
        let kind = SectionKind::Presence;
        decode_presence(self.section(kind)?, table).map_err(|what| corrupt(&self.path, kind.name(), what))
    }

    /// Part of a stripe.
    pub(crate) fn packed(&self, range: Range<u64>, stream: usize, block: usize) -> Result<Bytes> {
        let place = || match stream {
            0 => format!("keys of block {block}"),
            level => format!("codes of level {} of block {block}", level - 1),
        };
        if range.start > range.end || range.end > self.end {
            return Err(corrupt(&self.path, "stripes", format!("{} lie outside the file", place())));
        }
        self.file.read(range).map_err(|error| error.at(place()))
    }

    /// Reads every byte from the disk and checks every checksum.
    pub(crate) fn verify(&self, stripes: &Stripes, table: &BlockTable) -> Result<()> {
        self.file.verify()?;
        for section in &self.sections {
            if let Some(kind) = SectionKind::ALL.into_iter().find(|&kind| section.is(kind)) {
                self.section(kind)?;
            }
        }
        for stripe in 0..stripes.offsets.len() {
            for stream in 0..=self.levels {
                let range = stripes.stream(table, self.rows, stripe, stream);
                let first = stripe * STRIPE_BLOCKS;
                if crc32c(&self.packed(range, stream, first)?) != stripes.crcs[stripe * (1 + self.levels) + stream] {
                    let name = if stream == 0 { "keys".to_owned() } else { format!("codes of level {}", stream - 1) };
                    return Err(corrupt(&self.path, "stripes", format!("checksum mismatch in {name} of stripe {stripe}")));
                }
            }
        }
        Ok(())
    }
}

impl Stripes {
    /// Bytes of one block in one stream: 0 for the keys, 1 + level for codes.
    pub(crate) fn block(&self, table: &BlockTable, rows: u64, block: usize, stream: usize) -> Range<u64> {
        let stripe = block / STRIPE_BLOCKS;
        let start = self.stream(table, rows, stripe, stream).start
            + (stripe * STRIPE_BLOCKS..block).map(|before| packed_bytes(table, rows, before, stream)).sum::<u64>();
        start..start + packed_bytes(table, rows, block, stream)
    }

    /// Bytes of one stream of a stripe.
    fn stream(&self, table: &BlockTable, rows: u64, stripe: usize, stream: usize) -> Range<u64> {
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
        Some(level) => code_width(table.levels[level].mins.value(block), table.levels[level].maxs.value(block)),
    };
    let rows = block_rows(block, rows);
    (rows.end - rows.start) * width as u64
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32_at(word, 0)).collect()
}
