//! The transaction model of the ESX study (Ahmad et al., WWC 2003, §5.3; acceptance rows ).
//!
//! A thread computes for C, spends S in the system's code for disk I/O, waits L for the disk, and begins again:
//! T = C + S + L. On the target, computing takes (C + V)·F: V for what virtualisation adds to it, F for the other
//! machine's processor. What the whole application does follows from the reference: M = M_R · T_R / T_V.

use serde::{Deserialize, Serialize};

/// Where the time of one transaction goes; milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transaction {
    /// C: the application's own computing, which a model of the load has as think time.
    pub compute_ms: f64,
    /// S: the system's code for disk I/O, and waiting for a processor.
    pub system_ms: f64,
    /// L: the disk I/O itself.
    pub disk_ms: f64,
}

/// What differs in computing on the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetMachine {
    /// V as a share of C: 0.094 in the study's mail server (row A-32). 0 leaves it out.
    pub overhead_share: f64,
    /// F: the reference's processor speed over the target's; 1 on the same machine.
    pub compute_scale: f64,
}

/// Whether intermediate results are rounded as the study printed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rounding {
    /// Nothing is rounded.
    Exact,
    /// V and the times of transactions to 0.1 ms, T_R over T_V to 0.01.
    AsPrinted,
}

impl TargetMachine {
    /// The same machine without a hypervisor's cost of computing: neither V nor F.
    pub const SAME: Self = Self { overhead_share: 0.0, compute_scale: 1.0 };
}

impl Transaction {
    /// From a closed load as it was measured: so many workers, each thinking for `compute_ms` between requests that took
    /// `disk_ms`; S is what is left (§5.3). `None` if nothing was done or times do not add up: C and L alone take longer than a
    /// transaction did.
    pub fn of_measured(
        workers: f64,
        operations_per_s: f64,
        compute_ms: f64,
        disk_ms: f64,
        rounding: Rounding,
    ) -> Option<Self> {
        if operations_per_s <= 0.0 || workers <= 0.0 {
            return None;
        }
        let total = rounding.tenths(workers * 1e3 / operations_per_s);
        let system_ms = total - compute_ms - disk_ms;
        // Think times and latencies are measured too: a little less than nothing is nothing.
        (system_ms > -0.05 * total).then_some(Self { compute_ms, system_ms: system_ms.max(0.0), disk_ms })
    }

    /// T = C + S + L, as a load's own run has it.
    pub fn total_ms(&self) -> f64 {
        self.compute_ms + self.system_ms + self.disk_ms
    }

    /// T_V = (C + V)·F + S + L.
    pub fn on(&self, target: TargetMachine, rounding: Rounding) -> f64 {
        let overhead = rounding.tenths(self.compute_ms * target.overhead_share);
        let compute = (self.compute_ms + overhead) * target.compute_scale;
        rounding.tenths(compute + self.system_ms + self.disk_ms)
    }
}

impl Rounding {
    fn tenths(self, value: f64) -> f64 {
        match self {
            Self::Exact => value,
            Self::AsPrinted => (value * 10.0).round() / 10.0,
        }
    }

    fn hundredths(self, value: f64) -> f64 {
        match self {
            Self::Exact => value,
            Self::AsPrinted => (value * 100.0).round() / 100.0,
        }
    }
}

/// M = M_R · T_R / T_V, in the unit of `reference_metric`.
pub fn capacity(reference_metric: f64, reference_ms: f64, target_ms: f64, rounding: Rounding) -> f64 {
    reference_metric * rounding.hundredths(reference_ms / target_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: f64 = 7122.0;
    const THAR: Transaction = Transaction { compute_ms: 50.0, system_ms: 9.5, disk_ms: 13.0 };
    const ATACAMA: Transaction = Transaction { compute_ms: 50.0, system_ms: 13.3, disk_ms: 27.0 };
    const THAR_VM: TargetMachine = TargetMachine { overhead_share: 0.094, compute_scale: 1.0 };
    const ATACAMA_VM: TargetMachine = TargetMachine { overhead_share: 0.094, compute_scale: 1.6 / 2.0 };

    fn error_percent(predicted: f64, actual: f64) -> f64 {
        (predicted / actual - 1.0) * 100.0
    }

    /// Rows.
    #[test]
    fn the_reference_transaction() {
        let reference = Transaction::of_measured(50.0, 792.0, 50.0, 12.0, Rounding::AsPrinted).unwrap();
        assert!((reference.total_ms() - 63.1).abs() < 1e-9);
        assert!((reference.system_ms - 1.1).abs() < 1e-9);
        let exact = Transaction::of_measured(50.0, 792.0, 50.0, 12.0, Rounding::Exact).unwrap();
        assert!((exact.total_ms() - 63.131).abs() < 1e-3);
    }

    /// Rows: T'_V = 50 workers over the I/O rate.
    #[test]
    fn the_measured_transactions() {
        for (rate, disk_ms, printed, computed) in [(690.0, 13.0, 72.5, 72.464), (554.0, 27.0, 90.3, 90.253)] {
            let found =
                |rounding| Transaction::of_measured(50.0, rate, 50.0, disk_ms, rounding).unwrap().total_ms();
            assert!((found(Rounding::AsPrinted) - printed).abs() < 1e-9);
            assert!((found(Rounding::Exact) - computed).abs() < 1e-3);
        }
    }

    /// Rows: times and ratios, as printed and exact.
    #[test]
    fn the_times_on_the_targets() {
        for (transaction, target, printed, exact, ratio) in
            [(THAR, THAR_VM, 77.2, 77.2, 0.8174), (ATACAMA, ATACAMA_VM, 84.1, 84.06, 0.7507)]
        {
            assert!((transaction.on(target, Rounding::AsPrinted) - printed).abs() < 1e-9);
            let found = transaction.on(target, Rounding::Exact);
            assert!((found - exact).abs() < 1e-9);
            assert!((63.1 / found - ratio).abs() < 5e-5);
        }
    }

    /// Rows: 5840 and 4.6 % come of rounding 0.8174 to 0.82.
    #[test]
    fn the_capacities() {
        for (transaction, target, actual, printed, printed_error, exact, exact_error) in [
            (THAR, THAR_VM, 6123.0, 5840.0, -4.6, 5821.0, -4.93),
            (ATACAMA, ATACAMA_VM, 4921.0, 5342.0, 8.6, 5346.0, 8.64),
        ] {
            let most_users = |rounding| capacity(USERS, 63.1, transaction.on(target, rounding), rounding);
            let (rounded, unrounded) = (most_users(Rounding::AsPrinted), most_users(Rounding::Exact));
            assert!((rounded - printed).abs() < 1.0, "{rounded}");
            assert!((error_percent(rounded, actual) - printed_error).abs() < 0.06);
            assert!((unrounded - exact).abs() < 1.0, "{unrounded}");
            assert!((error_percent(unrounded, actual) - exact_error).abs() < 0.01);
        }
    }

    /// Contradiction 8 of the acceptance table: both corrections make both predictions worse.
    #[test]
    fn neither_correction_helps_on_the_two_points_of_the_study() {
        for (transaction, target, actual, without) in
            [(THAR, THAR_VM, 6123.0, 1.23), (ATACAMA, ATACAMA_VM, 4921.0, 1.13)]
        {
            let error = |target| {
                let time = transaction.on(target, Rounding::Exact);
                error_percent(capacity(USERS, 63.1, time, Rounding::Exact), actual)
            };
            assert!((error(TargetMachine::SAME) - without).abs() < 0.01);
            assert!(error(target).abs() > error(TargetMachine::SAME).abs());
        }
    }

    #[test]
    fn times_that_do_not_add_up_are_refused() {
        assert_eq!(Transaction::of_measured(50.0, 792.0, 60.0, 12.0, Rounding::Exact), None);
        assert_eq!(Transaction::of_measured(50.0, 0.0, 50.0, 12.0, Rounding::Exact), None);
    }
}
