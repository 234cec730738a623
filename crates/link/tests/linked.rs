//! A keeper and a worker that are reached over sockets say what they say when they are called.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

mod secured;

use alluvia_cluster::gateway::Reach;
use alluvia_cluster::message::{FromBodies, FromKeeper, FromWorker, ToBodies, ToKeeper, ToWorker, Uses};
use alluvia_cluster::message::{WorkerStatus, serve_keeper};
use alluvia_cluster::{BatchId, CopiedTo, Epoch, Feed, Keeper, NodeId, Role, Staged, What};
use alluvia_link::{Answer, Handler, Links, Question, Security, serve};
use alluvia_snapshot::StageInfo;
use alluvia_storage::FaultDisk;
use alluvia_types::{Error, ErrorKind, ManualClock, Result, Stage, TableId, Version};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

fn secret() -> Security {
    Security::Secret("s3cret".to_owned())
}

/// A keeper, and a worker that says what it was asked.
struct Both(Keeper);

fn rows() -> Vec<RecordBatch> {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "ü", "a text that no view holds itself"]));
    vec![RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).expect("two columns"); 2]
}

fn staged() -> Staged {
    let batch = BatchId { gateway: NodeId(u64::MAX), incarnation: 3, sequence: 9 };
    Staged { batch, shard: TableId(7), epoch: Epoch(2), body: vec![0, 255, 10].into() }
}

fn status() -> WorkerStatus {
    let stage = StageInfo {
        table: TableId(3),
        stage: Stage::Sorted,
        watermark: Version(u64::MAX),
        staleness: Duration::from_micros(1_500_000),
        rows: 7,
        dead_rows: 6,
        bytes: 8,
        parts: 9,
    };
    WorkerStatus { through: Version(5), bodies: 1, body_bytes: 2, stages: vec![stage] }
}

const COPIED_TO: CopiedTo = CopiedTo { row: u64::MAX, layout: u32::MAX };
const USES: Uses = Uses { index: true, cuboids: false, predicates: true };

impl Handler for Both {
    fn answer(&self, asked: Question) -> Result<Answer> {
        match asked {
            Question::Keeper(asked) => serve_keeper(&self.0, asked).map(Answer::Keeper),
            Question::Worker(ToWorker::Bodies(ToBodies::Stage(found))) => {
                assert_eq!(found, staged());
                Ok(Answer::Worker(FromWorker::Bodies(FromBodies::Staged)))
            }
            Question::Worker(ToWorker::Bodies(ToBodies::Fetch { shard, .. })) => {
                let body = (shard == TableId(7)).then(staged);
                Ok(Answer::Worker(FromWorker::Bodies(FromBodies::Body(body))))
            }
            Question::Worker(ToWorker::Rows { version: Version(0), .. }) => {
                Ok(Answer::Worker(FromWorker::Rows(Vec::new())))
            }
            Question::Worker(ToWorker::Rows { .. }) => Ok(Answer::Worker(FromWorker::Rows(rows()))),
            Question::Worker(ToWorker::Copy { shard: TableId(5), version: Version(6), from }) => {
                let next = from.is_none().then_some(COPIED_TO);
                assert!(from.is_none_or(|from| from == COPIED_TO));
                Ok(Answer::Worker(FromWorker::Copied { rows: rows(), next }))
            }
            Question::Worker(ToWorker::Copy { .. }) => Err(Error::internal("another copy was asked for")),
            Question::Worker(ToWorker::Ask { shard, version, part, uses }) => {
                assert_eq!(uses, USES);
                assert_eq!((shard, version, &*part), (TableId(3), Version(9), [0, 255, 7].as_slice()));
                Ok(Answer::Worker(FromWorker::Rows(rows())))
            }
            Question::Worker(ToWorker::Look { shard, at_least, computed_at, body }) => {
                assert_eq!((shard, at_least, &*body), (TableId(4), Version(2), [1].as_slice()));
                assert_eq!(computed_at, [None, Some(Version(7))]);
                Ok(Answer::Worker(FromWorker::Looked { version: Version(8), passed_over: 3 }))
            }
            Question::Worker(ToWorker::Status) => Ok(Answer::Worker(FromWorker::Status(status()))),
            Question::Worker(ToWorker::Organise { stage, .. }) => {
                Err(Error::new(ErrorKind::DiskFull, format!("no room for {stage}")).with_hint("make some"))
            }
        }
    }
}

#[test]
fn what_is_said_over_a_socket_is_what_is_said_by_a_call() {
    let keeper =
        Keeper::open(FaultDisk::new(), Path::new("/keeper"), Arc::new(ManualClock::default()), 7).expect("opens");
    let any = "127.0.0.1:0".parse().expect("an address");
    let serving = serve(any, &secret(), Arc::new(Both(keeper))).expect("listens");
    let address = serving.address.to_string();
    let links = Links::to(&address, &secret()).expect("links");
    let (node, roles) = (NodeId(u64::MAX), vec![Role::Gateway, Role::Worker]);
    let join = ToKeeper::Join { node, process: u64::MAX, roles, address: address.clone() };
    assert!(matches!(links.keeper(join), Ok(Ok(FromKeeper::Joined { incarnation: 1, cluster: 7 }))));
    assert!(matches!(links.keeper(ToKeeper::Numbers { count: 5 }), Ok(Ok(FromKeeper::Numbers(TableId(1))))));
    let Ok(Ok(FromKeeper::Fed { feed: Feed::Decisions(fed), newest: Version(2), followed: Version(0) })) =
        links.keeper(ToKeeper::Feed { after: Version(0), durable: None })
    else {
        panic!("decisions are fed")
    };
    assert!(matches!(&fed[0].what, What::Joined { node: NodeId(u64::MAX), .. }) && fed.len() == 2);

    let ask = |asked: ToWorker| {
        let (sender, answer) = channel();
        links.worker(node, asked, Box::new(move |answer| drop(sender.send(answer))));
        answer.recv().expect("an answer, or none")
    };
    assert!(ask(ToWorker::Bodies(ToBodies::Stage(staged()))).is_err(), "where the node is, is not known");
    links.located(node, &address);
    assert!(matches!(ask(ToWorker::Bodies(ToBodies::Stage(staged()))), Ok(Ok(FromWorker::Bodies(FromBodies::Staged)))));
    let fetch = |shard| ask(ToWorker::Bodies(ToBodies::Fetch { batch: staged().batch, shard: TableId(shard) }));
    let Ok(Ok(FromWorker::Bodies(FromBodies::Body(Some(body))))) = fetch(7) else { panic!("a body") };
    assert_eq!(body, staged());
    assert!(matches!(fetch(8), Ok(Ok(FromWorker::Bodies(FromBodies::Body(None))))));
    let read = |version| match ask(ToWorker::Rows { shard: TableId(1), version: Version(version) }) {
        Ok(Ok(FromWorker::Rows(rows))) => rows,
        other => panic!("rows, and not {other:?}"),
    };
    assert_eq!((read(1), read(0)), (rows(), Vec::new()));
    let Ok(Ok(FromWorker::Status(said))) = ask(ToWorker::Status) else { panic!("a status") };
    assert_eq!(format!("{said:?}"), format!("{:?}", status()));
    let (computed_at, body) = (vec![None, Some(Version(7))], vec![1].into());
    let look = ToWorker::Look { shard: TableId(4), at_least: Version(2), computed_at, body };
    assert!(matches!(ask(look), Ok(Ok(FromWorker::Looked { version: Version(8), passed_over: 3 }))));
    for (from, then) in [(None, Some(COPIED_TO)), (Some(COPIED_TO), None)] {
        let copy = ToWorker::Copy { shard: TableId(5), version: Version(6), from };
        assert!(
            matches!(ask(copy), Ok(Ok(FromWorker::Copied { rows: given, next })) if given == rows() && next == then)
        );
    }
    assert!(matches!(links.keeper(ToKeeper::Beat { node, durable: Version(0) }), Ok(Ok(FromKeeper::Heard))));
    let give_up = ToKeeper::GiveUpCopy { node, shard: TableId(5) };
    assert!(matches!(links.keeper(give_up), Ok(Ok(FromKeeper::GivenUp))));
    let part = ToWorker::Ask { shard: TableId(3), version: Version(9), part: vec![0, 255, 7].into(), uses: USES };
    assert!(matches!(ask(part), Ok(Ok(FromWorker::Rows(given))) if given == rows()));
    let Ok(Err(refused)) = ask(ToWorker::Organise { stage: Stage::Sorted, version: Version(1) }) else {
        panic!("refused")
    };
    assert_eq!(
        (refused.kind(), refused.message(), refused.hint()),
        (ErrorKind::DiskFull, "no room for sorted", Some("make some"))
    );
}

#[test]
fn who_does_not_know_the_secret_or_is_not_there_is_told_apart() {
    let keeper =
        Keeper::open(FaultDisk::new(), Path::new("/keeper"), Arc::new(ManualClock::default()), 7).expect("opens");
    let asked = || ToKeeper::Feed { after: Version(0), durable: None };
    let any = "127.0.0.1:0".parse().expect("an address");
    let serving = serve(any, &secret(), Arc::new(Both(keeper))).expect("listens");
    let address = serving.address.to_string();
    assert!(Links::to("192.0.2.1:7400", &secret()).is_err(), "the secret does not leave the machine");
    let wrong = Links::to(&address, &Security::Secret("other".to_owned()))
        .expect("links")
        .keeper(asked())
        .expect_err("it is refused");
    assert!(wrong.why.contains("secret"), "{}", wrong.why);
    let links = Links::to(&address, &secret()).expect("links");
    assert!(matches!(links.keeper(asked()), Ok(Ok(FromKeeper::Fed { .. }))));
    drop(serving);
    assert!(links.keeper(asked()).is_err());
    let everywhere = "0.0.0.0:0".parse().expect("an address");
    let keeper =
        Keeper::open(FaultDisk::new(), Path::new("/keeper"), Arc::new(ManualClock::default()), 7).expect("opens");
    assert_eq!(serve(everywhere, &secret(), Arc::new(Both(keeper))).unwrap_err().kind(), ErrorKind::NotSupported);
}
