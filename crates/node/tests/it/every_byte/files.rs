//! The files of a directory: their kinds, and the regions that each is made of (docs/FORMAT.md).
//!
//! Invariant: the regions of a file follow one another from its first byte to its last.

use crate::support::DIR;
use alluvia_snapshot::{MANIFEST_NAME, Manifest};
use alluvia_storage::{Disk, FaultDisk};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One file.
#[derive(Clone, Debug)]
pub struct File {
    pub path: PathBuf,
    pub kind: &'static str,
    pub bytes: Vec<u8>,
}

/// A part of a file that means one thing.
#[derive(Clone, Debug)]
pub struct Region {
    pub name: &'static str,
    pub bytes: Range<usize>,
}

/// What a file holds.
pub fn bytes_of(disk: &FaultDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).expect("it is there");
    let mut bytes = vec![0; file.len().expect("a length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("it is read");
    bytes
}

/// Every file of the data directory.
pub fn files(disk: &FaultDisk) -> Vec<File> {
    let manifest = Manifest::load(disk, Path::new(DIR)).expect("reads").expect("there is one");
    let rungs: BTreeSet<String> = manifest
        .segments()
        .flat_map(|meta| meta.with_rungs().skip(1))
        .flat_map(|rung| ["parquet", "side"].map(|ending| format!("seg-{}.{ending}", rung.id)))
        .collect();
    let mut found = Vec::new();
    for folder in ["", "log", "segments", "audit"] {
        let folder = if folder.is_empty() { PathBuf::from(DIR) } else { Path::new(DIR).join(folder) };
        for entry in disk.read_dir(&folder).expect("lists").into_iter().filter(|entry| !entry.is_dir) {
            let path = folder.join(&entry.name);
            let bytes = bytes_of(disk, &path);
            found.push(File { kind: kind_of(&entry.name, rungs.contains(&entry.name)), path, bytes });
        }
    }
    found
}

fn kind_of(name: &str, is_rung: bool) -> &'static str {
    let begins = |prefix: &str| name.starts_with(prefix);
    match name {
        MANIFEST_NAME => "manifest",
        "log.end" => "mark of the log's end",
        "audit.end" => "mark of the audit log's end",
        "cuboids" => "cuboids",
        "predicates" => "predicates",
        "ages" => "ages",
        "lock" => "lock",
        "holder" => "holder",
        _ if name.ends_with(".log") => "log",
        _ if name.ends_with(".ndjson") => "audit log",
        _ if name.ends_with(".parquet") => {
            if is_rung {
                "rung"
            } else {
                "segment"
            }
        }
        _ if name.ends_with(".side") => {
            if is_rung {
                "side file of a rung"
            } else {
                "side file"
            }
        }
        _ if begins("dict-") => "dictionary",
        _ if begins("kills-") => "kills",
        _ if begins("keys-") => "keys",
        _ => panic!("{name} is of no kind that is known here"),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

fn u64_at(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")) as usize
}

/// Names the bytes from the end of the region before up to `end`.
struct Regions(Vec<Region>);

impl Regions {
    fn end(&self) -> usize {
        self.0.last().map_or(0, |region| region.bytes.end)
    }

    fn to(&mut self, end: usize, name: &'static str) {
        let start = self.end();
        assert!(start <= end, "{name} ends at {end}, and begins at {start}");
        if start < end {
            self.0.push(Region { name, bytes: start..end });
        }
    }
}

/// What a file is made of.
pub fn regions(file: &File) -> Vec<Region> {
    let bytes = &file.bytes;
    let mut regions = Regions(Vec::new());
    match file.kind {
        "log" => log(bytes, &mut regions),
        "segment" | "rung" => parquet(bytes, &mut regions),
        "side file" | "side file of a rung" => side(bytes, &mut regions),
        "kills" => kills(bytes, &mut regions),
        "dictionary" => dictionary(bytes, &mut regions),
        "audit log" => {
            let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
            ends.for_each(|end| regions.to(end, "line"));
        }
        "lock" | "holder" => {}
        _ => {
            regions.to(8, "magic");
            regions.to(16, "length");
            regions.to(20, "checksum");
        }
    }
    regions.to(bytes.len(), "rest");
    regions.0
}

fn log(bytes: &[u8], regions: &mut Regions) {
    regions.to(64, "header of a file");
    while let Some(magic) = bytes.get(regions.end()..regions.end() + 4) {
        let at = regions.end();
        match magic {
            b"GRUP" => regions.to(at + 64, "header of a group"),
            b"BODY" => {
                regions.to(at + 40, "frame of a body");
                regions.to(at + 40 + u64_at(bytes, at + 24), "body");
            }
            b"CMIT" => regions.to(at + 40, "commit record"),
            _ => return,
        }
    }
}

fn parquet(bytes: &[u8], regions: &mut Regions) {
    let len = bytes.len();
    regions.to(4, "magic");
    regions.to(len - 8 - u32_at(bytes, len - 8), "pages and their indexes");
    regions.to(len - 8, "footer");
    regions.to(len, "length and magic");
}

fn side(bytes: &[u8], regions: &mut Regions) {
    const NAMES: [&str; 10] =
        ["", "checks", "stripes", "blocks", "presence", "parents", "heavy", "bands", "", "places"];
    let len = bytes.len();
    let count = u32_at(bytes, len - 16);
    let table = len - 24 - 24 * count;
    let mut sections: Vec<(usize, usize, &'static str)> = (0..count)
        .map(|at| table + 24 * at)
        .map(|at| (u64_at(bytes, at + 8), u64_at(bytes, at + 16), NAMES[u32_at(bytes, at)]))
        .collect();
    sections.sort_unstable();
    regions.to(64, "header");
    // What lies before the first section are the streams of stripes, and the zeros behind them.
    for (at, (start, length, name)) in sections.into_iter().enumerate() {
        regions.to(start, if at == 0 { "streams" } else { "between sections" });
        regions.to(start + length, name);
    }
    regions.to(table, "between sections");
    regions.to(len - 24, "table of sections");
    regions.to(len, "trailer");
}

fn kills(bytes: &[u8], regions: &mut Regions) {
    regions.to(28, "header");
    while regions.end() < bytes.len() {
        let at = regions.end();
        regions.to(at + 16, "header of a section");
        regions.to(at + 16 + u32_at(bytes, at + 12), "rows and versions");
        regions.to(at + 20 + u32_at(bytes, at + 12), "checksum");
    }
}

fn dictionary(bytes: &[u8], regions: &mut Regions) {
    let levels = u32_at(bytes, 12);
    regions.to(16 + levels + 4, "header");
    while regions.end() < bytes.len() {
        let at = regions.end();
        regions.to(at + 8, "header of a group");
        regions.to(at + 8 + u32_at(bytes, at + 4), "members");
    }
}
