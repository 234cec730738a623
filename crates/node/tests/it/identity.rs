//! Values of identity columns across losses of power: none is given twice, whether the log or the manifest has what is
//! taken.

use crate::support::{options, shown_rows};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{Clock, ManualClock};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// What takes values, and gives those that it got.
const TAKES: [&str; 5] = [
    "INSERT INTO t (a) VALUES (1), (2) RETURNING id",
    "SELECT nextval('t_id_seq')",
    "INSERT INTO t (a) SELECT x FROM generate_series(1, 2500) AS s(x) RETURNING id",
    "INSERT INTO t (a) VALUES (3) RETURNING id",
    "SELECT nextval('t_id_seq') FROM generate_series(1, 3) AS s(x)",
];

#[test]
fn no_value_is_given_twice_across_losses_of_power() {
    let mut disk = FaultDisk::new();
    let mut given: BTreeSet<i64> = BTreeSet::new();
    for round in 0..6 {
        let spill = tempfile::tempdir().unwrap();
        let options = DatabaseOptions { spill_dir: Some(spill.path().into()), ..options() };
        let clock = Arc::new(ManualClock::default()) as Arc<dyn Clock>;
        let db = Database::open_on(Arc::clone(&disk) as Arc<dyn Disk>, clock, Path::new("/db"), options).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build();
        runtime.unwrap().block_on(async {
            let session = db.session();
            if round == 0 {
                session.sql("CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY, a INT)").await.unwrap();
            }
            for take in TAKES {
                for value in shown_rows(&session, take).await {
                    let value: i64 = value.parse().unwrap();
                    assert!(given.insert(value), "round {round}, {take}: {value} was given before");
                }
            }
            if round % 2 == 1 {
                session.sql("CALL alluvia.flush()").await.unwrap();
            }
        });
        // What is on the disk now, without a clean end.
        disk = disk.after_power_loss(Survival::SyncedOnly);
    }
    assert_eq!(given.len(), 6 * 2507);
}
