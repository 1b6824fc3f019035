//! The nearest of some names, for "did you mean".

/// The candidate with the fewest edits to `written` (case does not count), if it is near enough to be meant.
pub(crate) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer texts are no misspelt names.
    const LONGEST: usize = 32;
    let written: Vec<char> = written.to_lowercase().chars().take(LONGEST + 1).collect();
    if written.len() > LONGEST {
        return None;
    }
    candidates
        .into_iter()
        .map(|name| (edit_distance(&written, &name.to_lowercase().chars().collect::<Vec<_>>()), name))
        .filter(|(distance, name)| *distance <= if name.len() <= 4 { 1 } else { 2 })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Insertions, deletions, substitutions and swaps of neighbours between two words (optimal string alignment).
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut before_previous = vec![0; b.len() + 1];
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut current = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substitution = previous[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            current[j] = substitution.min(previous[j] + 1).min(current[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                current[j] = current[j].min(before_previous[j - 2] + 1);
            }
        }
        before_previous = previous;
        previous = current;
    }
    previous[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_known() {
        let distance =
            |a: &str, b: &str| edit_distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kmv", "kvm"), 1);
        assert_eq!(distance("xfs", "xfs"), 0);
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let names = ["ext4", "kvm", "xfs", "hdd"];
        assert_eq!(nearest("EXT4", names), Some("ext4"));
        assert_eq!(nearest("kmv", names), Some("kvm"));
        assert_eq!(nearest("zfs", names), Some("xfs"));
        assert_eq!(nearest("vmware", names), None);
        assert_eq!(nearest("foo", ["loop"]), None);
        assert_eq!(nearest(&"x".repeat(1000), names), None);
    }
}
