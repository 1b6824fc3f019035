//! Where the time of a class of operations went: each trace point below the one above it, as wide as what is spent there or further
//! down. What is spent at the trace point itself is full; what is spent further down is faint, and full in a row below. So the full
//! parts of all rows lie side by side and make up the whole.

use crate::html::layer_colour::LayerColour;
use crate::html::svg::{Anchor, LETTER, SMALL, Svg, fitted};
use crate::html::typeset;
use crate::units;
use crate::view::{LevelTime, TimeSpent};

const WIDTH: f64 = 1120.0;
const FROM: f64 = 230.0;
const TO: f64 = 930.0;
const ROW: f64 = 24.0;
const BAR: f64 = 18.0;

/// `None` where nothing took time.
pub(super) fn flame_svg(spent: &TimeSpent) -> Option<String> {
    let (drawn, height) = drawn(spent)?;
    let label = format!("where the time of one {} went", spent.operation.word());
    let mut svg = Svg::new("flame", WIDTH, height, &label);
    svg.append(&drawn);
    Some(svg.finish())
}

/// The rows without an element around them, and their height.
pub(super) fn drawn(spent: &TimeSpent) -> Option<(String, f64)> {
    if spent.each_ns <= 0.0 {
        return None;
    }
    let reached: Vec<&LevelTime> = spent.levels.iter().take_while(|level| level.from_here_ns > 0.0).collect();
    let mut svg = Svg::part();
    for (index, level) in reached.iter().enumerate() {
        draw_row(&mut svg, level, spent, index as f64 * ROW);
    }
    Some((svg.into_part(), reached.len() as f64 * ROW + 4.0))
}

fn draw_row(svg: &mut Svg, level: &LevelTime, spent: &TimeSpent, y: f64) {
    let width = |ns: f64| ns / spent.each_ns * (TO - FROM);
    let (top, middle) = (y + (ROW - BAR) / 2.0, y + ROW / 2.0 + 4.0);
    let below = width(level.from_here_ns - level.own_ns());
    let (served, queued) = (width(level.issued_ns), width(level.queued_ns));
    svg.titled(LayerColour::of_level(&level.name).class(), &title(level, spent), |svg| {
        svg.rect("hit", 0.0, y, WIDTH, ROW);
        svg.rect("layer", 2.0, top, 4.0, BAR);
        svg.text("name", 14.0, middle, Anchor::Start, &fitted(&level.name.layer, 110.0, LETTER));
        let kind = fitted(&level.name.kind.to_string(), FROM - 140.0, SMALL);
        svg.text("what", FROM - 10.0, middle, Anchor::End, &kind);
        svg.rect("layer below", FROM, top, below, BAR);
        svg.rect("layer", FROM + below, top, served, BAR);
        svg.rect("layer queue", FROM + below + served, top, queued, BAR);
    });
    let own = typeset(&units::duration_ns(level.own_ns()));
    svg.text("took", WIDTH - 60.0, middle, Anchor::End, &own);
    let share = typeset(&units::share(level.own_ns() / spent.each_ns));
    svg.text("took", WIDTH - 2.0, middle, Anchor::End, &share);
}

fn title(level: &LevelTime, spent: &TimeSpent) -> String {
    let time = units::duration_ns;
    format!(
        "{}, {}\n{} of the {} of one {} are spent here: {} in its queue, {} sent on with nothing seen further down\n{} here or \
         further down",
        level.name.layer,
        level.name.kind,
        time(level.own_ns()),
        time(spent.each_ns),
        spent.operation.word(),
        time(level.queued_ns),
        time(level.issued_ns),
        time(level.from_here_ns)
    )
}
