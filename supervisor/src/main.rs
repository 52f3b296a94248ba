//! The `leo` binary: dispatch by subcommand before anything heavy starts.

fn main() {}
