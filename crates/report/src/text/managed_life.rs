//! The life of an instance that a manager started: its states, how well they are known, and how the manager calls them.

use nestor_text::{Align, Table, TimeBars};

use super::life::{BAR, bar, nanoseconds};
use super::or_dash;
use crate::style::Style;
use crate::units;
use crate::view::LifeView;

/// On a narrow terminal without bars and without the manager's names.
pub(super) fn managed_table(life: &LifeView, style: Style) -> Vec<String> {
    let full = table(life, true);
    let fitting = if full.width() <= style.width { full } else { table(life, false) };
    let mut lines = vec![String::new()];
    lines.extend(fitting.lines());
    let counted = "links, disks and processors are the cloud's, and nothing of them is counted".to_owned();
    let below = life.manager_words().into_iter().chain([counted]);
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
