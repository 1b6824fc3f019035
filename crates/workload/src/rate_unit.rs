//! What the work of a load is counted in.

use nestor_text::units;
use serde::{Deserialize, Serialize};

use crate::{Demand, LoadResult};

/// What a load is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateUnit {
    /// Operations per second.
    OperationsPerSecond,
    /// Bytes per second; printed in MB/s.
    BytesPerSecond,
}

impl RateUnit {
    /// At the head of a column.
    pub fn name(self) -> &'static str {
        match self {
            Self::OperationsPerSecond => "IOPS",
            Self::BytesPerSecond => "MB/s",
        }
    }

    /// Of a number that is not scaled, in files for other programs: `B/s`, `1/s`.
    pub fn base(self) -> &'static str {
        match self {
            Self::OperationsPerSecond => "1/s",
            Self::BytesPerSecond => "B/s",
        }
    }

    /// The unit of what has moved so many bytes a second: operations, where no data was moved.
    pub fn of_moved(bytes_per_second: f64) -> Self {
        if bytes_per_second > 0.0 { Self::BytesPerSecond } else { Self::OperationsPerSecond }
    }

    /// A number of this unit for people: `26.2 MB/s`, `142 IOPS`.
    pub fn words(self, rate: f64) -> String {
        match self {
            Self::OperationsPerSecond => units::iops(rate),
            Self::BytesPerSecond => units::rate(rate),
        }
    }

    /// What a number of this unit is divided by for printing.
    pub fn scale(self) -> f64 {
        match self {
            Self::OperationsPerSecond => 1.0,
            Self::BytesPerSecond => 1e6,
        }
    }
}

impl Demand {
    /// Sequential work is judged by its bytes, everything else by its operations.
    pub fn rate_unit(&self) -> RateUnit {
        if self.in_order { RateUnit::BytesPerSecond } else { RateUnit::OperationsPerSecond }
    }
}

impl LoadResult {
    /// What it is told in: bytes, or operations where it moved none.
    pub fn rate_unit(&self) -> RateUnit {
        RateUnit::of_moved(self.bytes_per_second())
    }

    /// What all classes together reached, in this unit per second.
    pub fn rate(&self, unit: RateUnit) -> f64 {
        match unit {
            RateUnit::OperationsPerSecond => self.operations_per_second(),
            RateUnit::BytesPerSecond => self.bytes_per_second(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;

    #[test]
    fn what_moves_no_data_is_told_in_operations() {
        let told = |bytes: f64| RateUnit::of_moved(bytes).words(5330.0);
        assert_eq!([told(1.0), told(0.0)], ["0.01 MB/s", "5 330 IOPS"]);
    }

    #[test]
    fn sequential_work_is_judged_by_bytes() {
        let unit = |workload: &str| Workload::parse(workload).unwrap().demand().rate_unit();
        assert_eq!(unit("fio:seq-write:bs=4k"), RateUnit::BytesPerSecond);
        assert_eq!(unit("wml:nas-seq-write"), RateUnit::BytesPerSecond);
        assert_eq!(unit("fio:rand-read"), RateUnit::OperationsPerSecond);
        assert_eq!(unit("wml:mailserver"), RateUnit::OperationsPerSecond);
    }
}
