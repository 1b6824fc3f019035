//! The nearest of some names, for "did you mean".

use std::cmp::Reverse;

/// The comparison takes time proportional to the product of the lengths, and longer texts are not misspelt names.
const LONGEST: usize = 80;

/// The name with the fewest edits to `written` (case does not count), if it is near enough to be meant: insertions,
/// deletions, substitutions and swaps of neighbours, up to a third of the longer of the two. Of names that are as near, one of which more
/// is written from its beginning on.
pub fn nearest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    let length = written.chars().count();
    if length > LONGEST {
        return None;
    }
    names
        .into_iter()
        .map(|name| (strsim::osa_distance(&written, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= name.chars().count().max(length) / 3)
        .min_by_key(|(distance, name)| (*distance, Reverse(same_beginning(&written, name))))
        .map(|(_, name)| name)
}

/// How many characters are the same from the beginning on.
fn same_beginning(written: &str, name: &str) -> usize {
    written.chars().zip(name.to_lowercase().chars()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_suggested() {
        let names = ["ext4", "kvm", "xfs", "hdd"];
        assert_eq!(nearest("EXT4", names), Some("ext4"));
        assert_eq!(nearest("kmv", names), Some("kvm"));
        assert_eq!(nearest("zfs", names), Some("xfs"));
        assert_eq!(nearest("vmware", names), None);
        assert_eq!(nearest("foo", ["loop"]), None);
        assert_eq!(nearest("nvm", ["kvm", "nvme"]), Some("nvme"));
        assert_eq!(nearest(&"x".repeat(1000), names), None);
    }
}
