//! The events door: verdicts one by one, keys, and what is sent as it is.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod fake;

use std::fmt::Write;

use fake::{Act, FakeDoor, never, receipts};
use fulmar_agent::{Door, Format, SendError, Source, run};

const MIB: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_has_its_verdict_and_repeats_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("events.ndjson");
    let mut text = String::new();
    for n in 0..1_200 {
        let data = if n % 100 == 7 { "bad" } else { "good" };
        writeln!(text, "{{\"type\":\"t\",\"data\":\"{data}\",\"n\":{n}}}").unwrap();
    }
    text.push_str("no json\n[1]\n{\"id\":\"mine\",\"type\":\"t\"}");
    std::fs::write(&file, text).unwrap();
    let door = FakeDoor::start(Door::Events, 8 * MIB, vec![]).await;
    let options = door.options(Format::Ndjson, &file);
    let summary = run(options.clone(), never()).await.unwrap();
    assert_eq!(
        (summary.accepted, summary.refused, summary.skipped),
        (1_189, 12, 2)
    );
    assert!(summary.first_refusal.unwrap().ends_with("invalid"));
    assert_eq!(door.count(), 1_189);
    assert!(door.stored.lock().unwrap().times.contains_key("mine"));
    assert_eq!(receipts(&file).len(), 1_189);

    let again = run(options, never()).await.unwrap();
    assert_eq!(
        (again.accepted, again.duplicates, again.refused),
        (0, 1_189, 12)
    );
    assert_eq!(door.count(), 1_189);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_without_a_verdict_go_again_and_lost_answers_double_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("events.ndjson");
    let text: String = (0..3)
        .map(|n| format!("{{\"id\":\"e{n}\",\"type\":\"t\"}}\n"))
        .collect();
    std::fs::write(&file, text).unwrap();
    let partial = br#"{"events":[{"index":1,"id":"e1","status":"accepted"},
        {"index":0,"id":"e0","status":"retry"}]}"#;
    let script = vec![
        Act::Say(401, Vec::new()),
        Act::TakeAndHangUp,
        Act::Say(429, Vec::new()),
        Act::Say(200, b"{}".to_vec()),
        Act::Say(200, partial.to_vec()),
        Act::Take,
    ];
    let door = FakeDoor::start(Door::Events, 8 * MIB, script).await;
    let summary = run(door.options(Format::Ndjson, &file), never())
        .await
        .unwrap();
    assert_eq!(
        (summary.accepted, summary.duplicates, door.requests()),
        (1, 2, 6)
    );
    let mut ids: Vec<String> = receipts(&file).into_iter().map(|(_, _, id)| id).collect();
    ids.sort();
    assert_eq!(ids, ["e0", "e1", "e2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_holds_at_most_64_days() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("access.log");
    let mut text = String::new();
    let first: jiff::civil::Date = "2026-01-01".parse().unwrap();
    for n in 0..130 {
        let date = first
            .checked_add(jiff::Span::new().days(n))
            .unwrap()
            .strftime("%d/%b/%Y");
        writeln!(
            text,
            "::1 - - [{date}:00:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"-\""
        )
        .unwrap();
    }
    std::fs::write(&file, text).unwrap();
    let door = FakeDoor::start(Door::Events, 8 * MIB, vec![]).await;
    let summary = run(door.options(Format::Combined, &file), never())
        .await
        .unwrap();
    assert_eq!((summary.accepted, door.requests()), (130, 3));
}

#[tokio::test]
async fn contradictions_are_told_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x");
    std::fs::write(&file, "").unwrap();
    let door = FakeDoor::start(Door::Events, MIB, vec![]).await;
    let options = door.options(Format::Combined, &file);
    let mut cases = vec![options.clone(); 6];
    cases[0].sources.clear();
    cases[1].sources = vec![Source::Stdin];
    cases[1].rebase = true;
    cases[2].follow = true;
    cases[2].rebase = true;
    cases[3].door = Door::Agents;
    cases[4].timezone = Some("Mars/Olympus".to_owned());
    cases[5].credentials.api_key = None;
    for (index, case) in cases.into_iter().enumerate() {
        let result = run(case, never()).await;
        assert!(
            matches!(result, Err(SendError::Usage(_))),
            "{index}: {result:?}"
        );
    }
    let mut missing = options;
    missing.sources = vec![Source::File(dir.path().join("none"))];
    assert!(matches!(
        run(missing, never()).await,
        Err(SendError::File { .. })
    ));
    assert_eq!(door.requests(), 0);
}
