//! The writer over a real log and state: rows, repeats, quarantine, crashes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use fulmar_flow::{BlockName, Fold, Ledger, StateBatch};
use fulmar_log::{Records, Topic};
use fulmar_store::{Table, quarantine, scan_identities};
use support::{Folder, logon, message};

#[test]
fn every_record_ends_as_a_row_a_repeat_or_in_quarantine() {
    let folder = Folder::new();
    let mut records = Records::new();
    logon("agent-1", "event-0001", 1_000, &mut records);
    message("client", "m-1", 2_000, b"{\"a\":1}", &mut records);
    logon("agent-1", "event-0001", 1_000, &mut records);
    logon("agent-2", "event-0001", 1_000, &mut records);
    records.push(3, b"\xff\xff");
    message("client", "", 2_000, b"", &mut records);
    // The second after the last that a table holds.
    message("client", "m-2", 9_223_372_037_000, b"", &mut records);
    message("client", "m-3", 3_000, b"\xc3", &mut records);
    let open = folder.open();
    open.append(records);
    let open = open.run_to_the_end();
    // Offsets: 0 and 3 are logons of two agents, 1 a message, 2 the repeat of 0.
    assert_eq!(open.offsets(Table::SecurityEvents), [0, 3]);
    assert_eq!(open.offsets(Table::Messages), [1]);
    let refused = quarantine::list(&open.log.journal(Topic::Quarantine), 10).unwrap();
    let reasons: Vec<(u64, &str)> = refused
        .iter()
        .map(|record| (record.offset, record.reason.as_str()))
        .collect();
    let expected = [
        (4, "undecodable"),
        (5, "contract_violation"),
        (6, "unstorable"),
        (7, "unstorable"),
    ];
    assert_eq!(reasons, expected);
    assert_eq!(
        (refused[0].partition, &refused[0].original[..]),
        (3, &b"\xff\xff"[..])
    );
    let ledger = Ledger::read(&open.state, "writer", 8).unwrap();
    assert!(ledger.balances());
    assert_eq!(
        (ledger.stored, ledger.repeats, ledger.quarantined),
        (3, 1, 4)
    );
}

#[test]
fn a_tick_is_in_no_table_no_quarantine_and_no_ledger() {
    let folder = Folder::new();
    let mut records = Records::new();
    records.push(0, b"");
    logon("agent-1", "event-0001", 1_000, &mut records);
    let open = folder.open();
    open.append(records);
    let open = open.run_to_the_end();
    assert_eq!(open.offsets(Table::SecurityEvents), [1]);
    assert_eq!(open.log.journal(Topic::Quarantine).end(), 0);
    let ledger = Ledger::read(&open.state, "writer", 2).unwrap();
    assert!(ledger.balances());
    assert_eq!((ledger.logged, ledger.stored), (1, 1));
}

#[test]
fn a_repeat_is_known_after_a_restart_and_a_quarantined_id_is_not_taken() {
    let folder = Folder::new();
    let mut open = folder.open();
    let mut records = Records::new();
    logon("agent-1", "event-0001", 1_000, &mut records);
    message("client", "m-1", 1_000, b"\xff", &mut records);
    open.append(records);
    open.fold_all();
    drop(open);
    let mut open = folder.open();
    let mut records = Records::new();
    logon("agent-1", "event-0001", 1_000, &mut records);
    message("client", "m-1", 1_000, b"good", &mut records);
    open.append(records);
    open.fold_all();
    assert_eq!(open.offsets(Table::SecurityEvents), [0]);
    // X2: the refused record left no id, so that the mended one is stored.
    assert_eq!(open.offsets(Table::Messages), [3]);
}

#[test]
fn a_block_that_was_written_and_not_committed_is_done_again_and_is_there_once() {
    let folder = Folder::new();
    let mut open = folder.open();
    let mut records = Records::new();
    logon("agent-1", "event-0002", 2_000, &mut records);
    logon("agent-1", "event-0001", 1_000, &mut records);
    records.push(0, b"\xff");
    open.append(records);
    let block = open.block(0, 2);
    let mut batch = StateBatch::new();
    open.writer.fold(&block, &mut batch).unwrap();
    drop((batch, block));
    // The crash: files and quarantine are there, the batch is not.
    drop(open);
    let mut open = folder.open();
    assert_eq!(open.offsets(Table::SecurityEvents), Vec::<u64>::new());
    open.fold_all();
    assert_eq!(open.offsets(Table::SecurityEvents), [1, 0]);
    let journal = open.log.journal(Topic::Quarantine);
    assert_eq!(
        journal.end(),
        2,
        "the block's quarantine was appended twice"
    );
    assert_eq!(quarantine::list(&journal, 10).unwrap().len(), 1);
}

#[test]
fn a_second_try_of_a_block_gives_the_same_as_the_first() {
    let folder = Folder::new();
    let mut open = folder.open();
    let mut records = Records::new();
    logon("agent-1", "event-0001", 1_000, &mut records);
    logon("agent-1", "event-0001", 1_000, &mut records);
    open.append(records);
    let block = open.block(0, 1);
    let first = open.writer.fold(&block, &mut StateBatch::new()).unwrap();
    let mut batch = StateBatch::new();
    let second = open.writer.fold(&block, &mut batch).unwrap();
    assert_eq!(first, second);
    assert_eq!((second.stored, second.repeats), (1, 1));
    open.state.commit(batch).unwrap();
    open.writer.committed(block.name());
    assert_eq!(open.offsets(Table::SecurityEvents), [0]);
}

#[test]
fn a_block_of_repeats_alone_writes_no_file() {
    let folder = Folder::new();
    let mut open = folder.open();
    let mut records = Records::new();
    logon("agent-1", "event-0001", 1_000, &mut records);
    open.append(records.clone());
    open.fold_all();
    open.append(records);
    let block = open.block(1, 1);
    let mut batch = StateBatch::new();
    let counts = open.writer.fold(&block, &mut batch).unwrap();
    assert_eq!((counts.stored, counts.repeats), (0, 1));
    open.state.commit(batch).unwrap();
    open.writer.committed(&BlockName {
        stream: "events".to_owned(),
        first: 1,
        last: 1,
    });
    assert_eq!(open.lake.lake_files().len(), 1);
}

#[test]
fn a_replayed_record_is_a_new_one_with_the_same_bytes() {
    let folder = Folder::new();
    let mut open = folder.open();
    let mut records = Records::new();
    records.push(5, b"\x0a");
    open.append(records);
    open.fold_all();
    let quarantined = open.log.journal(Topic::Quarantine);
    let refused = quarantine::show(&quarantined, 0).unwrap().unwrap();
    assert_eq!(quarantine::show(&quarantined, 1).unwrap(), None);
    let events = open.log.journal(Topic::Events);
    assert_eq!(
        quarantine::replay(&refused, &events).unwrap().first_offset,
        1
    );
    let chunk = events.read(1, 1).unwrap().unwrap();
    let record = chunk.iter().next().unwrap();
    assert_eq!((record.partition, record.bytes), (5, &b"\x0a"[..]));
}

#[test]
fn identities_are_those_of_the_stamp() {
    let folder = Folder::new();
    let mut open = folder.open();
    let mut records = Records::new();
    logon("agent-1", "event-0001", 1_000, &mut records);
    message("client", "m-1", 2_000, b"", &mut records);
    open.append(records);
    open.fold_all();
    let mut found = Vec::new();
    for table in Table::ALL {
        scan_identities::<fulmar_store::StoreError>(&open.lake.snapshot(), table, |identity| {
            let (project, source) = (identity.project.to_owned(), identity.source.to_owned());
            found.push((
                project,
                source,
                identity.event_id.to_owned(),
                identity.log_offset,
            ));
            Ok(())
        })
        .unwrap();
    }
    let identity = |source: &str, id: &str, offset| {
        (
            "default".to_owned(),
            source.to_owned(),
            id.to_owned(),
            offset,
        )
    };
    assert_eq!(
        found,
        [
            identity("agent-1", "event-0001", 0),
            identity("client", "m-1", 1)
        ]
    );
}
