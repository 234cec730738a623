//! The fixed parts of the side file: header, section table, trailer.
//!
//! All numbers are little-endian. The header says whose file it is, so that a file under a wrong name is noticed even where
//! every checksum holds; the trailer is found from the end, because sections are written last.

use crate::layout::{BLOCK_ROWS, STRIPE_BLOCKS};
use alluvia_types::{Error, ErrorKind, Result, SegmentId, TableId};
use crc32c::crc32c;
use std::path::Path;

/// First and last bytes of a side file; the last two are the format version.
const MAGIC: &[u8; 8] = b"ALVSID01";
/// Length of the header.
pub(crate) const HEADER_BYTES: usize = 64;
/// Length of the trailer.
pub(crate) const TRAILER_BYTES: usize = 24;
/// Length of one entry of the section table.
pub(crate) const ENTRY_BYTES: usize = 24;
/// More sections than any version writes: a bound for reading.
const SECTIONS_MAX: u32 = 4096;

/// What a section holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SectionKind {
    /// Checksums of the Parquet file's chunks.
    Checks,
    /// Offsets and checksums of the stripes.
    Stripes,
    /// Bounds, NULL counts and measures per block.
    Blocks,
    /// Codes present per level and block.
    Presence,
    /// Of a rung only: which of its rows are of which block of the segment that it hangs from.
    Parents,
    /// Of a segment with a ladder: its heavy rows.
    Heavy,
    /// Of a banded segment: where the bands of its blocks end.
    Bands,
    /// Of a rung: where its rows lie in the blocks that they are of.
    Places,
}

impl SectionKind {
    /// All kinds, in file order.
    pub(crate) const ALL: [SectionKind; 8] = [
        SectionKind::Checks,
        SectionKind::Stripes,
        SectionKind::Blocks,
        SectionKind::Presence,
        SectionKind::Parents,
        SectionKind::Heavy,
        SectionKind::Bands,
        SectionKind::Places,
    ];

    fn number(self) -> u32 {
        match self {
            SectionKind::Checks => 1,
            SectionKind::Stripes => 2,
            SectionKind::Blocks => 3,
            SectionKind::Presence => 4,
            SectionKind::Parents => 5,
            SectionKind::Heavy => 6,
            SectionKind::Bands => 7,
            SectionKind::Places => 9,
        }
    }

    /// What errors call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SectionKind::Checks => "checks",
            SectionKind::Stripes => "stripes",
            SectionKind::Blocks => "blocks",
            SectionKind::Presence => "presence",
            SectionKind::Parents => "parents",
            SectionKind::Heavy => "heavy",
            SectionKind::Bands => "bands",
            SectionKind::Places => "places",
        }
    }
}

/// The header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) segment: SegmentId,
    pub(crate) table: TableId,
    /// Levels that have a stream in each stripe.
    pub(crate) levels: u32,
    /// Measures that have a stream behind the levels'.
    pub(crate) measures: u32,
}

/// One section of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Section {
    pub(crate) kind: u32,
    pub(crate) crc: u32,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// The fixed end of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trailer {
    pub(crate) sections: u32,
    /// Of the section table.
    pub(crate) crc: u32,
    /// Rows of the segment; a writer learns the count last.
    pub(crate) rows: u64,
}

/// An error that names the file and the section.
pub(crate) fn corrupt(path: &Path, section: &str, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{}, section {section}: {what}", path.display()))
        .with_hint("the file is damaged; run `alluvia check` and restore the data directory from a copy")
}

/// The header's bytes.
pub(crate) fn encode_header(header: &Header) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0..8].copy_from_slice(MAGIC);
    bytes[8..16].copy_from_slice(&header.segment.0.to_le_bytes());
    bytes[16..20].copy_from_slice(&header.table.0.to_le_bytes());
    bytes[20..24].copy_from_slice(&header.levels.to_le_bytes());
    bytes[24..28].copy_from_slice(&(BLOCK_ROWS as u32).to_le_bytes());
    bytes[28..32].copy_from_slice(&(STRIPE_BLOCKS as u32).to_le_bytes());
    bytes[32..36].copy_from_slice(&header.measures.to_le_bytes());
    let crc = crc32c(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Reads the header and compares it with what the manifest says. Gives the numbers of levels and measures.
pub(crate) fn check_header(path: &Path, bytes: &[u8], segment: SegmentId, table: TableId) -> Result<(u32, u32)> {
    let bytes: &[u8; HEADER_BYTES] =
        bytes.try_into().map_err(|_| corrupt(path, "header", "the file is too short to have one"))?;
    check_magic(path, "header", &bytes[0..8])?;
    if crc32c(&bytes[..HEADER_BYTES - 4]) != u32_at(bytes, HEADER_BYTES - 4) {
        return Err(corrupt(path, "header", "checksum mismatch"));
    }
    let (found_segment, found_table) = (SegmentId(u64_at(bytes, 8)), TableId(u32_at(bytes, 16)));
    if (found_segment, found_table) != (segment, table) {
        let what = format!(
            "it belongs to segment {found_segment} of table {found_table}, not to segment {segment} of table {table}"
        );
        return Err(corrupt(path, "header", what));
    }
    if (u32_at(bytes, 24), u32_at(bytes, 28)) != (BLOCK_ROWS as u32, STRIPE_BLOCKS as u32) {
        let message = format!("{}: block and stripe sizes are of another build of Alluvia", path.display());
        return Err(
            Error::new(ErrorKind::IncompatibleFormat, message).with_hint("open it with the build that wrote it")
        );
    }
    Ok((u32_at(bytes, 20), u32_at(bytes, 32)))
}

/// The section table and the trailer.
pub(crate) fn encode_end(sections: &[Section], rows: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(sections.len() * ENTRY_BYTES + TRAILER_BYTES);
    for section in sections {
        bytes.extend(section.kind.to_le_bytes());
        bytes.extend(section.crc.to_le_bytes());
        bytes.extend(section.offset.to_le_bytes());
        bytes.extend(section.len.to_le_bytes());
    }
    bytes.extend(rows.to_le_bytes());
    bytes.extend((sections.len() as u32).to_le_bytes());
    bytes.extend(crc32c(&bytes).to_le_bytes());
    bytes.extend(MAGIC);
    bytes
}

/// Reads the trailer. The section table lies right before it; its checksum covers both.
pub(crate) fn decode_trailer(path: &Path, bytes: &[u8]) -> Result<Trailer> {
    let bytes: &[u8; TRAILER_BYTES] =
        bytes.try_into().map_err(|_| corrupt(path, "trailer", "the file is too short to have one"))?;
    check_magic(path, "trailer", &bytes[16..24])?;
    let trailer = Trailer { rows: u64_at(bytes, 0), sections: u32_at(bytes, 8), crc: u32_at(bytes, 12) };
    if trailer.sections > SECTIONS_MAX {
        return Err(corrupt(path, "trailer", format!("it counts {} sections", trailer.sections)));
    }
    Ok(trailer)
}

/// Reads the section table: the bytes from its first entry up to and without the trailer's checksum.
pub(crate) fn decode_sections(path: &Path, bytes: &[u8], trailer: &Trailer) -> Result<Vec<Section>> {
    if crc32c(bytes) != trailer.crc {
        return Err(corrupt(path, "trailer", "checksum mismatch"));
    }
    let entries = bytes[..trailer.sections as usize * ENTRY_BYTES].chunks_exact(ENTRY_BYTES);
    let section = |entry: &[u8]| Section {
        kind: u32_at(entry, 0),
        crc: u32_at(entry, 4),
        offset: u64_at(entry, 8),
        len: u64_at(entry, 16),
    };
    Ok(entries.map(section).collect())
}

impl Section {
    /// A section over these bytes.
    pub(crate) fn over(kind: SectionKind, offset: u64, payload: &[u8]) -> Section {
        Section { kind: kind.number(), crc: crc32c(payload), offset, len: payload.len() as u64 }
    }

    pub(crate) fn is(&self, kind: SectionKind) -> bool {
        self.kind == kind.number()
    }
}

fn check_magic(path: &Path, section: &str, bytes: &[u8]) -> Result<()> {
    if bytes == MAGIC {
        return Ok(());
    }
    if bytes[..6] == MAGIC[..6] && bytes[6..].iter().all(u8::is_ascii_digit) {
        let version = String::from_utf8_lossy(&bytes[6..]);
        let message = format!("{} has side-file format {version}; this build reads 01", path.display());
        return Err(
            Error::new(ErrorKind::IncompatibleFormat, message).with_hint("open it with a newer build of Alluvia")
        );
    }
    Err(corrupt(path, section, "it does not have the magic of a side file"))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}
