//! Reading protocol buffers without knowing what they mean, and Perfetto's packets with it.

use std::collections::HashMap;

/// A field's value as it stands on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Number(u64),
    Fixed64(u64),
    Bytes(Vec<u8>),
}

/// The fields of a message in their order; panics where the bytes are no message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<(u32, Value)>);

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a varint ends within the message");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a varint has at most ten bytes")
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

impl Fields {
    pub fn parse(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => Value::Number(varint(&mut bytes)),
                1 => Value::Fixed64(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    Value::Bytes(take(&mut bytes, length).to_vec())
                }
                other => panic!("wire type {other}"),
            };
            fields.push(((key >> 3) as u32, value));
        }
        Self(fields)
    }

    pub fn number(&self, field: u32) -> Option<u64> {
        self.0.iter().find_map(|(f, v)| match v {
            Value::Number(number) if *f == field => Some(*number),
            _ => None,
        })
    }

    pub fn fixed64(&self, field: u32) -> Vec<u64> {
        let all = self.0.iter().filter_map(|(f, v)| match v {
            Value::Fixed64(number) if *f == field => Some(*number),
            _ => None,
        });
        all.collect()
    }

    pub fn bytes(&self, field: u32) -> Vec<&[u8]> {
        let all = self.0.iter().filter_map(|(f, v)| match v {
            Value::Bytes(bytes) if *f == field => Some(bytes.as_slice()),
            _ => None,
        });
        all.collect()
    }

    pub fn messages(&self, field: u32) -> Vec<Self> {
        self.bytes(field).into_iter().map(Self::parse).collect()
    }

    pub fn message(&self, field: u32) -> Option<Self> {
        self.messages(field).into_iter().next()
    }

    pub fn text(&self, field: u32) -> Option<String> {
        self.bytes(field).first().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }
}

/// A slice as a viewer would show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub process: String,
    pub track: String,
    pub name: String,
    pub category: String,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub annotations: Vec<(String, String)>,
    pub flows: Vec<u64>,
}

/// What a viewer would show.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    pub slices: Vec<Slice>,
    /// Process, time, value.
    pub depths: Vec<(String, u64, u64)>,
    pub clocks: Vec<(u64, u64)>,
    pub primary_clock: u64,
}

/// Understands a file as Perfetto's importer does, by the numbers of its `.proto` files, and panics on whatever that
/// would count as an error: texts and tracks that were not introduced, time that runs backwards on a sequence, slices
/// that overlap on a track or are not closed.
pub fn show(bytes: &[u8]) -> Shown {
    let mut shown = Shown::default();
    let mut tracks: HashMap<u64, (u64, String)> = HashMap::new();
    let mut interned: HashMap<(u64, u32, u64), String> = HashMap::new();
    let mut open: HashMap<u64, usize> = HashMap::new();
    let mut last_time: HashMap<u64, u64> = HashMap::new();
    let mut defaults: HashMap<u64, u64> = HashMap::new();
    for packet in Fields::parse(bytes).messages(1) {
        let sequence = packet.number(10).expect("every packet has a sequence");
        assert!(sequence != 0);
        if let Some(snapshot) = packet.message(6) {
            let clock = |c: &Fields| (c.number(1).unwrap(), c.number(2).unwrap());
            shown.clocks = snapshot.messages(1).iter().map(clock).collect();
            shown.primary_clock = snapshot.number(2).unwrap();
        }
        if packet.number(13) == Some(1) {
            assert_eq!(packet.number(87), Some(1));
            defaults.insert(sequence, packet.message(59).unwrap().number(58).unwrap());
        }
        if let Some(descriptor) = packet.message(60) {
            let name = descriptor.message(3).map_or_else(|| descriptor.text(2), |p| p.text(6)).unwrap();
            let parent = descriptor.number(5).unwrap_or(0);
            assert!(parent == 0 || tracks.contains_key(&parent), "a track is introduced after its parent");
            let known = tracks.insert(descriptor.number(1).unwrap(), (parent, name));
            assert_eq!(known, None, "a track is introduced once");
        }
        if let Some(data) = packet.message(12) {
            assert_eq!(packet.number(13), Some(2));
            for (table, entry) in &data.0 {
                let Value::Bytes(entry) = entry else { panic!("an entry is a message") };
                let entry = Fields::parse(entry);
                let known =
                    interned.insert((sequence, *table, entry.number(1).unwrap()), entry.text(2).unwrap());
                assert_eq!(known, None, "a text is introduced once");
            }
        }
        let Some(event) = packet.message(11) else { continue };
        assert_eq!(
            (packet.number(13), defaults[&sequence]),
            (Some(2), 3),
            "texts and clock of the sequence hold"
        );
        let time = packet.number(8).unwrap();
        assert!(last_time.insert(sequence, time).is_none_or(|last| last <= time), "time goes on");
        let track = event.number(11).unwrap();
        let (parent, track_name) = tracks[&track].clone();
        let process = tracks[&parent].1.clone();
        let text = |table: u32, number: u64| interned[&(sequence, table, number)].clone();
        match event.number(9) {
            Some(1) => {
                let annotation = |a: &Fields| {
                    let value =
                        a.number(17).map_or_else(|| a.number(3).unwrap().to_string(), |n| text(29, n));
                    (text(3, a.number(1).unwrap()), value)
                };
                shown.slices.push(Slice {
                    process,
                    track: track_name,
                    name: text(2, event.number(10).unwrap()),
                    category: text(1, event.number(3).unwrap()),
                    begin_ns: time,
                    end_ns: u64::MAX,
                    annotations: event.messages(4).iter().map(annotation).collect(),
                    flows: event.fixed64(47),
                });
                let overlapping = open.insert(track, shown.slices.len() - 1);
                assert_eq!(overlapping, None, "slices of a track do not overlap");
            }
            Some(2) => shown.slices[open.remove(&track).expect("what ends has begun")].end_ns = time,
            Some(4) => shown.depths.push((process, time, event.number(30).unwrap())),
            other => panic!("event of type {other:?}"),
        }
    }
    assert!(open.is_empty(), "every slice ends");
    shown
}
