//! Evaluations: a task file becomes samples, each solved in a sandbox of its own, scored, and written into a log.

pub mod task;
