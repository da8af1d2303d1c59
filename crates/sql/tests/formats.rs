//! What each format looks like, to the byte.

mod runner;

use runner::{Lake, error_code, error_line, run};
use serde_json::json;

#[test]
fn json_is_one_array_of_objects() {
    let lake = Lake::new();
    let text = lake.text(
        "SELECT * FROM messages WHERE log_offset IN (0, 3) ORDER BY ALL",
        "json",
    );
    let expected = concat!(
        "[\n",
        r#"{"event_id":"e0","project_id":"p0","ts":null,"data":null,"labels":null,"log_offset":0},"#,
        "\n",
        r#"{"event_id":"e3","project_id":"p1","ts":"2026-01-02T03:04:05.678Z","#,
        r#""data":"{\"n\":3}","labels":null,"log_offset":3}"#,
        "\n]\n",
    );
    assert_eq!(text, expected);
    assert_eq!(lake.text("FROM empty", "json"), "[]\n");
}

#[test]
fn ndjson_is_one_object_a_line() {
    let lake = Lake::new();
    let text = lake.text(
        "SELECT log_offset AS n FROM messages ORDER BY 1 LIMIT 2",
        "ndjson",
    );
    assert_eq!(text, "{\"n\":0}\n{\"n\":1}\n");
    assert_eq!(lake.text("FROM empty", "ndjson"), "");
}

#[test]
fn csv_is_rfc_4180() {
    let lake = Lake::new();
    let sql = "SELECT 'a,b' AS \"x,y\", 'say \"hi\"' AS q, '' AS none, NULL AS null_,
               chr(13) || chr(10) AS lines, 1.50::DECIMAL(9, 2) AS d, 'NaN'::DOUBLE AS nan,
               [1, 2] AS list";
    let expected = concat!(
        "\"x,y\",q,none,null_,lines,d,nan,list\r\n",
        "\"a,b\",\"say \"\"hi\"\"\",\"\",,\"\r\n\",1.50,NaN,\"[1,2]\"\r\n",
    );
    assert_eq!(lake.text(sql, "csv"), expected);
    assert_eq!(lake.text("FROM empty", "csv"), "x\r\n");
}

#[test]
fn a_table_is_aligned_and_counted() {
    let lake = Lake::new();
    let sql =
        "SELECT event_id, log_offset * 1000 AS big, data FROM messages ORDER BY 2 DESC LIMIT 3";
    let expected = concat!(
        "event_id |  big | data\n",
        "---------+------+--------\n",
        "e4       | 4000 | {\"n\":4}\n",
        "e3       | 3000 | {\"n\":3}\n",
        "e2       | 2000 | NULL\n",
        "(3 rows)\n",
    );
    assert_eq!(lake.text(sql, "table"), expected);
    assert_eq!(lake.text("FROM empty", "table"), "x\n-\n(0 rows)\n");
    let steered = lake.text("SELECT chr(27) || '[2J' AS x", "table");
    assert!(
        steered.contains("\\u{1b}[2J") && !steered.contains('\x1b'),
        "{steered}"
    );
    let plan = lake.text("EXPLAIN FROM empty", "table");
    assert!(plan.lines().count() > 3, "{plan}");
}

#[test]
fn a_long_table_keeps_its_widths() {
    let lake = Lake::new();
    let sql = "SELECT range AS n, 'x' AS t FROM range(3000)";
    let text = lake.text(sql, "table");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3003);
    assert_eq!(lines[0], "  n | t");
    assert_eq!(lines[2], "  0 | x");
    assert_eq!(lines[1001], "999 | x");
    assert_eq!(lines[2999 + 2], "2999 | x");
    assert_eq!(lines[3002], "(3000 rows)");
}

#[test]
fn every_kind_of_value_has_its_json() {
    let lake = Lake::new();
    let sql = "SELECT 9223372036854775807 AS i64, 18446744073709551615::UBIGINT AS u64,
        sum(9223372036854775807::BIGINT) OVER () AS huge, -0.05::DECIMAL(5, 2) AS dec,
        'NaN'::DOUBLE AS nan, 'inf'::FLOAT AS inf, 0.1::FLOAT AS f32, 1e300 AS f64,
        true AS yes, 'ab'::BLOB AS bytes, DATE '2024-02-29' AS day, TIME '01:02:03.5' AS clock,
        TIMESTAMP '2024-01-01 00:00:00.9999' AS naive, 'infinity'::TIMESTAMPTZ AS never,
        TIMESTAMP_NS '2024-01-01 00:00:00.123456789' AS nanos,
        INTERVAL '1 month 2 days 3.5 seconds' AS span, [1, NULL] AS list,
        {'a': 1, 'b': [TIMESTAMPTZ '2024-01-01 00:00:00Z']} AS nested, MAP {'k': 1, 'l': 2} AS map,
        'b'::ENUM('a', 'b') AS enum, union_value(n := 2) AS union_, [1, 2]::INT[2] AS array_,
        '00000000-0000-0000-0000-000000000001'::UUID AS uuid, '{\"a\": 1}'::JSON AS json,
        1 AS i64, 'é\n\"\u{1}' AS text";
    let expected = json!([{
        "i64": 9_223_372_036_854_775_807_i64, "u64": 18_446_744_073_709_551_615_u64,
        "huge": 9_223_372_036_854_775_807_i64, "dec": -0.05,
        "nan": null, "inf": null, "f32": 0.1, "f64": 1e300,
        "yes": true, "bytes": "YWI=", "day": "2024-02-29", "clock": "01:02:03.500000",
        "naive": "2024-01-01T00:00:00.999Z", "never": "infinity",
        "nanos": "2024-01-01T00:00:00.123Z",
        "span": "P1M2DT3.5S", "list": [1, null],
        "nested": {"a": 1, "b": ["2024-01-01T00:00:00.000Z"]}, "map": {"k": 1, "l": 2},
        "enum": "b", "union_": 2, "array_": [1, 2],
        "uuid": "00000000-0000-0000-0000-000000000001", "json": "{\"a\": 1}",
        "i64_1": 1, "text": "é\n\"\u{1}",
    }]);
    assert_eq!(lake.rows(sql), expected);
}

#[test]
fn parquet_can_be_read_again() {
    let lake = Lake::new();
    let output = run(&lake.request("FROM messages ORDER BY log_offset DESC; -- end", "parquet"));
    assert!(output.status.success(), "{}", runner::error_line(&output));
    assert!(output.stdout.starts_with(b"PAR1") && output.stdout.ends_with(b"PAR1"));
    let file = runner::path_in(&lake.folder, "answer.parquet");
    std::fs::write(&file, &output.stdout).unwrap();
    let connection = duckdb::Connection::open_in_memory().unwrap();
    let sql = format!("SELECT string_agg(event_id) FROM '{}'", file.display());
    let ids: String = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
    assert_eq!(ids, "e4,e3,e2,e1,e0");
    let explain = run(&lake.request("EXPLAIN FROM messages", "parquet"));
    assert_eq!(error_code(&explain), "statement_refused");
}

#[test]
fn a_table_that_is_none_is_answered_with_those_that_are() {
    let lake = Lake::new();
    let output = run(&lake.request("SELECT * FROM nothing", "json"));
    assert_eq!(output.status.code(), Some(2));
    let line = error_line(&output);
    assert!(line.contains("The tables are empty, messages."), "{line}");
}

#[test]
fn arguments_are_answered_with_what_to_do() {
    let program = |argument| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fulmar-sql"));
        command.arg(argument).output().unwrap()
    };
    let help = program("--help");
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("fulmar query"));
    let other = program("SELECT 1");
    assert_eq!(other.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&other.stderr).contains("--help"));
}
