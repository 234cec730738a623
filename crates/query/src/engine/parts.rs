//! Parts of other machines' plans, answered here.

use super::Engine;
use crate::errors::error_of;
use crate::execution::Execution;
use crate::table::{AlluviaTable, IndexUse, StatementContext};
use crate::used::UsedCounters;
use alluvia_snapshot::{Snapshot, Uses};
use alluvia_syntax::units::show_bytes;
use alluvia_types::{Error, ErrorKind, Result, TableId};
use arrow::array::RecordBatch;
use datafusion::execution::TaskContext;
use futures::TryStreamExt;
use futures::executor::block_on;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Engine {
    /// What the rows of a table in a snapshot answer to a part of a plan ([`alluvia_spread::part`]), by what `uses` allows, else with the
    /// settings of a new session, within the memory of one statement, which the answer has, too. Blocks: for threads that may.
    ///
    /// Errors: those of planning and running it; `Internal` if the table is not in the snapshot.
    pub fn answer_part(&self, snapshot: Snapshot, table: TableId, part: &[u8], uses: Uses) -> Result<Vec<RecordBatch>> {
        let read = snapshot.tables.get(&table);
        let entry = read.map(|read| Arc::clone(&read.entry));
        let entry = entry.ok_or_else(|| Error::internal(format!("table {table} is not in the snapshot")))?;
        let settings = self.default_settings();
        let (mut state, runtime) = self.statement_state(&settings);
        let snapshot = Arc::new(snapshot);
        state.config_mut().set_extension(Arc::new(StatementContext {
            store: Arc::clone(self.read()),
            used: UsedCounters::new(&snapshot),
            snapshot,
            pending: BTreeMap::new(),
            temporary: BTreeMap::new(),
            sample_fraction: 1.0,
            cuboids: Arc::clone(self.cuboids()),
            skipping: uses.predicates.then(|| Arc::clone(self.predicates())),
            scans: Arc::clone(self.scans()),
            index: IndexUse {
                rule: uses.index,
                cuboids: uses.cuboids,
                accuracy: None,
                threads: settings.threads,
                kept: Arc::clone(self.kept()),
            },
        }));
        let table = Arc::new(AlluviaTable::new(entry));
        let plan = block_on(alluvia_spread::planned(part, table, &state)).map_err(|error| error_of(&error))?;
        let task = Arc::new(TaskContext::from(&state).with_runtime(runtime));
        let execution = Execution { executor: Arc::clone(self.executor()), plan, task, again: None };
        let mut rows = execution.start()?;
        let (mut answer, mut bytes) = (Vec::new(), 0);
        while let Some(batch) = block_on(rows.try_next()).map_err(|error| error_of(&error))? {
            bytes += batch.get_array_memory_size() as u64;
            if bytes > settings.memory_limit_bytes {
                let what = format!("what one shard answers has more than {}", show_bytes(settings.memory_limit_bytes));
                return Err(Error::new(ErrorKind::OutOfMemory, what)
                    .with_hint("ask for fewer rows or columns; a larger memory_limit of the workers holds more"));
            }
            answer.push(batch);
        }
        Ok(answer)
    }
}
