//! Cuboids of a table that has lost rows: no kill tells of these, so what was made of them cannot be followed.
//!
//! Invariant: no cuboid that is being built stays either, since it may be of a snapshot that has the rows.

use super::Cuboids;
use alluvia_types::TableId;

impl Cuboids {
    /// Gives up all cuboids of a table. Shapes that are pinned, or asked for, are built anew.
    pub fn give_up(&self, table: TableId) {
        let _building = self.building.lock();
        let gone: Vec<_> = self.resident.write().extract_if(.., |resident| resident.shape.table == table).collect();
        let mut demand = self.demand.lock();
        for resident in gone {
            if !demand.pins.contains_key(&resident.shape) {
                demand.wanted.entry(resident.shape.clone()).or_default().asked += 1;
            }
        }
    }
}
