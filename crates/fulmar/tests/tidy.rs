//! The repository's own shape: bounds that keep it readable, and words that stay out.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a source file; what is longer has two reasons to change.
const FILE_LINES_MAX: usize = 500;
/// Lines of a function: what fits a screen. A test may be longer: a table of cases is as long
/// as its cases.
const FUNCTION_LINES_MAX: usize = 70;
/// Columns of a line of source, unless it holds a text that cannot be broken.
const LINE_COLUMNS_MAX: usize = 100;

/// Folders that are not ours to judge: built, fetched or made by a run.
const FOLDERS_SKIPPED: &[&str] = &["target", "fulmar-data", "node_modules"];
/// Rooms whose name does not say what is in them.
const MODULES_REFUSED: &[&str] = &["common", "helpers", "misc", "types", "util", "utils"];

/// Words of the workshop, in two halves so that this file does not hold them either.
const WORDS_REFUSED: &[(&str, &str)] = &[
    ("/wo", "rk/"),
    ("/tmp/pl", "an"),
    ("crates", ".io/"),
    ("registry.npm", "js"),
    ("pypi", ".org"),
    ("FIX", "ME"),
    ("TO", "DO"),
    ("XX", "X:"),
];

fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap().to_path_buf()
}

/// Every text file of the repository.
fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_symlink() || name == ".git" {
                continue;
            }
            if path.is_dir() && !FOLDERS_SKIPPED.contains(&name.as_str()) {
                folders.push(path);
            } else if path.is_file() && name != "Cargo.lock" {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn is_source(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "rs" || extension == "py")
}

fn text_of(path: &Path) -> Option<String> {
    String::from_utf8(fs::read(path).unwrap()).ok()
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

fn assert_none(what: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{what}:\n{}", faults.join("\n"));
}

#[test]
fn files_and_lines_are_short() {
    let mut faults = Vec::new();
    for path in files().iter().filter(|path| is_source(path)) {
        let Some(text) = text_of(path) else { continue };
        let count = text.lines().count();
        if count > FILE_LINES_MAX {
            faults.push(format!("{}: {count} lines", shown(path)));
        }
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > LINE_COLUMNS_MAX && !line.contains('"') {
                faults.push(format!("{}:{}: {columns} columns", shown(path), number + 1));
            }
        }
    }
    assert_none("too long", &faults);
}

#[test]
fn functions_fit_a_screen() {
    let mut faults = Vec::new();
    for path in files()
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
    {
        let Some(text) = text_of(path) else { continue };
        for (name, line, length) in functions(&text) {
            if length > FUNCTION_LINES_MAX {
                faults.push(format!("{}:{line}: fn {name}: {length} lines", shown(path)));
            }
        }
    }
    assert_none("functions longer than a screen", &faults);
}

/// Name, first line and length of each function: in formatted source it ends with the
/// first brace that stands as far in as it does.
fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        let Some(name) = function_name(code) else {
            continue;
        };
        let ends = |line: &&str| {
            let code = line.trim_start();
            line.len() - code.len() == indent && (code.starts_with('}') || code.ends_with(';'))
        };
        let attribute = start
            .checked_sub(1)
            .map_or("", |before| lines[before].trim_start());
        let is_test = attribute.starts_with("#[") && attribute.contains("test");
        if is_test || code.ends_with('}') || code.ends_with(';') {
            continue;
        }
        if let Some(length) = lines[start + 1..].iter().position(ends) {
            found.push((name, start + 1, length + 2));
        }
    }
    found
}

fn function_name(code: &str) -> Option<String> {
    let mut words = code.split_whitespace();
    loop {
        let word = words.next()?;
        let qualifier = word.starts_with("pub")
            || word.ends_with(')')
            || matches!(word, "async" | "const" | "unsafe" | "extern" | "default");
        if word == "fn" {
            let name = words.next()?;
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            return Some(name[..end].to_string());
        }
        if !qualifier {
            return None;
        }
    }
}

#[test]
fn functions_are_measured() {
    let text = concat!(
        "fn a() {\n    1\n}\n\nimpl X {\n",
        "    pub(super) async fn b(\n        x: u8,\n    ) -> u8 {\n        x\n    }\n",
        "    fn c(&self) -> u8;\n}\n",
        "#[test]\nfn d() {\n}\n",
    );
    let expected = vec![("a".to_string(), 1, 3), ("b".to_string(), 6, 5)];
    assert_eq!(functions(text), expected);
}

#[test]
fn rooms_are_named_for_what_is_in_them() {
    let mut faults = Vec::new();
    for path in files().iter().filter(|path| is_source(path)) {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        let refused = |name: &str| MODULES_REFUSED.contains(&name);
        if refused(&stem) || refused(&folder.to_string_lossy()) {
            faults.push(shown(path));
        }
    }
    assert_none("rooms without a name", &faults);
}

#[test]
fn words_of_the_workshop_stay_out() {
    let mut faults = Vec::new();
    for path in &files() {
        let Some(text) = text_of(path) else { continue };
        for (number, line) in text.lines().enumerate() {
            for (first, second) in WORDS_REFUSED {
                if line.contains(&format!("{first}{second}")) {
                    faults.push(format!("{}:{}: {line}", shown(path), number + 1));
                }
            }
        }
    }
    assert_none("words that stay out", &faults);
}
