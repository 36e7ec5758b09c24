//! Builds the table of the files in `web/dist`. Without that folder a release can't be built, and a debug
//! build shows a page that says so.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use sha2::{Digest as _, Sha256};

/// How many characters of a hash tell files apart.
const FINGERPRINT_BYTES: usize = 12;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let crate_folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let dist = crate_folder.join("../../web/dist");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/not_built.html");
    println!("cargo:rerun-if-changed={}", dist.display());
    let table = if dist.join("index.html").is_file() {
        table(&dist.canonicalize()?)?
    } else if env::var("PROFILE")? == "release" {
        return Err("the pages are not built, and a release has to have them: run `make web` first".into());
    } else {
        println!(
            "cargo:warning=the pages are not built: run `make web`, otherwise the server only shows a page that says so"
        );
        // Cargo would treat a missing folder as changed each time.
        fs::create_dir_all(&dist)?;
        entry("/index.html", &crate_folder.join("src/not_built.html"))?
    };
    let text = format!("/// All files, by their path.\npub const FILES: &[PageFile] = &[\n{table}];\n");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("files.rs"), text)?;
    Ok(())
}

fn table(dist: &Path) -> Result<String, Box<dyn Error>> {
    let mut files = Vec::new();
    collect(dist, &mut files)?;
    files.sort();
    let mut table = String::new();
    for file in files {
        let inside = file.strip_prefix(dist)?.to_str().ok_or("a file's name is not UTF-8")?;
        table += &entry(&format!("/{inside}"), &file)?;
    }
    Ok(table)
}

/// All files except hidden ones and the compressed copies, which belong to another file.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if is_hidden {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if !matches!(extension(&path), "br" | "gz") {
            files.push(path);
        }
    }
    Ok(())
}

fn entry(path: &str, file: &Path) -> Result<String, Box<dyn Error>> {
    let content_type = content_type(file)?;
    let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut fingerprint = String::new();
    for byte in Sha256::digest(&bytes).iter().take(FINGERPRINT_BYTES) {
        write!(fingerprint, "{byte:02x}")?;
    }
    let compressed = |extension: &str| {
        let beside = PathBuf::from(format!("{}.{extension}", file.display()));
        match beside.is_file() {
            true => format!("Some(include_bytes!({beside:?}))"),
            false => "None".to_owned(),
        }
    };
    Ok(format!(
        "    PageFile {{\n        path: {path:?},\n        content_type: {content_type:?},\n        \
         fingerprint: {fingerprint:?},\n        bytes: include_bytes!({file:?}),\n        brotli: {},\n        \
         gzip: {},\n    }},\n",
        compressed("br"),
        compressed("gz"),
    ))
}

fn extension(file: &Path) -> &str {
    file.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

/// Browsers rely on this type alone, so a missing one fails the build.
fn content_type(file: &Path) -> Result<&'static str, String> {
    Ok(match extension(file) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        _ => {
            return Err(format!(
                "{}: the content type of this file is unknown; add it to crates/pages/build.rs",
                file.display()
            ));
        }
    })
}
