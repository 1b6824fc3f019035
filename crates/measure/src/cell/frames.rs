//! The numbers of links whose frames were logged, held against what was counted beside the log.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use nestor_lab::{BuiltStack, Lab};
use nestor_stack::LayerIndex;
use nestor_text::units::{bytes, count};
use nestor_trace::LinkMetrics;

use super::CellError;
use super::condense::answer;
use super::network::LoggedLink;
use super::scratch::new_file;

/// Bytes of calls and of TCP's data on the link may differ by this share: what a client sends besides calls.
const CALLED_TOLERANCE: f64 = 0.01;

/// Condenses the log of each link on the ground, and says in `remarks` where a log and counters differ. A log that cannot be read costs only
/// its numbers.
pub(super) fn condense_links(
    lab: &Lab,
    built: &BuiltStack,
    logs: &[LoggedLink],
    remarks: &mut Vec<String>,
) -> BTreeMap<LayerIndex, LinkMetrics> {
    let mut links = BTreeMap::new();
    for logged in logs {
        let layer = built.stack.layer(logged.layer).label();
        match condensed(lab, &logged.log) {
            Ok(metrics) => {
                remarks
                    .extend(differences(logged, &metrics).into_iter().map(|said| format!("{layer}: {said}")));
                links.insert(logged.layer, metrics);
            }
            Err(e) => remarks.push(format!("the frames of {layer}: {e}")),
        }
    }
    links
}

fn condensed(lab: &Lab, log: &Path) -> Result<LinkMetrics, CellError> {
    let log = log.display().to_string();
    answer(lab.ground(), &["{nestor}", "trace", "summarize", "--json", "--link-log", &log])
}

/// Where a log and what was counted in the same time differ. A log in which frames are missing says so itself.
fn differences(logged: &LoggedLink, metrics: &LinkMetrics) -> Vec<String> {
    if metrics.dropped > 0 {
        return Vec::new();
    }
    let ways = [
        ("server", &metrics.to_server, &logged.to_server, 0),
        ("client", &metrics.to_client, &logged.to_client, 1),
    ];
    let mut said = Vec::new();
    for (end, way, counted, at) in ways {
        if way.sent != *counted {
            said.push(format!(
                "its log has {} frames and {} to the {end}, and it counted {} and {}",
                count(way.sent.frames),
                bytes(way.sent.bytes),
                count(counted.frames),
                bytes(counted.bytes)
            ));
        }
        let Some(called) = logged.called_bytes.map(|called| called[at]) else { continue };
        let sent = way.tcp_bytes.saturating_sub(way.tcp_again_bytes);
        if called.abs_diff(sent) as f64 > CALLED_TOLERANCE * called as f64 {
            said.push(format!(
                "{} of TCP's data went to the {end}, besides what was sent again, and calls have {}",
                bytes(sent),
                bytes(called)
            ));
        }
    }
    said
}

/// Copies the logs to where the user keeps what was recorded, as `link-N.frames`. Links are served on this machine.
pub(super) fn keep_logs(logs: &[LoggedLink], directory: &Path) -> io::Result<()> {
    for logged in logs {
        let mut kept = new_file(&directory.join(format!("link-{}.frames", logged.layer.position())))?;
        io::copy(&mut std::fs::File::open(&logged.log)?, &mut kept)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nestor_link::Sent;
    use nestor_trace::FrameMetrics;

    use super::*;

    #[test]
    fn a_log_that_has_not_what_was_counted_is_remarked_on() {
        let sent = Sent { frames: 100, bytes: 140_000, lost: 0, refused: 0 };
        let logged = |called: u64, lost: u64| LoggedLink {
            layer: LayerIndex::TOP,
            log: "frames.log".into(),
            to_server: Sent { lost, ..sent.clone() },
            to_client: Sent::default(),
            called_bytes: Some([called, 0]),
        };
        let metrics = |lost: u64, tcp_bytes: u64, dropped: u64| LinkMetrics {
            to_server: FrameMetrics {
                sent: Sent { lost, ..sent.clone() },
                tcp_bytes,
                // What is lost is sent again.
                tcp_again_bytes: lost * 1448,
                ..FrameMetrics::default()
            },
            dropped,
            ..LinkMetrics::default()
        };
        let count = |logged, metrics| differences(&logged, &metrics).len();
        assert_eq!(count(logged(100_000, 0), metrics(0, 100_900, 0)), 0);
        assert_eq!(count(logged(100_000, 0), metrics(0, 101_100, 0)), 1, "more than one in a hundred");
        assert_eq!(count(logged(100_000, 0), metrics(1, 101_448, 0)), 1, "it counted none that was lost");
        assert_eq!(count(logged(100_000, 2), metrics(2, 102_896, 0)), 0, "what was lost was sent again");
        assert_eq!(count(logged(100_000, 2), metrics(2, 130_000, 0)), 1);
        assert_eq!(count(logged(100_000, 0), metrics(9, 0, 5)), 0, "the log says that it is not whole");
    }
}
