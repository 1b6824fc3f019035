//! Where intervals go: a screen, tables, lines of JSON.

use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::{Context, Result};
use nestor_stop::StopHandle;
use nestor_top::{Interval, Key, Layers, Screen, Snapshot, View, lines};
use serde::Serialize;

use crate::json::json_line;
use crate::output::columns;

/// Columns of tables where no terminal says how many.
const USUAL_COLUMNS: usize = 80;

/// How intervals are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On a screen that is drawn anew.
    Screen,
    /// As tables, one below the other.
    Tables,
    /// As JSON, one line each.
    Json,
}

impl Kind {
    /// A screen where there is a terminal and nothing else is asked for.
    #[expect(clippy::disallowed_methods, reason = "nothing is printed; it is only asked what it is")]
    pub fn of(json: bool, counted: bool) -> Self {
        match (json, counted || !std::io::stdout().is_terminal()) {
            (true, _) => Self::Json,
            (false, true) => Self::Tables,
            (false, false) => Self::Screen,
        }
    }
}

/// A line of JSON.
#[derive(Serialize)]
struct JsonLine<'a> {
    /// When it was printed.
    at: String,
    /// The layers, as they are written.
    watched: String,
    #[serde(flatten)]
    snapshot: &'a Snapshot,
    remarks: Vec<String>,
}

/// An open place for intervals.
pub enum Output {
    Screen(Box<(Screen, View)>),
    Plain { layers: Layers, json: bool, remarks: Vec<String> },
}

impl Output {
    /// Opens it; the remarks hold for all intervals.
    ///
    /// # Errors
    /// The terminal does not obey.
    pub fn open(kind: Kind, layers: &Layers, remarks: Vec<String>) -> Result<Self> {
        let layers = layers.clone();
        Ok(match kind {
            Kind::Screen => {
                let mut screen = Screen::take()
                    .context("the terminal cannot be drawn on; --intervals 1 prints a table instead")?;
                let view = View::new(layers, remarks);
                screen.draw(&view)?;
                Self::Screen(Box::new((screen, view)))
            }
            kind => {
                let json = kind == Kind::Json;
                if !json {
                    outln!("{layers}");
                    remarks.iter().for_each(|remark| outln!("{remark}"));
                }
                Self::Plain { layers, json, remarks }
            }
        })
    }

    /// Shows an interval.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn show(&mut self, interval: Interval) -> Result<()> {
        match self {
            Self::Screen(both) => {
                both.1.take(interval);
                both.0.draw(&both.1)?;
            }
            Self::Plain { layers, json: true, remarks } => {
                let snapshot = Snapshot::of(layers, &interval);
                let mut all = snapshot.remarks();
                all.extend(remarks.iter().cloned());
                let line = JsonLine {
                    at: jiff::Timestamp::now().to_string(),
                    watched: layers.to_string(),
                    snapshot: &snapshot,
                    remarks: all,
                };
                outln!("{}", json_line(&line)?);
            }
            Self::Plain { layers, json: false, .. } => {
                let snapshot = Snapshot::of(layers, &interval);
                outln!("\n{:.1} s", snapshot.seconds);
                let columns = columns().map_or(USUAL_COLUMNS, |columns| columns.max(USUAL_COLUMNS));
                lines(&snapshot, columns).iter().for_each(|line| outln!("{line}"));
            }
        }
        Ok(())
    }

    /// Waits for that time, a key or a signal; `false` if the user has enough.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn wait(&mut self, time: Duration, stop: &StopHandle) -> Result<bool> {
        let Self::Screen(both) = self else { return Ok(!stop.wait_at_most(time)) };
        let (screen, view) = &mut **both;
        match screen.key(time)? {
            Some(Key::Quit) => return Ok(false),
            Some(key) => {
                view.press(key);
                screen.draw(view)?;
            }
            None => {}
        }
        Ok(!stop.is_stopped())
    }

    /// Whether what was not shown when it ends is still of use: on a screen it would be gone at once.
    pub fn stays(&self) -> bool {
        matches!(self, Self::Plain { .. })
    }
}
