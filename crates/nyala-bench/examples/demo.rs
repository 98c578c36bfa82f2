//! Runs the demonstration against a running server: `demo http://127.0.0.1:8086`.

use nyala_bench::demo::{DemoSettings, run};

fn main() -> Result<(), nyala_bench::BenchError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:8086".to_owned());
    run(&url, &DemoSettings::default(), &mut std::io::stdout())
}
