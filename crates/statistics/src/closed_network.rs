//! Closed queueing networks of one class: workers that think, wait for a processor, and wait for a disk.
//!
//! A fixed number of customers goes round; each pass visits every station once. With exponential service at stations that serve
//! one after another, the network has a product form (Gordon and Newell, Operations Research 15, 1967; Baskett et al., JACM 22,
//! 1975), so the solution is exact. It is computed by convolution (Buzen, CACM 16, 1973) in logarithms. Mean value analysis
//! (Reiser and Lavenberg, JACM 27, 1980) gives the same numbers; its form for stations whose rate depends on their queue
//! subtracts nearly equal numbers where such a station is hardly ever idle, which convolution does not. The tests hold both
//! against each other.

use serde::{Deserialize, Serialize};

/// More customers are not computed: the work grows with their square.
pub const MOST_CUSTOMERS: u32 = 8192;

/// A place where each customer spends time once in a pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Station {
    /// No customer waits for another: think time, in seconds.
    Delay {
        /// Seconds of each pass.
        demand_s: f64,
    },
    /// Servers with one queue.
    Queue {
        /// Seconds of service in each pass.
        demand_s: f64,
        /// Servers, one at least.
        servers: u32,
    },
    /// A station whose speed was measured: how many passes a second it completes while so many are inside. The last
    /// holds for more than are listed.
    Measured {
        /// With one inside, with two, …; positive.
        passes_per_s: Vec<f64>,
    },
}

/// How a station is used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StationUse {
    /// Customers that are there on average.
    pub customers: f64,
    /// Seconds that a pass spends there.
    pub residence_s: f64,
    /// Share of the time in which the station is busy, 0 to 1.
    pub busy: f64,
}

/// A network in equilibrium.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Equilibrium {
    /// Passes of all customers together.
    pub passes_per_s: f64,
    /// By station.
    pub stations: Vec<StationUse>,
}

/// Solves a network. `None` without customers, with more than [`MOST_CUSTOMERS`], or if a station is not what its fields say
/// it has to be, or none takes any time.
pub fn solve(stations: &[Station], customers: u32) -> Option<Equilibrium> {
    if customers == 0 || customers > MOST_CUSTOMERS || !stations.iter().all(Station::is_sound) {
        return None;
    }
    let customers = customers as usize;
    let weights: Vec<Vec<f64>> = stations.iter().map(|station| station.log_weights(customers)).collect();
    let all = weights.iter().fold(empty(customers), |sum, weights| convolved(&sum, weights));
    let passes_per_s = (all[customers - 1] - all[customers]).exp();
    if !passes_per_s.is_finite() || passes_per_s <= 0.0 {
        return None;
    }
    let uses = (0..stations.len()).map(|k| {
        let others = weights.iter().enumerate().filter(|(other, _)| *other != k);
        let others = others.fold(empty(customers), |sum, (_, weights)| convolved(&sum, weights));
        let probability = |j: usize| (weights[k][j] + others[customers - j] - all[customers]).exp();
        let mean: f64 = (1..=customers).map(|j| j as f64 * probability(j)).sum();
        StationUse {
            customers: mean,
            residence_s: mean / passes_per_s,
            busy: (1.0 - probability(0)).clamp(0.0, 1.0),
        }
    });
    Some(Equilibrium { passes_per_s, stations: uses.collect() })
}

/// By how many per cent passes take longer if a station takes one per cent longer, station by station; together 1. `None` as for
/// [`solve`].
///
/// With the normalising constant G of the network, X(N) = G(N-1)/G(N) and ∂ln G(N)/∂ln D = Q(N), so that it is what the last customer
/// adds to the queue there (Williams and Bhandiwad, A generating function approach to queueing network analysis, Networks 6, 1976).
pub fn sensitivities(stations: &[Station], customers: u32) -> Option<Vec<f64>> {
    let all = solve(stations, customers)?;
    let one_less = if customers > 1 { Some(solve(stations, customers - 1)?) } else { None };
    let before = |place: usize| one_less.as_ref().map_or(0.0, |fewer| fewer.stations[place].customers);
    Some(all.stations.iter().enumerate().map(|(place, with)| with.customers - before(place)).collect())
}

impl Station {
    fn is_sound(&self) -> bool {
        match self {
            Self::Delay { demand_s } => demand_s.is_finite() && *demand_s >= 0.0,
            Self::Queue { demand_s, servers } => demand_s.is_finite() && *demand_s >= 0.0 && *servers > 0,
            Self::Measured { passes_per_s } => {
                !passes_per_s.is_empty() && passes_per_s.iter().all(|rate| rate.is_finite() && *rate > 0.0)
            }
        }
    }

    /// Logarithm of the weight of 0, 1, … customers there.
    fn log_weights(&self, customers: usize) -> Vec<f64> {
        // Seconds until a customer leaves, with `inside` customers there.
        let seconds = |inside: usize| match self {
            Self::Delay { demand_s } => demand_s / inside as f64,
            Self::Queue { demand_s, servers } => demand_s / inside.min(*servers as usize) as f64,
            Self::Measured { passes_per_s } => 1.0 / passes_per_s[inside.min(passes_per_s.len()) - 1],
        };
        let mut weights = vec![0.0];
        for inside in 1..=customers {
            weights.push(weights[inside - 1] + seconds(inside).ln());
        }
        weights
    }
}

/// A network without stations has no place for customers.
fn empty(customers: usize) -> Vec<f64> {
    let mut weights = vec![f64::NEG_INFINITY; customers + 1];
    weights[0] = 0.0;
    weights
}

/// Weights of two sets of stations together, in logarithms.
fn convolved(a: &[f64], b: &[f64]) -> Vec<f64> {
    let sum = |n: usize| {
        let terms = || (0..=n).map(|j| a[j] + b[n - j]);
        let largest = terms().fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            return largest;
        }
        largest + terms().map(|term| (term - largest).exp()).sum::<f64>().ln()
    };
    (0..a.len()).map(sum).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn queue(demand_s: f64) -> Station {
        Station::Queue { demand_s, servers: 1 }
    }

    /// Mean value analysis of queues with one server and a delay (Reiser and Lavenberg 1980): passes per second, customers
    /// at each queue.
    fn mean_value_analysis(think_s: f64, demands_s: &[f64], customers: u32) -> (f64, Vec<f64>) {
        let mut queues = vec![0.0; demands_s.len()];
        let mut rate = 0.0;
        for n in 1..=customers {
            let residence: Vec<f64> = demands_s.iter().zip(&queues).map(|(d, q)| d * (1.0 + q)).collect();
            rate = f64::from(n) / (think_s + residence.iter().sum::<f64>());
            queues = residence.iter().map(|r| rate * r).collect();
        }
        (rate, queues)
    }

    #[test]
    fn one_customer_waits_for_nobody() {
        let found = solve(&[Station::Delay { demand_s: 0.05 }, queue(0.0011), queue(0.012)], 1).unwrap();
        assert!((found.passes_per_s - 1.0 / 0.0631).abs() < 1e-9);
        assert!((found.stations[2].residence_s - 0.012).abs() < 1e-12);
        assert!((found.stations[2].busy - 0.012 / 0.0631).abs() < 1e-9);
    }

    /// The repairman's problem by hand: two customers, think 1 s, service 1 s: 1 s + (1 s + queue of 1/2) → X = 2 / 2.5.
    #[test]
    fn two_customers_wait_for_each_other() {
        let found = solve(&[Station::Delay { demand_s: 1.0 }, queue(1.0)], 2).unwrap();
        assert!((found.passes_per_s - 0.8).abs() < 1e-12);
        assert!((found.stations[1].customers - 1.2).abs() < 1e-12);
    }

    /// Each beside the difference quotient, and together one.
    #[test]
    fn sensitivities_are_those_of_the_time_of_a_pass() {
        let network = |think: f64, first: f64, second: f64| {
            [
                Station::Delay { demand_s: think },
                queue(first),
                Station::Queue { demand_s: second, servers: 2 },
            ]
        };
        for customers in [1, 2, 7] {
            let found = sensitivities(&network(0.3, 0.1, 0.15), customers).unwrap();
            let time = |think, first, second| {
                1.0 / solve(&network(think, first, second), customers).unwrap().passes_per_s
            };
            let more = 1.0 + 1e-6;
            let moved =
                [time(0.3 * more, 0.1, 0.15), time(0.3, 0.1 * more, 0.15), time(0.3, 0.1, 0.15 * more)];
            for (found, moved) in found.iter().zip(moved) {
                let quotient = (moved / time(0.3, 0.1, 0.15)).ln() / 1e-6;
                assert!((found - quotient).abs() < 1e-4, "{found} {quotient}");
            }
            assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn enough_servers_are_a_delay() {
        let servers = Station::Queue { demand_s: 0.3, servers: 6 };
        let with = solve(&[servers, queue(0.1)], 6).unwrap();
        let without = solve(&[Station::Delay { demand_s: 0.3 }, queue(0.1)], 6).unwrap();
        assert!((with.passes_per_s - without.passes_per_s).abs() < 1e-9);
    }

    /// A station put in for a part of a network, with the rates that the part has alone, changes nothing (Chandy, Herzog
    /// and Woo, IBM J. R&D 19, 1975).
    #[test]
    fn a_measured_station_stands_for_what_was_measured() {
        let part = [queue(0.02), Station::Queue { demand_s: 0.05, servers: 3 }];
        let passes_per_s = (1..=40).map(|n| solve(&part, n).unwrap().passes_per_s).collect();
        let think = Station::Delay { demand_s: 0.2 };
        let whole = solve(&[think.clone(), part[0].clone(), part[1].clone()], 40).unwrap();
        let with = solve(&[think, Station::Measured { passes_per_s }], 40).unwrap();
        assert!((whole.passes_per_s / with.passes_per_s - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_busy_station_sets_the_pace_and_stays_stable() {
        let measured = Station::Measured { passes_per_s: vec![100.0, 150.0, 180.0] };
        let found = solve(&[Station::Delay { demand_s: 0.01 }, measured], 2000).unwrap();
        assert!((found.passes_per_s - 180.0).abs() < 1e-6);
        assert!((found.stations[1].customers - (2000.0 - 1.8)).abs() < 1e-3);
    }

    #[test]
    fn nonsense_has_no_solution() {
        assert_eq!(solve(&[queue(1.0)], 0), None);
        assert_eq!(solve(&[], 3), None);
        assert_eq!(solve(&[queue(0.0)], 3), None);
        assert_eq!(solve(&[queue(f64::NAN)], 3), None);
        assert_eq!(solve(&[Station::Queue { demand_s: 1.0, servers: 0 }], 3), None);
        assert_eq!(solve(&[Station::Measured { passes_per_s: vec![1.0, 0.0] }], 3), None);
        assert_eq!(solve(&[queue(1.0)], MOST_CUSTOMERS + 1), None);
    }

    proptest! {
        #[test]
        fn convolution_agrees_with_mean_value_analysis(
            think_s in 0.0_f64..2.0,
            demands_s in proptest::collection::vec(1e-4_f64..1.0, 1..4),
            customers in 1_u32..200,
        ) {
            let mut stations = vec![Station::Delay { demand_s: think_s }];
            stations.extend(demands_s.iter().map(|d| queue(*d)));
            let found = solve(&stations, customers).unwrap();
            let (rate, queues) = mean_value_analysis(think_s, &demands_s, customers);
            prop_assert!((found.passes_per_s / rate - 1.0).abs() < 1e-6);
            for (station, queue) in found.stations[1..].iter().zip(queues) {
                prop_assert!((station.customers - queue).abs() < 1e-5 * f64::from(customers));
            }
            let inside: f64 = found.stations.iter().map(|s| s.customers).sum();
            prop_assert!((inside - f64::from(customers)).abs() < 1e-6 * f64::from(customers));
        }

        #[test]
        fn more_workers_never_do_less(demand_s in 1e-3_f64..1.0, think_s in 0.0_f64..5.0, customers in 1_u32..60) {
            let rate = |n| {
                solve(&[Station::Delay { demand_s: think_s }, queue(demand_s)], n).unwrap().passes_per_s
            };
            prop_assert!(rate(customers + 1) >= rate(customers) * (1.0 - 1e-9));
            prop_assert!(rate(customers) <= (1.0 + 1e-9) / demand_s);
        }
    }
}
