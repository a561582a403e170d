//! The program: signals first, then the command line.

use std::process::ExitCode;

use anteroom::app::Signals;
use anteroom::cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // From here on no SIGHUP ends the process by default.
    let signals = match Signals::take() {
        Ok(signals) => signals,
        Err(error) => {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "anteroom: signals cannot be taken: {error}");
            return ExitCode::FAILURE;
        }
    };
    // Fails only if a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    cli::main(&signals, std::env::args_os())
}
