//! One file per command.

pub mod advise;
pub mod agent;
pub mod characterize;
pub mod compare;
pub mod complete;
pub mod disk;
pub mod doctor;
pub mod domain_agent;
pub mod explain;
pub mod lab;
pub mod link;
pub mod load;
pub mod predict;
pub mod replicate;
pub mod report;
pub mod run;
pub mod shell;
pub mod slurm_task;
pub mod stack;
pub mod study;
pub mod study_report;
pub mod study_results;
pub mod top;
pub mod trace;
pub mod workloads;
