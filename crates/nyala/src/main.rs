//! The nyala program: `cli` reads the command line, `assemble` puts store, databases and server together.

mod allocator;
mod assemble;
mod background;
mod backup;
mod cli;
mod config;
mod descriptors;
mod leadership;
mod log_filter;
mod log_lines;
mod process_metrics;
mod resident_memory;
mod server;
mod storage;
mod subscriber;
mod traces;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::run()
}
