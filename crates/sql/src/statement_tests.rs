//! What may run and what may not, against DuckDB's own parser.

use super::*;

fn known() -> BTreeSet<String> {
    BTreeSet::from(["messages".to_string(), "security_events".to_string()])
}

thread_local! {
    static PARSER: Connection = Connection::open_in_memory().unwrap();
}

fn operator(sql: &str) -> Result<Examined, Failure> {
    PARSER.with(|parser| examine(parser, sql, &known(), false))
}

fn project(sql: &str) -> Result<Examined, Failure> {
    PARSER.with(|parser| examine(parser, sql, &known(), true))
}

fn refused(result: Result<Examined, Failure>) -> bool {
    matches!(result, Err(Failure::Refused(_)))
}

#[test]
fn reading_statements_pass_and_name_their_tables() {
    let named = |sql: &str| operator(sql).unwrap().tables;
    let messages = Some(BTreeSet::from(["messages".to_string()]));
    assert_eq!(named("SELECT 1"), Some(BTreeSet::new()));
    assert_eq!(named("select count(*) from Messages;"), messages);
    assert_eq!(
        named("-- note\n/* x */ from main.messages -- end"),
        messages
    );
    assert_eq!(
        named("with a as (from messages) select * from a, range(3)"),
        messages
    );
    assert_eq!(named("values (1), (2)"), Some(BTreeSet::new()));
    assert_eq!(
        named("select (select max(event_id) from messages)"),
        messages
    );
    assert_eq!(
        named("from messages join security_events using (event_id)"),
        Some(known())
    );
    for catalogue in ["show tables", "describe messages", "from duckdb_tables()"] {
        assert_eq!(named(catalogue), None, "{catalogue}");
    }
    let long = format!("select {}1", "1 + ".repeat(900));
    assert_eq!(named(&long), Some(BTreeSet::new()));
}

#[test]
fn explain_is_one_explain_of_one_select() {
    assert!(operator("explain select 1").unwrap().explain);
    assert!(
        operator("/* a */ EXPLAIN ANALYZE from messages")
            .unwrap()
            .explain
    );
    assert!(!operator("select 'explain'").unwrap().explain);
    assert!(refused(operator("explain copy messages to 'x'")));
    assert!(refused(operator("explain select 1; drop table messages")));
    assert!(refused(operator(
        "explain analyze insert into messages values (1)"
    )));
    assert!(refused(project("explain select 1")));
}

#[test]
fn everything_else_is_refused() {
    let statements = [
        "",
        ";",
        "-- only a comment",
        "select 1; select 2",
        "select 1; copy messages to 'x'",
        "copy messages to 'x.csv'",
        "copy messages from 'x.csv'",
        "attach 'x.db'",
        "detach x",
        "use x",
        "install httpfs",
        "load httpfs",
        "set threads = 1",
        "reset threads",
        "pragma version",
        "call pragma_version()",
        "export database 'x'",
        "import database 'x'",
        "create table x (a int)",
        "create view x as select 1",
        "create macro x() as 1",
        "create secret x (type s3)",
        "drop view messages",
        "insert into messages values (1)",
        "update messages set data = ''",
        "delete from messages",
        "alter table messages add column x int",
        "prepare x as select 1",
        "execute x",
        "begin",
        "commit",
        "checkpoint",
        "vacuum",
        "analyze",
        "select 1\0",
    ];
    for sql in statements {
        let result = operator(sql);
        assert!(refused(result), "{sql:?} is not refused");
    }
}

#[test]
fn functions_that_reach_out_are_refused() {
    let calls = [
        "from read_text('/etc/passwd')",
        "from read_blob('/etc/passwd')",
        "from read_csv('/etc/passwd')",
        "from READ_CSV_AUTO('/etc/passwd')",
        "from read_json('/etc/passwd')",
        "from read_duckdb('x.db')",
        "from sniff_csv('/etc/passwd')",
        "from glob('/etc/*')",
        "from query('select 1')",
        "from query_table('messages')",
        "from json_execute_serialized_sql('{}')",
        "from enable_logging(storage = 'stdout')",
        "from enable_profiling()",
        "from checkpoint()",
        "from which_secret('s3://x', 's3')",
        "select * from messages, lateral (from glob('/*'))",
        "select (select count(*) from read_text('/etc/passwd'))",
        "with a as (from \"read_text\"('/etc/passwd')) from a",
        "select 1 order by (select min(content) from read_text('x')) limit 1",
    ];
    for sql in calls {
        assert!(refused(operator(sql)), "{sql:?} is not refused");
    }
    assert!(operator("from parquet_metadata('x.parquet')").is_ok());
}

#[test]
fn a_project_reads_its_tables_and_nothing_else() {
    for sql in [
        "from messages",
        "select * from memory.main.messages m join main.security_events s using (event_id)",
        "with a as (from messages), b as (from a) from b",
        "show tables",
        "describe messages",
        "summarize messages",
        "select * from generate_series(1, 3)",
    ] {
        assert!(project(sql).is_ok(), "{sql:?}: {:?}", project(sql));
    }
    for sql in [
        "from read_parquet('a.parquet')",
        "from parquet_scan('a.parquet')",
        "from parquet_metadata('a.parquet')",
        "from 'a.parquet'",
        "from \"a.parquet\"",
        "with \"a.parquet\" as (select 1) from \"a.parquet\"",
        "from (with \"a.parquet\" as (select 1) select 1) x, \"a.parquet\"",
        "from (with duckdb_views as (select 1) select 1) x, duckdb_views",
        "describe 'a.parquet'",
        "show 'a.parquet'",
        "summarize 'a.parquet'",
        "from duckdb_views()",
        "from duckdb_views",
        "from information_schema.views",
        "from information_schema.messages",
        "from pg_catalog.pg_views",
        "from sqlite_master",
        "from other",
        "pivot 'a.parquet' on x in (1) using count(*)",
        "select (select count(*) from 'a.parquet')",
    ] {
        assert!(refused(project(sql)), "{sql:?}: {:?}", project(sql));
    }
}
