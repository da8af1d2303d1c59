mod compaction;
mod damage;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicI64;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use tempfile::TempDir;

use super::entry::DAY_MS;
use super::*;
use crate::table_reader::TableReader;
use crate::tables::{EnumName, SecurityEventRow, SecurityEventsBuilder};

/// A row of which only key, source and offset matter.
pub(crate) fn row_of<'a>(
    project: &'a str,
    source: &'a str,
    id: &'a str,
    time_ms: i64,
    offset: i64,
) -> SecurityEventRow<'a> {
    SecurityEventRow {
        event_id: id,
        schema_version: 1,
        event_class: EnumName::Known("authentication"),
        event_time: time_ms,
        observed_time: time_ms,
        ingest_time: time_ms,
        tenant_id: project,
        agent_id: source,
        host_hostname: "host",
        host_ip: "",
        host_os: "",
        host_architecture: "",
        collector: "sshd",
        source: "/var/log/auth.log",
        sequence: offset as u64,
        gateway: "gateway",
        batch_id: "batch",
        auth_activity: EnumName::Known("logon"),
        auth_outcome: EnumName::Unknown(9),
        auth_outcome_reason: "",
        auth_method: "",
        auth_user_name: id,
        auth_user_domain: "",
        auth_user_uid: "",
        auth_service_name: "",
        auth_service_protocol: "",
        auth_source_ip: "",
        auth_source_port: 22,
        auth_destination_ip: "",
        auth_destination_port: 0,
        auth_transport: EnumName::Known("tcp"),
        auth_raw_record: id,
        log_partition: 1,
        log_offset: offset,
    }
}

const TABLE: Table = Table::SecurityEvents;

/// (project, time, id, source, offset): sorts as the table does.
type Row = (String, i64, String, String, i64);

struct TestLake {
    dir: TempDir,
    lake: Lake,
    now_ms: Arc<AtomicI64>,
    next_offset: i64,
}

fn config(now_ms: &Arc<AtomicI64>) -> LakeConfig {
    let now_ms = Arc::clone(now_ms);
    LakeConfig {
        clock: Arc::new(move || now_ms.load(Ordering::SeqCst)),
        ..LakeConfig::default()
    }
}

impl TestLake {
    fn new() -> TestLake {
        let dir = TempDir::new().unwrap();
        let now_ms = Arc::new(AtomicI64::new(10 * DAY_MS));
        let state = Arc::new(State::open(&dir.path().join("state")).unwrap());
        let lake = Lake::open(dir.path(), state, config(&now_ms)).unwrap();
        TestLake {
            dir,
            lake,
            now_ms,
            next_offset: 0,
        }
    }

    /// Ends the lake as a crash would and opens its folder again.
    fn reopen(self) -> TestLake {
        let TestLake {
            dir,
            lake,
            now_ms,
            next_offset,
        } = self;
        drop(lake);
        let state = Arc::new(State::open(&dir.path().join("state")).unwrap());
        let lake = Lake::open(dir.path(), state, config(&now_ms)).unwrap();
        TestLake {
            dir,
            lake,
            now_ms,
            next_offset,
        }
    }

    /// Writes a block of (project, source, id, time) and, unless told not to,
    /// commits it.
    fn write(&mut self, rows: &[(&str, &str, &str, i64)], commit: bool) -> Vec<Row> {
        let mut builder = SecurityEventsBuilder::default();
        let mut written = Vec::new();
        let first = self.next_offset;
        for (project, source, id, time_ms) in rows {
            let offset = self.next_offset;
            builder.append(&row_of(project, source, id, *time_ms, offset));
            let owned = (
                project.to_string(),
                *time_ms,
                id.to_string(),
                source.to_string(),
                offset,
            );
            written.push(owned);
            self.next_offset += 1;
        }
        let name = format!("events-{first:020}-{:020}", self.next_offset - 1);
        let order = builder.sorted_order();
        let file = self.lake.write_block(&name, &builder, &order).unwrap();
        if commit {
            let mut batch = StateBatch::new();
            self.lake.stage(&file, &mut batch);
            self.lake.shared.state.commit(batch).unwrap();
            self.lake.committed(vec![file], Vec::new());
        }
        written
    }

    fn rows(&self) -> Vec<Row> {
        let snapshot = self.lake.snapshot();
        let mut rows: Vec<Row> = snapshot
            .files(TABLE)
            .iter()
            .flat_map(|f| rows_of(f))
            .collect();
        rows.sort();
        rows
    }

    fn pass(&self, time_ms: i64) {
        self.now_ms.fetch_add(time_ms, Ordering::SeqCst);
    }

    /// Names in the table's private folder.
    fn names(&self) -> Vec<String> {
        let mut names = open::names_in(&self.lake.files_dir().join(TABLE.name())).unwrap();
        names.sort();
        names
    }

    /// Every shown day has exactly the day's compacted files, and they are the
    /// same files.
    fn assert_links_follow_the_list(&self) {
        use std::os::unix::fs::MetadataExt;
        let mut listed: BTreeMap<i32, Vec<String>> = BTreeMap::new();
        for file in self.lake.snapshot().files(TABLE) {
            let Some(day) = file.entry.day else { continue };
            listed.entry(day).or_default().push(file.entry.name.clone());
            let link = self.lake.shared.day_dir(TABLE, day).join(&file.entry.name);
            let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
            assert_eq!(inode(&link), inode(&file.path));
        }
        listed.values_mut().for_each(|names| names.sort());
        let shown: BTreeMap<i32, Vec<String>> = self
            .lake
            .shared
            .shown_days(TABLE)
            .unwrap()
            .into_iter()
            .map(|(day, names)| {
                let mut names: Vec<String> = names.into_iter().collect();
                names.sort();
                (day, names)
            })
            .collect();
        assert_eq!(shown, listed);
    }
}

/// The rows of one file, in its order.
fn rows_of(file: &LakeFile) -> Vec<Row> {
    let mut reader = TableReader::open_all(file.table, &file.path).unwrap();
    let place = |name| file.table.column_index(name).unwrap();
    let mut rows = Vec::new();
    while let Some(columns) = reader.next_columns(file.table).unwrap() {
        let text = |name| crate::tables::TextRows::new(&columns[place(name)]);
        let times = columns[place("event_time")].as_primitive::<TimestampMillisecondType>();
        let offsets = columns[place("log_offset")].as_primitive::<Int64Type>();
        for row in 0..times.len() {
            let of = |name| text(name).value(row).to_owned();
            assert_eq!(
                of("auth_raw_record"),
                of("event_id"),
                "columns of one row stay together"
            );
            assert_eq!(of("auth_outcome"), "9");
            let (time_ms, offset) = (times.value(row), offsets.value(row));
            rows.push((
                of("tenant_id"),
                time_ms,
                of("event_id"),
                of("agent_id"),
                offset,
            ));
        }
    }
    assert_eq!(rows.len() as u64, file.entry.rows);
    rows
}

#[test]
fn a_committed_block_is_listed_and_an_uncommitted_one_is_gone_after_a_restart() {
    let mut test = TestLake::new();
    let mut kept = test.write(&[("p", "s", "b", 5), ("p", "s", "a", 5)], true);
    test.write(&[("p", "s", "c", 6)], false);
    assert_eq!(test.names().len(), 2);
    kept.sort();
    let test = test.reopen();
    assert_eq!(test.rows(), kept);
    assert_eq!(test.names().len(), 1);
    assert_eq!(test.lake.check().problems, Vec::<String>::new());
    let infos = test.lake.lake_files();
    assert_eq!((infos[0].rows, infos[0].compacted), (2, false));
    assert_eq!(infos[0].time_min, "1970-01-01T00:00:00.005Z");
}

#[test]
fn a_block_is_sorted_by_the_tables_key() {
    let mut test = TestLake::new();
    test.write(
        &[
            ("q", "s", "a", 1),
            ("p", "s", "b", 2),
            ("p", "s", "a", 2),
            ("p", "s", "z", 1),
        ],
        true,
    );
    let rows = rows_of(&test.lake.snapshot().files(TABLE)[0]);
    let order: Vec<(&str, i64, &str)> = rows
        .iter()
        .map(|row| (row.0.as_str(), row.1, row.2.as_str()))
        .collect();
    assert_eq!(
        order,
        [("p", 1, "z"), ("p", 2, "a"), ("p", 2, "b"), ("q", 1, "a")]
    );
}

#[test]
fn a_replayed_block_overwrites_its_own_file() {
    let mut test = TestLake::new();
    let rows = [("p", "s", "a", 5), ("p", "s", "b", 6)];
    test.write(&rows, false);
    let bytes = |test: &TestLake| {
        let folder = test.lake.files_dir().join(TABLE.name());
        std::fs::read(folder.join(&test.names()[0])).unwrap()
    };
    let before = bytes(&test);
    test.next_offset = 0;
    test.write(&rows, true);
    assert_eq!(test.names().len(), 1);
    assert_eq!(bytes(&test), before);
}

#[test]
fn a_snapshot_holds_replaced_files_beyond_their_time() {
    let mut test = TestLake::new();
    test.write(&[("p", "s", "a", DAY_MS)], true);
    test.write(&[("p", "s", "b", DAY_MS)], true);
    let snapshot = test.lake.snapshot();
    test.lake.compact_now().unwrap();
    // Replaced just now: kept for readers that are no snapshot.
    assert_eq!(test.names().len(), 3);
    test.pass(REPLACED_KEEP_MS);
    test.lake.shared.unlink_dead().unwrap();
    assert_eq!(test.names().len(), 3);
    assert_eq!(
        snapshot
            .files(TABLE)
            .iter()
            .map(|file| rows_of(file).len())
            .sum::<usize>(),
        2
    );
    drop(snapshot);
    test.lake.shared.unlink_dead().unwrap();
    assert_eq!(test.names().len(), 1);
}

#[test]
fn an_earlier_entry_of_a_promoted_file_holds_it_too() {
    let mut test = TestLake::new();
    test.write(&[("p", "s", "a", DAY_MS)], true);
    let job = plan::next_job_of_all(&test.lake.shared.list()).unwrap();
    test.lake.shared.do_job(&job).unwrap();
    let snapshot = test.lake.snapshot();
    test.lake.compact_now().unwrap();
    assert_eq!(test.lake.snapshot().files(TABLE)[0].entry.level, Level::Day);
    test.write(&[("p", "s", "b", DAY_MS)], true);
    test.lake.compact_now().unwrap();
    test.pass(REPLACED_KEEP_MS);
    test.lake.shared.unlink_dead().unwrap();
    assert_eq!(rows_of(&snapshot.files(TABLE)[0]).len(), 1);
}

#[test]
fn replaced_files_keep_their_time_over_a_restart() {
    let mut test = TestLake::new();
    test.write(&[("p", "s", "a", DAY_MS)], true);
    test.lake.compact_now().unwrap();
    let test = test.reopen();
    assert_eq!(test.names().len(), 2);
    test.pass(REPLACED_KEEP_MS - 1);
    test.lake.shared.unlink_dead().unwrap();
    assert_eq!(test.names().len(), 2);
    test.pass(1);
    test.lake.shared.unlink_dead().unwrap();
    assert_eq!(test.names().len(), 1);
    assert_eq!(
        test.lake.shared.state.prefix("lake", b"dead/").unwrap(),
        Vec::new()
    );
}

#[test]
fn a_day_goes_when_its_last_moment_is_past_the_age() {
    let mut test = TestLake::new();
    test.write(
        &[("p", "s", "a", 9 * DAY_MS), ("p", "s", "b", 10 * DAY_MS)],
        true,
    );
    test.lake.compact_now().unwrap();
    // Day 9 ends with day 10; 365 days later it is past its age.
    test.now_ms.store((10 + 365) * DAY_MS - 1, Ordering::SeqCst);
    assert_eq!(test.lake.shared.remove_expired().unwrap(), 0);
    test.pass(1);
    assert_eq!(test.lake.shared.remove_expired().unwrap(), 1);
    let ids: Vec<String> = test.rows().into_iter().map(|row| row.2).collect();
    assert_eq!(ids, ["b"]);
    test.assert_links_follow_the_list();
}

#[test]
fn links_that_a_crash_left_wrong_are_mended_at_open() {
    let mut test = TestLake::new();
    test.write(
        &[("p", "s", "a", DAY_MS), ("p", "s", "b", 3 * DAY_MS)],
        true,
    );
    test.lake.compact_now().unwrap();
    let shared = &test.lake.shared;
    std::fs::remove_dir_all(shared.day_dir(TABLE, 1)).unwrap();
    std::fs::write(shared.day_dir(TABLE, 3).join("foreign.parquet"), b"x").unwrap();
    std::fs::create_dir(shared.day_dir(TABLE, 7)).unwrap();
    std::fs::create_dir(shared.files_dir.join("links-half")).unwrap();
    let test = test.reopen();
    test.assert_links_follow_the_list();
    assert!(!test.lake.files_dir().join("links-half").exists());
}

#[test]
fn a_check_names_what_does_not_match() {
    let mut test = TestLake::new();
    test.write(&[("p", "s", "a", DAY_MS)], true);
    test.write(&[("p", "s", "b", DAY_MS)], true);
    let snapshot = test.lake.snapshot();
    let files = snapshot.files(TABLE);
    std::fs::remove_file(files[0].path.as_path()).unwrap();
    let mut bytes = std::fs::read(files[1].path.as_path()).unwrap();
    bytes.push(0);
    std::fs::write(files[1].path.as_path(), bytes).unwrap();
    assert_eq!(test.lake.check().problems.len(), 2);
}

#[test]
fn a_later_table_version_is_refused() {
    let test = TestLake::new();
    let mut batch = StateBatch::new();
    batch.put("lake", "version/messages", "2");
    test.lake.shared.state.commit(batch).unwrap();
    let TestLake {
        dir, lake, now_ms, ..
    } = test;
    drop(lake);
    let state = Arc::new(State::open(&dir.path().join("state")).unwrap());
    let opened = Lake::open(dir.path(), state, config(&now_ms));
    assert!(matches!(
        opened,
        Err(crate::StoreError::NewerTable {
            found: 2,
            known: 1,
            ..
        })
    ));
}
