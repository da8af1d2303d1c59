//! What can end a bench before it has a result.

/// Why there is no result. What goes wrong during a measurement is in the
/// result instead: its first error and its verdict.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The options contradict each other.
    #[error("{0}")]
    Usage(String),
    /// A file, socket or process failed.
    #[error("bench: {0}")]
    Io(#[from] std::io::Error),
    /// The null server's or the reconciliation's log.
    #[error("bench: {0}")]
    Log(#[from] fulmar_log::LogError),
    /// Listener or certificates.
    #[error("bench: {0}")]
    Gateway(#[from] fulmar_gateway::GatewayError),
    /// The state store, at the reconciliation.
    #[error("bench: {0}")]
    Flow(#[from] fulmar_flow::FlowError),
    /// The tables, at the reconciliation.
    #[error("bench: {0}")]
    Store(#[from] fulmar_store::StoreError),
    /// A child process did not do what it was started for.
    #[error("bench: {what}: {why}")]
    Child {
        /// Which, and what was expected of it.
        what: String,
        /// What it said or did.
        why: String,
    },
}
