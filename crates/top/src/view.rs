//! The screen: what is on it, and what keys do to it. Nothing here knows a terminal.

use ratatui::Frame;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;

use crate::interval::Interval;
use crate::layers::Layers;
use crate::row::Snapshot;
use crate::text::lines;

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// q, Esc, Ctrl-C.
    Quit,
    /// Space: what is on the screen stays.
    Pause,
    /// s: the last interval, or all since the start.
    SinceStart,
    /// ?: the keys.
    Help,
}

const KEYS: &str = "q quit  space pause  s since the start  ? help";

const HELP: [&str; 12] = [
    "q, Esc, Ctrl-C  end",
    "space           keep what is on the screen; counting goes on",
    "s               numbers since the start, or of the last interval",
    "?               this, or the numbers",
    "",
    "x above  bytes read and written per byte of the layer above",
    "queue    requests under way, on average over time",
    "p50 p99  latencies of reads and writes",
    "busy     part of the time in which a request was under way",
    "waits    who had that time: the lowest layer that had requests under way too",
    "",
    "File systems and devices show the requests of all programs.",
];

/// What is looked at, and how.
pub struct View {
    layers: Layers,
    last: Option<Interval>,
    all: Interval,
    paused: Option<Snapshot>,
    since_start: bool,
    help: bool,
    remarks: Vec<String>,
}

impl View {
    /// Of these layers; the remarks hold for all that is shown.
    pub fn new(layers: Layers, remarks: Vec<String>) -> Self {
        Self {
            layers,
            last: None,
            all: Interval::default(),
            paused: None,
            since_start: false,
            help: false,
            remarks,
        }
    }

    /// Takes the next interval.
    pub fn take(&mut self, interval: Interval) {
        self.all.extend(&interval);
        self.last = Some(interval);
    }

    /// What a key does; `false` if it ends the program.
    pub fn press(&mut self, key: Key) -> bool {
        match key {
            Key::Quit => return false,
            Key::Pause => self.paused = if self.paused.is_some() { None } else { self.now() },
            Key::SinceStart => {
                self.since_start = !self.since_start;
                if self.paused.is_some() {
                    self.paused = self.now();
                }
            }
            Key::Help => self.help = !self.help,
        }
        true
    }

    fn now(&self) -> Option<Snapshot> {
        let last = self.last.as_ref()?;
        Some(Snapshot::of(&self.layers, if self.since_start { &self.all } else { last }))
    }

    /// The lines of the screen but for its last, of so many columns.
    fn body(&self, columns: usize) -> Vec<String> {
        if self.help {
            return HELP.map(str::to_owned).to_vec();
        }
        let mut body = match self.paused.clone().or_else(|| self.now()) {
            Some(snapshot) => lines(&snapshot, columns),
            None => vec!["the first interval is not over yet".to_owned()],
        };
        for remark in &self.remarks {
            body.extend(nestor_text::fitted(remark, columns).lines().map(str::to_owned));
        }
        body
    }

    fn title(&self) -> String {
        let seconds = |interval: &Interval| format!("{:.1} s", interval.seconds());
        let what = match (&self.last, self.since_start) {
            (None, _) => String::new(),
            (Some(_), true) => format!("  since the start, {}", seconds(&self.all)),
            (Some(last), false) => format!("  last {}", seconds(last)),
        };
        let paused = if self.paused.is_some() { "  paused" } else { "" };
        format!("nestor top{what}{paused}")
    }

    /// Draws the screen, with bold and reversed text at most: colours carry nothing here.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let plain = |text: String| Line::from(nestor_text::visible_in_columns(&text));
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut text: Vec<Line<'_>> = vec![plain(self.title()).style(bold)];
        text.extend(
            nestor_text::fitted(
                &nestor_text::visible_in_columns(&self.layers.to_string()),
                area.width.into(),
            )
            .lines()
            .map(|l| plain(l.into())),
        );
        text.push(Line::default());
        let body = self.body(area.width.into());
        let room = usize::from(area.height).saturating_sub(text.len() + 1);
        let left_out = body.len() > room;
        let shown = if left_out { room.saturating_sub(1) } else { body.len() };
        text.extend(body.iter().take(shown).map(|line| match line.trim_start().starts_with("layer ") {
            true => plain(line.clone()).style(bold),
            false => plain(line.clone()),
        }));
        if left_out {
            text.push(plain(format!("… {} more lines: a higher window shows them", body.len() - shown)));
        }
        frame.render_widget(Paragraph::new(Text::from(text)), area);
        if area.height > 1 {
            let last = ratatui::layout::Rect { y: area.bottom() - 1, height: 1, ..area };
            let style = Style::new().add_modifier(Modifier::REVERSED);
            frame.render_widget(Paragraph::new(Line::from(KEYS)).style(style), last);
        }
    }
}
