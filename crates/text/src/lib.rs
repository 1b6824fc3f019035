//! Text for people and what they write: numbers with their units, tables, paragraphs, errors that point at their place, and names
//! that were probably meant.
//!
//! Nothing here prints: that is what the crate `terminal` is for.

pub mod c_library;
pub mod complaint;
mod completion;
mod marked;
mod markup;
mod nearest;
pub mod quantities;
mod shell;
mod table;
mod time_bar;
pub mod units;
mod visible;
mod wrap;

pub use completion::Completion;
pub use marked::{Marked, line_and_carets};
pub use markup::markup_escaped;
pub use nearest::nearest;
pub use shell::shell_quoted;
pub use table::{Align, Table};
pub use time_bar::TimeBars;
pub use visible::{is_hidden, visible, visible_in_columns, visible_json};
pub use wrap::{fitted, unbreakable, wrapped};
