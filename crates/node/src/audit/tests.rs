//! The audit log is a chain: a line that is changed, cut or missing is found.

use super::*;
use alluvia_storage::FaultDisk;

fn disk() -> Arc<FaultDisk> {
    let disk = FaultDisk::new();
    disk.create_dir_all(Path::new("/db")).unwrap();
    disk
}

/// Of which a file holds three lines at most.
fn log(disk: &Arc<FaultDisk>) -> AuditLog {
    AuditLog::new(Arc::clone(disk) as Arc<dyn Disk>, Path::new("/db"), 230)
}

fn add(log: &AuditLog, text: &str) -> Result<()> {
    log.append(format!("{{\"line\":\"{text}\"}}\n").as_bytes())
}

/// The texts of the newest lines.
fn shown(log: &AuditLog, bytes_max: u64) -> Vec<String> {
    let text = String::from_utf8(log.tail(bytes_max).unwrap()).unwrap();
    text.lines().map(|line| line.split('"').nth(3).unwrap().to_owned()).collect()
}

/// What is found of all files as they are.
fn found(log: &AuditLog) -> Vec<Found> {
    let mut verifier = Verifier::new(log.mark().unwrap());
    let mut all = Vec::new();
    for number in log.numbers().unwrap() {
        let bytes = read(log, number);
        let lines: Vec<&[u8]> =
            bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n")).collect();
        all.extend(verifier.verify(number, &lines));
    }
    all.extend(verifier.missing_end().map(Found::Finding));
    all
}

fn read(log: &AuditLog, number: u64) -> Vec<u8> {
    let file = log.disk.open(&log.path(number)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn lines_are_kept_and_chained_across_restarts_in_files_of_bounded_size() {
    let disk = disk();
    assert!(shown(&log(&disk), 1_000).is_empty());
    for process in 0..2 {
        let log = log(&disk);
        (0..4).for_each(|line| add(&log, &format!("{process}.{line}")).unwrap());
        if process == 0 {
            log.mark_end().unwrap();
        }
    }
    let log = log(&disk);
    assert_eq!(log.numbers().unwrap(), [1, 2, 3, 4]);
    assert_eq!(shown(&log, 10_000), ["0.0", "0.1", "0.2", "0.3", "1.0", "1.1", "1.2", "1.3"]);
    assert_eq!(found(&log), []);
    // Whole lines, the newest of them.
    assert_eq!(shown(&log, 150), ["1.3"]);
    assert!(shown(&log, 5).is_empty());
    add(&log, &"long ".repeat(100)).unwrap();
    assert_eq!((log.numbers().unwrap().len(), found(&log)), (5, Vec::new()));
}

#[test]
fn a_disk_that_stays_full_is_not_filled_with_empty_files() {
    let disk = disk();
    let log = log(&disk);
    add(&log, "first").unwrap();
    let len = read(&log, 1).len() as u64;
    for bytes_max in [len, len + 9] {
        // Nothing of the line fits, or a part of it.
        disk.limit_bytes(Some(bytes_max));
        for _ in 0..10 {
            add(&log, "refused").unwrap_err();
        }
        assert_eq!(log.numbers().unwrap(), [1]);
    }
    disk.limit_bytes(None);
    add(&log, "second").unwrap();
    assert_eq!((shown(&log, 1_000), log.numbers().unwrap()), (vec!["first".into(), "second".into()], vec![1, 2]));
    // One that holds a line stays, whatever tore behind it.
    disk.fail_write(1);
    add(&log, "third").unwrap_err();
    add(&log, "fourth").unwrap();
    assert_eq!((shown(&log, 1_000).len(), log.numbers().unwrap()), (3, vec![1, 2, 3]));
    assert_eq!(found(&log), []);
    // A line that is there, and was not acknowledged.
    disk.fail_sync(1);
    add(&log, "fifth").unwrap_err();
    add(&log, "sixth").unwrap();
    assert!(matches!(&found(&log)[..], [Found::Notice(what)] if what.contains("not acknowledged")));
}

#[test]
fn a_torn_line_is_passed_over_and_nothing_is_added_behind_it() {
    let disk = disk();
    let first = log(&disk);
    add(&first, "whole").unwrap();
    let file = disk.open(&first.path(1)).unwrap();
    file.write_all_at(b"{\"line\":\"to", file.len().unwrap()).unwrap();
    assert_eq!(shown(&first, 1_000), ["whole"]);
    let second = log(&disk);
    add(&second, "next").unwrap();
    assert_eq!((second.numbers().unwrap(), found(&second)), (vec![1, 2], Vec::new()));
    assert_eq!(shown(&second, 1_000), ["whole", "next"]);
}

/// What is lost while nobody has the log stays missed, also when it goes on.
#[test]
fn lines_that_are_cut_between_two_processes_stay_missed() {
    let disk = disk();
    let first = log(&disk);
    (0..4).for_each(|line| add(&first, &line.to_string()).unwrap());
    first.mark_end().unwrap();
    assert_eq!(found(&first), []);
    disk.remove(&first.path(2)).unwrap();
    assert_eq!(found(&first), [Found::Finding("00000002.ndjson".to_owned())]);
    let second = log(&disk);
    add(&second, "later").unwrap();
    second.mark_end().unwrap();
    assert_eq!(second.numbers().unwrap(), [1, 3]);
    assert!(matches!(&found(&second)[..], [Found::Finding(what)] if what.contains("00000002.ndjson is not there")));

    // The last line of a file.
    let bytes = read(&second, 1);
    let end = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let disk = self::disk();
    let first = log(&disk);
    (0..3).for_each(|line| add(&first, &line.to_string()).unwrap());
    first.mark_end().unwrap();
    disk.open(&first.path(1)).unwrap().set_len(end as u64).unwrap();
    let missed =
        |log: &AuditLog| assert!(matches!(&found(log)[..], [Found::Finding(what)] if what.contains("missing")));
    missed(&first);
    let second = log(&disk);
    add(&second, "later").unwrap();
    second.mark_end().unwrap();
    missed(&second);
}

#[test]
fn a_log_of_an_earlier_build_goes_on_chained() {
    let disk = disk();
    let log = log(&disk);
    disk.create_dir_all(&log.dir).unwrap();
    disk.create(&log.path(1)).unwrap().write_all_at(b"{\"line\":\"old\"}\n", 0).unwrap();
    add(&log, "new").unwrap();
    assert_eq!((shown(&log, 1_000), found(&log)), (vec!["old".into(), "new".into()], Vec::new()));
}
