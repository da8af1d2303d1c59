//! The command line beside no server: exit codes, configuration, files, secrets.

#![allow(clippy::unwrap_used)]

mod server;

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use server::Folder;

#[test]
fn wrong_usage_is_64_on_standard_error_and_help_is_an_answer() {
    let folder = Folder::new();
    for args in [
        &["frobnicate"][..],
        &["serve", "--colour"],
        &["keys", "create"],
        &[],
    ] {
        let ran = folder.run(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(64), ""), "{args:?}");
        assert!(!ran.stderr.is_empty(), "{args:?}");
    }
    for args in [
        &["--help"][..],
        &["--version"],
        &["serve", "--help"],
        &["keys", "--help"],
    ] {
        let ran = folder.run(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(!ran.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn every_command_teaches_with_an_example() {
    let folder = Folder::new();
    let commands = [
        "serve",
        "tail",
        "backup",
        "restore",
        "init",
        "send",
        "query",
        "status",
        "verify",
        "drain",
        "log",
        "lake",
        "quarantine",
        "projects",
        "keys",
        "agents",
        "pki",
        "config",
        "completions",
    ];
    for command in commands {
        let help = folder.done(&[command, "--help"]);
        assert!(help.contains("Example"), "{command}:\n{help}");
    }
}

#[test]
fn all_problems_of_a_configuration_are_told_at_once_and_nothing_is_touched() {
    let folder = Folder::new();
    let file = folder.write(
        "fulmar.toml",
        "[public]\nadress = \"x\"\naddress = \"0.0.0.0:8080\"\n[log]\npartitions = 0\n",
    );
    for args in [vec!["config", "check"], vec!["serve"]] {
        let args = [args, vec!["--config", file.as_str()]].concat();
        let ran = folder.run(&args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(64), ""), "{args:?}");
        for told in [
            "has 3 problems",
            "no key `public.adress`; did you mean `public.address`?",
            "log.partitions is `0`, but takes a number from 1 to 1000",
            "public.address 0.0.0.0:8080 can be reached from outside",
        ] {
            assert!(
                ran.stderr.contains(told),
                "{args:?}: {told}\n{}",
                ran.stderr
            );
        }
        assert!(!folder.data().exists());
    }
}

#[test]
fn what_config_prints_is_a_configuration_and_says_where_each_value_came_from() {
    let folder = Folder::new();
    let mut command = folder.command(&["config", "print", "--set", "log.partitions=4"]);
    command.env("FULMAR_SERVER_ID", "edge-1");
    let ran = server::Ran::of(command);
    let file = folder.write("printed.toml", &ran.stdout);
    let printed = folder.json(&["config", "print", "--json", "--config", &file]);
    let value = |key: &str| {
        let rows = printed.as_array().unwrap();
        let row = rows.iter().find(|row| row["key"] == key).unwrap();
        (
            row["value"].to_string(),
            row["source"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(value("log.partitions"), ("4".to_owned(), "file".to_owned()));
    assert_eq!(
        value("server.id"),
        ("\"edge-1\"".to_owned(), "file".to_owned())
    );
    assert_eq!(value("keys.admin").1, "default", "secrets are not printed");
    assert!(
        folder
            .done(&["config", "reference"])
            .contains("| `log.partitions` | 1 to 1000 | `16` |")
    );
}

#[test]
fn a_folder_without_data_is_wrong_usage() {
    let folder = Folder::new();
    for args in [
        &["status"][..],
        &["query", "select 1"],
        &["verify"],
        &["keys", "list"],
    ] {
        let ran = folder.run(args);
        assert_eq!(ran.code, Some(64), "{args:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("fulmar serve"),
            "{args:?}: {}",
            ran.stderr
        );
    }
    let sshd = Folder::sample("sshd.log");
    let ran = folder.run(&["send", "--door", "agents", "--format", "sshd", &sshd]);
    assert_eq!(ran.code, Some(64), "{}", ran.stderr);
}

#[test]
fn a_folder_that_another_process_holds_is_75() {
    let folder = Folder::new();
    folder.done(&["init"]);
    let _lock = fulmar_log::lock_folder(&folder.data()).unwrap();
    for args in [
        &["status"][..],
        &["query", "select 1"],
        &["verify"],
        &["init"],
        &["serve"],
    ] {
        let ran = folder.run(args);
        assert_eq!(ran.code, Some(75), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_folder_of_a_newer_version_is_refused_by_name() {
    let folder = Folder::new();
    folder.done(&["init"]);
    std::fs::write(folder.data().join("VERSION"), "fulmar data format 99\n").unwrap();
    for args in [&["serve"][..], &["status"], &["init"]] {
        let ran = folder.run(args);
        assert_eq!(ran.code, Some(1), "{args:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("data format 99"),
            "{args:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn secrets_are_private_files_and_never_printed_into_a_pipe() {
    let folder = Folder::new();
    let mut said = folder.run(&["init"]).all();
    said += &folder.run(&["keys", "create", "shop"]).all();
    said += &folder.run(&["keys", "rotate", "shop"]).all();
    said += &folder.run(&["keys", "list"]).all();
    said += &folder.run(&["keys", "list", "--json"]).all();
    said += &folder.run(&["pki", "agent", "web-1"]).all();
    let mut secrets = 0;
    for name in ["keys", "pki", "pki/agents"] {
        for entry in std::fs::read_dir(folder.data().join(name)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                continue;
            }
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", path.display());
            if path.extension().is_some_and(|extension| extension == "key") {
                let text = std::fs::read_to_string(&path).unwrap();
                let longest = text.lines().max_by_key(|line| line.len()).unwrap();
                assert!(
                    longest.len() > 40 && !said.contains(longest),
                    "{}",
                    path.display()
                );
                secrets += 1;
            }
        }
    }
    // ingest, admin, shop; both authorities, server, web-1.
    assert_eq!(secrets, 7);
}

#[test]
fn of_many_commands_at_once_one_makes_the_key_and_the_file_holds_it() {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    let start = || {
        let mut command = folder.command(&["keys", "create", "race", "--scope", "ingest"]);
        command.stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::null()).spawn().unwrap()
    };
    let started: Vec<_> = (0..6).map(|_| start()).collect();
    let ended = started
        .into_iter()
        .map(|child| child.wait_with_output().unwrap());
    let (done, refused): (Vec<_>, Vec<_>) = ended.partition(|output| output.status.success());
    assert_eq!((done.len(), refused.len()), (1, 5));
    let made: Value = serde_json::from_slice(&done[0].stdout).unwrap();
    let file = std::fs::read_to_string(folder.data().join("keys/race.key")).unwrap();
    assert!(file.starts_with(made["prefix"].as_str().unwrap()), "{made}");
    assert_eq!(running.stop().code(), Some(0));
}

#[test]
fn what_a_server_makes_is_its_owners_alone_also_in_a_folder_that_others_may_enter() {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    let folder = Folder::new();
    let mut open = std::fs::DirBuilder::new();
    open.mode(0o755).create(folder.data()).unwrap();
    // Through a shell, for a umask that lets others read.
    let serve = folder.serve_command(&[], &[]);
    let mut command = folder.command_of("sh", &["-c", "umask 022; exec \"$0\" \"$@\""]);
    command.arg(serve.get_program()).args(serve.get_args());
    let running = server::Server::start(command);
    let log = folder.write("auth.log", &server::sshd_lines(10));
    folder.done(&["send", "--door", "agents", "--format", "sshd", &log]);
    folder.done(&["lake", "compact"]);
    let mut folders = vec![folder.data()];
    let mut seen = 0;
    while let Some(dir) = folders.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let (path, kind) = (entry.as_ref().unwrap().path(), entry.unwrap().metadata());
            let mode = kind.unwrap().mode();
            assert_eq!(mode & 0o077, 0, "{} {mode:o}", path.display());
            seen += 1;
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    assert!(seen > 20, "{seen}");
    assert_eq!(running.stop().code(), Some(0));
}

#[test]
fn the_registry_can_be_administered_beside_no_server() {
    let folder = Folder::new();
    folder.done(&["init"]);
    folder.done(&["projects", "create", "shop"]);
    folder.done(&["agents", "register", "web-1", "--project", "shop"]);
    folder.done(&["agents", "disable", "web-1"]);
    let agents = folder.json(&["agents", "list", "--json"]);
    assert_eq!(agents[0]["agent"], "web-1");
    assert_eq!(
        (&agents[0]["project"], &agents[0]["state"]),
        (&"shop".into(), &"disabled".into())
    );
    folder.done(&["agents", "revoke", "web-1"]);
    let again = folder.run(&["agents", "enable", "web-1"]);
    assert_eq!(again.code, Some(1));
    assert!(
        again.stderr.contains("revoked, which is final"),
        "{}",
        again.stderr
    );
    let projects = folder.json(&["projects", "list", "--json"]);
    let names: Vec<&str> = projects
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["project"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["default", "shop"]);
}

#[test]
fn completions_are_of_this_program() {
    let folder = Folder::new();
    assert!(folder.done(&["completions", "bash"]).contains("_fulmar"));
}

#[test]
fn the_reference_of_the_configuration_is_that_of_the_code() {
    let folder = Folder::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let document = std::fs::read_to_string(path).unwrap();
    let table = folder.done(&["config", "reference"]);
    assert!(
        document.ends_with(&table),
        "the table in docs/configuration.md is not what `fulmar config reference` prints"
    );
}

#[test]
fn a_supervisor_is_told_when_the_doors_open_and_when_they_close() {
    let folder = Folder::new();
    let socket = folder.path("notify");
    let told = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    told.set_read_timeout(Some(std::time::Duration::from_secs(60)))
        .unwrap();
    let next = || {
        let mut word = [0; 64];
        let length = told.recv(&mut word).unwrap();
        String::from_utf8(word[..length].to_vec()).unwrap()
    };
    let socket = socket.to_str().unwrap();
    // A millisecond, so that signs of life come at once.
    let variables = [("NOTIFY_SOCKET", socket), ("WATCHDOG_USEC", "1000")];
    let running = folder.serve_with(&[], &variables);
    assert_eq!(next(), "READY=1");
    assert_eq!(next(), "WATCHDOG=1");
    // Its words are read beside its stop: what waits in a full socket would hold it up.
    let stopping = std::thread::spawn(move || running.stop());
    while next() != "STOPPING=1" {}
    drop(told);
    assert!(stopping.join().unwrap().success());
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = Folder::new();
    let pages = folder.path("man1");
    folder.done(&["man", "--out", pages.to_str().unwrap()]);
    let names: Vec<String> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in ["fulmar.1", "fulmar-serve.1", "fulmar-delete-profile.1"] {
        assert!(
            names.iter().any(|known| known == name),
            "{name} in {names:?}"
        );
    }
    assert!(folder.done(&["man"]).contains(".TH fulmar"));
}
