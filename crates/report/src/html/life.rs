//! What instances of a cloud went through: a table of each, and all of them on one axis of time.

use minijinja::Value;
use serde::Serialize;

use super::svg::{Anchor, LETTER, SMALL, Svg, text_width, ticks};
use super::typeset;
use crate::units;
use crate::view::{DiskRow, LifeView, RunView, StateRow, whole_life_words};

const WIDTH: f64 = 1120.0;
const ROW: f64 = 26.0;
const BAR: f64 = 18.0;
/// Where the bars begin and end.
const FROM: f64 = 96.0;
const TO: f64 = 1090.0;
const AXIS: f64 = 24.0;
/// The axis has about so many places with a number.
const TICKS: usize = 8;

/// The lives of the shown run.
#[derive(Serialize)]
pub(super) struct LivesPage {
    /// All instances on one axis.
    chart: Value,
    lives: Vec<LifePage>,
}

/// One instance.
#[derive(Serialize)]
struct LifePage {
    name: String,
    rows: Vec<StatePage>,
    whole: String,
    note: String,
}

/// One state.
#[derive(Serialize)]
struct StatePage {
    /// Its name, and in `l-NAME` the class of its colour.
    state: &'static str,
    seconds: String,
    share: String,
    /// Where its bar begins and how long it is, in per cent of the time until the last state ended.
    begin: f64,
    length: f64,
    from_repository: String,
    to_repository: String,
    node: DiskPage,
    repository: DiskPage,
    instructions: String,
    /// What was busy for the largest share of it, said when the row is pointed at.
    pace: String,
}

#[derive(Serialize)]
struct DiskPage {
    read: String,
    written: String,
    busy: String,
}

impl LivesPage {
    /// `None` without lives.
    pub(super) fn of(run: &RunView) -> Option<Self> {
        let lives = &run.lives;
        (!lives.is_empty()).then(|| Self {
            chart: Value::from_safe_string(timeline(lives)),
            lives: lives.iter().map(|life| LifePage::of(life, lives.len())).collect(),
        })
    }
}

impl LifePage {
    fn of(life: &LifeView, instances: usize) -> Self {
        Self {
            name: life.name(instances),
            rows: life.states.iter().map(|state| StatePage::of(state, life.end_s())).collect(),
            whole: typeset(&format!("{:.3} s", life.whole_s)),
            note: super::sentence(
                &life
                    .manager_words()
                    .into_iter()
                    .chain([life.transfer_words(), life.boot_words(), life.own_words()].into_iter().flatten())
                    .collect::<Vec<_>>()
                    .join("; "),
            ),
        }
    }
}

impl StatePage {
    fn of(row: &StateRow, end_s: f64) -> Self {
        let percent = |seconds: f64| if end_s > 0.0 { seconds / end_s * 100.0 } else { 0.0 };
        let or_dash = |text: Option<String>| text.map_or_else(|| "–".to_owned(), |text| typeset(&text));
        Self {
            state: row.state.name(),
            seconds: format!("{:.3}", row.seconds),
            share: or_dash(row.share.map(units::share)),
            begin: percent(row.begin_s),
            length: percent(row.end_s - row.begin_s),
            from_repository: or_dash(row.from_repository_bytes.map(units::bytes)),
            to_repository: or_dash(row.to_repository_bytes.map(units::bytes)),
            node: DiskPage::of(row.node_disk),
            repository: DiskPage::of(row.repository_disk),
            pace: row.pace.as_deref().map(super::sentence).unwrap_or_default(),
            instructions: or_dash(row.instructions.map(units::count)),
        }
    }
}

impl DiskPage {
    fn of(disk: Option<DiskRow>) -> Self {
        let or_dash = |text: Option<String>| text.map_or_else(|| "–".to_owned(), |text| typeset(&text));
        Self {
            read: or_dash(disk.map(|disk| units::bytes(disk.read_bytes))),
            written: or_dash(disk.map(|disk| units::bytes(disk.written_bytes))),
            busy: or_dash(disk.map(|disk| format!("{:.3} s", disk.busy_s))),
        }
    }
}

/// One row for each instance, its states in their colours from their begin to their end.
fn timeline(lives: &[LifeView]) -> String {
    let longest_s = lives.iter().map(LifeView::end_s).fold(f64::MIN_POSITIVE, f64::max);
    let at = |seconds: f64| FROM + seconds / longest_s * (TO - FROM);
    let bottom = lives.len() as f64 * ROW;
    let label = format!("states of {} over time", units::plural(lives.len(), "instance"));
    let mut svg = Svg::new("lives", WIDTH, bottom + AXIS, &label);
    for tick in ticks(longest_s, TICKS) {
        let x = at(tick);
        svg.path("grid", &format!("M{x:.1} 0V{:.1}", bottom + 4.0));
        let said = typeset(&format!("{} s", trimmed(tick)));
        svg.text("tick", x, bottom + 18.0, Anchor::Middle, &said);
    }
    for (index, life) in lives.iter().enumerate() {
        let top = index as f64 * ROW;
        let name = life.short_name(lives.len());
        svg.text("", 2.0, top + BAR, Anchor::Start, &name);
        for row in life.states.iter().filter(|row| row.end_s > row.begin_s) {
            draw_state(&mut svg, row, (at(row.begin_s), at(row.end_s)), top + (ROW - BAR) / 2.0);
        }
    }
    svg.finish()
}

fn draw_state(svg: &mut Svg, row: &StateRow, (from, to): (f64, f64), top: f64) {
    let name = row.state.name();
    let title = format!("{name}: {:.3} s, from {:.3} s to {:.3} s", row.seconds, row.begin_s, row.end_s);
    svg.titled(&format!("l-{name}"), &title, |svg| {
        // Narrower ones are not seen.
        svg.rect("serve", from, top, (to - from).max(1.0), BAR);
        let fits = text_width(name, SMALL) + 8.0 <= to - from;
        let room = if fits { name } else { "" };
        svg.text("inside", (from + to) / 2.0, top + LETTER + 1.0, Anchor::Middle, room);
    });
}

/// `2`, `0.5`: a round number without zeros behind it.
fn trimmed(number: f64) -> String {
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The whole life over all runs of the cell, where no load gives a throughput.
pub(super) fn whole_life(run: &RunView) -> Option<(String, String)> {
    let lives = run.lives_summary.as_ref().filter(|_| run.summary.is_without_operations())?;
    let whole = typeset(&format!("{} s", units::seconds_of(&lives.whole_s)));
    Some((whole, format!("{} · {}", whole_life_words(lives), units::fresh_stacks(lives.whole_s.samples))))
}

#[cfg(test)]
mod tests {
    use nestor_results::LifeState;

    use super::*;

    #[test]
    fn every_state_has_a_colour_of_its_own() {
        let style = include_str!("templates/style.css");
        for state in LifeState::ALL {
            assert_eq!(style.matches(&format!(".l-{}{{--class:", state.name())).count(), 1, "{state}");
        }
    }

    #[test]
    fn ticks_have_no_zeros_behind_them() {
        assert_eq!([0.0, 0.5, 2.0, 10.0].map(trimmed), ["0", "0.5", "2", "10"]);
    }
}
