//! The threads of all TLS connections of this process. They begin with the first one.

use std::io;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// More would take the processors from the threads that move bytes.
const THREADS_MAX: usize = 4;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

pub fn handle() -> io::Result<&'static Handle> {
    if RUNTIME.get().is_none() {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let runtime = Builder::new_multi_thread()
            .worker_threads(cores.min(THREADS_MAX))
            .thread_name("logberg-tls")
            .enable_all()
            .build()?;
        // Another thread may have been first.
        if let Err(second) = RUNTIME.set(runtime) {
            second.shutdown_background();
        }
    }
    let runtime = RUNTIME.get();
    runtime
        .map(Runtime::handle)
        .ok_or_else(|| io::ErrorKind::Other.into())
}
