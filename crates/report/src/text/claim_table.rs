//! The scoreboard as a table of Markdown: a line for each claim that was measured.

use nestor_results::ClaimResult;

use super::claims::found_words;
use super::markdown::field;

/// Each measured claim in one row: its id and title, what the paper says, what was found here, the verdict. Empty if nothing was measured.
pub fn claim_table(results: &[ClaimResult]) -> String {
    let rows: Vec<String> = results.iter().filter(|r| r.claim.kind.is_measured()).map(row).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("| | claim | paper | here | verdict |\n|---|---|---|---|---|\n{}", rows.concat()),
    }
}

fn row(result: &ClaimResult) -> String {
    let claim = &result.claim;
    let found = found_words(result).unwrap_or_default();
    let fields = [&claim.id, &claim.title, &claim.paper, &found, result.verdict.words()].map(field);
    format!("| {} |\n", fields.join(" | "))
}
