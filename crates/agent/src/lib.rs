//! The sender: tail, parse, spool, send.
