//! Calls as requests on a file, as the levels of a request's path are: at the client and at the server.

use std::collections::{BTreeMap, HashMap};

use nestor_layout::Class;

use super::{Access, Call, JoinedCalls};
use crate::event::Flags;
use crate::file_extents::FileExtents;
use crate::request::{Operation, Request};
use crate::rpc::CallKind;

/// The calls that read, write or commit files, at both ends, each in the order of completion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallRequests {
    /// From when the client issued a call until it was done with it.
    pub client: Vec<Request>,
    /// From when the server received it until it sent the reply.
    pub server: Vec<Request>,
    /// Accesses that have no place in the space of the requests.
    pub unplaced: u64,
}

impl CallRequests {
    /// Requests on the file of which most bytes were read and written: those of other files have no place. Nothing if none was.
    pub fn on_main_file(joined: &JoinedCalls<'_>) -> Self {
        let main = main_file(joined.accesses);
        Self::placed(joined, |access| match Some(access.file) == main {
            true => vec![(access.offset, u64::from(access.bytes))],
            false => Vec::new(),
        })
    }

    /// Requests on the device of the server's file system. `files` are the places of its files, by the hashes of their handles.
    pub fn on_device(joined: &JoinedCalls<'_>, files: &HashMap<u32, FileExtents>) -> Self {
        Self::placed(joined, |access| {
            files
                .get(&access.file)
                .map_or_else(Vec::new, |file| file.parts(access.offset, access.bytes.into()))
        })
    }

    /// `parts` says where what an access moves lies: offset and bytes.
    fn placed(joined: &JoinedCalls<'_>, parts: impl Fn(&Access) -> Vec<(u64, u64)>) -> Self {
        let mut found = Self::default();
        for call in &joined.calls {
            found.add(call, &parts);
        }
        if found.client.iter().all(|request| request.operation == Operation::Flush) {
            // Commits alone are of nothing that has a place.
            return Self { unplaced: found.unplaced, ..Self::default() };
        }
        number(&mut found.client);
        number(&mut found.server);
        found
    }

    fn add(&mut self, call: &Call<'_>, parts_of: impl Fn(&Access) -> Vec<(u64, u64)>) {
        let mut parts = Vec::new();
        if CallKind::of(&call.client.procedure) == CallKind::Commit {
            // Which range it commits is not traced.
            parts.push(Part { operation: Operation::Flush, offset: 0, bytes: 0, began_ns: None });
        } else {
            for access in &call.accesses {
                let placed = Part::of(access, parts_of(access));
                self.unplaced += u64::from(placed.is_empty());
                parts.extend(placed);
            }
        }
        for part in parts {
            let client = call.client;
            let queued_ns = client.over_ns.saturating_sub(client.whole_ns);
            let issued_ns = queued_ns.saturating_add(client.queue_ns).min(client.over_ns);
            self.client.push(part.request([queued_ns, issued_ns, client.over_ns]));
            if let Some(server) = call.server {
                let received_ns = server.replied_ns.saturating_sub(server.service_ns);
                let began_ns = part.began_ns.unwrap_or(received_ns).clamp(received_ns, server.replied_ns);
                self.server.push(part.request([received_ns, began_ns, server.replied_ns]));
            }
        }
    }
}

/// What a call does.
struct Part {
    operation: Operation,
    offset: u64,
    bytes: u64,
    /// When the server's file system was asked for it.
    began_ns: Option<u64>,
}

impl Part {
    /// What an access does at places.
    fn of(access: &Access, places: Vec<(u64, u64)>) -> Vec<Self> {
        let operation = match access.kind {
            CallKind::Read => Operation::Read,
            CallKind::Write => Operation::Write,
            CallKind::Commit | CallKind::Metadata | CallKind::Session => return Vec::new(),
        };
        let part = |(offset, bytes)| Self { operation, offset, bytes, began_ns: Some(access.began_ns) };
        places.into_iter().map(part).collect()
    }

    fn request(&self, [queued_ns, issued_ns, completed_ns]: [u64; 3]) -> Request {
        Request {
            id: 0,
            operation: self.operation,
            flags: Flags::default(),
            class: Class::Unknown,
            offset: self.offset,
            bytes: self.bytes,
            queued_ns,
            issued_ns,
            completed_ns,
            bios: 1,
            pid: 0,
        }
    }
}

/// The file of most bytes; of two, the one with the smaller number.
fn main_file(accesses: &[Access]) -> Option<u32> {
    let mut bytes: BTreeMap<u32, u64> = BTreeMap::new();
    for access in accesses {
        *bytes.entry(access.file).or_default() += u64::from(access.bytes);
    }
    bytes.into_iter().rev().max_by_key(|(_, bytes)| *bytes).map(|(file, _)| file)
}

/// Puts requests into the order of completion and numbers them in it.
fn number(requests: &mut [Request]) {
    requests.sort_by_key(|request| (request.completed_ns, request.queued_ns, request.offset));
    for (id, request) in requests.iter_mut().enumerate() {
        request.id = id as u64;
    }
}
