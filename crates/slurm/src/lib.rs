//! Spreads the cells of a study over the machines of a Slurm cluster.
//!
//! The process that the user started is the controller: it hands out cells as an array job, collects what the tasks have measured
//! from a directory that all machines share, and hands out again what was lost with its machine. Each task takes the cells that the
//! plan gives it and publishes a results file of its own; that file is always whole, and no two machines ever write to one file.

mod array;
mod cluster;
mod crew;
mod ending;
mod files;
mod leftovers;
mod sbatch;
mod spread;
mod task;

pub use array::{ArrayJob, TaskCell, deal, tasks_for};
pub use cluster::{Cluster, Slurm, SlurmError, TaskState};
pub use crew::{Settings, SlurmCrew};
pub use files::SharedDirectory;
pub use leftovers::{Leftovers, take_leftovers};
pub use sbatch::{Request, SCRIPT, arguments};
pub use spread::{Spread, SpreadExtent};
pub use task::{TaskFiles, TaskStatus};

#[cfg(test)]
mod tests;
