//! `penstock-bench`: measures Penstock next to its peers and writes `target/bench/report.json` and `.html`.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;
use penstock_bench::figures::{self, BenchOptions, FigureName};

/// Measures Penstock next to its peers, on the same cores in the same minutes.
///
/// Example: penstock-bench --server target/release/penstock --only sold_out_cpu_us
#[derive(Debug, Parser)]
#[command(name = "penstock-bench", version)]
struct Arguments {
    /// The penstock binary to measure
    #[arg(long, value_name = "FILE")]
    server: PathBuf,
    /// Measure only this figure; may be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<FigureName>,
    /// Measured seconds of each run [default: 5; with --quick: 2]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Fewer and shorter runs with fewer orders, to see whether it works; not for quoting
    #[arg(long)]
    quick: bool,
    /// Print the report as JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Where the measured servers keep their data while they run; has to be on a disk
    #[arg(long, value_name = "FOLDER", default_value = "target/bench/data")]
    folder: PathBuf,
    /// Where report.json and report.html go
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    report: PathBuf,
}

fn main() -> ExitCode {
    match measure(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "penstock-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: Arguments) -> anyhow::Result<()> {
    let options = BenchOptions {
        server: arguments.server,
        folder: arguments.folder,
        seconds: arguments.seconds.unwrap_or(if arguments.quick { 2 } else { 5 }),
        quick: arguments.quick,
    };
    let report = figures::run(&options, &arguments.only, &mut io::stderr())?;
    report.write(&arguments.report)?;
    let text = if arguments.json { report.json()? + "\n" } else { "\n".to_owned() + &report.table() };
    io::stdout().write_all(text.as_bytes())?;
    let page = arguments.report.join("report.html");
    writeln!(io::stderr(), "Written: {} and report.json in the same folder.", page.display())?;
    Ok(())
}
