//! Fixtures of the configuration: precedence, every problem at once, secrets.

use super::key::Key;
use super::table::KEYS;
use super::*;

fn from(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::defaults();
    settings.add_file(file, "fulmar.toml");
    settings.add_environment(
        environment
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
    );
    for (name, text) in flags {
        settings.add_flag(name, text);
    }
    settings
}

fn problems(settings: Settings) -> String {
    Config::check(settings)
        .err()
        .map(|failure| failure.to_string())
        .unwrap_or_default()
}

#[test]
fn the_defaults_are_a_sound_configuration() {
    let config = Config::check(Settings::defaults()).unwrap();
    assert_eq!(config.text("public.address"), "127.0.0.1:8080");
    assert_eq!(config.text("agents.address"), "0.0.0.0:8443");
    assert_eq!(config.text("ops.address"), "127.0.0.1:9100");
    assert_eq!(config.number("repeats.window"), (168 * 60 + 5) * 60_000);
    let rates = Rates {
        requests: 200,
        events: 50_000,
        bytes: 32 << 20,
    };
    assert_eq!(config.rates("agents"), rates);
    let rates = Rates {
        requests: 50_000,
        events: 200_000,
        bytes: 128 << 20,
    };
    assert_eq!(config.rates("keys"), rates);
    assert_eq!(
        config.rates("projects"),
        Rates {
            requests: 0,
            events: 0,
            bytes: 0
        }
    );
}

#[test]
fn every_key_prints_as_text_that_it_reads_back() {
    for (key, value, _) in Settings::defaults().iter() {
        let settings = from("", &[], &[(key.name, &value.to_string())]);
        assert_eq!(settings.get(key.name), value, "{}", key.name);
        assert!(settings.problems.is_empty(), "{:?}", settings.problems);
    }
}

#[test]
fn flags_win_over_environment_over_file_over_default() {
    let file = "[log]\npartitions = 1\n[ops]\naddress = \"127.0.0.1:1\"\n";
    let environment = [("FULMAR_LOG_PARTITIONS", "2"), ("FULMAR_OPS_ADDRESS", " ")];
    let settings = from(file, &environment, &[]);
    assert_eq!(settings.get("log.partitions"), &Value::Count(2));
    assert_eq!(
        settings.get("ops.address").to_string(),
        "127.0.0.1:1",
        "blank is unset"
    );
    let settings = from(file, &environment, &[("log.partitions", "3")]);
    assert_eq!(settings.get("log.partitions"), &Value::Count(3));
    assert_eq!(settings.get("server.id").to_string(), "fulmar");
}

#[test]
fn every_problem_is_reported_at_once_with_the_nearest_name() {
    let file = r#"
        enforce_fsync = true
        [public]
        adress = "127.0.0.1:8081"
        address = "0.0.0.0:8080"
        [log]
        partitions = 0
        segment_bytes = "8mib"
        [gateway]
        append_timeout = 10
        events_max = [1]
    "#;
    let environment = [
        ("FULMAR_LOG_LEVEL", "info"),
        ("FULMAR_DATA", "x"),
        ("PATH", "y"),
    ];
    let told = problems(from(file, &environment, &[("server.log_format", "jason")]));
    let lines: Vec<&str> = told.lines().map(str::trim).collect();
    let expected = [
        "the configuration has 9 problems:",
        "fulmar.toml: no key `enforce_fsync`",
        "fulmar.toml: gateway.append_timeout is `10`, but takes a duration such as 10s from 1s to 1m",
        "fulmar.toml: gateway.events_max takes text, a number or true or false",
        "fulmar.toml: log.partitions is `0`, but takes a number from 1 to 1000",
        "fulmar.toml: log.segment_bytes is `8mib`, but takes a size such as 8MiB from 1MiB to 1GiB",
        "fulmar.toml: no key `public.adress`; did you mean `public.address`?",
        "environment: no variable `FULMAR_LOG_LEVEL`; did you mean `FULMAR_SERVER_LOG_LEVEL`?",
        "flag: server.log_format is `jason`, but takes one of text, json; did you mean `json`?",
        "public.address 0.0.0.0:8080 can be reached from outside: set public.tls_cert and \
         public.tls_key, or public.behind_proxy = true",
    ];
    for line in expected {
        assert!(lines.contains(&line), "missing: {line}\nin:\n{told}");
    }
    assert_eq!(lines.len(), expected.len(), "{told}");
}

#[test]
fn broken_toml_is_one_problem_with_its_place() {
    let told = problems(from("[log\npartitions = 1", &[], &[]));
    assert!(
        told.contains("fulmar.toml: ") && told.contains("line 1"),
        "{told}"
    );
}

#[test]
fn a_public_listener_wants_tls_or_a_proxy() {
    let sound = [
        vec![("public.address", "127.0.0.1:0")],
        vec![("public.address", "[::1]:8080")],
        vec![
            ("public.address", "0.0.0.0:8080"),
            ("public.behind_proxy", "true"),
        ],
        vec![
            ("public.address", "0.0.0.0:8080"),
            ("public.tls_cert", "a.pem"),
            ("public.tls_key", "a.key"),
        ],
    ];
    for flags in sound {
        assert_eq!(problems(from("", &[], &flags)), "", "{flags:?}");
    }
    for address in ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:8080"] {
        let told = problems(from("", &[], &[("public.address", address)]));
        assert!(
            told.contains("can be reached from outside"),
            "{address}: {told}"
        );
    }
}

#[test]
fn rules_between_keys_are_checked() {
    let cases = [
        (
            vec![("public.tls_cert", "a.pem")],
            "public.tls_cert and public.tls_key go together",
        ),
        (
            vec![("ops.address", "127.0.0.1:8080")],
            "public.address and ops.address are both",
        ),
        (
            vec![("repeats.window", "168h")],
            "repeats.window must cover",
        ),
        (
            vec![("server.memory_max", "256MiB")],
            "server.memory_max 256MiB is less",
        ),
        (
            vec![
                ("gateway.in_flight_bytes_max", "8MiB"),
                ("gateway.body_max", "9MiB"),
            ],
            "must not",
        ),
        (vec![("server.id", "a b")], "server.id `a b` takes"),
    ];
    for (flags, problem) in cases {
        let told = problems(from("", &[], &flags));
        assert!(told.contains(problem), "{flags:?}: {told}");
    }
}

#[test]
fn a_secret_comes_from_a_file_too_and_never_prints() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "hunter2\n").unwrap();
    let path = path.to_str().unwrap();
    let by_file = from(&format!("[keys]\nadmin_file = {path:?}\n"), &[], &[]);
    let by_environment = from("", &[("FULMAR_KEYS_ADMIN_FILE", path)], &[]);
    for settings in [by_file, by_environment] {
        assert!(settings.problems.is_empty(), "{:?}", settings.problems);
        assert_eq!(
            settings.get("keys.admin"),
            &Value::Secret("hunter2".to_owned())
        );
        assert!(!format!("{settings:?}").contains("hunter2"));
    }
    let missing = problems(from("", &[("FULMAR_KEYS_ADMIN_FILE", "/nowhere/key")], &[]));
    assert!(
        missing.contains("keys.admin_file `/nowhere/key`"),
        "{missing}"
    );
    let no_secret = problems(from("[log]\npartitions_file = \"x\"\n", &[], &[]));
    assert!(
        no_secret.contains("no key `log.partitions_file`"),
        "{no_secret}"
    );
}

#[test]
fn names_are_unique_two_part_and_map_to_unique_variables() {
    let mut names: Vec<_> = KEYS.iter().map(|key| key.name).collect();
    let mut variables: Vec<_> = KEYS.iter().map(Key::env).collect();
    assert!(
        names.iter().all(|name| name.split('.').count() == 2),
        "{names:?}"
    );
    let count = KEYS.len();
    names.sort_unstable();
    names.dedup();
    variables.sort_unstable();
    variables.dedup();
    assert_eq!((names.len(), variables.len()), (count, count));
    assert_eq!(KEYS[0].env(), "FULMAR_SERVER_ID");
}

#[test]
fn every_key_says_what_it_does() {
    for key in KEYS {
        assert!(
            !key.doc.is_empty() && !key.doc.ends_with('.'),
            "{}",
            key.name
        );
    }
}
