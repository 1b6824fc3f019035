//! Places to run: the agent, its transports, QEMU, and the lab image every machine boots.
//!
//! A *machine* is a place where the program runs as an agent and obeys the same requests: the user's own machine,
//! another one over ssh, an emulated host, a guest inside it, to any depth.

pub mod agent;
pub mod bounds;
mod command_line;
mod connection;
pub mod error;
mod facts;
pub mod init;
mod instructions;
pub mod lab_image;
mod machine;
pub mod message;
pub mod mounts;
pub mod ownership;
pub mod qemu;
mod refusal;
pub mod spec;
mod speed;
mod ssh;
mod ticks;
pub mod transport;

pub use error::{FailedProgram, MachineError};
pub use instructions::{InstructionCounts, InstructionMarks, WhyNotCounted};
pub use machine::{Boot, Machine, SMALL_FILE_BYTES};
pub use message::{Command, Facts, Finished};
pub use refusal::{Cause, ProgramEnd, Refusal};
pub use spec::{Accelerator, DiskAttachment, DiskBackend, MachineSpec, MachineTime};
pub use speed::ProcessorSpeed;
pub use ticks::TickReading;
pub use transport::Ground;
