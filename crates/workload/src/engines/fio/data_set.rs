//! How large the data set is and into which files it is cut.

use nestor_text::units;

use super::super::options::{bytes, count, switch};
use crate::engine::{DataSet, Misfit};
use crate::notation::Workload;
use crate::value::Value;

/// "Total I/O size 5 GB": Le, Huang, Wang, FAST '12, table 4; fio's own `5g` is 5 GiB.
const PUBLISHED_BYTES: u64 = 5 << 30;

/// O_DIRECT needs multiples of the device's logical block, 512 bytes at least.
const SECTOR_BYTES: u64 = 512;

/// Most files of a data set.
pub(in crate::engines) const MOST_FILES: u64 = 1_000_000;

/// A data set, cut into files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) struct DataPlan {
    /// Threads that share it.
    pub(in crate::engines) jobs: u64,
    /// Files of each thread.
    pub(in crate::engines) files_per_job: u64,
    /// Size of each file, a multiple of the block size.
    pub(in crate::engines) file_bytes: u64,
}

impl DataPlan {
    /// The size asked for is kept as well as whole blocks allow; `filesize` gives way to it.
    pub(in crate::engines) fn of(workload: &Workload) -> Self {
        let wanted = wanted_bytes(workload);
        let jobs = count(workload, "numjobs");
        let files = match workload.given("files") {
            Some(Value::Count(files)) => files,
            _ => {
                let file_bytes = bytes(workload, "filesize");
                let nearest = wanted / file_bytes + u64::from(wanted % file_bytes >= file_bytes.div_ceil(2));
                nearest.max(1).next_multiple_of(jobs)
            }
        };
        let block = bytes(workload, "bs");
        Self { jobs, files_per_job: files / jobs, file_bytes: wanted / files / block * block }
    }

    pub(in crate::engines) fn files(self) -> u64 {
        self.files_per_job * self.jobs
    }

    pub(in crate::engines) fn bytes_per_job(self) -> u64 {
        self.files_per_job * self.file_bytes
    }

    pub(in crate::engines) fn bytes(self) -> u64 {
        self.bytes_per_job() * self.jobs
    }

    pub(in crate::engines) fn data_set(self) -> DataSet {
        DataSet {
            bytes: self.bytes(),
            files: self.files(),
            file_bytes: self.file_bytes,
            scale_factor: self.bytes() as f64 / PUBLISHED_BYTES as f64,
        }
    }

    /// `512 MiB in 64 files`.
    pub(in crate::engines) fn in_words(self) -> String {
        let files = units::plural(usize::try_from(self.files()).unwrap_or(usize::MAX), "file");
        format!("{} in {files}", units::size(self.bytes()))
    }
}

fn wanted_bytes(workload: &Workload) -> u64 {
    match (workload.given("size"), workload.value("scale")) {
        (Some(Value::Bytes(size)), _) => size,
        // At most 1000 × 5 GiB: the product of millionths stays far below 2^64.
        (_, Some(Value::Factor(millionths))) => {
            (u128::from(PUBLISHED_BYTES) * u128::from(millionths) / 1_000_000) as u64
        }
        (_, other) => unreachable!("scale has a default when size is not given, not {other:?}"),
    }
}

/// Checks that the data set can be cut as asked.
pub(in crate::engines) fn check(workload: &Workload) -> Result<(), Misfit> {
    for (option, other) in [("scale", "size"), ("filesize", "files")] {
        if workload.given(option).is_some() && workload.given(other).is_some() {
            return Err(Misfit {
                option,
                why: format!("{option} and {other} set the same value"),
                remedy: format!("give either {option} or {other}"),
            });
        }
    }
    let block = bytes(workload, "bs");
    if switch(workload, "direct") && !block.is_multiple_of(SECTOR_BYTES) {
        return Err(Misfit {
            option: "bs",
            why: format!("direct I/O needs blocks of whole sectors, and {block} is not a multiple of 512"),
            remedy: "make bs a multiple of 512, or add direct=off".to_owned(),
        });
    }
    let jobs = count(workload, "numjobs");
    if let Some(Value::Count(files)) = workload.given("files")
        && files % jobs != 0
    {
        return Err(Misfit {
            option: "files",
            why: format!("{files} files cannot be shared evenly among {jobs} jobs"),
            remedy: format!("make files a multiple of {jobs}, such as {}", files.next_multiple_of(jobs)),
        });
    }
    check_plan(workload, DataPlan::of(workload))
}

/// Checks that there are not too many files, and that each has room for a block.
fn check_plan(workload: &Workload, plan: DataPlan) -> Result<(), Misfit> {
    if plan.files() > MOST_FILES {
        return Err(Misfit {
            option: "filesize",
            why: format!("that makes {} files, but at most {MOST_FILES} can be laid out", plan.files()),
            remedy: "use a larger filesize or a smaller data set".to_owned(),
        });
    }
    if plan.file_bytes == 0 {
        let size = wanted_bytes(workload);
        return Err(Misfit {
            option: ["size", "files", "filesize", "scale", "bs", "numjobs"]
                .into_iter()
                .find(|option| workload.given(option).is_some())
                .unwrap_or("bs"),
            why: format!(
                "a data set of {} in {} file(s) leaves no room for a block of {} in each",
                units::size(size),
                plan.files(),
                units::size(bytes(workload, "bs"))
            ),
            remedy: "use a larger data set, larger files or smaller blocks".to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> DataPlan {
        DataPlan::of(&Workload::parse(text).unwrap())
    }

    #[test]
    fn the_published_data_set_scales() {
        assert_eq!(plan("fio:seq-read").bytes(), 512 << 20);
        assert_eq!(plan("fio:seq-read").files(), 64);
        assert_eq!(plan("fio:seq-read:scale=1").bytes(), 5 << 30);
        assert_eq!(plan("fio:seq-read:scale=1").files(), 640);
        let data_set = plan("fio:seq-read:size=1G").data_set();
        assert!((data_set.scale_factor - 0.2).abs() < 1e-12);
        assert_eq!(data_set.files, 128);
    }

    #[test]
    fn files_fit_size_blocks_and_jobs() {
        assert_eq!(plan("fio:seq-read:size=20M:files=4").file_bytes, 5 << 20);
        // 20 MiB are 2.5 files of 8 MiB: three files that together are 20 MiB but for parts of a block.
        let three = plan("fio:seq-read:size=20M");
        assert_eq!(three.files(), 3);
        assert_eq!(three.file_bytes, (20 << 20) / 3 / 8192 * 8192);
        let shared = plan("fio:seq-read:size=24M:numjobs=2");
        assert_eq!((shared.jobs, shared.files_per_job, shared.file_bytes), (2, 2, 6 << 20));
        assert_eq!(plan("fio:seq-read:size=64k").files(), 1);
    }
}
