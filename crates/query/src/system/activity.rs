//! `alluvia.queries`, `alluvia.sessions`, `alluvia.settings`, `alluvia.cuboids` and `alluvia.predicate_cache`: what runs, under which
//! settings, and what is kept ready for it.

use super::build::{Cell, Kind};
use super::queries::QueryRow;
use crate::answer::Shape;
use crate::system::SystemContext;

/// Columns of `alluvia.queries`.
pub(crate) const QUERIES: &[(&str, Kind)] = &[
    ("query_id", Kind::Count),
    ("session_id", Kind::Count),
    ("sql", Kind::Text),
    ("started_at", Kind::Time),
    ("duration_seconds", Kind::Seconds),
    ("status", Kind::Text),
    ("sqlstate", Kind::Text),
    ("error", Kind::Text),
    ("rows", Kind::Count),
    ("version", Kind::Count),
    ("lag_seconds", Kind::Seconds),
    ("stage", Kind::Text),
    ("segments_read", Kind::Count),
    ("segments_skipped", Kind::Count),
    ("blocks_read", Kind::Count),
    ("blocks_skipped", Kind::Count),
    ("rows_read", Kind::Count),
    ("tail_rows", Kind::Count),
    ("bytes_read", Kind::Count),
    ("sample", Kind::Text),
    ("user_name", Kind::Text),
    ("phase", Kind::Text),
    ("fraction", Kind::Share),
    ("seconds_left", Kind::Seconds),
];

/// Columns of `alluvia.sessions`.
pub(crate) const SESSIONS: &[(&str, Kind)] = &[
    ("session_id", Kind::Count),
    ("user_name", Kind::Text),
    ("protocol", Kind::Text),
    ("client_address", Kind::Text),
    ("started_at", Kind::Time),
    ("state", Kind::Text),
    ("query_id", Kind::Count),
    ("sql", Kind::Text),
    ("sql_started_at", Kind::Time),
];

/// Columns of `alluvia.settings`.
pub(crate) const SETTINGS: &[(&str, Kind)] = &[
    ("name", Kind::Text),
    ("value", Kind::Text),
    ("default_value", Kind::Text),
    ("scope", Kind::Text),
    ("description", Kind::Text),
];

/// Columns of `alluvia.cuboids`.
pub(crate) const CUBOIDS: &[(&str, Kind)] = &[
    ("table_name", Kind::Text),
    ("levels", Kind::Text),
    ("measures", Kind::Text),
    ("cells", Kind::Count),
    ("bytes", Kind::Count),
    ("pinned", Kind::Text),
    ("hits", Kind::Count),
    ("last_used", Kind::Time),
    ("version", Kind::Count),
    ("build_seconds", Kind::Seconds),
    ("table_schema", Kind::Text),
];

/// Columns of `alluvia.predicate_cache`.
pub(crate) const PREDICATES: &[(&str, Kind)] = &[
    ("table_name", Kind::Text),
    ("segment_id", Kind::Count),
    ("predicate", Kind::Text),
    ("blocks", Kind::Count),
    ("blocks_seen", Kind::Count),
    ("blocks_without_match", Kind::Count),
    ("hits", Kind::Count),
    ("blocks_skipped", Kind::Count),
    ("bytes", Kind::Count),
    ("table_schema", Kind::Text),
];

pub(crate) fn predicates(context: &SystemContext) -> Vec<Vec<Cell>> {
    let listed = context.predicates.list().into_iter().filter_map(|one| {
        let entry = context.snapshot.catalog.by_id(one.table)?;
        // A predicate tells of the rows, by its constants.
        if !context.authoriser.may_read(entry) {
            return None;
        }
        let def = &entry.def;
        Some(vec![
            def.name.as_str().into(),
            one.segment.0.into(),
            one.form.show(Some(def)).into(),
            one.blocks.into(),
            one.blocks_seen.into(),
            one.blocks_empty.into(),
            one.hits.into(),
            one.skipped.into(),
            one.bytes.into(),
            def.schema.as_str().into(),
        ])
    });
    listed.collect()
}

pub(crate) fn cuboids(context: &SystemContext) -> Vec<Vec<Cell>> {
    let named = |shape: &Shape| {
        let entry = context.snapshot.catalog.by_id(shape.table)?;
        // Cells tell how many values there are, and shapes what others ask.
        if !context.authoriser.may_read(entry) {
            return None;
        }
        let def = &entry.def;
        let named = [def.name.as_str().into(), shape.show_levels(def).into(), shape.show_measures(def).into()];
        Some((named, Cell::from(def.schema.as_str())))
    };
    let row = |shape: &Shape, figures: [Cell; 7]| {
        let (named, schema) = named(shape)?;
        Some(named.into_iter().chain(figures).chain([schema]).collect())
    };
    let resident = context.cuboids.list().into_iter().filter_map(|cuboid| {
        let figures = [
            cuboid.cells.into(),
            cuboid.bytes().into(),
            if cuboid.is_pinned() { "YES" } else { "NO" }.into(),
            cuboid.hits().into(),
            cuboid.last_hit_micros().map_or(Cell::Null, Cell::Time),
            cuboid.version().0.into(),
            cuboid.build.into(),
        ];
        row(&cuboid.shape, figures)
    });
    let missing = context.cuboids.pins_missing().into_iter().filter_map(|shape| {
        let figures = [Cell::Null, Cell::Null, "YES".into(), 0_u64.into(), Cell::Null, Cell::Null, Cell::Null];
        row(&shape, figures)
    });
    resident.chain(missing).collect()
}

pub(crate) fn sessions(context: &SystemContext) -> Vec<Vec<Cell>> {
    let row = |session: &std::sync::Arc<crate::clients::Entry>| {
        let client = session.client.lock().clone();
        let state = session.state();
        let running = session.running.lock().clone();
        let text = |text: String| (!text.is_empty()).then_some(text);
        vec![
            session.id.into(),
            text(client.user).into(),
            client.protocol.into(),
            text(client.address).into(),
            Cell::Time(session.start_micros),
            state.into(),
            running.as_ref().map(|now| now.query_id).into(),
            running.as_ref().map(|now| now.sql.clone()).into(),
            running.map_or(Cell::Null, |now| Cell::Time(now.start_micros)),
        ]
    };
    let seen = |session: &&std::sync::Arc<crate::clients::Entry>| context.authoriser.sees(&session.who());
    context.sessions.list().iter().filter(seen).map(row).collect()
}

pub(crate) fn queries(context: &SystemContext) -> Vec<Vec<Cell>> {
    let all = context.authoriser.is_superuser();
    let row = |query: QueryRow| {
        let used = query.used;
        vec![
            query.id.into(),
            query.session.into(),
            query.sql.into(),
            Cell::Time(query.start_micros),
            query.duration.into(),
            query.status.into(),
            query.sqlstate.into(),
            query.error.into(),
            query.rows.into(),
            used.map(|used| used.version.0).into(),
            used.map(|used| used.lag).into(),
            used.map(|used| used.stage.to_string()).into(),
            used.map(|used| used.segments).into(),
            used.map(|used| used.segments_skipped).into(),
            used.map(|used| used.blocks_read).into(),
            used.map(|used| used.blocks_skipped).into(),
            used.map(|used| used.rows_read).into(),
            used.map(|used| used.tail_rows).into(),
            used.map(|used| used.bytes_read).into(),
            used.and_then(|used| used.sample).map(|sample| sample.to_string()).into(),
            (!query.user.is_empty()).then_some(query.user).into(),
            query.report.map(|report| report.doing()).into(),
            query.report.and_then(|report| report.fraction).map_or(Cell::Null, Cell::Share),
            query.report.and_then(|report| report.left).into(),
        ]
    };
    // Statements tell of rows, by their constants.
    let seen = |query: &QueryRow| all || context.authoriser.sees(&query.who);
    context.queries.rows(context.clock.monotonic()).into_iter().filter(seen).map(row).collect()
}

/// The session's settings, then the state of the database, which cannot be set.
pub(crate) fn settings(context: &SystemContext) -> Vec<Vec<Cell>> {
    let info = context.admin.info();
    let settings = context.settings.settings().into_iter().map(|setting| {
        vec![
            setting.name.into(),
            setting.value.into(),
            setting.default_value.into(),
            setting.scope.into(),
            setting.description.into(),
        ]
    });
    let state: [(&str, Cell, &str); 8] = [
        ("visible_version", info.visible.0.to_string().into(), "The newest version that queries can see."),
        ("tail_bytes", info.tail_bytes.to_string().into(), "Bytes of rows that are in memory and the log only."),
        ("tail_bytes_max", info.tail_bytes_max.to_string().into(), "Where ingest starts to wait for the pipeline."),
        ("writers_waiting", info.writers_waiting.to_string().into(), "Writers that wait for room in the tail."),
        ("log_bytes", info.log_bytes.to_string().into(), "Bytes of the log on disk."),
        ("cache_bytes", info.cache_bytes.to_string().into(), "Bytes of files in the block cache."),
        ("read_only", info.read_only.into(), "Why writes are refused; NULL when they are accepted."),
        ("pipeline_error", info.pipeline_error.into(), "Why the last sort or merge failed; NULL when it did not."),
    ];
    let state = state
        .into_iter()
        .map(|(name, value, description)| vec![name.into(), value, Cell::Null, "state".into(), description.into()]);
    settings.chain(state).collect()
}
