//! The workloads of the five papers, by name, in the notation that runs them.
//!
//! The letters and the names of the experiments are those of the acceptance rows.

use serde::Serialize;

/// One workload of a paper's experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PaperWorkload {
    /// The paper's letter: `L` (nested file systems, FAST '12), `A` (ESX disk performance, WWC '03), `D` (image propagation,
    /// CLOSER '11), `H` (virtualized NAS, WIOV '11), `P` (type-2 hypervisors and PostMark).
    pub paper: char,
    /// The experiment: `L-E1`.
    pub experiment: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// The workload as published, to be given to [`Workload::parse`](crate::Workload::parse).
    pub workload: &'static str,
}

const fn row(
    paper: char,
    experiment: &'static str,
    summary: &'static str,
    workload: &'static str,
) -> PaperWorkload {
    PaperWorkload { paper, experiment, summary, workload }
}

/// Every workload of the five papers; of a grid or a sweep, the ends or the middle.
///
/// Where a paper leaves an option open, its default here is used: docs of the engine say which.
pub const PAPER_WORKLOADS: &[PaperWorkload] = &[
    row('L', "L-E1", "file server of Filebench, as table 3 sets it", "wml:fileserver:scale=1:runtime=1m"),
    row('L', "L-E1", "web server of Filebench, as table 3 sets it", "wml:webserver:scale=1:runtime=1m"),
    row('L', "L-E1", "mail server of Filebench, as table 3 sets it", "wml:mailserver:scale=1:runtime=1m"),
    row('L', "L-E1", "database server of Filebench, as table 3 sets it", "wml:dbserver:scale=1:runtime=1m"),
    row('L', "L-E5", "FIO: 5 GB read in order, 8 KB, depth 255", "fio:seq-read:scale=1"),
    row('L', "L-E6", "FIO: 5 GB written in order, 8 KB, depth 255", "fio:seq-write:scale=1"),
    row('L', "L-E5", "FIO: 5 GB read at random, 8 KB, depth 255", "fio:rand-read:scale=1"),
    row('L', "L-E6", "FIO: 5 GB written at random, 8 KB, depth 255", "fio:rand-write:scale=1"),
    row(
        'A',
        "A-E1",
        "Iometer grid: 4 KB, a quarter reads, half random; bs=1k,4k,8k,16k, read= and random=0,25,50,75,100",
        "iometer:grid:read=25:operations=1000000:runtime=3m",
    ),
    row(
        'A',
        "A-E1",
        "Iometer grid: the corner of sequential writes, 16 KB",
        "iometer:grid:bs=16k:read=0:random=0:operations=1000000:runtime=3m",
    ),
    row(
        'A',
        "A-E1",
        "Iometer grid: the corner of random reads, 16 KB",
        "iometer:grid:bs=16k:read=100:random=100:operations=1000000:runtime=3m",
    ),
    row(
        'A',
        "A-E1",
        "Iometer grid: all 100 points in one run",
        "iometer:surface:operations=1000000:runtime=3m",
    ),
    row('A', "A-E3", "dbench with 30 clients", "dbench:fileserver:runtime=10m"),
    row('A', "A-E3", "dbench with 40 clients", "dbench:fileserver:clients=40:runtime=10m"),
    row('A', "A-E3", "dbench with 50 clients", "dbench:fileserver:clients=50:runtime=10m"),
    row(
        'A',
        "A-E5",
        "Iometer's model of a mail server: 64 % reads, random, 10.9 KB, 50 ms think time, 50 workers",
        "iometer:mail:operations=1000000:runtime=3m",
    ),
    row('D', "D-E3", "IOzone: write, 16 MB records, 4 GB", "iozone:write:size=4G"),
    row('D', "D-E3", "IOzone: re-write", "iozone:rewrite:size=4G"),
    row('D', "D-E3", "IOzone: read", "iozone:read:size=4G"),
    row('D', "D-E3", "IOzone: re-read", "iozone:reread:size=4G"),
    row('D', "D-E3", "IOzone: random read", "iozone:rand-read:size=4G"),
    row('D', "D-E3", "IOzone: random write", "iozone:rand-write:size=4G"),
    row('D', "D-E5", "Bonnie++: sequential write, re-write, read", "bonnie:sequential:size=4G"),
    row('D', "D-E6", "Bonnie++: files created and deleted, in order and at random", "bonnie:files"),
    row('D', "D-E7", "Bonnie++: all tests with their processor time", "bonnie:all:size=4G"),
    row(
        'H',
        "H-E1",
        "a tree of files is created; width=20 to 1000000",
        "wml:create-tree:scale=1:runtime=off",
    ),
    row('H', "H-E2", "stat of the files of a tree", "wml:stat-tree:scale=1:runtime=2m"),
    row('H', "H-E3", "sequential write to the NAS; iosize=2k to 4M", "wml:nas-seq-write:scale=1:runtime=off"),
    row(
        'H',
        "H-E4",
        "random read from the NAS, 20 threads; iosize=2k, 128k",
        "wml:nas-rand-read:scale=1:runtime=off",
    ),
    row('P', "P-E1", "PostMark: extra small files", "postmark:xs"),
    row('P', "P-E2", "PostMark: small files", "postmark:small"),
    row('P', "P-E3", "PostMark: large files", "postmark:large"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;

    #[test]
    fn every_workload_is_one() {
        for row in PAPER_WORKLOADS {
            let workload = Workload::parse(row.workload).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(workload.to_string(), row.workload, "written canonically");
            assert_eq!(workload.data_set().scale_factor, 1.0, "{} is as published", row.workload);
        }
    }

    #[test]
    fn every_paper_is_there_and_no_workload_twice() {
        let mut papers: Vec<char> = PAPER_WORKLOADS.iter().map(|row| row.paper).collect();
        papers.dedup();
        assert_eq!(papers, ['L', 'A', 'D', 'H', 'P']);
        for (index, row) in PAPER_WORKLOADS.iter().enumerate() {
            assert!(row.experiment.starts_with(&format!("{}-E", row.paper)));
            assert!(
                PAPER_WORKLOADS[..index].iter().all(|earlier| earlier.workload != row.workload),
                "{row:?}"
            );
        }
    }
}
