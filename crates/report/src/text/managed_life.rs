//! The lives of instances that a manager started: their states, how well they are known, and how the manager calls them.

use nestor_results::LifeState;
use nestor_text::{Align, Table, TimeBars};

use super::life::{BAR, Spread, bar, nanoseconds};
use super::or_dash;
use crate::style::Style;
use crate::units;
use crate::view::LifeView;

/// What is not known of a cloud's machines.
const NOT_COUNTED: &str = "links, disks and processors are the cloud's, and nothing of them is counted";

/// A row for each state that any of several instances had.
pub(super) fn managed_group(lives: &[LifeView], style: Style) -> Vec<String> {
    use Align::{Left, Right};
    let name = format!("life of {}", units::plural(lives.len(), "instance"));
    let mut table = Table::new(&[Left, Right, Right, Right, Right]);
    table.row(&[name.as_str(), "first", "median", "last", "±"]);
    for state in LifeState::ALL {
        let of_each: Vec<_> =
            lives.iter().flat_map(|life| &life.states).filter(|row| row.state == state).collect();
        let Some(spread) = Spread::of(of_each.iter().map(|row| row.seconds).collect()) else { continue };
        let uncertain = of_each.iter().filter_map(|row| Some(row.managed.as_ref()?.uncertain_s));
        let mut cells = vec![state.to_string()];
        cells.extend(Spread::cells(Some(spread)));
        cells.push(or_dash(uncertain.max_by(f64::total_cmp).map(|seconds| format!("{seconds:.3}"))));
        table.row(&cells);
    }
    let mut whole = vec!["whole".to_owned()];
    whole.extend(Spread::cells(Spread::of(lives.iter().map(|life| life.whole_s).collect())));
    table.row(&whole);
    let mut lines = vec![String::new()];
    lines.extend(style.table(&table));
    let how = "all were asked for at once, and told to end when the last ran; who ran before waited, which is no part of its life; ± is the most \
               by which the seconds of one may be wrong";
    let words = lives.first().map(LifeView::manager_words).unwrap_or_default();
    // Of the first, whose name says nothing of the others.
    let below = words.into_iter().skip(1).chain([how, NOT_COUNTED].map(str::to_owned));
    lines.extend(below.flat_map(|words| style.wrapped("  ", 4, &words)).map(|line| style.faint(&line)));
    lines
}

/// On a narrow terminal without bars and without the manager's names.
pub(super) fn managed_table(life: &LifeView, style: Style) -> Vec<String> {
    let full = table(life, true);
    let fitting = if full.width() <= style.width { full } else { table(life, false) };
    let mut lines = vec![String::new()];
    lines.extend(style.table(&fitting));
    let below = life.manager_words().into_iter().chain([NOT_COUNTED.to_owned()]);
    lines.extend(below.flat_map(|words| style.wrapped("  ", 4, &words)).map(|line| style.faint(&line)));
    lines
}

fn table(life: &LifeView, is_wide: bool) -> Table {
    use Align::{Left, Right};
    let mut columns = vec![Left, Right, Right, Right];
    let name = if is_wide { life.name(1) } else { life.short_name(1) };
    let mut head = vec![name.as_str(), "seconds", "±", "share"];
    if is_wide {
        columns.push(Left);
        head.push("");
    }
    columns.push(Right);
    head.push("recorded");
    if is_wide {
        columns.push(Left);
        head.push("the manager's states");
    }
    let mut table = Table::new(&columns);
    table.row(&head);
    let bars = TimeBars { columns: BAR, from_ns: 0, total_ns: nanoseconds(life.end_s()) };
    for row in &life.states {
        let managed = row.managed.as_ref();
        let mut cells = vec![
            row.state.to_string(),
            format!("{:.3}", row.seconds),
            or_dash(managed.map(|managed| format!("{:.3}", managed.uncertain_s))),
            or_dash(row.share.map(units::share)),
        ];
        if is_wide {
            cells.push(bar(&bars, row));
        }
        cells.push(or_dash(managed.and_then(|managed| managed.recorded_s).map(|s| format!("{s} s"))));
        if is_wide {
            let names = managed.map(|managed| managed.names.join(", ")).filter(|names| !names.is_empty());
            cells.push(or_dash(names));
        }
        table.row(&cells);
    }
    table.row(&["whole", &format!("{:.3}", life.whole_s)]);
    table
}
