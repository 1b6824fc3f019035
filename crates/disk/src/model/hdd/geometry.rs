//! Where sectors are on the platters: zones, cylinders, heads, and the angle at which each sector passes.
//!
//! Sectors fill a track, then the next head's track of the same cylinder, then the next cylinder, from the outer edge
//! inwards. Each track begins a little later in the revolution than the one before (skew), by as much time as the
//! switch to it takes, so that reading on costs no extra revolution.

use crate::model::{FiguresError, SECTOR_BYTES};

/// A band of cylinders with equally many sectors on each track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Zone {
    first_sector: u64,
    first_cylinder: u64,
    sectors_per_track: u64,
}

/// A sector's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Cylinder, 0 outermost.
    pub cylinder: u64,
    /// Head.
    pub head: u64,
    /// Sectors of the track before this one.
    pub sector: u64,
    /// Sectors of the track.
    pub sectors_per_track: u64,
}

/// What a geometry is computed from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeometryFigures {
    /// Sectors of the whole disk.
    pub sectors: u64,
    /// Recording surfaces.
    pub heads: u32,
    /// Number of zones.
    pub zones: u32,
    /// Time of one revolution.
    pub revolution_ns: u64,
    /// Time to switch to the next head of a cylinder.
    pub head_switch_ns: u64,
    /// Time to move to the next cylinder.
    pub cylinder_switch_ns: u64,
    /// Bytes per second when reading on and on in the outermost zone.
    pub outer_bytes_per_s: f64,
    /// The same in the innermost zone.
    pub inner_bytes_per_s: f64,
}

/// The layout of a disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    zones: Vec<Zone>,
    heads: u64,
    cylinders: u64,
    revolution_ns: u64,
    head_switch_ns: u64,
    cylinder_switch_ns: u64,
}

impl Geometry {
    /// Lays the sectors out so that reading on and on reaches the given rates.
    ///
    /// # Errors
    /// The rates leave no sector on a track, or rise inwards.
    pub fn new(figures: &GeometryFigures) -> Result<Self, FiguresError> {
        let (heads, zones) = (u64::from(figures.heads), u64::from(figures.zones));
        if heads == 0 || zones == 0 || figures.revolution_ns == 0 {
            return Err(FiguresError::NothingTurns);
        }
        if figures.inner_bytes_per_s > figures.outer_bytes_per_s {
            return Err(FiguresError::RatesRiseInwards);
        }
        let cylinder_ns =
            heads * figures.revolution_ns + (heads - 1) * figures.head_switch_ns + figures.cylinder_switch_ns;
        let sectors_per_track = |zone: u64| {
            let inwards = if zones == 1 { 0.0 } else { zone as f64 / (zones - 1) as f64 };
            let rate =
                figures.outer_bytes_per_s + inwards * (figures.inner_bytes_per_s - figures.outer_bytes_per_s);
            (rate * cylinder_ns as f64 / 1e9 / SECTOR_BYTES as f64 / heads as f64).round() as u64
        };
        let per_cylinder: u64 = (0..zones).map(|zone| sectors_per_track(zone) * heads).sum();
        if sectors_per_track(zones - 1) == 0 {
            return Err(FiguresError::EmptyTrack);
        }
        let cylinders_per_zone = figures.sectors.div_ceil(per_cylinder).max(1);
        let mut layout = Vec::new();
        let mut first_sector = 0;
        for zone in 0..zones {
            let zone = Zone {
                first_sector,
                first_cylinder: zone * cylinders_per_zone,
                sectors_per_track: sectors_per_track(zone),
            };
            first_sector += zone.sectors_per_track * heads * cylinders_per_zone;
            layout.push(zone);
        }
        Ok(Self {
            zones: layout,
            heads,
            cylinders: cylinders_per_zone * zones,
            revolution_ns: figures.revolution_ns,
            head_switch_ns: figures.head_switch_ns,
            cylinder_switch_ns: figures.cylinder_switch_ns,
        })
    }

    /// Number of cylinders.
    pub fn cylinders(&self) -> u64 {
        self.cylinders
    }

    /// Time to switch to another head of the same cylinder.
    pub fn head_switch_ns(&self) -> u64 {
        self.head_switch_ns
    }

    /// Where a sector is.
    pub fn place(&self, sector: u64) -> Place {
        let zone = self.zones[self.zones.partition_point(|z| z.first_sector <= sector) - 1];
        let in_zone = sector - zone.first_sector;
        let track = in_zone / zone.sectors_per_track;
        Place {
            cylinder: zone.first_cylinder + track / self.heads,
            head: track % self.heads,
            sector: in_zone % zone.sectors_per_track,
            sectors_per_track: zone.sectors_per_track,
        }
    }

    /// When in a revolution the place begins to pass the head, in nanoseconds from the index mark.
    pub fn angle_ns(&self, place: &Place) -> u64 {
        let per_cylinder = (self.heads - 1) * self.head_switch_ns + self.cylinder_switch_ns;
        let track_ns = place.cylinder * per_cylinder + place.head * self.head_switch_ns;
        (track_ns + self.in_track_ns(place, place.sector)) % self.revolution_ns
    }

    /// How long after its track's first sector the sector number `sector` of the place's track passes.
    pub fn in_track_ns(&self, place: &Place, sector: u64) -> u64 {
        sector * self.revolution_ns / place.sectors_per_track
    }

    /// Time from the end of the place's track to the start of the next.
    pub fn switch_ns(&self, place: &Place) -> u64 {
        if place.head + 1 < self.heads { self.head_switch_ns } else { self.cylinder_switch_ns }
    }

    /// How long to wait at `now_ns` until the place passes the head.
    pub fn rotation_ns(&self, place: &Place, now_ns: u64) -> u64 {
        let at = now_ns % self.revolution_ns;
        (self.angle_ns(place) + self.revolution_ns - at) % self.revolution_ns
    }

    /// How long it takes from the moment `sector` begins to pass until `sectors` of them have passed.
    pub fn transfer_ns(&self, sector: u64, sectors: u64) -> u64 {
        let mut ns = 0;
        self.walk(sector, sectors, |place, passed, switch| {
            // Differences of rounded positions, not rounded differences: the next sector is met exactly.
            ns += self.in_track_ns(place, place.sector + passed) - self.in_track_ns(place, place.sector)
                + switch;
            true
        });
        ns
    }

    /// How long it takes from the moment `sector` begins to pass until the sector `sectors` further on does: a
    /// transfer, and the switch to the next track if that is where it begins.
    pub fn reach_ns(&self, sector: u64, sectors: u64) -> u64 {
        let transfer_ns = self.transfer_ns(sector, sectors);
        if sectors == 0 || self.place(sector + sectors).sector > 0 {
            return transfer_ns;
        }
        transfer_ns + self.switch_ns(&self.place(sector + sectors - 1))
    }

    /// How many of at most `most` sectors from `sector` on have passed completely after `ns`.
    pub fn passed(&self, sector: u64, most: u64, ns: u64) -> u64 {
        let mut left_ns = ns;
        let mut total = 0;
        self.walk(sector, most, |place, passed, switch| {
            let start = self.in_track_ns(place, place.sector);
            let whole = self.in_track_ns(place, place.sector + passed) - start;
            if left_ns >= whole {
                total += passed;
                left_ns = left_ns.saturating_sub(whole + switch);
                return left_ns > 0;
            }
            // The last sector that ends within the remaining time.
            let by_rate = ((start + left_ns + 1) * place.sectors_per_track)
                .div_ceil(self.revolution_ns)
                .saturating_sub(1);
            total += by_rate.saturating_sub(place.sector).min(passed);
            false
        });
        total
    }

    /// Goes through the tracks of a range: place of its first sector in the track, sectors of it there, and the time
    /// of the switch to the next track (0 at the end of the range). Stops when `visit` says so.
    fn walk(&self, sector: u64, sectors: u64, mut visit: impl FnMut(&Place, u64, u64) -> bool) {
        let (mut at, mut left) = (sector, sectors);
        while left > 0 {
            let place = self.place(at);
            let here = left.min(place.sectors_per_track - place.sector);
            left -= here;
            at += here;
            let switch = if left > 0 { self.switch_ns(&place) } else { 0 };
            if !visit(&place, here, switch) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn figures() -> GeometryFigures {
        GeometryFigures {
            sectors: 20_000_000,
            heads: 4,
            zones: 16,
            revolution_ns: 8_333_333,
            head_switch_ns: 900_000,
            cylinder_switch_ns: 2_000_000,
            outer_bytes_per_s: 126e6,
            inner_bytes_per_s: 60e6,
        }
    }

    #[test]
    fn reading_on_reaches_the_rates_of_the_zones() {
        let geometry = Geometry::new(&figures()).unwrap();
        for (first, rate) in [(0, 126e6), (19_900_000, 60e6)] {
            // 100 MB, so that the ends within a track do not matter.
            let ns = geometry.transfer_ns(first.min(19_800_000), 195_312);
            let found = 195_312.0 * 512.0 / (ns as f64 / 1e9);
            assert!((found / rate - 1.0).abs() < 0.02, "{found} instead of {rate}");
        }
    }

    proptest! {
        #[test]
        fn the_sector_after_a_transfer_is_met_without_waiting(sector in 0u64..19_000_000, sectors in 1u64..5000) {
            let geometry = Geometry::new(&figures()).unwrap();
            let start = geometry.angle_ns(&geometry.place(sector)) + 7 * 8_333_333;
            let next = geometry.place(sector + sectors);
            prop_assert_eq!(geometry.rotation_ns(&next, start + geometry.reach_ns(sector, sectors)), 0);
        }

        #[test]
        fn passed_and_transfer_agree(sector in 0u64..19_000_000, sectors in 1u64..5000) {
            let geometry = Geometry::new(&figures()).unwrap();
            let ns = geometry.transfer_ns(sector, sectors);
            prop_assert_eq!(geometry.passed(sector, 10_000, ns), sectors);
            prop_assert_eq!(geometry.passed(sector, 10_000, ns - 1), sectors - 1);
        }

        #[test]
        fn neighbours_lie_on_the_same_or_the_next_track(sector in 0u64..19_000_000) {
            let geometry = Geometry::new(&figures()).unwrap();
            let (a, b) = (geometry.place(sector), geometry.place(sector + 1));
            let track = |p: &Place| p.cylinder * 4 + p.head;
            prop_assert!(track(&b) == track(&a) && b.sector == a.sector + 1 || track(&b) == track(&a) + 1 && b.sector == 0);
        }
    }
}
