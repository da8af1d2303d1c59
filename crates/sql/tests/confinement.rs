//! What a statement cannot do (G3): each by the statement's own refusal.

mod runner;

use std::io::Read;
use std::time::Instant;

use runner::{Lake, error_code, error_line, path_in, run, start, write_parquet};
use serde_json::json;

#[test]
fn statements_that_do_not_read_are_refused() {
    let lake = Lake::new();
    let target = path_in(&lake.folder, "out.csv");
    let target = target.display();
    let statements = [
        format!("COPY messages TO '{target}'"),
        format!("COPY (SELECT 1) TO '{target}'"),
        format!("EXPLAIN ANALYZE COPY (SELECT 1) TO '{target}'"),
        format!("EXPORT DATABASE '{target}'"),
        format!("ATTACH '{target}'"),
        "INSTALL httpfs".to_string(),
        "LOAD httpfs".to_string(),
        "SET memory_limit = '8GB'".to_string(),
        "PRAGMA database_list".to_string(),
        "CALL enable_logging()".to_string(),
        "CREATE TABLE x AS SELECT 1".to_string(),
        "SELECT 1; SELECT 2".to_string(),
        format!("SELECT 1; COPY messages TO '{target}'"),
        String::new(),
    ];
    for sql in statements {
        for format in ["json", "parquet"] {
            let output = run(&lake.request(&sql, format));
            assert_eq!(
                output.status.code(),
                Some(3),
                "{sql}: {}",
                error_line(&output)
            );
            assert_eq!(error_code(&output), "statement_refused", "{sql}");
            assert!(output.stdout.is_empty(), "{sql}");
        }
    }
    assert!(!path_in(&lake.folder, "out.csv").exists());
}

#[test]
fn other_files_and_the_network_are_refused() {
    let lake = Lake::new();
    let other = path_in(&lake.folder, "other.parquet");
    write_parquet(&other, "SELECT 1 AS secret");
    let statements = [
        "SELECT * FROM read_csv('/etc/passwd')".to_string(),
        "SELECT * FROM read_text('/etc/passwd')".to_string(),
        "SELECT * FROM glob('/etc/*')".to_string(),
        "SELECT * FROM '/etc/passwd.csv'".to_string(),
        "SELECT * FROM 'https://localhost:1/x.parquet'".to_string(),
        "SELECT * FROM read_parquet('https://localhost:1/x.parquet')".to_string(),
        format!("SELECT * FROM read_parquet('{}')", other.display()),
        format!("SELECT * FROM '{}'", other.display()),
        format!("SELECT * FROM parquet_metadata('{}')", other.display()),
        format!(
            "SELECT * FROM read_parquet('{}/*.parquet')",
            lake.folder.path().display()
        ),
        "SELECT * FROM read_parquet('/proc/self/environ')".to_string(),
    ];
    for sql in statements {
        let output = run(&lake.request(&sql, "json"));
        assert_eq!(
            output.status.code(),
            Some(3),
            "{sql}: {}",
            error_line(&output)
        );
        assert!(output.stdout.is_empty(), "{sql}");
    }
    // The control: a listed file can be read by its path, so the refusals say something.
    let listed = path_in(&lake.folder, "old.parquet");
    let rows = lake.rows(&format!("SELECT count(*) AS n FROM '{}'", listed.display()));
    assert_eq!(rows, json!([{"n": 3}]));
}

#[test]
fn a_project_sees_its_rows_only() {
    let lake = Lake::new();
    let as_project = |sql: &str| {
        let mut request = lake.request(sql, "json");
        request["project"] = json!("p1");
        run(&request)
    };
    let output = as_project("SELECT string_agg(event_id ORDER BY event_id) AS ids FROM messages");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "[\n{\"ids\":\"e1,e3\"}\n]\n"
    );
    let listed = path_in(&lake.folder, "old.parquet");
    for sql in [
        format!("SELECT * FROM read_parquet('{}')", listed.display()),
        format!("SELECT * FROM parquet_metadata('{}')", listed.display()),
        format!("SELECT * FROM '{}'", listed.display()),
        format!(
            "WITH \"{0}\" AS (SELECT 1) SELECT * FROM \"{0}\"",
            listed.display()
        ),
        "SELECT * FROM empty".to_string(),
        "SELECT sql FROM duckdb_views()".to_string(),
        "EXPLAIN SELECT * FROM messages".to_string(),
    ] {
        let output = as_project(&sql);
        assert_eq!(
            output.status.code(),
            Some(3),
            "{sql}: {}",
            error_line(&output)
        );
    }
    // The cast is applied to other projects' rows too; their values must not be told.
    let output =
        as_project("SELECT * FROM messages WHERE (substr(event_id, 2) || project_id)::INT = 1");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        error_line(&output),
        "{\"code\":\"sql_error\",\"message\":\"the statement failed while it ran\"}\n"
    );
    let quoted = "p1' OR project_id = 'p0";
    let mut request = lake.request("SELECT count(*) AS n FROM messages", "json");
    request["project"] = json!(quoted);
    assert_eq!(run(&request).stdout, b"[\n{\"n\":0}\n]\n");
}

#[test]
fn faults_of_the_statement_are_told() {
    let lake = Lake::new();
    let told = |sql: &str| {
        let output = run(&lake.request(sql, "json"));
        assert_eq!(output.status.code(), Some(2), "{sql}");
        assert_eq!(error_code(&output), "sql_error");
        error_line(&output)
    };
    assert!(told("SELEC 1").contains("SELEC"));
    assert!(told("SELECT nothing FROM messages").contains("nothing"));
    assert!(told("SELECT * FROM nowhere").contains("nowhere"));
    assert!(told("SELECT error('late') FROM messages").contains("late"));
    assert!(told("SELECT ?").contains("arameter"));
    let output = run(&json!({"sql": "SELECT 1"}));
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(error_code(&output), "bad_request");
}

#[test]
fn memory_is_limited() {
    let lake = Lake::new();
    let sql = "SELECT count(DISTINCT range::VARCHAR || 'abcdefghijklmnopqrstuvwxyz')
               FROM range(100000000)";
    let output = run(&lake.request(sql, "json"));
    assert_eq!(output.status.code(), Some(4), "{}", error_line(&output));
    assert_eq!(error_code(&output), "memory_exceeded");
}

#[test]
fn a_folder_to_spill_to_lets_a_query_exceed_its_memory() {
    let lake = Lake::new();
    let spill = path_in(&lake.folder, "spill");
    std::fs::create_dir(&spill).unwrap();
    let sql = "SELECT max(n) AS n FROM (SELECT row_number() OVER (ORDER BY hash(range)) AS n,
               hash(range)::VARCHAR || repeat('x', 40) AS t FROM range(4000000) ORDER BY t)";
    let mut request = lake.request(sql, "json");
    request["memory_bytes"] = json!(100 << 20);
    request["threads"] = json!(1);
    request["temp_dir"] = json!(spill);
    request["temp_bytes_max"] = json!(4_u64 << 30);
    let output = run(&request);
    assert!(output.status.success(), "{}", error_line(&output));
    assert_eq!(output.stdout, b"[\n{\"n\":4000000}\n]\n");
}

#[test]
fn time_is_limited() {
    let lake = Lake::new();
    let sql = "SELECT sum(range % 7) FROM range(1000000000000000)";
    let mut request = lake.request(sql, "json");
    request["timeout_ms"] = json!(200);
    let output = run(&request);
    assert_eq!(error_code(&output), "time_exceeded");
    assert_eq!(output.status.code(), Some(5));
}

#[test]
fn a_reader_that_stops_does_not_hold_the_query() {
    let lake = Lake::new();
    let mut request = lake.request("SELECT range FROM range(1000000000)", "ndjson");
    request["timeout_ms"] = json!(300);
    let mut child = start(&request);
    // Nobody reads standard output; the program is stuck in a write when its time is up.
    let status = child.wait().unwrap();
    assert!(!status.success());
    let mut line = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut line)
        .unwrap();
    assert!(line.contains("time_exceeded"), "{line}");
}

#[test]
fn the_query_ends_with_its_caller() {
    let lake = Lake::new();
    let sql = "SELECT sum(range % 7) FROM range(1000000000000000)";
    let mut request = lake.request(sql, "json");
    request["until_stdin_closes"] = json!(true);
    let started = Instant::now();
    let mut child = start(&request);
    drop(child.stdin.take());
    assert!(!child.wait().unwrap().success());
    let allowed_ms = request["timeout_ms"].as_u64().unwrap();
    assert!(
        started.elapsed().as_millis() < u128::from(allowed_ms),
        "it ran to its time limit"
    );
}

#[test]
fn a_large_answer_is_streamed_in_bounded_memory() {
    let lake = Lake::new();
    let mut request = lake.request(
        "SELECT range AS n, repeat('x', 100) AS t FROM range(5000000)",
        "ndjson",
    );
    // The answer has 600 MB; were it gathered, it would not fit.
    request["memory_bytes"] = json!(64 << 20);
    let mut child = start(&request);
    let pid = child.id();
    let mut output = child.stdout.take().unwrap();
    let (mut bytes, mut lines, mut resident_kib_max) = (0_u64, 0_u64, 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = output.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        bytes += read as u64;
        lines += buffer[..read].iter().filter(|b| **b == b'\n').count() as u64;
        resident_kib_max = resident_kib_max.max(resident_kib(pid));
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(lines, 5_000_000);
    assert!(bytes > 500_000_000);
    assert!(resident_kib_max < 256 << 10, "{resident_kib_max} KiB");
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(0)
}

#[test]
fn a_folder_may_have_any_name() {
    let lake = Lake::new();
    let strange = path_in(&lake.folder, "it's [a] *?");
    std::fs::create_dir(&strange).unwrap();
    write_parquet(&path_in(&lake.folder, "x.parquet"), "SELECT 7 AS n");
    std::fs::rename(
        path_in(&lake.folder, "x.parquet"),
        strange.join("x.parquet"),
    )
    .unwrap();
    let request = json!({
        "sql": "FROM t", "format": "csv", "folder": strange,
        "tables": {"t": {"files": ["x.parquet"]}},
        "memory_bytes": 128 << 20, "timeout_ms": 60_000,
    });
    let output = run(&request);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "n\r\n7\r\n",
        "{}",
        error_line(&output)
    );
}
