//! Tests of the crate. All numbers in the fixtures are made up.

mod checks;
mod claim_file;
mod claim_limits;
mod claim_parts;
mod claims;
mod compare;
mod demands;
mod documents;
mod estimate;
mod esx_disk;
mod extremes;
mod file;
pub(crate) mod fixture;
mod judged;
mod links;
mod migration;
mod named_files;
mod nested_fs;
mod parts;
mod physical;
mod physical_limits;
mod places;
mod plan;
mod run_levels;
mod store;
mod tracing;
mod virtual_nas;
