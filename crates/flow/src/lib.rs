//! The fold runtime: blocks, durable state, positions, and the repeats index.
