//! What box queries over one table could gain by passing over its blocks together: `cargo run -p alluvia-tree --example shared_passes`.
//!
//! Codes and values are unpacked by no query: streams lie packed in memory, shared by all, and filters and sums work on them as they are. So a
//! shared pass saves nothing but the way from memory to the processor's caches. This measures that at its best: rows in random order, so
//! that every block is cut, more of them than the caches hold, and pieces that fit the second-level cache, each asked
//! all questions (together) or each question asked of all pieces (alone). Same calls, same work, another order.
#![allow(clippy::disallowed_methods)] // an example measures with the machine's clock

use alluvia_space::*;
use alluvia_storage::{Cache, Disk, RealDisk};
use alluvia_tree::*;
use alluvia_types::{ColumnId, Result, SegmentId, Stage, TableId};
use arrow::array::{ArrayRef, Int32Array, RecordBatch, UInt64Array};
use std::sync::Arc;
use std::time::Instant;

const DIMENSIONS: usize = 8;
const MEMBERS: u64 = 200;
const PIECE_ROWS: usize = 8 * BLOCK_ROWS;
const QUESTIONS: usize = 32;

fn main() -> Result<()> {
    let pieces: usize = std::env::args().nth(1).and_then(|pieces| pieces.parse().ok()).unwrap_or(192);
    let dir = tempfile::tempdir().expect("a directory");
    let disk = Arc::new(RealDisk::new()) as Arc<dyn Disk>;
    let context = TreeContext::new(disk, Arc::new(Cache::new(4 << 30)), dir.path());
    let table = table();
    let mut random = Random(7);
    let mut segments = Vec::with_capacity(pieces);
    for at in 0..pieces {
        let chunk = chunk(&table, &mut random);
        let mut writer = SegmentWriter::create(&context, SegmentId(1 + at as u64), &table, Stage::Merged, None)?;
        writer.write(&chunk)?;
        segments.push(SegmentRows {
            segment: Segment::open(&context, writer.finish()?)?,
            above: None,
            through: None,
            dead: None,
        });
    }
    println!("{} rows in {pieces} pieces, {DIMENSIONS} dimensions of a byte, a measure of four", pieces * PIECE_ROWS);
    for (filters, share) in [(1, 50), (3, 50), (3, 10), (6, 70)] {
        let questions: Vec<BoxQuery> = (0..QUESTIONS).map(|_| question(&table, &mut random, filters, share)).collect();
        let alone = |questions: &[BoxQuery], segments: &[SegmentRows]| {
            for question in questions {
                ask(std::slice::from_ref(question), segments);
            }
        };
        // Whoever asks first brings everything into memory.
        alone(&questions, &segments);
        let (mut by_question, mut by_piece) = ([f64::MAX; 2], [f64::MAX; 2]);
        for _ in 0..5 {
            for threads in [1, 2] {
                // Alone, each thread has questions of its own; together, pieces.
                let start = Instant::now();
                std::thread::scope(|scope| {
                    for part in questions.chunks(QUESTIONS / threads) {
                        scope.spawn(|| alone(part, &segments));
                    }
                });
                by_question[threads - 1] = by_question[threads - 1].min(start.elapsed().as_secs_f64());
                let start = Instant::now();
                std::thread::scope(|scope| {
                    for part in segments.chunks(pieces.div_ceil(threads)) {
                        scope.spawn(|| part.iter().for_each(|piece| ask(&questions, std::slice::from_ref(piece))));
                    }
                });
                by_piece[threads - 1] = by_piece[threads - 1].min(start.elapsed().as_secs_f64());
            }
        }
        // Many clients, each with threads of its own for a question, or with one.
        let clients = 8;
        let of_threads = [1, 2].map(|threads| {
            let start = Instant::now();
            std::thread::scope(|scope| {
                for part in questions.chunks(QUESTIONS / clients) {
                    let segments = &segments;
                    scope.spawn(move || {
                        for question in part {
                            let mut found = Answer::new(question, GroupKeys::new(Vec::new()).expect("one group"));
                            assert!(answer(question, segments, threads, &mut found).expect("reads"));
                            std::hint::black_box(&found);
                        }
                    });
                }
            });
            1e3 * start.elapsed().as_secs_f64() / QUESTIONS as f64
        });
        println!(
            "{clients} clients: {:.2} ms a question with a thread each, {:.2} with two",
            of_threads[0], of_threads[1]
        );
        for threads in [1, 2] {
            let ms = |seconds: f64| 1e3 * seconds / QUESTIONS as f64;
            let (alone, together) = (ms(by_question[threads - 1]), ms(by_piece[threads - 1]));
            println!(
                "{filters} filters of {share} %, {threads} threads: alone {alone:.2} ms a question, together {together:.2}, {:.2} times",
                alone / together
            );
        }
    }
    Ok(())
}

fn ask(questions: &[BoxQuery], segments: &[SegmentRows]) {
    for question in questions {
        let mut found = Answer::new(question, GroupKeys::new(Vec::new()).expect("one group"));
        for piece in segments {
            assert!(answer(question, std::slice::from_ref(piece), 1, &mut found).expect("reads"));
        }
        std::hint::black_box(&found);
    }
}

fn question(table: &TableDef, random: &mut Random, filters: usize, share: u64) -> BoxQuery {
    let first = random.below(DIMENSIONS as u64) as usize;
    let filters = (0..filters).map(|at| LevelFilter {
        level: (first + at) % DIMENSIONS,
        codes: CodeSet::of_codes((1..=MEMBERS as u32).filter(|_| random.below(100) < share).collect()),
    });
    let wanted = Wanted { sum: true, ..Wanted::default() };
    BoxQuery {
        filters: filters.collect(),
        times: Vec::new(),
        groups: Vec::new(),
        measures: vec![WantedMeasure { column: table.measures[0], is_float: false, wanted }],
    }
}

fn table() -> TableDef {
    let name = |at: usize| if at < DIMENSIONS { format!("d{at}") } else { "cents".to_owned() };
    let columns: Vec<Column> = (0..=DIMENSIONS)
        .map(|at| Column {
            id: ColumnId(at as u32),
            name: name(at),
            storage_name: name(at),
            data_type: DataType::Int32,
            nullable: false,
            chars_max: None,
        })
        .collect();
    let dimensions = columns[..DIMENSIONS].iter().map(|column| Dimension {
        name: column.name.clone(),
        levels: vec![Level { name: column.name.clone(), source: LevelSource::Column(column.id), bits: 8 }],
        range: KeyRange::None,
        zone: None,
    });
    TableDef {
        id: TableId(1),
        schema: "public".to_owned(),
        name: "sales".to_owned(),
        dimensions: dimensions.collect(),
        measures: vec![columns[DIMENSIONS].id],
        next_column_id: columns.len() as u32,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        key: None,
        columns,
        seed: 1,
        options: TableOptions::default(),
    }
}

fn chunk(table: &TableDef, random: &mut Random) -> RowChunk {
    let levels: Vec<Vec<u32>> =
        (0..DIMENSIONS).map(|_| (0..PIECE_ROWS).map(|_| 1 + random.below(MEMBERS) as u32).collect()).collect();
    let column = |codes: &Vec<u32>| Arc::new(codes.iter().map(|&code| code as i32).collect::<Int32Array>()) as ArrayRef;
    let mut columns: Vec<ArrayRef> = levels.iter().map(column).collect();
    columns.push(Arc::new((0..PIECE_ROWS).map(|_| random.below(1 << 20) as i32).collect::<Int32Array>()));
    columns.push(Arc::new(UInt64Array::from(vec![1; PIECE_ROWS])));
    columns.push(Arc::new(UInt64Array::from_iter_values(0..PIECE_ROWS as u64)));
    let rows = RecordBatch::try_new(segment_schema(table), columns).expect("fits");
    RowChunk::new(rows, vec![0; PIECE_ROWS], LevelCodes { levels })
}

/// xorshift64
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}
