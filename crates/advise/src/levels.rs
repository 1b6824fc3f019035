//! Levels of a factor, as they are written.

use crate::factors::FactorName;
use crate::space::SpaceError;

/// The levels that words stand for: `ext4,xfs`, `{ext4,xfs}`, `qcow2:cluster={64k,128k}`; several words are put together.
/// Each level comes once.
///
/// # Errors
/// When a list has no level.
pub fn read_levels(name: FactorName, words: &[String]) -> Result<Vec<String>, SpaceError> {
    let mut levels: Vec<String> = Vec::new();
    for word in words {
        let list = if has_bare_comma(word) { format!("{{{word}}}") } else { word.clone() };
        for level in nestor_stack::expand(&list).map_err(|e| SpaceError::Stack(Box::new(e)))? {
            if !levels.contains(&level) {
                levels.push(level);
            }
        }
    }
    if levels.is_empty() || levels.iter().any(|level| level.trim().is_empty()) {
        let usual = name.usual_levels().join(",");
        return Err(SpaceError::Levels(format!(
            "{0} has no levels\n  separate levels with commas, as in {0} {usual}",
            name.option()
        )));
    }
    Ok(levels)
}

/// Whether a comma stands outside braces.
fn has_bare_comma(word: &str) -> bool {
    let mut depth = 0_i32;
    word.chars().any(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth <= 0
    })
}
