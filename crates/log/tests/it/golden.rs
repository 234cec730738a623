//! The format, byte for byte: `golden/format-02.log` is what this version writes, and it and `format-01.log` are what
//! every version reads for ever. They never change; a new format gets a file of its own, written once with
//! `ALLUVIA_WRITE_GOLDEN=1 cargo test -p alluvia-log --test it golden`.

use crate::common::{Found, dir, file, micros, open};
use alluvia_storage::{Disk, FaultDisk, RealDisk, Survival};
use alluvia_types::Version;
use std::path::Path;
use std::sync::Arc;

const FORMAT_01: &[u8] = include_bytes!("../golden/format-01.log");
const FORMAT_02: &[u8] = include_bytes!("../golden/format-02.log");

fn records() -> Found {
    vec![
        (1, micros(1), b"one body".to_vec()),
        (2, micros(2), Vec::new()),
        (3, -3, (0..=255).collect()), // a commit time before 1970
    ]
}

/// Two groups, of two records and of one, and the statement of a clean end.
fn write_log() -> Arc<FaultDisk> {
    let disk = FaultDisk::new();
    let (log, _) = open(&disk, 1 << 20, 0).unwrap();
    for (version, commit_micros, body) in records() {
        log.append(Version(version), commit_micros, &body).unwrap();
        if version >= 2 {
            log.sync_through(Version(version)).unwrap();
        }
    }
    log.seal().unwrap();
    disk
}

fn bytes_of(disk: &FaultDisk) -> Vec<u8> {
    let file = disk.open(&file(1)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn format_02_is_written_as_it_was() {
    let bytes = bytes_of(&write_log());
    if std::env::var_os("ALLUVIA_WRITE_GOLDEN").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/format-02.log");
        let disk = RealDisk::new();
        let golden = if disk.exists(&path) { disk.open(&path) } else { disk.create(&path) }.unwrap();
        golden.set_len(bytes.len() as u64).unwrap();
        return golden.write_all_at(&bytes, 0).unwrap();
    }
    let differs = bytes.iter().zip(FORMAT_02).position(|(written, golden)| written != golden);
    assert_eq!(differs, None, "the first byte that differs; a new format needs a new magic and its own golden file");
    assert_eq!(bytes.len(), FORMAT_02.len());
}

#[test]
fn formats_01_and_02_are_read() {
    for format in [FORMAT_01, FORMAT_02] {
        let disk = FaultDisk::new();
        disk.create_dir_all(dir()).unwrap();
        disk.create(&file(1)).unwrap().write_all_at(format, 0).unwrap();
        let disk = disk.after_power_loss(Survival::Everything);
        let (log, found) = open(&disk, 1 << 20, 0).unwrap();
        assert_eq!(found, records());
        assert_eq!(bytes_of(&disk), format, "reading changes nothing");
        log.append(Version(4), micros(4), b"more").unwrap();
        log.sync_through(Version(4)).unwrap();
        drop(log);
        assert_eq!(open(&disk, 1 << 20, 3).unwrap().1, [(4, micros(4), b"more".to_vec())]);
    }
}
