//! Messages as bytes.
//!
//! ```text
//! message := head_length:u32 head attachment*
//! attachment := length:u64 byte*
//! ```
//!
//! The head is JSON, and says what the attachments are: bodies of batches, parts of plans, and rows as an Arrow IPC stream. All integers are little-endian.

use alluvia_cluster::message::{FromBodies, FromKeeper, FromWorker, ToBodies, ToKeeper, ToWorker, Uses, WorkerStatus};
use alluvia_cluster::{
    BatchId, CopiedTo, Decided, Decision, Epoch, Feed, Image, NodeId, Outcome, Proposal, Role, Staged, What,
};
use alluvia_types::{Error, ErrorKind, Result, Stage, TableId, Version};
use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a node is asked.
#[derive(Clone, Debug)]
pub enum Question {
    /// As a keeper.
    Keeper(ToKeeper),
    /// As a worker.
    Worker(ToWorker),
}

/// What it answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// As a keeper.
    Keeper(FromKeeper),
    /// As a worker.
    Worker(FromWorker),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum QuestionHead {
    Propose {
        decided: Box<Decided>,
        checked: Vec<(TableId, Version)>,
        unwritten: Vec<(TableId, Version)>,
        looked: Vec<(TableId, Version)>,
    },
    Join {
        node: NodeId,
        process: u64,
        roles: Vec<Role>,
        address: String,
    },
    Numbers {
        count: u32,
    },
    Feed {
        after: Version,
        durable: Option<(NodeId, Version)>,
    },
    Stage(StagedHead),
    Fetch {
        batch: BatchId,
        shard: TableId,
    },
    Rows {
        shard: TableId,
        version: Version,
    },
    Copy {
        shard: TableId,
        version: Version,
        from: Option<CopiedTo>,
    },
    GiveUpCopy {
        node: NodeId,
        shard: TableId,
    },
    Beat {
        node: NodeId,
        durable: Version,
    },
    Ask {
        shard: TableId,
        version: Version,
        uses: Uses,
    },
    Look {
        shard: TableId,
        at_least: Version,
        computed_at: Vec<Option<Version>>,
    },
    Status,
    Organise {
        stage: Stage,
        version: Version,
    },
}

/// A body, which is attached.
#[derive(Serialize, Deserialize)]
struct StagedHead {
    batch: BatchId,
    shard: TableId,
    epoch: Epoch,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AnswerHead {
    Refused { kind: String, message: String, hint: Option<String> },
    Outcome { version: Version, duplicate: bool },
    Joined { incarnation: u64, cluster: u64 },
    Numbers { first: TableId },
    Decisions { decisions: Vec<DecisionHead>, newest: Version, followed: Version },
    Image { image: Box<Image>, newest: Version, followed: Version },
    Staged,
    Body(Option<StagedHead>),
    Rows,
    Copied { next: Option<CopiedTo> },
    GivenUp,
    Heard,
    Looked { version: Version, passed_over: u64 },
    Status(WorkerStatus),
    Organised,
}

#[derive(Serialize, Deserialize)]
struct DecisionHead {
    version: Version,
    commit_micros: i64,
    what: What,
}

fn message(head: &impl Serialize, attachments: &[&[u8]]) -> Result<Bytes> {
    let head = serde_json::to_vec(head).map_err(|error| Error::internal(format!("a message: {error}")))?;
    let bytes = attachments.iter().map(|attached| 8 + attached.len()).sum::<usize>();
    let mut out = Vec::with_capacity(4 + head.len() + bytes);
    out.extend_from_slice(&(head.len() as u32).to_le_bytes());
    out.extend_from_slice(&head);
    for attached in attachments {
        out.extend_from_slice(&(attached.len() as u64).to_le_bytes());
        out.extend_from_slice(attached);
    }
    Ok(out.into())
}

/// A head, and what is behind it.
fn read<T: for<'de> Deserialize<'de>>(bytes: &Bytes) -> Result<(T, Attached)> {
    let mut rest = Attached(bytes.clone());
    let len = u32::from_le_bytes(rest.take(4)?.as_ref().try_into().expect("4 bytes"));
    let head = rest.take(len as usize)?;
    let head = serde_json::from_slice(&head).map_err(|error| damaged(&format!("its head: {error}")))?;
    Ok((head, rest))
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("a message of another node is none: {what}"))
        .with_hint("all nodes of a cluster run the same version of Alluvia")
}

struct Attached(Bytes);

impl Attached {
    fn take(&mut self, len: usize) -> Result<Bytes> {
        if len > self.0.len() {
            return Err(damaged("it ends early"));
        }
        Ok(self.0.split_to(len))
    }

    /// The next attachment.
    fn next(&mut self) -> Result<Bytes> {
        let len = u64::from_le_bytes(self.take(8)?.as_ref().try_into().expect("8 bytes"));
        self.take(usize::try_from(len).map_err(|_| damaged("it ends early"))?)
    }
}

fn head_of(staged: &Staged) -> StagedHead {
    StagedHead { batch: staged.batch, shard: staged.shard, epoch: staged.epoch }
}

fn staged(head: StagedHead, attached: &mut Attached) -> Result<Staged> {
    let StagedHead { batch, shard, epoch } = head;
    Ok(Staged { batch, shard, epoch, body: attached.next()?.as_ref().into() })
}

fn rows_to_bytes(rows: &[RecordBatch]) -> Result<Vec<u8>> {
    let unfit = |error: arrow::error::ArrowError| Error::internal(format!("rows of a message: {error}"));
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let mut writer = StreamWriter::try_new(Vec::new(), first.schema_ref()).map_err(unfit)?;
    rows.iter().try_for_each(|rows| writer.write(rows)).map_err(unfit)?;
    writer.into_inner().map_err(unfit)
}

fn rows_of(bytes: &Bytes) -> Result<Vec<RecordBatch>> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let unfit = |error: arrow::error::ArrowError| damaged(&format!("its rows: {error}"));
    let reader = StreamReader::try_new(bytes.as_ref(), None).map_err(unfit)?;
    reader.collect::<std::result::Result<_, _>>().map_err(unfit)
}

impl Question {
    /// As it is sent.
    pub(crate) fn encode(self) -> Result<Bytes> {
        match self {
            Question::Keeper(asked) => message(&keeper_head(asked), &[]),
            Question::Worker(ToWorker::Bodies(ToBodies::Stage(staged))) => {
                message(&QuestionHead::Stage(head_of(&staged)), &[&staged.body])
            }
            Question::Worker(ToWorker::Bodies(ToBodies::Fetch { batch, shard })) => {
                message(&QuestionHead::Fetch { batch, shard }, &[])
            }
            Question::Worker(ToWorker::Rows { shard, version }) => message(&QuestionHead::Rows { shard, version }, &[]),
            Question::Worker(ToWorker::Copy { shard, version, from }) => {
                message(&QuestionHead::Copy { shard, version, from }, &[])
            }
            Question::Worker(ToWorker::Ask { shard, version, part, uses }) => {
                message(&QuestionHead::Ask { shard, version, uses }, &[&part])
            }
            Question::Worker(ToWorker::Look { shard, at_least, computed_at, body }) => {
                message(&QuestionHead::Look { shard, at_least, computed_at }, &[&body])
            }
            Question::Worker(ToWorker::Status) => message(&QuestionHead::Status, &[]),
            Question::Worker(ToWorker::Organise { stage, version }) => {
                message(&QuestionHead::Organise { stage, version }, &[])
            }
        }
    }

    /// As it came.
    pub(crate) fn decode(bytes: &Bytes) -> Result<Question> {
        let (head, mut attached) = read(bytes)?;
        Ok(match head {
            QuestionHead::Propose { decided, checked, unwritten, looked } => {
                Question::Keeper(ToKeeper::Propose(Box::new(Proposal {
                    decided: *decided,
                    checked,
                    unwritten,
                    looked,
                })))
            }
            QuestionHead::Join { node, process, roles, address } => {
                Question::Keeper(ToKeeper::Join { node, process, roles, address })
            }
            QuestionHead::Numbers { count } => Question::Keeper(ToKeeper::Numbers { count }),
            QuestionHead::Feed { after, durable } => Question::Keeper(ToKeeper::Feed { after, durable }),
            QuestionHead::Stage(head) => {
                Question::Worker(ToWorker::Bodies(ToBodies::Stage(staged(head, &mut attached)?)))
            }
            QuestionHead::Fetch { batch, shard } => {
                Question::Worker(ToWorker::Bodies(ToBodies::Fetch { batch, shard }))
            }
            QuestionHead::Rows { shard, version } => Question::Worker(ToWorker::Rows { shard, version }),
            QuestionHead::Copy { shard, version, from } => Question::Worker(ToWorker::Copy { shard, version, from }),
            QuestionHead::GiveUpCopy { node, shard } => Question::Keeper(ToKeeper::GiveUpCopy { node, shard }),
            QuestionHead::Beat { node, durable } => Question::Keeper(ToKeeper::Beat { node, durable }),
            QuestionHead::Ask { shard, version, uses } => {
                let part = attached.next()?.as_ref().into();
                Question::Worker(ToWorker::Ask { shard, version, part, uses })
            }
            QuestionHead::Look { shard, at_least, computed_at } => {
                let body = attached.next()?.as_ref().into();
                Question::Worker(ToWorker::Look { shard, at_least, computed_at, body })
            }
            QuestionHead::Status => Question::Worker(ToWorker::Status),
            QuestionHead::Organise { stage, version } => Question::Worker(ToWorker::Organise { stage, version }),
        })
    }
}

fn keeper_head(asked: ToKeeper) -> QuestionHead {
    match asked {
        ToKeeper::Propose(proposal) => {
            let Proposal { decided, checked, unwritten, looked } = *proposal;
            QuestionHead::Propose { decided: Box::new(decided), checked, unwritten, looked }
        }
        ToKeeper::Join { node, process, roles, address } => QuestionHead::Join { node, process, roles, address },
        ToKeeper::Numbers { count } => QuestionHead::Numbers { count },
        ToKeeper::Feed { after, durable } => QuestionHead::Feed { after, durable },
        ToKeeper::GiveUpCopy { node, shard } => QuestionHead::GiveUpCopy { node, shard },
        ToKeeper::Beat { node, durable } => QuestionHead::Beat { node, durable },
    }
}

/// An answer, or why there is none, as it is sent.
pub(crate) fn encode_answer(answer: Result<Answer>) -> Result<Bytes> {
    match answer {
        Err(error) => {
            let (kind, message_text) = (format!("{:?}", error.kind()), error.message().to_owned());
            message(&AnswerHead::Refused { kind, message: message_text, hint: error.hint().map(str::to_owned) }, &[])
        }
        Ok(Answer::Keeper(said)) => message(&keeper_says(said), &[]),
        Ok(Answer::Worker(said)) => match said {
            FromWorker::Bodies(FromBodies::Staged) => message(&AnswerHead::Staged, &[]),
            FromWorker::Bodies(FromBodies::Body(None)) => message(&AnswerHead::Body(None), &[]),
            FromWorker::Bodies(FromBodies::Body(Some(staged))) => {
                message(&AnswerHead::Body(Some(head_of(&staged))), &[&staged.body])
            }
            FromWorker::Rows(rows) => message(&AnswerHead::Rows, &[&rows_to_bytes(&rows)?]),
            FromWorker::Copied { rows, next } => message(&AnswerHead::Copied { next }, &[&rows_to_bytes(&rows)?]),
            FromWorker::Looked { version, passed_over } => message(&AnswerHead::Looked { version, passed_over }, &[]),
            FromWorker::Status(status) => message(&AnswerHead::Status(status), &[]),
            FromWorker::Organised => message(&AnswerHead::Organised, &[]),
        },
    }
}

fn keeper_says(said: FromKeeper) -> AnswerHead {
    match said {
        FromKeeper::Outcome(Outcome { version, duplicate }) => AnswerHead::Outcome { version, duplicate },
        FromKeeper::Joined { incarnation, cluster } => AnswerHead::Joined { incarnation, cluster },
        FromKeeper::Numbers(first) => AnswerHead::Numbers { first },
        FromKeeper::GivenUp => AnswerHead::GivenUp,
        FromKeeper::Heard => AnswerHead::Heard,
        FromKeeper::Fed { feed: Feed::Image(image), newest, followed } => {
            AnswerHead::Image { image: Box::new(Image::clone(&image)), newest, followed }
        }
        FromKeeper::Fed { feed: Feed::Decisions(decisions), newest, followed } => {
            let head = |decision: &Arc<Decision>| {
                let Decision { version, commit_micros, what } = Decision::clone(decision);
                DecisionHead { version, commit_micros, what }
            };
            AnswerHead::Decisions { decisions: decisions.iter().map(head).collect(), newest, followed }
        }
    }
}

/// As it came: an answer, or why there is none.
pub(crate) fn decode_answer(bytes: &Bytes) -> Result<Answer> {
    let (head, mut attached) = read(bytes)?;
    let keeper = |said| Ok(Answer::Keeper(said));
    let worker = |said| Ok(Answer::Worker(said));
    match head {
        AnswerHead::Refused { kind, message, hint } => {
            let known = ErrorKind::ALL.into_iter().find(|known| format!("{known:?}") == kind);
            let error = Error::new(known.unwrap_or(ErrorKind::Internal), message);
            Err(match hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            })
        }
        AnswerHead::Outcome { version, duplicate } => keeper(FromKeeper::Outcome(Outcome { version, duplicate })),
        AnswerHead::Joined { incarnation, cluster } => keeper(FromKeeper::Joined { incarnation, cluster }),
        AnswerHead::Numbers { first } => keeper(FromKeeper::Numbers(first)),
        AnswerHead::Image { image, newest, followed } => {
            keeper(FromKeeper::Fed { feed: Feed::Image(Arc::new(*image)), newest, followed })
        }
        AnswerHead::Decisions { decisions, newest, followed } => {
            let decision =
                |DecisionHead { version, commit_micros, what }| Arc::new(Decision { version, commit_micros, what });
            let feed = Feed::Decisions(decisions.into_iter().map(decision).collect());
            keeper(FromKeeper::Fed { feed, newest, followed })
        }
        AnswerHead::Staged => worker(FromWorker::Bodies(FromBodies::Staged)),
        AnswerHead::Body(None) => worker(FromWorker::Bodies(FromBodies::Body(None))),
        AnswerHead::Body(Some(head)) => {
            worker(FromWorker::Bodies(FromBodies::Body(Some(staged(head, &mut attached)?))))
        }
        AnswerHead::Rows => worker(FromWorker::Rows(rows_of(&attached.next()?)?)),
        AnswerHead::Copied { next } => worker(FromWorker::Copied { rows: rows_of(&attached.next()?)?, next }),
        AnswerHead::GivenUp => keeper(FromKeeper::GivenUp),
        AnswerHead::Heard => keeper(FromKeeper::Heard),
        AnswerHead::Looked { version, passed_over } => worker(FromWorker::Looked { version, passed_over }),
        AnswerHead::Status(status) => worker(FromWorker::Status(status)),
        AnswerHead::Organised => worker(FromWorker::Organised),
    }
}
