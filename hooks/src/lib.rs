//! `leo hook`: one event from a harness to the hub, without an async runtime or an argument parser.
