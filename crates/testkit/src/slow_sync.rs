//! Makes the disk syncs of a process slow, for a test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::ensure;

/// A library that delays every sync of the process that loads it, while the file that `SLOW_SYNC` names
/// exists.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void delay(void) {
    const char *file = getenv("SLOW_SYNC");
    if (file && access(file, F_OK) == 0) usleep(SYNC_MICROSECONDS);
}
int fdatasync(int fd) {
    delay();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
int fsync(int fd) {
    delay();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
"#;

/// Makes the syncs of a process slow, and quick again.
#[derive(Debug)]
pub struct SlowSync {
    library: PathBuf,
    switch: PathBuf,
    delay: Duration,
}

impl SlowSync {
    /// Compiles the library that delays each sync by `delay`. That needs a C compiler, as SQLite does.
    pub fn compile(folder: &Path, delay: Duration) -> anyhow::Result<Self> {
        let (source, library) = (folder.join("slow_sync.c"), folder.join("slow_sync.so"));
        fs::write(&source, SHIM)?;
        let mut compiler = Command::new("cc");
        compiler.args([
            "-shared",
            "-fPIC",
            "-O1",
            &format!("-DSYNC_MICROSECONDS={}", delay.as_micros()),
            "-o",
        ]);
        let output = compiler.arg(&library).arg(&source).arg("-ldl").output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(Self { library, switch: folder.join("slow"), delay })
    }

    /// The environment variables with which the process has to be started.
    pub fn variables(&self) -> [(String, String); 2] {
        let text = |path: &Path| path.display().to_string();
        [("LD_PRELOAD".to_owned(), text(&self.library)), ("SLOW_SYNC".to_owned(), text(&self.switch))]
    }

    pub fn delay(&self) -> Duration {
        self.delay
    }

    pub fn begin(&self) -> anyhow::Result<()> {
        Ok(fs::write(&self.switch, "")?)
    }

    pub fn end(&self) -> anyhow::Result<()> {
        Ok(fs::remove_file(&self.switch)?)
    }
}
