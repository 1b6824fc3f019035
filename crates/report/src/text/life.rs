//! What instances of a cloud went through, and two stacks by it.

use nestor_results::{LifeState, LivesCompared, LivesSummary};
use nestor_statistics::{Mean, median};
use nestor_text::{Align, Table, TimeBars, visible_in_columns};

use super::managed_life::{managed_group, managed_table};
use super::or_dash;
use crate::style::Style;
use crate::units;
use crate::view::{DiskRow, LifeView, StateRow, whole_life_words};

/// Characters of a bar.
pub(super) const BAR: usize = 20;

/// The whole life of an instance, over all runs of a cell: `13.000 ± 0.400 s  whole life of an instance  5 fresh stacks`.
pub(super) fn whole_life(lives: &LivesSummary, style: Style) -> Vec<String> {
    let of = whole_life_words(lives);
    let whole = style.strong(&format!("{} s", units::seconds_of(&lives.whole_s)));
    vec![format!("  {whole}  {of}  {}", units::fresh_stacks(lives.whole_s.samples))]
}

/// The states of an instance, or of all that went through them together.
pub(super) fn life_tables(lives: &[LifeView], style: Style) -> Vec<String> {
    match lives {
        [] => Vec::new(),
        [life] => life_table(life, style),
        [first, ..] => group_table(first, lives, style),
    }
}

fn group_table(first: &LifeView, lives: &[LifeView], style: Style) -> Vec<String> {
    if first.manager.is_some() {
        return managed_group(lives, style);
    }
    let full = of_group(first, lives, true);
    let fitting = if full.width() <= style.width { full } else { of_group(first, lives, false) };
    let mut lines = vec![String::new()];
    lines.extend(style.table(&fitting));
    let said = [
        Some(
            "each state begins for all at once; seconds until the first, the middle and the last is done"
                .to_owned(),
        ),
        Some("link and disks of all together, in MB".to_owned()),
        first.own_words(),
    ];
    let hellos = lives.iter().filter_map(|life| life.hello_s).collect::<Vec<_>>();
    let hello = Spread::of(hellos).map(|hello| {
        let [first, _, last] = hello.0.map(|seconds| units::duration_ns(seconds * 1e9));
        format!("boot: agent's hello after {first} to {last}")
    });
    let below = first.transfer_words().into_iter().chain(hello);
    let below = below.chain([units::listed(said.into_iter().flatten())]);
    lines.extend(below.flat_map(|words| style.wrapped("  ", 4, &words)).map(|line| style.faint(&line)));
    lines
}

/// The least, the middle and the most of what several instances took, in seconds.
pub(super) struct Spread([f64; 3]);

impl Spread {
    /// `None` of none.
    pub(super) fn of(mut seconds: Vec<f64>) -> Option<Self> {
        seconds.sort_by(f64::total_cmp);
        Some(Self([*seconds.first()?, median(&seconds)?, *seconds.last()?]))
    }

    pub(super) fn cells(of: Option<Self>) -> [String; 3] {
        of.map_or_else(
            || [const { String::new() }; 3],
            |spread| spread.0.map(|seconds| format!("{seconds:.3}")),
        )
    }
}

/// A row for each state. What the machines did they did for all, and each instance has it.
fn of_group(first: &LifeView, lives: &[LifeView], is_wide: bool) -> Table {
    use Align::{Left, Right};
    let counted = if is_wide { 5 } else { 3 };
    let mut columns = vec![Left];
    columns.extend(vec![Right; 3 + counted]);
    let nodes = lives.iter().map(|life| life.node).max().map_or(0, |last| last as usize + 1);
    let name = if is_wide && nodes > 1 {
        format!("life of {} on {}", units::plural(lives.len(), "instance"), units::plural(nodes, "node"))
    } else if is_wide {
        format!("life of {}", units::plural(lives.len(), "instance"))
    } else {
        units::plural(lives.len(), "instance")
    };
    let mut head = vec![name.as_str(), "first", "median", "last"];
    head.extend(counted_heads(is_wide));
    let mut table = Table::new(&columns);
    table.row(&head);
    for row in &first.states {
        let of_each = lives.iter().flat_map(|life| &life.states).filter(|other| other.state == row.state);
        let mut cells = vec![row.state.to_string()];
        cells.extend(Spread::cells(Spread::of(of_each.map(|other| other.seconds).collect())));
        let of_all = StateRow { node_disk: DiskRow::of_nodes(lives, row.state), ..row.clone() };
        cells.extend(counted_cells(&of_all, is_wide));
        table.row(&cells);
    }
    let mut whole = vec!["whole".to_owned()];
    whole.extend(Spread::cells(Spread::of(lives.iter().map(|life| life.whole_s).collect())));
    table.row(&whole);
    table
}

fn counted_heads(is_wide: bool) -> &'static [&'static str] {
    match is_wide {
        true => &["link", "node reads", "writes", "repository reads", "writes"],
        false => &["link", "node", "repository"],
    }
}

/// What link and disks did in a state.
fn counted_cells(row: &StateRow, is_wide: bool) -> Vec<String> {
    let on_link = row.from_repository_bytes.zip(row.to_repository_bytes);
    let mut cells = vec![or_dash(on_link.map(|(from, to)| megabytes(from.saturating_add(to))))];
    for disk in [row.node_disk, row.repository_disk] {
        cells.extend(disk_cells(disk, is_wide));
    }
    cells
}

fn life_table(life: &LifeView, style: Style) -> Vec<String> {
    if life.manager.is_some() {
        return managed_table(life, style);
    }
    let full = table(life, true);
    let fitting = if full.width() <= style.width { full } else { table(life, false) };
    let mut lines = vec![String::new()];
    lines.extend(style.table(&fitting));
    let said = [Some("link and disks in MB".to_owned()), life.own_words()];
    let below = life
        .transfer_words()
        .into_iter()
        .chain(life.boot_words())
        .chain([units::listed(said.into_iter().flatten())]);
    lines.extend(below.flat_map(|words| style.wrapped("  ", 4, &words)).map(|line| style.faint(&line)));
    lines
}

/// On a narrow terminal without bars, and reads and writes of a disk in one column.
fn table(life: &LifeView, is_wide: bool) -> Table {
    use Align::{Left, Right};
    let mut columns = vec![Left, Right, Right];
    let name = if is_wide { life.name(1) } else { life.short_name(1) };
    let mut head = vec![name.as_str(), "seconds", "share"];
    if is_wide {
        columns.push(Left);
        head.push("");
    }
    let counted = counted_heads(is_wide);
    columns.extend(vec![Right; counted.len()]);
    head.extend(counted);
    let mut table = Table::new(&columns);
    table.row(&head);
    let bars = TimeBars { columns: BAR, from_ns: 0, total_ns: nanoseconds(life.end_s()) };
    for row in &life.states {
        let mut cells =
            vec![row.state.to_string(), format!("{:.3}", row.seconds), or_dash(row.share.map(units::share))];
        if is_wide {
            cells.push(bar(&bars, row));
        }
        cells.extend(counted_cells(row, is_wide));
        table.row(&cells);
    }
    table.row(&["whole", &format!("{:.3}", life.whole_s)]);
    table
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

/// When a state was; nothing of one that took no time.
pub(super) fn bar(bars: &TimeBars, row: &StateRow) -> String {
    if row.seconds <= 0.0 {
        return format!("|{}|", " ".repeat(BAR));
    }
    let begin_ns = nanoseconds(row.begin_s);
    bars.bar(begin_ns, begin_ns, nanoseconds(row.end_s))
}

pub(super) fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// What was read and written, in MB; in one column `reads/writes`.
fn disk_cells(disk: Option<DiskRow>, is_wide: bool) -> Vec<String> {
    let both = disk.map(|disk| [disk.read_bytes, disk.written_bytes].map(megabytes));
    match (both, is_wide) {
        (Some(both), true) => both.to_vec(),
        (Some(both), false) => vec![both.join(" / ")],
        (None, true) => vec!["-".to_owned(), "-".to_owned()],
        (None, false) => vec!["-".to_owned()],
    }
}

/// How long each state took on both stacks, and the whole life of one over that of the other.
pub(super) fn lives_compared(compared: &LivesCompared, random_order: bool, style: Style) -> Vec<String> {
    let sides = [("baseline", &compared.baseline), ("candidate", &compared.candidate)];
    let mut lines: Vec<String> = Vec::new();
    if compared.are_all {
        lines.extend(sides.map(|(side, lives)| format!("  {side:<9}  {}", visible_in_columns(&lives.stack))));
        lines.push(String::new());
    }
    let rows = by_stack(sides);
    let table = if rows.width() <= style.width { rows } else { by_state(sides) };
    lines.extend(style.table(&table));
    let how_sure = how_sure(compared, random_order);
    let change = compared.ratio.as_ref().map(|ratio| {
        let interval = units::change_interval(ratio).map(|i| format!(" {i}")).unwrap_or_default();
        format!("whole life {}{interval}", units::change(ratio))
    });
    match change {
        Some(change) if change.chars().count() + how_sure.chars().count() + 5 <= style.width => {
            lines.push(format!("  {}   {how_sure}", style.strong(&change)));
        }
        change => {
            let change = change.iter().flat_map(|change| style.wrapped("  ", 4, change));
            lines.extend(change.map(|line| style.strong(&line)));
            lines.extend(style.wrapped("  ", 4, &how_sure));
        }
    }
    let most = compared.baseline.instances.max(compared.candidate.instances);
    let of = if most > 1 { "means over the instances of a run, then " } else { "" };
    let words = format!("in seconds: {of}the mean over fresh stacks ± half its interval of 95 %");
    lines.extend(style.wrapped("  ", 4, &words).iter().map(|line| style.faint(line)));
    lines
}

/// The states that either has.
fn states_of(sides: [(&str, &LivesSummary); 2]) -> Vec<LifeState> {
    let is_there = |state: &LifeState| sides.iter().any(|(_, lives)| lives.seconds_in(*state).is_some());
    LifeState::ALL.into_iter().filter(is_there).collect()
}

fn seconds_or_dash(mean: Option<Mean>) -> String {
    or_dash(mean.map(|mean| units::seconds_of(&mean)))
}

/// A row for each stack, a column for each state.
fn by_stack(sides: [(&str, &LivesSummary); 2]) -> Table {
    use Align::{Left, Right};
    let states = states_of(sides);
    let mut columns = vec![Left];
    columns.extend(vec![Right; states.len() + 2]);
    let mut table = Table::new(&columns);
    let mut head = vec!["lives"];
    head.extend(states.iter().map(|state| state.name()));
    head.extend(["whole", "n"]);
    table.row(&head);
    for (side, lives) in sides {
        let mut row = vec![side.to_owned()];
        row.extend(states.iter().map(|state| seconds_or_dash(lives.seconds_in(*state))));
        row.extend([units::seconds_of(&lives.whole_s), lives.whole_s.samples.to_string()]);
        table.row(&row);
    }
    table
}

/// A row for each state, a column for each stack: for terminals that are narrow.
fn by_state(sides: [(&str, &LivesSummary); 2]) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[Left, Right, Right]);
    table.row(&["lives", sides[0].0, sides[1].0]);
    for state in states_of(sides) {
        let row = sides.map(|(_, lives)| seconds_or_dash(lives.seconds_in(state)));
        table.row(&[state.name(), &row[0], &row[1]]);
    }
    let whole = sides.map(|(_, lives)| units::seconds_of(&lives.whole_s));
    table.row(&["whole", &whole[0], &whole[1]]);
    let samples = sides.map(|(_, lives)| lives.whole_s.samples.to_string());
    table.row(&["n", &samples[0], &samples[1]]);
    table
}

/// `3 pairs, order random, not told apart`.
fn how_sure(compared: &LivesCompared, random_order: bool) -> String {
    let Some(ratio) = &compared.ratio else {
        return "nothing to compare: the lives of one side took no time".to_owned();
    };
    super::compare::certainty(ratio, compared.paired, random_order, None)
}
