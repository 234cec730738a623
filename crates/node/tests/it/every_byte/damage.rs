//! What is done to one file.
//!
//! Invariant: after each of these the directory differs from what it was.

use super::files::{File, bytes_of, regions};
use alluvia_storage::{Disk, FaultDisk};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One damage of one file.
#[derive(Clone, Debug)]
pub enum Damage {
    /// Bits of a byte are others.
    Flip {
        at: usize,
        xor: u8,
    },
    /// The file ends early.
    Cut {
        to: usize,
    },
    /// Zeros stand behind it.
    Longer,
    Removed,
    /// It and another file of its kind have one another's names.
    Swapped {
        with: PathBuf,
    },
    /// It is as it was once, or as it is after a stop that was not clean.
    Older {
        bytes: Arc<Vec<u8>>,
    },
}

impl Damage {
    /// What a tally counts it as.
    pub fn sort(&self) -> &'static str {
        match self {
            Damage::Flip { .. } => "flipped",
            Damage::Cut { .. } => "cut",
            Damage::Longer => "longer",
            Damage::Removed => "removed",
            Damage::Swapped { .. } => "swapped",
            Damage::Older { .. } => "older",
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Flip { at, xor } => write!(to, "byte {at} xor {xor:#04x}"),
            Damage::Cut { to: len } => write!(to, "cut to {len} bytes"),
            Damage::Longer => write!(to, "eight zeros behind it"),
            Damage::Removed => write!(to, "removed"),
            Damage::Swapped { with } => write!(to, "swapped with {}", with.display()),
            Damage::Older { bytes } => write!(to, "an older copy of {} bytes", bytes.len()),
        }
    }
}

fn put(disk: &FaultDisk, path: &Path, bytes: &[u8]) {
    if disk.exists(path) {
        disk.remove(path).expect("it goes");
    }
    disk.create(path).expect("it is made").write_all_at(bytes, 0).expect("it is written");
}

/// Does it.
pub fn apply(disk: &FaultDisk, path: &Path, damage: &Damage) {
    match damage {
        Damage::Flip { at, xor } => disk.corrupt(path, *at as u64, *xor),
        Damage::Cut { to } => disk.open(path).and_then(|file| file.set_len(*to as u64)).expect("it is cut"),
        Damage::Longer => {
            let file = disk.open(path).expect("it is there");
            file.len().and_then(|len| file.write_all_at(&[0; 8], len)).expect("it is written");
        }
        Damage::Removed => disk.remove(path).expect("it goes"),
        Damage::Swapped { with } => {
            let (one, other) = (bytes_of(disk, path), bytes_of(disk, with));
            put(disk, path, &other);
            put(disk, with, &one);
        }
        Damage::Older { bytes } => put(disk, path, bytes),
    }
}

/// Everything but flips: cuts at each boundary and before it, and what is done to whole files.
pub fn of_whole(file: &File, all: &[File], older: &[Arc<FaultDisk>]) -> Vec<Damage> {
    let mut found = vec![Damage::Removed, Damage::Longer];
    let ends = regions(file).into_iter().flat_map(|region| [region.bytes.start, region.bytes.end - 1]);
    let mut cuts: Vec<usize> = ends.filter(|&at| at < file.bytes.len()).collect();
    cuts.sort_unstable();
    cuts.dedup();
    found.extend(cuts.into_iter().map(|to| Damage::Cut { to }));
    let others = all.iter().filter(|other| other.kind == file.kind && other.path > file.path);
    let others = others.filter(|other| other.bytes != file.bytes);
    found.extend(others.map(|other| Damage::Swapped { with: other.path.clone() }));
    let mut versions = vec![file.bytes.clone()];
    for disk in older.iter().filter(|disk| disk.exists(&file.path)) {
        let bytes = bytes_of(disk, &file.path);
        if !versions.contains(&bytes) {
            versions.push(bytes.clone());
            found.push(Damage::Older { bytes: Arc::new(bytes) });
        }
    }
    found
}
