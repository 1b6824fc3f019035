//! Turns a stack into real things on machines, and takes them down again.
