//! The runner against programs that behave in every way but well.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::query::{QueryFormat, QueryLimits, QueryRequest, QueryRunner};

/// A runner of a shell script in place of `fulmar-sql`.
#[allow(clippy::unwrap_used, reason = "a test's helper")]
fn runner(folder: &TempDir, script: &str, limits: QueryLimits) -> QueryRunner {
    let program = folder.path().join("program");
    // Written by another process: were it open for writing here while another test forks,
    // it could not be run.
    let mut writer = Command::new("/bin/sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(&program)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let text = format!("#!/bin/sh\nexport PATH=/usr/bin:/bin\n{script}\n");
    writer
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    assert!(writer.wait().unwrap().success());
    QueryRunner::with_program(program, folder.path(), limits)
}

fn request(held: Box<dyn Any + Send>) -> QueryRequest {
    QueryRequest {
        sql: "SELECT 1".to_string(),
        format: QueryFormat::Json,
        tables: BTreeMap::new(),
        views: BTreeMap::new(),
        project: None,
        held,
    }
}

async fn whole(answer: &mut Answer) -> Result<Vec<u8>, QueryError> {
    let mut all = Vec::new();
    while let Some(piece) = answer.next_piece().await? {
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

#[allow(clippy::unwrap_used, reason = "a test's helper")]
async fn outcome(script: &str) -> Result<Vec<u8>, QueryError> {
    let folder = TempDir::new().unwrap();
    let runner = runner(&folder, script, QueryLimits::default());
    let mut answer = runner.start(request(Box::new(()))).await?;
    whole(&mut answer).await
}

#[tokio::test]
async fn the_request_goes_in_and_the_rows_come_out() {
    let folder = TempDir::new().unwrap();
    let runner = runner(
        &folder,
        "read line; echo \"$line\"; env",
        QueryLimits::default(),
    );
    let mut answer = runner.start(request(Box::new(()))).await.unwrap();
    let all = whole(&mut answer).await.unwrap();
    let text = String::from_utf8(all).unwrap();
    let (line, environment) = text.split_once('\n').unwrap();
    let sent: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(sent["sql"], "SELECT 1");
    assert_eq!(sent["memory_bytes"], 512 << 20);
    assert_eq!(sent["timeout_ms"], 30_000);
    assert_eq!(sent["until_stdin_closes"], true);
    // The shell itself sets a few; nothing of ours is handed on.
    assert!(!environment.contains("CARGO"), "{environment}");
    assert!(answer.next_piece().await.unwrap().is_none());
}

#[tokio::test]
async fn the_error_line_decides_what_went_wrong() {
    let failing =
        |code: &str| format!("echo '{{\"code\":\"{code}\",\"message\":\"m\"}}' >&2; exit 9");
    let of = async |code: &str| outcome(&failing(code)).await.unwrap_err().code();
    assert_eq!(of("statement_refused").await, "statement_refused");
    assert_eq!(of("sql_error").await, "sql_error");
    assert_eq!(of("memory_exceeded").await, "query_memory_exceeded");
    assert_eq!(of("time_exceeded").await, "query_time_exceeded");
    assert_eq!(of("output_failed").await, "query_failed");
    assert_eq!(
        outcome("echo oops >&2; exit 1").await.unwrap_err().code(),
        "query_failed"
    );
    assert_eq!(
        outcome("kill -9 $$").await.unwrap_err().code(),
        "query_failed"
    );
    assert_eq!(outcome("exit 0").await.unwrap(), b"");
}

#[tokio::test]
async fn rows_before_a_failure_do_not_make_it_whole() {
    let folder = TempDir::new().unwrap();
    let script = "echo row; echo '{\"code\":\"sql_error\",\"message\":\"late\"}' >&2; exit 2";
    let runner = runner(&folder, script, QueryLimits::default());
    let mut answer = runner.start(request(Box::new(()))).await.unwrap();
    assert_eq!(answer.next_piece().await.unwrap().unwrap(), "row\n");
    assert!(matches!(answer.next_piece().await, Err(QueryError::Sql(text)) if text == "late"));
}

#[tokio::test]
async fn a_child_that_does_not_end_is_killed() {
    let folder = TempDir::new().unwrap();
    let limits = QueryLimits {
        time_max: Duration::from_millis(50),
        ..QueryLimits::default()
    };
    let runner = runner(&folder, "echo $$; exec cat >/dev/null", limits);
    let mut answer = runner.start(request(Box::new(()))).await.unwrap();
    let pid = answer.next_piece().await.unwrap().unwrap();
    let pid = String::from_utf8(pid.to_vec()).unwrap();
    assert!(matches!(
        answer.next_piece().await,
        Err(QueryError::Time(_))
    ));
    assert!(!fs::exists(format!("/proc/{}", pid.trim())).unwrap());
}

#[tokio::test]
async fn one_too_many_is_told_and_an_end_makes_room() {
    let folder = TempDir::new().unwrap();
    let limits = QueryLimits {
        at_once_max: 1,
        ..QueryLimits::default()
    };
    let runner = runner(&folder, "echo up; exec cat >/dev/null", limits);
    let snapshot = Arc::new(());
    let mut first = runner
        .start(request(Box::new(Arc::clone(&snapshot))))
        .await
        .unwrap();
    assert_eq!(first.next_piece().await.unwrap().unwrap(), "up\n");
    assert!(matches!(
        runner.start(request(Box::new(()))).await,
        Err(QueryError::Busy(1))
    ));
    assert_eq!(Arc::strong_count(&snapshot), 2);
    assert!(folder.path().join("spill").is_dir());
    drop(first);
    // The snapshot and the place are given back when the child is gone.
    while runner.running() > 0 || Arc::strong_count(&snapshot) > 1 {
        tokio::task::yield_now().await;
    }
    assert!(runner.start(request(Box::new(()))).await.is_ok());
}

#[tokio::test]
async fn a_missing_program_is_said_by_name() {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("absent");
    let runner = QueryRunner::with_program(program, folder.path(), QueryLimits::default());
    let error = runner.start(request(Box::new(()))).await.unwrap_err();
    assert!(
        error.to_string().starts_with("cannot run fulmar-sql"),
        "{error}"
    );
    assert_eq!(runner.running(), 0);
}
