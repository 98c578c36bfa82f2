//! The nyala program: `cli` reads the command, `assemble` puts store, database and server together.

mod allocator;
mod assemble;
mod cli;
mod config;
mod descriptors;
mod resident;
mod server;
mod storage;
mod subscriber;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::run()
}
