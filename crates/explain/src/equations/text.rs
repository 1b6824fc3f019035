//! The equations as text.

use nestor_text::{Align, Table, units, wrapped};

use super::Equations;
use super::answer::{Answer, NotKnown};
use super::processor::{Executed, ProcessorTime};
use super::request::{OperationTime, RequestTime, Side};
use super::term::Term;
use super::workload::{FileSystemTime, TermTime, WorkloadTime};

/// How far what is not a table is indented.
const INDENT: usize = 2;
/// Where lines are broken that go to no terminal.
const USUAL_WIDTH: usize = 110;

/// The equations for a terminal of `columns`, or for a file.
pub fn equations_text(equations: &Equations, columns: Option<usize>) -> String {
    let mut page = Page { text: String::new(), width: columns.unwrap_or(USUAL_WIDTH) };
    let e = equations;
    page.line(&format!("{}   {}   {}", e.stack, e.workload, runs(&e.runs)));
    page.heading("(1) workload = directories + metadata + free list + file blocks + journal + housekeeping");
    page.answer(&e.workload_time, workload);
    page.heading("(2), (3) request = front end in the guest + back end in hypervisor and host + disk");
    page.answer(&e.request_time, requests);
    page.heading("instructions and waiting");
    let has_back_end = e.request_time.known().is_none_or(RequestTime::has_back_end);
    page.answer(&e.processor_time, |page, time| processor(page, time, has_back_end));
    if !e.doubts.is_empty() {
        page.heading("less certain than it looks");
        e.doubts.iter().for_each(|doubt| page.paragraph(doubt));
    }
    page.text
}

/// What has been written of a width.
struct Page {
    text: String,
    width: usize,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }

    fn heading(&mut self, words: &str) {
        self.text.push('\n');
        wrapped("", INDENT, self.width, words).iter().for_each(|line| self.line(line));
    }

    fn paragraph(&mut self, words: &str) {
        let first = " ".repeat(INDENT);
        wrapped(&first, 2 * INDENT, self.width, words).iter().for_each(|line| self.line(line));
    }

    fn table(&mut self, table: &Table) {
        self.text += &table.text_within(self.width);
    }

    fn answer<T>(&mut self, answer: &Answer<T>, write: impl Fn(&mut Self, &T)) {
        match answer {
            Answer::Known(known) => write(self, known),
            Answer::NotKnown(NotKnown { words, mend, .. }) => {
                self.paragraph(&format!("not known: {words}"));
                self.paragraph(&format!("to know it: {mend}"));
            }
        }
    }
}

fn runs(numbers: &[i64]) -> String {
    let word = if numbers.len() == 1 { "run" } else { "runs" };
    format!("{word} {}", units::listed(numbers))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// How exactly terms add up.
fn within(off: f64) -> String {
    const LEAST_SHOWN: f64 = 0.001;
    if off == 0.0 {
        "exactly".to_owned()
    } else {
        format!("within {:.3} %", (off.abs() * 100.0).max(LEAST_SHOWN))
    }
}

fn time(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "" };
    format!("{sign}{}", units::duration_ns(ns.abs()))
}

fn workload(page: &mut Page, time_of: &WorkloadTime) {
    use Align::{Left, Right};
    let mut table = Table::new(&[Left, Right, Right, Right, Right, Left]);
    let has_runs = time_of.file_systems.iter().flat_map(|one| &one.terms).any(|t| t.share_of_runs.is_some());
    let of_runs = if has_runs { "of each run" } else { "" };
    table.row(&["time of the medium", "", "share", of_runs, "requests", "by class"]);
    for one in &time_of.file_systems {
        let whole = one.busy_ns as f64 / time_of.busy_ns.max(1) as f64;
        table.row(&[&named(one), &time(one.busy_ns as f64), &percent(whole), "", "", ""]);
        // Below the topmost, only what there is: the equation is of the workload's file system.
        let is_top = std::ptr::eq(one, &time_of.file_systems[0]) && one.is_file_system;
        for term in one.terms.iter().filter(|term| is_top || term.requests > 0) {
            table.row(&term_row(term));
        }
    }
    let busy = time_of.busy_ns as f64;
    let sum: u64 = time_of.file_systems.iter().map(|one| one.busy_ns).sum();
    table.row(&["together", &time(sum as f64), &percent(sum as f64 / busy), "", "", ""]);
    page.table(&table);
    page.paragraph(&sums(time_of));
    time_of.notes.iter().for_each(|note| page.paragraph(note));
}

fn named(one: &FileSystemTime) -> String {
    match &one.layer {
        None => "asked for by no request".to_owned(),
        Some(layer) => {
            let layer = layer.split(':').next().unwrap_or(layer);
            format!("{layer} ({})", one.machine)
        }
    }
}

fn term_row(term: &TermTime) -> [String; 6] {
    let classes = term.classes.iter().map(|(class, ns)| match term.classes.len() {
        1 => class.label().to_owned(),
        _ => format!("{} {}", class.label(), time(*ns as f64)),
    });
    [
        format!("  {}", term_name(term)),
        time(term.busy_ns as f64),
        percent(term.share),
        term.share_of_runs
            .map_or_else(String::new, |[low, high]| format!("{:.1} to {}", low * 100.0, percent(high))),
        units::count(term.requests),
        units::listed(classes),
    ]
}

fn term_name(term: &TermTime) -> String {
    let names: Vec<&str> = term.terms.iter().copied().map(Term::name).collect();
    names.join(" + ")
}

fn sums(time_of: &WorkloadTime) -> String {
    let busy = time_of.busy_ns as f64;
    let idle = time_of.elapsed_ns - busy;
    let rest = match idle < 0.0 {
        true => format!("it worked for {} after the measured time", time(-idle)),
        false => format!("it was idle for {}", time(idle)),
    };
    format!(
        "the terms add up to the {} for which the medium was busy, {}; of {} measured, {rest}",
        time(busy),
        within(time_of.off),
        time(time_of.elapsed_ns)
    )
}

fn requests(page: &mut Page, time_of: &RequestTime) {
    use Align::{Left, Right};
    let has_back_end = time_of.has_back_end();
    let sides: Vec<Side> = Side::ALL.into_iter().filter(|side| time_of.levels.contains_key(side)).collect();
    let mut table = Table::new(&[&[Left][..], &[Right; 9]].concat());
    let mut heading = vec!["mean time of a".to_owned(), "requests".to_owned(), "time".to_owned()];
    for side in &sides {
        heading.extend([side.name(has_back_end).to_owned(), "queued".to_owned()]);
    }
    let has_runs = time_of.operations.iter().any(|one| one.mean_of_runs_ns.is_some());
    heading.push(if has_runs { "of each run".to_owned() } else { String::new() });
    table.row(&heading);
    for one in &time_of.operations {
        table.row(&operation_row(one, &sides));
    }
    page.table(&table);
    for (side, levels) in &time_of.levels {
        page.paragraph(&format!("{}: {}", side.name(has_back_end), units::listed(levels)));
    }
    page.paragraph(&format!(
        "the parts add up to the recorded times of the requests, {}; queued is what of each part was spent in queues",
        within(time_of.off)
    ));
    for one in time_of.operations.iter().filter(|one| one.without_disk > 0) {
        page.paragraph(&format!(
            "nothing at the medium belongs to {} of {} requests to {}: a cache answered them, or what the host wrote meanwhile, such as \
             its journal, is not known to be for them",
            units::count(one.without_disk),
            units::count(one.requests),
            one.operation.word()
        ));
    }
    if !has_back_end {
        page.paragraph(
            "there is no virtual machine: equation 3 has no two ends, and the block driver is one",
        );
    }
}

fn operation_row(one: &OperationTime, sides: &[Side]) -> Vec<String> {
    let mean = |ns: u64| time(ns as f64 / one.requests.max(1) as f64);
    let mut row = vec![one.operation.word().to_owned(), units::count(one.requests), mean(one.whole_ns)];
    for side in sides {
        let of_side = one.sides.get(side).copied().unwrap_or_default();
        row.extend([mean(of_side.ns), mean(of_side.queued_ns)]);
    }
    row.push(
        one.mean_of_runs_ns
            .map_or_else(String::new, |[low, high]| format!("{} to {}", time(low), time(high))),
    );
    row
}

fn processor(page: &mut Page, time_of: &ProcessorTime, has_back_end: bool) {
    use Align::{Left, Right};
    let mut table = Table::new(&[Left, Right, Right, Right, Right]);
    table.row(&["all requests together", "time", "executed at most", "waited at least", "instructions"]);
    for part in &time_of.parts {
        table.row(&executed_row(part, has_back_end));
    }
    page.table(&table);
    let waited = time_of.elapsed_ns - time_of.executed_ns;
    page.paragraph(&format!(
        "of {} measured, the processor executed for {} ({}) and waited for {}",
        time(time_of.elapsed_ns),
        time(time_of.executed_ns),
        percent(time_of.executed_ns / time_of.elapsed_ns.max(1.0)),
        time(waited.max(0.0))
    ));
    page.paragraph(
        "instructions are counted by who executes them and not by request, so a part's time executing is at most theirs; times of \
         requests under way at once add up to more than the measured time",
    );
    if time_of.is_domain_with_dom0() {
        page.paragraph(
            "a paravirtualised domain and the machine around it run without the processor's mode for guests, which would tell their \
             instructions apart: kernels count together, and so do programs",
        );
    }
}

fn executed_row(part: &Executed, has_back_end: bool) -> [String; 5] {
    let name = match part.sides.as_slice() {
        [] => "above".to_owned(),
        sides => units::listed(sides.iter().map(|side| side.name(has_back_end))),
    };
    let shown = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), time);
    let who = match part.is_domain_with_dom0() {
        true => "domain and dom0 together".to_owned(),
        false => units::listed(part.executors.iter().map(|executor| executor.name())),
    };
    let counted = !part.executors.is_empty();
    [
        if counted { format!("{name}: {who}") } else { name },
        shown(part.requests_ns.map(|ns| ns as f64)),
        shown(part.executed_at_most_ns),
        shown(part.waited_at_least_ns),
        if counted { units::count(part.instructions.round() as u64) } else { "-".to_owned() },
    ]
}
