//! The layers of a running virtual machine on this machine, interval by interval: what each did, how long its requests took, and who
//! waited for whom.
//!
//! [`Fold`] makes [`Interval`]s of events, [`Snapshot`] the numbers that are shown of one, [`lines`] and [`View`] what is read. None of
//! these knows a kernel or a terminal; only [`Screen`] has the terminal.

mod calls;
mod device;
mod ended;
mod fold;
mod interval;
mod keys;
mod layers;
mod row;
mod screen;
mod text;
mod view;

pub use calls::Machine;
pub use fold::{Fold, Happened};
pub use interval::{Interval, LayerCounts, Tally};
pub use layers::{BlockLayer, Layer, LayerKind, Layers};
pub use row::{Longest, OperationRow, Row, Snapshot, Wait};
pub use screen::Screen;
pub use text::lines;
pub use view::{Key, View};
