//! Numbers of the fields of Perfetto's messages that are written here, from the files named with each group in
//! `protos/perfetto` of Perfetto's sources (as of version 59).

/// `trace/trace.proto`
pub(super) mod trace {
    pub const PACKET: u32 = 1;
}

/// `trace/trace_packet.proto`
pub(super) mod packet {
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED_DATA: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const DEFAULTS: u32 = 59;
    pub const TRACK_DESCRIPTOR: u32 = 60;
    pub const FIRST_ON_SEQUENCE: u32 = 87;
    /// `SEQ_INCREMENTAL_STATE_CLEARED`: nothing that came before is meant by numbers of interned texts.
    pub const STATE_CLEARED: u64 = 1;
    /// `SEQ_NEEDS_INCREMENTAL_STATE`: what came before is needed.
    pub const NEEDS_STATE: u64 = 2;
}

/// `trace/trace_packet_defaults.proto`
pub(super) mod defaults {
    pub const TIMESTAMP_CLOCK: u32 = 58;
}

/// `trace/clock_snapshot.proto` and `common/builtin_clock.proto`
pub(super) mod clock {
    pub const CLOCKS: u32 = 1;
    pub const PRIMARY: u32 = 2;
    pub const CLOCK_ID: u32 = 1;
    pub const CLOCK_TIMESTAMP: u32 = 2;
    pub const REALTIME: u64 = 1;
    pub const MONOTONIC: u64 = 3;
}

/// `trace/track_event/track_descriptor.proto`, `process_descriptor.proto`, `counter_descriptor.proto`
pub(super) mod track {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PROCESS: u32 = 3;
    pub const PARENT: u32 = 5;
    pub const COUNTER: u32 = 8;
    pub const CHILD_ORDERING: u32 = 11;
    pub const RANK: u32 = 12;
    /// `ChildTracksOrdering.EXPLICIT`: children stand by their rank.
    pub const EXPLICIT: u64 = 3;
    pub const PROCESS_PID: u32 = 1;
    pub const PROCESS_NAME: u32 = 6;
    pub const COUNTER_UNIT: u32 = 3;
    /// `CounterDescriptor.Unit.UNIT_COUNT`
    pub const UNIT_COUNT: u64 = 2;
}

/// `trace/track_event/track_event.proto`
pub(super) mod event {
    pub const CATEGORY_IIDS: u32 = 3;
    pub const DEBUG_ANNOTATIONS: u32 = 4;
    pub const TYPE: u32 = 9;
    pub const NAME_IID: u32 = 10;
    pub const TRACK: u32 = 11;
    pub const COUNTER_VALUE: u32 = 30;
    pub const FLOW_IDS: u32 = 47;
    /// `TYPE_SLICE_BEGIN`
    pub const BEGIN: u64 = 1;
    /// `TYPE_SLICE_END`
    pub const END: u64 = 2;
    /// `TYPE_COUNTER`
    pub const COUNTER: u64 = 4;
}

/// `trace/track_event/debug_annotation.proto`
pub(super) mod annotation {
    pub const NAME_IID: u32 = 1;
    pub const UINT: u32 = 3;
    pub const STRING_IID: u32 = 17;
}

/// `trace/interned_data/interned_data.proto`; each entry has its number in field 1 and its text in field 2
pub(super) mod interned {
    pub const CATEGORIES: u32 = 1;
    pub const NAMES: u32 = 2;
    pub const ANNOTATION_NAMES: u32 = 3;
    pub const ANNOTATION_STRINGS: u32 = 29;
    pub const IID: u32 = 1;
    pub const TEXT: u32 = 2;
}
