//! The time of an operation: workers that think, use the processor, and use the disk.

use nestor_statistics::Station;
use nestor_statistics::closed_network::{sensitivities, solve};

use super::demand::{Demand, Machine, Term};
use crate::evidence::Shape;

/// Where nobody thinks, more workers than these change nothing: the slower of the two stations is always busy.
const MOST_WITHOUT_THINKING: u32 = 64;
/// More are not computed: the work grows with their square.
const MOST_THINKING: u32 = 512;
/// A station needs some time.
const SHORTEST_S: f64 = 1e-12;

/// A time with what decides it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperationTime {
    /// Seconds from one operation's end to the next one's, of all workers together.
    pub seconds: f64,
    /// By how many per cent that grows with one per cent more of the processor's time.
    pub by_processor: f64,
    /// The same with the disk's.
    pub by_disk: f64,
}

impl OperationTime {
    /// By how many per cent it grows with one per cent more of a term.
    pub fn by_term(&self, demand: &Demand, term: Term, machine: Machine) -> f64 {
        let (of_processor, of_disk) = demand.shares(term, machine);
        self.by_processor * of_processor + self.by_disk * of_disk
    }
}

/// Of a demand by workers of this shape: a closed network of thinking, one processor, and one disk, each with a queue. `None` where
/// nothing takes any time.
pub fn operation_time(demand: &Demand, shape: &Shape) -> Option<OperationTime> {
    let most = if shape.think_s > 0.0 { MOST_THINKING } else { MOST_WITHOUT_THINKING };
    let customers = shape.customers().clamp(1, most);
    let queue = |demand_s: f64| Station::Queue { demand_s: demand_s.max(SHORTEST_S), servers: 1 };
    let stations =
        [queue(demand.processor_s()), queue(demand.disk_s()), Station::Delay { demand_s: shape.think_s }];
    let stations = if shape.think_s > 0.0 { &stations[..] } else { &stations[..2] };
    let found = solve(stations, customers)?;
    let by = sensitivities(stations, customers)?;
    Some(OperationTime { seconds: 1.0 / found.passes_per_s, by_processor: by[0], by_disk: by[1] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(processor_s: f64, disk_s: f64) -> Demand {
        Demand {
            kernel_s: processor_s,
            top_requests: 1.0,
            disk_requests: 1.0,
            data_s: disk_s,
            ..Demand::default()
        }
    }

    fn workers(workers: u32, think_s: f64) -> Shape {
        Shape { workers, think_s, ..Shape::default() }
    }

    #[test]
    fn one_worker_waits_for_one_after_the_other_and_many_for_the_slower() {
        let alone = operation_time(&demand(0.001, 0.009), &workers(1, 0.0)).unwrap();
        assert!((alone.seconds - 0.010).abs() < 1e-12);
        assert!(
            (alone.by_term(&demand(0.001, 0.009), Term::DiskTime, Machine::default()) - 0.9).abs() < 1e-9
        );
        let many = operation_time(&demand(0.001, 0.009), &workers(255, 0.0)).unwrap();
        assert!((many.seconds - 0.009).abs() < 1e-9 && many.by_processor < 1e-6, "{many:?}");
        let thinking = operation_time(&demand(0.001, 0.002), &workers(50, 10.0)).unwrap();
        assert!((thinking.seconds / (10.003 / 50.0) - 1.0).abs() < 0.01 && thinking.by_disk < 0.01);
    }

    #[test]
    fn nothing_takes_no_time() {
        let none = operation_time(&Demand::default(), &workers(1, 0.0)).unwrap();
        assert!(none.seconds < 1e-11);
    }
}
