//! The modelled processor of a machine in virtual time: how fast it is, and what it counted.

mod instructions;
mod speed;

pub use instructions::{InstructionCounts, InstructionMarks, WhyNotCounted};
pub use speed::ProcessorSpeed;
