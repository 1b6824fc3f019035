//! How far joins agree with the truth.

use serde::{Deserialize, Serialize};

/// How far joins and marks agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    /// Runs of marked sectors whose request was joined up to the top.
    pub checked: u64,
    /// Those of them that reach the request that the mark tells of.
    pub agreeing: u64,
    /// Of the checked runs, those joined by place and order somewhere on their way, because nothing waited for them.
    #[serde(default)]
    pub by_content: u64,
    /// Those of them that agree.
    #[serde(default)]
    pub by_content_agreeing: u64,
    /// Runs that tell nothing of who asked for them: written again as the disk had them, or read to be completed by a write of a part.
    #[serde(default)]
    pub beside: u64,
    /// Runs whose request has no ancestor at the top (written back, read ahead, unknown).
    pub without_ancestor: u64,
    /// Runs whose mark or request is not known: from before the recording.
    pub unknown: u64,
    /// Some disagreements.
    pub examples: Vec<String>,
}

impl Agreement {
    /// In words, with the numbers.
    pub fn to_text(&self) -> String {
        let Some(share) = self.share() else {
            return "no marked data reached the disk, so the joins cannot be checked".to_owned();
        };
        let by_content = match self.by_content {
            0 => String::new(),
            all => format!(", {} of {all} of those by place and order", self.by_content_agreeing),
        };
        let beside = match self.beside {
            0 => String::new(),
            beside => format!("; {beside} more were moved beside what was asked for, to make whole blocks"),
        };
        format!(
            "the marks in the data say that {:.2} % of the joins are true ({} of {}{by_content}); {} more \
             reached the disk without a guest request that they could be joined with{beside}",
            100.0 * share,
            self.agreeing,
            self.checked,
            self.without_ancestor
        )
    }

    /// Share (0 to 1) of the checked runs that agree; `None` without any.
    pub fn share(&self) -> Option<f64> {
        (self.checked > 0).then(|| self.agreeing as f64 / self.checked as f64)
    }
}
