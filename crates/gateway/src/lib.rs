//! The doors: authenticate, admit, answer.
