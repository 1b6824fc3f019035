//! How long a study was to take, and took.

use std::time::Duration;

use nestor_results::{SessionRecord, duration_words};

use super::StudyTimes;
use crate::units;

/// How much of the cells' time was measurement; then what was planned, beside what it took. `None` without cells.
pub(super) fn time_words(times: &StudyTimes, sessions: &[SessionRecord]) -> Option<String> {
    if times.cells_s <= 0.0 {
        return None;
    }
    let share = units::percent(times.load_s / times.cells_s);
    let measured = format!(
        "measuring took {share} of the cells' time: {} of {}",
        words(times.load_s),
        words(times.cells_s)
    );
    let mut parts = vec![measured];
    let undertakings = undertakings(sessions);
    for (place, sessions) in undertakings.iter().enumerate() {
        parts.extend(planned_and_took(sessions, place > 0));
    }
    Some(parts.join("; "))
}

/// The sessions parted by what was planned: the first session of each plans the whole of it, and the others plan anew what is left
/// of that, so their plans say nothing more. Sessions that found nothing to do are left out.
fn undertakings(sessions: &[SessionRecord]) -> Vec<Vec<&SessionRecord>> {
    let mut parted: Vec<Vec<&SessionRecord>> = Vec::new();
    for session in sessions.iter().filter(|s| s.planned_cells.1 > 0) {
        match parted.last_mut() {
            Some(under_way) if goes_on(under_way, session) => under_way.push(session),
            _ => parted.push(vec![session]),
        }
    }
    parted
}

/// Whether a session only goes on with what was planned before. It does not if that was done, or if the study was made larger or
/// smaller since.
fn goes_on(under_way: &[&SessionRecord], next: &SessionRecord) -> bool {
    let Some(first) = under_way.first() else { return false };
    let (_, planned) = first.planned_cells;
    let done: usize = under_way.iter().map(|s| s.cells).sum();
    let is_another = match (first.study_cells, next.study_cells) {
        (Some(before), Some(now)) => before != now,
        // Sessions of before that was kept: more than was planned for the whole is another study.
        _ => next.planned_cells.1 > planned,
    };
    done < planned && !is_another
}

/// `planned 3 h 24 min, took 4 h 13 min in 2 sessions`; `None` if no session ended, so that it is not known how long they took.
fn planned_and_took(sessions: &[&SessionRecord], is_later: bool) -> Option<String> {
    let first = sessions.first()?;
    let took: Vec<f64> = sessions.iter().filter_map(|s| s.elapsed_s).collect();
    if took.is_empty() {
        return None;
    }
    let (least, most) = (words(first.planned_s.0), words(first.planned_s.1));
    let planned = if least == most { most } else { format!("{least} to {most}") };
    let later = if is_later {
        format!("later {}: ", units::plural(first.planned_cells.1, "cell"))
    } else {
        String::new()
    };
    let mut text = format!("{later}planned {planned}, took {}", words(took.iter().sum()));
    if sessions.len() > 1 {
        text.push_str(&format!(" in {}", units::plural(sessions.len(), "session")));
    }
    if let killed @ 1.. = sessions.len() - took.len() {
        text.push_str(&format!(" (without {} that did not end)", units::plural(killed, "session")));
    }
    Some(text)
}

/// Whole minutes from ten minutes on, whole seconds below.
fn words(seconds: f64) -> String {
    let rounded = if seconds >= 600.0 { (seconds / 60.0).round() * 60.0 } else { seconds.round() };
    duration_words(Duration::from_secs_f64(rounded.max(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN_S: f64 = 60.0;
    const TIMES: StudyTimes = StudyTimes { measured_runs: 2, failed_runs: 0, cells_s: 200.0, load_s: 100.0 };

    /// Cells of the whole study, cells planned and run, minutes planned and taken.
    fn session(
        study: Option<usize>,
        (planned, cells): (usize, usize),
        (to_take, took): (f64, Option<f64>),
    ) -> SessionRecord {
        SessionRecord {
            began_at: "2026-01-02T03:04:05Z".to_owned(),
            study_cells: study,
            planned_cells: (planned, planned),
            planned_s: (to_take * MIN_S, to_take * MIN_S),
            cells,
            elapsed_s: took.map(|minutes| minutes * MIN_S),
            load_s: 0.0,
        }
    }

    fn told(sessions: &[SessionRecord]) -> String {
        let text = time_words(&TIMES, sessions).unwrap();
        text.strip_prefix("measuring took 50 % of the cells' time: 1 min 40 s of 3 min 20 s")
            .unwrap()
            .to_owned()
    }

    #[test]
    fn a_study_in_one_session() {
        assert_eq!(told(&[session(Some(40), (40, 40), (30.0, Some(33.0)))]), "; planned 30 min, took 33 min");
        assert_eq!(told(&[]), "");
        assert_eq!(time_words(&StudyTimes { cells_s: 0.0, ..TIMES }, &[]), None);
    }

    #[test]
    fn a_resumed_study_was_planned_once() {
        // Of the 227 cells that ran, four had failed and were planned again.
        for study in [None, Some(486)] {
            let sessions = [
                session(study, (486, 227), (204.0, Some(114.5))),
                session(study, (263, 267), (129.5, Some(138.3))),
            ];
            assert_eq!(told(&sessions), "; planned 3 h 24 min, took 4 h 13 min in 2 sessions");
        }
    }

    #[test]
    fn what_is_asked_for_later_has_a_plan_of_its_own() {
        let first = session(Some(48), (48, 48), (34.0, Some(38.0)));
        let again = session(Some(48), (12, 12), (6.0, Some(7.0)));
        assert_eq!(
            told(&[first.clone(), again]),
            "; planned 34 min, took 38 min; later 12 cells: planned 6 min, took 7 min"
        );
        // More blocks while a part of the first was still to be done.
        let interrupted = session(Some(300), (300, 150), (300.0, Some(160.0)));
        let extended = session(Some(400), (250, 200), (250.0, Some(200.0)));
        let resumed = session(Some(400), (50, 50), (50.0, Some(40.0)));
        assert_eq!(
            told(&[interrupted, extended, resumed]),
            "; planned 5 h, took 2 h 40 min; later 250 cells: planned 4 h 10 min, took 4 h in 2 sessions"
        );
        // Nothing was left to be done.
        let nothing = session(Some(48), (0, 0), (0.7, Some(0.0)));
        assert_eq!(told(&[first, nothing]), "; planned 34 min, took 38 min");
    }

    #[test]
    fn what_was_killed_took_nobody_knows_how_long() {
        let killed = session(Some(100), (100, 0), (60.0, None));
        assert_eq!(told(std::slice::from_ref(&killed)), "");
        let resumed = session(Some(100), (40, 40), (24.0, Some(25.0)));
        assert_eq!(
            told(&[killed, resumed]),
            "; planned 1 h, took 25 min in 2 sessions (without 1 session that did not end)"
        );
    }
}
