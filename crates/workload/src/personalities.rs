//! The scripts of Filebench's language that come with this program: the files in `workloads/`.

/// Name and text of each.
const PERSONALITIES: &[(&str, &str)] = &[
    ("fileserver", include_str!("../../../workloads/fileserver.f")),
    ("webserver", include_str!("../../../workloads/webserver.f")),
    ("mailserver", include_str!("../../../workloads/mailserver.f")),
    ("dbserver", include_str!("../../../workloads/dbserver.f")),
    ("create-tree", include_str!("../../../workloads/create-tree.f")),
    ("stat-tree", include_str!("../../../workloads/stat-tree.f")),
    ("nas-seq-write", include_str!("../../../workloads/nas-seq-write.f")),
    ("nas-rand-read", include_str!("../../../workloads/nas-rand-read.f")),
];

/// The text of a script, by its name without `.f`.
pub fn personality(name: &str) -> Option<&'static str> {
    PERSONALITIES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// All names.
pub fn personality_names() -> Vec<&'static str> {
    PERSONALITIES.iter().map(|(name, _)| *name).collect()
}
