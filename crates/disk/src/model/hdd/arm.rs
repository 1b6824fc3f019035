//! The moving parts: where the heads are, and how long an access takes from there.

use super::geometry::{Geometry, Place};
use super::seek::SeekCurve;
use crate::model::ServiceParts;

/// Arm and spindle. The spindle turns with absolute time; its position is not drawn, it is where it is.
#[derive(Clone, Debug)]
pub struct Arm {
    geometry: Geometry,
    seek: SeekCurve,
    write_seek_factor: f64,
    phase_ns: u64,
    cylinder: u64,
    head: u64,
}

impl Arm {
    /// An arm over the outermost cylinder. Seeks for writes take longer by a factor; the index mark passes at
    /// multiples of the revolution's time less `phase_ns`.
    pub fn new(geometry: Geometry, seek: SeekCurve, write_seek_factor: f64, phase_ns: u64) -> Self {
        Self { geometry, seek, write_seek_factor, phase_ns, cylinder: 0, head: 0 }
    }

    /// The layout of the platters.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Moves the heads to where `sector` is without taking time: they followed it there.
    pub fn follow(&mut self, sector: u64) {
        let place = self.geometry.place(sector);
        (self.cylinder, self.head) = (place.cylinder, place.head);
    }

    /// Moves the heads to the outermost cylinder without taking time.
    pub fn park(&mut self) {
        (self.cylinder, self.head) = (0, 0);
    }

    /// Time to move the heads to a place.
    pub fn seek_ns(&self, to: &Place, writes: bool) -> u64 {
        let distance = self.cylinder.abs_diff(to.cylinder);
        let factor = if writes { self.write_seek_factor } else { 1.0 };
        match (distance, self.head == to.head) {
            (0, true) => 0,
            (0, false) => self.geometry.head_switch_ns(),
            _ => (self.seek.time_ms(distance as f64) * factor * 1e6) as u64,
        }
    }

    /// Time until `place` passes the head after `now_ns`.
    pub fn rotation_ns(&self, place: &Place, now_ns: u64) -> u64 {
        self.geometry.rotation_ns(place, now_ns + self.phase_ns)
    }

    /// What it would take to begin an access at `sector`.
    pub fn position(&self, sector: u64, now_ns: u64, writes: bool) -> ServiceParts {
        let place = self.geometry.place(sector);
        let seek_ns = self.seek_ns(&place, writes);
        let rotation_ns = self.rotation_ns(&place, now_ns + seek_ns);
        ServiceParts { seek_ns, rotation_ns, ..ServiceParts::default() }
    }

    /// Accesses sectors: what it takes. The heads are at the last of them then.
    pub fn access(&mut self, sector: u64, sectors: u64, now_ns: u64, writes: bool) -> ServiceParts {
        let mut parts = self.position(sector, now_ns, writes);
        parts.transfer_ns = self.geometry.transfer_ns(sector, sectors);
        self.follow(sector + sectors.max(1) - 1);
        parts
    }
}
