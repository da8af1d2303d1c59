//! Puts a ready libduckdb beside the program, so that it runs from where it was built.
//!
//! The program looks for the library in its own folder (rpath `$ORIGIN`), both in a
//! build folder and in a release. The library is taken from `DUCKDB_LIB_DIR`, else from
//! the cache that `make` fills.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The release of DuckDB that the `duckdb` crate in use was made for.
const DUCKDB_VERSION: &str = "1.5.6";

fn main() {
    println!("cargo:rerun-if-env-changed=DUCKDB_LIB_DIR");
    println!("cargo:rerun-if-changed=build.rs");
    let library_name = match env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("macos") => "libduckdb.dylib",
        _ => "libduckdb.so",
    };
    let library = find_library(library_name);
    let folder = library
        .parent()
        .expect("the library's path ends with a file name");
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-arg=-Wl,-rpath,$ORIGIN");
    place_beside_program(&library, library_name);
}

fn find_library(name: &str) -> PathBuf {
    let mut looked_at = Vec::new();
    if let Some(folder) = env::var_os("DUCKDB_LIB_DIR") {
        looked_at.push(PathBuf::from(folder));
    } else {
        let cache = env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| {
                let home = env::var_os("HOME")?;
                Some(Path::new(&home).join(".cache"))
            });
        if let Some(cache) = cache {
            looked_at.push(cache.join(format!("fulmar/libduckdb-{DUCKDB_VERSION}")));
        }
    }
    for folder in &looked_at {
        let library = folder.join(name);
        if library.is_file() {
            println!("cargo:rerun-if-changed={}", library.display());
            return library;
        }
    }
    let places: Vec<String> = looked_at.iter().map(|p| p.display().to_string()).collect();
    panic!(
        "\n\nfulmar-sql links DuckDB {DUCKDB_VERSION}, and there is no {name} in: {}\n\
         Run `make build` (it finds or fetches the library), or run\n\
         `scripts/libduckdb` and set DUCKDB_LIB_DIR to the folder that it prints.\n\
         `cargo build -p fulmar` builds the server itself and needs no library.\n",
        places.join(", ")
    );
}

/// Links (or copies, across file systems) the library into the profile's folder and into
/// its `deps`, where the tests run from.
fn place_beside_program(library: &Path, name: &str) {
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // OUT_DIR is <target>/<profile>/build/<package>-<hash>/out.
    let Some(profile_dir) = out_dir.ancestors().nth(3) else {
        panic!("OUT_DIR {} is not where cargo puts it", out_dir.display());
    };
    for folder in [profile_dir.to_path_buf(), profile_dir.join("deps")] {
        let placed = folder.join(name);
        // A missing copy runs this script again.
        println!("cargo:rerun-if-changed={}", placed.display());
        fs::create_dir_all(&folder).expect("the build folder can be written");
        let _ = fs::remove_file(&placed);
        if fs::hard_link(library, &placed).is_err() {
            fs::copy(library, &placed).unwrap_or_else(|error| {
                panic!(
                    "cannot copy {} to {}: {error}",
                    library.display(),
                    placed.display()
                )
            });
        }
    }
}
