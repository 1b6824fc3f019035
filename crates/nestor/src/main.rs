//! The command line of Nestor.

fn main() {}
