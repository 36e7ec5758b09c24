//! Programs that measure parts below HTTP: examples of the crate that does the work, built next to the
//! measured `penstock`. Each prints one line of JSON.

use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::Value;

/// The output of an example.
#[derive(Debug)]
pub(super) struct Told(Value);

/// Runs the example `name` that was built together with the binary `server`, to its end.
pub(super) fn run(server: &Path, name: &str, arguments: &[String]) -> anyhow::Result<Told> {
    let program = server.parent().unwrap_or(Path::new("")).join("examples").join(name);
    ensure!(
        program.is_file(),
        "{} is missing; build it: cargo build --release --examples -p penstock-ledger -p penstock-records",
        program.display()
    );
    let mut command = penstock_local::command(&program, None);
    let output = penstock_local::output(command.args(arguments))?;
    Told::read(&output).with_context(|| format!("{name} told nothing that can be read:\n{output}"))
}

impl Told {
    fn read(output: &str) -> Option<Self> {
        let line = output.lines().find(|line| line.starts_with('{'))?;
        serde_json::from_str(line).ok().map(Self)
    }

    pub(super) fn number(&self, name: &str) -> anyhow::Result<f64> {
        let number = self.0.get(name).and_then(Value::as_f64);
        number.with_context(|| format!("no number {name} in {}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_the_line_of_json() {
        let told = Told::read("starting\n{\"claims_per_second\":12.5}\n").unwrap();
        assert_eq!(told.number("claims_per_second").unwrap(), 12.5);
        assert!(told.number("another").is_err());
        assert!(Told::read("nothing\n").is_none() && Told::read("{broken\n").is_none());
    }

    #[test]
    fn a_program_that_was_not_built_is_named() {
        let error = run(Path::new("/nowhere/penstock"), "claims_at", &[]).unwrap_err().to_string();
        assert!(error.contains("/nowhere/examples/claims_at is missing"), "{error}");
    }
}
